import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { folder } from './harness.mjs'

const require = createRequire(import.meta.url)
const at = (path) => fileURLToPath(new URL(path, import.meta.url))

const [, banner] = readFileSync(at('../README.md'), 'utf8').match(/`banner: \{ js: "(.*?)" \}`/)

for (const format of ['cjs', 'esm']) {
  test(`a host bundled as ${format} runs with the addon beside it, and keeps its old store without one`, async () => {
    const dist = join(folder(), 'dist')
    mkdirSync(dist)
    const outfile = join(dist, format === 'cjs' ? 'extension.cjs' : 'extension.mjs')
    await build({
      // Extensions are CommonJS, which knows no await outside of functions.
      ...(format === 'cjs'
        ? {
            stdin: {
              contents: `import { openStore, available } from 'foldlog'
                exports.run = async (dir) => {
                  const addon = available()
                  if (!addon.available) return { kind: 'old', reason: addon.reason }
                  const store = await openStore(dir)
                  const { tasks } = await store.workspace('key:example')
                  await tasks.create({ id: 't', tokensIn: 2 })
                  const { item } = tasks.get('t')
                  await store.close()
                  return { kind: 'foldlog', item }
                }
                exports.run(process.argv[2]).then((told) => console.log(JSON.stringify(told)))`,
              resolveDir: at('..'),
            },
          }
        : { entryPoints: [at('../examples/host.mjs')] }),
      outfile,
      format,
      bundle: true,
      platform: 'node',
      external: ['*.node'],
      alias: { foldlog: at(format === 'cjs' ? '../lib/index.js' : '../lib/index.mjs') },
      // What bundled CommonJS asks for in an ES module, as the README says.
      ...(format === 'esm'
        ? { banner: { js: banner } }
        : {}),
    })
    const run = (dir) => {
      const ran = spawnSync(process.execPath, [outfile, dir], { encoding: 'utf8', env: { ...process.env, FOLDLOG_ADDON_DIR: '' } })
      assert.equal(ran.status, 0, ran.stderr)
      return JSON.parse(ran.stdout)
    }
    const name = basename(require('../lib/index.js').available().file)
    assert.equal(run(join(dist, 'a')).kind, 'old')
    copyFileSync(require('../lib/index.js').available().file, join(dist, name))
    const told = run(join(dist, 'b'))
    assert.deepEqual([told.kind, told.item.id, told.item.tokensIn], ['foldlog', 't', 2])
    rmSync(join(dist, name))
  })
}
