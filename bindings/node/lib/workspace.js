// One workspace: its tasks, its log's health, and what changes in it.
'use strict'

const errors = require('./errors.js')
const { Documents } = require('./documents.js')
const { Tasks, signalOf } = require('./tasks.js')
const { call, signalIn } = require('./wire.js')
const { keepIn, textOf } = require('./write.js')

function update({ commit, health }) {
  if (health !== undefined) return { kind: 'health', health }
  const named = (all) => all.map(({ op_id, ...rest }) => ({ ...rest, opId: op_id ?? undefined }))
  const [changes, documents] = [named(commit.changes), named(commit.documents ?? [])]
  return { kind: 'commit', commit: { ...commit, session: commit.session ?? undefined, changes, documents } }
}

/** What a subscription brings, one update at a time. */
class Updates {
  #wire
  #follow
  #ready = []
  #cursor
  #ended = false
  #signal
  #abort
  #last = Promise.resolve()

  constructor(wire, follow, signal) {
    this.#wire = wire
    this.#follow = follow
    this.#signal = signal
    if (signal !== undefined) {
      this.#abort = () => this.#follow.stop()
      if (signal.aborted) this.#abort()
      else signal.addEventListener('abort', this.#abort, { once: true })
    }
  }

  /** The place behind what was handed out so far; undefined before the first. */
  get cursor() {
    return this.#cursor
  }

  next() {
    // One after the other, as a generator's.
    const next = this.#last.then(() => this.#next())
    this.#last = next.catch(() => {})
    return next
  }

  async #next() {
    while (this.#ready.length === 0) {
      if (this.#signal?.aborted) {
        this.#over()
        throw new errors.AbortError(this.#signal)
      }
      if (this.#ended) return { value: undefined, done: true }
      let answer
      try {
        answer = JSON.parse(await this.#wire.job(undefined, (job) => this.#follow.pull(job)))
      } catch (error) {
        this.#over()
        if (this.#signal?.aborted) throw new errors.AbortError(this.#signal)
        if (error.code === 'closed') return { value: undefined, done: true }
        throw error
      }
      this.#ready = answer.updates.map(update)
      if (answer.ended) this.#over()
    }
    const value = this.#ready.shift()
    if (value.kind === 'commit') this.#cursor = value.commit.cursor
    return { value, done: false }
  }

  #over() {
    this.#ended = true
    this.#signal?.removeEventListener('abort', this.#abort)
  }

  async return(value) {
    this.#over()
    this.#ready = []
    this.#follow.stop()
    return { value, done: true }
  }

  [Symbol.asyncIterator]() {
    return this
  }

  async [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]() {
    await this.return()
  }
}

class Workspace {
  #wire
  #home
  #closing
  /** Those who are told of updates, by kind. */
  #listeners = { commit: new Set(), health: new Set() }
  #follow

  constructor(wire, home, store) {
    this.#wire = wire
    this.#home = home
    this.name = home.name()
    this.tasks = new Tasks(wire, home)
    const where = { workspace: JSON.stringify(this.name) }
    this.documents = new Documents(wire, store, where, (ops, options) => this.tasks.commit(ops, options))
    /** VS Code's Event: `(listener, thisArgs?, disposables?) => Disposable`. */
    this.onDidChange = this.#event('commit')
    this.onDidChangeHealth = this.#event('health')
  }

  commit(ops, options) {
    return this.tasks.commit(ops, options)
  }

  subscribe(options = {}) {
    for (const key in options) {
      if (!['from', 'durable', 'signal'].includes(key)) throw new TypeError(`there is no option ${key}`)
    }
    const { from = 'now', durable = false } = options
    const signal = signalIn(options)
    textOf('from', from)
    return new Updates(this.#wire, call(() => this.#home.follow(from, durable)), signal)
  }

  #event(kind) {
    return (listener, thisArgs, disposables) => {
      const entry = { listener, thisArgs }
      this.#listeners[kind].add(entry)
      this.#listen()
      const disposable = {
        dispose: () => {
          this.#listeners[kind].delete(entry)
          if (this.#listeners.commit.size + this.#listeners.health.size === 0) this.#deaf()
        },
      }
      disposables?.push(disposable)
      return disposable
    }
  }

  #listen() {
    if (this.#follow !== undefined || this.#closing !== undefined) return
    const follow = call(() => this.#home.follow('now', false))
    this.#follow = follow
    this.#serve(follow)
  }

  /** Tells listeners as long as there are any. Waiting for news keeps no process alive. */
  async #serve(follow) {
    const wire = this.#wire
    while (this.#follow === follow) {
      let answer
      try {
        answer = JSON.parse(await wire.quietly((job) => follow.pull(job)))
      } catch (error) {
        if (this.#follow !== follow || error.code === 'closed') return
        // Where the history it stood in has ended, it goes on in the new one.
        this.#follow = undefined
        try {
          if (['rewound', 'trimmed'].includes(error.code)) this.#listen()
          else this.#tell('health', { ...this.health(), error })
        } catch {
          // It was closed meanwhile, and whoever did that knows.
        }
        return
      }
      for (const one of answer.updates.map(update)) this.#tell(one.kind, one[one.kind])
      if (answer.ended) return
    }
  }

  #tell(kind, event) {
    for (const { listener, thisArgs } of [...this.#listeners[kind]]) {
      try {
        listener.call(thisArgs, event)
      } catch (error) {
        // As an event emitter's: it is nobody's who commits.
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }

  #deaf() {
    const follow = this.#follow
    this.#follow = undefined
    follow?.stop()
  }

  async flush(options) {
    const signal = signalOf(options)
    await this.#wire.job(signal, (job, cancellable) => this.#home.flush(job, cancellable), true)
  }

  async compact(options) {
    const signal = signalOf(options)
    const told = await this.#wire.job(signal, (job, cancellable) => this.#home.compact(job, cancellable), true)
    const { segments, bytes_before: bytesBefore, bytes_after: bytesAfter, dropped, horizon } = JSON.parse(told)
    return { segments, bytesBefore, bytesAfter, dropped, horizon }
  }

  setRetention(keep, options) {
    return this.tasks.setRetention(undefined, keep, options)
  }

  retention() {
    const { workspace, tasks, pinned } = JSON.parse(call(() => this.#home.retention()))
    const own = Object.entries(tasks).map(([id, keep]) => [id, keepIn(keep)])
    return { workspace: keepIn(workspace), tasks: new Map(own), pinned }
  }

  async waitDurable(receipt, options = {}) {
    const { timeoutMs = 10_000, ...rest } = options
    if (!(timeoutMs >= 0)) throw new TypeError(`timeoutMs is to be a number of milliseconds, or Infinity, not ${String(timeoutMs)}`)
    const ticket = typeof receipt === 'string' ? receipt : receipt?.ticket
    if (typeof ticket !== 'string') throw new TypeError('waitDurable takes a receipt or its ticket')
    const wait = (job, cancellable) => this.#home.waitDurable(job, ticket, timeoutMs, cancellable)
    await this.#wire.job(signalOf(rest), wait, true)
  }

  health() {
    return JSON.parse(call(() => this.#home.health()))
  }

  close() {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close() {
    this.#deaf()
    await this.#wire.job(undefined, (job) => this.#home.close(job))
  }
}
Object.defineProperty(Workspace.prototype, Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose'), {
  value() {
    return this.close()
  },
})

module.exports = { Workspace }
