"""Another process on a store: requests as JSON lines on stdin, answers on stdout."""

import json
import sys

import foldlog


def main():
    path = sys.argv[1]
    store = foldlog.open_store(path, label="actor", lock_timeout=60)
    tasks = store.workspace("key:w").tasks
    changes = None
    for line in sys.stdin:
        told = json.loads(line)
        verb, words = told.pop("do"), told
        try:
            if verb == "patch":
                done = {"receipt": tasks.patch(**words).to_dict()}
            elif verb == "count":
                # Read, and written back: nothing is lost of what others do meanwhile.
                for _ in range(words["times"]):
                    while True:
                        seen = tasks[words["id"]]
                        add = {words["field"]: seen.item.get(words["field"], 0) + 1}
                        try:
                            tasks.patch(words["id"], set=add, expect=seen.token, durability="buffered")
                            break
                        except foldlog.ConflictError:
                            pass
                done = {"done": words["times"]}
            elif verb == "fields":
                for n in range(words["times"]):
                    tasks.patch(words["id"], set={f"{words['name']}{n}": n}, durability="buffered")
                done = {"done": words["times"]}
            elif verb == "endless":
                print(json.dumps({"begun": True}), flush=True)
                n = 0
                while True:
                    n += 1
                    tasks.patch(words["id"], set={"ts": n}, durability="buffered")
            elif verb == "attach":
                done = {"fence": tasks.attach(words["id"])}
            elif verb == "subscribe":
                changes = store.workspace("key:w").subscribe(words["start"])
                done = {"cursor": changes.cursor}
            elif verb == "next":
                commit = changes.get(timeout=60)
                done = {"first": commit.first, "cursor": commit.cursor, "ids": [change.id for change in commit.changes]}
            else:
                raise ValueError(verb)
        except foldlog.FoldlogError as error:
            done = {"error": error.code, "type": type(error).__name__, "data": error.data}
        print(json.dumps(done), flush=True)
    store.close()


main()
