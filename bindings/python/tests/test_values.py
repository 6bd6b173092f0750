"""Values come back as they went in."""

import json
import math
import pickle
import sys
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import foldlog
from conftest import BOUND

VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**53 + 1, -(2**63), 2**63, 2**64, 10**40, 0.1, -0.0, 1e-7, 1e300, 5e-324,
    1.7976931348623157e308, 0.1 + 0.2, "", "a", "\u00e9", "\u2028\u2029", "\U0001f600", "\x00\x1f\x7f", "\\\"/", "e\u0301",
    "\ud800", "x\udfffy", "a" * 100_000, [], {}, [[], [[]]], {"": ""}, {"a": {"b": [1, {"c": None}]}},
    {"b": 1, "a": 2}, [1, "1", 1.0, True], {"__proto__": {"x": 1}, "constructor": 2}, list(range(1000)),
]


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("value", VALUES, ids=lambda value: json.dumps(value)[:30])
def test_value_comes_back(tasks, value):
    tasks.create({"id": "a", "created": value})
    tasks.patch("a", set={"patched": value})
    item = tasks["a"].item
    assert same(item["created"], value) and same(item["patched"], value)
    tasks.patch("a", unset=["patched"])
    assert "patched" not in tasks["a"].item


def test_all_of_them_in_one_task_and_by_another_store(path, store, tasks):
    item = {"id": "a", **{f"f{n}": value for n, value in enumerate(VALUES)}}
    tasks.create(item)
    assert same(tasks["a"].item, item)
    store.close()
    with foldlog.open_store(path) as again:
        assert same(again.workspace("key:w").tasks["a"].item, item)


def corpus(name):
    return json.loads((Path(__file__).parents[2] / "corpus" / f"{name}.json").read_text(encoding="utf-8"))


def test_corpus_comes_back_as_it_was_spelled(tasks):
    values = corpus("values")
    assert len(values) > 30
    for n, text in enumerate(values):
        tasks.create({"id": f"t{n}", "v": foldlog.Raw(text)}, durability="buffered")
        spelled = f'{{"id":"t{n}","v":{text}}}'
        assert tasks.get_text(f"t{n}") == spelled
        # A change of another field changes nothing of it, whatever Python sees.
        tasks.patch(f"t{n}", set={"other": 1}, durability="buffered")
        tasks.patch(f"t{n}", unset=["other"], durability="buffered")
        assert tasks.get_text(f"t{n}") == spelled
        assert same(tasks[f"t{n}"].item["v"], json.loads(text))
    for text in corpus("refused"):
        with pytest.raises(foldlog.InvalidError):
            tasks.patch("t0", set={"v": foldlog.Raw(text)})
    assert tasks.get_text("t0") == f'{{"id":"t0","v":{values[0]}}}'


class Odd(Mapping):
    """A mapping that is no dict."""

    def __init__(self, of):
        self.of = of

    def __getitem__(self, key):
        return self.of[key]

    def __iter__(self):
        return iter(self.of)

    def __len__(self):
        return len(self.of)


NO_KEYS = [(1, 2), b"x", 1, 1.5, True, None, frozenset(), object()]


@pytest.mark.parametrize("key", NO_KEYS, ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("beside", [1, foldlog.Raw("1"), Odd({})], ids=["alone", "beside a raw", "beside a mapping"])
def test_key_that_json_does_not_have_is_refused(tasks, workspace, key, beside):
    """They were written as the text that Python prints for them."""
    tasks.create({"id": "a"})
    for value in ({key: 1, "b": beside}, {"b": [beside, {"c": ({key: 1},)}]}, Odd({key: beside})):
        with pytest.raises(TypeError, match="key"):
            tasks.patch("a", set={"v": value})
        with pytest.raises(TypeError, match="key"):
            tasks.create({"id": "b", "v": value})
        with pytest.raises(TypeError, match="key"):
            workspace.documents.put("d", value)
    with pytest.raises(TypeError, match="key"):
        tasks.patch("a", set={key: beside})
    assert tasks["a"].revision == 1 and "b" not in tasks and "d" not in workspace.documents


def test_value_that_json_does_not_have_is_refused(tasks):
    tasks.create({"id": "a"})
    for value in (object(), b"x", {1}, 1j, [foldlog.Raw("1"), b"x"], {"a": Odd({"b": {1}})}):
        with pytest.raises(TypeError):
            tasks.patch("a", set={"v": value})
    for value in (math.nan, [foldlog.Raw("1"), math.inf], Odd({"b": -math.inf})):
        with pytest.raises(ValueError):
            tasks.patch("a", set={"v": value})
    around = []
    around.append(around)
    for value in (around, [around, foldlog.Raw("1")], {"a": around}):
        with pytest.raises((ValueError, RecursionError)):
            tasks.patch("a", set={"v": value})
    assert tasks["a"].revision == 1


def test_mappings_that_are_no_dicts_are_taken(tasks, workspace):
    tasks.create(Odd({"id": "a", "v": Odd({"b": [Odd({"c": foldlog.Raw("1.50")})]})}), expect="absent")
    assert tasks.get_text("a") == '{"id":"a","v":{"b":[{"c":1.50}]}}'
    tasks.patch("a", set=MappingProxyType({"w": OrderedDict(x=1)}), expect=MappingProxyType({"a": 1}))
    workspace.commit([MappingProxyType({"op": "patch", "task": "a", "set": Odd({"y": 2})})], expect=Odd({"a": 2}))
    workspace.documents.put("d", Odd({"x": Odd({})}))
    assert tasks["a"].item == {"id": "a", "v": {"b": [{"c": 1.5}]}, "w": {"x": 1}, "y": 2}
    assert workspace.documents["d"].value == {"x": {}}


#: Each of them would stand for more than the value in whose place it is.
NO_VALUES = ['1,"x":2', '1},"unset":["a"],"set":{', "1]", "1 2", "", " ", "{", "}", '"', "NaN", "-Infinity", "nul", "01",
             '{"a":1,"a":2}', "\ufeff1", "1\x00", "// 1"]


@pytest.mark.parametrize("text", NO_VALUES, ids=repr)
def test_raw_is_one_value(tasks, text):
    """``Raw('1,"x":2')`` set a second field."""
    with pytest.raises(foldlog.InvalidError) as told:
        foldlog.Raw(text)
    assert "Raw" in str(told.value)


def test_raw_is_a_text():
    for value in (1, b"1", None, ["1"]):
        with pytest.raises(TypeError):
            foldlog.Raw(value)
    assert foldlog.Raw("1") == foldlog.Raw("1") != foldlog.Raw("1.0")
    assert pickle.loads(pickle.dumps(foldlog.Raw("1.50"))).text == "1.50"


@pytest.mark.skipif(not hasattr(sys, "get_int_max_str_digits"), reason="has no limit")
def test_number_that_python_does_not_read_is_raw(tasks, workspace):
    """Python refuses integers of over 4,300 digits; a task that has one could not be read, nor any list with it."""
    digits = "-" + "123456789" * 1000
    tasks.create({"id": "a", "v": foldlog.Raw(digits), "w": 10**4000})
    tasks.create({"id": "b"})
    workspace.documents.put("d", [foldlog.Raw(digits)])
    with workspace.subscribe("start") as changes:
        told = [changes.get(timeout=BOUND) for _ in range(3)]
    assert tasks["a"].item == {"id": "a", "v": foldlog.Raw(digits), "w": 10**4000}
    assert sorted(task.id for task in tasks) == ["a", "b"]
    assert workspace.documents["d"].value == [foldlog.Raw(digits)]
    assert foldlog.Raw(digits) in json_values(told[0].changes[0].data)
    with pytest.raises(foldlog.ConflictError) as conflict:
        tasks.patch("a", set={"x": 1}, expect=7)
    assert conflict.value.conflicts[0].item["v"] == foldlog.Raw(digits)
    # What was read can be written.
    tasks.patch("b", set={"v": tasks["a"].item["v"]})
    assert tasks.get_text("b") == f'{{"id":"b","v":{digits}}}'
    judged = []
    workspace._store.validate_documents("k", lambda name, value: judged.append(value))
    workspace.documents.put("e", foldlog.Raw(digits), kind="k")
    assert judged == [foldlog.Raw(digits)]


def json_values(value):
    """All values in a value."""
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from json_values(one)
