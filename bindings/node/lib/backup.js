// Backup and restore: copies that tell how far they are, and that a signal ends.
'use strict'

const errors = require('./errors.js')
const { signalIn } = require('./wire.js')

const WISHES = { workspaces: 'workspaces', link: 'link', quarantine: 'quarantine', asItIs: 'as_it_is' }

/** The options as the addon takes them. What has a value of the wrong kind is refused there. */
function wishesOf(options = {}) {
  const wishes = {}
  for (const key in options) {
    if (key === 'signal' || key === 'onProgress' || options[key] === undefined) continue
    if (!(key in WISHES)) {
      throw new TypeError(`there is no option ${key}; there are ${[...Object.keys(WISHES), 'signal', 'onProgress'].join(', ')}`)
    }
    wishes[WISHES[key]] = options[key]
  }
  const { onProgress } = options
  if (onProgress !== undefined && typeof onProgress !== 'function') throw new TypeError('onProgress is to be a function')
  return { signal: signalIn(options), onProgress, text: JSON.stringify(wishes) }
}

/** Has a copy made: `start(job, copying, wishes, cancellable)` begins it. */
async function copied(wire, options, start) {
  const { signal, onProgress, text } = wishesOf(options)
  const copying = new wire.native.Copying(onProgress !== undefined)
  const stop = () => copying.cancel()
  let id, thrown
  signal?.addEventListener('abort', stop, { once: true })
  try {
    const job = wire.job(signal, (number, cancellable) => {
      id = number
      if (onProgress !== undefined) {
        wire.watchers.set(id, (told) => {
          if (thrown !== undefined) return
          try {
            onProgress(Object.freeze(JSON.parse(told)))
          } catch (error) {
            // Nobody who is told goes on: it ends, and says why.
            thrown = { error }
            copying.cancel()
          }
        })
      }
      start(id, copying, text, cancellable)
    })
    const report = reportOf(JSON.parse(await job))
    if (thrown !== undefined) throw thrown.error
    return report
  } catch (error) {
    if (thrown !== undefined) throw thrown.error
    if (error.code === 'cancelled' && signal?.aborted) throw new errors.AbortError(signal)
    throw error
  } finally {
    wire.watchers.delete(id)
    signal?.removeEventListener('abort', stop)
  }
}

function reportOf({ store_id, dead_sessions, took_ms, workspaces, ...rest }) {
  return { ...rest, storeId: store_id, deadSessions: dead_sessions, tookMs: took_ms, workspaces: workspaces.map(copyOf) }
}

function copyOf({ log_id, state_hash, took_ms, noted, note_error, ...rest }) {
  return {
    ...rest,
    logId: log_id,
    stateHash: state_hash,
    tookMs: took_ms,
    noted: noted ?? undefined,
    noteError: note_error === null ? undefined : { code: note_error.error, message: note_error.message, remedy: note_error.remedy },
  }
}

module.exports = { copied }
