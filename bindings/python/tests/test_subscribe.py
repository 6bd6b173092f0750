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
    assert [[(change.id, change["changes"], change["revision"]) for change in commit.changes] for commit in commits] == [
        [("a", [{"field": f"f{n}", "to": n}], n + 2)] for n in range(50)]
    firsts = [commit.first for commit in commits]
    assert firsts == sorted(set(firsts))


def test_commit_of_documents_has_them(tasks, workspace):
    """A subscription's commit said nothing of the documents that it changed."""
    with workspace.subscribe() as changes:
        workspace.documents.put("d", {"x": 1}, kind="k")
        workspace.commit([{"op": "create", "item": {"id": "a"}}, {"op": "doc_patch", "name": "d", "set": {"y": 2}}])
        workspace.documents.delete("d")
        tasks.patch("a", set={"n": 1})
        put, both, deleted, none = (changes.get(timeout=BOUND) for _ in range(4))
    (one,) = put.documents
    assert put.changes == () and (one.name, one.revision, one.value, one.kind, one.deleted) == ("d", 1, {"x": 1}, "k", False)
    (one,) = both.documents
    assert [change.id for change in both.changes] == ["a"]
    assert (one.name, one.revision, one.value, one["event"]) == ("d", 2, {"x": 1, "y": 2}, one.data["event"])
    (one,) = deleted.documents
    assert (one.name, one.revision, one.value, one.kind, one.deleted) == ("d", 3, None, None, True)
    assert none.documents == ()


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
