"""What can go wrong: one exception for each of the library's stable codes, in a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Type, cast

if TYPE_CHECKING:
    from ._store import Receipt

__all__ = [
    "BadStateFileError",
    "BlobMissingError",
    "BusyError",
    "CancelledError",
    "ClosedError",
    "Conflict",
    "ConflictError",
    "CrossWorkspaceError",
    "CycleError",
    "DamagedError",
    "DocumentDeletedError",
    "DocumentRefusedError",
    "DurabilityLostError",
    "FencedError",
    "FoldlogError",
    "ForeignError",
    "ForkedError",
    "InvalidError",
    "IoError",
    "LocksDoNotExcludeError",
    "NoDocumentError",
    "NoSpaceError",
    "NoTaskError",
    "NotDurableError",
    "NotFoundError",
    "NotWaitingError",
    "NotYetError",
    "OccupiedError",
    "OpIdReusedError",
    "OutcomeUnknownError",
    "OwnedError",
    "PanicError",
    "PermissionError",
    "ReadOnlyError",
    "ReentrantError",
    "RefusedError",
    "RejectedError",
    "RequestError",
    "RewoundError",
    "RuledFieldError",
    "SharedFileSystemError",
    "StatusRefusedError",
    "StorageError",
    "StoreReplacedError",
    "TaskDeletedError",
    "TaskExistsError",
    "TemporaryError",
    "TooLargeError",
    "TooNewError",
    "TrimmedError",
    "UnknownEventError",
    "UnstableError",
    "UsageError",
]


class FoldlogError(Exception):
    """Any error of foldlog. Its text says what happened and where."""

    #: The stable name, the same in every release and language.
    code: str = ""
    #: What to do next.
    remedy: str
    #: The file or folder concerned.
    file: Optional[str]
    #: What this kind of error knows beside its message, by name; its members are attributes too.
    data: Dict[str, Any]
    #: Of a commit that stands nevertheless, what it came to: it is not to be made again. ``None`` = nothing was written.
    receipt: "Optional[Receipt]"

    def __init__(self, message: str, *, code: str = "", remedy: str = "", file: Optional[str] = None,
                 data: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        if code:
            self.code = code
        self.remedy = remedy
        self.file = file
        self.data = data or {}
        self.receipt = None
        for name, value in self.data.items():
            self.__dict__.setdefault(name, value)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}; {self.remedy}" if self.remedy else text

    def __reduce__(self) -> Any:
        return _remake, (type(self), self.args[0], self.code, self.remedy, self.file, self.data, self.receipt)


def _remake(of: Type[FoldlogError], message: str, code: str, remedy: str, file: Optional[str], data: Dict[str, Any],
            receipt: "Optional[Receipt]") -> FoldlogError:
    made = of(message, code=code, remedy=remedy, file=file, data=data)
    made.receipt = receipt
    return made


class Conflict(NamedTuple):
    """An expectation that does not hold, and what is there instead."""

    #: The task's or document's name.
    id: str
    #: The token or revision that was expected.
    expected: str
    #: The present revision; 0 = it never was there.
    revision: int
    #: What to expect next time.
    token: Optional[str]
    #: What it is now, values over 64 KiB as ``None``; ``None`` if it is not there.
    item: Any
    #: What it is: ``"task"`` or ``"document"``.
    of: str = "task"


class ConflictError(FoldlogError):
    """What was expected does not hold, and nothing was written: somebody else came first. ``conflicts`` says what is there now."""

    code = "conflict"

    @property
    def conflicts(self) -> List[Conflict]:
        """Each expectation that does not hold."""
        return [
            Conflict(one["id"], one["expected"], one["revision"], one.get("token"), one.get("item"), one["of"])
            for one in self.data.get("conflicts", [])
        ]


class TemporaryError(FoldlogError):
    """Nothing was written, and the same call may succeed later."""


class RefusedError(FoldlogError):
    """The rules forbid it, and nothing was written; it will be refused again as long as the state is the same."""


class StorageError(FoldlogError):
    """The disk or its contents stand in the way."""


class RequestError(FoldlogError):
    """What was asked for makes no sense, and nothing was done."""


class BusyError(TemporaryError):
    """Somebody else holds the lock; ``holder`` names them."""

    code = "busy"
    #: Who holds it.
    holder: str
    #: For how long it was waited for.
    waited_ms: int


class NotYetError(TemporaryError):
    """Somebody is in the middle of changing the files."""

    code = "not-yet"


class UnstableError(TemporaryError):
    """A file did not hold still while it was read."""

    code = "unstable"
    #: What did not hold still.
    what: str


class NotDurableError(StorageError):
    """It stands, as its ``receipt`` has it, and is not known to be durable: ``why``. Not to be made again."""

    code = "not-durable"
    #: Its last event.
    seq: Optional[int] = None
    #: What kept it from being made durable.
    why: Optional[str] = None


class NoSpaceError(StorageError):
    """The disk is full, or the quota is used up. Nothing of the commit stands."""

    code = "no-space"


class IoError(StorageError):
    """A system call failed."""

    code = "io"


class PermissionError(StorageError):
    """The system does not permit it."""

    code = "permission"


class DamagedError(StorageError):
    """Bytes that were acknowledged do not check. ``foldlog verify`` says what is left; nothing was changed."""

    code = "damaged"
    #: What was found, as ``foldlog verify --json`` tells it.
    finding: Dict[str, Any]


class DurabilityLostError(StorageError):
    """A sync failed: what was committed since ``from_`` may not survive a power cut. A commit that says so stands, as
    its ``receipt`` has it."""

    code = "durability-lost"

    @property
    def from_(self) -> int:
        """The first event that may be lost."""
        return cast(int, self.data["from"])


class StoreReplacedError(StorageError):
    """The folder was moved, deleted or replaced underneath. A commit that had been made has its ``receipt``."""

    code = "store-replaced"
    #: Which file, and how it differs.
    what: str


class BlobMissingError(StorageError):
    """A large value is not in the store."""

    code = "blob-missing"
    #: Its name.
    blob: str


class ForeignError(StorageError):
    """The folder has other things in it, and is left alone."""

    code = "foreign"
    #: What was expected.
    what: Optional[str] = None
    #: What was found instead.
    why: Optional[str] = None


class OccupiedError(StorageError):
    """Something stands where a copy of a store was to be made, and is left alone; ``what`` says who uses it, if it is a store."""

    code = "occupied"
    #: What stands there.
    what: str


class SharedFileSystemError(StorageError):
    """The folder is on a network; see ``trust_shared_fs``."""

    code = "shared-file-system"
    #: Its name.
    fs: str


class LocksDoNotExcludeError(StorageError):
    """Locks do not work there."""

    code = "locks-do-not-exclude"


class ReadOnlyError(StorageError):
    """The store can only be read."""

    code = "read-only"
    #: Why.
    reason: Optional[str] = None


class TooNewError(StorageError):
    """A newer release wrote it, in a way that this one cannot read."""

    code = "too-new"
    #: Which structure.
    what: str
    #: What it asks for.
    need: int
    #: What this release has.
    have: int


class UnknownEventError(StorageError):
    """A newer release wrote an event that must be understood."""

    code = "unknown-event"
    #: Its number.
    seq: int
    #: Its kind.
    kind: int
    #: Its version.
    version: int


class NotFoundError(RequestError):
    """There is nothing of that name."""

    code = "not-found"
    #: What was looked for.
    what: Optional[str] = None


class NoTaskError(RefusedError):
    """There is no such task."""

    code = "no-task"
    #: The id.
    id: str


class TaskExistsError(RefusedError):
    """A task of that id is there already."""

    code = "task-exists"
    #: The id.
    id: str


class TaskDeletedError(RefusedError):
    """The task was deleted; to make it anew, say ``again=True``."""

    code = "task-deleted"
    #: The id.
    id: str
    #: The event that deleted it, or the last one after.
    seq: int


class StatusRefusedError(RefusedError):
    """The status table does not allow the change."""

    code = "status-refused"
    #: The id.
    id: str
    #: The status that was asked for.
    to: str
    #: Which rule is in the way.
    why: str

    @property
    def from_(self) -> str:
        """Its status."""
        return cast(str, self.data["from"])


class NotWaitingError(RefusedError):
    """The parent does not wait for that child."""

    code = "not-waiting"
    #: The parent.
    parent: str
    #: The child.
    child: str


class CycleError(RefusedError):
    """A task would become its own ancestor."""

    code = "cycle"
    #: The parent that was asked for.
    parent: str
    #: The child.
    child: str


class OwnedError(RefusedError):
    """A live session runs the task; ``owner`` names it."""

    code = "owned"
    #: The id.
    id: str
    #: The session's number, in hex.
    session: str
    #: Who that is, as far as it is known.
    owner: str
    #: ``"alive"``, or ``"unknown"``.
    liveness: str


class FencedError(RefusedError):
    """The task has changed hands since; ``current`` is the fence that counts."""

    code = "fenced"
    #: The id.
    id: str
    #: The fence that the commit carried.
    fence: str
    #: What holds instead.
    current: str


class RuledFieldError(RefusedError):
    """The field is changed by a verb of its own: ``verb``."""

    code = "ruled-field"
    #: The field.
    field: str
    #: What changes it.
    verb: str


class CrossWorkspaceError(RefusedError):
    """The tasks are at home in different workspaces."""

    code = "cross-workspace"
    #: Two tasks of the commit; twice the same if one id is in two workspaces.
    ids: List[str]
    #: Their workspaces.
    homes: List[str]


class NoDocumentError(RefusedError):
    """There is no such document."""

    code = "no-document"
    #: The name.
    name: str


class DocumentDeletedError(RefusedError):
    """The document was deleted; a ``put`` that expects it to be absent begins it anew."""

    code = "document-deleted"
    #: The name.
    name: str
    #: The event that deleted it, or the last one after.
    seq: int


class DocumentRefusedError(RefusedError):
    """A validator refused the document; ``reason`` says why."""

    code = "document-refused"
    #: The name.
    name: str
    #: Of which kind it would be.
    kind: str
    #: What the validator said.
    reason: str


class BadStateFileError(StorageError):
    """A state file is malformed, and there is no good value to go on with. Nothing was written."""

    code = "bad-state-file"
    #: What is wrong with it.
    why: str


class RejectedError(RefusedError):
    """It was refused by whoever judged it."""

    code = "refused"
    #: Why.
    reason: str


class OpIdReusedError(RequestError):
    """That op id was used for something else."""

    code = "op-id-reused"
    #: The op id.
    op_id: str
    #: The first event of that other commit.
    seq: int


class OutcomeUnknownError(RequestError):
    """Too long ago to say whether it was done; ``current`` is the present state."""

    code = "outcome-unknown"
    #: The op id.
    op_id: str
    #: What its caller had seen.
    seen: int
    #: Where the memory of op ids starts.
    window_start: int
    #: What the keys that it names are now: ``{"id", "revision", "token", "item"}``.
    current: List[Dict[str, Any]]


class TooLargeError(RequestError):
    """It is larger than ``max``."""

    code = "too-large"
    #: What is too large, with its unit.
    what: str
    #: Its size.
    len: int
    #: The limit.
    max: int


class InvalidError(RequestError):
    """It is not what such a thing looks like."""

    code = "invalid"
    #: Which input.
    what: Optional[str] = None
    #: What is wrong with it.
    why: Optional[str] = None


class UsageError(RequestError):
    """It is not how this is asked for."""

    code = "usage"


class ReentrantError(RequestError):
    """A commit was asked for inside of one."""

    code = "reentrant"


class TrimmedError(RequestError):
    """The beginning that was asked for is gone; ``first_available`` is what is left."""

    code = "trimmed"
    #: The first event from which on all are there.
    first_available: int


class RewoundError(RequestError):
    """A power cut has ended that history; ``to`` is the last event both share."""

    code = "rewound"
    #: The last event that both histories share.
    to: int


class ForkedError(RequestError):
    """The store was opened before this process was forked: open it again."""

    code = "forked"


class ClosedError(RequestError):
    """The store has been closed."""

    code = "closed"


class CancelledError(RequestError):
    """It was ended before it was done, and what had been made was removed."""

    code = "cancelled"


class PanicError(FoldlogError):
    """A fault of foldlog itself."""

    code = "panic"


#: By code; of a code that is new, the parent.
_OF: Dict[str, Type[FoldlogError]] = {}
for _made in list(globals().values()):
    if isinstance(_made, type) and issubclass(_made, FoldlogError):
        _made.__module__ = "foldlog"
        if _made.code:
            _OF[_made.code] = _made


def raised_by(text: str) -> FoldlogError:
    """The exception for an error as JSON text."""
    from ._values import loads

    told = loads(text)
    of = _OF.get(told["error"], FoldlogError)
    made = of(told["message"], code=told["error"], remedy=told["remedy"], file=told["file"], data=told.get("data"))
    if told.get("receipt") is not None:
        from ._store import Receipt

        made.receipt = Receipt._of(told["receipt"])
    return made
