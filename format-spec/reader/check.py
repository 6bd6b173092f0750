"""Reads every vector of a folder and compares with what stands beside it: python3 check.py DIR

A self-test then flips bytes in every vector that reads: a reader that lets one pass has no business to say "passed".
"""

import json
import sys
from io import BytesIO
from pathlib import Path

from kaitaistruct import KaitaiStream
from foldlog_segment import FoldlogSegment
from segment import Refused, Segment
from small import READERS

LEAST = {"vectors": 60, "refused": 40}


def dense(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def read(kind, data):
    """The texts of the .json and the .jsonl file that the bytes should have; the latter None where there is none."""
    if kind != "seg":
        try:
            return dense(READERS[kind](data)), None
        except Refused as refused:
            return dense({"refused_at": refused.at, "code": refused.code}), None
    segment = None
    try:
        segment = Segment(data)
        segment.read()
    except Refused as refused:
        before = len(segment.lines) if segment else 0
        return dense({"refused_at": refused.at, "code": refused.code, "events_before": before}), None
    outcome = {"end": segment.end, "stop": segment.stop, "next_seq": segment.next_seq}
    return dense(outcome), "".join(line + "\n" for line in segment.lines)


def kaitai_alone_finds_all_frames(data):
    """The definition by itself, as the Kaitai IDE would use it, walks the same frames."""
    tree = FoldlogSegment(KaitaiStream(BytesIO(data)))
    frames = [frame for frame in getattr(tree, "frames", []) if frame.body_len]
    segment = Segment(data).read()
    return len(frames) == segment.frames


def survivors(kind, data, good):
    """Offsets at which a flipped bit goes unnoticed, of some twenty tried: there must be none."""
    if kind == "seg":
        end = json.loads(good)["end"]
    else:
        end = 40 if kind == "control" else len(data)
    for at in sorted({end * i // 20 for i in range(20)} | {end - 1}):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        if "refused_at" not in read(kind, bytes(changed))[0]:
            yield at


def faults(path):
    """What is wrong with one vector, as texts."""
    data, beside = path.read_bytes(), path.with_suffix(".json")
    want = beside.read_text(encoding="utf-8").rstrip("\n")
    kind = path.suffix[1:]
    got, lines = read(kind, data)
    if got != want:
        yield f"gives {got}, wanted {want}"
        return
    lines_file = path.with_suffix(".jsonl")
    if lines is None:
        if lines_file.exists():
            yield "has events, although it gives none"
    elif lines.encode() != lines_file.read_bytes():
        yield "its events differ"
    if "refused_at" not in got:
        if kind == "seg" and not kaitai_alone_finds_all_frames(data):
            yield "the Kaitai definition alone finds other frames"
        for at in survivors(kind, data, got):
            yield f"a bit flipped at {at} is not noticed"


def main(folder):
    passed = failed = refused = 0
    for path in sorted(Path(folder).iterdir()):
        if path.suffix in (".json", ".jsonl"):
            continue
        found = list(faults(path))
        for fault in found:
            print(f"{path.name}: {fault}")
        failed += bool(found)
        passed += not found
        refused += "refused_at" in path.with_suffix(".json").read_text(encoding="utf-8")
    if passed + failed < LEAST["vectors"] or refused < LEAST["refused"]:
        print(f"only {passed + failed} vectors, {refused} of them invalid: this cannot be the whole set")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
