"""The same by asyncio."""

import asyncio

import pytest

import foldlog
from conftest import locked
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
