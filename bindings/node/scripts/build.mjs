// Builds the addon from source for this machine and puts it where lib/addon.js looks for it: prebuilds/NAME.node.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(dirname(fileURLToPath(import.meta.url)))
const { fileNames } = createRequire(import.meta.url)('../lib/addon.js')
const args = ['build', '--release', '--locked', '--manifest-path', join(here, 'Cargo.toml'), '--message-format=json']
const out = execFileSync('cargo', args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] })
const built = out
  .split('\n')
  .filter((line) => line.startsWith('{'))
  .map((line) => JSON.parse(line))
  .filter((message) => message.reason === 'compiler-artifact' && message.target.name === 'foldlog_node')
  .flatMap((message) => message.filenames)
  .find((name) => /\.(so|dylib|dll)$/.test(name))
if (built === undefined) throw new Error('cargo has built no addon')
mkdirSync(join(here, 'prebuilds'), { recursive: true })
const isMusl = /^host: .*musl/m.test(execFileSync('rustc', ['-vV'], { encoding: 'utf8' }))
const name = fileNames().find((name) => name.includes('musl') === isMusl)
const addon = join(here, 'prebuilds', name)
copyFileSync(built, addon)
console.log(`${addon}: ${statSync(addon).size} bytes`)
