'use strict'

const addon = require('./addon.js')
const { copied } = require('./backup.js')
const { Documents } = require('./documents.js')
const errors = require('./errors.js')
const { signalOf } = require('./tasks.js')
const { open, call, signalIn } = require('./wire.js')
const { Workspace } = require('./workspace.js')
const { raw, textOf } = require('./write.js')

const OPTIONS = ['readOnly', 'create', 'label', 'lockTimeoutMs', 'recovery', 'segmentSize', 'trustSharedFs', 'signal']

function optionsOf(options = {}) {
  for (const key in options) {
    if (!OPTIONS.includes(key)) throw new TypeError(`there is no option ${key}; there are ${OPTIONS.join(', ')}`)
  }
  const { signal: _, ...rest } = options
  return [signalIn(options), rest]
}

class Store {
  #wire
  #native
  /** Workspaces that are open or being opened, by the text that named them and by name. */
  #named = new Map()
  #open = new Map()
  #global
  #closing
  #validators = new Map()

  constructor(wire, native, path) {
    this.#wire = wire
    this.#native = native
    this.path = path
    const commit = async (ops, options) => (await this.#globalHome()).tasks.commit(ops, options)
    /** The store's global home: its documents stand in where a workspace has none of the name. */
    this.global = Object.freeze({ documents: new Documents(wire, native, { global: true }, commit) })
  }

  #job(options, start) {
    return this.#wire.job(signalOf(options), start)
  }

  async workspace(pathOrKey, options) {
    textOf('pathOrKey', pathOrKey)
    const known = this.#named.get(pathOrKey)
    if (known !== undefined && this.#open.get(known.name) === known) return known
    const name = JSON.parse(
      await this.#job(options, (job, cancellable) => this.#native.workspace(job, pathOrKey, cancellable)),
    )
    const workspace = this.#of(name)
    this.#named.set(pathOrKey, workspace)
    return workspace
  }

  /** Asked for once, so that what is committed in it is committed in the order of the calls. */
  #globalHome() {
    if (this.#global === undefined) {
      const global = this.#wire
        .job(undefined, (job, cancellable) => this.#native.global(job, cancellable))
        .then((name) => this.#of(JSON.parse(name)))
      this.#global = global
      global.then(
        (home) => {
          // Closed by its name, it is to be opened again.
          const { close } = home
          home.close = () => {
            this.#global = undefined
            return close()
          }
        },
        () => {
          this.#global = undefined
        },
      )
    }
    return this.#global
  }

  /** Has documents of a kind judged before this program writes them; one that throws refuses. */
  validateDocuments(kind, validator) {
    textOf('kind', kind)
    if (typeof validator !== 'function') throw new TypeError('a validator is a function of a name and a value')
    const known = this.#validators.get(kind)
    if (known !== undefined) {
      known.validator = validator
      return
    }
    // It knows the entry, not the store: who forgets to close one does not keep it.
    const entry = { validator, number: undefined }
    entry.number = this.#wire.validator((name, value) => entry.validator(name, value))
    try {
      call(() => this.#native.validate(kind, entry.number))
    } catch (error) {
      this.#wire.forgetValidator(entry.number)
      throw error
    }
    this.#validators.set(kind, entry)
  }

  async workspaceOf(taskId, options) {
    textOf('taskId', taskId)
    const job = this.#job(options, (id, cancellable) => this.#native.homeOf(id, taskId, cancellable))
    return this.#of(JSON.parse(await job))
  }

  #of(name) {
    let workspace = this.#open.get(name)
    if (workspace === undefined) {
      // What was being opened when the store was closed is not begun.
      if (this.#closing !== undefined) throw errors.closed('store')
      workspace = new Workspace(this.#wire, call(() => this.#native.home(name)), this.#native)
      this.#open.set(name, workspace)
      const close = workspace.close.bind(workspace)
      workspace.close = () => {
        if (this.#open.get(name) === workspace) this.#open.delete(name)
        return close()
      }
    }
    return workspace
  }

  async workspaces(options) {
    const all = JSON.parse(await this.#job(options, (job, cancellable) => this.#native.workspaces(job, cancellable)))
    return all.map(({ bound_to, ...rest }) => ({ ...rest, boundTo: bound_to }))
  }

  async sessions(options) {
    return JSON.parse(await this.#job(options, (job, cancellable) => this.#native.sessions(job, cancellable)))
  }

  /** A complete copy of the store in a folder that is absent or empty, made while others write. */
  async backup(target, options) {
    textOf('target', target)
    return copied(this.#wire, options, (job, copying, wishes, cancellable) =>
      this.#native.backup(job, copying, target, wishes, cancellable),
    )
  }

  close() {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close() {
    const closed = await Promise.allSettled([...this.#open.values()].map((workspace) => workspace.close()))
    await this.#wire.job(undefined, (job) => this.#native.close(job))
    for (const { number } of this.#validators.values()) this.#wire.forgetValidator(number)
    const failed = closed.find(({ status }) => status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }
}
Object.defineProperty(Store.prototype, Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose'), {
  value() {
    return this.close()
  },
})

async function openStore(path, options) {
  textOf('path', path)
  const [signal, rest] = optionsOf(options)
  const wire = open()
  const native = new wire.native.Store(wire.bridge)
  await wire.job(signal, (job, cancellable) => native.open(job, path, rest, cancellable))
  return new Store(wire, native, path)
}

function openMemory(options) {
  const [, rest] = optionsOf(options)
  const wire = open()
  const native = call(() => new wire.native.Store(wire.bridge))
  call(() => native.openMemory(rest))
  return new Store(wire, native, undefined)
}

/** Makes a store of a backup, in a folder that is absent or empty. */
async function restore(backup, target, options) {
  textOf('backup', backup)
  textOf('target', target)
  const wire = open()
  return copied(wire, options, (job, copying, wishes, cancellable) =>
    wire.native.restore(wire.bridge, job, copying, backup, target, wishes, cancellable),
  )
}

function available() {
  const { native, reason, file, platform } = addon.load()
  if (native === undefined) return Object.freeze({ available: false, platform, file, reason })
  return Object.freeze({ available: true, platform, file, ...JSON.parse(native.about()) })
}

module.exports = { openStore, openMemory, restore, available, raw, FoldlogError: errors.FoldlogError, AbortError: errors.AbortError, ...errors.classes }
