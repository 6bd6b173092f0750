// One store, written by processes of every language at the same time.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
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
