import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AbortError, openStore } from '../lib/index.mjs'
import { folder } from './harness.mjs'

async function tasksIn() {
  const store = await openStore(folder())
  const workspace = await store.workspace('key:k')
  await workspace.tasks.create({ id: 't' })
  return { store, workspace, tasks: workspace.tasks }
}

test('a commit that is called off was not written, or has its receipt: never anything between', async () => {
  const { store, tasks } = await tasksIn()
  const receipts = []
  let aborted = 0
  for (let round = 0; round < 20; round++) {
    const all = []
    for (let n = 0; n < 20; n++) {
      const controller = new AbortController()
      const field = `f${round}x${n}`
      const one = tasks.patch('t', { set: { [field]: 1 } }, { signal: controller.signal })
      all.push(one.then(
        () => receipts.push(field),
        (error) => {
          assert.ok(error instanceof AbortError && error.name === 'AbortError' && error.code === 'ABORT_ERR')
          aborted += 1
        },
      ))
      if (n % 2 === 1) controller.abort()
      if (n % 5 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    await Promise.all(all)
  }
  const { item } = tasks.get('t')
  assert.deepEqual(Object.keys(item).filter((key) => key !== 'id').sort(), receipts.sort())
  assert.equal(receipts.length + aborted, 400)
  assert.ok(aborted > 0, 'none was called off in time')
  await store.close()
})

test('a signal that is aborted already lets nothing begin', async () => {
  const { store, workspace, tasks } = await tasksIn()
  const signal = AbortSignal.abort('why')
  const calls = [
    tasks.patch('t', { set: { n: 1 } }, { signal, durability: 'buffered' }),
    tasks.commit([{ op: 'create', item: { id: 'u' } }], { signal }),
    tasks.history('t', { signal }),
    workspace.flush({ signal }),
    workspace.waitDurable('1.1.0000000000000001', { signal }),
    store.workspace('key:other', { signal }),
    store.workspaces({ signal }),
    openStore(folder(), { signal }),
  ]
  for (const call of calls) await assert.rejects(call, (error) => error instanceof AbortError && error.cause === 'why')
  assert.deepEqual([tasks.get('t').revision, tasks.get('u')], [1, undefined])
  assert.deepEqual((await store.workspaces()).length, 1)
  await store.close()
})
