// One store, written by processes of every language at the same time.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Lines, WORKERS, contend, folder } from '../node/test/harness.mjs'

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
  test(`${first} and ${second}: distinct changes all survive, of conflicting ones one wins and one is told`, () =>
    contend(ALL[first](), ALL[second](), folder()))
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
