"""Values come back as they went in."""

import json
import math
from pathlib import Path

import pytest

import foldlog

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
