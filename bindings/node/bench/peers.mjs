// The job that all do, and the others that do it: a catalogue of tasks as extensions keep them, of which one, drawn by a seed,
// gets new token counts, cost, size and time.
import { access, mkdir, rename, unlink, writeFile } from 'node:fs/promises'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { openStore } from '../lib/index.mjs'

const require = createRequire(import.meta.url)
const Database = require('better-sqlite3')
const lockfile = require('proper-lockfile')

export const TASKS = 5_000
const START = 1_760_000_000_000

const IDS = Array.from({ length: TASKS }, (_, n) => `0199${String(n).padStart(4, '0')}-7000-8000-0123456789ab`)
export const id = (n) => IDS[n]

/** About 1.4 KB, of which the prompt is the most; every fifth has the four behind it as its children. */
export function item(n) {
  const parent = n % 5 === 0 ? undefined : id(n - (n % 5))
  return {
    id: id(n),
    ...(parent && { rootTaskId: parent, parentTaskId: parent }),
    number: n + 1,
    ts: START + n,
    task: 'refactor the parser so that every error carries its source span '.repeat(17),
    tokensIn: 0,
    tokensOut: 0,
    cacheWrites: 12345,
    cacheReads: 678901,
    totalCost: 0.5,
    size: 345678,
    workspace: '/home/dev/projects/some-company/monorepo/services/billing',
    mode: 'code',
    apiConfigName: 'default',
    status: 'active',
    childIds: parent ? [] : [1, 2, 3, 4].map((k) => id(n + k)),
  }
}

const change = (n) => ({ ts: START + 1e9 + n, tokensIn: 100 + ((n * 37) % 900), tokensOut: n, totalCost: (n % 1000) / 1000, size: 300_000 + n })

/** Numbers of tasks, by a seed (xorshift). */
export function draws(seed) {
  let x = (seed * 2654435761) >>> 0 || 1
  return () => {
    x = (x ^ (x << 13)) >>> 0
    x ^= x >>> 17
    x = (x ^ (x << 5)) >>> 0
    return x % TASKS
  }
}

export async function foldlog(dir, durability) {
  const store = await openStore(dir)
  const { tasks } = await store.workspace('key:bench')
  return {
    store,
    tasks,
    async load() {
      for (let n = 0; n < TASKS; n++) await tasks.create(item(n), { durability: 'buffered' })
    },
    step: (task, n) => tasks.patch(id(task), { set: change(n) }, { durability }),
  }
}

/** The same rows, and indexes for what the catalogue is asked: by time, by parent. One statement changes a row. */
export function sqlite(dir, synchronous) {
  const db = new Database(join(dir, 'db'))
  db.pragma('journal_mode = WAL')
  db.pragma(`synchronous = ${synchronous}`)
  db.pragma('busy_timeout = 30000')
  db.exec(`create table if not exists task (id text not null, ts integer not null, parent text, item text not null);
    create unique index if not exists task_id on task (id);
    create index if not exists task_ts on task (ts);
    create index if not exists task_parent on task (parent) where parent is not null`)
  const insert = db.prepare('insert into task values (?, ?, ?, ?)')
  const update = db.prepare(`update task set ts = @ts, item = json_set(item, '$.ts', @ts, '$.tokensIn', @tokensIn, '$.tokensOut', @tokensOut,
    '$.totalCost', @totalCost, '$.size', @size) where id = @id`)
  return {
    db,
    load: db.transaction(() => {
      for (let n = 0; n < TASKS; n++) {
        const one = item(n)
        insert.run(one.id, one.ts, one.parentTaskId ?? null, JSON.stringify(one))
      }
    }),
    step(task, n) {
      if (update.run({ id: id(task), ...change(n) }).changes !== 1) throw new Error('no such row')
    },
  }
}

/** What the extensions do: a file a task under a lock folder, the old one moved aside, the new one moved in; nothing is synced. */
export function files(dir) {
  const at = (task) => join(dir, 'tasks', id(task), 'history_item.json')
  const kept = []
  const options = { stale: 31_000, update: 10_000, realpath: false, retries: { retries: 5, factor: 2, minTimeout: 100, maxTimeout: 1000 } }
  return {
    load() {
      for (let n = 0; n < TASKS; n++) {
        mkdirSync(dirname(at(n)), { recursive: true })
        kept.push(item(n))
        writeFileSync(at(n), JSON.stringify(kept[n]))
      }
    },
    async step(task, n) {
      const file = at(task)
      await mkdir(dirname(file), { recursive: true })
      await access(dirname(file))
      const release = await lockfile.lock(file, options)
      try {
        kept[task] = { ...kept[task], ...change(n) }
        await writeFile(`${file}.new`, JSON.stringify(kept[task]))
        await access(file)
        await rename(file, `${file}.old`)
        await rename(`${file}.new`, file)
        await unlink(`${file}.old`)
      } finally {
        await release()
      }
    },
  }
}
