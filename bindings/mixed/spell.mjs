// A process that writes and reads values as they are spelled, by lines as of `../node/test/worker.mjs`, in JavaScript.
import { openStore, raw } from '../node/lib/index.mjs'
import { lines } from '../node/test/lines.mjs'

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

for await (const line of lines(process.stdin)) {
  const { do: act, ...request } = JSON.parse(line)
  let answer
  try {
    answer = { ok: await acts[act](request) }
  } catch (error) {
    answer = { error: error.code ?? String(error) }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
