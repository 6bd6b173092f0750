import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
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
      // What has a name of its own is not made on this thread, and so may have to wait.
      const opId = n % 3 === 0 ? undefined : randomUUID()
      const one = tasks.patch('t', { set: { [field]: 1 } }, { signal: controller.signal, opId })
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

test('what is no signal is refused before anything begins; null is none', async () => {
  const { store, workspace, tasks } = await tasksIn()
  for (const signal of [{}, 'abort', 5, { aborted: false }]) {
    for (const options of [{ signal }, { signal, durability: 'buffered' }, { signal, opId: randomUUID() }]) {
      await assert.rejects(async () => tasks.patch('t', { set: { n: 1 } }, options), TypeError)
    }
    await assert.rejects(async () => workspace.flush({ signal }), TypeError)
    await assert.rejects(async () => openStore(folder(), { signal }), TypeError)
    assert.throws(() => workspace.subscribe({ signal }), TypeError)
  }
  assert.equal(tasks.get('t').revision, 1)
  await tasks.patch('t', { set: { n: 1 } }, { signal: null })
  await tasks.patch('t', { set: { n: 2 } }, { signal: null, durability: 'buffered' })
  await workspace.flush({ signal: null })
  assert.deepEqual([tasks.get('t').revision, tasks.get('t').item.n], [3, 2])
  await store.close()
})

test('a flush waits for what was asked for before it, and for nothing that comes behind', async () => {
  const { store, workspace, tasks } = await tasksIn()
  const named = (n) => tasks.patch('t', { set: { n } }, { opId: randomUUID() })
  const order = []
  const all = [named(0).then(() => order.push('before')), workspace.flush().then(() => order.push('flush'))]
  // More as long as it has not come: one that waits for an empty queue never would.
  const more = async () => {
    for (let n = 1; !order.includes('flush'); n++) {
      assert.ok(n < 20_000, 'the flush never came')
      await Promise.race([named(n), named(n + 0.5)])
    }
  }
  await Promise.all([...all, more()])
  assert.deepEqual(order, ['before', 'flush'])
  await store.close()
})

test('what is waited for has a time, and says so where it has none', async () => {
  const { store, workspace, tasks } = await tasksIn()
  const receipt = await tasks.patch('t', { set: { n: 1 } }, { durability: 'buffered' })
  for (const timeoutMs of [NaN, -1, 'soon', null]) {
    await assert.rejects(workspace.waitDurable(receipt, { timeoutMs }), TypeError)
  }
  for (const none of [undefined, null, {}, 7]) await assert.rejects(workspace.waitDurable(none), TypeError)
  await workspace.waitDurable(receipt, { timeoutMs: Infinity })
  await store.close()
})

test('who only waits is let go by the signal at once, though what it waits for goes on', { skip: process.platform !== 'linux' }, async () => {
  const path = folder()
  const store = await openStore(path)
  const workspace = await store.workspace('key:k')
  await workspace.tasks.create({ id: 't' })
  const receipt = await workspace.tasks.patch('t', { set: { n: 1 } }, { durability: 'buffered' })
  // Another process is at both lanes, so that nothing can be synced.
  const at = `${path}/workspaces/${workspace.name}`
  const held = `flock '${at}/SYNC1' sh -c 'echo held; read end'`
  const holder = spawn('flock', [`${at}/SYNC0`, 'sh', '-c', held], { stdio: ['pipe', 'pipe', 'inherit'] })
  await new Promise((resolve) => holder.stdout.once('data', resolve))
  const controller = new AbortController()
  const waits = workspace.waitDurable(receipt, { timeoutMs: 60_000, signal: controller.signal })
  // By then it has begun.
  for (let n = 0; n < 20; n++) await workspace.tasks.history('t')
  controller.abort('enough')
  await assert.rejects(waits, (error) => error instanceof AbortError && error.cause === 'enough')
  holder.stdin.end('\n')
  await new Promise((resolve) => holder.once('exit', resolve))
  await workspace.waitDurable(receipt)
  await store.close()
})
