// Documents: named JSON values with revisions, of one workspace or of the store's global home.
'use strict'

const { signalOf } = require('./tasks.js')
const { json, maybe, members, textOf } = require('./write.js')

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

class Documents {
  #wire
  #store
  #where
  #commit

  /** `where`: members that say which home is meant. `commit`: makes changes in it. */
  constructor(wire, store, where, commit) {
    this.#wire = wire
    this.#store = store
    this.#where = where
    this.#commit = commit
  }

  async #ask(op, parts, options) {
    const signal = signalOf(options)
    const request = members(members(`{"op":"${op}"`, this.#where), parts) + '}'
    return JSON.parse(await this.#wire.job(signal, (job, cancellable) => this.#store.request(job, request, cancellable)))
  }

  async get(name, options) {
    try {
      return document(await this.#ask('doc_get', { name: textOf('name', name) }, options))
    } catch (error) {
      // A home that nobody has put anything into yet has none.
      const hasNone = ['document-deleted', 'no-document'].includes(error.code) || (error.code === 'not-found' && this.#where.global)
      if (hasNone) return undefined
      throw error
    }
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
    return this.#commit([op], expect === undefined ? rest : { ...rest, expectDocuments: { [op.name]: expect } })
  }
}

module.exports = { Documents }
