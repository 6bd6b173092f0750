import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { folder } from './harness.mjs'

const at = (path) => fileURLToPath(new URL(path, import.meta.url))

for (const page of ['../README.md', '../../../README.md']) {
  test(`the example of ${page.replace(/^(\.\.\/)+/, page.startsWith('../../') ? 'the repository: ' : 'the package: ')} runs as it is written`, () => {
    const text = readFileSync(at(page), 'utf8')
    const code = [...text.matchAll(/```js\n([^]*?)```/g)].map((found) => found[1]).find((found) => found.includes("from 'foldlog'"))
    assert.ok(code, 'there is one')
    const dir = folder()
    const home = join(dir, 'node_modules', 'foldlog')
    mkdirSync(home, { recursive: true })
    for (const part of ['lib', 'prebuilds', 'package.json']) cpSync(at(`../${part}`), join(home, part), { recursive: true })
    writeFileSync(join(dir, 'example.mjs'), code)
    const ran = spawnSync(process.execPath, ['example.mjs'], { cwd: dir, encoding: 'utf8', timeout: 60_000 })
    assert.deepEqual([ran.status, ran.stderr], [0, ''])
    const promised = [...code.matchAll(/console\.log\(.*\) \/\/ (.*)/g)].map((found) => found[1])
    assert.ok(promised.length > 0)
    assert.deepEqual(ran.stdout.trim().split('\n'), promised)
  })
}
