"""A process that works on a store by lines, as ``bindings/node/test/worker.mjs`` has it, in Python."""

import json
import sys

import foldlog

store = workspace = heard = None


def opened(told):
    global store, workspace
    store = foldlog.open_store(told["store"], label="python")
    workspace = store.workspace("key:shared")
    return {}


def patch(told):
    id = told["id"]
    options = {key: told[key] for key in ("expect", "durability") if key in told}
    return {"revision": workspace.tasks.patch(id, set=told["set"], **options).revisions[id]}


def get(told):
    found = workspace.tasks.get(told["id"])
    return None if found is None else {"item": found.item, "revision": found.revision}


def endless(told):
    n = 0
    while True:
        n += 1
        workspace.tasks.patch(told["id"], set={told["field"]: n}, durability="buffered")
        print(json.dumps({"acknowledged": n}), flush=True)


def everything(told):
    tasks = sorted(workspace.tasks, key=lambda task: task.item["id"])
    document = workspace.documents.get(told["document"])
    return {"tasks": [{"item": task.item, "revision": task.revision} for task in tasks],
            "value": None if document is None else document.value}


def listen(_):
    global heard
    heard = workspace.subscribe("now")
    return {}


def hear(told):
    last = changes = 0
    for _ in range(told["count"]):
        commit = next(one for one in heard if isinstance(one, foldlog.Commit))
        last = commit.first
        changes += len(commit.changes) + len(commit.documents)
    return {"last": last, "changes": changes}


def beginning(_):
    with workspace.subscribe("start") as changes:
        next(changes)
    return {}


ACTS = {
    "all": everything,
    "listen": listen,
    "hear": hear,
    "beginning": beginning,
    "open": opened,
    "create": lambda told: {"revision": workspace.tasks.create(told["item"]).revisions[told["item"]["id"]]},
    "patch": patch,
    "get": get,
    "spell": lambda told: workspace.tasks.create({"id": told["id"], "v": foldlog.Raw(told["text"])}) and {},
    "text": lambda told: workspace.tasks.get_text(told["id"]),
    "endless": endless,
    "close": lambda told: store.close() or {},
}

sys.stdin.reconfigure(encoding="utf-8")
for line in sys.stdin:
    told = json.loads(line)
    try:
        answer = {"ok": ACTS[told["do"]](told)}
    except foldlog.FoldlogError as error:
        answer = {"error": error.code}
        if isinstance(error, foldlog.ConflictError):
            conflict = error.conflicts[0]
            answer.update(revision=conflict.revision, current=conflict.item)
    print(json.dumps(answer), flush=True)
