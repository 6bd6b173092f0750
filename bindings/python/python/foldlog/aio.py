"""foldlog for asyncio: the same calls, awaited, on threads of their own.

>>> import asyncio
>>> from foldlog import aio
>>> async def main():
...     async with await aio.open_memory() as store:
...         workspace = await store.workspace("key:demo")
...         await workspace.tasks.create({"id": "t1"})
...         return (await workspace.tasks.get("t1")).revision
>>> asyncio.run(main())
1

A call that is cancelled goes on, on its thread: a commit that was begun stands or is refused, and is never half of one. A backup
or restore that is cancelled ends soon, and nothing is left of it.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, TypeVar, Union

from . import _backup, _store
from ._backup import CopyProgress, CopyReport
from ._errors import CancelledError, ClosedError
from ._store import Commit, Health, Keep, Receipt, Task

__all__ = ["AsyncChanges", "AsyncDocuments", "AsyncStore", "AsyncTasks", "AsyncWorkspace", "open_memory", "open_store", "restore"]

_T = TypeVar("_T")

#: Calls of one store that can be under way at once.
_THREADS = 8


async def open_store(path: Any, **options: Any) -> "AsyncStore":
    """As :func:`foldlog.open_store`."""
    return await AsyncStore._made(functools.partial(_store.open_store, path, **options))


async def open_memory(**options: Any) -> "AsyncStore":
    """As :func:`foldlog.open_memory`."""
    return await AsyncStore._made(functools.partial(_store.open_memory, **options))


async def restore(backup: Any, target: Any, **options: Any) -> CopyReport:
    """As :func:`foldlog.restore`; ``on_progress`` is called on another thread."""
    loop = asyncio.get_running_loop()
    return await _copied(lambda tell: loop.run_in_executor(
        None, functools.partial(_backup.restore, backup, target, **{**options, "on_progress": tell})), options)


async def _copied(start: "Callable[[_backup.Progress], Awaitable[CopyReport]]", options: Dict[str, Any]) -> CopyReport:
    """A copy that ends if whoever waits for it is cancelled."""
    stop = threading.Event()
    on_progress: Optional[_backup.Progress] = options.get("on_progress")

    def tell(at: CopyProgress) -> None:
        if stop.is_set():
            raise CancelledError("cancelled", code="cancelled", remedy="do it again if it is wanted after all")
        if on_progress is not None:
            on_progress(at)

    try:
        return await start(tell)
    except asyncio.CancelledError:
        stop.set()
        raise


class AsyncStore:
    """A :class:`foldlog.Store`; ``store`` is the one underneath."""

    def __init__(self, store: _store.Store, threads: ThreadPoolExecutor) -> None:
        self.store = store
        self._threads = threads
        self._closed = False

    @staticmethod
    async def _made(make: Callable[[], _store.Store]) -> "AsyncStore":
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="foldlog")
        try:
            return AsyncStore(await asyncio.get_running_loop().run_in_executor(threads, make), threads)
        except BaseException:
            threads.shutdown(wait=False)
            raise

    async def _run(self, call: Callable[..., _T], *args: Any, **options: Any) -> _T:
        if self._closed:
            raise ClosedError("the store has been closed", code="closed", remedy="open it again")
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(call, *args, **options))

    async def workspace(self, place: Any, **options: Any) -> "AsyncWorkspace":
        """As :meth:`foldlog.Store.workspace`."""
        return AsyncWorkspace(self, await self._run(self.store.workspace, place, **options))

    async def workspaces(self) -> List[Dict[str, Any]]:
        """As :meth:`foldlog.Store.workspaces`."""
        return await self._run(self.store.workspaces)

    async def health(self) -> List[Health]:
        """As :meth:`foldlog.Store.health`."""
        return await self._run(self.store.health)

    async def flush(self) -> None:
        """As :meth:`foldlog.Store.flush`."""
        await self._run(self.store.flush)

    async def backup(self, target: Any, **options: Any) -> CopyReport:
        """As :meth:`foldlog.Store.backup`; ``on_progress`` is called on another thread."""
        return await _copied(lambda tell: self._run(
            self.store.backup, target, **{**options, "on_progress": tell}), options)

    async def close(self) -> None:
        """As :meth:`foldlog.Store.close`. What was begun before is finished, on its thread."""
        if self._closed:
            return
        try:
            closing = asyncio.get_running_loop().run_in_executor(self._threads, self.store.close)
            self._closed = True
            await closing
        finally:
            self._threads.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncStore":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class AsyncWorkspace:
    """A :class:`foldlog.Workspace`; ``workspace`` is the one underneath."""

    def __init__(self, store: AsyncStore, workspace: _store.Workspace) -> None:
        self._store = store
        self.workspace = workspace
        #: Its tasks.
        self.tasks = AsyncTasks(store, workspace.tasks)
        #: Its documents.
        self.documents = AsyncDocuments(store, workspace.documents)

    async def commit(self, ops: Iterable[Mapping[str, Any]], **options: Any) -> Receipt:
        """As :meth:`foldlog.Workspace.commit`."""
        return await self._store._run(self.workspace.commit, ops, **options)

    async def subscribe(self, start: str = "now", *, durable: bool = False) -> "AsyncChanges":
        """As :meth:`foldlog.Workspace.subscribe`: to be iterated by ``async for``."""
        return AsyncChanges(await self._store._run(self.workspace.subscribe, start, durable=durable))

    async def flush(self) -> None:
        """As :meth:`foldlog.Workspace.flush`."""
        await self._store._run(self.workspace.flush)

    async def compact(self) -> Dict[str, Any]:
        """As :meth:`foldlog.Workspace.compact`."""
        return await self._store._run(self.workspace.compact)

    async def set_retention(self, keep: Keep, **options: Any) -> Receipt:
        """As :meth:`foldlog.Workspace.set_retention`."""
        return await self._store._run(self.workspace.set_retention, keep, **options)

    async def retention(self) -> Dict[str, Any]:
        """As :meth:`foldlog.Workspace.retention`."""
        return await self._store._run(self.workspace.retention)

    async def wait_durable(self, receipt: Receipt, timeout: float = 10.0) -> None:
        """As :meth:`foldlog.Workspace.wait_durable`."""
        await self._store._run(self.workspace.wait_durable, receipt, timeout)

    async def health(self) -> Health:
        """As :meth:`foldlog.Workspace.health`."""
        return await self._store._run(self.workspace.health)


class _Awaited:
    """Every public method of what is underneath, as a coroutine."""

    def __init__(self, store: AsyncStore, of: Any) -> None:
        self._store = store
        self._of = of

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._of, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(name)

        @functools.wraps(method)
        async def awaited(*args: Any, **options: Any) -> Any:
            return await self._store._run(method, *args, **options)

        return awaited


class AsyncDocuments(_Awaited):
    """:class:`foldlog.Documents`: every method of that is a coroutine here."""


class AsyncTasks(_Awaited):
    """:class:`foldlog.Tasks`: every method of that is a coroutine here."""

    async def all(self) -> AsyncIterator[Task]:
        """Each task, page by page."""
        after: Optional[str] = None
        while True:
            page = await self._store._run(self._of.list, limit=500, after=after)
            for task in page.tasks:
                yield task
            after = page.next
            if after is None:
                return


class _Waiter:
    """A thread for calls that may wait for ever. The interpreter's exit waits for none, as it does for a pool's."""

    def __init__(self) -> None:
        self._calls: "SimpleQueue[Optional[Tuple[Future[Any], Callable[[], Any]]]]" = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name="foldlog-changes", daemon=True).start()

    async def run(self, call: Callable[[], _T]) -> _T:
        """What the call comes to."""
        told: "Future[_T]" = Future()
        self._calls.put((told, call))
        return await asyncio.wrap_future(told)

    def end(self) -> None:
        """Lets the thread end once it has done what it was asked for."""
        self._calls.put(None)


def _serve(calls: "SimpleQueue[Optional[Tuple[Future[Any], Callable[[], Any]]]]") -> None:
    while True:
        asked = calls.get()
        if asked is None:
            return
        told, call = asked
        if not told.set_running_or_notify_cancel():
            continue
        try:
            found = call()
        except BaseException as error:
            told.set_exception(error)
        else:
            told.set_result(found)
        # Nobody's answer is kept while the next call is waited for.
        del asked, told, call


class AsyncChanges(AsyncIterator[Union[Commit, Health]]):
    """A :class:`foldlog.Changes`. It has a thread of its own, which ends when it is closed or what waits for it is cancelled."""

    def __init__(self, changes: _store.Changes) -> None:
        self._closed = True  # until there is something to be closed
        self._changes = changes
        self._waiter = _Waiter()
        self._closed = False

    def __aiter__(self) -> "AsyncChanges":
        return self

    async def __anext__(self) -> Union[Commit, Health]:
        if self._closed:
            raise StopAsyncIteration
        try:
            found = await self._waiter.run(self._changes.get)
        except asyncio.CancelledError:
            # What the thread has found by now would be lost for whoever goes on: so nobody does.
            self.close()
            raise
        if found is None:
            self.close()
            raise StopAsyncIteration
        return found

    @property
    def cursor(self) -> str:
        """As :attr:`foldlog.Changes.cursor`."""
        return self._changes.cursor

    def close(self) -> None:
        """Ends it."""
        if not self._closed:
            self._closed = True
            self._changes.close()
            self._waiter.end()

    def __del__(self) -> None:
        self.close()

    async def __aenter__(self) -> "AsyncChanges":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()
