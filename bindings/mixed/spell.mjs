// A process that writes and reads values as they are spelled, by lines as of `../node/test/worker.mjs`, in JavaScript.
import { openStore, raw } from '../node/lib/index.mjs'
import { serve } from '../node/test/lines.mjs'

let store
let tasks
const acts = {
  async open({ store: path }) {
    store = await openStore(path, { label: 'spells' })
    tasks = (await store.workspace('key:shared')).tasks
    return {}
  },
  async spell({ id, text }) {
    await tasks.create({ id, v: raw(text) })
    return {}
  },
  async text({ id }) {
    return tasks.getText(id) ?? null
  },
  async close() {
    await store.close()
    return {}
  },
}

await serve(acts)
