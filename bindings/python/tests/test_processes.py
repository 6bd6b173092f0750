"""Many processes on one store."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import foldlog
from conftest import BOUND, HEARD, SOON, locked


def test_distinct_updates_all_survive(tasks, actor):
    tasks.create({"id": "a"})
    actors = [actor() for _ in range(3)]
    for n, one in enumerate(actors):
        one.send(do="fields", id="a", name=f"p{n}-", times=100)
    for one in actors:
        assert one.line() == {"done": 100}
    item = tasks["a"].item
    assert len(item) == 301 and all(item[f"p{n}-{i}"] == i for n in range(3) for i in range(100))
    assert tasks["a"].revision == 301


def test_counters_lose_nothing(tasks, actor):
    tasks.create({"id": "a"})
    actors = [actor() for _ in range(3)]
    for one in actors:
        one.send(do="count", id="a", field="n", times=50)
    for one in actors:
        assert one.line() == {"done": 50}
    assert tasks["a"].item["n"] == 150


def test_of_two_one_wins_and_the_other_is_told(tasks, actor):
    tasks.create({"id": "a"})
    seen = tasks["a"].token
    one, other = actor(), actor()
    first = one.ask(do="patch", id="a", set={"mode": "one"}, expect=seen)
    second = other.ask(do="patch", id="a", set={"mode": "other"}, expect=seen)
    assert first["receipt"]["revisions"] == {"a": 2}
    assert (second["error"], second["type"]) == ("conflict", "ConflictError")
    assert second["data"]["conflicts"][0]["item"]["mode"] == "one"
    token = second["data"]["conflicts"][0]["token"]
    assert other.ask(do="patch", id="a", set={"mode": "other"}, expect=token)["receipt"]["revisions"] == {"a": 3}


def test_writer_that_is_killed_leaves_a_store_that_goes_on(tasks, actor):
    tasks.create({"id": "a"})
    for n in range(5):
        one = actor()
        assert one.ask(do="endless", id="a") == {"begun": True}
        before = tasks["a"].revision
        while tasks["a"].revision < before + 20:
            pass
        one.kill()
        seen = tasks["a"].revision
        assert tasks.patch("a", set={"mode": f"round {n}"}).revisions["a"] > seen


def test_owner_that_is_killed_is_followed(tasks, actor):
    tasks.create({"id": "a"})
    one = actor()
    fence = one.ask(do="attach", id="a")["fence"]
    with pytest.raises(foldlog.OwnedError) as told:
        tasks.attach("a")
    assert told.value.owner and told.value.id == "a"
    one.kill()
    new = tasks.attach("a")
    assert new != fence
    with pytest.raises(foldlog.FencedError):
        tasks.patch("a", set={"mode": "x"}, fence=fence)


def test_reading_never_waits_for_the_lock(path, tasks, workspace):
    tasks.create({"id": "a"})
    with locked(path, workspace):
        with foldlog.open_store(path) as store:
            assert store.workspace("key:w").tasks["a"].revision == 1
        with foldlog.open_store(path, lock_timeout=0.01) as store:
            with pytest.raises(foldlog.BusyError) as told:
                store.workspace("key:w").tasks.patch("a", set={"mode": "x"}, durability="buffered")
            assert told.value.holder
    assert tasks.patch("a", set={"mode": "y"}).revisions == {"a": 2}


def test_forked_child_opens_again(path, store, tasks):
    tasks.create({"id": "a"})
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                tasks.get("a")
                told = b"no error"
            except foldlog.ForkedError:
                with foldlog.open_store(path) as mine:
                    mine.workspace("key:w").tasks.patch("a", set={"mode": "child"})
                told = b"ok"
        except BaseException as error:
            told = repr(error).encode()
        os.write(writer, told)
        os._exit(0)
    os.close(writer)
    assert os.read(reader, 1000) == b"ok"
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
    assert tasks["a"].item["mode"] == "child"
    tasks.patch("a", set={"mode": "parent"})


def test_multiprocessing_by_fork(path, tasks):
    import multiprocessing

    tasks.create({"id": "a"})
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_add, args=(path, n)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(BOUND)
        assert process.exitcode == 0
    assert {key: tasks["a"].item[key] for key in ("f0", "f1", "f2", "f3")} == {f"f{n}": n for n in range(4)}


def _add(path, n):
    with foldlog.open_store(path) as store:
        store.workspace("key:w").tasks.patch("a", set={f"f{n}": n})


def asleep(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"


def threads(pid):
    names = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm") as comm:
            names.append(comm.read().strip())
    return names


def interrupted(path, code, thread=None):
    """Runs a program that waits, interrupts it once it says that it is about to, and returns what it says then."""
    program = textwrap.dedent(
        """
        import foldlog, signal, sys
        # Whoever was started in the background of a shell has it ignored, and so have all below it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        store = foldlog.open_store(sys.argv[1], lock_timeout=3600)
        workspace = store.workspace("key:w")
        tasks = workspace.tasks
        """
    ) + textwrap.dedent(code)
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waits\n"
    # It has said so just before: it waits once it has gone to sleep, and where a thread does the work, once that is there.
    while not (asleep(process.pid) and (thread is None or thread in threads(process.pid))):
        assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.stdout.readline()
    took = time.monotonic() - begun
    print(f"heard after {took * 1000:.0f} ms")
    assert took < HEARD
    return process, said


def test_ctrl_c_ends_a_wait_for_the_lock(path, tasks, workspace):
    tasks.create({"id": "a"})
    with locked(path, workspace):
        process, said = interrupted(path, """
            try:
                print("waits", flush=True)
                tasks.patch("a", set={"mode": "x"})
            except KeyboardInterrupt as interrupt:
                print("interrupted", interrupt.pending.result(0), flush=True)
                print(interrupt.pending.result(3600) is not None, flush=True)
            """, thread="foldlog-call")
        # It would wait for an hour, and what it waits for is held here.
        assert said == "interrupted None\n"
    assert process.stdout.read() == "True\n"
    assert process.wait(BOUND) == 0
    process.stdout.close()
    assert tasks["a"].item["mode"] == "x"


def test_ctrl_c_ends_a_wait_for_a_commit(path, tasks):
    tasks.create({"id": "a"})
    process, said = interrupted(path, """
        with workspace.subscribe() as changes:
            try:
                print("waits", flush=True)
                changes.get()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """)
    assert said == "interrupted\n"
    assert process.wait(BOUND) == 0
    process.stdout.close()


def test_exit_leaves_nothing_behind_and_nothing_out(path, tasks):
    tasks.create({"id": "a"})
    program = textwrap.dedent(
        """
        import foldlog, sys, threading
        store = foldlog.open_store(sys.argv[1])
        workspace = store.workspace("key:w")
        listens = threading.Thread(target=lambda: list(workspace.subscribe()), daemon=True)
        listens.start()
        for n in range(100):
            workspace.tasks.patch("a", set={"n": n}, durability="buffered")
        print(n, flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "99\n"
        # It has nothing left to do, and its listener would listen for ever.
        assert process.wait(SOON) == 0
    assert tasks["a"].item["n"] == 99
