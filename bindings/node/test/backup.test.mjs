import assert from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { AbortError, OccupiedError, openStore, restore } from '../lib/index.mjs'
import { folder } from './harness.mjs'

async function filled() {
  const dir = folder()
  const store = await openStore(join(dir, 'store'), { label: 'the window', segmentSize: 4096 })
  const { tasks } = await store.workspace('key:k')
  for (let n = 0; n < 20; n++) await tasks.create({ id: `t${n}`, note: 'x'.repeat(500) }, { durability: 'buffered' })
  return { dir, store, tasks }
}

test('a backup is a store with all there was, and a restored one goes its own way', async () => {
  const { dir, store, tasks } = await filled()
  const { fence } = await tasks.attach('t7')
  const seen = []
  const made = await store.backup(join(dir, 'backup'), { onProgress: (at) => seen.push(at) })
  const [copy] = made.workspaces
  assert.ok(made.whole && made.deadSessions === 0 && copy.noted > copy.seq && copy.noteError === undefined)
  assert.match(copy.stateHash, /^[0-9a-f]{64}$/)
  assert.ok(copy.segments > 2 && copy.linked.files + copy.copied.files >= copy.segments)
  assert.deepEqual([...new Set(seen.map(({ phase }) => phase))], ['reading', 'copying', 'verifying'])
  assert.ok(seen.every(({ done, total }) => done <= total))
  await tasks.patch('t1', { set: { note: 'later' } })
  const again = await restore(join(dir, 'backup'), join(dir, 'restored'))
  assert.notEqual(again.storeId, made.storeId)
  assert.deepEqual([again.deadSessions, again.workspaces[0].stateHash, again.workspaces[0].linked.files], [1, copy.stateHash, 0])
  const other = await openStore(join(dir, 'restored'))
  const restored = (await other.workspace('key:k')).tasks
  assert.equal(restored.get('t1').item.note, 'x'.repeat(500))
  // Who held it in the old store is dead in this one.
  assert.notEqual((await restored.attach('t7')).fence, fence)
  // What was stored of the log before the backup holds in both; a cursor of later does not.
  const stored = (await store.workspace('key:k')).subscribe({ from: copy.cursor })
  const { value } = await stored.next()
  await stored.return()
  const late = (await other.workspace('key:k')).subscribe({ from: value.commit.cursor })
  await assert.rejects(late.next(), { code: 'rewound', to: copy.seq })
  await Promise.all([other.close(), store.close()])
})

test('nothing is made over what is there, and the error names who uses it', async () => {
  const { dir, store } = await filled()
  const backup = join(dir, 'backup')
  await store.backup(backup, { workspaces: ['key:k'], link: false, quarantine: false })
  await assert.rejects(restore(backup, join(dir, 'store')), (error) => {
    assert.ok(error instanceof OccupiedError && /in use by the window \(pid/.test(error.what), error.what)
    return true
  })
  writeFileSync(join(dir, 'file'), 'mine')
  await assert.rejects(store.backup(join(dir, 'file')), { code: 'occupied' })
  await assert.rejects(store.backup(backup), { code: 'occupied' })
  await assert.rejects(store.backup(join(dir, 'x'), { workspaces: ['key:none'] }), { code: 'not-found' })
  await assert.rejects(store.backup(join(dir, 'x'), { link: 'yes' }), { code: 'invalid' })
  await assert.rejects(store.backup(join(dir, 'x'), { links: false }), TypeError)
  await assert.rejects(store.backup(7), TypeError)
  await assert.rejects(restore(join(dir, 'absent'), join(dir, 'x')), { code: 'not-found' })
  assert.ok(!existsSync(join(dir, 'x')))
  await store.close()
})

test('an abort ends a backup wherever it is, and leaves nothing', async () => {
  const { dir, store } = await filled()
  await assert.rejects(store.backup(join(dir, 'b'), { signal: AbortSignal.abort() }), AbortError)
  for (const stop of ['reading', 'copying']) {
    const controller = new AbortController()
    const onProgress = ({ phase }) => phase === stop && controller.abort(new Error('enough'))
    const backup = store.backup(join(dir, 'b'), { signal: controller.signal, onProgress })
    // It may be over before this thread hears of the phase: then it is whole.
    await backup.then(
      ({ whole }) => assert.ok(whole),
      (error) => {
        assert.ok(error instanceof AbortError && error.cause.message === 'enough')
        assert.ok(!existsSync(join(dir, 'b')))
      },
    )
    if (existsSync(join(dir, 'b'))) assert.deepEqual(readdirSync(join(dir, 'b')), ['BIND', 'META', 'sessions', 'workspaces'])
    break
  }
  const thrown = store.backup(join(dir, 'c'), {
    onProgress() {
      throw new RangeError('no')
    },
  })
  await assert.rejects(thrown, RangeError)
  await store.close()
  await assert.rejects(store.backup(join(dir, 'd')), { code: 'closed' })
})
