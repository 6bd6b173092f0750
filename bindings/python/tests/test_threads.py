"""Many threads on one store, and who must not wait for whom."""

import threading

import foldlog
from conftest import BOUND, locked


def test_threads_share_a_store(tasks):
    tasks.create({"id": "a"})
    failed = []

    def work(n):
        try:
            for i in range(50):
                tasks.patch("a", set={f"t{n}-{i}": i}, durability="buffered" if i % 2 else "durable")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert failed == [] and tasks["a"].revision == 401 and len(tasks["a"].item) == 401


def test_thread_that_waits_holds_up_no_other(path, tasks, workspace):
    tasks.create({"id": "a"})
    done = threading.Event()

    def work():
        tasks.patch("a", set={"mode": "x"})
        done.set()

    with locked(path, workspace):
        waits = threading.Thread(target=work)
        waits.start()
        # Each of these takes the interpreter, and reads beside the commit that waits.
        for _ in range(200):
            assert tasks["a"].revision == 1
        assert not done.is_set()
    waits.join(BOUND)
    assert done.is_set() and tasks["a"].revision == 2


def test_store_is_closed_under_those_who_use_it(path):
    store = foldlog.open_store(path)
    workspace = store.workspace("key:w")
    workspace.tasks.create({"id": "a"})
    ended = []

    def listen():
        ended.append(list(workspace.subscribe()))

    def work():
        try:
            n = 0
            while True:
                n += 1
                workspace.tasks.patch("a", set={"ts": n}, durability="buffered")
        except foldlog.ClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=listen), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    while workspace.tasks["a"].revision < 20:
        pass
    store.close()
    for thread in threads:
        thread.join(BOUND)
    assert len(ended) == 2
