// This environment's end of the addon: numbers the jobs of other threads, and settles their promises.
'use strict'

const addon = require('./addon.js')
const errors = require('./errors.js')

/** A longer pause than any process lives through; a timer holds the process while something is under way. */
const LONG = 0x7fffffff

class Wire {
  constructor(native) {
    this.native = native
    this.pending = new Map()
    this.quiet = new Map()
    this.last = 0
    this.hold = undefined
    this.bridge = new native.Bridge(() => this.fetch())
  }

  fetch() {
    for (const { id, failed, text } of this.bridge.fetch()) {
      const job = this.pending.get(id) ?? this.quiet.get(id)
      if (job === undefined) continue
      if (!this.quiet.delete(id)) this.settled(id, job)
      if (failed) job.reject(errors.ofText(text))
      else job.resolve(text)
    }
  }

  settled(id, job) {
    this.pending.delete(id)
    job.signal?.removeEventListener('abort', job.abort)
    if (this.pending.size === 0 && this.hold !== undefined) {
      clearInterval(this.hold)
      this.hold = undefined
    }
  }

  /** A promise for the text that a job answers with; `start(id, cancellable)` begins it. */
  job(signal, start) {
    if (signal?.aborted) return Promise.reject(new errors.AbortError(signal))
    const id = ++this.last
    try {
      start(id, signal !== undefined)
    } catch (error) {
      return Promise.reject(errors.ofThrown(error))
    }
    return this.promise(id, signal)
  }

  /** As a job's, but that waiting for it holds no process. */
  quietly(start) {
    const id = ++this.last
    return new Promise((resolve, reject) => {
      this.quiet.set(id, { resolve, reject })
      start(id)
    })
  }

  /** The promise of a job that has been begun. */
  promise(id, signal) {
    return new Promise((resolve, reject) => {
      const job = { resolve, reject, signal, abort: undefined }
      if (signal !== undefined) {
        job.abort = () => {
          // What has begun is answered with its receipt: nobody is left in doubt.
          if (!this.bridge.cancel(id)) return
          this.settled(id, job)
          reject(new errors.AbortError(signal))
        }
        signal.addEventListener('abort', job.abort, { once: true })
      }
      this.pending.set(id, job)
      this.hold ??= setInterval(() => {}, LONG)
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

/** Calls into the addon; what it throws is an error of foldlog. */
function call(act) {
  try {
    return act()
  } catch (error) {
    throw errors.ofThrown(error)
  }
}

module.exports = { open, call }
