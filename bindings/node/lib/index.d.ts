/**
 * foldlog: an embeddable append-only event log for the task histories of coding agents. Many processes, one log.
 *
 * Reads answer at once, from what this process has read; they never wait for another process. Mutations are promises,
 * made in the order of their calls. What needs no waiting is done at once; what does is done on another thread.
 */

/** A task as JSON has it. Other fields are kept as they come, byte for byte. */
export interface TaskItem {
  readonly id: string
  readonly status?: TaskStatus
  readonly task?: string
  readonly ts?: number
  readonly parentTaskId?: string
  readonly childIds?: readonly string[]
}

export type TaskStatus = 'active' | 'delegated' | 'completed' | 'interrupted'

/** What a commit survives when its promise is fulfilled: a power cut; the end of this process; a power cut from N ms later. */
export type Durability = 'durable' | 'buffered' | `interval:${number}`

/** A token (`1.3.b8cf5fa5da5c51a7`), a revision, or whether it is there. */
export type Expected = string | number | 'absent' | 'exists'

/** A task as it was read. Frozen; the same object as long as the task does not change. */
export interface Task<T extends TaskItem = TaskItem> {
  readonly item: Readonly<T>
  /** How many changes it has had. */
  readonly revision: number
  /** The revision with its history: what to store, and to expect later. */
  readonly token: string
  /** By what a session holds it. */
  readonly fence: string | undefined
}

/** A commit that stands. */
export interface Receipt {
  /** Numbers of its first and last event. */
  readonly seq: number
  readonly lastSeq: number
  /** The tasks it changed, as they stood behind it. */
  readonly revisions: Readonly<Record<string, number>>
  readonly tokens: Readonly<Record<string, string>>
  /** The documents it changed, with their tokens. */
  readonly documents: Readonly<Record<string, string>>
  /** The fences it gave out. */
  readonly fences: Readonly<Record<string, string>>
  /** Whether it is known to survive a power cut. */
  readonly durable: boolean
  /** Whether it answers a request that was applied before. */
  readonly again: boolean
  /** What `waitDurable` waits for. */
  readonly ticket: string
  /** All of it as a plain object: the members are read when they are asked for, and are none of the receipt's own. */
  toJSON(): Omit<Receipt, 'toJSON'>
}

export interface SignalOptions {
  /**
   * Calls it off. What had not begun is rejected with an `AbortError`, and nothing of it was or will be written; what had
   * begun is fulfilled as if there were no signal.
   */
  signal?: AbortSignal
}

export interface CommitOptions extends SignalOptions {
  /** What it rests on, by task; a bare one only where a single task is changed, of which it is then. */
  expect?: Expected | Readonly<Record<string, Expected>>
  /** The same by document's name. */
  expectDocuments?: Readonly<Record<string, Expected>>
  /** On whose behalf it is made, by task; of a change of one task, that task's fence. */
  fences?: string | Readonly<Record<string, string>>
  /** The request's name, 32 hex digits or a UUID: sent again, it is applied once and answered alike. */
  opId?: string
  /** The highest event number that was seen when the request was made. */
  seen?: number
  /** Default: `durable`. */
  durability?: Durability
}

/** Fields to change. What is not named stays. */
export interface Patch<T extends TaskItem = TaskItem> {
  /** `undefined` is a TypeError: name the field in `unset`. `childIds` are added to those that are there. */
  set?: { readonly [K in keyof T]?: T[K] | RawJson } & { readonly [field: string]: unknown }
  unset?: readonly string[]
  dropChildIds?: readonly string[]
}

/** A change, for `commit`. */
export type Change<T extends TaskItem = TaskItem> =
  | { op: 'create'; item: NewItem<T>; again?: boolean }
  | ({ op: 'patch'; id: string } & Patch<T>)
  | { op: 'rename'; id: string; title: string }
  | { op: 'setStatus'; id: string; status: TaskStatus }
  | { op: 'resume'; id: string }
  | { op: 'delegate'; parent: string; child: string | NewItem<T> }
  | { op: 'complete'; id: string; summary?: string }
  | { op: 'remove'; ids: string | readonly string[]; cascade?: boolean }
  | { op: 'attach'; id: string }
  | { op: 'detach'; id: string; fence: string }
  | { op: 'abandon'; id: string }
  | { op: 'mend'; parent: string; unowned?: boolean }
  | { op: 'setRules'; table: string }
  | { op: 'setRetention'; id?: string; keep: Keep }
  | { op: 'pin'; id: string; pinned?: boolean }
  | { op: 'putDocument'; name: string; value: unknown; kind?: string; again?: boolean }
  | { op: 'patchDocument'; name: string; set?: Readonly<Record<string, unknown>>; unset?: readonly string[] }
  | { op: 'deleteDocument'; name: string }

export type NewItem<T extends TaskItem = TaskItem> = { readonly id: string } & { readonly [K in keyof T]?: T[K] | RawJson } & {
  readonly [field: string]: unknown
}

/** Conditions are joined by *and*. */
export interface Query {
  status?: TaskStatus
  /** Children of this task. */
  parent?: string
  /** This task and all below it. */
  root?: string
  background?: boolean
  /** Default: `time`, newest first. */
  sort?: 'time' | 'created' | 'changed' | 'cost' | 'tokens' | 'size' | 'title'
  limit?: number
  /** `next` of the page before. */
  after?: string
}

export interface Totals {
  readonly tasks: number
  readonly tokensIn: number
  readonly tokensOut: number
  readonly cacheWrites: number
  readonly cacheReads: number
  readonly totalCost: number | null
  readonly size: number
}

export interface FieldChange {
  readonly field: string
  readonly from?: unknown
  readonly to?: unknown
}

/** One event of a task. */
export interface TaskChange {
  readonly seq: number
  /** RFC 3339, by the writer's clock. */
  readonly time: string
  readonly workspace: string
  readonly session: string | null
  readonly writer: { readonly label: string; readonly pid: number; readonly version: string } | null
  readonly opId?: string
  readonly kind: string | number
  readonly revision: number
  /** Whether the task is there behind it. */
  readonly live: boolean
  readonly changes: readonly FieldChange[]
}

export interface TaskCommit {
  readonly first: number
  /** What to store, to go on from here later. */
  readonly cursor: string
  readonly time: string
  readonly session?: string
  readonly durable: boolean
  readonly changes: readonly (TaskChange & { readonly id: string })[]
  readonly documents: readonly DocumentChange[]
}

/** One event of a document. */
export interface DocumentChange {
  readonly name: string
  readonly seq: number
  readonly time: string
  readonly session: string | null
  readonly opId?: string
  readonly event: 'document-put' | 'document-patched' | 'document-deleted' | (string & {})
  readonly revision: number
  /** What it left; neither of a deletion. */
  readonly kind?: string | null
  readonly value?: unknown
}

export interface Finding {
  readonly severity: 'notice' | 'warning' | 'error' | 'damage'
  readonly code: string
  readonly file: string
  readonly offset: number | null
  readonly seq: number | null
  readonly message: string
  readonly remedy: string
}

export interface Health {
  readonly workspace: string
  readonly status: 'healthy' | 'read-only' | 'damaged' | 'too-new' | 'durability-lost'
  readonly findings: readonly Finding[]
  /** In an event: why no more changes are told of; listen again once its cause is gone. */
  readonly error?: FoldlogError
}

/** How much of the history is kept, what later events have overwritten: all of it, nothing, or what lies within each limit given. */
export type Keep = 'all' | null | { ageMs?: number; count?: number; bytes?: number }

export interface PurgeReceipt {
  readonly tasks: readonly string[]
  /** How many segments held them, and how many events went with them. */
  readonly segments: number
  readonly events: number
  /** Blobs that nothing named any more. */
  readonly blobs: readonly string[]
  /** Snapshots that were removed; they are made again by themselves. */
  readonly snapshots: readonly string[]
  /** What had been set aside, and was removed whole. */
  readonly quarantine: readonly string[]
  /** Files that still hold them, or may, and who has them in use. */
  readonly pending: readonly { readonly path: string; readonly holder: string }[]
  /** Copies that were made of the workspace. */
  readonly backups: readonly { readonly target: string; readonly covers: number; readonly time: string }[]
}

export interface Tasks<T extends TaskItem = TaskItem> {
  /** A task; undefined if there is none, or it was deleted. Numbers that JavaScript's cannot hold are rounded: `getText`. */
  get(id: string): Task<T> | undefined
  /** Its item's JSON text, as it is spelled in the log. */
  getText(id: string): string | undefined
  list(query?: Query): { tasks: Task<T>[]; total: number; next: string | undefined }
  /** All of them, newest first. */
  getAll(): Task<T>[]
  /** A task and all below it, parents before children. */
  tree(id: string): { depth: number; task: Task<T>; totals: Totals }[]
  /** All its changes that are still in the log, oldest first. */
  history(id: string, options?: SignalOptions): Promise<TaskChange[]>
  create(item: string | NewItem<T>, options?: CommitOptions & { again?: boolean }): Promise<Receipt>
  patch(id: string, patch: Patch<T>, options?: CommitOptions): Promise<Receipt>
  rename(id: string, title: string, options?: CommitOptions): Promise<Receipt>
  setStatus(id: string, status: TaskStatus, options?: CommitOptions): Promise<Receipt>
  /** Back from interrupted to active. */
  resume(id: string, options?: CommitOptions): Promise<Receipt>
  /** The parent waits for the child, which is made, or taken if it is there; one commit. */
  delegate(parent: string, child: string | NewItem<T>, options?: CommitOptions): Promise<Receipt>
  /** Completes a task; the parent that waits for it goes on with the summary, in the same commit. */
  complete(id: string, options?: CommitOptions & { summary?: string }): Promise<Receipt>
  /** Ids stay taken: a late write is a `TaskDeletedError`. */
  remove(ids: string | readonly string[], options?: CommitOptions & { cascade?: boolean }): Promise<Receipt>
  /** This session runs the task from now on; carry the fence in later commits. */
  attach(id: string, options?: CommitOptions): Promise<Omit<Receipt, 'toJSON'> & { fence: string }>
  detach(id: string, fence: string, options?: CommitOptions): Promise<Receipt>
  /** Takes the task from whoever runs it; a parent that waits for it goes on. */
  abandon(id: string, options?: CommitOptions): Promise<Receipt>
  /** How much of this task's history is kept, in the place of what holds for the workspace; null takes that back. */
  setRetention(id: string, keep: Keep, options?: CommitOptions): Promise<Receipt>
  /** Has all of its history kept, whatever else is set; `pinned: false` no longer. */
  pin(id: string, options?: CommitOptions & { pinned?: boolean }): Promise<Receipt>
  /** What `purge` would remove, as far as it can be said before. Changes nothing. */
  planPurge(ids: string | readonly string[], options?: SignalOptions & { cascade?: boolean }): Promise<PurgeReceipt>
  /**
   * Deletes tasks, and removes what they held from every file of the workspace. Files that others have in use are `pending`: the
   * same call later removes them. Backups are named, not touched. Takes seconds for a large log.
   */
  purge(ids: string | readonly string[], options?: SignalOptions & { cascade?: boolean }): Promise<PurgeReceipt>
  /** All or nothing. */
  commit(changes: readonly Change<T>[], options?: CommitOptions): Promise<Receipt>
}

/** A document as it was read. */
export interface Document<V = unknown> {
  readonly name: string
  readonly value: V
  readonly kind: string | undefined
  /** How many changes it has had; what the next may expect, with its history in `token`. */
  readonly revision: number
  readonly token: string
  readonly seq: number
  readonly time: string
  readonly workspace: string
}

export type DocumentOptions = Omit<CommitOptions, 'expect' | 'fences'> & { expect?: Expected }

/** Named JSON values with revisions. `docs/documents.md` has what holds for them in every language. */
export interface Documents {
  /** The document; undefined if there is none, or it was deleted. */
  get<V = unknown>(name: string, options?: SignalOptions): Promise<Document<V> | undefined>
  /** The workspace's, else the store's global one, with `from` saying which. */
  resolve<V = unknown>(name: string, options?: SignalOptions): Promise<(Document<V> & { readonly from: 'workspace' | 'global' }) | undefined>
  /** Documents whose names begin so, in the order of their names, without their values. */
  list(query?: { prefix?: string; kind?: string; limit?: number; after?: string; signal?: AbortSignal }): Promise<{
    documents: (Omit<Document, 'value'> & { readonly bytes: number })[]
    next: string | undefined
  }>
  /** Every change, with the value that it left. */
  history(name: string, options?: SignalOptions): Promise<readonly DocumentChange[]>
  /** Writes all of it. The same value again writes nothing. */
  put(name: string, value: unknown, options?: DocumentOptions & { kind?: string; again?: boolean }): Promise<Receipt>
  /** Sets and removes members of an object. */
  patch(
    name: string,
    patch: { set?: Readonly<Record<string, unknown>>; unset?: readonly string[] },
    options?: DocumentOptions,
  ): Promise<Receipt>
  delete(name: string, options?: DocumentOptions): Promise<Receipt>
  /** Brings it and a JSON state file that other programs write to the same state. */
  sync(name: string, file: string, options?: SignalOptions & { kind?: string }): Promise<{
    readonly name: string
    readonly file: string
    readonly imported: boolean
    readonly exported: boolean
    readonly token: string | undefined
    readonly kept: readonly string[]
    readonly findings: readonly Finding[]
  }>
}

export interface Disposable {
  dispose(): void
}

/** The shape of VS Code's events. */
export type Event<E> = (listener: (event: E) => unknown, thisArgs?: unknown, disposables?: Disposable[]) => Disposable

export type Update = { kind: 'commit'; commit: TaskCommit } | { kind: 'health'; health: Health }

/** Ends by `break`, `return()`, its signal (an `AbortError`), or when the workspace is closed. */
export interface Updates extends AsyncIterableIterator<Update> {
  /** The place behind what was handed out: what to store. */
  readonly cursor: string | undefined
}

/** What compacting has come to. */
export interface CompactReport {
  /** How many segments are one now; 0 = there was nothing to gain. */
  readonly segments: number
  readonly bytesBefore: number
  readonly bytesAfter: number
  /** How many events are gone, each overwritten by later ones. */
  readonly dropped: number
  /** The last event below which some may be missing: streams that start there are told `trimmed`. */
  readonly horizon: number | null
}

export interface Workspace<T extends TaskItem = TaskItem> {
  /** Its folder's name in the store. */
  readonly name: string
  readonly tasks: Tasks<T>
  readonly documents: Documents
  commit(changes: readonly Change<T>[], options?: CommitOptions): Promise<Receipt>
  /** Commits of any process, whole, once and in order. Waiting for one keeps the process alive. */
  subscribe(options?: SignalOptions & { from?: 'now' | 'start' | (string & {}); durable?: boolean }): Updates
  /** The same, for as long as somebody listens; keeps no process alive. */
  readonly onDidChange: Event<TaskCommit>
  readonly onDidChangeHealth: Event<Health>
  /** Makes everything committed so far durable. */
  flush(options?: SignalOptions): Promise<void>
  /**
   * Writes a snapshot, and has old segments written anew, smaller, without what later events have overwritten. Others read
   * and write meanwhile. Takes seconds for a large log; a signal keeps it from being begun.
   */
  compact(options?: SignalOptions): Promise<CompactReport>
  /** How much of the history is kept of all tasks for which nothing of their own is set; compaction keeps to it. */
  setRetention(keep: Keep, options?: CommitOptions): Promise<Receipt>
  retention(): { workspace: Keep; tasks: ReadonlyMap<string, Keep>; pinned: readonly string[] }
  waitDurable(receipt: Receipt | string, options?: SignalOptions & { timeoutMs?: number }): Promise<void>
  health(): Health
  /** Finishes what is under way, syncs, and ends this handle. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export interface Session {
  readonly session: string
  readonly state: 'alive' | 'unknown' | 'dead'
  readonly label: string | null
  readonly pid: number | null
  readonly version: string | null
  readonly started: string | null
  readonly holds: readonly { workspace: string; id: string; fence: string; status: TaskStatus }[]
}

export interface Store<T extends TaskItem = TaskItem> {
  /** The store's global home, whose documents stand in where a workspace has none of the name. */
  readonly global: { readonly documents: Documents }
  /**
   * Has documents of a kind judged before this program writes them, by whichever call: one that throws refuses. Synchronous; it is
   * called on this thread, and may read.
   */
  validateDocuments(kind: string, validator: (name: string, value: unknown) => void): void
  /** Its folder; undefined in memory. */
  readonly path: string | undefined
  /** A workspace by its project's folder, by `key:NAME`, or by its name in the store; made if it is absent. */
  workspace<U extends TaskItem = T>(pathOrKey: string, options?: SignalOptions): Promise<Workspace<U>>
  /** The workspace that a task is at home in. */
  workspaceOf<U extends TaskItem = T>(taskId: string, options?: SignalOptions): Promise<Workspace<U>>
  workspaces(options?: SignalOptions): Promise<{ name: string; boundTo?: string[]; error?: string }[]>
  sessions(options?: SignalOptions): Promise<Session[]>
  /**
   * Makes a complete, verified copy in a folder that is absent or empty, while others write; nobody waits for it. Files that are
   * never written again are linked where that can be. An abort ends it, whenever it comes, and nothing is left of it.
   */
  backup(target: string, options?: CopyOptions): Promise<CopyReport>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export interface OpenOptions extends SignalOptions {
  readOnly?: boolean
  /** Default: true. */
  create?: boolean
  /** What this process is called where others are told of it. */
  label?: string
  /** How long a commit waits for other processes. Default: 10,000. */
  lockTimeoutMs?: number
  recovery?: 'default' | 'strict' | 'salvage'
  segmentSize?: number
  trustSharedFs?: boolean
}

export interface CopyOptions extends SignalOptions {
  /** Only these, by folder, `key:NAME` or name. Default: all. */
  workspaces?: readonly string[]
  /** Whether a backup may share files that are never written again. Default: true. A restore never does. */
  link?: boolean
  /** Whether bytes that were set aside go along. Default: true. */
  quarantine?: boolean
  /** Copy what is damaged, too, instead of refusing it. Default: false. */
  asItIs?: boolean
  /** Called now and then, on this thread. What it throws ends the copy, and is what the promise is rejected with. */
  onProgress?: (progress: CopyProgress) => void
}

export interface CopyProgress {
  readonly workspace: string
  readonly phase: 'reading' | 'copying' | 'verifying'
  /** Bytes, of how many; 0 of 0 where that is not known. */
  readonly done: number
  readonly total: number
}

/** A copy of a store that is complete, durable, and was read back. */
export interface CopyReport {
  /** Its folder, in full. */
  readonly target: string
  /** A backup's is the store's own, a restored store has a new one. */
  readonly storeId: string
  /** Whether nothing in it is damaged. */
  readonly whole: boolean
  /** Of a restore: sessions that held something and are proven dead in the new store. */
  readonly deadSessions: number
  readonly tookMs: number
  readonly workspaces: readonly WorkspaceCopy[]
}

export interface WorkspaceCopy {
  readonly workspace: string
  readonly logId: string
  /** The last event that is in it, and its cursor. */
  readonly seq: number
  readonly cursor: string
  readonly stateHash: string
  readonly events: number
  readonly segments: number
  readonly blobs: number
  /** Files that it shares with the original, and those of its own. */
  readonly linked: { readonly files: number; readonly bytes: number }
  readonly copied: { readonly files: number; readonly bytes: number }
  readonly tookMs: number
  readonly whole: boolean
  readonly findings: readonly Finding[]
  /** The event by which the store notes the backup, or what kept it from that. */
  readonly noted?: number
  readonly noteError?: { readonly code: string; readonly message: string; readonly remedy: string }
}

/**
 * Makes a store of a backup in a folder that is absent or empty, never over another. What sessions of the old store held is
 * nobody's in the new one.
 */
export function restore(backup: string, target: string, options?: CopyOptions): Promise<CopyReport>

/** Opens a store, on another thread; never waits for a writer. */
export function openStore<T extends TaskItem = TaskItem>(path: string, options?: OpenOptions): Promise<Store<T>>
/** A store that is gone with its last handle: for tests of hosts. */
export function openMemory<T extends TaskItem = TaskItem>(options?: OpenOptions): Store<T>

export type Availability =
  | { readonly available: true; readonly platform: string; readonly file: string; readonly version: string; readonly format: number; readonly codes: readonly string[] }
  | { readonly available: false; readonly platform: string; readonly file: string | undefined; readonly reason: string }

/** Whether the addon could be loaded here, and if not, why. Never throws. Without it everything else throws `UnavailableError`. */
export function available(): Availability

/** A JSON text, to be written as it is spelled. */
export interface RawJson {
  /** Only `raw` makes one; any other value is none. */
  readonly [rawJson]: true
  toString(): string
}
declare const rawJson: unique symbol
/** For numbers that JavaScript's cannot hold: `raw('1.50')`. A bigint is written as an integer. */
export function raw(text: string): RawJson

export interface Conflict {
  /** What `id` is the name of. */
  readonly of: 'task' | 'document'
  readonly id: string
  readonly expected: string
  readonly revision: number
  readonly token?: string
  readonly current?: Readonly<Record<string, unknown>>
  readonly rewoundTo?: number
}

/** What all errors are. A code never changes between releases; messages may. */
export class FoldlogError extends Error {
  readonly code: string
  /** What to do next. */
  readonly remedy: string
  /** The file or folder concerned. */
  readonly file: string | undefined
}
/** It was called off, and nothing of it was written. */
export class AbortError extends Error {
  readonly name: 'AbortError'
  readonly code: 'ABORT_ERR'
}
/** Another process kept the write lock for the whole wait. Nothing was written. */
export class BusyError extends FoldlogError {
  readonly holder: string
  readonly waitedMs: number
}
/** Acknowledged data no longer checks; it stays readable up to there, and is repaired only on request. */
export class DamagedError extends FoldlogError {
  readonly finding: Finding
}
/** The store's files were deleted or replaced while it was open. */
export class StoreReplacedError extends FoldlogError {
  readonly what: string
}
/** A sync failed: what was appended since `from` may not survive a power cut. */
export class DurabilityLostError extends FoldlogError {
  readonly from: number
}
/** The commit stands; only whether it survives a power cut is not known yet. Do not send it again. */
export class NotDurableError extends FoldlogError {
  readonly seq?: number
  readonly why?: string
}
/** The handle, the medium or the store does not permit writing. */
export class ReadOnlyError extends FoldlogError {
  readonly reason?: string
}
/** Written by a newer release in a way that this one must not touch. */
export class TooNewError extends FoldlogError {
  readonly what: string
  readonly need: number
  readonly have: number
}
/** The log holds an event that this release does not know and must not ignore. */
export class UnknownEventError extends FoldlogError {
  readonly seq: number
  readonly kind: number
  readonly version: number
}
/** An expectation does not hold. Nothing was written. `current`, `revision` and `token` are those of the first one. */
export class ConflictError extends FoldlogError {
  readonly id: string
  readonly current?: Readonly<Record<string, unknown>>
  readonly revision: number
  readonly token?: string
  readonly conflicts: readonly Conflict[]
}
/** The name was used for another request. */
export class OpIdReusedError extends FoldlogError {
  readonly opId: string
  readonly seq: number
}
/** The request is older than the log's memory of names; it was not applied now. */
export class OutcomeUnknownError extends FoldlogError {
  readonly opId: string
  readonly seen: number
  readonly windowStart: number
  readonly current: readonly { id: string; revision: number; token: string; item: unknown }[]
}
/** Over a limit of the format. Nothing was written. */
export class TooLargeError extends FoldlogError {
  readonly what: string
  readonly len: number
  readonly max: number
}
/** A large value is not there any more. */
export class BlobMissingError extends FoldlogError {
  readonly blob: string
}
/** What was asked for is malformed. Nothing was written. */
export class InvalidError extends FoldlogError {
  readonly what?: string
  readonly why?: string
}
/** Refused, for instance to remove a task with children without `cascade`. */
export class RefusedError extends FoldlogError {
  readonly reason: string
}
/** There is no such task. */
export class NoTaskError extends FoldlogError {
  readonly id: string
}
/** There is such a task already; it was not touched. */
export class TaskExistsError extends FoldlogError {
  readonly id: string
}
/** It was deleted; a late write does not bring it back. */
export class TaskDeletedError extends FoldlogError {
  readonly id: string
  readonly seq: number
}
/** There is no such document. */
export class NoDocumentError extends FoldlogError {
  readonly document: string
}
/** It was deleted; only a `put` that expects it to be absent begins it anew. */
export class DocumentDeletedError extends FoldlogError {
  readonly document: string
  readonly seq: number
}
/** A validator does not let it pass. */
export class DocumentRefusedError extends FoldlogError {
  readonly document: string
  readonly kind: string
  readonly reason: string
}
/** A state file holds no JSON, and there is no document to write it from. */
export class BadStateFileError extends FoldlogError {
  readonly why: string
}
/** The status table does not let it pass. */
export class StatusRefusedError extends FoldlogError {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly why: string
}
/** A result came for a parent that does not wait for it. */
export class NotWaitingError extends FoldlogError {
  readonly parent: string
  readonly child: string
}
/** A task would have come above itself. */
export class CycleError extends FoldlogError {
  readonly parent: string
  readonly child: string
}
/** Another session runs the task, and is not proven dead. */
export class OwnedError extends FoldlogError {
  readonly id: string
  readonly session: string
  readonly owner: string
  readonly liveness: string
}
/** The task has changed hands since this fence was given out. */
export class FencedError extends FoldlogError {
  readonly id: string
  readonly fence: string
  /** What holds instead, in words. */
  readonly current: string
}
/** Only a verb of its own may change this field. */
export class RuledFieldError extends FoldlogError {
  readonly field: string
  readonly verb: string
}
/** One commit would have touched two workspaces. */
export class CrossWorkspaceError extends FoldlogError {
  readonly ids: readonly [string, string]
  readonly homes: readonly [string, string]
}
/** The log does not go back that far. */
export class TrimmedError extends FoldlogError {
  readonly firstAvailable: number
}
/** A power cut has ended the history that a cursor speaks of. */
export class RewoundError extends FoldlogError {
  readonly to: number
}
/** A commit from inside a commit. */
export class ReentrantError extends FoldlogError {}
/** The handle belongs to the parent process. */
export class ForkedError extends FoldlogError {}
/** There is no store, workspace or file. */
export class NotFoundError extends FoldlogError {
  readonly what?: string
}
/** Something else is there. */
export class ForeignError extends FoldlogError {
  readonly what: string
  readonly why: string
}
/** The file system may be written by another machine. */
export class SharedFileSystemError extends FoldlogError {
  readonly fs: string
}
/** Locks do not exclude on this file system. */
export class LocksDoNotExcludeError extends FoldlogError {}
/** The log is being written; look again. */
export class NotYetError extends FoldlogError {}
/** A folder to be imported does not hold still. */
export class UnstableError extends FoldlogError {
  readonly what: string
}
/** Something stands where a copy of a store was to be made; if that is a store, `what` names who has it open. */
export class OccupiedError extends FoldlogError {
  readonly what: string
}
/** What was being done was ended. With a signal of yours it is an `AbortError` instead. */
export class CancelledError extends FoldlogError {}
/** No space left; nothing of this stands. */
export class NoSpaceError extends FoldlogError {}
/** The system refused. */
export class PermissionError extends FoldlogError {}
/** Another failure of the system. */
export class IoError extends FoldlogError {}
/** The store or workspace was closed. */
export class ClosedError extends FoldlogError {}
/** A fault of foldlog's own; what was acknowledged before stands. */
export class PanicError extends FoldlogError {}
/** The addon cannot be loaded here: see `available()`. */
export class UnavailableError extends FoldlogError {}
/** A path that cannot be used. */
export class UsageError extends FoldlogError {}
