"""Every call once, and what it refuses."""

import json
import os
import pickle
import re
import sys
from pathlib import Path

import pytest

import foldlog
from foldlog import _errors, _native


def test_task_lives_and_dies(tasks):
    receipt = tasks.create({"id": "t", "task": "title", "tokensIn": 1})
    assert (receipt.revisions, receipt.durable, receipt.again) == ({"t": 1}, True, False)
    receipt = tasks.patch("t", set={"tokensIn": 2, "mode": None}, unset=["task"], expect=receipt.tokens["t"])
    task = tasks["t"]
    assert task.item == {"id": "t", "tokensIn": 2, "mode": None}
    assert (task.revision, task.token, task.fence) == (2, receipt.tokens["t"], None)
    tasks.rename("t", "new")
    assert tasks["t"].item["task"] == "new"
    tasks.set_status("t", "interrupted")
    tasks.resume("t")
    assert tasks["t"].item.get("status", "active") == "active"
    tasks.remove("t")
    assert tasks.get("t") is None and "t" not in tasks
    with pytest.raises(KeyError):
        tasks["t"]
    with pytest.raises(foldlog.TaskDeletedError) as told:
        tasks.patch("t", set={"mode": "x"})
    assert told.value.data["id"] == "t"
    assert tasks.create({"id": "t"}, again=True).revisions["t"] > 1


def test_parent_and_child(tasks):
    tasks.create({"id": "p", "tokensIn": 10})
    tasks.delegate("p", {"id": "c", "tokensIn": 5})
    assert tasks["p"].item["status"] == "delegated"
    assert tasks["p"].item["awaitingChildId"] == "c"
    assert [(task.id, task.depth) for task in tasks.tree("p")] == [("p", 0), ("c", 1)]
    assert tasks.totals("p")["tokensIn"] == 15
    tasks.complete("c", "all done")
    assert tasks["p"].item["completionResultSummary"] == "all done"
    assert [task.id for task in tasks.list(parent="p")] == ["c"]
    with pytest.raises(foldlog.StatusRefusedError) as told:
        tasks.set_status("c", "active")
    assert (told.value.id, told.value.to) == ("c", "active")
    tasks.remove("p", cascade=True)
    assert tasks.list().total == 0


def test_pages_have_every_task_once(tasks, workspace):
    workspace.commit([{"op": "create", "item": {"id": f"t{n}", "ts": n}} for n in range(1200)])
    assert sorted(task.id for task in tasks) == sorted(f"t{n}" for n in range(1200))
    page = tasks.list(limit=7)
    assert (len(page), page.total) == (7, 1200)
    assert page.next is not None
    assert tasks.list(limit=7, after=page.next).tasks[0].id not in {task.id for task in page}


def test_commit_is_all_or_nothing(tasks, workspace):
    tasks.create({"id": "a"})
    with pytest.raises(foldlog.NoTaskError):
        workspace.commit([{"op": "patch", "task": "a", "set": {"mode": "x"}}, {"op": "patch", "task": "b", "set": {"mode": "x"}}])
    assert tasks["a"].revision == 1
    receipt = workspace.commit([{"op": "patch", "task": "a", "set": {"mode": "x"}}, {"op": "create", "item": {"id": "b"}}],
                               expect={"a": 1, "b": "absent"})
    assert receipt.revisions == {"a": 2, "b": 1}


def test_conflict_has_what_is_there(tasks):
    tasks.create({"id": "a", "mode": "x"})
    with pytest.raises(foldlog.ConflictError) as told:
        tasks.patch("a", set={"mode": "y"}, expect=7)
    (conflict,) = told.value.conflicts
    assert (conflict.of, conflict.id, conflict.revision, conflict.item) == ("task", "a", 1, {"id": "a", "mode": "x"})
    tasks.patch("a", set={"mode": "y"}, expect=conflict.token)
    with pytest.raises(foldlog.ConflictError):
        tasks.create({"id": "b"}, expect="exists")
    assert "read the current state" in str(told.value)


def test_op_id_is_done_once(tasks):
    tasks.create({"id": "a"})
    first = tasks.patch("a", set={"mode": "x"}, op_id="0123456789abcdef0123456789abcdef")
    again = tasks.patch("a", set={"mode": "x"}, op_id="0123456789abcdef0123456789abcdef")
    assert (first.again, again.again, again.seq) == (False, True, first.seq)
    assert tasks["a"].revision == 2


def test_fences(tasks):
    tasks.create({"id": "a"})
    fence = tasks.attach("a")
    assert tasks["a"].fence == fence
    tasks.patch("a", set={"mode": "x"}, fence=fence)
    tasks.abandon("a")
    with pytest.raises(foldlog.FencedError) as told:
        tasks.patch("a", set={"mode": "y"}, fence=fence)
    assert told.value.fence == fence
    new = tasks.attach("a")
    tasks.detach("a", new)
    assert tasks["a"].fence is None


def test_buffered_is_durable_once_waited_for(tasks, workspace):
    receipt = tasks.create({"id": "a"}, durability="buffered")
    workspace.wait_durable(receipt)
    receipts = [tasks.patch("a", set={"tokensIn": n}, durability="buffered") for n in range(50)]
    assert not any(receipt.durable for receipt in receipts)
    workspace.wait_durable(receipts[-1])
    workspace.flush()
    assert tasks.patch("a", set={"tokensIn": 0}).durable


def test_log_is_written_anew_and_says_the_same(tmp_path):
    with foldlog.open_store(tmp_path / "store", segment_size=8 << 10) as store:
        workspace = store.workspace("key:w")
        assert workspace.compact()["segments"] == 0
        workspace.tasks.create({"id": "a", "tokensIn": 0})
        for n in range(600):
            workspace.tasks.patch("a", set={"tokensIn": n}, durability="buffered")
        before = workspace.tasks["a"]
        report = workspace.compact()
        assert report["segments"] > 3 and report["bytes_after"] * 4 < report["bytes_before"] and report["dropped"] > 300
        assert workspace.tasks["a"] == before and before.item["tokensIn"] == 599
    with foldlog.open_store(tmp_path / "store") as store:
        workspace = store.workspace("key:w")
        assert workspace.tasks["a"].item["tokensIn"] == 599
        with pytest.raises(foldlog.TrimmedError):
            workspace.subscribe("start")


def test_history_and_rules(tasks, workspace):
    tasks.create({"id": "a"})
    tasks.patch("a", set={"mode": "x"})
    assert len(tasks.history("a")) == 2
    assert workspace.rules == "default"
    workspace.set_rules("zoo-3.78")
    assert workspace.rules == "zoo-3.78"
    assert workspace.check() == [] and workspace.orphans() == [] and workspace.mend_orphans() == []


def test_what_makes_no_sense_is_refused(tasks, workspace):
    with pytest.raises(foldlog.InvalidError):
        tasks.create({"task": "without an id"})
    with pytest.raises(foldlog.InvalidError):
        workspace.commit([{"op": "get", "task": "a"}])
    with pytest.raises(foldlog.InvalidError):
        workspace.commit([{"op": "patch", "task": "a", "sett": {}}])
    with pytest.raises(foldlog.InvalidError):
        tasks.create({"id": "a"}, durability="soon")
    with pytest.raises(TypeError):
        tasks.patch("a", set={"mode": object()})
    with pytest.raises(ValueError):
        tasks.patch("a", set={"totalCost": float("nan")})
    with pytest.raises(TypeError):
        tasks.patch("a", sets={})
    assert tasks.list().total == 0


def test_stores(path):
    with pytest.raises(foldlog.NotFoundError):
        foldlog.open_store(path, create=False)
    with foldlog.open_store(path, label="one") as store:
        store.workspace(path.parent).tasks.create({"id": "a"})
        assert [session["label"] for session in store.sessions()] == ["one"]
        (entry,) = store.workspaces()
        with foldlog.open_store(path, read_only=True) as reader:
            seen = reader.workspace(entry["name"], create=False)
            assert seen.tasks["a"].revision == 1
            assert seen.health().status == "read-only"
            with pytest.raises(foldlog.ReadOnlyError):
                seen.tasks.patch("a", set={"mode": "x"})
        with pytest.raises(foldlog.NotFoundError):
            store.workspace("key:other", create=False)
        tasks = store.workspace(entry["name"]).tasks
    assert store.closed
    store.close()
    with pytest.raises(foldlog.ClosedError):
        tasks.get("a")
    with foldlog.open_store(path) as store:
        assert store.workspace(entry["name"]).tasks["a"].revision == 1


@pytest.mark.parametrize("names", ["mode", b"mode", {"mode": 1}, None, 1, ["mode", 1]], ids=repr)
def test_one_name_is_not_taken_for_many(tasks, workspace, names):
    """``unset="mode"`` took away ``m``, ``o``, ``d`` and ``e``."""
    tasks.create({"id": "a", "m": 1, "mode": 2})
    workspace.documents.put("d", {"m": 1, "mode": 2})
    for wrong in (lambda: tasks.patch("a", unset=names), lambda: tasks.patch("a", set={"x": 1}, unset=names),
                  lambda: tasks.patch("a", drop_children=names), lambda: workspace.documents.patch("d", unset=names)):
        with pytest.raises(TypeError):
            wrong()
    if not isinstance(names, str):
        with pytest.raises(TypeError):
            tasks.remove(names)
    for wrong in ("ops", {"op": "patch"}):
        with pytest.raises(TypeError):
            workspace.commit(wrong)
    assert tasks["a"].revision == 1 and workspace.documents["d"].revision == 1
    tasks.patch("a", unset=("m",))
    tasks.patch("a", unset={"mode"})
    assert tasks["a"].item == {"id": "a"}


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="names there are Unicode")
def test_paths_of_any_bytes(tmp_path):
    odd = os.fsencode(tmp_path) + b"/st\xffre"
    for path in (odd, os.fsdecode(odd), Path(os.fsdecode(odd))):
        with foldlog.open_store(path) as store:
            store.workspace("key:w")
            assert os.path.isdir(odd)
            # A workspace is known by the text of its folder, and a bridge tells its file's: these have none.
            for place in (odd, os.fsdecode(odd)):
                with pytest.raises(foldlog.InvalidError) as told:
                    store.workspace(place)
                assert told.value.remedy
                with pytest.raises(foldlog.InvalidError):
                    store.workspace("key:w").documents.bridge("d", place)
            store.workspace(os.fsencode(tmp_path)).tasks.create({"id": "a"}, expect="absent")
            store.workspace(str(tmp_path)).tasks.remove("a")
            store.workspace(tmp_path).tasks.create({"id": "b"}, expect="absent")
            store.workspace(tmp_path).tasks.remove("b")
            break
    for path in (odd, os.fsdecode(odd), Path(os.fsdecode(odd))):
        with foldlog.open_store(path, create=False) as store:
            assert len(store.workspaces()) == 2
    with pytest.raises(foldlog.FoldlogError):
        foldlog.open_store("nu\x00l")
    with pytest.raises(TypeError):
        foldlog.open_store(7)


def test_memory_is_gone_with_its_store():
    with foldlog.open_memory() as store:
        tasks = store.workspace("key:w").tasks
        tasks.create({"id": "a"})
        assert tasks["a"].revision == 1
    with foldlog.open_memory() as store:
        assert store.workspaces() == []


def test_every_code_has_its_exception():
    for code in _native.codes():
        of = _errors._OF[code]
        assert issubclass(of, foldlog.FoldlogError) and of is not foldlog.FoldlogError, code
        assert getattr(foldlog, of.__name__) is of
        assert of.code == code
        made = of("text", code=code, remedy="do this", data={"id": "a"})
        again = pickle.loads(pickle.dumps(made))
        assert (type(again), str(again), again.id) == (of, "text; do this", "a")


def test_every_error_says_what_it_is_said_to_say():
    """What an error has beside its message: the class names exactly what the library sends with the code. ``reason`` was told of
    where ``why`` was sent."""
    told = json.loads((Path(__file__).parents[2] / "corpus" / "errors.json").read_text(encoding="utf-8"))
    assert set(told) == set(_native.codes())
    for code, members in told.items():
        of = _errors._OF[code]
        named = [name for base in of.__mro__ if issubclass(base, foldlog.FoldlogError) and base is not foldlog.FoldlogError
                 for name in vars(base).get("__annotations__", {}) if name != "code"]
        properties = [name for name in vars(of) if isinstance(vars(of)[name], property)]
        # ``from`` cannot be an attribute's name in a program.
        assert sorted([*named, *properties]) == sorted({"from": "from_"}.get(name, name) for name in members), code
        made = of("text", code=code, data=dict.fromkeys(members, "known"))
        for name in named:
            assert getattr(made, name) == "known", (code, name)
        documented = re.findall(r"``(\w+)``", of.__doc__)
        assert set(documented) & {"reason", "why", "holder", "owner", "current", "verb", "max", "to", "from", "conflicts",
                                  "first_available"} <= set(members), code


def test_error_that_is_new_is_of_the_parent():
    """What a newer extension module says."""
    made = _errors.raised_by('{"error":"brand-new","message":"m","remedy":"r","file":null,"data":{"x":1}}')
    assert (type(made), made.code, made.x) == (foldlog.FoldlogError, "brand-new", 1)
    with pytest.raises(AttributeError):
        made.y


def test_findings_are_logged(path, caplog):
    with foldlog.open_store(path) as store:
        workspace = store.workspace("key:w")
        workspace.tasks.create({"id": "a"})
        workspace.tasks.create({"id": "b"})
    (segment,) = (path / "workspaces" / workspace.name / "log").glob("*.seg")
    with open(segment, "ab") as log:
        log.write(b"torn")
    with caplog.at_level("INFO", logger="foldlog"):
        with foldlog.open_store(path) as store:
            assert store.workspace("key:w").tasks["b"].revision == 1
            store.workspace("key:w").tasks.create({"id": "c"})
    assert [record for record in caplog.records if record.name == "foldlog"], "a torn tail is healed, and told of"
