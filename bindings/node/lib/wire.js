// This environment's end of the addon: numbers the jobs of other threads, and settles their promises.
'use strict'

const addon = require('./addon.js')
const errors = require('./errors.js')

/** A longer pause than any process lives through; a timer holds the process while something is under way. */
const LONG = 0x7fffffff

const isDigit = (code) => code >= 48 && code <= 57

class Wire {
  constructor(native) {
    this.native = native
    this.pending = new Map()
    this.quiet = new Map()
    /** Whom to tell how far a job is. */
    this.watchers = new Map()
    this.validators = new Map()
    this.validatorsMade = 0
    this.last = 0
    this.hold = undefined
    this.bridge = new native.Bridge(() => this.fetch())
  }

  fetch() {
    const all = this.bridge.fetch()
    for (let at = 0; at < all.length; ) {
      const end = all.indexOf('\0', at)
      let from = at
      while (isDigit(all.charCodeAt(from))) from++
      const id = Number(all.slice(at, from))
      const mark = all[from]
      const text = all.slice(from + 1, end)
      at = end + 1
      if (mark === '?') {
        this.bridge.answer(id, this.judge(text))
        continue
      }
      if (mark === '*') {
        this.watchers.get(id)?.(text)
        continue
      }
      const job = this.pending.get(id) ?? this.quiet.get(id)
      if (job === undefined) continue
      if (!this.quiet.delete(id)) this.settled(id, job)
      if (mark === '-') job.reject(errors.ofText(text))
      else job.resolve(text)
    }
  }

  /** Gives a validator a number, by which the addon asks for it until it is forgotten. */
  validator(judge) {
    this.validators.set(++this.validatorsMade, judge)
    return this.validatorsMade
  }

  forgetValidator(number) {
    this.validators.delete(number)
  }

  /** Why a validator refuses, or null. Nothing that it throws goes further. */
  judge(text) {
    try {
      const [validator, name, value] = JSON.parse(text)
      const said = this.validators.get(validator)(name, value)
      if (typeof said?.then !== 'function') return null
      said.then(undefined, () => {})
      return 'its validator answers with a promise; it is to throw, or to return, at once'
    } catch (cause) {
      return cause instanceof Error ? cause.message : String(cause)
    }
  }

  settled(id, job) {
    this.pending.delete(id)
    job.signal?.removeEventListener('abort', job.abort)
    if (this.pending.size === 0) this.hold?.unref()
  }

  /** A promise for the text that a job answers with; `start(id, cancellable)` begins it. One that only `waits` ends with its signal. */
  job(signal, start, waits = false) {
    if (signal?.aborted) return Promise.reject(new errors.AbortError(signal))
    const id = ++this.last
    try {
      start(id, signal !== undefined)
    } catch (error) {
      return Promise.reject(errors.ofThrown(error))
    }
    return this.promise(id, signal, waits)
  }

  /** As a job's, but that waiting for it holds no process. */
  quietly(start) {
    const id = ++this.last
    return new Promise((resolve, reject) => {
      start(id)
      this.quiet.set(id, { resolve, reject })
    })
  }

  /** The promise of a job that has been begun. */
  promise(id, signal, waits = false) {
    return new Promise((resolve, reject) => {
      const job = { resolve, reject, signal, abort: undefined }
      if (signal !== undefined) {
        job.abort = () => {
          // What has begun is answered with its receipt: nobody is left in doubt.
          if (!this.bridge.cancel(id) && !waits) return
          this.settled(id, job)
          reject(new errors.AbortError(signal))
        }
        signal.addEventListener('abort', job.abort, { once: true })
      }
      if (this.pending.size === 0) {
        // Made once: to make a timer costs more than a commit.
        if (this.hold === undefined) this.hold = setInterval(() => {}, LONG)
        else this.hold.ref()
      }
      this.pending.set(id, job)
    })
  }
}

let wire

/** The one of this environment. */
function open() {
  if (wire === undefined) {
    const { native, reason, file, platform } = addon.load()
    if (native === undefined) {
      throw new errors.classes.UnavailableError({
        error: 'unavailable',
        message: `foldlog's addon cannot be loaded on ${platform}: ${reason}`,
        remedy: 'see available(); keep the history where it was until the addon can be loaded',
        file,
      })
    }
    wire = new Wire(native)
  }
  return wire
}

/** The signal among options, and nothing else that could be taken for one. */
function signalIn(options) {
  const signal = options?.signal
  if (signal === undefined || signal === null) return undefined
  if (typeof signal.aborted === 'boolean' && typeof signal.addEventListener === 'function') return signal
  throw new TypeError('signal is to be an AbortSignal')
}

/** Calls into the addon; what it throws is an error of foldlog. */
function call(act) {
  try {
    return act()
  } catch (error) {
    throw errors.ofThrown(error)
  }
}

module.exports = { open, call, signalIn }
