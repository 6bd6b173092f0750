// A host that keeps a task history: in foldlog where its addon can be loaded, else where it always was.
//
// It is bundled as extensions are (CommonJS, one file, the addon copied beside it) and run by test/bundle.test.mjs.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { available, openStore } from 'foldlog'

/** The history as this host has always kept it: one JSON file, for one process at a time. */
class OldHistory {
  kind = 'old'
  #file
  #items
  constructor(dir) {
    mkdirSync(dir, { recursive: true })
    this.#file = join(dir, 'history.json')
    try {
      this.#items = JSON.parse(readFileSync(this.#file, 'utf8'))
    } catch (error) {
      // A file that is there and cannot be read is not an empty history.
      if (error.code !== 'ENOENT') throw error
      this.#items = {}
    }
  }
  async upsert(id, fields) {
    this.#items[id] = { ...this.#items[id], id, ...fields }
    writeFileSync(`${this.#file}.new`, JSON.stringify(this.#items))
    renameSync(`${this.#file}.new`, this.#file)
  }
  get(id) {
    return this.#items[id]
  }
  async close() {}
}

/** The history in foldlog: for any number of windows at once. */
class NewHistory {
  kind = 'foldlog'
  #store
  #tasks
  static async open(dir, project) {
    const history = new NewHistory()
    history.#store = await openStore(join(dir, 'foldlog'), { label: 'example host' })
    history.#tasks = (await history.#store.workspace(project)).tasks
    return history
  }
  async upsert(id, fields) {
    if (this.#tasks.get(id) === undefined) {
      try {
        await this.#tasks.create({ id, ...fields })
        return
      } catch (error) {
        // Another window was first.
        if (error.code !== 'task-exists') throw error
      }
    }
    // Only what this window changed: what others have changed meanwhile stays.
    await this.#tasks.patch(id, { set: fields }, { durability: 'buffered' })
  }
  get(id) {
    return this.#tasks.get(id)?.item
  }
  close() {
    return this.#store.close()
  }
}

export async function openHistory(dir, project) {
  const addon = available()
  if (addon.available) return NewHistory.open(dir, project)
  console.error(`foldlog is not available on ${addon.platform} (${addon.reason}); the history stays where it was`)
  return new OldHistory(dir)
}

const [dir] = process.argv.slice(2)
if (dir !== undefined) {
  const history = await openHistory(dir, 'key:example')
  await history.upsert('t', { task: 'fix the parser', tokensIn: 1 })
  await history.upsert('t', { tokensIn: 2 })
  console.log(JSON.stringify({ kind: history.kind, item: history.get('t') }))
  await history.close()
}
