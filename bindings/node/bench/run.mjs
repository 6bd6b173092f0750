// What the package costs, beside better-sqlite3 and beside JSON files under proper-lockfile, in one run.
//
//   cd bindings/node/bench && npm ci && node run.mjs [--quick]
//
// Medians of rounds in which all take turns. No figure is judged here; the bars are printed beside them.
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { draws, files, foldlog, id, sqlite } from './peers.mjs'

const quick = process.argv.includes('--quick')
const ROUNDS = quick ? 3 : 7

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

const PEERS = { foldlog: (dir) => foldlog(dir, 'durable'), sqlite: (dir) => sqlite(dir, 'FULL') }

if (process.argv[2] === '--durable') {
  // One of several processes; begins when all are there, ends after so many.
  const [, , , kind, dir, seed, count] = process.argv
  const { step } = await PEERS[kind](dir)
  const draw = draws(Number(seed))
  await step(draw(), 0)
  process.send('ready')
  await new Promise((go) => process.once('message', go))
  const start = Date.now()
  await rate(Number(count), (n) => step(draw(), n))
  process.send({ start, end: Date.now() })
  process.disconnect()
  process.exit()
}

const rows = []
const row = (what, figures, bar) => rows.push([what, figures, bar])

// --- buffered, one process -------------------------------------------------------------------------------------------
{
  const ours = await foldlog(folder(), 'buffered')
  const normal = sqlite(folder(), 'NORMAL')
  const json = files(folder())
  for (const one of [ours, normal, json]) await one.load()
  const draw = draws(1)
  const { tasks } = ours
  await rate(20_000, (n) => ours.step(draw(), n))
  const got = { ours: [], sqlite: [], json: [], p50: [], p99: [] }
  for (let round = 0; round < ROUNDS; round++) {
    got.ours.push(await rate(20_000, (n) => ours.step(draw(), n)))
    got.sqlite.push(await rate(4_000, (n) => normal.step(draw(), n)))
    got.json.push(await rate(100, (n) => json.step(draw(), n)))
    const each = []
    for (let n = 0; n < 5_000; n++) {
      const start = process.hrtime.bigint()
      await ours.step(draw(), n)
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
    for (let n = 0; n < 100_000; n++) tasks.get(id(7))
    get.push(Number(process.hrtime.bigint() - start) / 1e3 / 100_000)
  }
  row('get of an unchanged task', `${median(get).toFixed(2)} µs`, '<= 2 µs')

  // The loop, while 50 commits a second are made.
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  for (let n = 0; n < (quick ? 50 : 250); n++) {
    await Promise.all([ours.step(draw(), n), new Promise((resolve) => setTimeout(resolve, 20))])
    void tasks.patch(id(7), { set: { tokensOut: n } })
  }
  delay.disable()
  row('event loop at 50 buffered and 50 durable commits/s', `p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms, max ${(delay.max / 1e6).toFixed(1)} ms`, '<= 10 ms')
  await ours.store.close()
}

// --- lists -----------------------------------------------------------------------------------------------------------
{
  const dir = folder()
  const ours = await foldlog(dir, 'buffered')
  await ours.load()
  const [first, again] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    const other = await foldlog(dir, 'buffered')
    let start = performance.now()
    other.tasks.getAll()
    first.push(performance.now() - start)
    for (let n = 0; n < 50; n++) await ours.step(n * 97, round * 100 + n)
    start = performance.now()
    other.tasks.getAll()
    again.push(performance.now() - start)
    await other.store.close()
  }
  row('getAll of 5,000, the first time', `${median(first).toFixed(1)} ms`, '<= 120 ms')
  row('getAll of 5,000, 50 of them changed', `${median(again).toFixed(1)} ms`, '<= 10 ms')
  await ours.store.close()
}

// --- durable, one and four processes ---------------------------------------------------------------------------------
{
  const self = fileURLToPath(import.meta.url)
  const several = async (kind, processes) => {
    const dir = folder()
    const { load, store, db } = await PEERS[kind](dir)
    await load()
    await store?.close()
    db?.close()
    const count = quick ? 300 : 1_000
    const said = (child) => new Promise((resolve) => child.once('message', resolve))
    const children = Array.from({ length: processes }, (_, n) => fork(self, ['--durable', kind, dir, String(n + 1), String(count)]))
    await Promise.all(children.map(said))
    const ends = Promise.all(children.map(said))
    for (const child of children) child.send('go')
    const times = await ends
    return (processes * count) / ((Math.max(...times.map(({ end }) => end)) - Math.min(...times.map(({ start }) => start))) / 1000)
  }
  for (const processes of [1, 4]) {
    const [ours, theirs] = [[], []]
    for (let round = 0; round < Math.min(ROUNDS, 5); round++) {
      ours.push(await several('foldlog', processes))
      theirs.push(await several('sqlite', processes))
    }
    row(`durable patch, ${processes} process(es)`, `${(median(ours) / 1000).toFixed(2)} k/s; better-sqlite3 FULL ${(median(theirs) / 1000).toFixed(2)} k/s: ${(median(ours) / median(theirs)).toFixed(1)} x`, processes === 4 ? '>= 3 x' : '')
  }
}

for (const dir of dirs) rmSync(dir, { recursive: true, force: true })
for (const [what, figures, bar] of rows) console.log(`${what.padEnd(52)} ${figures}${bar === '' ? '' : `   (bar: ${bar})`}`)
