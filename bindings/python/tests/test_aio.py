"""The same by asyncio."""

import asyncio
import subprocess
import sys

import pytest

import foldlog
from conftest import SOON, locked
from foldlog import aio


def test_calls_are_awaited(path):
    async def main():
        async with await aio.open_store(path) as store:
            workspace = await store.workspace("key:w")
            await workspace.tasks.create({"id": "a"})
            await asyncio.gather(*(workspace.tasks.patch("a", set={f"f{n}": n}) for n in range(20)))
            with pytest.raises(foldlog.NoTaskError):
                await workspace.tasks.patch("b", set={"x": 1})
            assert [task.id async for task in workspace.tasks.all()] == ["a"]
            return (await workspace.tasks.get("a")).item

    assert asyncio.run(main()) == {"id": "a", **{f"f{n}": n for n in range(20)}}
    with foldlog.open_store(path) as store:
        assert store.workspace("key:w").tasks["a"].revision == 21


def test_loop_goes_on_while_a_commit_waits(path):
    async def main():
        async with await aio.open_store(path) as store:
            workspace = await store.workspace("key:w")
            await workspace.tasks.create({"id": "a"})
            with locked(path, workspace.workspace):
                waits = asyncio.ensure_future(workspace.tasks.patch("a", set={"x": 1}))
                for _ in range(100):
                    await asyncio.sleep(0)
                    assert (await workspace.tasks.get("a")).revision == 1
                assert not waits.done()
            assert (await waits).revisions == {"a": 2}

    asyncio.run(main())


def test_changes_are_iterated_and_cancelled(path):
    async def main():
        async with await aio.open_store(path) as store:
            workspace = await store.workspace("key:w")
            changes = await workspace.subscribe()
            for n in range(3):
                await workspace.tasks.create({"id": f"t{n}"})
            got = []
            async for commit in changes:
                got.append(commit.changes[0].id)
                if len(got) == 3:
                    break
            assert got == ["t0", "t1", "t2"]
            waits = asyncio.ensure_future(changes.__anext__())
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits

    asyncio.run(main())


def test_what_is_closed_says_so(path):
    """The calls raised RuntimeError, and so did a second close."""

    async def main():
        async with await aio.open_store(path) as store:
            workspace = await store.workspace("key:w")
            await workspace.tasks.create({"id": "a"})
            changes = await workspace.subscribe("start")
            assert (await changes.__anext__()).changes[0].id == "a"
            await store.close()
            await store.close()
        await store.close()
        assert store.store.closed
        for call in (lambda: workspace.tasks.get("a"), lambda: workspace.tasks.patch("a", set={"n": 1}), store.workspaces,
                     lambda: store.workspace("key:w"), workspace.subscribe, store.flush, workspace.health,
                     lambda: workspace.documents.get("d"), lambda: workspace.tasks.all().__anext__()):
            with pytest.raises(foldlog.ClosedError):
                await call()
        assert [commit async for commit in changes] == []
        changes.close()
        changes.close()
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await changes.__anext__()

    asyncio.run(main())


def test_close_that_fails_is_told_once(path):
    async def main():
        store = await aio.open_store(path)
        failed = foldlog.IoError("no sync")

        def close():
            raise failed

        whole, store.store.close = store.store.close, close
        with pytest.raises(foldlog.IoError):
            await store.close()
        await store.close()
        with pytest.raises(foldlog.ClosedError):
            await store.workspaces()
        whole()

    asyncio.run(main())


def test_wait_that_nobody_waits_for_any_more_holds_up_no_exit(path):
    """The thread of a subscription was joined at the interpreter's exit, and waited for a commit for ever."""
    program = """
import asyncio, sys
from foldlog import aio
async def main():
    store = await aio.open_store(sys.argv[1])
    changes = await (await store.workspace("key:w")).subscribe()
    asyncio.ensure_future(changes.__anext__())
    await asyncio.sleep(0)
    return store, changes
loop = asyncio.new_event_loop()
kept = loop.run_until_complete(main())
print("leaves", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.read() == "leaves\n"
    process.stdout.close()
    try:
        # Nothing will ever come: it would wait for ever.
        assert process.wait(SOON) == 0
    finally:
        process.kill()
        process.wait()
