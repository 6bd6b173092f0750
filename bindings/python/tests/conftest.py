"""What the tests share. A test that needs another process runs ``actor.py``; it is told what to do by lines, and answers by lines."""

import contextlib
import faulthandler
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import foldlog

#: Nothing that a test waits for takes longer, on however busy a machine.
BOUND = 120.0
#: What is to happen at once takes no longer, where what it must not wait for never comes.
SOON = 10.0
#: The same of Ctrl-C, for which 100 ms are the promise; the figure is printed.
HEARD = 2.0
ACTOR = Path(__file__).with_name("actor.py")


class Actor:
    """Another process on the same store."""

    def __init__(self, store, *words):
        self.process = subprocess.Popen([sys.executable, str(ACTOR), str(store), *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def send(self, **told):
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def line(self):
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait()}"
        return json.loads(line)

    def ask(self, **told):
        self.send(**told)
        return self.line()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(BOUND)
        self.process.stdout.close()
        return code


@pytest.fixture(autouse=True)
def bound():
    """A test that hangs says where, and ends the run."""
    faulthandler.dump_traceback_later(5 * BOUND, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(path):
    with foldlog.open_store(path, label="test") as store:
        yield store


@pytest.fixture
def workspace(store):
    return store.workspace("key:w")


@pytest.fixture
def tasks(workspace):
    return workspace.tasks


@pytest.fixture
def actor(path):
    actors = []

    def start(*words):
        actors.append(Actor(path, *words))
        return actors[-1]

    yield start
    for one in actors:
        with contextlib.suppress(Exception):
            one.kill()
            one.process.stdin.close()
            one.process.stdout.close()


@contextlib.contextmanager
def locked(path, workspace):
    """Holds the write lock, as a process that is stopped in the middle of a commit does."""
    lock = os.open(Path(path) / "workspaces" / workspace.name / "LOCK", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
