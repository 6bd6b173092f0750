"""A program of a user's, for the type checker alone: ``check`` has mypy look at it, and nobody runs it.

What is to be an error is marked as one that is ignored: mypy tells of a mark that is not needed."""

import asyncio
import logging
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional

import foldlog
from foldlog import aio


def add(tasks: foldlog.Tasks, id: str, tokens: int) -> Optional[foldlog.Receipt]:
    while True:
        seen = tasks[id]
        try:
            return tasks.patch(id, set={"tokensIn": int(seen.item.get("tokensIn", 0)) + tokens}, expect=seen.token)
        except foldlog.ConflictError as conflict:
            first: foldlog.Conflict = conflict.conflicts[0]
            logging.info("somebody else came first: revision %d, %s", first.revision, first.item)
        except foldlog.BusyError as busy:
            holder: str = busy.holder
            waited: int = busy.waited_ms
            logging.info("%s has had it for %d ms", holder, waited)
        except (foldlog.NotDurableError, foldlog.DurabilityLostError) as stands:
            receipt: Optional[foldlog.Receipt] = stands.receipt
            return receipt
        except foldlog.TemporaryError:
            continue
        except (foldlog.NoTaskError, foldlog.TaskDeletedError) as gone:
            name: str = gone.id
            raise KeyError(name) from gone
        except foldlog.StatusRefusedError as refused:
            words: List[str] = [refused.from_, refused.to, refused.why]
            raise ValueError(words) from refused
        except foldlog.FoldlogError as error:
            code: str = error.code
            logging.error("%s: %s", code, error.remedy)
            error.hodler  # type: ignore[attr-defined]
            return None


def judge(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError(name)


def main() -> None:
    with foldlog.open_store(Path("history"), label="client") as store, foldlog.open_store(b"bytes") as other:
        store.validate_documents("settings", judge)
        workspace = store.workspace(Path.cwd())
        odd: Mapping[str, Any] = MappingProxyType({"id": "t1", "cost": foldlog.Raw("1.50")})
        item: foldlog.TaskItem = {"id": "t2", "tokensIn": 1}
        workspace.tasks.create(odd)
        workspace.tasks.create(item)
        workspace.tasks.patch("t1", set=odd, unset={"mode"}, durability="buffered")
        workspace.tasks.patch("t1", unset=1)  # type: ignore[arg-type]
        receipt = workspace.commit(({"op": "patch", "task": "t1", "set": odd},), expect={"t1": 2})
        revisions: Dict[str, int] = receipt.revisions
        workspace.wait_durable(receipt, timeout=1)
        with workspace.subscribe("start") as changes:
            for update in changes:
                if isinstance(update, foldlog.Health):
                    continue
                for change in update.changes:
                    print(change.id, revisions)
                for document in update.documents:
                    print(document.name, document.revision, document.value, document.deleted)
        kept = workspace.documents.get("settings")
        if kept is not None:
            token: str = kept.token
            workspace.documents.put("settings", {}, expect=token)
        workspace.documents.bridge("settings", Path("settings.json")).sync()
        made: foldlog.CopyReport = other.backup(Path("b"), on_progress=lambda at: print(at.done / max(at.total, 1)))
        print(made.workspaces[0].cursor, foldlog.restore("b", "c").dead_sessions)
        other.close()


async def awaited() -> None:
    async with await aio.open_store("history") as store:
        workspace = await store.workspace("key:w")
        await workspace.tasks.create({"id": "t1"})
        async for update in await workspace.subscribe():
            if isinstance(update, foldlog.Commit):
                print(update.cursor)
        try:
            await workspace.flush()
        except foldlog.ClosedError as error:
            print(error.code)


if __name__ == "__main__":
    main()
    asyncio.run(awaited())
