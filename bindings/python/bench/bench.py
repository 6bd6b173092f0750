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

TASKS = 10
ITEM = {"task": "x" * 1000, "tokensIn": 0, "tokensOut": 0, "totalCost": 0.5, "mode": "code", "workspace": "/home/me/project"}


class Foldlog:
    name = "foldlog"

    def __init__(self, path, durable):
        self.durability = "durable" if durable else "buffered"
        self.store = foldlog.open_store(Path(path) / "foldlog")
        self.tasks = self.store.workspace("key:bench").tasks

    def fill(self):
        for n in range(TASKS):
            self.tasks.create({"id": f"t{n}", **ITEM}, durability="buffered")

    def step(self, n):
        self.tasks.patch(f"t{n % TASKS}", set={"tokensIn": n, "ts": n}, durability=self.durability)

    def get(self, n):
        return self.tasks.get(f"t{n % TASKS}")

    def close(self):
        self.store.close()


class Sqlite:
    name = "sqlite3 WAL"

    def __init__(self, path, durable):
        self.db = sqlite3.connect(Path(path) / "sqlite.db", timeout=60, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        self.db.execute("CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, item TEXT) WITHOUT ROWID")

    def fill(self):
        for n in range(TASKS):
            self.db.execute("INSERT INTO tasks VALUES (?, ?)", (f"t{n}", json.dumps({"id": f"t{n}", **ITEM})))

    def step(self, n):
        id = f"t{n % TASKS}"
        self.db.execute("BEGIN IMMEDIATE")
        (text,) = self.db.execute("SELECT item FROM tasks WHERE id = ?", (id,)).fetchone()
        item = json.loads(text)
        item.update(tokensIn=n, ts=n)
        self.db.execute("UPDATE tasks SET item = ? WHERE id = ?", (json.dumps(item), id))
        self.db.execute("COMMIT")

    def get(self, n):
        (text,) = self.db.execute("SELECT item FROM tasks WHERE id = ?", (f"t{n % TASKS}",)).fetchone()
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
