import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { openStore } from '../lib/index.mjs'
import { WORKERS, contend, folder } from './harness.mjs'

const require = createRequire(import.meta.url)

for (const [first, second] of [['node', 'node'], ['node', 'pipe'], ['pipe', 'node']]) {
  test(`${first} and ${second}: distinct changes all survive, of conflicting ones one wins and one is told`, () =>
    contend(WORKERS[first](), WORKERS[second](), folder(), 30))
}

test('a writer that is killed between reading and committing, or in its commits, leaves a store the others go on with', async () => {
  const path = folder()
  const store = await openStore(path)
  const { tasks } = await store.workspace('key:shared')
  await tasks.create({ id: 't' })
  const reads = WORKERS.node()
  await reads.ask({ do: 'open', store: path })
  assert.equal((await reads.ask({ do: 'get', id: 't' })).ok.revision, 1)
  await reads.kill()
  await tasks.patch('t', { set: { n: 1 } }, { expect: 1 })
  for (let round = 0; round < 3; round++) {
    const commits = WORKERS.node()
    await commits.ask({ do: 'open', store: path })
    commits.send({ do: 'endless', id: 't', field: `k${round}` })
    let acknowledged = 0
    while (acknowledged < 100) acknowledged = (await commits.line()).acknowledged
    await commits.kill()
    const done = await tasks.patch('t', { set: { n: round } })
    assert.equal(done.durable, true)
    assert.ok(tasks.get('t').item[`k${round}`] >= acknowledged)
  }
  await store.close()
})

test('who runs a task is named as long as it lives; once it is dead another may, and its late writes are refused', async () => {
  const path = folder()
  const store = await openStore(path, { label: 'ours' })
  const { tasks } = await store.workspace('key:shared')
  await tasks.create({ id: 't' })
  const worker = WORKERS.node()
  await worker.ask({ do: 'open', store: path })
  const { fence } = (await worker.ask({ do: 'attach', id: 't' })).ok
  await assert.rejects(tasks.attach('t'), (error) => {
    assert.deepEqual([error.name, error.id, error.liveness, /worker/.test(error.owner)], ['OwnedError', 't', 'alive', true], error.owner)
    return true
  })
  await worker.kill()
  const taken = await tasks.attach('t')
  assert.notEqual(taken.fence, fence)
  await assert.rejects(tasks.patch('t', { set: { late: 1 } }, { fences: fence }), (error) => error.name === 'FencedError' && error.fence === fence)
  await tasks.patch('t', { set: { mine: 1 } }, { fences: taken.fence })
  assert.deepEqual([tasks.get('t').item.late, tasks.get('t').item.mine], [undefined, 1])
  await store.close()
})

const run = (code, ...args) =>
  spawnSync(process.execPath, ['--input-type=module', '-e', code, ...args], { encoding: 'utf8', timeout: 60_000 })
const LIB = new URL('../lib/index.mjs', import.meta.url).href

test('a process ends by itself, with commits under way; what was acknowledged is there', async () => {
  const path = folder()
  const ends = run(`
    import { openStore } from ${JSON.stringify(LIB)}
    const store = await openStore(process.argv[1])
    const workspace = await store.workspace('key:shared')
    workspace.onDidChange(() => {})
    await workspace.tasks.create({ id: 't' })
    let answered = 0
    for (let n = 0; n < 500; n++) workspace.tasks.patch('t', { set: { ['f' + n]: n } }).then(() => answered++)
    process.on('exit', () => console.log(JSON.stringify({ answered, left: process.getActiveResourcesInfo().filter((r) => r !== 'TTYWrap' && !r.startsWith('Pipe')) })))
  `, path)
  assert.equal(ends.status, 0, ends.stderr)
  assert.deepEqual(JSON.parse(ends.stdout), { answered: 500, left: [] })
  const exits = run(`
    import { openStore } from ${JSON.stringify(LIB)}
    import { writeSync } from 'node:fs'
    const store = await openStore(process.argv[1])
    const { tasks } = await store.workspace('key:shared')
    for (let n = 0; ; n++) tasks.patch('t', { set: { exit: n } }).then(() => { writeSync(1, n + '\\n'); if (n === 40) process.exit(7) }), n % 20 || await new Promise(setImmediate)
  `, path)
  assert.equal(exits.status, 7, exits.stderr)
  const acknowledged = exits.stdout.trim().split('\n').map(Number)
  const store = await openStore(path)
  const { tasks } = await store.workspace('key:shared')
  assert.ok(tasks.get('t').item.exit >= acknowledged.at(-1))
  assert.equal(tasks.get('t').item.f499, 499)
  await store.close()
})

test('worker threads share a store, and one that is terminated takes nothing with it', async () => {
  const path = folder()
  const store = await openStore(path)
  const { tasks } = await store.workspace('key:shared')
  await tasks.create({ id: 't' })
  const code = `
    const { parentPort, workerData } = require('node:worker_threads')
    const { openStore } = require(workerData.lib)
    openStore(workerData.path).then(async (store) => {
      const { tasks } = await store.workspace('key:shared')
      for (let n = 1; n <= 50; n++) await tasks.patch('t', { set: { [workerData.name]: n } }, { durability: n % 5 ? 'buffered' : 'durable' })
      parentPort.postMessage('done')
      for (let n = 51; ; n++) { tasks.patch('t', { set: { [workerData.name]: n } }); await new Promise(setImmediate) }
    })`
  const workers = ['w0', 'w1', 'w2'].map((name) => {
    const workerData = { name, path, lib: require.resolve('../lib/index.js') }
    return new Worker(code, { eval: true, workerData })
  })
  await Promise.all(workers.map((worker) => new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))))
  await Promise.all(workers.map((worker) => worker.terminate()))
  for (let n = 0; n < 50; n++) await tasks.patch('t', { set: { n } }, { durability: 'buffered' })
  const { item } = tasks.get('t')
  assert.ok(item.w0 >= 50 && item.w1 >= 50 && item.w2 >= 50 && item.n === 49)
  await store.close()
})

test('two copies of the addon in one process, and a package that is loaded anew, are like two programs', async () => {
  const path = folder()
  const copies = folder({ keeps: true })
  const fs = require('node:fs')
  const lib = new URL('../lib/', import.meta.url)
  fs.cpSync(lib, `${copies}/lib`, { recursive: true })
  const { file } = require('../lib/index.js').available()
  fs.copyFileSync(file, join(copies, 'lib', basename(file)))
  delete process.env.FOLDLOG_ADDON_DIR
  const copy = require(`${copies}/lib/index.js`)
  assert.equal(copy.available().file.startsWith(copies), true)
  for (const name of Object.keys(require.cache).filter((name) => name.startsWith(copies))) delete require.cache[name]
  const again = require(`${copies}/lib/index.js`)
  assert.notEqual(again.openStore, copy.openStore)
  const stores = [await openStore(path), await copy.openStore(path), await again.openStore(path)]
  const all = []
  for (const store of stores) all.push((await store.workspace('key:shared')).tasks)
  await all[0].create({ id: 't' })
  await Promise.all(all.flatMap((tasks, i) => Array.from({ length: 40 }, (_, n) =>
    tasks.patch('t', { set: { [`f${i}x${n}`]: n } }, { durability: n % 4 ? 'buffered' : 'durable' }))))
  for (const tasks of all) assert.equal(Object.keys(tasks.get('t').item).length, 121)
  for (const store of stores) await store.close()
})

test('opening and the first read wait for nobody, even where another process holds the lock', { skip: process.platform !== 'linux' }, async () => {
  const path = folder()
  const writer = await openStore(path)
  const { tasks, name } = await writer.workspace('key:shared')
  await tasks.create({ id: 't' })
  await writer.close()
  const { spawn } = await import('node:child_process')
  const holder = spawn('flock', [`${path}/workspaces/${name}/LOCK`, 'sh', '-c', 'echo held; read end'], { stdio: ['pipe', 'pipe', 'inherit'] })
  await new Promise((resolve) => holder.stdout.once('data', resolve))
  const store = await openStore(path, { lockTimeoutMs: 50 })
  const workspace = await store.workspace('key:shared')
  assert.equal(workspace.tasks.get('t').revision, 1)
  await assert.rejects(workspace.tasks.patch('t', { set: { n: 1 } }, { durability: 'buffered' }), (error) => {
    assert.deepEqual([error.name, error.waitedMs >= 50, typeof error.holder], ['BusyError', true, 'string'])
    return true
  })
  holder.stdin.end('\n')
  await new Promise((resolve) => holder.once('exit', resolve))
  await workspace.tasks.patch('t', { set: { n: 2 } }, { durability: 'buffered' })
  await store.close()
})

test('without an addon everything says so, and nothing breaks', () => {
  const dir = folder()
  const env = { ...process.env, FOLDLOG_ADDON_DIR: '' }
  require('node:fs').cpSync(new URL('../lib/', import.meta.url), `${dir}/lib`, { recursive: true })
  const lacks = spawnSync(process.execPath, ['-e', `
    const foldlog = require(process.argv[1])
    const it = foldlog.available()
    let thrown
    try { foldlog.openMemory() } catch (error) { thrown = error }
    foldlog.openStore('x').catch((error) => console.log(JSON.stringify({ it, name: thrown.name, code: error.code, same: error.message === thrown.message, message: error.message })))
  `, `${dir}/lib/index.js`], { encoding: 'utf8', env })
  const told = JSON.parse(lacks.stdout)
  assert.deepEqual([told.it.available, told.it.platform, told.name, told.code, told.same], [false, `${process.platform}-${process.arch}`, 'UnavailableError', 'unavailable', true])
  assert.match(told.it.reason, /there is no foldlog\..*\.node/)
  require('node:fs').writeFileSync(join(dir, 'lib', basename(require('../lib/index.js').available().file)), 'no addon')
  const broken = spawnSync(process.execPath, ['-p', 'JSON.stringify(require(process.argv[1]).available())', `${dir}/lib/index.js`], { encoding: 'utf8', env })
  const { available, file, reason } = JSON.parse(broken.stdout)
  assert.deepEqual([available, file.startsWith(dir)], [false, true])
  assert.ok(reason.length > 0 && !/there is no/.test(reason), reason)
  assert.ok(readFileSync(file, 'utf8') === 'no addon')
})
