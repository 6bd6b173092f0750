// One store, written by processes of every language at the same time.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openStore } from '../node/lib/index.mjs'
import { Lines, WORKERS, cli, contend, folder } from '../node/test/harness.mjs'
import { lines } from '../node/test/lines.mjs'

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

test('readers of other languages keep what they see, and miss no commit, through ten compactions', async (t) => {
  const path = folder()
  const store = await openStore(path, { segmentSize: 8 << 10, label: 'writer' })
  const workspace = await store.workspace('key:shared')
  const { tasks, documents } = workspace
  const ids = ['a', 'b', 'c', 'd', 'e']
  for (const id of ids) await tasks.create({ id, task: `task ${id}`, tokensIn: 0, ts: 0 })
  await documents.put('settings', { round: -1 })
  const readers = { node: await opened('node', path), python: await opened('python', path) }
  t.after(() => Promise.all(Object.values(readers).map((worker) => worker.kill())))
  const ask = (request) => Promise.all(Object.values(readers).map((worker) => worker.ask(request)))
  await ask({ do: 'listen' })
  let [compactions, step] = [0, 0]
  for (let round = 0; compactions < 10; round++) {
    assert.ok(round < 60, `${compactions} compactions in ${round} rounds`)
    let last
    for (let n = 0; n < 100; n++) {
      step += 1
      const set = { tokensIn: step, ts: step, ...(n % 25 === 0 ? { mode: `mode ${step}` } : {}) }
      last = await tasks.patch(ids[step % ids.length], { set }, { durability: 'buffered' })
    }
    last = await documents.put('settings', { round }, { durability: 'buffered' })
    // They are in the middle of the log while it is written anew.
    const hearing = ask({ do: 'hear', count: 101 })
    const { segments } = await workspace.compact()
    if (segments > 0) compactions += 1
    for (const { ok } of await hearing) assert.deepEqual(ok, { last: last.seq, changes: 101 })
    const mine = ids.map((id) => tasks.get(id)).map(({ item, revision }) => ({ item, revision }))
    for (const { ok } of await ask({ do: 'all', document: 'settings' })) {
      assert.deepEqual(ok, { tasks: mine, value: { round } }, `after ${compactions} compactions`)
    }
  }
  for (const answer of await ask({ do: 'beginning' })) assert.equal(answer.error, 'trimmed')
  // Who opens now, in whatever language, sees the same.
  for (const language of LANGUAGES) {
    const worker = await opened(language, path)
    const { item, revision } = (await worker.ask({ do: 'get', id: 'c' })).ok
    assert.deepEqual([item.tokensIn, revision], [tasks.get('c').item.tokensIn, tasks.get('c').revision], language)
    await closed(worker)
  }
  await Promise.all(Object.values(readers).map(closed))
  await store.close()
})

/** `foldlog pipe`, whose lines are written and read as texts: no parser of ours comes near a value. */
class SpellingPipe {
  #child
  #lines
  async ask({ do: act, store, id, text }) {
    if (act === 'open') {
      this.#child = spawn(cli(), ['pipe', '--store', store, '--workspace', 'key:shared'], { stdio: ['pipe', 'pipe', 'inherit'] })
      this.#lines = lines(this.#child.stdout)
      return { ok: {} }
    }
    if (act === 'spell') {
      const line = await this.#line(`{"op":"create","item":{"id":"${id}","v":${text}}}`)
      return line.startsWith('{"id":null,"ok":') ? { ok: {} } : { error: line }
    }
    const line = await this.#line(`{"op":"get","task":"${id}"}`)
    const [, item] = /^\{"id":null,"ok":\{"item":(.*),"revision":1,"seq":/s.exec(line) ?? []
    return { ok: item ?? line }
  }
  async #line(request) {
    this.#child.stdin.write(`${request}\n`)
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('the pipe has ended')
    return value
  }
  kill() {
    this.#child?.kill('SIGKILL')
  }
}

test('a value of the corpus that one language writes every other one reads as it is spelled, letter by letter', async (t) => {
  const path = folder()
  const values = JSON.parse(readFileSync(join(here, '../corpus/values.json'), 'utf8'))
  assert.ok(values.length > 30, `${values.length}`)
  const all = {
    node: new Lines(process.execPath, [join(here, 'spell.mjs')]),
    pipe: new SpellingPipe(),
    python: ALL.python(),
    rust: ALL.rust(),
  }
  // Whoever is left would keep the run from ending.
  t.after(() => Promise.all(Object.values(all).map((worker) => worker.kill())))
  for (const worker of Object.values(all)) assert.deepEqual(await worker.ask({ do: 'open', store: path }), { ok: {} })
  for (const [writer, worker] of Object.entries(all)) {
    for (const [n, text] of values.entries()) {
      const id = `${writer}-${n}`
      assert.deepEqual(await worker.ask({ do: 'spell', id, text }), { ok: {} }, `${writer} writes ${text}`)
      const read = await Promise.all(Object.values(all).map((reader) => reader.ask({ do: 'text', id })))
      for (const [at, reader] of Object.keys(all).entries()) {
        assert.deepEqual(read[at], { ok: `{"id":"${id}","v":${text}}` }, `${reader} reads what ${writer} wrote: ${text}`)
      }
    }
  }
})
