// One store, written by processes of every language at the same time.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Lines, WORKERS, folder } from '../node/test/harness.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const named = (name) => process.env[name] ?? assert.fail(`${name} is not set; run bindings/mixed/check`)
const ALL = {
  ...WORKERS,
  python: () => new Lines(named('FOLDLOG_PYTHON'), [join(here, 'worker.py')]),
  rust: () => new Lines(named('FOLDLOG_RUST_WORKER'), []),
}
const LANGUAGES = Object.keys(ALL)
const pairs = LANGUAGES.flatMap((a, n) => LANGUAGES.slice(n).map((b) => [a, b]))

const opened = async (language, store) => {
  const worker = ALL[language]()
  assert.deepEqual(await worker.ask({ do: 'open', store }), { ok: {} })
  return worker
}
const closed = async (worker) => {
  await worker.ask({ do: 'close' })
  await worker.end()
}

for (const [first, second] of pairs) {
  test(`${first} and ${second}: distinct changes all survive, of conflicting ones one wins and one is told`, async () => {
    const path = folder()
    const a = await opened(first, path)
    assert.equal((await a.ask({ do: 'create', item: { id: 't' } })).ok.revision, 1)
    const b = await opened(second, path)
    for (let n = 1; n <= 20; n++) {
      // Both are asked before either answers.
      const both = await Promise.all([
        a.ask({ do: 'patch', id: 't', set: { [`a${n}`]: n }, durability: 'buffered' }),
        b.ask({ do: 'patch', id: 't', set: { [`b${n}`]: n }, durability: 'buffered' }),
      ])
      assert.ok(both.every(({ error }) => error === undefined), JSON.stringify(both))
    }
    let { revision } = (await a.ask({ do: 'get', id: 't' })).ok
    assert.equal(revision, 41)
    for (let n = 0; n < 20; n++) {
      const both = await Promise.all([
        a.ask({ do: 'patch', id: 't', set: { who: `a${n}` }, expect: revision }),
        b.ask({ do: 'patch', id: 't', set: { who: `b${n}` }, expect: revision }),
      ])
      const [won, lost] = both[0].error === undefined ? both : [both[1], both[0]]
      revision += 1
      assert.deepEqual([won.ok.revision, lost.error, lost.revision], [revision, 'conflict', revision])
      assert.equal(lost.current.who, both[0] === won ? `a${n}` : `b${n}`)
    }
    for (const worker of [a, b]) {
      const { item } = (await worker.ask({ do: 'get', id: 't' })).ok
      for (let n = 1; n <= 20; n++) assert.deepEqual([item[`a${n}`], item[`b${n}`]], [n, n])
    }
    await closed(a)
    await closed(b)
  })
}

test('all of them at once, and each is killed in its commits: the others go on, and what was acknowledged is there', async () => {
  const path = folder()
  const looks = await opened('node', path)
  await looks.ask({ do: 'create', item: { id: 't' } })
  for (const language of LANGUAGES.filter((one) => one !== 'pipe')) {
    const others = await Promise.all(LANGUAGES.map((one) => opened(one, path)))
    const dies = await opened(language, path)
    dies.send({ do: 'endless', id: 't', field: language })
    let acknowledged = 0
    for (let n = 0; n < 20; n++) {
      while (acknowledged < (n + 1) * 10) acknowledged = (await dies.line()).acknowledged
      const done = await Promise.all(others.map((one, at) => one.ask({ do: 'patch', id: 't', set: { [`${language}-${at}`]: n } })))
      assert.ok(done.every(({ error }) => error === undefined), JSON.stringify(done))
    }
    await dies.kill()
    for (const [at, one] of others.entries()) {
      const done = await one.ask({ do: 'patch', id: 't', set: { [`after-${language}-${at}`]: 1 } })
      assert.equal(done.error, undefined)
      await closed(one)
    }
    const { item } = (await looks.ask({ do: 'get', id: 't' })).ok
    assert.ok(item[language] >= acknowledged)
    for (const at of LANGUAGES.keys()) assert.deepEqual([item[`${language}-${at}`], item[`after-${language}-${at}`]], [19, 1])
  }
  await closed(looks)
})

test('a value of the corpus that one language writes every other one reads as it was spelled', async () => {
  const path = folder()
  const values = JSON.parse(readFileSync(join(here, '../corpus/values.json'), 'utf8'))
  const all = Object.fromEntries(await Promise.all(['node', 'python', 'rust'].map(async (one) => [one, await opened(one, path)])))
  // What JavaScript writes as JSON is what these are asked to write: values that it spells as they are.
  const plain = values.filter((text) => JSON.stringify(JSON.parse(text)) === text)
  assert.ok(plain.length > 15, `${plain.length}`)
  for (const [writer, worker] of Object.entries(all)) {
    for (const [n, text] of plain.entries()) {
      const id = `${writer}-${n}`
      assert.equal((await worker.ask({ do: 'create', item: { id, v: JSON.parse(text) } })).error, undefined)
      for (const reader of Object.values(all)) {
        const read = JSON.parse((await reader.ask({ do: 'text', id })).ok)
        assert.deepEqual(read.v, JSON.parse(text), `${writer}: ${text}`)
      }
    }
  }
  for (const worker of Object.values(all)) await closed(worker)
})
