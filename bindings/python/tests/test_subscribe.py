"""Whole commits, each once, in order, from any process."""

import threading

import pytest

import foldlog
from conftest import BOUND


def test_commits_of_another_process_come_whole_and_in_order(tasks, workspace, actor):
    tasks.create({"id": "a"})
    one = actor()
    with workspace.subscribe() as changes:
        one.ask(do="fields", id="a", name="f", times=50)
        commits = [changes.get(timeout=BOUND) for _ in range(50)]
    names = [list(commit.changes[0]["fields"]) if "fields" in commit.changes[0].data else None for commit in commits]
    assert len({commit.first for commit in commits}) == 50 == len(names)
    assert [commit.first for commit in commits] == sorted(commit.first for commit in commits)
    assert all(change.id == "a" for commit in commits for change in commit.changes)


def test_cursor_goes_on_where_another_process_stopped(tasks, workspace, actor):
    one = actor()
    one.ask(do="subscribe", start="start")
    for n in range(10):
        tasks.create({"id": f"t{n}"})
    seen = [one.ask(do="next") for _ in range(4)]
    one.kill()
    with workspace.subscribe(seen[-1]["cursor"]) as changes:
        rest = [changes.get(timeout=BOUND) for _ in range(6)]
        assert changes.get(timeout=0) is None
    assert [commit["ids"] for commit in seen] + [[c.id for c in commit.changes] for commit in rest] == [[f"t{n}"] for n in range(10)]


def test_durable_only(tasks, workspace):
    tasks.create({"id": "a"})
    with workspace.subscribe(durable=True) as changes:
        receipt = tasks.patch("a", set={"n": 1}, durability="buffered")
        workspace.wait_durable(receipt)
        commit = changes.get(timeout=BOUND)
        assert commit.durable and commit.first == receipt.seq


def test_close_ends_a_wait(workspace):
    changes = workspace.subscribe()
    got = []
    waits = threading.Thread(target=lambda: got.append(changes.get()))
    waits.start()
    changes.close()
    waits.join(BOUND)
    assert got == [None] and list(changes) == []


def test_what_is_no_cursor_is_refused(workspace):
    with pytest.raises(foldlog.InvalidError):
        workspace.subscribe("yesterday")
