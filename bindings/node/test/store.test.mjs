import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import * as foldlog from '../lib/index.mjs'
import { folder } from './harness.mjs'

const { available, openMemory, openStore, raw } = foldlog
const require = createRequire(import.meta.url)
const BUFFERED = { durability: 'buffered' }

async function tasksIn(path = folder()) {
  const store = await openStore(path)
  const workspace = await store.workspace('key:k')
  return { store, workspace, tasks: workspace.tasks, path }
}

test('every code of the library has its class, in both kinds of module and in the types', async () => {
  const { codes } = available()
  const errors = require('../lib/errors.js')
  assert.deepEqual(errors.CODES, codes)
  const types = require('node:fs').readFileSync(new URL('../lib/index.d.ts', import.meta.url), 'utf8')
  const cjs = require('../lib/index.js')
  for (const code of [...codes, ...errors.OWN]) {
    const name = errors.className(code)
    assert.equal(foldlog[name], errors.classes[name], name)
    assert.ok(foldlog[name].prototype instanceof foldlog.FoldlogError)
    assert.match(types, new RegExp(`class ${name} extends FoldlogError`), name)
  }
  assert.deepEqual(Object.keys(cjs).sort(), Object.keys(foldlog).filter((name) => name !== 'default').sort())
})

test('each error has the members that the types name, and they are those of all languages', () => {
  const types = require('node:fs').readFileSync(new URL('../lib/index.d.ts', import.meta.url), 'utf8')
  const members = require('../../corpus/errors.json')
  const errors = require('../lib/errors.js')
  assert.ok(Object.keys(members).length > 40)
  for (const [code, names] of Object.entries(members)) {
    const name = errors.className(code)
    const [, body] = types.match(new RegExp(`class ${name} extends FoldlogError \\{([^}]*)\\}`))
    const typed = [...body.matchAll(/readonly (\w+)\??:/g)].map(([, field]) => field)
    const made = errors.ofText(JSON.stringify({ error: code, message: 'm', remedy: 'r', file: null, data: Object.fromEntries(names.map((name) => [name, []])) }))
    const told = names.map((name) => (name === 'name' ? 'document' : name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())))
    for (const field of told) assert.deepEqual([name, field, field in made, typed.includes(field)], [name, field, true, true])
    // Of a conflict the first is told by itself too.
    if (code !== 'conflict') assert.deepEqual([...typed].sort(), [...told].sort(), name)
  }
})

test('every verb does what it says', async () => {
  const { store, tasks } = await tasksIn()
  const done = await tasks.create({ id: 'p', task: 'first' })
  assert.deepEqual([done.revisions, done.durable, done.again], [{ p: 1 }, true, false])
  await tasks.patch('p', { set: { mode: 'code', note: 'x' } }, BUFFERED)
  await tasks.patch('p', { unset: ['note'] }, BUFFERED)
  await tasks.rename('p', 'A title')
  await tasks.delegate('p', { id: 'c', task: 'child' })
  assert.equal(tasks.get('p').item.status, 'delegated')
  assert.deepEqual(tasks.tree('p').map(({ depth, task }) => [depth, task.item.id]), [[0, 'p'], [1, 'c']])
  const { fence } = await tasks.attach('c')
  assert.match(fence, /^1\.[0-9a-f]{16}$/)
  assert.equal(tasks.get('c').fence, fence)
  await tasks.patch('c', { set: { mode: 'x' } }, { fences: fence })
  await tasks.complete('c', { summary: 'fine' })
  assert.deepEqual([tasks.get('p').item.status, tasks.get('p').item.completionResultSummary], ['active', 'fine'])
  await tasks.setStatus('p', 'interrupted')
  await tasks.resume('p')
  await tasks.attach('p')
  await tasks.abandon('p')
  assert.equal(tasks.get('p').fence, undefined)
  await tasks.remove('p', { cascade: true })
  assert.equal(tasks.get('p'), undefined)
  const history = await tasks.history('p')
  assert.deepEqual([history[0].kind, history.at(-1).kind, history.at(-1).live], ['created', 'deleted', false])
  await store.close()
})

test('reads are frozen, the same as long as nothing has changed, and never less', async () => {
  const { store, tasks } = await tasksIn()
  await tasks.create({ id: 't', deep: { list: [1, { x: 2 }] } })
  for (let n = 0; n < 20; n++) await tasks.create({ id: `u${n}`, n }, BUFFERED)
  const first = tasks.get('t')
  assert.equal(tasks.get('t'), first)
  assert.ok(Object.isFrozen(first) && Object.isFrozen(first.item.deep.list[1]))
  const before = tasks.getAll()
  assert.equal(before.length, 21)
  assert.ok(before.includes(first))
  await tasks.patch('u3', { set: { n: 'new' } }, BUFFERED)
  const after = tasks.getAll()
  assert.equal(after.filter((task) => !before.includes(task)).length, 1)
  assert.equal(after.find((task) => task.item.id === 'u3').item.n, 'new')
  await tasks.remove('u3')
  assert.equal(tasks.getAll().length, 20)
  assert.equal(tasks.get('u3'), undefined)
  await tasks.create({ id: 'u3', n: 'again' }, { again: true })
  assert.equal(tasks.get('u3').item.n, 'again')
  const page = tasks.list({ sort: 'created', limit: 2 })
  assert.deepEqual([page.tasks.map((task) => task.item.id), page.total], [['u3', 'u19'], 21])
  assert.equal(tasks.list({ sort: 'created', limit: 1, after: page.next }).tasks[0].item.id, 'u18')
  assert.throws(() => tasks.list({ limits: 1 }), /there is no condition limits/)
  await store.close()
})

test('what JSON cannot hold is refused at the door, and nothing is written', async () => {
  const { store, tasks } = await tasksIn()
  await tasks.create({ id: 't' })
  const refused = (set, pattern) => assert.rejects(tasks.patch('t', { set }), pattern)
  await refused({ mode: undefined }, (error) => error instanceof TypeError && /unset/.test(error.message))
  await refused({ a: { b: [undefined] } }, /set\.a\.b\[0\] is undefined; .*unset/)
  await refused({ n: NaN }, TypeError)
  await refused({ n: Infinity }, TypeError)
  await refused({ f() {} }, TypeError)
  const endless = {}
  endless.self = endless
  await refused({ endless }, /nested too deeply/)
  // JSON.parse takes the last of two; the log takes neither.
  await refused({ n: raw('{"a":1,"a":2}') }, (error) => error.code === 'invalid')
  await assert.rejects(tasks.patch('t', { sett: {} }), /and no sett/)
  await assert.rejects(tasks.patch('t', { set: {} }, { expected: 1 }), /there is no option expected/)
  assert.throws(() => tasks.get(7), TypeError)
  assert.equal(tasks.get('t').revision, 1)
  await store.close()
})

test('errors are classes with their data', async () => {
  const { store, tasks } = await tasksIn()
  await tasks.create({ id: 't', n: 1 })
  await tasks.patch('t', { set: { n: 2 } })
  await assert.rejects(tasks.patch('t', { set: { n: 3 } }, { expect: 1 }), (error) => {
    assert.ok(error instanceof foldlog.ConflictError && error instanceof Error)
    assert.deepEqual(
      [error.name, error.code, error.id, error.current, error.revision, error.token],
      ['ConflictError', 'conflict', 't', { id: 't', n: 2 }, 2, tasks.get('t').token],
    )
    assert.ok(error.remedy.length > 0 && error.conflicts.length === 1)
    return true
  })
  await tasks.patch('t', { set: { n: 3 } }, { expect: tasks.get('t').token })
  const { fence } = await tasks.attach('t')
  await tasks.abandon('t')
  await assert.rejects(tasks.patch('t', { set: { n: 4 } }, { fences: fence }), (error) => {
    assert.deepEqual([error.constructor, error.fence, error.id], [foldlog.FencedError, fence, 't'])
    return true
  })
  await assert.rejects(tasks.patch('t', { set: { status: 'completed' } }), (error) => {
    assert.deepEqual([error.constructor, error.field], [foldlog.RuledFieldError, 'status'])
    return true
  })
  await tasks.complete('t')
  await assert.rejects(tasks.setStatus('t', 'active'), (error) => {
    assert.deepEqual([error.constructor, error.from, error.to], [foldlog.StatusRefusedError, 'completed', 'active'])
    return true
  })
  await tasks.remove('t')
  await assert.rejects(tasks.patch('t', { set: { n: 4 } }), foldlog.TaskDeletedError)
  await assert.rejects(tasks.patch('none', { set: { n: 4 } }), foldlog.NoTaskError)
  await assert.rejects(openStore('/dev/null'), foldlog.FoldlogError)
  await store.close()
  await assert.rejects(tasks.patch('t', { set: { n: 4 } }), foldlog.ClosedError)
  assert.throws(() => tasks.get('t'), foldlog.ClosedError)
  await assert.rejects(store.workspace('key:k'), foldlog.ClosedError)
  await store.close()
})

test('one commit of several changes is all or nothing, and a request of one name is applied once', async () => {
  const { store, tasks } = await tasksIn()
  await tasks.create({ id: 't' })
  const opId = '0123456789abcdef0123456789abcdef'
  const ops = [
    { op: 'patch', id: 't', set: { a: 1 } },
    { op: 'create', item: { id: 'u' } },
  ]
  const first = await tasks.commit(ops, { opId, expect: { t: 1, u: 'absent' } })
  const again = await tasks.commit(ops, { opId })
  assert.deepEqual([first.again, again.again, again.revisions], [false, true, first.revisions])
  await assert.rejects(
    tasks.commit([{ op: 'patch', id: 't', set: { a: 2 } }, { op: 'create', item: { id: 'u' } }]),
    foldlog.TaskExistsError,
  )
  assert.deepEqual(tasks.get('t').item, { id: 't', a: 1 })
  await assert.rejects(tasks.commit([{ op: 'erase', id: 't' }]), TypeError)
  await store.close()
})

test('commits are made in the order of their calls, whichever thread makes them', async () => {
  const { store, tasks } = await tasksIn()
  await tasks.create({ id: 't' })
  const all = []
  for (let n = 1; n <= 300; n++) {
    all.push(tasks.patch('t', { set: { n } }, { durability: n % 7 === 0 ? 'durable' : n % 3 === 0 ? 'interval:5' : 'buffered' }))
  }
  const seqs = (await Promise.all(all)).map((done) => done.seq)
  assert.deepEqual(seqs, [...seqs].sort((a, b) => a - b))
  const values = (await tasks.history('t')).slice(1).map((change) => change.changes[0].to)
  assert.deepEqual(values, Array.from({ length: 300 }, (_, i) => i + 1))
  await store.close()
})

test('what was buffered can be waited for', async () => {
  const { store, workspace, tasks } = await tasksIn()
  await tasks.create({ id: 't' })
  const done = await tasks.patch('t', { set: { n: 1 } }, BUFFERED)
  assert.equal(done.durable, false)
  await workspace.waitDurable(done)
  await workspace.flush()
  await assert.rejects(workspace.waitDurable('nonsense'), foldlog.InvalidError)
  assert.equal(workspace.health().status, 'healthy')
  const [told] = await store.sessions()
  assert.equal(told.state, 'alive')
  assert.deepEqual((await store.workspaces())[0].boundTo, ['key k'])
  assert.equal(await store.workspaceOf('t'), workspace)
  await store.close()
})

test('a store in memory and one that is only looked at', async () => {
  const store = openMemory()
  const { tasks } = await store.workspace('key:k')
  await tasks.create({ id: 't' })
  assert.equal(tasks.get('t').revision, 1)
  await store.close()
  const { store: writer, path } = await tasksIn()
  await writer.close()
  const reader = await openStore(path, { readOnly: true })
  const looked = await reader.workspace('key:k')
  await assert.rejects(looked.tasks.create({ id: 'x' }), foldlog.ReadOnlyError)
  assert.equal(looked.health().status, 'read-only')
  await reader.close()
  await assert.rejects(openStore(`${path}/none`, { create: false }), foldlog.NotFoundError)
})

test('disposing closes', async () => {
  const { store, tasks } = await tasksIn()
  await store[Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]()
  assert.throws(() => tasks.getAll(), foldlog.ClosedError)
})

test('a panic is an error, on either thread', () => {
  const { native } = require('../lib/addon.js').load()
  assert.throws(() => native.panics(), /a panic that was asked for/)
  assert.equal(available().available, true)
})

test('an expectation that names nothing is refused: a commit that was to be conditional is never made without', async () => {
  const store = await foldlog.openStore(folder())
  const { tasks, documents } = await store.workspace('key:k')
  await tasks.create({ id: 't' })
  await documents.put('d', 1)
  const patch = [{ op: 'patch', id: 't', set: { n: 1 } }]
  for (const expect of [3, 'exists', ['t'], new Map([['t', 1]]), null, true, { t: undefined }, { t: -1 }, { t: 1.5 }]) {
    await assert.rejects(async () => tasks.commit(patch, { expect, durability: 'buffered' }), TypeError, String(expect))
    await assert.rejects(async () => tasks.remove(['t'], { expect }), TypeError, String(expect))
    await assert.rejects(async () => tasks.commit(patch, { expectDocuments: expect }), TypeError, String(expect))
  }
  for (const expect of [new Map(), [], null]) {
    await assert.rejects(async () => documents.put('d', 2, { expect }), TypeError, String(expect))
    await assert.rejects(async () => tasks.patch('t', { set: { n: 1 } }, { expect, durability: 'buffered' }), TypeError)
  }
  assert.deepEqual([tasks.get('t').revision, (await documents.get('d')).value], [1, 1])
  await store.close()
})

test('what is put into the global home without waiting is put in the order of the calls', async () => {
  const store = await foldlog.openStore(folder())
  const { documents } = store.global
  for (let round = 0; round < 10; round++) {
    await Promise.all(Array.from({ length: 8 }, (_, n) => documents.put('x', [round, n])))
    assert.deepEqual((await documents.get('x')).value, [round, 7])
  }
  await store.close()
})

test('a workspace that is being opened while its store closes is not left open', async () => {
  const path = folder()
  const store = await foldlog.openStore(path, { label: 'one' })
  const opening = store.workspace('key:k')
  const closing = store.close()
  const opened = await opening.then(() => true, (error) => error.code)
  await closing
  assert.ok(opened === true || opened === 'closed', opened)
  await assert.rejects(store.workspace('key:late'), (error) => error.code === 'closed')
  const other = await foldlog.openStore(path)
  assert.deepEqual((await other.sessions()).filter(({ label, state }) => label === 'one' && state !== 'dead'), [])
  await other.close()
})

test('what was told and could not be taken in is told again', async () => {
  const store = await foldlog.openStore(folder())
  const { tasks } = await store.workspace('key:k')
  await tasks.create({ id: 't', n: 1 })
  await tasks.create({ id: 'u', n: 1 })
  const { parse } = JSON
  for (const act of [() => tasks.getAll(), () => tasks.get('t'), () => tasks.tree('t')]) {
    JSON.parse = () => {
      throw new RangeError('Invalid string length')
    }
    try {
      assert.throws(act, RangeError)
    } finally {
      JSON.parse = parse
    }
    assert.equal(tasks.get('t').item.n, 1)
    assert.deepEqual(tasks.getAll().map(({ item }) => item.id).sort(), ['t', 'u'])
    assert.equal(tasks.tree('t')[0].task.item.n, 1)
    await tasks.patch('t', { set: { other: Math.random() } }, { durability: 'buffered' })
  }
  await store.close()
})
