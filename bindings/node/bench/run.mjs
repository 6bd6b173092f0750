// What the package costs, beside better-sqlite3 and beside a JSON file under proper-lockfile, in one run.
//
//   cd bindings/node/bench && npm ci && node run.mjs [--quick]
//
// Medians of rounds in which all take turns. No figure is judged here; the bars are printed beside them.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openStore } from '../lib/index.mjs'

const require = createRequire(import.meta.url)
const Database = require('better-sqlite3')
const lockfile = require('proper-lockfile')
const quick = process.argv.includes('--quick')
const ROUNDS = quick ? 3 : 7
const ITEM = { task: 'x'.repeat(300), ts: 1, tokensIn: 1, tokensOut: 2, totalCost: 0.5, mode: 'code', workspace: '/home/me/project', status: 'active' }

const median = (all) => [...all].sort((a, b) => a - b)[all.length >> 1]
const dirs = []
const folder = () => {
  const dir = mkdtempSync(join(process.env.BENCH_DIR ?? tmpdir(), 'foldlog-bench-'))
  dirs.push(dir)
  return dir
}

/** Calls a second of `act(n)`, which is called `count` times. */
async function rate(count, act) {
  const start = process.hrtime.bigint()
  for (let n = 0; n < count; n++) await act(n)
  return count / (Number(process.hrtime.bigint() - start) / 1e9)
}

function sqlite(path, synchronous) {
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma(`synchronous = ${synchronous}`)
  db.pragma('busy_timeout = 10000')
  db.exec('create table if not exists tasks (id text primary key, item text, revision integer)')
  const get = db.prepare('select item from tasks where id = ?')
  const put = db.prepare('insert into tasks values (?, ?, 1) on conflict (id) do update set item = excluded.item, revision = revision + 1')
  const patch = db.transaction((id, set) => put.run(id, JSON.stringify({ ...JSON.parse(get.get(id).item), ...set })))
  return { db, get, put, patch: (id, set) => patch.immediate(id, set) }
}

if (process.argv[2] === '--durable') {
  // One of several processes; begins when told, ends after so many.
  const [, , , kind, path, id, count] = process.argv
  let act
  if (kind === 'foldlog') {
    const { tasks } = await (await openStore(path)).workspace('key:bench')
    await tasks.create({ id, ...ITEM })
    act = (n) => tasks.patch(id, { set: { tokensIn: n } })
  } else {
    const { put, patch } = sqlite(path, 'FULL')
    put.run(id, JSON.stringify(ITEM))
    act = (n) => patch(id, { tokensIn: n })
  }
  await act(0)
  const start = Date.now()
  await rate(Number(count), act)
  console.log(JSON.stringify({ start, end: Date.now() }))
  process.exit()
}

const rows = []
const row = (what, figures, bar) => rows.push([what, figures, bar])

// --- buffered, one process -------------------------------------------------------------------------------------------
{
  const store = await openStore(folder())
  const { tasks } = await store.workspace('key:bench')
  await tasks.create({ id: 't', ...ITEM })
  const normal = sqlite(join(folder(), 'db'), 'NORMAL')
  normal.put.run('t', JSON.stringify(ITEM))
  const file = join(folder(), 'history.json')
  writeFileSync(file, JSON.stringify({ t: ITEM }))
  const upsert = async (n) => {
    const release = await lockfile.lock(file)
    const all = JSON.parse(readFileSync(file, 'utf8'))
    all.t = { ...all.t, tokensIn: n }
    writeFileSync(`${file}.new`, JSON.stringify(all))
    renameSync(`${file}.new`, file)
    await release()
  }
  const ours = (n) => tasks.patch('t', { set: { tokensIn: n } }, { durability: 'buffered' })
  await rate(20_000, ours)
  const got = { ours: [], sqlite: [], json: [], p50: [], p99: [] }
  for (let round = 0; round < ROUNDS; round++) {
    got.ours.push(await rate(20_000, ours))
    got.sqlite.push(await rate(4_000, (n) => normal.patch('t', { tokensIn: n })))
    got.json.push(await rate(100, upsert))
    const each = []
    for (let n = 0; n < 5_000; n++) {
      const start = process.hrtime.bigint()
      await ours(n)
      each.push(Number(process.hrtime.bigint() - start) / 1000)
    }
    each.sort((a, b) => a - b)
    got.p50.push(each[2_500])
    got.p99.push(each[4_950])
  }
  const [ours_, sqlite_, json_] = [median(got.ours), median(got.sqlite), median(got.json)]
  row('buffered patch, 1 process', `${(ours_ / 1000).toFixed(1)} k/s; better-sqlite3 NORMAL ${(sqlite_ / 1000).toFixed(1)} k/s; JSON upsert ${json_.toFixed(0)}/s`, '')
  row('  against better-sqlite3 NORMAL', `${(ours_ / sqlite_).toFixed(1)} x`, '>= 5 x')
  row('  against the JSON upsert', `${(ours_ / json_).toFixed(0)} x`, '>= 100 x')
  row('  p50, p99', `${median(got.p50).toFixed(1)} µs, ${median(got.p99).toFixed(1)} µs`, 'p50 <= 10 µs')

  const get = []
  for (let round = 0; round < ROUNDS; round++) {
    const start = process.hrtime.bigint()
    for (let n = 0; n < 100_000; n++) tasks.get('t')
    get.push(Number(process.hrtime.bigint() - start) / 1e3 / 100_000)
  }
  row('get of an unchanged task', `${median(get).toFixed(2)} µs`, '<= 2 µs')

  // The loop, while 50 commits a second are made.
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  for (let n = 0; n < (quick ? 50 : 250); n++) {
    await Promise.all([ours(n), new Promise((resolve) => setTimeout(resolve, 20))])
    void tasks.patch('t', { set: { tokensOut: n } })
  }
  delay.disable()
  row('event loop at 50 buffered and 50 durable commits/s', `p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms, max ${(delay.max / 1e6).toFixed(1)} ms`, '<= 10 ms')
  await store.close()
}

// --- lists -----------------------------------------------------------------------------------------------------------
{
  const path = folder()
  const store = await openStore(path)
  const { tasks } = await store.workspace('key:bench')
  for (let n = 0; n < 5_000; n++) await tasks.create({ id: `t${n}`, ...ITEM, ts: n }, { durability: 'buffered' })
  const [first, again] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    const other = await openStore(path)
    const fresh = (await other.workspace('key:bench')).tasks
    let start = performance.now()
    fresh.getAll()
    first.push(performance.now() - start)
    for (let n = 0; n < 50; n++) await tasks.patch(`t${n * 97}`, { set: { tokensIn: round * 100 + n } }, { durability: 'buffered' })
    start = performance.now()
    fresh.getAll()
    again.push(performance.now() - start)
    await (await other.workspace('key:bench')).close()
  }
  row('getAll of 5,000, the first time', `${median(first).toFixed(1)} ms`, '<= 120 ms')
  row('getAll of 5,000, 50 of them changed', `${median(again).toFixed(1)} ms`, '<= 10 ms')
  await store.close()
}

// --- durable, four processes -----------------------------------------------------------------------------------------
{
  const run = promisify(execFile)
  const self = fileURLToPath(import.meta.url)
  const several = async (kind, processes) => {
    const path = kind === 'foldlog' ? folder() : join(folder(), 'db')
    if (kind === 'sqlite') sqlite(path, 'FULL').db.close()
    else await (await (await openStore(path)).workspace('key:bench')).close()
    const count = quick ? 300 : 1_000
    const ran = await Promise.all(Array.from({ length: processes }, (_, n) =>
      run(process.execPath, [self, '--durable', kind, path, `t${n}`, String(count)])))
    const times = ran.map(({ stdout }) => JSON.parse(stdout))
    return (processes * count) / ((Math.max(...times.map(({ end }) => end)) - Math.min(...times.map(({ start }) => start))) / 1000)
  }
  for (const processes of [1, 4]) {
    const [ours, theirs] = [[], []]
    for (let round = 0; round < Math.min(ROUNDS, 3); round++) {
      ours.push(await several('foldlog', processes))
      theirs.push(await several('sqlite', processes))
    }
    row(`durable patch, ${processes} process(es)`, `${(median(ours) / 1000).toFixed(2)} k/s; better-sqlite3 FULL ${(median(theirs) / 1000).toFixed(2)} k/s: ${(median(ours) / median(theirs)).toFixed(1)} x`, processes === 4 ? '>= 3 x' : '')
  }
}

for (const dir of dirs) rmSync(dir, { recursive: true, force: true })
for (const [what, figures, bar] of rows) console.log(`${what.padEnd(52)} ${figures}${bar === '' ? '' : `   (bar: ${bar})`}`)
