// Checked by the compiler, never run: what the types allow and what they do not.
import { AbortError, type CommitOptions, ConflictError, type CopyReport, type Event, type TaskItem, available, openMemory, openStore, raw, restore } from 'foldlog'

interface HistoryItem extends TaskItem {
  readonly tokensIn?: number
  readonly mode?: string
}

export async function typed(signal: AbortSignal): Promise<void> {
  const store = await openStore<HistoryItem>('history', { label: 'types', signal })
  const workspace = await store.workspace('key:k')
  const { tasks } = workspace
  const tokens: number | undefined = tasks.get('t')?.item.tokensIn
  await tasks.create({ id: 't', tokensIn: 1, anything: { else: [true] } })
  await tasks.patch('t', { set: { tokensIn: tokens ?? raw('1.50') }, unset: ['mode'] }, { expect: tasks.get('t')?.token ?? 'absent' })
  // @ts-expect-error a number is wanted
  await tasks.patch('t', { set: { tokensIn: 'many' } })
  // @ts-expect-error items are frozen
  tasks.getAll()[0].item.mode = 'x'
  // @ts-expect-error there is no such durability
  const options: CommitOptions = { durability: 'forever' }
  await workspace.commit([{ op: 'delegate', parent: 't', child: 'c' }, { op: 'attach', id: 'c' }], options)
  for await (const update of workspace.subscribe({ from: 'start', signal })) {
    if (update.kind === 'commit') console.log(update.commit.changes[0]?.id)
    else console.log(update.health.status)
  }
  const event: Event<{ readonly cursor: string }> = workspace.onDidChange
  event(({ cursor }) => console.log(cursor), undefined, []).dispose()
  try {
    const { fence } = await tasks.attach('t')
    await tasks.detach('t', fence)
  } catch (error) {
    if (error instanceof ConflictError) console.log(error.current?.mode, error.revision, error.conflicts.length)
    if (error instanceof AbortError) console.log(error.code)
  }
  const made: CopyReport = await store.backup('b', { signal, link: false, onProgress: ({ done, total }) => console.log(done / total) })
  console.log(made.workspaces[0]?.cursor, (await restore('b', 'c', { workspaces: ['key:k'] })).deadSessions)
  // @ts-expect-error there is no such phase
  await store.backup('b', { onProgress: ({ phase }) => phase === 'writing' })
  const it = available()
  console.log(it.available ? it.version : it.reason)
  await openMemory<HistoryItem>().close()
}
