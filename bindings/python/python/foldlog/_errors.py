"""What can go wrong: one exception for each of the library's stable codes, in a tree."""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional, Type

__all__ = ["FoldlogError", "Conflict"]


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

    def __init__(self, message: str, *, code: str = "", remedy: str = "", file: Optional[str] = None,
                 data: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        if code:
            self.code = code
        self.remedy = remedy
        self.file = file
        self.data = data or {}

    def __getattr__(self, name: str) -> Any:
        data = self.__dict__.get("data") or {}
        if name in data:
            return data[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}; {self.remedy}" if self.remedy else text

    def __reduce__(self) -> Any:
        return _remake, (type(self), self.args[0], self.code, self.remedy, self.file, self.data)


def _remake(of: Type[FoldlogError], message: str, code: str, remedy: str, file: Optional[str],
            data: Dict[str, Any]) -> FoldlogError:
    return of(message, code=code, remedy=remedy, file=file, data=data)


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


_OF: Dict[str, Type[FoldlogError]] = {}


def _error(code: str, doc: str, base: Type[FoldlogError] = FoldlogError, name: str = "") -> Type[FoldlogError]:
    name = name or "".join(word.capitalize() for word in code.split("-")) + "Error"
    made = type(name, (base,), {"__doc__": doc, "code": code, "__module__": "foldlog"})
    globals()[name] = made
    __all__.append(name)
    _OF[code] = made
    return made


def _group(name: str, doc: str) -> Type[FoldlogError]:
    made = type(name, (FoldlogError,), {"__doc__": doc, "__module__": "foldlog"})
    globals()[name] = made
    __all__.append(name)
    return made


class ConflictError(FoldlogError):
    """What was expected does not hold, and nothing was written: somebody else came first. ``conflicts`` says what is there now."""

    code = "conflict"

    @property
    def conflicts(self) -> List[Conflict]:
        """Each expectation that does not hold."""
        return [
            Conflict(one["id"], one["expected"], one["revision"], one.get("token"), one.get("item"))
            for one in self.data.get("conflicts", [])
        ]


ConflictError.__module__ = "foldlog"
_OF["conflict"] = ConflictError
__all__.append("ConflictError")

_temporary = _group("TemporaryError", "Nothing was written, and the same call may succeed later.")
_rules = _group("RefusedError", "The rules forbid it, and nothing was written; it will be refused again as long as the state is the same.")
_storage = _group("StorageError", "The disk or its contents stand in the way.")
_request = _group("RequestError", "What was asked for makes no sense, and nothing was done.")

_error("busy", "Somebody else holds the lock; ``holder`` names them.", _temporary)
_error("not-yet", "Somebody is in the middle of changing the files.", _temporary)
_error("unstable", "A file did not hold still while it was read.", _temporary)
_error("not-durable", "It stands, and was not durable in time; it may be later.", _temporary)
_error("no-space", "The disk is full, or the quota is used up. Nothing of the commit stands.", _storage)
_error("io", "A system call failed.", _storage)
_error("permission", "The system does not permit it.", _storage)
_error("damaged", "Bytes that were acknowledged do not check. ``foldlog verify`` says what is left; nothing was changed.", _storage)
_error("durability-lost", "A sync failed: what was committed since ``from`` may not survive a power cut.", _storage)
_error("store-replaced", "The folder was moved, deleted or replaced underneath.", _storage)
_error("blob-missing", "A large value is not in the store.", _storage)
_error("foreign", "The folder has other things in it, and is left alone.", _storage)
_error("shared-file-system", "The folder is on a network; see ``trust_shared_fs``.", _storage)
_error("locks-do-not-exclude", "Locks do not work there.", _storage)
_error("read-only", "The store can only be read.", _storage)
_error("too-new", "A newer release wrote it, in a way that this one cannot read.", _storage)
_error("unknown-event", "A newer release wrote an event that must be understood.", _storage)
_error("not-found", "There is nothing of that name.", _request)
_error("no-task", "There is no such task.", _rules, "NoTaskError")
_error("task-exists", "A task of that id is there already.", _rules)
_error("task-deleted", "The task was deleted; to make it anew, say ``again=True``.", _rules)
_error("status-refused", "The status table does not allow the change.", _rules)
_error("not-waiting", "The parent does not wait for that child.", _rules)
_error("cycle", "A task would become its own ancestor.", _rules)
_error("owned", "A live session runs the task; ``owner`` names it.", _rules)
_error("fenced", "The task has changed hands since; ``current`` is the fence that counts.", _rules)
_error("ruled-field", "The field is changed by a verb of its own: ``verb``.", _rules)
_error("cross-workspace", "The tasks are at home in different workspaces.", _rules)
_error("no-document", "There is no such document.", _rules, "NoDocumentError")
_error("document-deleted", "The document was deleted; a ``put`` that expects it to be absent begins it anew.", _rules)
_error("document-refused", "A validator refused the document; ``reason`` says why.", _rules)
_error("bad-state-file", "A state file is malformed, and there is no good value to go on with. Nothing was written.", _storage)
_error("refused", "It was refused by whoever judged it.", _rules, "RejectedError")
_error("op-id-reused", "That op id was used for something else.", _request)
_error("outcome-unknown", "Too long ago to say whether it was done; ``current`` is the present state.", _request)
_error("too-large", "It is larger than ``max``.", _request)
_error("invalid", "It is not what such a thing looks like.", _request)
_error("usage", "It is not how this is asked for.", _request)
_error("reentrant", "A commit was asked for inside of one.", _request)
_error("trimmed", "The beginning that was asked for is gone; ``first_available`` is what is left.", _request)
_error("rewound", "A power cut has ended that history; ``to`` is the last event both share.", _request)
_error("forked", "The store was opened before this process was forked: open it again.", _request)
_error("closed", "The store has been closed.", _request)
_error("internal", "A fault of foldlog itself.")


def raised_by(text: str) -> FoldlogError:
    """The exception for an error as JSON text."""
    told = json.loads(text)
    of = _OF.get(told["error"], FoldlogError)
    return of(told["message"], code=told["error"], remedy=told["remedy"], file=told["file"], data=told.get("data"))
