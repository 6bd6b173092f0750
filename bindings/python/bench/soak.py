"""Memory and open files over many commits, and over many opens: what stands at half is to stand at the end."""

import gc
import os
import resource
import sys
import tempfile

import foldlog


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def files():
    return len(os.listdir("/proc/self/fd"))


def judge(what, half, end, before, after):
    allowed = half * 0.02 + 2**20
    verdict = "ok" if end - half <= allowed and after <= before else "GROWS"
    print(f"{what}: {half / 2**20:.1f} MiB at half, {end / 2**20:.1f} MiB at the end; {before} files before, {after} after: {verdict}")
    return verdict == "ok"


def main():
    commits, opens = (int(word) for word in (sys.argv[1:] or ["100000", "1000"]))
    foldlog.open_memory().close()
    before = files()
    with tempfile.TemporaryDirectory() as path:
        with foldlog.open_store(path) as store:
            tasks = store.workspace("key:soak").tasks
            for n in range(100):
                tasks.create({"id": f"t{n}", "task": "x" * 500}, durability="buffered")
            half = None
            for n in range(commits):
                tasks.patch(f"t{n % 100}", set={"tokensIn": n, "totalCost": n / 7}, durability="buffered")
                tasks.get(f"t{n % 100}")
                if n == commits // 2:
                    half = resident()
            end = resident()
        fine = judge(f"{commits} commits", half, end, before, files())
    with tempfile.TemporaryDirectory() as path:
        for n in range(opens):
            with foldlog.open_store(path) as store:
                workspace = store.workspace("key:soak")
                if n == 0:
                    workspace.tasks.create({"id": "a"})
                with workspace.subscribe() as changes:
                    workspace.tasks.patch("a", set={"tokensIn": n + 1}, durability="buffered")
                    changes.get(timeout=60)
            if n == opens // 2:
                half = resident()
        fine &= judge(f"{opens} opens", half, resident(), before, files())
    sys.exit(not fine)


main()
