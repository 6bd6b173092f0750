"""foldlog beside the standard library's sqlite3: the same job, by turns, in one run. See README.md."""

import argparse
import json
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import foldlog

TASKS = 5_000
START = 1_760_000_000_000
IDS = [f"0199{n:04}-7000-8000-0123456789ab" for n in range(TASKS)]


def item(n):
    """About 1.4 KB, of which the prompt is the most; every fifth has the four behind it as its children."""
    parent = {} if n % 5 == 0 else {"rootTaskId": IDS[n - n % 5], "parentTaskId": IDS[n - n % 5]}
    return {
        "id": IDS[n],
        **parent,
        "number": n + 1,
        "ts": START + n,
        "task": "refactor the parser so that every error carries its source span " * 17,
        "tokensIn": 0,
        "tokensOut": 0,
        "cacheWrites": 12345,
        "cacheReads": 678901,
        "totalCost": 0.5,
        "size": 345678,
        "workspace": "/home/dev/projects/some-company/monorepo/services/billing",
        "mode": "code",
        "apiConfigName": "default",
        "status": "active",
        "childIds": [] if parent else IDS[n + 1 : n + 5],
    }


def change(n):
    """The task that is changed, drawn by a seed, and its new fields."""
    return IDS[n * 2654435761 % 2**32 % TASKS], {
        "ts": START + 1_000_000_000 + n,
        "tokensIn": 100 + n * 37 % 900,
        "tokensOut": n,
        "totalCost": n % 1000 / 1000,
        "size": 300_000 + n,
    }


class Foldlog:
    name = "foldlog"

    def __init__(self, path, durable):
        self.durability = "durable" if durable else "buffered"
        self.store = foldlog.open_store(Path(path) / "foldlog")
        self.tasks = self.store.workspace("key:bench").tasks

    def fill(self):
        for n in range(TASKS):
            self.tasks.create(item(n), durability="buffered")

    def step(self, n):
        id, fields = change(n)
        self.tasks.patch(id, set=fields, durability=self.durability)

    def get(self, n):
        return self.tasks.get(change(n)[0])

    def close(self):
        self.store.close()


class Sqlite:
    name = "sqlite3 WAL"

    def __init__(self, path, durable):
        self.db = sqlite3.connect(Path(path) / "sqlite.db", timeout=60, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        for statement in (
            "CREATE TABLE IF NOT EXISTS task (id TEXT NOT NULL, ts INTEGER NOT NULL, parent TEXT, item TEXT NOT NULL)",
            "CREATE UNIQUE INDEX IF NOT EXISTS task_id ON task (id)",
            "CREATE INDEX IF NOT EXISTS task_ts ON task (ts)",
            "CREATE INDEX IF NOT EXISTS task_parent ON task (parent) WHERE parent IS NOT NULL",
        ):
            self.db.execute(statement)

    def fill(self):
        self.db.execute("BEGIN IMMEDIATE")
        for n in range(TASKS):
            one = item(n)
            row = (one["id"], one["ts"], one.get("parentTaskId"), json.dumps(one))
            self.db.execute("INSERT INTO task VALUES (?, ?, ?, ?)", row)
        self.db.execute("COMMIT")

    def step(self, n):
        id, fields = change(n)
        changed = self.db.execute(
            "UPDATE task SET ts = :ts, item = json_set(item, '$.ts', :ts, '$.tokensIn', :tokensIn, '$.tokensOut', :tokensOut,"
            " '$.totalCost', :totalCost, '$.size', :size) WHERE id = :id",
            {"id": id, **fields},
        )
        assert changed.rowcount == 1

    def get(self, n):
        (text,) = self.db.execute("SELECT item FROM task WHERE id = ?", (change(n)[0],)).fetchone()
        return json.loads(text)

    def close(self):
        self.db.close()


def rate(call, seconds, first=1):
    done, took, began = 0, [], time.perf_counter()
    while (before := time.perf_counter()) - began < seconds:
        call(first + done)
        took.append(time.perf_counter() - before)
        done += 1
    return done / (time.perf_counter() - began), statistics.median(took)


def worker(of, path, seconds, first, ready, go, out):
    job = of(path, True)
    ready.release()
    go.wait()
    out.put(rate(job.step, seconds, first)[0])
    job.close()


def one(of, durable, seconds, what="step"):
    with tempfile.TemporaryDirectory() as path:
        job = of(path, durable)
        job.fill()
        for n in range(1, 50):
            job.step(n)
        found = rate(getattr(job, what), seconds, 50)
        job.close()
        return found


def many(of, processes, seconds):
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as path:
        job = of(path, True)
        job.fill()
        job.close()
        ready, go, out = context.Semaphore(0), context.Event(), context.Queue()
        all = [context.Process(target=worker, args=(of, path, seconds, 1 + n * 10_000_000, ready, go, out)) for n in range(processes)]
        for process in all:
            process.start()
        for _ in all:
            ready.acquire()
        go.set()
        rates = [out.get() for _ in all]
        for process in all:
            process.join()
        return sum(rates), min(rates) / statistics.mean(rates)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    wishes = parser.parse_args()
    rows = [
        ("buffered, 1 process (3)", lambda of: one(of, False, wishes.seconds)),
        ("durable, 1 process (1.3)", lambda of: one(of, True, wishes.seconds)),
        ("durable, 4 processes (3)", lambda of: many(of, 4, wishes.seconds)),
        ("get", lambda of: one(of, False, wishes.seconds, "get")),
    ]
    print("| | foldlog /s | sqlite3 /s | foldlog ÷ sqlite3 | p50 µs, or slowest ÷ mean |")
    print("| --- | --- | --- | --- | --- |")
    for name, run in rows:
        ours, theirs, seconds = [], [], []
        for turn in range(wishes.rounds):
            for of in (Foldlog, Sqlite) if turn % 2 == 0 else (Sqlite, Foldlog):
                found = run(of)
                (ours if of is Foldlog else theirs).append(found)
        ratio = statistics.median(a[0] / b[0] for a, b in zip(ours, theirs))
        last = [statistics.median(one[1] for one in all) for all in (ours, theirs)]
        last = "; ".join(f"{value:.2f}" if "processes" in name else f"{value * 1e6:.1f}" for value in last)
        print(f"| {name} | {statistics.median(a[0] for a in ours):,.0f} | {statistics.median(b[0] for b in theirs):,.0f} | {ratio:.2f} | {last} |")


if __name__ == "__main__":
    main()
