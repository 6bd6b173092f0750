"""Stores, workspaces and tasks."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union, cast)

from . import _native
from ._backup import CopyReport, Progress, telling, wishes
from ._documents import DocumentChange, Documents, judged_by
from ._values import Raw, dumps, loads, names, path_text

#: A revision, a token, ``"absent"`` or ``"exists"``.
Expected = Union[int, str]
#: How much of the history is kept: "all", None for nothing, or limits.
Keep = Union[str, Mapping[str, int], None]
#: ``"durable"``, ``"buffered"``, or ``"interval:MS"``.
Durability = str
#: A path; one of bytes is taken as the system takes it.
Place = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class TaskItem(TypedDict, total=False):
    """A task's fields; there may be any others."""

    id: str
    number: int
    ts: float
    task: str
    tokensIn: float
    tokensOut: float
    cacheWrites: float
    cacheReads: float
    totalCost: float
    size: float
    workspace: str
    mode: str
    apiConfigName: str
    status: str
    parentTaskId: str
    rootTaskId: str
    childIds: List[str]
    delegatedToId: str
    awaitingChildId: str
    completedByChildId: str
    completionResultSummary: str


@dataclass(frozen=True)
class Task:
    """A task as it was when it was read."""

    #: Its fields. A copy: changing it changes no task.
    item: Dict[str, Any]
    #: How many changes it has had.
    revision: int
    #: The same with its place in the history: what a commit may expect.
    token: str
    #: Its last event.
    seq: int
    #: The workspace that it is at home in.
    workspace: str
    #: Who runs it, if a session does.
    fence: Optional[str] = None
    #: In a tree: how far below its top.
    depth: Optional[int] = None

    @property
    def id(self) -> str:
        """Its id."""
        return cast(str, self.item["id"])

    @staticmethod
    def _of(told: Mapping[str, Any]) -> "Task":
        return Task(told["item"], told["revision"], told["token"], told["seq"], told["workspace"], told.get("fence"),
                    told.get("depth"))


@dataclass(frozen=True)
class Page:
    """Some of the tasks that a list has."""

    tasks: List[Task]
    #: How many there are in all.
    total: int
    #: What to give as ``after`` for those that follow; ``None`` = these were the last.
    next: Optional[str]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


class Receipt:
    """What a commit came to. Equal receipts are of the same commit.

    It is read only when something of it is asked for: of many commits nobody looks at the receipt.
    """

    __slots__ = ("_native", "_read")

    def __init__(self, native: "Optional[_native.Done]", read: Optional[Dict[str, Any]] = None) -> None:
        self._native = native
        self._read = read

    @staticmethod
    def _of(told: Dict[str, Any]) -> "Receipt":
        return Receipt(None, told)

    def to_dict(self) -> Dict[str, Any]:
        """All of it, as JSON has it."""
        return dict(self._all())

    def _all(self) -> Dict[str, Any]:
        if self._read is None:
            assert self._native is not None
            self._read = cast(Dict[str, Any], loads(self._native.json()))
        return self._read

    def _get(self, name: str) -> Any:
        return self._all().get(name)

    @property
    def seq(self) -> int:
        """Its first event."""
        return cast(int, self._get("seq"))

    @property
    def last_seq(self) -> int:
        """Its last event."""
        return cast(int, self._get("last_seq"))

    @property
    def epoch(self) -> str:
        """The stretch of history it belongs to."""
        return cast(str, self._get("epoch"))

    @property
    def revisions(self) -> Dict[str, int]:
        """The revision of each task that it changed."""
        return cast(Dict[str, int], self._get("revisions"))

    @property
    def tokens(self) -> Dict[str, str]:
        """Of each task that it changed, what a later commit may expect."""
        return cast(Dict[str, str], self._get("tokens"))

    @property
    def documents(self) -> Dict[str, str]:
        """The same of each document."""
        return cast(Dict[str, str], self._get("documents") or {})

    @property
    def fences(self) -> Dict[str, str]:
        """Of each task that it attached, the fence to write with."""
        return cast(Dict[str, str], self._get("fences") or {})

    @property
    def durable(self) -> bool:
        """Whether a power cut leaves it."""
        return cast(bool, self._get("durable"))

    @property
    def again(self) -> bool:
        """Whether it was a repetition of one that stood already, by its op id."""
        return cast(bool, self._get("again"))

    @property
    def workspace(self) -> str:
        """The workspace it was made in."""
        return cast(str, self._get("workspace"))

    @property
    def ticket(self) -> str:
        """What :meth:`Workspace.wait_durable` waits for."""
        return cast(str, self._get("ticket"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and (self.ticket, self.workspace) == (other.ticket, other.workspace)

    def __hash__(self) -> int:
        return hash((self.ticket, self.workspace))

    def __reduce__(self) -> Any:
        return Receipt._of, (self._all(),)

    def __repr__(self) -> str:
        return f"Receipt({self._all()})"


@dataclass(frozen=True)
class Change:
    """What a commit changed in one task."""

    id: str
    #: As ``foldlog history --json`` has it.
    data: Dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


@dataclass(frozen=True)
class Commit:
    """A commit that changed tasks or documents, of whichever process."""

    #: Its first event.
    first: int
    #: Where to go on behind it, later or in another process.
    cursor: str
    #: RFC 3339.
    time: str
    session: Optional[str]
    durable: bool
    #: What it changed in tasks, and in documents.
    changes: Tuple[Change, ...]
    documents: Tuple[DocumentChange, ...] = ()


@dataclass(frozen=True)
class Health:
    """What can be done with a log, and what is wrong with it."""

    workspace: str
    status: str
    findings: Tuple[Dict[str, Any], ...]

    @property
    def is_healthy(self) -> bool:
        """Whether everything can be read and written."""
        return self.status == "healthy"

    @staticmethod
    def _of(told: Mapping[str, Any]) -> "Health":
        return Health(told["workspace"], told["status"], tuple(told["findings"]))


def _heeds() -> bool:
    """Whether this is the thread that Ctrl-C is for."""
    return threading.current_thread() is threading.main_thread()


class Changes(Iterator[Union[Commit, Health]]):
    """Whole commits in order, each once, and news of the log's health, as they come. Iterating waits; it ends with :meth:`close`, or
    when the store is closed. One thread at a time; ``close`` and leaving the ``with`` block work from any.

    :class:`RewoundError` and :class:`TrimmedError` end it.
    """

    def __init__(self, native: "_native.Changes", store: "Store") -> None:
        self._native = native
        self._store = store

    def get(self, timeout: Optional[float] = None) -> Union[Commit, Health, None]:
        """The next one, waited for at most ``timeout`` seconds (``None`` = for ever); ``None`` if none came."""
        seconds = 1e9 if timeout is None else timeout
        told = self._native.next(seconds, _heeds())
        if told is None:
            return None
        told = loads(told)
        if "health" in told:
            return Health._of(told["health"])
        commit = told["commit"]
        changes = tuple(Change(one["id"], one) for one in commit["changes"])
        documents = tuple(map(DocumentChange._of, commit.get("documents", ())))
        return Commit(commit["first"], commit["cursor"], commit["time"], commit["session"], commit["durable"], changes, documents)

    def __iter__(self) -> "Changes":
        return self

    def __next__(self) -> Union[Commit, Health]:
        found = self.get()
        if found is None:
            raise StopIteration
        return found

    @property
    def cursor(self) -> str:
        """Where to go on from, later or in another process: ``subscribe(start=cursor)``."""
        return self._native.cursor()

    def close(self) -> None:
        """Ends it; whoever waits for the next one is told that none came."""
        self._native.stop()

    def __enter__(self) -> "Changes":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


_ONLY_DURABILITY = frozenset({"durability"})


class Tasks:
    """The tasks of one workspace.

    Each change is one commit, judged under the write lock on the newest state, all or nothing, and returns a
    :class:`Receipt`. Each takes:

    ``expect``
        what the task must be like: a revision, a token, ``"absent"`` or ``"exists"``; for several tasks a dict by id. Else
        :class:`ConflictError`, and nothing is written.
    ``fence``
        what :meth:`attach` gave; refused with :class:`FencedError` if the task has changed hands since.
    ``durability``
        ``"durable"``: returns once a power cut cannot take it (if nothing is said). ``"buffered"``: returns once the death of
        this process cannot; :meth:`Workspace.wait_durable` and :meth:`Workspace.flush` wait for the rest. ``"interval:MS"``:
        buffered, and synced within that time.
    ``op_id``
        32 hex digits of your own, for a commit that may have to be sent again: it is made once.

    A commit that stands and could not be made durable raises an error that has its ``receipt``: it is not to be made again.

    All of them release the interpreter while they wait. Ctrl-C ends a wait within 100 ms: the ``KeyboardInterrupt`` then has
    ``receipt`` if the commit stands, and ``pending`` if it, or its sync, is still under way, whose ``result(seconds)`` waits for
    the rest and raises as the call would have. Where one durable commit follows the other and each took a few ms, the next is
    synced by the thread that asks for it: should the disk stop short in that very sync, Ctrl-C is heard at its end.
    """

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace

    # --- looking ---

    def get(self, id: str) -> Optional[Task]:
        """The task, or ``None``."""
        ws = self._workspace
        told = ws._native.get(id)
        return None if told is None else Task._of(loads(told))

    def get_text(self, id: str) -> Optional[str]:
        """The task's item as JSON text, exactly as the log spells it, or ``None``."""
        return self._workspace._native.text(id)

    def __getitem__(self, id: str) -> Task:
        found = self.get(id)
        if found is None:
            raise KeyError(id)
        return found

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.get(id) is not None

    def __iter__(self) -> Iterator[Task]:
        after = None
        while True:
            page = self.list(limit=500, after=after)
            yield from page.tasks
            after = page.next
            if after is None:
                return

    def list(self, *, status: Optional[str] = None, parent: Optional[str] = None, root: Optional[str] = None,
             background: Optional[bool] = None, sort: Optional[str] = None, limit: Optional[int] = None,
             after: Optional[str] = None) -> Page:
        """Tasks, the newest first if nothing else is said; ``sort`` as of ``foldlog tasks --sort``."""
        asked = {"status": status, "parent": parent, "root": root, "background": background, "sort": sort, "limit": limit,
                 "after": after}
        told = self._workspace._request("list", {k: v for k, v in asked.items() if v is not None})
        return Page([Task._of(one) for one in told["tasks"]], told["total"], told["next"])

    def tree(self, id: str) -> List[Task]:
        """The task and all below it, each with its ``depth``."""
        return [Task._of(one) for one in self._workspace._request("tree", {"task": id})]

    def totals(self, id: str) -> Dict[str, Any]:
        """Sums over the task and all below it."""
        return cast(Dict[str, Any], self._workspace._request("totals", {"task": id}))

    def history(self, id: str) -> List[Change]:
        """How the task came to be as it is."""
        return [Change(id, one) for one in self._workspace._request("history", {"task": id})]

    # --- changing ---

    def create(self, item: Mapping[str, Any], *, again: bool = False, **options: Any) -> Receipt:
        """Makes a task; ``item`` has its ``id``. ``again``: though one of that id was deleted."""
        return self._commit({"op": "create", "item": item, "again": again}, options)

    def patch(self, id: str, *, set: Optional[Mapping[str, Any]] = None, unset: Iterable[str] = (),
              drop_children: Iterable[str] = (), **options: Any) -> Receipt:
        """Changes the fields that are named, and no others. ``None`` is a value, JSON's null; ``unset`` takes fields away."""
        gone, dropped = names("unset", unset), names("drop_children", drop_children)
        if set and not gone and not dropped and not (options.keys() - _ONLY_DURABILITY):
            return Receipt(self._workspace._native.patch(id, dumps(set), options.get("durability")))
        op: Dict[str, Any] = {"op": "patch", "task": id, "set": set or {}}
        if gone:
            op["unset"] = gone
        if dropped:
            op["drop_children"] = dropped
        return self._commit(op, options)

    def rename(self, id: str, title: str, **options: Any) -> Receipt:
        """Gives it the title that a person chose."""
        return self._commit({"op": "rename", "task": id, "title": title}, options)

    def set_status(self, id: str, status: str, **options: Any) -> Receipt:
        """Changes its status, as the workspace's table allows it."""
        return self._commit({"op": "status", "task": id, "status": status}, options)

    def resume(self, id: str, **options: Any) -> Receipt:
        """Makes an interrupted task active."""
        return self._commit({"op": "resume", "task": id}, options)

    def delegate(self, parent: str, child: Union[str, Mapping[str, Any]], **options: Any) -> Receipt:
        """The parent waits for the child from now on; the child is an item, or the id of one that is there."""
        return self._commit({"op": "delegate", "parent": parent, "child": child}, options)

    def complete(self, id: str, summary: Optional[str] = None, **options: Any) -> Receipt:
        """Ends it; a parent that waits for it goes on, with the summary."""
        op: Dict[str, Any] = {"op": "complete", "task": id}
        if summary is not None:
            op["summary"] = summary
        return self._commit(op, options)

    def remove(self, ids: Union[str, Iterable[str]], *, cascade: bool = False, **options: Any) -> Receipt:
        """Deletes tasks; ``cascade``: and all below them. A late write to one raises :class:`TaskDeletedError`."""
        gone = [ids] if isinstance(ids, str) else names("ids", ids)
        return self._commit({"op": "remove", "tasks": gone, "cascade": cascade}, options)

    def attach(self, id: str, **options: Any) -> str:
        """Runs it from now on: returns the fence to write with. :class:`OwnedError` if a live session does already."""
        return self._commit({"op": "attach", "task": id}, options).fences[id]

    def detach(self, id: str, fence: str, **options: Any) -> Receipt:
        """Runs it no more."""
        return self._commit({"op": "detach", "task": id, "fence": fence}, options)

    def abandon(self, id: str, **options: Any) -> Receipt:
        """Takes it from whoever runs it, alive or not; what they write with their fence is refused from then on."""
        return self._commit({"op": "abandon", "task": id}, options)

    def set_retention(self, id: str, keep: Keep, **options: Any) -> Receipt:
        """How much of this task's history is kept, in the place of what holds for the workspace: as
        :meth:`Workspace.set_retention`; ``None`` takes that back."""
        return self._commit({"op": "set_retention", "task": id, "keep": keep}, options)

    def pin(self, id: str, pinned: bool = True, **options: Any) -> Receipt:
        """Has all of its history kept, whatever else is set, or no longer."""
        return self._commit({"op": "pin", "task": id, "pinned": pinned}, options)

    def plan_purge(self, ids: Union[str, Iterable[str]], *, cascade: bool = False) -> Dict[str, Any]:
        """What :meth:`purge` would remove, as far as it can be said before. Changes nothing."""
        return self._purge("plan_purge", ids, cascade)

    def purge(self, ids: Union[str, Iterable[str]], *, cascade: bool = False) -> Dict[str, Any]:
        """Deletes tasks, and removes what they held from every file of the workspace: ``{"tasks", "segments", "events", "blobs",
        "snapshots", "quarantine", "pending", "backups"}``.

        Files that others have in use are ``pending``, each with its ``path`` and ``holder``: the same call later removes them.
        Backups are named, not touched. Takes seconds for a large log."""
        return self._purge("purge", ids, cascade)

    def _purge(self, op: str, ids: Union[str, Iterable[str]], cascade: bool) -> Dict[str, Any]:
        going = [ids] if isinstance(ids, str) else names("ids", ids)
        asked = {"tasks": going, "cascade": cascade}
        return cast(Dict[str, Any], self._workspace._request(op, asked))

    def _commit(self, op: Dict[str, Any], options: Dict[str, Any]) -> Receipt:
        expect = options.pop("expect", None)
        if expect is not None and not isinstance(expect, Mapping):
            # Of one task: the one that it is about.
            about = op.get("task") or op.get("parent") or (op.get("item") or {}).get("id")
            if about is None:
                raise TypeError("expect must be a dict by task id here")
            expect = {about: expect}
        return self._workspace._commit(op, expect=expect, **options)


class Workspace:
    """One project's log in a store. Threads may share it."""

    def __init__(self, store: "Store", native: "_native.Home") -> None:
        self._store = store
        self._native = native
        #: Its tasks.
        self.tasks = Tasks(self)
        #: Its documents.
        self.documents = Documents(self)

    @property
    def name(self) -> str:
        """Its own name in the store."""
        return self._native.name

    def __repr__(self) -> str:
        return f"<foldlog workspace {self.name}>"

    def commit(self, ops: Iterable[Mapping[str, Any]], *, expect: Optional[Mapping[str, Expected]] = None,
               expect_documents: Optional[Mapping[str, Expected]] = None,
               fences: Optional[Mapping[str, str]] = None, op_id: Optional[str] = None, seen: Optional[int] = None,
               durability: Optional[Durability] = None) -> Receipt:
        """Several changes, of tasks and documents, all or nothing: each a dict as of ``docs/pipe.md``,
        ``{"op": "patch", "task": ID, "set": {…}}``."""
        if isinstance(ops, (str, bytes, Mapping)):
            raise TypeError(f"ops is to be a list of changes, not {type(ops).__name__}")
        op: Dict[str, Any] = {"op": "commit", "ops": list(ops)}
        if expect_documents is not None:
            op["expect_documents"] = expect_documents
        return self._commit(op, expect=expect, fences=fences, op_id=op_id, seen=seen,
                            durability=durability)

    def _commit(self, op: Dict[str, Any], *, expect: Optional[Mapping[str, Expected]] = None, fence: Optional[str] = None,
                fences: Optional[Mapping[str, str]] = None, op_id: Optional[str] = None, seen: Optional[int] = None,
                durability: Optional[Durability] = None) -> Receipt:
        for name, value in (("expect", expect), ("fence", fence), ("fences", fences), ("op_id", op_id), ("seen", seen),
                            ("durability", durability)):
            if value is not None:
                op[name] = value
        text = dumps(op)
        return Receipt(self._native.commit(text))

    def subscribe(self, start: str = "now", *, durable: bool = False) -> Changes:
        """What is committed from here on (``"now"``), from the beginning (``"start"``) or behind a cursor. ``durable``: only what a
        power cut cannot take."""
        return Changes(self._native.subscribe(start, durable), self._store)

    def flush(self) -> None:
        """Makes everything durable that was committed so far, by whomever."""
        self._request("flush", {})

    def compact(self) -> Dict[str, Any]:
        """Writes a snapshot, and has old segments written anew, smaller, without what later events have overwritten: ``{"segments",
        "bytes_before", "bytes_after", "dropped", "horizon"}``, with 0 segments where there was nothing to gain.

        Others read and write meanwhile. Takes seconds for a large log. Subscriptions from below ``horizon`` are told
        :class:`TrimmedError`."""
        return cast(Dict[str, Any], self._request("compact", {})[0])

    def set_retention(self, keep: Keep, **options: Any) -> Receipt:
        """How much of the history is kept of all tasks for which nothing of their own is set: ``"all"``, ``None`` for nothing, or a
        dict of limits, ``{"age_ms", "count", "bytes"}``, each of which may be left out. Compaction keeps to it."""
        return self._commit({"op": "set_retention", "keep": keep}, **options)

    def retention(self) -> Dict[str, Any]:
        """What is set: ``{"workspace", "tasks", "pinned"}``."""
        return cast(Dict[str, Any], self._request("retention", {}))

    def wait_durable(self, receipt: Receipt, timeout: float = 10.0) -> None:
        """Waits until a commit is durable; :class:`NotDurableError` if it is not within ``timeout`` seconds."""
        self._native.wait_durable(receipt.ticket, timeout)

    def health(self) -> Health:
        """How its log is."""
        return Health._of(self._request("health", {})[0])

    def check(self) -> List[Dict[str, Any]]:
        """Findings about its tasks: links that lead nowhere, and the like."""
        return cast(List[Dict[str, Any]], self._request("check", {}))

    def orphans(self) -> List[Dict[str, Any]]:
        """Delegations that nobody alive will bring to an end."""
        return cast(List[Dict[str, Any]], self._request("orphans", {}))

    def mend_orphans(self, *, unowned: bool = False) -> List[Dict[str, Any]]:
        """Ends them; ``unowned``: also those that no session ever ran."""
        return cast(List[Dict[str, Any]], self._request("mend_orphans", {"unowned": unowned}))

    @property
    def rules(self) -> str:
        """The name of the status table that holds here."""
        return cast(str, self._request("rules", {})["table"])

    def set_rules(self, table: str, **options: Any) -> Receipt:
        """Another table: ``default``, ``zoo-3.78`` or ``zoo-next``."""
        return self._commit({"op": "set_rules", "table": table}, **options)

    def _request(self, op: str, members: Dict[str, Any]) -> Any:
        return self._store._request({"op": op, "workspace": self.name, **members})


class Store:
    """A folder with a log for each workspace, open in this process. Threads may share it; close it, or use ``with``."""

    def __init__(self, native: "_native.Store") -> None:
        self._native = native

    def workspace(self, place: Place, *, create: bool = True) -> Workspace:
        """A project's workspace: by its folder, by ``key:NAME``, or by its own name. ``create``: made where it is absent."""
        return Workspace(self, self._native.home(path_text(place), create))

    @property
    def global_(self) -> Workspace:
        """The store's global home, whose documents stand in where a workspace has none of the name
        (:meth:`Documents.resolve`). Made when it is first asked for."""
        home = self._native.global_home(True)
        assert home is not None
        return Workspace(self, home)

    def validate_documents(self, kind: str, validator: Callable[[str, Any], Any]) -> None:
        """Has documents of this kind judged before they are written by this process: ``validator(name, value)`` raises for one
        that is not to be, and :class:`DocumentRefusedError` has its text. It runs under the write lock: no calls of foldlog in
        it, and nothing slow."""
        self._native.validate_documents(kind, judged_by(validator))

    def workspaces(self) -> List[Dict[str, Any]]:
        """All that are in the store: ``{"name", "bound_to"}``."""
        return cast(List[Dict[str, Any]], self._request({"op": "workspaces"}))

    def sessions(self) -> List[Dict[str, Any]]:
        """Who has the store open, and who died in it: as ``foldlog who --json``."""
        return cast(List[Dict[str, Any]], self._request({"op": "sessions"}))

    def health(self) -> List[Health]:
        """How each log is."""
        return [Health._of(one) for one in self._request({"op": "health"})]

    def flush(self) -> None:
        """Makes everything durable that was committed so far, by whomever."""
        self._request({"op": "flush"})

    def backup(self, target: Place, *, workspaces: Optional[Iterable[str]] = None, link: bool = True, quarantine: bool = True,
               as_it_is: bool = False, on_progress: Optional[Progress] = None) -> CopyReport:
        """Makes a complete, verified copy in a folder that is absent or empty, while others write; nobody waits for it.

        ``workspaces``: only these, by folder, ``key:NAME`` or name. ``link``: files that are never written again may be shared with
        the copy. ``quarantine``: bytes that were set aside go along. ``as_it_is``: what is damaged is copied, too, instead of
        refused. ``on_progress`` is called now and then with a :class:`CopyProgress`, on this thread; what it raises, and Ctrl-C, ends
        the copy, of which nothing is left then.
        """
        told = self._native.backup(os.fsdecode(target), wishes(workspaces, quarantine, as_it_is, link), telling(on_progress))
        return CopyReport._of(told)

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._native.is_closed()

    def close(self) -> None:
        """Makes everything durable and closes it. Subscriptions end."""
        self._native.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _request(self, request: Dict[str, Any]) -> Any:
        text = dumps(request)
        return loads(self._native.request(text))


def open_store(path: Place, *, create: bool = True, read_only: bool = False, label: str = "python",
               lock_timeout: float = 10.0, segment_size: Optional[int] = None, mapping: bool = True,
               housekeeping: bool = True, trust_shared_fs: bool = False) -> Store:
    """Opens the store in a folder; made where it is absent.

    ``read_only``: no session, no lock, not a byte written. ``label``: what others see in ``foldlog who``. ``lock_timeout``: how many
    seconds a commit waits for the write lock before :class:`BusyError`. ``mapping``: whether the control block is mapped.
    ``housekeeping``: a thread for what is due later. ``trust_shared_fs``: also on a network.
    """
    options: Dict[str, Any] = {"create": create and not read_only, "read_only": read_only, "label": label,
                               "lock_timeout_ms": round(lock_timeout * 1000), "mapping": mapping,
                               "housekeeping": housekeeping, "trust_shared_fs": trust_shared_fs}
    if segment_size is not None:
        options["segment_size"] = segment_size
    return _open(os.fsdecode(path), options)


def open_memory(*, label: str = "python") -> Store:
    """A store in memory, gone when it is closed: for tests."""
    return _open(None, {"label": label})


def _open(path: Optional[str], options: Dict[str, Any]) -> Store:
    return Store(_native.open(path, json.dumps(options)))
