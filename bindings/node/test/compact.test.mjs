// Old segments written anew: smaller, and the same to everybody.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { openStore } from '../lib/index.mjs'
import { folder } from './harness.mjs'

test('a log is smaller behind it, and tasks are as they were', async () => {
  const dir = folder()
  const store = await openStore(dir, { segmentSize: 8 << 10 })
  const workspace = await store.workspace('key:w')
  assert.equal((await workspace.compact()).segments, 0)
  await workspace.tasks.create({ id: 'a', tokensIn: 0 })
  for (let n = 0; n < 600; n += 1) {
    await workspace.tasks.patch('a', { set: { tokensIn: n } }, { durability: 'buffered' })
  }
  const before = workspace.tasks.get('a')
  const report = await workspace.compact()
  assert.ok(report.segments > 3 && report.bytesAfter * 4 < report.bytesBefore && report.dropped > 300, JSON.stringify(report))
  assert.deepEqual(workspace.tasks.get('a'), before)
  await store.close()
  const again = await openStore(dir)
  const there = await again.workspace('key:w')
  assert.equal(there.tasks.get('a').item.tokensIn, 599)
  await assert.rejects(async () => {
    for await (const _ of there.subscribe({ from: 'start' })) break
  }, { code: 'trimmed' })
  await again.close()
})
