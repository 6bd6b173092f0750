"""Backup and restore."""

import asyncio
import os
import signal
import threading

import pytest

import foldlog
from foldlog import aio


def filled(path):
    store = foldlog.open_store(path / "store", label="the notebook", segment_size=4096)
    tasks = store.workspace("key:k").tasks
    for n in range(20):
        tasks.create({"id": f"t{n}", "note": "x" * 500}, durability="buffered")
    return store, tasks


def test_backup_is_a_store_and_a_restored_one_goes_its_own_way(tmp_path):
    store, tasks = filled(tmp_path)
    fence = tasks.attach("t7")
    seen = []
    made = store.backup(tmp_path / "backup", on_progress=seen.append)
    (copy,) = made.workspaces
    assert made.whole and made.dead_sessions == 0 and copy.note_error is None
    assert copy.noted is not None and copy.noted > copy.seq and copy.segments > 2
    assert list(dict.fromkeys(at.phase for at in seen)) == ["reading", "copying", "verifying"]
    assert all(at.done <= at.total for at in seen)
    tasks.patch("t1", set={"note": "later"})
    again = foldlog.restore(tmp_path / "backup", os.fsencode(tmp_path / "restored"))
    assert again.store_id != made.store_id and again.dead_sessions == 1
    assert again.workspaces[0].state_hash == copy.state_hash and again.workspaces[0].linked.files == 0
    with foldlog.open_store(tmp_path / "restored") as other:
        restored = other.workspace("key:k").tasks
        assert restored["t1"].item["note"] == "x" * 500
        # Who held it in the old store is dead in this one.
        assert restored.attach("t7") != fence
        # A cursor of after the backup is none of the restored store's.
        with store.workspace("key:k").subscribe(copy.cursor) as changes:
            late = next(iter(changes)).cursor
        with pytest.raises(foldlog.RewoundError) as rewound:
            with other.workspace("key:k").subscribe(late) as changes:
                next(iter(changes))
        assert rewound.value.to == copy.seq
    store.close()


def test_nothing_is_made_over_what_is_there(tmp_path):
    store, _tasks = filled(tmp_path)
    backup = tmp_path / "backup"
    store.backup(backup, workspaces=["key:k"], link=False, quarantine=False)
    with pytest.raises(foldlog.OccupiedError, match="in use by the notebook") as occupied:
        foldlog.restore(backup, tmp_path / "store")
    assert isinstance(occupied.value, foldlog.StorageError) and "in use by" in occupied.value.what
    with pytest.raises(foldlog.OccupiedError):
        store.backup(backup)
    with pytest.raises(foldlog.NotFoundError):
        store.backup(tmp_path / "x", workspaces=["key:none"])
    with pytest.raises(foldlog.NotFoundError):
        foldlog.restore(tmp_path / "absent", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    store.close()
    with pytest.raises(foldlog.ClosedError):
        store.backup(tmp_path / "x")


def test_whoever_is_told_may_end_it(tmp_path):
    store, _tasks = filled(tmp_path)

    def enough(at):
        raise RuntimeError(at.phase)

    with pytest.raises(RuntimeError, match="reading"):
        store.backup(tmp_path / "b", on_progress=enough)
    # It had been ended by then, or was done.
    assert not (tmp_path / "b").exists() or sorted(os.listdir(tmp_path / "b")) == ["BIND", "META", "sessions", "workspaces"]
    store.close()


def test_interrupt_ends_it(tmp_path):
    store, _tasks = filled(tmp_path)
    main = threading.main_thread().ident

    def press(at):
        signal.pthread_kill(main, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        store.backup(tmp_path / "b", on_progress=press)
    assert not (tmp_path / "b").exists() or sorted(os.listdir(tmp_path / "b")) == ["BIND", "META", "sessions", "workspaces"]
    store.close()


def test_awaited(tmp_path):
    async def main():
        async with await aio.open_store(tmp_path / "store") as store:
            tasks = (await store.workspace("key:k")).tasks
            await tasks.create({"id": "t"})
            made = await store.backup(tmp_path / "backup")
            again = await aio.restore(tmp_path / "backup", tmp_path / "restored")
            assert made.workspaces[0].state_hash == again.workspaces[0].state_hash

    asyncio.run(main())
