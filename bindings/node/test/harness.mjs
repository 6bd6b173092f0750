// What the tests share: folders that go away, and workers in other processes, whatever their language.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { lines } from './lines.mjs'

const here = dirname(fileURLToPath(import.meta.url))

/** A folder that is removed when the tests of this file have ended. Of one that `keeps` a loaded addon, Windows may leave that. */
export function folder({ keeps = false } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'foldlog-node-'))
  after(() => {
    try {
      rmSync(dir, { recursive: true, force: true, maxRetries: keeps ? 0 : 5 })
    } catch (error) {
      if (!(keeps && process.platform === 'win32')) throw error
    }
  })
  return dir
}

export class Lines {
  constructor(command, args) {
    this.child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    this.lines = lines(this.child.stdout)
    this.exited = new Promise((resolve) => this.child.once('exit', (code, signal) => resolve({ code, signal })))
  }
  send(request) {
    this.child.stdin.write(`${JSON.stringify(request)}\n`)
  }
  async line() {
    const { value, done } = await this.lines.next()
    if (done) throw new Error('the worker has ended')
    return JSON.parse(value)
  }
  async ask(request) {
    this.send(request)
    return this.line()
  }
  async kill() {
    this.child.kill('SIGKILL')
    await this.exited
  }
  async end() {
    this.child.stdin.end()
    return this.exited
  }
}

/** A worker of this package's. */
class NodeWorker extends Lines {
  constructor() {
    super(process.execPath, [join(here, 'worker.mjs')])
  }
}

/** `foldlog pipe`, which speaks of the same things by other words. */
class PipeWorker {
  #pipe
  #store
  async ask({ do: act, store, id, item, set, expect, durability }) {
    if (act === 'open') {
      this.#pipe = new Lines(cli(), ['pipe', '--store', store, '--workspace', 'key:shared'])
      this.#store = store
      const hello = await this.#pipe.ask({ op: 'hello' })
      return hello.ok === undefined ? hello : { ok: {} }
    }
    const requests = {
      create: { op: 'create', item },
      patch: { op: 'patch', task: id, set, ...(expect === undefined ? {} : { expect: { [id]: expect } }), durability: durability ?? 'durable' },
      get: { op: 'get', task: id },
    }
    if (act === 'close') {
      await this.#pipe.end()
      return { ok: {} }
    }
    const answer = await this.#pipe.ask(requests[act])
    if (answer.error !== undefined) {
      const [conflict] = answer.conflicts ?? []
      return { error: answer.error, revision: conflict?.revision, current: conflict?.item }
    }
    if (act === 'get') return { ok: { item: answer.ok.item, revision: answer.ok.revision } }
    return { ok: { revision: answer.ok.revisions[id ?? item.id] } }
  }
  kill() {
    return this.#pipe.kill()
  }
  async end() {
    return this.#pipe.end()
  }
}

/** The command line, which `check` builds. */
export function cli() {
  const named = process.env.FOLDLOG_CLI
  if (named === undefined) throw new Error('FOLDLOG_CLI is to name the program foldlog; run bindings/node/check')
  return named
}

/** By language; another one is added here. */
export const WORKERS = { node: () => new NodeWorker(), pipe: () => new PipeWorker() }

/** Two workers on one store: distinct changes all survive; of conflicting ones one wins, and the other is told what is there. */
export async function contend(a, b, store, rounds = 20) {
  assert.deepEqual(await a.ask({ do: 'open', store }), { ok: {} })
  assert.equal((await a.ask({ do: 'create', item: { id: 't' } })).ok.revision, 1)
  assert.deepEqual(await b.ask({ do: 'open', store }), { ok: {} })
  for (let n = 1; n <= rounds; n++) {
    // Both are asked before either answers.
    const both = await Promise.all([
      a.ask({ do: 'patch', id: 't', set: { [`a${n}`]: n }, durability: 'buffered' }),
      b.ask({ do: 'patch', id: 't', set: { [`b${n}`]: n }, durability: 'buffered' }),
    ])
    assert.ok(both.every(({ error }) => error === undefined), JSON.stringify(both))
  }
  let { revision } = (await a.ask({ do: 'get', id: 't' })).ok
  assert.equal(revision, 1 + 2 * rounds)
  for (let n = 0; n < rounds; n++) {
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
    for (let n = 1; n <= rounds; n++) assert.deepEqual([item[`a${n}`], item[`b${n}`]], [n, n])
    await worker.ask({ do: 'close' })
    await worker.end()
  }
}
