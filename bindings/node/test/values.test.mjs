import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { openStore, raw } from '../lib/index.mjs'
import { WORKERS, folder } from './harness.mjs'

const corpus = (name) => JSON.parse(readFileSync(new URL(`../../corpus/${name}.json`, import.meta.url), 'utf8'))
const BUFFERED = { durability: 'buffered' }

test('every value of the corpus comes back as it was spelled, to every process', async () => {
  const path = folder()
  const store = await openStore(path)
  const { tasks } = await store.workspace('key:shared')
  const values = corpus('values')
  assert.ok(values.length > 30)
  for (const [n, text] of values.entries()) {
    await tasks.create({ id: `t${n}`, v: raw(text) }, BUFFERED)
    const spelled = `{"id":"t${n}","v":${text}}`
    assert.equal(tasks.getText(`t${n}`), spelled)
    // A change of another field changes nothing of it, whatever JavaScript sees.
    assert.deepEqual(tasks.get(`t${n}`).item.v, JSON.parse(text))
    await tasks.patch(`t${n}`, { set: { other: 1 }, unset: [] }, BUFFERED)
    await tasks.patch(`t${n}`, { unset: ['other'] }, BUFFERED)
    assert.equal(tasks.getText(`t${n}`), spelled)
  }
  const other = WORKERS.node()
  await other.ask({ do: 'open', store: path })
  for (const [n, text] of values.entries()) {
    assert.equal((await other.ask({ do: 'text', id: `t${n}` })).ok, `{"id":"t${n}","v":${text}}`)
  }
  await other.end()
  const { revision } = tasks.get('t0')
  for (const text of corpus('refused')) {
    const refused = async () => tasks.patch('t0', { set: { v: raw(text) } })
    await assert.rejects(refused, (error) => error instanceof TypeError || error.code === 'invalid', text)
  }
  assert.equal(tasks.get('t0').revision, revision)
  await store.close()
})

test('what JavaScript can hold goes in and comes out as the same value', async () => {
  const store = await openStore(folder())
  const { tasks } = await store.workspace('key:k')
  const values = [0, -0, 1.5, 5e-324, Number.MAX_VALUE, 2 ** 53, 'ä\u2028\0"\\', '\ud83d', [], {}, [null, [true]], { ['__proto__']: 1, a: [] }]
  for (const [n, value] of values.entries()) {
    await tasks.create({ id: `t${n}`, value }, BUFFERED)
    const { value: back } = tasks.get(`t${n}`).item
    assert.deepStrictEqual(back, value)
    assert.ok(Object.is(back, value) || typeof value === 'object')
  }
  await tasks.create({ id: 'big', value: 2n ** 70n })
  assert.equal(tasks.getText('big'), '{"id":"big","value":1180591620717411303424}')
  await tasks.create({ id: 'date', value: new Date(0) })
  assert.equal(tasks.get('date').item.value, '1970-01-01T00:00:00.000Z')
  await store.close()
})

test('what JSON cannot hold is refused, wherever it stands, and nothing is written', async () => {
  const store = await openStore(folder())
  const { tasks } = await store.workspace('key:k')
  await tasks.create({ id: 't' })
  const loop = []
  loop.push(loop)
  const all = [
    undefined, NaN, Infinity, Symbol('s'), () => 1, new Map([[1, 2]]), new Set([1]), /x/, new Number(5), new Uint8Array(2),
    new Date(NaN), Promise.resolve(1), new Error('e'), loop, [undefined], [, 1], // eslint-disable-line no-sparse-arrays
  ]
  for (const value of all) {
    for (const set of [{ v: value }, { v: { deep: [value] } }]) {
      await assert.rejects(async () => tasks.patch('t', { set }, BUFFERED), TypeError)
      await assert.rejects(async () => tasks.create({ id: 'u', ...set }), TypeError)
    }
  }
  assert.deepEqual([tasks.get('t').revision, tasks.get('u')], [1, undefined])
  // An object of a class of the host's own has members, and those are its JSON.
  class Cost {
    constructor() {
      this.cents = 5
    }
  }
  await tasks.patch('t', { set: { cost: new Cost(), none: Object.assign(Object.create(null), { a: -0 }) } }, BUFFERED)
  assert.equal(tasks.getText('t'), '{"id":"t","cost":{"cents":5},"none":{"a":-0}}')
  await store.close()
})

test('raw text is one value, and nothing beside it', async () => {
  const store = await openStore(folder())
  const { tasks } = await store.workspace('key:k')
  await tasks.create({ id: 't', keep: 1 })
  for (const text of ['1,"x":2', '1},"unset":["keep"],"expect":{"t":1', '', ' ', '1 2', '"\ud800"', 7, null, undefined]) {
    assert.throws(() => raw(text), TypeError, String(text))
  }
  // A value of another copy of the package is known too, and judged alike.
  const other = (text) => ({ [Symbol.for('foldlog.raw')]: text })
  await tasks.patch('t', { set: { v: other(' 1.50 ') } }, BUFFERED)
  assert.match(tasks.getText('t'), /"v": *1\.50/)
  await assert.rejects(async () => tasks.patch('t', { set: { v: other('1,"x":2') } }, BUFFERED), TypeError)
  await store.close()
})
