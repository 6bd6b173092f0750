// The tasks of one workspace.
'use strict'

const errors = require('./errors.js')
const { call, signalIn } = require('./wire.js')
const { change, json, maybe, members, objectOf, textOf, withOptions } = require('./write.js')

/** Changes that the addon makes on a thread that may wait: it has to ask who lives, or to load a document. */
const WAITING = new Set(['attach', 'mend', 'putDocument', 'patchDocument', 'deleteDocument'])
/** A longer text is read on another thread. */
const SHORT = 1 << 16

const UNCHANGED = 0
const ABSENT = 1

/** Freezes a value that JSON.parse has made, whole. */
function freeze(value) {
  if (typeof value === 'object' && value !== null) {
    for (const key in value) {
      const inner = value[key]
      if (typeof inner === 'object' && inner !== null) freeze(inner)
    }
    Object.freeze(value)
  }
  return value
}

/** A receipt as callers see it. Its text is read when something of it is asked for: of many commits nobody looks at it. */
class Receipt {
  #text
  #id
  #parts

  /** Of a patch of the task `id` the addon may say the short form. */
  constructor(text, id) {
    this.#text = text
    this.#id = id
  }

  get #read() {
    if (this.#parts === undefined) {
      const said = JSON.parse(this.#text)
      if (Array.isArray(said)) {
        const [seq, last_seq, revision, token, ticket, durable] = said
        const id = this.#id
        this.#parts = { seq, last_seq, revisions: { [id]: revision }, tokens: { [id]: token }, ticket, durable, again: false }
      } else {
        this.#parts = said
      }
    }
    return this.#parts
  }

  get seq() {
    return this.#read.seq
  }
  get lastSeq() {
    return this.#read.last_seq
  }
  get revisions() {
    return this.#read.revisions
  }
  get tokens() {
    return this.#read.tokens
  }
  get documents() {
    return this.#read.documents ?? {}
  }
  get fences() {
    return this.#read.fences ?? {}
  }
  get durable() {
    return this.#read.durable
  }
  get again() {
    return this.#read.again
  }
  get ticket() {
    return this.#read.ticket
  }

  /** All of it, as a plain object. */
  toJSON() {
    const { seq, lastSeq, revisions, tokens, documents, fences, durable, again, ticket } = this
    return { seq, lastSeq, revisions, tokens, documents, fences, durable, again, ticket }
  }

  [Symbol.for('nodejs.util.inspect.custom')](_, options, inspect) {
    return `Receipt ${inspect(this.toJSON(), options)}`
  }
}

const receipt = (text) => new Receipt(text, undefined)

/** Whether a patch sets fields, and nothing else. */
function setsOnly(patch) {
  for (const key in patch) if (key !== 'set') return false
  return patch?.set !== undefined
}

/** Whether options say that a patch is to be buffered, and nothing else. */
function isQuick(options) {
  if (options === undefined || options === null) return false
  for (const key in options) if (key !== 'durability') return false
  return options.durability === 'buffered'
}

/** Options of a call that changes nothing. */
function signalOf(options) {
  for (const key in options) if (key !== 'signal') throw new TypeError(`there is no option ${key}; there is signal`)
  return signalIn(options)
}

class Tasks {
  #wire
  #home
  /** What was read last, by slot and by id; replaced when the addon says that it has changed. */
  #slots = []
  #byId = new Map()

  constructor(wire, home) {
    this.#wire = wire
    this.#home = home
  }

  #take(fresh) {
    const { slot, item, revision, token, fence } = fresh
    const found = Object.freeze({ item: freeze(item), revision, token, fence: fence ?? undefined })
    this.#slots[slot] = found
    this.#byId.set(item.id, { slot, found })
    return found
  }

  get(id) {
    const known = this.#byId.get(id)
    let answer
    try {
      answer = this.#home.get(id, known === undefined ? -1 : known.slot)
    } catch (error) {
      throw typeof id === 'string' ? errors.ofThrown(error) : new TypeError('id is to be a string')
    }
    if (answer === UNCHANGED) return known.found
    if (answer === ABSENT) {
      if (known !== undefined) {
        this.#slots[known.slot] = undefined
        this.#byId.delete(id)
      }
      return undefined
    }
    const fresh = JSON.parse(answer)
    if (fresh.item !== undefined) return this.#take(fresh)
    const found = this.#slots[fresh.slot]
    if (found !== undefined) return found
    // It was told, and did not arrive here.
    this.#home.forget()
    return this.get(id)
  }

  getText(id) {
    textOf('id', id)
    return call(() => this.#home.text(id)) ?? undefined
  }

  list(query = {}) {
    const known = ['status', 'parent', 'root', 'background', 'sort', 'limit', 'after']
    for (const key in query) {
      if (!known.includes(key)) throw new TypeError(`there is no condition ${key}; there are ${known.join(', ')}`)
    }
    const { status, parent, root, background, sort, limit, after } = query
    const write = (name, value) => json(value, name)
    const request = members('{"op":"list"', {
      status: maybe(textOf, 'status', status),
      parent: maybe(textOf, 'parent', parent),
      root: maybe(textOf, 'root', root),
      background: maybe(write, 'background', background),
      sort: maybe(textOf, 'sort', sort),
      limit: maybe(write, 'limit', limit),
      after: maybe(textOf, 'after', after),
    })
    const page = this.#told(() => JSON.parse(call(() => this.#home.list(request + '}'))), (page) => page.order)
    const slots = this.#slots
    return { tasks: page.order.map((slot) => slots[slot]), total: page.total, next: page.next ?? undefined }
  }

  getAll() {
    const all = this.list().tasks
    if (this.#byId.size > all.length) this.#forgetAllBut(all)
    return all
  }

  tree(id) {
    textOf('id', id)
    const { nodes } = this.#told(
      () => JSON.parse(call(() => this.#home.tree(id))),
      (answer) => answer.nodes.map(([, slot]) => slot),
    )
    return nodes.map(([depth, slot, totals]) => ({ depth, task: this.#slots[slot], totals }))
  }

  /** An answer with all that it names in its slots: what was told before and did not arrive is asked for again. */
  #told(ask, slotsOf) {
    let answer = ask()
    for (const fresh of answer.fresh) this.#take(fresh)
    if (slotsOf(answer).some((slot) => this.#slots[slot] === undefined)) {
      this.#home.forget()
      answer = ask()
      for (const fresh of answer.fresh) this.#take(fresh)
    }
    return answer
  }

  /** Of tasks that are no more nothing is kept. */
  #forgetAllBut(all) {
    const there = new Set(all.map(({ item }) => item.id))
    for (const id of [...this.#byId.keys()]) if (!there.has(id)) this.get(id)
  }

  async history(id, options) {
    textOf('id', id)
    const signal = signalOf(options)
    return JSON.parse(await this.#wire.job(signal, (job, cancellable) => this.#home.history(job, id, cancellable), true)).map(
      ({ op_id, ...rest }) => ({ ...rest, opId: op_id ?? undefined }),
    )
  }

  /** Commits a request whose end is missing. `waits`: a change of it does. */
  #commit(request, options, about, waits) {
    let id, signal
    try {
      signal = signalIn(options)
      if (signal?.aborted) throw new errors.AbortError(signal)
      const text = withOptions(request, options, about)
      id = ++this.#wire.last
      const takesLong = waits || options?.opId !== undefined || text.length > SHORT
      const done = this.#home.commit(id, text, signal !== undefined, takesLong)
      if (typeof done === 'string') return Promise.resolve(receipt(done))
    } catch (error) {
      return Promise.reject(errors.ofThrown(error))
    }
    return this.#wire.promise(id, signal).then(receipt)
  }

  #one(op, options, about) {
    let request
    try {
      request = change(op)
    } catch (error) {
      return Promise.reject(error)
    }
    return this.#commit(request, options, about, WAITING.has(op.op))
  }

  create(item, options) {
    const { again, ...rest } = options ?? {}
    return this.#one({ op: 'create', item, again }, rest, typeof item === 'string' ? item : item?.id)
  }
  patch(id, patch, options) {
    if (isQuick(options) && setsOnly(patch) && typeof id === 'string' && id.isWellFormed()) {
      let done
      try {
        const fields = objectOf('set', patch.set)
        if (fields.length <= SHORT) done = this.#home.set(id, fields)
      } catch (error) {
        return Promise.reject(errors.ofThrown(error))
      }
      if (typeof done === 'string') return Promise.resolve(new Receipt(done, id))
    }
    return this.#one({ ...patch, op: 'patch', id }, options, id)
  }
  rename(id, title, options) {
    return this.#one({ op: 'rename', id, title }, options, id)
  }
  setStatus(id, status, options) {
    return this.#one({ op: 'setStatus', id, status }, options, id)
  }
  resume(id, options) {
    return this.#one({ op: 'resume', id }, options, id)
  }
  delegate(parent, child, options) {
    return this.#one({ op: 'delegate', parent, child }, options, parent)
  }
  complete(id, options) {
    const { summary, ...rest } = options ?? {}
    return this.#one({ op: 'complete', id, summary }, rest, id)
  }
  remove(ids, options) {
    const { cascade, ...rest } = options ?? {}
    return this.#one({ op: 'remove', ids, cascade }, rest, typeof ids === 'string' ? ids : undefined)
  }
  attach(id, options) {
    return this.#one({ op: 'attach', id }, options, id).then((done) => ({ ...done.toJSON(), fence: done.fences[id] }))
  }
  detach(id, fence, options) {
    return this.#one({ op: 'detach', id, fence }, options, id)
  }
  abandon(id, options) {
    return this.#one({ op: 'abandon', id }, options, id)
  }

  /** How much of a task's history is kept; without an id the workspace's. */
  setRetention(id, keep, options) {
    return this.#one({ op: 'setRetention', id, keep }, options, id)
  }
  pin(id, options) {
    const { pinned, ...rest } = options ?? {}
    return this.#one({ op: 'pin', id, pinned }, rest, id)
  }

  async #purge(ids, options, onlyPlanned) {
    const { cascade, ...rest } = options ?? {}
    const all = typeof ids === 'string' ? [ids] : ids
    if (!Array.isArray(all)) throw new TypeError('ids is to be an id or an array of ids')
    all.forEach((id, i) => textOf(`ids[${i}]`, id))
    const run = (job, cancellable) => this.#home.purge(job, all, cascade === true, onlyPlanned, cancellable)
    const told = JSON.parse(await this.#wire.job(signalOf(rest), run, true))
    const { workspace: _, backups, ...receipt } = told
    return { ...receipt, backups: backups.map(({ time_us, ...backup }) => ({ ...backup, time: new Date(time_us / 1000).toISOString() })) }
  }
  purge(ids, options) {
    return this.#purge(ids, options, false)
  }
  planPurge(ids, options) {
    return this.#purge(ids, options, true)
  }

  commit(ops, options) {
    let request
    try {
      if (!Array.isArray(ops)) throw new TypeError('a commit takes an array of changes')
      request = `{"op":"commit","ops":[${ops.map((op) => change(op) + '}').join(',')}]`
    } catch (error) {
      return Promise.reject(error)
    }
    return this.#commit(request, options, undefined, ops.some(({ op }) => WAITING.has(op)))
  }
}

module.exports = { Tasks, signalOf }
