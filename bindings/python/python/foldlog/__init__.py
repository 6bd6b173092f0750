"""foldlog: an embeddable append-only event log for the task histories of coding agents. Many processes, one log.

>>> import foldlog
>>> with foldlog.open_memory() as store:
...     tasks = store.workspace("key:demo").tasks
...     receipt = tasks.create({"id": "t1", "task": "write the tests"})
...     receipt = tasks.patch("t1", set={"tokensIn": 120})
...     tasks.get("t1").item["tokensIn"]
120

A :class:`Store` is a folder; a :class:`Workspace` in it is one project's log, with its :class:`Tasks`. Any number of threads and
processes, in any language that foldlog has a package for, may use one store at the same time. Every error is a
:class:`FoldlogError`. What foldlog notices by itself, and heals, is logged as ``foldlog``.

After ``os.fork`` (``multiprocessing``'s default on Linux before Python 3.14) the child opens the store again: its parent's
handles raise :class:`ForkedError` there.
"""

from . import _errors
from ._errors import *  # noqa: F403
from ._backup import CopyProgress, CopyReport, Volume, WorkspaceCopy, restore
from ._documents import Bridge, Document, DocumentChange, DocumentPage, Documents, Listed, Synced
from ._store import (
    Change,
    Changes,
    Commit,
    Health,
    Page,
    Receipt,
    Store,
    Task,
    TaskItem,
    Tasks,
    Workspace,
    open_memory,
    open_store,
)
from ._values import Raw

__version__ = "0.1.0"
__all__ = [
    "Bridge",
    "Document",
    "DocumentChange",
    "DocumentPage",
    "Documents",
    "Listed",
    "Synced",
    "Change",
    "Changes",
    "Commit",
    "CopyProgress",
    "CopyReport",
    "Health",
    "Page",
    "Raw",
    "Receipt",
    "Store",
    "Task",
    "TaskItem",
    "Tasks",
    "Volume",
    "Workspace",
    "WorkspaceCopy",
    "open_memory",
    "open_store",
    "restore",
]
# Type checkers read this form, and no other that would not repeat them.
__all__ += _errors.__all__
