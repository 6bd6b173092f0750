import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openStore } from '../lib/index.mjs'
import { folder } from './harness.mjs'

async function opened() {
  const store = await openStore(folder())
  const workspace = await store.workspace('key:k')
  return { store, workspace, documents: workspace.documents, tasks: workspace.tasks }
}
const code = (expected) => (error) => error.code === expected

test('a document lives and dies', async () => {
  const { store, documents } = await opened()
  assert.equal(await documents.get('modes'), undefined)
  const receipt = await documents.put('modes', { a: 1, b: [null] }, { kind: 'settings' })
  const found = await documents.get('modes')
  assert.deepEqual(found.value, { a: 1, b: [null] })
  assert.deepEqual([found.revision, found.kind, found.token], [1, 'settings', receipt.documents.modes])
  await documents.patch('modes', { set: { c: 3 }, unset: ['a'] }, { expect: found.token })
  assert.deepEqual((await documents.get('modes')).value, { b: [null], c: 3 })
  await assert.rejects(documents.put('modes', 7, { expect: 1 }), (error) => {
    assert.equal(error.code, 'conflict')
    assert.deepEqual([error.current, error.revision], [{ b: [null], c: 3 }, 2])
    return true
  })
  await assert.rejects(documents.patch('modes', { set: { c: undefined } }), /unset/)
  await documents.delete('modes')
  assert.equal(await documents.get('modes'), undefined)
  await assert.rejects(documents.put('modes', 1), (error) => error.code === 'document-deleted' && error.document === 'modes')
  await documents.put('modes', 1, { expect: 'absent' })
  const events = (await documents.history('modes')).map(({ event }) => event)
  assert.deepEqual(events, ['document-put', 'document-patched', 'document-deleted', 'document-put'])
  await store.close()
})

test('one commit has tasks and documents, all or nothing', async () => {
  const { store, workspace, documents, tasks } = await opened()
  const put = { op: 'putDocument', name: 'd', value: 1 }
  await assert.rejects(workspace.commit([put, { op: 'patch', id: 'none', set: { x: 1 } }]), code('no-task'))
  assert.equal(await documents.get('d'), undefined)
  await workspace.commit([put, { op: 'create', item: { id: 't' } }], { expectDocuments: { d: 'absent' } })
  assert.equal((await documents.get('d')).value, 1)
  assert.equal(tasks.get('t').revision, 1)
  // A commit that could be made at once rests on a document too.
  const rests = { expectDocuments: { d: 7 }, durability: 'buffered' }
  await assert.rejects(workspace.commit([{ op: 'patch', id: 't', set: { x: 1 } }], rests), code('conflict'))
  await store.close()
})

test('the workspace comes before the global home, and pages have every name once', async () => {
  const { store, workspace, documents } = await opened()
  assert.equal(await documents.resolve('theme'), undefined)
  assert.deepEqual(await store.global.documents.list(), { documents: [], next: undefined })
  await store.global.documents.put('theme', 'dark')
  assert.deepEqual(pick(await documents.resolve('theme')), ['dark', 'global'])
  await documents.put('theme', 'light')
  assert.deepEqual(pick(await documents.resolve('theme')), ['light', 'workspace'])
  assert.deepEqual(pick(await store.global.documents.resolve('theme')), ['dark', 'global'])
  const names = Array.from({ length: 25 }, (_, n) => `n/${String(n).padStart(2, '0')}`)
  await workspace.commit(names.map((name) => ({ op: 'putDocument', name, value: name })))
  const seen = []
  let after
  do {
    const page = await documents.list({ prefix: 'n/', limit: 10, after })
    seen.push(...page.documents.map(({ name }) => name))
    after = page.next
  } while (after !== undefined)
  assert.deepEqual(seen, names)
  await store.close()
})
const pick = ({ value, from }) => [value, from]

test('a validator judges what is then written, patches and commits too', async () => {
  const { store, workspace, documents } = await opened()
  store.validateDocuments('box', (name, value) => {
    if (!Number.isInteger(value.size)) throw new Error(`${name} needs a size`)
  })
  await documents.put('b', { size: 1, n: 0 }, { kind: 'box' })
  for (const refused of [
    documents.patch('b', { set: { size: 'large' } }),
    documents.patch('b', { unset: ['size'] }),
    documents.put('b', {}),
    workspace.commit([{ op: 'patchDocument', name: 'b', set: { size: 2 } }, { op: 'patchDocument', name: 'b', unset: ['size'] }]),
    documents.put('new', {}, { kind: 'box' }),
  ]) {
    await assert.rejects(refused, (error) => error.code === 'document-refused' && /needs a size/.test(error.message))
  }
  assert.deepEqual([(await documents.get('b')).revision, await documents.get('new')], [1, undefined])
  await assert.rejects(workspace.tasks.commit([{ op: 'putDocument', name: 'b', value: {} }]), code('document-refused'))
  const file = stateFile(JSON.stringify((await documents.get('b')).value))
  await documents.sync('b', file)
  writeFileSync(file, '{"size":"x","n":0}')
  const { imported, findings } = await documents.sync('b', file)
  assert.deepEqual([imported, findings.length > 0, (await documents.get('b')).value.size], [false, true, 1])
  // However it is expected, what is written is what was judged.
  await assert.rejects(documents.patch('b', { set: { size: 'x' } }, { expect: 'exists' }), code('document-refused'))
  await documents.put('__proto__', { size: 1 }, { kind: 'box' })
  await assert.rejects(documents.patch('__proto__', { set: { size: 'x' } }), code('document-refused'))
  // Whoever is outrun judges anew; nothing is lost.
  await Promise.all(Array.from({ length: 8 }, (_, n) => documents.patch('b', { set: { [`n${n}`]: n } })))
  const { value } = await documents.get('b')
  for (let n = 0; n < 8; n++) assert.equal(value[`n${n}`], n)
  await documents.delete('b')
  await assert.rejects(documents.put('b', { size: 1 }, { kind: 'box' }), code('document-deleted'))
  await store.close()
})

function stateFile(text) {
  const file = join(folder(), 'state.json')
  writeFileSync(file, text)
  return file
}

test('a validator may read, is replaced by another, and one that promises or throws nonsense refuses', async () => {
  const { store, documents, tasks } = await opened()
  await tasks.create({ id: 't', n: 1 })
  const seen = []
  store.validateDocuments('k', (name, value) => {
    seen.push([name, value, tasks.get('t').item.n])
    tasks.patch('t', { set: { n: value } }, { durability: 'buffered' })
  })
  await documents.put('d', 1, { kind: 'k' })
  await documents.put('d', 2)
  await documents.put('d', 2)
  assert.deepEqual(seen, [['d', 1, 1], ['d', 2, 1]])
  store.validateDocuments('k', async () => {})
  await assert.rejects(documents.put('d', 3), (error) => error.code === 'document-refused' && /promise/.test(error.reason))
  store.validateDocuments('k', () => {
    throw undefined
  })
  await assert.rejects(documents.put('d', 3), (error) => error.code === 'document-refused' && error.reason === 'undefined')
  store.validateDocuments('k', () => {})
  await documents.put('d', 3)
  // In the order of the calls, with a validator too.
  await Promise.all(Array.from({ length: 20 }, (_, n) => documents.put('d', [n])))
  assert.deepEqual((await documents.get('d')).value, [19])
  assert.throws(() => store.validateDocuments('k', 'no function'), TypeError)
  await store.close()
})

test('a state file and its document are kept in step', async () => {
  const { store, documents } = await opened()
  const file = join(folder(), 'state.json')
  writeFileSync(file, '{"a": 1}')
  assert.equal((await documents.sync('state', file)).imported, true)
  await documents.patch('state', { set: { b: 2 } })
  assert.equal((await documents.sync('state', file)).exported, true)
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { a: 1, b: 2 })
  writeFileSync(file, '{')
  assert.equal((await documents.sync('state', file)).findings.length > 0, true)
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { a: 1, b: 2 })
  writeFileSync(file, '{')
  await assert.rejects(documents.sync('other', file), code('bad-state-file'))
  assert.equal(readFileSync(file, 'utf8'), '{')
  await store.close()
})
