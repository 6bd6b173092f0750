// Values as JSON, exactly: what JSON cannot hold is refused, never changed in silence.
'use strict'

/** By this a value of another copy of this package is known too. */
const RAW = Symbol.for('foldlog.raw')

/** A value by its JSON text: kept as it is spelled. */
class RawJson {
  #text
  constructor(text) {
    // What is more than one value would be read as members of what it is put into.
    if (typeof text !== 'string' || !text.isWellFormed()) throw new TypeError('raw takes the JSON text of one value')
    try {
      JSON.parse(text)
    } catch (cause) {
      throw new TypeError(`raw takes the JSON text of one value: ${cause.message}`, { cause })
    }
    this.#text = text
  }
  get [RAW]() {
    return this.#text
  }
  toString() {
    return this.#text
  }
}

/** A value that stands for its JSON text, for numbers that JavaScript's cannot hold: `raw('1.50')`. */
function raw(text) {
  return new RawJson(text)
}

/** How deep a value may be. */
const DEPTH_MAX = 120

/** Whether JSON.stringify spells a value as [`json`] does, which is slower: nothing in it that it would drop, change or call. */
function isPlain(value, depth) {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return Number.isFinite(value) && (value !== 0 || 1 / value > 0)
    case 'object':
      break
    default:
      return false
  }
  if (value === null) return true
  if (depth > DEPTH_MAX) return false
  if (Array.isArray(value)) {
    // JSON.stringify asks an array for toJSON as well.
    if (value.toJSON !== undefined) return false
    for (let i = 0; i < value.length; i++) if (!isPlain(value[i], depth + 1)) return false
    return true
  }
  if (Object.getPrototypeOf(value) !== Object.prototype || value.toJSON !== undefined || value[RAW] !== undefined) return false
  for (const key in value) if (!isPlain(value[key], depth + 1)) return false
  return true
}

/** A value's JSON text. `path` says where it stands, for errors. */
function json(value, path, depth = 0) {
  if (depth === 0 && isPlain(value, 0)) return JSON.stringify(value)
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value)
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError(`${path} is ${value}, which JSON cannot hold`)
      return Object.is(value, -0) ? '-0' : String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'bigint':
      return String(value)
    case 'object':
      break
    case 'undefined':
      throw new TypeError(`${path} is undefined; to remove a field, name it in unset`)
    default:
      throw new TypeError(`${path} is a ${typeof value}, which JSON cannot hold`)
  }
  if (value === null) return 'null'
  if (value[RAW] !== undefined) return (value instanceof RawJson ? value : new RawJson(value[RAW])).toString()
  if (depth > DEPTH_MAX) throw new TypeError(`${path} is nested too deeply, or in itself`)
  if (value instanceof Date && Number.isNaN(value.valueOf())) throw new TypeError(`${path} is an invalid Date`)
  if (typeof value.toJSON === 'function') return json(value.toJSON(), path, depth + 1)
  if (Array.isArray(value)) {
    let out = '['
    for (let i = 0; i < value.length; i++) out += (i > 0 ? ',' : '') + json(value[i], `${path}[${i}]`, depth + 1)
    return out + ']'
  }
  // What a Map, a Set or a boxed number holds is in none of its members.
  const what = Object.prototype.toString.call(value)
  if (what !== '[object Object]') throw new TypeError(`${path} is a ${what.slice(8, -1)}, which JSON cannot hold`)
  let out = '{'
  for (const key of Object.keys(value)) {
    if (out.length > 1) out += ','
    out += JSON.stringify(key) + ':' + json(value[key], `${path}.${key}`, depth + 1)
  }
  return out + '}'
}

/** Appends members to an object's text; what is undefined is left out. */
function members(out, object) {
  for (const key in object) {
    const value = object[key]
    if (value !== undefined) out += (out.length > 1 ? ',' : '') + `"${key}":${value}`
  }
  return out
}

function textOf(name, value) {
  if (typeof value !== 'string') throw new TypeError(`${name} is to be a string, not ${kind(value)}`)
  return JSON.stringify(value)
}

function kind(value) {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : typeof value
}

function objectOf(name, value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new TypeError(`${name} is to be an object, not ${kind(value)}`)
  }
  return json(value, name)
}

const itemOf = (name, value) => (typeof value === 'string' ? JSON.stringify(value) : objectOf(name, value))
const list = (name, value) => {
  if (!Array.isArray(value)) throw new TypeError(`${name} is to be an array, not ${kind(value)}`)
  return `[${value.map((one, i) => textOf(`${name}[${i}]`, one)).join(',')}]`
}
const maybe = (write, name, value) => (value === undefined ? undefined : write(name, value))
const flag = (value) => (value ? 'true' : undefined)

/** The members of each change, by its `op`. */
const CHANGES = {
  create: (op) => ({ item: itemOf('item', op.item), again: flag(op.again) }),
  patch: (op) => patch(op),
  rename: (op) => ({ task: textOf('id', op.id), title: json(op.title, 'title') }),
  setStatus: (op) => ({ task: textOf('id', op.id), status: textOf('status', op.status) }),
  resume: (op) => ({ task: textOf('id', op.id) }),
  delegate: (op) => ({ parent: textOf('parent', op.parent), child: itemOf('child', op.child) }),
  complete: (op) => ({ task: textOf('id', op.id), summary: maybe((name, value) => json(value, name), 'summary', op.summary) }),
  remove: (op) => ({
    tasks: list('ids', typeof op.ids === 'string' ? [op.ids] : (op.ids ?? [op.id])),
    cascade: flag(op.cascade),
  }),
  attach: (op) => ({ task: textOf('id', op.id) }),
  detach: (op) => ({ task: textOf('id', op.id), fence: textOf('fence', op.fence) }),
  abandon: (op) => ({ task: textOf('id', op.id) }),
  mend: (op) => ({ parent: textOf('parent', op.parent), unowned: flag(op.unowned) }),
  setRules: (op) => ({ table: textOf('table', op.table) }),
  setRetention: (op) => ({ task: maybe(textOf, 'id', op.id), keep: keepOf(op.keep) }),
  pin: (op) => ({ task: textOf('id', op.id), pinned: op.pinned === false ? 'false' : 'true' }),
  putDocument: (op) => ({
    name: textOf('name', op.name),
    value: json(op.value, 'value'),
    kind: maybe(textOf, 'kind', op.kind),
    again: flag(op.again),
  }),
  patchDocument: (op) => ({
    name: textOf('name', op.name),
    set: maybe(objectOf, 'set', op.set),
    unset: maybe(list, 'unset', op.unset),
  }),
  deleteDocument: (op) => ({ name: textOf('name', op.name) }),
}
/** What the requests call those that are called otherwise here. */
const WORDS = {
  setStatus: 'status',
  setRules: 'set_rules',
  setRetention: 'set_retention',
  putDocument: 'doc_put',
  patchDocument: 'doc_patch',
  deleteDocument: 'doc_delete',
}

/** How much of the history is kept: 'all', null for nothing, or limits. */
function keepOf(keep) {
  if (keep === null || keep === 'all') return JSON.stringify(keep)
  if (typeof keep !== 'object') throw new TypeError(`keep is to be 'all', null or an object of limits, not ${kind(keep)}`)
  const { ageMs, count, bytes, ...rest } = keep
  for (const key in rest) throw new TypeError(`there is no limit ${key}; there are ageMs, count and bytes`)
  const write = (name, value) => {
    if (!Number.isSafeInteger(value) || value < 0) throw new TypeError(`${name} is to be a whole number from 0 on`)
    return String(value)
  }
  return members('{', { age_ms: maybe(write, 'ageMs', ageMs), count: maybe(write, 'count', count), bytes: maybe(write, 'bytes', bytes) }) + '}'
}

/** What [`keepOf`] spells, read. */
function keepIn(said) {
  if (said === null || said === 'all') return said
  const { age_ms: ageMs, count, bytes } = said
  return { ageMs, count, bytes }
}

function patch(op) {
  const { id, set, unset, dropChildIds } = op
  for (const key in op) {
    if (key !== 'op' && key !== 'id' && key !== 'set' && key !== 'unset' && key !== 'dropChildIds') {
      throw new TypeError(`a patch has set, unset and dropChildIds, and no ${key}`)
    }
  }
  return {
    task: textOf('id', id),
    set: maybe(objectOf, 'set', set),
    unset: maybe(list, 'unset', unset),
    drop_children: maybe(list, 'dropChildIds', dropChildIds),
  }
}

/** A change as the requests spell it, without its end. */
function change(op) {
  const write = CHANGES[op?.op]
  if (write === undefined) throw new TypeError(`there is no change ${json(op?.op ?? null, 'op')}`)
  return members(`{"op":"${WORDS[op.op] ?? op.op}"`, write(op))
}

/** Whether it is an object of members, as a literal is. */
function isRecord(value) {
  return Object.prototype.toString.call(value) === '[object Object]'
}

/** What a commit rests on. */
function expected(name, expect) {
  // Of anything else no member would be found, and nothing be expected.
  if (!isRecord(expect)) throw new TypeError(`${name} is to be an object of what is expected of each, not ${kind(expect)}`)
  let out = '{'
  for (const id of Object.keys(expect)) {
    const one = expect[id]
    const fine = typeof one === 'string' || (Number.isSafeInteger(one) && one >= 0)
    if (!fine) throw new TypeError(`${name}.${id} is to be a token, a revision, "absent" or "exists", not ${kind(one)}`)
    out += (out.length > 1 ? ',' : '') + JSON.stringify(id) + ':' + JSON.stringify(one)
  }
  return out + '}'
}

const OPTIONS = ['expect', 'expectDocuments', 'fences', 'opId', 'seen', 'durability', 'signal']

/** The options of a commit as the requests spell them; behind them the request ends. */
function withOptions(out, options = {}, about) {
  for (const key in options) {
    if (!OPTIONS.includes(key)) throw new TypeError(`there is no option ${key}; there are ${OPTIONS.join(', ')}`)
  }
  const { expect, expectDocuments, fences, opId, seen, durability } = options
  // Of a change of one task, a bare token or revision is that task's.
  const isBare = typeof expect === 'string' || typeof expect === 'number'
  const whole = isBare && about !== undefined ? { [about]: expect } : expect
  return members(out, {
    expect: maybe(expected, 'expect', whole),
    expect_documents: maybe(expected, 'expectDocuments', expectDocuments),
    fences: maybe(objectOf, 'fences', typeof fences === 'string' && about !== undefined ? { [about]: fences } : fences),
    op_id: maybe(textOf, 'opId', opId),
    seen: maybe((name, value) => json(value, name), 'seen', seen),
    durability: maybe(textOf, 'durability', durability),
  }) + '}'
}

module.exports = { RawJson, raw, json, change, keepIn, withOptions, members, objectOf, textOf, maybe }
