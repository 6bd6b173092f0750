// Memory over a long run: 100,000 commits, and 1,000 times a store is opened and closed, each in a process of its own. What is
// held at the end is compared with what was held at half.
//
//   node bench/soak.mjs [--quick]
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openStore } from '../lib/index.mjs'

const quick = process.argv.includes('--quick')
const dir = mkdtempSync(join(tmpdir(), 'foldlog-soak-'))
const settle = async () => {
  for (let n = 0; n < 5; n++) {
    globalThis.gc?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return process.memoryUsage().rss
}

async function halves(what, count, act) {
  for (let n = 0; n < count / 2; n++) await act(n)
  const half = await settle()
  for (let n = count / 2; n < count; n++) await act(n)
  const end = await settle()
  const most = half * 1.02 + (1 << 20)
  const mib = (bytes) => (bytes / (1 << 20)).toFixed(1)
  console.log(`${what}: ${mib(half)} MiB at half, ${mib(end)} MiB at the end (bar: ${mib(most)} MiB)${end <= most ? '' : '  OVER'}`)
}

const PARTS = {
  async commits() {
    const store = await openStore(join(dir, 'commits'))
    const { tasks } = await store.workspace('key:soak')
    for (let n = 0; n < 100; n++) await tasks.create({ id: `t${n}` }, { durability: 'buffered' })
    await halves('100,000 commits', quick ? 20_000 : 100_000, async (n) => {
      const id = `t${n % 100}`
      await tasks.patch(id, { set: { n } }, { durability: 'buffered' })
      tasks.get(id)
    })
    await store.close()
  },
  async opens() {
    await halves('1,000 times open and close', quick ? 200 : 1_000, async () => {
      const again = await openStore(join(dir, 'opens'))
      const workspace = await again.workspace('key:soak')
      workspace.tasks.getAll()
      await again.close()
    })
  },
}

const part = PARTS[process.argv[2]]
if (part === undefined) {
  for (const name of Object.keys(PARTS)) {
    spawnSync(process.execPath, ['--expose-gc', fileURLToPath(import.meta.url), name, ...process.argv.slice(2)], { stdio: 'inherit' })
  }
} else {
  await part()
}
rmSync(dir, { recursive: true, force: true })
