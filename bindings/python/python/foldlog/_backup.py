"""Backup and restore: what a copy of a store is, and how far one is."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Union

from . import _native
from ._values import loads

#: A path; one of bytes is taken as the system takes it.
Place = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


@dataclass(frozen=True)
class Volume:
    """Files and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class CopyProgress:
    """How far a copy is."""

    #: The workspace that is copied.
    workspace: str
    #: ``"reading"``, ``"copying"`` or ``"verifying"``.
    phase: str
    #: Bytes, of how many; 0 of 0 where that is not known.
    done: int
    total: int


@dataclass(frozen=True)
class WorkspaceCopy:
    """A workspace in a copy of a store."""

    workspace: str
    log_id: str
    #: The last event that is in it, and its cursor, which stays valid in the original and in every copy.
    seq: int
    cursor: str
    #: Of the copy as it was read back, and of the original at that event.
    state_hash: str
    events: int
    segments: int
    blobs: int
    #: Files that it shares with the original, and those of its own.
    linked: Volume
    copied: Volume
    took_ms: int
    #: Whether it is free of damage.
    whole: bool
    findings: List[Dict[str, Any]]
    #: The event by which the store notes the backup.
    noted: Optional[int]
    #: What kept it from that: ``{"error", "message", "remedy"}``.
    note_error: Optional[Dict[str, Any]]


@dataclass(frozen=True)
class CopyReport:
    """A copy of a store that is complete, durable, and was read back."""

    #: Its folder, in full.
    target: str
    #: A backup's is the store's own, a restored store has a new one.
    store_id: str
    #: Whether nothing in it is damaged.
    whole: bool
    #: Of a restore: sessions that held something and are proven dead in the new store.
    dead_sessions: int
    took_ms: int
    workspaces: List[WorkspaceCopy]

    @staticmethod
    def _of(text: str) -> "CopyReport":
        told = loads(text)
        copies = [
            WorkspaceCopy(**{**one, "linked": Volume(**one["linked"]), "copied": Volume(**one["copied"])})
            for one in told.pop("workspaces")
        ]
        return CopyReport(workspaces=copies, **told)


Progress = Callable[[CopyProgress], Any]


def wishes(workspaces: Optional[Iterable[str]], quarantine: bool, as_it_is: bool, link: bool = True) -> str:
    """What is asked of a copy, for the extension module."""
    told: Mapping[str, Any] = {"workspaces": list(workspaces or ()), "link": link, "quarantine": quarantine, "as_it_is": as_it_is}
    return json.dumps(told)


def telling(on_progress: Optional[Progress]) -> Optional[Callable[[str], None]]:
    """Whom the extension module tells."""
    if on_progress is None:
        return None

    def tell(text: str) -> None:
        on_progress(CopyProgress(**json.loads(text)))

    return tell


def restore(backup: Place, target: Place, *, workspaces: Optional[Iterable[str]] = None, quarantine: bool = True,
            as_it_is: bool = False, on_progress: Optional[Progress] = None) -> CopyReport:
    """Makes a store of a backup in a folder that is absent or empty: :class:`OccupiedError` otherwise, with who uses what is there.

    The backup is verified before, and the store after. What sessions of the old store held is nobody's here. The options are as
    of :meth:`Store.backup`.
    """
    told = _native.restore(os.fsdecode(backup), os.fsdecode(target), wishes(workspaces, quarantine, as_it_is),
                           telling(on_progress))
    return CopyReport._of(told)
