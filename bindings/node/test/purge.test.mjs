// What is kept of the history, and what goes from every file.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { openStore } from '../lib/index.mjs'
import { folder } from './harness.mjs'

const SECRET = 'correct horse battery staple'

/** Every file below a folder that holds the secret. */
function holding(dir) {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return files.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).filter((path) => readFileSync(path).includes(SECRET.slice(3, 20)))
}

async function stepped(dir) {
  const store = await openStore(dir, { segmentSize: 8 << 10 })
  const workspace = await store.workspace('key:w')
  const { tasks } = workspace
  await tasks.create({ id: 'leaky', task: SECRET, tokensIn: 0 })
  await tasks.create({ id: 'kept', tokensIn: 0 })
  for (let n = 0; n < 300; n += 1) await tasks.patch('kept', { set: { tokensIn: n } }, { durability: 'buffered' })
  await tasks.patch('leaky', { set: { notes: SECRET.repeat(4000) } })
  return { store, workspace, tasks }
}

test('no file holds what was purged', async () => {
  const dir = folder()
  const { store, workspace, tasks } = await stepped(dir)
  await store.backup(join(folder(), 'backup'), { link: false })
  const plan = await tasks.planPurge('leaky')
  assert.deepEqual(plan.tasks, ['leaky'])
  assert.equal(tasks.get('leaky').item.task, SECRET, 'a plan changes nothing')
  assert.ok(holding(dir).length >= 2)
  const receipt = await tasks.purge(['leaky'])
  assert.deepEqual(receipt.pending, [])
  assert.equal(receipt.blobs.length, 1)
  assert.ok(receipt.segments >= 1 && receipt.events >= 2, JSON.stringify(receipt))
  assert.equal(receipt.backups.length, 1)
  assert.ok(receipt.backups[0].target.endsWith('backup') && Date.parse(receipt.backups[0].time) > 0)
  assert.deepEqual(holding(dir), [])
  assert.equal(tasks.get('leaky'), undefined)
  await assert.rejects(tasks.patch('leaky', { set: { mode: 'x' } }), { code: 'task-deleted' })
  assert.equal(tasks.get('kept').item.tokensIn, 299)
  await assert.rejects(tasks.purge('nobody'), { code: 'no-task' })
  await assert.rejects(tasks.purge('kept', { cascades: true }), TypeError)
  await assert.rejects(tasks.purge(5), TypeError)
  await workspace.close()
  await store.close()
})

test('as much of the history is kept as is said', async () => {
  const dir = folder()
  const { store, workspace, tasks } = await stepped(dir)
  assert.deepEqual(workspace.retention(), { workspace: null, tasks: new Map(), pinned: [] })
  await workspace.setRetention({ ageMs: 3_600_000, count: 10 })
  await tasks.setRetention('leaky', 'all')
  await tasks.pin('kept')
  const said = workspace.retention()
  assert.deepEqual(said.workspace, { ageMs: 3_600_000, count: 10, bytes: undefined })
  assert.deepEqual([[...said.tasks], said.pinned], [[['leaky', 'all']], ['kept']])
  const before = (await tasks.history('kept')).length
  await workspace.compact()
  assert.equal((await tasks.history('kept')).length, before)
  await workspace.commit([{ op: 'pin', id: 'kept', pinned: false }, { op: 'setRetention', keep: null }, { op: 'setRetention', id: 'leaky', keep: null }])
  assert.deepEqual(workspace.retention(), { workspace: null, tasks: new Map(), pinned: [] })
  await workspace.compact()
  assert.ok((await tasks.history('kept')).length * 2 < before)
  for (const bad of [{}, { age: 5 }, { count: -1 }, { bytes: 1.5 }, 'none', 5, undefined]) {
    await assert.rejects(workspace.setRetention(bad), (error) => error instanceof TypeError || error.code === 'invalid', JSON.stringify(bad))
  }
  await store.close()
})
