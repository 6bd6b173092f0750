"""What is kept of the history, and what goes from every file."""

import pytest

import foldlog

SECRET = "correct horse battery staple"


def holding(root):
    part = SECRET[3:20].encode()
    return [path for path in root.rglob("*") if path.is_file() and part in path.read_bytes()]


def stepped(root):
    store = foldlog.open_store(root, segment_size=8 << 10)
    workspace = store.workspace("key:w")
    workspace.tasks.create({"id": "leaky", "task": SECRET, "tokensIn": 0})
    workspace.tasks.create({"id": "kept", "tokensIn": 0})
    for n in range(300):
        workspace.tasks.patch("kept", set={"tokensIn": n}, durability="buffered")
    workspace.tasks.patch("leaky", set={"notes": SECRET * 4000})
    return store, workspace


def test_no_file_holds_what_was_purged(tmp_path):
    root = tmp_path / "store"
    store, workspace = stepped(root)
    tasks = workspace.tasks
    store.backup(tmp_path / "backup", link=False)
    assert tasks.plan_purge("leaky")["tasks"] == ["leaky"]
    assert tasks["leaky"].item["task"] == SECRET, "a plan changes nothing"
    assert len(holding(root)) >= 2
    receipt = tasks.purge(["leaky"])
    assert (receipt["pending"], len(receipt["blobs"]), len(receipt["backups"])) == ([], 1, 1)
    assert receipt["segments"] >= 1 and receipt["events"] >= 2
    assert holding(root) == []
    assert tasks.get("leaky") is None
    with pytest.raises(foldlog.TaskDeletedError):
        tasks.patch("leaky", set={"mode": "x"})
    assert tasks["kept"].item["tokensIn"] == 299
    with pytest.raises(foldlog.FoldlogError, match="nobody"):
        tasks.purge("nobody")
    store.close()


def test_as_much_of_the_history_is_kept_as_is_said(tmp_path):
    store, workspace = stepped(tmp_path / "store")
    tasks = workspace.tasks
    assert workspace.retention() == {"workspace": None, "tasks": {}, "pinned": []}
    workspace.set_retention({"age_ms": 3_600_000, "count": 10})
    tasks.set_retention("leaky", "all")
    tasks.pin("kept")
    said = {"workspace": {"age_ms": 3_600_000, "count": 10}, "tasks": {"leaky": "all"}, "pinned": ["kept"]}
    assert workspace.retention() == said
    before = len(tasks.history("kept"))
    workspace.compact()
    assert len(tasks.history("kept")) == before
    workspace.commit([{"op": "pin", "task": "kept", "pinned": False}, {"op": "set_retention", "keep": None},
                      {"op": "set_retention", "task": "leaky", "keep": None}])
    assert workspace.retention() == {"workspace": None, "tasks": {}, "pinned": []}
    workspace.compact()
    assert len(tasks.history("kept")) * 2 < before
    for bad in ({}, {"age": 5}, {"count": -1}, "none", 5):
        with pytest.raises(foldlog.FoldlogError) as refused:
            workspace.set_retention(bad)
        assert refused.value.code == "invalid"
    store.close()
