import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AbortError, openStore } from '../lib/index.mjs'
import { WORKERS, folder } from './harness.mjs'

async function shared() {
  const path = folder()
  const store = await openStore(path)
  const workspace = await store.workspace('key:shared')
  return { path, store, workspace, tasks: workspace.tasks }
}

test('a subscription brings the commits of all processes, once and in order, and goes on from a cursor', async () => {
  const { path, store, workspace, tasks } = await shared()
  const updates = workspace.subscribe()
  await tasks.create({ id: 't', n: 0 })
  const other = WORKERS.node()
  await other.ask({ do: 'open', store: path })
  for (let n = 1; n <= 50; n++) {
    if (n % 2) await tasks.patch('t', { set: { n } }, { durability: 'buffered' })
    else await other.ask({ do: 'patch', id: 't', set: { n }, durability: 'buffered' })
  }
  const seen = []
  let cursor
  for await (const { kind, commit } of updates) {
    if (kind !== 'commit') continue
    for (const change of commit.changes) seen.push(change.changes.find(({ field }) => field === 'n').to)
    if (seen.length === 20) cursor = updates.cursor
    if (seen.length === 51) break
  }
  assert.deepEqual(seen, Array.from({ length: 51 }, (_, n) => n))
  assert.deepEqual(await updates.next(), { value: undefined, done: true })
  const rest = workspace.subscribe({ from: cursor })
  const { value } = await rest.next()
  assert.equal(value.commit.changes[0].changes[0].to, 20)
  await rest.return()
  const whole = workspace.subscribe({ from: 'start' })
  assert.equal((await whole.next()).value.commit.changes[0].kind, 'created')
  await whole.return()
  assert.throws(() => workspace.subscribe({ from: 'nonsense' }), (error) => error.code === 'invalid')
  await other.end()
  await store.close()
})

test('a subscription that waits ends by its signal, by return, and with its workspace', async () => {
  const { store, workspace } = await shared()
  const controller = new AbortController()
  const aborted = workspace.subscribe({ signal: controller.signal }).next()
  const returned = workspace.subscribe()
  const waiting = returned.next()
  const closed = workspace.subscribe().next()
  // All three wait.
  await new Promise((resolve) => setImmediate(resolve))
  controller.abort('enough')
  await assert.rejects(aborted, (error) => error instanceof AbortError && error.cause === 'enough')
  await returned.return()
  assert.equal((await waiting).done, true)
  await store.close()
  assert.equal((await closed).done, true)
})

test("VS Code's events tell of changes, in any process, until they are disposed of", async () => {
  const { path, store, workspace, tasks } = await shared()
  await tasks.create({ id: 't' })
  const disposables = []
  const told = []
  let wake
  const scope = { mine: true }
  const disposable = workspace.onDidChange(
    function (commit) {
      assert.equal(this, scope)
      told.push(...commit.changes.map((change) => change.id))
      wake?.()
    },
    scope,
    disposables,
  )
  const other = WORKERS.node()
  await other.ask({ do: 'open', store: path })
  await other.ask({ do: 'create', item: { id: 'u' } })
  while (!told.includes('u')) await new Promise((resolve) => (wake = resolve))
  await tasks.patch('t', { set: { n: 1 } })
  while (!told.includes('t')) await new Promise((resolve) => (wake = resolve))
  assert.deepEqual([told, disposables], [['u', 't'], [disposable]])
  disposable.dispose()
  const probe = workspace.subscribe()
  await tasks.patch('t', { set: { n: 2 } })
  await probe.next()
  assert.equal(told.length, 2)
  await probe.return()
  await other.end()
  await store.close()
})

test('closing ends the subscriptions of a store that only reads, too, and lets go of everything', async () => {
  const path = folder()
  const writer = await openStore(path, { label: 'writer' })
  const tasks = (await writer.workspace('key:k')).tasks
  await tasks.create({ id: 't' })
  for (const readOnly of [true, false]) {
    const store = await openStore(path, { readOnly, label: 'reader' })
    const workspace = await store.workspace('key:k')
    // One that waits for news, one that nobody asks, one that was called off from the start.
    const news = workspace.subscribe()
    if (readOnly) assert.equal((await news.next()).value.health.status, 'read-only')
    const waiting = news.next()
    const idle = workspace.subscribe({ from: 'start' })
    assert.equal((await idle.next()).value.commit.changes[0].id, 't')
    const off = workspace.subscribe({ signal: AbortSignal.abort() })
    await assert.rejects(off.next(), (error) => error instanceof AbortError)
    if (!readOnly) await workspace.tasks.patch('t', { set: { a: 1 } })
    await store.close()
    if (readOnly) assert.deepEqual(await waiting, { value: undefined, done: true })
    else assert.equal((await waiting).value.commit.changes[0].kind, 'patched')
    const held = (await writer.sessions()).filter(({ label, state }) => label === 'reader' && state !== 'dead')
    assert.deepEqual(held, [], 'its session has ended with it')
  }
  await writer.close()
})

test('a commit that changes documents tells of them', async () => {
  const store = await openStore(folder())
  const workspace = await store.workspace('key:k')
  const updates = workspace.subscribe()
  await workspace.commit([{ op: 'create', item: { id: 't' } }, { op: 'putDocument', name: 'd', value: [1], kind: 'k' }])
  const { value: { commit } } = await updates.next()
  assert.deepEqual(commit.changes.map(({ id }) => id), ['t'])
  assert.deepEqual(commit.documents.map(({ name, event, value, kind, revision }) => [name, event, value, kind, revision]), [['d', 'document-put', [1], 'k', 1]])
  assert.deepEqual(Object.keys(commit.documents[0]).filter((key) => key.includes('_')), [])
  await updates.return()
  await store.close()
})
