// A process that works on a store by lines: one JSON request a line on stdin, one JSON answer a line on stdout. Any
// language can have one; `harness.mjs` speaks to them all.
//
//   {"do":"open","store":DIR}                          {"ok":{}}
//   {"do":"patch","id","set","expect"?,"durability"?}   {"ok":{"revision"}} | {"error":CODE,"revision"?,"current"?}
//   {"do":"get","id"}                                   {"ok":{"item","revision"}} | {"ok":null}
//   {"do":"attach","id"}                               {"ok":{"fence"}}
//   {"do":"text","id"}                                  {"ok":TEXT}
//   {"do":"all","document":NAME}                        {"ok":{"tasks":[{"item","revision"}],"value"}}, by id
//   {"do":"listen"}                                     {"ok":{}}: from here on
//   {"do":"hear","count"}                               {"ok":{"last":SEQ,"changes":N}}: so many commits, waited for
//   {"do":"beginning"}                                  {"error":"trimmed"} where the beginning of the log is gone
//   {"do":"close"}                                      {"ok":{}}
import { openStore } from '../lib/index.mjs'
import { serve } from './lines.mjs'

let store
let workspace
let heard
const acts = {
  async open({ store: path }) {
    store = await openStore(path, { label: 'worker' })
    workspace = await store.workspace('key:shared')
    return {}
  },
  async create({ item }) {
    return { revision: (await workspace.tasks.create(item)).revisions[item.id] }
  },
  async patch({ id, set, expect, durability }) {
    const done = await workspace.tasks.patch(id, { set }, { expect, durability })
    return { revision: done.revisions[id] }
  },
  async get({ id }) {
    const found = workspace.tasks.get(id)
    return found === undefined ? null : { item: found.item, revision: found.revision }
  },
  async attach({ id }) {
    return { fence: (await workspace.tasks.attach(id)).fence }
  },
  async text({ id }) {
    return workspace.tasks.getText(id) ?? null
  },
  async burst({ id, field, count }) {
    const done = []
    for (let n = 1; n <= count; n++) done.push(workspace.tasks.patch(id, { set: { [field]: n } }, { durability: 'buffered' }))
    await Promise.all(done)
    return {}
  },
  /** Commits until it is killed; each one that is acknowledged is told at once. */
  async endless({ id, field }) {
    for (let n = 1; ; n++) {
      await workspace.tasks.patch(id, { set: { [field]: n } }, { durability: 'buffered' })
      process.stdout.write(`${JSON.stringify({ acknowledged: n })}\n`)
      // stdout is written by the loop.
      if (n % 50 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  },
  async all({ document }) {
    const tasks = workspace.tasks.getAll().map(({ item, revision }) => ({ item, revision }))
    tasks.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
    return { tasks, value: (await workspace.documents.get(document))?.value ?? null }
  },
  listen() {
    heard = workspace.subscribe({ from: 'now' })
    return {}
  },
  async hear({ count }) {
    let [last, changes] = [0, 0]
    while (count > 0) {
      const { value } = await heard.next()
      if (value.kind !== 'commit') continue
      count -= 1
      last = value.commit.first
      changes += value.commit.changes.length + (value.commit.documents?.length ?? 0)
    }
    return { last, changes }
  },
  async beginning() {
    for await (const _ of workspace.subscribe({ from: 'start' })) return {}
  },
  async close() {
    await heard?.return()
    await store.close()
    return {}
  },
}

await serve(acts)
