// Finds the addon for this platform: one package carries one file for each, and the choice is made when it is loaded.
'use strict'

const path = require('node:path')

/** What a file of the addon may be called on a platform: `foldlog.linux-x64-gnu.node`. Where there are several, one of them loads. */
function fileNames() {
  const { platform, arch } = process
  // Which C library this is nobody says in all versions without looking up names of open connections; the other's file does not load.
  const libraries = arch === 'arm' ? ['gnueabihf', 'musleabihf'] : ['gnu', 'musl']
  if (platform === 'linux') return libraries.map((libc) => `foldlog.linux-${arch}-${libc}.node`)
  if (platform === 'win32') return [`foldlog.win32-${arch}-msvc.node`]
  return [`foldlog.${platform}-${arch}.node`]
}

/** Folders in which it may be: beside this package, or beside the file that a bundler has made of it. */
function places() {
  const named = process.env.FOLDLOG_ADDON_DIR
  return [...(named ? [named] : []), path.join(__dirname, '..', 'prebuilds'), __dirname, path.join(__dirname, 'prebuilds')]
}

let loaded

/** `{ native }`, or `{ reason, file, platform }` where it cannot be had. Never throws; the answer does not change. */
function load() {
  loaded ??= tryAll()
  return loaded
}

function tryAll() {
  const platform = `${process.platform}-${process.arch}`
  let file
  try {
    const names = fileNames()
    const files = places().flatMap((dir) => names.map((name) => path.join(dir, name)))
    file = files[0]
    const reasons = []
    for (const candidate of files) {
      const module = { exports: {} }
      try {
        // Not by `require`, which bundlers follow.
        process.dlopen(module, candidate)
      } catch (error) {
        reasons.push(error)
        if (!isAbsence(error, candidate)) file = candidate
        continue
      }
      return { native: module.exports, file: candidate, platform }
    }
    const telling = reasons.find((error, i) => !isAbsence(error, files[i]))
    const reason = telling?.message ?? `there is no ${names.join(' or ')} in ${places().join(', ')}`
    return { native: undefined, file, platform, reason }
  } catch (error) {
    return { native: undefined, file, platform, reason: String(error?.message ?? error) }
  }
}

function isAbsence(error, file) {
  return /no such file|cannot find|could not be found|not found/i.test(error.message) && !require('node:fs').existsSync(file)
}

module.exports = { fileNames, load }
