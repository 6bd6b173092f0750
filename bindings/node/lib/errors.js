// The errors: a class for each code, all made from one table.
'use strict'

/** All that the library can say, in the order of its own table; a test compares them. */
const CODES = [
  'busy', 'damaged', 'store-replaced', 'durability-lost', 'not-durable', 'read-only', 'too-new', 'unknown-event',
  'conflict', 'op-id-reused', 'outcome-unknown', 'too-large', 'blob-missing', 'invalid', 'refused', 'no-task',
  'task-exists', 'task-deleted', 'no-document', 'document-deleted', 'document-refused', 'bad-state-file',
  'status-refused', 'not-waiting', 'cycle', 'owned', 'fenced', 'ruled-field', 'cross-workspace', 'trimmed',
  'rewound', 'reentrant', 'forked', 'not-found', 'foreign', 'shared-file-system', 'locks-do-not-exclude', 'not-yet',
  'unstable', 'occupied', 'cancelled', 'no-space', 'permission', 'io',
]
/** What only this package can say. */
const OWN = ['closed', 'panic', 'unavailable', 'usage']

/** What every error of foldlog is. */
class FoldlogError extends Error {
  constructor({ error, message, remedy, file, data }) {
    super(message)
    this.code = error
    this.remedy = remedy
    this.file = file ?? undefined
    for (const [name, value] of Object.entries(data ?? {})) {
      // A document's name is not the error's.
      const key = name === 'name' ? 'document' : camel(name)
      // What it is about is never the error's own name, message or code.
      if (!(key in this)) this[key] = key === 'conflicts' ? value.map(conflict) : value
    }
    if (this.conflicts !== undefined) {
      const [first] = this.conflicts
      Object.assign(this, { id: first?.id, current: first?.current, revision: first?.revision, token: first?.token })
    }
  }
}
Object.defineProperty(FoldlogError.prototype, 'name', { value: 'FoldlogError', configurable: true, writable: true })

function camel(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase())
}

function conflict({ of, id, expected, revision, token, item, rewound_to }) {
  return { of, id, expected, revision, token: token ?? undefined, current: item ?? undefined, rewoundTo: rewound_to }
}

const className = (code) => `${code.replace(/(^|-)([a-z])/g, (_, __, letter) => letter.toUpperCase())}Error`

const classes = {}
for (const code of [...CODES, ...OWN]) {
  const name = className(code)
  classes[name] = { [name]: class extends FoldlogError {} }[name]
  Object.defineProperty(classes[name].prototype, 'name', { value: name, configurable: true, writable: true })
}

/** An operation was called off, and nothing of it was done. */
class AbortError extends Error {
  constructor(signal) {
    super('the operation was aborted; nothing was written', { cause: signal?.reason })
    this.code = 'ABORT_ERR'
  }
}
Object.defineProperty(AbortError.prototype, 'name', { value: 'AbortError', configurable: true, writable: true })

/** The error that a JSON text of the addon's spells. */
function ofText(text) {
  let parts
  try {
    parts = JSON.parse(text)
  } catch {
    parts = undefined
  }
  if (typeof parts?.error !== 'string') {
    parts = { error: 'panic', message: text, remedy: 'this is a fault of foldlog, please report it', file: null }
  }
  // A code of a newer addon falls back to what all have in common.
  return new (classes[className(parts.error)] ?? FoldlogError)(parts)
}

/** Whatever a call into the addon threw, as an error of foldlog; this package's own TypeErrors are left alone. */
function ofThrown(error) {
  if (error?.code === 'GenericFailure') return ofText(error.message)
  // An argument that is none of its kind.
  return /Expected$|InvalidArg/.test(error?.code) ? new TypeError(error.message) : error
}

/** What is said of a handle that was closed. */
function closed(what) {
  const parts = { error: 'closed', message: `the ${what} was closed`, remedy: 'open it again; nothing was done', file: null }
  return new classes.ClosedError(parts)
}

module.exports = { CODES, OWN, FoldlogError, AbortError, classes, className, ofText, ofThrown, closed }
