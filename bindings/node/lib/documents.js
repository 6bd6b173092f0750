// Documents: named JSON values with revisions, of one workspace or of the store's global home.
'use strict'

const errors = require('./errors.js')
const { signalOf } = require('./tasks.js')
const { change, json, maybe, members, textOf } = require('./write.js')

const CHANGES = new Set(['putDocument', 'patchDocument', 'deleteDocument'])
/** How often a change is judged anew where others have changed the document meanwhile. */
const TRIES_MAX = 64

function document({ from, kind, seq, time, name, value, revision, token, workspace }) {
  const found = { name, value, kind: kind ?? undefined, revision, token, seq, time, workspace }
  if (from !== undefined) found.from = from
  return found
}

function known(options, names) {
  for (const key in options) {
    if (!names.includes(key)) throw new TypeError(`there is no option ${key}; there are ${names.join(', ')}`)
  }
}

/** A program's own judgement of documents, by kind. */
class Validators {
  #of = new Map()

  set(kind, validator) {
    textOf('kind', kind)
    if (typeof validator !== 'function') throw new TypeError('a validator is a function of a name and a value')
    this.#of.set(kind, validator)
  }

  get any() {
    return this.#of.size > 0
  }

  judge(name, kind, value) {
    const validator = this.#of.get(kind)
    if (validator === undefined) return
    try {
      validator(name, value)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      const refused = new errors.classes.DocumentRefusedError({
        error: 'document-refused',
        message: `the validator of ${JSON.stringify(kind)} refuses the document ${JSON.stringify(name)}: ${reason}`,
        remedy: 'change the value as the reason says; nothing was written',
        data: { name, kind, reason },
      })
      refused.cause = cause
      throw refused
    }
  }
}

class Documents {
  #wire
  #store
  #validators
  #where
  #commit

  /** `where`: members that say which home is meant. `commit`: makes changes in it. */
  constructor(wire, store, validators, where, commit) {
    this.#wire = wire
    this.#store = store
    this.#validators = validators
    this.#where = where
    this.#commit = commit
  }

  async #ask(op, parts, options) {
    const signal = signalOf(options)
    const request = members(members(`{"op":"${op}"`, this.#where), parts) + '}'
    return JSON.parse(await this.#wire.job(signal, (job, cancellable) => this.#store.request(job, request, cancellable)))
  }

  /** The document; or whether there never was one, or it was deleted. */
  async #find(name, options) {
    try {
      return { found: document(await this.#ask('doc_get', { name: textOf('name', name) }, options)) }
    } catch (error) {
      if (error.code === 'document-deleted') return { deleted: true }
      // A home that nobody has put anything into yet has none.
      if (error.code === 'no-document' || (error.code === 'not-found' && this.#where.global)) return { deleted: false }
      throw error
    }
  }

  async get(name, options) {
    return (await this.#find(name, options)).found
  }

  async resolve(name, options) {
    if (this.#where.global) {
      const found = await this.get(name, options)
      return found && { ...found, from: 'global' }
    }
    const found = await this.#ask('doc_resolve', { name: textOf('name', name) }, options)
    return found === null ? undefined : document(found)
  }

  async list(query = {}) {
    known(query, ['prefix', 'kind', 'limit', 'after', 'signal'])
    const { prefix, kind, limit, after, signal } = query
    const parts = {
      prefix: maybe(textOf, 'prefix', prefix),
      kind: maybe(textOf, 'kind', kind),
      limit: maybe((name, value) => json(value, name), 'limit', limit),
      after: maybe(textOf, 'after', after),
    }
    let page
    try {
      page = await this.#ask('doc_list', parts, signal && { signal })
    } catch (error) {
      if (!(error.code === 'not-found' && this.#where.global)) throw error
      page = { documents: [], next: null }
    }
    return {
      documents: page.documents.map(({ kind, bytes, ...rest }) => ({ ...document({ ...rest, kind }), value: undefined, bytes })),
      next: page.next ?? undefined,
    }
  }

  async history(name, options) {
    const all = await this.#ask('doc_history', { name: textOf('name', name) }, options)
    return all.map(({ op_id, ...rest }) => ({ ...rest, opId: op_id ?? undefined }))
  }

  async put(name, value, options = {}) {
    const { kind, again, ...rest } = options
    return this.#one({ op: 'putDocument', name, value, kind, again }, rest)
  }

  async patch(name, { set, unset, ...others } = {}, options) {
    known(others, ['set', 'unset'])
    return this.#one({ op: 'patchDocument', name, set, unset }, options)
  }

  async delete(name, options) {
    return this.#one({ op: 'deleteDocument', name }, options)
  }

  /** Takes in what a JSON state file has, or writes it. */
  async sync(name, file, options = {}) {
    const { kind, ...rest } = options
    const parts = { name: textOf('name', name), file: textOf('file', file), kind: maybe(textOf, 'kind', kind) }
    const { token, ...done } = await this.#ask('doc_sync', parts, rest)
    return { ...done, token: token ?? undefined }
  }

  #one(op, options = {}) {
    const { expect, ...rest } = options
    // Only who expects it to be absent begins a deleted one anew.
    if (op.op === 'putDocument' && expect === 'absent') op.again = true
    return this.commit([op], expect === undefined ? rest : { ...rest, expectDocuments: { [op.name]: expect } })
  }

  /** Commits changes, of which some are of documents; what validators say is asked before, of just what is then written. */
  async commit(ops, options = {}) {
    for (const op of ops) change(op)
    if (!this.#validators.any) return this.#commit(ops, options)
    for (let tries = 1; ; tries++) {
      const rests = await this.#judge(ops, options)
      try {
        return await this.#commit(ops, { ...options, expectDocuments: { ...rests, ...options.expectDocuments } })
      } catch (error) {
        const mine = error.conflicts?.every(({ id }) => id in rests && !(id in (options.expectDocuments ?? {})))
        if (!mine || tries === TRIES_MAX) throw error
      }
    }
  }

  /** Judges each value as it would stand; answers what the judgement rests on. */
  async #judge(ops, options) {
    const rests = {}
    const now = new Map()
    for (const op of ops) {
      if (!CHANGES.has(op.op)) continue
      const { name } = op
      if (!now.has(name)) {
        const { found, deleted } = await this.#find(name, options.signal && { signal: options.signal })
        now.set(name, found)
        if (found !== undefined) rests[name] = found.token
        // To expect a deleted one to be absent would begin it anew.
        else if (!deleted) rests[name] = 'absent'
      }
      const before = now.get(name)
      const kind = op.kind ?? before?.kind
      let value
      if (op.op === 'putDocument') value = JSON.parse(json(op.value, 'value'))
      else if (op.op === 'patchDocument' && isObject(before?.value)) value = patched(before.value, op)
      else {
        now.set(name, op.op === 'deleteDocument' ? undefined : before)
        continue
      }
      this.#validators.judge(name, kind, value)
      now.set(name, { ...before, kind, value })
    }
    return rests
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

function patched(before, { set, unset }) {
  const after = { ...before, ...(set === undefined ? {} : JSON.parse(json(set, 'set'))) }
  for (const key of unset ?? []) delete after[key]
  return after
}

module.exports = { CHANGES, Documents, Validators }
