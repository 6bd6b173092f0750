"""Documents: state that several programs share."""

import json
import threading

import pytest

import foldlog


@pytest.fixture
def documents(workspace):
    return workspace.documents


def test_document_lives_and_dies(documents):
    receipt = documents.put("modes", {"a": 1, "b": [None]}, kind="settings")
    found = documents["modes"]
    assert (found.value, found.revision, found.kind, found.token) == ({"a": 1, "b": [None]}, 1, "settings", receipt.documents["modes"])
    documents.patch("modes", set={"c": 3}, unset=["a"], expect=found.token)
    assert documents["modes"].value == {"b": [None], "c": 3}
    with pytest.raises(foldlog.ConflictError) as told:
        documents.put("modes", 7, expect=1)
    (conflict,) = told.value.conflicts
    assert (conflict.of, conflict.id, conflict.item) == ("document", "modes", {"b": [None], "c": 3})
    documents.delete("modes")
    assert documents.get("modes") is None and "modes" not in documents
    with pytest.raises(foldlog.DocumentDeletedError):
        documents.put("modes", 1)
    documents.put("modes", 1, expect="absent")
    assert [change["event"] for change in documents.history("modes")] == ["document-put", "document-patched", "document-deleted", "document-put"]


def test_commit_has_tasks_and_documents(workspace, documents, tasks):
    with pytest.raises(foldlog.NoTaskError):
        workspace.commit([{"op": "doc_put", "name": "d", "value": 1}, {"op": "patch", "task": "none", "set": {"x": 1}}])
    assert documents.get("d") is None
    workspace.commit([{"op": "doc_put", "name": "d", "value": 1}, {"op": "create", "item": {"id": "t"}}], expect_documents={"d": "absent"})
    assert documents["d"].value == 1 and tasks["t"].revision == 1


def test_names_are_listed_in_pages(documents, workspace):
    workspace.commit([{"op": "doc_put", "name": f"n/{n:04}", "value": n} for n in range(700)])
    assert [one.name for one in documents] == [f"n/{n:04}" for n in range(700)]
    page = documents.list("n/00", limit=10)
    assert len(page) == 10 and page.next == "n/0009"


def test_workspace_comes_before_the_global_home(store, documents):
    assert documents.resolve("theme") is None
    store.global_.documents.put("theme", "dark")
    found = documents.resolve("theme")
    assert (found.value, found.source) == ("dark", "global")
    documents.put("theme", "light")
    found = documents.resolve("theme")
    assert (found.value, found.source) == ("light", "workspace")


def test_validator_judges_before_anything_is_written(store, documents):
    def judge(name, value):
        if not isinstance(value.get("size"), int):
            raise ValueError(f"{name} needs a size")

    store.validate_documents("box", judge)
    documents.put("b", {"size": 1}, kind="box")
    for durability in ("buffered", "durable"):
        with pytest.raises(foldlog.DocumentRefusedError) as told:
            documents.patch("b", set={"size": "large"}, durability=durability)
        assert "b needs a size" in told.value.reason and told.value.reason in str(told.value)
    assert documents["b"].value == {"size": 1} and documents["b"].revision == 1
    documents.put("c", {"size": "large"}, kind="other")


def test_validator_and_threads_do_not_wait_for_each_other(store, documents):
    judged = []
    store.validate_documents("counted", lambda name, value: judged.append(value))

    def work(n):
        for i in range(30):
            documents.put(f"d{n}", i, kind="counted", durability="buffered" if i % 2 else "durable")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert len(judged) >= 120 and all(documents[f"d{n}"].value == 29 for n in range(4))


def test_bridge_keeps_a_state_file_in_step(documents, tmp_path):
    path = tmp_path / "state.json"
    bridge = documents.bridge("state", path, kind="state")
    path.write_text("{\"a\": 1, \"b\": 2}")
    done = bridge.sync()
    assert (done.imported, documents["state"].value) == (True, {"a": 1, "b": 2})
    documents.patch("state", set={"a": 5})
    assert bridge.sync().exported and json.loads(path.read_text()) == {"a": 5, "b": 2}
    path.write_text("{\"a\": 5, \"b\": 3}")
    bridge.put({**documents["state"].value, "c": 1})
    assert json.loads(path.read_text())["c"] == 1
    path.write_text("{\"a\": ")
    done = bridge.sync()
    assert done.findings and json.loads(path.read_text()) == documents["state"].value
    path.write_text("{")
    with pytest.raises(foldlog.BadStateFileError):
        documents.bridge("other", path).sync()
    assert path.read_text() == "{" and documents.get("other") is None


@pytest.mark.parametrize("error", [foldlog.IoError("no write"), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_bridge_that_fails_behind_its_put_has_the_receipt(documents, tmp_path, error):
    """The document stands: whoever is told of the file alone puts it again."""
    bridge = documents.bridge("state", tmp_path / "state.json")
    whole, calls = bridge.sync, []

    def sync():
        calls.append(1)
        if len(calls) == 2:
            raise error
        return whole()

    bridge.sync = sync
    with pytest.raises(type(error)) as told:
        bridge.put({"a": 1})
    assert told.value.receipt.documents == {"state": documents["state"].token}
