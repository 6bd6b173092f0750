"""What a program is told when the disk fails or is slow: a commit that stands is never said not to."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import foldlog
from conftest import BOUND, HEARD

COMPILER = shutil.which(os.environ.get("CC", "cc"))
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the disk is put before the system's by LD_PRELOAD")

#: What every program begins with.
HEAD = """
import foldlog, json, os, signal, sys, threading
# Whoever was started in the background of a shell has it ignored, and so have all below it.
signal.signal(signal.SIGINT, signal.default_int_handler)
store = foldlog.open_store(sys.argv[1])
workspace = store.workspace("key:w")
tasks = workspace.tasks
disk = os.environ["FOLDLOG_TEST_DISK"]
def tell(*words):
    print(json.dumps(words), flush=True)
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    assert COMPILER, "there is a C compiler wherever the package is built"
    library = tmp_path_factory.mktemp("disk") / "disk.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, Path(__file__).with_name("disk.c"), "-ldl"], check=True)
    return library


class Disk:
    """A folder that says what becomes of a sync, and the program that it happens to."""

    def __init__(self, shim, folder, store):
        self.folder, self.store = folder, store
        self.env = {**os.environ, "LD_PRELOAD": str(shim), "FOLDLOG_TEST_DISK": str(folder)}
        self.process = None

    def start(self, code):
        program = HEAD + textwrap.dedent(code)
        self.process = subprocess.Popen([sys.executable, "-c", program, str(self.store)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=self.env)

    def told(self):
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait(BOUND)}"
        return json.loads(line)

    def end(self):
        assert self.process.wait(BOUND) == 0

    def hang(self):
        """Waits until a sync is under way; it hangs until what is returned is given to :meth:`free`."""
        until = time.monotonic() + BOUND
        while True:
            try:
                return os.open(self.folder / "hang", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                # It is not there yet, or nobody has opened it to read from it.
                assert error.errno in (errno.ENOENT, errno.ENXIO) and time.monotonic() < until and self.process.poll() is None

    def free(self, held):
        """Ends that sync, and lets all others be."""
        beside = os.open(self.folder / "hang", os.O_RDWR)
        (self.folder / "hang").unlink()
        os.close(held)
        os.close(beside)


@pytest.fixture
def disk(shim, tmp_path, path):
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = Disk(shim, folder, path)
    yield disk
    if disk.process is not None:
        disk.process.kill()
        disk.process.wait()
        disk.process.stdin.close()
        disk.process.stdout.close()


def revision(path):
    with foldlog.open_store(path) as store:
        return store.workspace("key:w").tasks["a"].revision


@pytest.mark.parametrize("verb", ["tasks.patch('a', set={'n': 1})", "tasks.patch('a', set={'n': 1}, op_id=32 * 'a')",
                                  "tasks.rename('a', 'n')",
                                  "workspace.commit([{'op': 'patch', 'task': 'a', 'set': {'n': 1}}])"])
def test_commit_that_stands_says_so_when_a_folder_cannot_be_synced(disk, path, verb):
    """The folders of a log are synced before its first sync counts. Where that failed the caller was told of an input/output
    error, as of a commit that does not stand, and one that makes it again makes it twice."""
    disk.start(f"""
        # Made and listed, and not synced yet.
        tasks.create({{"id": "a"}}, durability="buffered")
        open(disk + "/fail", "w").close()
        try:
            {verb}
        except foldlog.FoldlogError as error:
            again = isinstance(error, foldlog.TemporaryError)
            tell(type(error).__name__, error.seq == error.receipt.last_seq, again, error.receipt.revisions, error.receipt.durable)
            os.unlink(disk + "/fail")
            workspace.wait_durable(error.receipt)
            tell(tasks["a"].revision)
        """)
    assert disk.told() == ["NotDurableError", True, False, {"a": 2}, False]
    assert disk.told() == [2]
    disk.end()
    assert revision(path) == 2


def test_commit_that_stands_says_so_when_its_sync_fails(disk, path):
    disk.start("""
        for n in range(20):
            tasks.patch("a", set={"n": n}) if n else tasks.create({"id": "a"})
        open(disk + "/fail", "w").close()
        try:
            tasks.patch("a", set={"n": "lost"})
        except foldlog.FoldlogError as error:
            tell(type(error).__name__, error.receipt.revisions, tasks["a"].item["n"])
        """)
    assert disk.told() == ["DurabilityLostError", {"a": 21}, "lost"]
    disk.end()


@pytest.mark.parametrize("before", [0, 1], ids=["first commit", "later one"])
@pytest.mark.parametrize("wait", ["commit", "ticket", "flush", "close"])
def test_ctrl_c_is_heard_while_a_sync_hangs(disk, path, before, wait):
    waits = {"commit": 'tasks.patch("a", set={"n": "x"})', "ticket": "workspace.wait_durable(receipt)",
             "flush": "workspace.flush()", "close": "store.close()"}[wait]
    disk.start(f"""
        receipt = tasks.create({{"id": "a"}}, durability="buffered")
        for n in range({before}):
            tasks.patch("a", set={{"n": n}})
        if {wait!r} != "commit":
            receipt = tasks.patch("a", set={{"n": "x"}}, durability="buffered")
        os.mkfifo(disk + "/hang")
        tell("waits")
        try:
            {waits}
            tell("not heard")
        except KeyboardInterrupt as interrupt:
            receipt = getattr(interrupt, "receipt", None)
            tell("heard", receipt and receipt.revisions, interrupt.pending.result(0))
            tell(interrupt.pending.result(3600) is not None)
        """)
    assert disk.told() == ["waits"]
    held = disk.hang()
    begun = time.monotonic()
    disk.process.send_signal(signal.SIGINT)
    # What waits for the sync itself hears nothing before it ends.
    slow = threading.Timer(10 * HEARD, disk.free, [held])
    slow.start()
    said = disk.told()
    took = time.monotonic() - begun
    slow.cancel()
    slow.join()
    assert said == ["heard", {"a": 2 + before} if wait == "commit" else None, None], f"after {took:.3f} s"
    assert took < HEARD
    print(f"heard after {took * 1000:.0f} ms")
    disk.free(held)
    assert disk.told() == [True]
    disk.end()
    assert revision(path) == 2 + before


def test_syncs_that_come_thick_and_fast_take_no_thread_each(disk):
    """What it costs to hear Ctrl-C during a sync, a thread, is spared there; the first of them have one."""
    disk.start("""
        tasks.create({"id": "a"})
        open(disk + "/who", "w").close()
        for n in range(500):
            tasks.patch("a", set={"n": n})
        whose = [int(line) == threading.get_native_id() for line in open(disk + "/who")]
        tell(True in whose, False in whose, len(whose) >= 500)
        """)
    assert disk.told() == [True, True, True]
    disk.end()


def test_interrupt_that_comes_with_the_end_of_a_sync_has_the_receipt(disk, path):
    """Ctrl-C is pressed, the sync ends by itself: the interpreter raises the interrupt where the call would return."""
    disk.start("""
        tasks.create({"id": "a"})
        for n in range(50):
            tasks.patch("a", set={"n": n})
        os.mkfifo(disk + "/hang")
        tell("waits")
        try:
            tasks.patch("a", set={"n": "x"})
            tell("not heard")
        except KeyboardInterrupt as interrupt:
            tell("heard", interrupt.receipt.revisions)
        """)
    assert disk.told() == ["waits"]
    held = disk.hang()
    disk.process.send_signal(signal.SIGINT)
    disk.free(held)
    assert disk.told() == ["heard", {"a": 52}]
    disk.end()
    assert revision(path) == 52


LISTENS = """
import logging
class Handler(logging.Handler):
    def emit(self, record):
        if not told:
            told.append(record.getMessage())
            raise error
told, error = [], None
def listen(what):
    global error
    error = what
    logging.getLogger("foldlog").addHandler(Handler())
"""


#: A sync has failed, which the next commit mends, and tells.
MENDS = LISTENS + """
tasks.create({"id": "a"})
open(disk + "/fail", "w").close()
try:
    tasks.patch("a", set={"n": 1})
except foldlog.DurabilityLostError:
    os.unlink(disk + "/fail")
"""


def test_interrupt_in_the_log_leaves_the_answer(disk):
    """What was found is logged when the call is over; whoever was interrupted there had neither answer nor receipt."""
    disk.start(MENDS + """
listen(KeyboardInterrupt())
try:
    tasks.patch("b", set={"n": 2})
except KeyboardInterrupt as interrupt:
    try:
        interrupt.pending.result(0)
    except foldlog.NoTaskError as error:
        tell(len(told), error.id, hasattr(interrupt, "receipt"))
""")
    assert disk.told() == [1, "b", False]
    disk.end()


@pytest.mark.parametrize("durability", ["durable", "buffered"])
def test_interrupt_in_the_log_leaves_the_receipt(disk, durability):
    disk.start(MENDS + f"""
listen(KeyboardInterrupt())
try:
    tasks.patch("a", set={{"n": 2}}, durability={durability!r})
except KeyboardInterrupt as interrupt:
    tell(len(told), interrupt.receipt.revisions, interrupt.receipt.durable, tasks["a"].item["n"])
""")
    assert disk.told() == [1, {"a": 3}, durability == "durable", 2]
    disk.end()


def test_error_in_the_log_costs_no_answer(disk):
    disk.start(MENDS + """
unraised = []
sys.unraisablehook = lambda args: unraised.append(args.exc_value)
listen(ValueError("the handler's own"))
tell(tasks.patch("a", set={"n": 2}).revisions, len(told), unraised == [error])
""")
    assert disk.told() == [{"a": 3}, 1, True]
    disk.end()


def test_store_that_nobody_closes_holds_up_nobody(disk, path):
    """A store that is collected is closed then, by a sync: without the interpreter, which others need."""
    disk.start("""
        import gc
        tasks.create({"id": "a"}, durability="buffered")
        def lives():
            sys.stdin.readline()
            tell("lives")
        threading.Thread(target=lives).start()
        os.mkfifo(disk + "/hang")
        del tasks, workspace, store
        gc.collect()
        tell("collected")
        """)
    held = disk.hang()
    slow = threading.Timer(10 * HEARD, disk.free, [held])
    slow.start()
    disk.process.stdin.write("go\n")
    disk.process.stdin.flush()
    assert disk.told() == ["lives"]
    slow.cancel()
    slow.join()
    disk.free(held)
    assert disk.told() == ["collected"]
    disk.end()
