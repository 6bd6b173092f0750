"""Reads one foldlog segment by format-spec/format.md. Shares no code with foldlog.

The places of the fields come from foldlog_segment.ksy; CRC, link, seq and every rule are checked here.

    python3 segment.py FILE    prints its events as JSON Lines; exit code 1 and a word on stderr if it must be refused
"""

import json
import sys
import zlib
from io import BytesIO

from kaitaistruct import KaitaiStream, ValidationFailedError
from foldlog_segment import FoldlogSegment as Ksy

HEADER_LEN = 256
FRAME_HEADER_LEN = 32
MAX_COUNT = 4096
MAX_BODY_CAP = 64 << 20
CONTROL, IGNORABLE = 0x4000, 0x8000
COMMIT = 0x0001
CONTROLS = {0x4001: Ksy.Epoch, 0x4002: Ksy.Seal, 0xC003: Ksy.Mark, 0x4004: Ksy.RecoveryMark, 0x4005: Ksy.Gap}
SEAL, GAP, EPOCH = 0x4002, 0x4005, 0x4001


class Refused(Exception):
    """The file must be refused: at which offset, and the code."""

    def __init__(self, at, code):
        super().__init__(f"refused at {at}: {code}")
        self.at, self.code = at, code


class Segment:
    """What a segment file says: its event lines, where its frames end, why, and the number that comes next."""

    def __init__(self, data):
        self.data = data
        self.lines = []
        self.frames = 0
        self.header = header(data)
        self.end, self.next_seq = HEADER_LEN, self.header.first_seq
        self.link = self.header.prev_last_crc
        self.salt = zlib.crc32(self.header.log_id + self.header.segment_id.to_bytes(8, "little"))
        self.stop = "prepared" if self.header.state == Ksy.SegmentState.prepared else None

    def read(self):
        """Takes all frames. Where it is refused, what stands before stays in `lines`."""
        while self.stop is None:
            self.frame()
        if self.stop != "end" and any(self.data[self.end :]):
            raise Refused(self.end, "after-seal" if self.stop == "sealed" else "not-zero")
        return self

    def frame(self):
        """Takes one frame, or says why there is none."""
        at, rest = self.end, self.data[self.end :]
        if not rest:
            self.stop = "end"
        elif len(rest) < FRAME_HEADER_LEN and any(rest):
            raise Refused(at, "short")
        elif len(rest) < FRAME_HEADER_LEN or not any(rest[:4]):
            self.stop = "zero"
        if self.stop:
            return
        body_len = int.from_bytes(rest[:4], "little")
        if body_len > self.header.max_body:
            raise Refused(at, "length")
        whole = FRAME_HEADER_LEN + (body_len + 7) // 8 * 8
        if whole > len(rest):
            raise Refused(at, "short")
        head = Ksy.FrameHead(KaitaiStream(BytesIO(rest[4:FRAME_HEADER_LEN])))
        body, pad = rest[FRAME_HEADER_LEN : FRAME_HEADER_LEN + body_len], rest[FRAME_HEADER_LEN + body_len : whole]
        crc = zlib.crc32(body + pad, zlib.crc32(rest[8:FRAME_HEADER_LEN], zlib.crc32(rest[:4], self.salt)))
        if (crc or 0xFFFFFFFF) != head.crc:
            raise Refused(at, "crc")
        kind = int(head.kind)
        right_count = head.count == 0 if kind & CONTROL else 1 <= head.count <= MAX_COUNT
        if any(pad) or not right_count or head.seq + head.count >= 1 << 64:
            raise Refused(at, "frame-rule")
        if head.link != self.link:
            raise Refused(at, "link")
        if head.seq != self.next_seq:
            raise Refused(at, "seq")
        next_seq = head.seq + head.count
        if kind == COMMIT:
            self.commit(at, head, body)
        elif kind in CONTROLS:
            next_seq = self.control(at, kind, head, body)
        elif not kind & IGNORABLE:
            raise Refused(at, "unknown-kind")
        self.frames += 1
        self.end, self.next_seq, self.link = at + whole, next_seq, head.crc

    def control(self, at, kind, head, body):
        """Checks a control frame's body; returns the number that comes next."""
        control = parse(CONTROLS[kind], body, at)
        if kind == EPOCH and control.epoch == 0:
            raise Refused(at, "body")
        if kind == SEAL:
            self.stop = "sealed"
        if kind != GAP:
            return head.seq
        if control.from_seq != head.seq or not control.from_seq <= control.to_seq < (1 << 64) - 1:
            raise Refused(at, "body")
        return control.to_seq + 1

    def commit(self, at, head, body):
        """Checks a commit whole, then adds its events' lines."""
        stream = KaitaiStream(BytesIO(body))
        preamble = guarded(at, Ksy.Preamble, stream)
        seq, lines = head.seq, []
        while not stream.is_eof():
            event = guarded(at, Ksy.Event, stream)
            key_kind = int(event.key_kind)
            if (key_kind == 0) != (event.key == "") or (key_kind == 0 and event.revision):
                raise Refused(at, "body")
            if event.flags & 2 and not event.num_blobs:
                raise Refused(at, "body")
            takes = numbers(at, event)
            if seq + takes > head.seq + head.count:
                raise Refused(at, "body")
            lines.append(event_line(self.header.log_id.hex(), head, preamble, seq, takes, event))
            seq += takes
        if seq != head.seq + head.count:
            raise Refused(at, "body")
        self.lines += lines


def header(data):
    """The header, checked in the order of format.md, section 16."""

    def refuse_if(fault, code):
        if fault:
            raise Refused(0, code)

    refuse_if(len(data) < HEADER_LEN, "header-short")
    data = data[:HEADER_LEN]
    refuse_if(data[:8] != b"\x89FLG\r\n\x1a\n", "header-magic")
    head = Ksy.SegmentHeader(KaitaiStream(BytesIO(data)))
    refuse_if(head.format != 1, "header-format")
    refuse_if(zlib.crc32(data[:252]) != head.crc, "header-crc")
    refuse_if(head.state not in (1, 2), "header-rule")
    refuse_if(head.incompat, "header-incompat")
    refuse_if(head.header_len != HEADER_LEN or head.reserved or any(head.reserved_rest), "header-rule")
    refuse_if(not 1 <= head.max_body <= MAX_BODY_CAP, "header-rule")
    refuse_if(not 1 <= head.ordinal_a <= head.ordinal_b, "header-rule")
    refuse_if(head.state == 2 and head.first_seq == 0, "header-rule")
    return head


def guarded(at, type_, stream):
    """Parses one structure; a fault refuses the frame."""
    try:
        return type_(stream)
    except ValidationFailedError as error:
        raise Refused(at, "unknown-flags") from error
    except (EOFError, UnicodeDecodeError) as error:
        raise Refused(at, "body") from error


def parse(type_, body, at):
    """Parses a whole body: nothing may be left over."""
    stream = KaitaiStream(BytesIO(body))
    value = guarded(at, type_, stream)
    if not stream.is_eof():
        raise Refused(at, "body")
    return value


def numbers(at, event):
    """How many event numbers an event takes."""
    if event.kind == 0:
        n = int.from_bytes(event.body, "little")
        if event.version != 1 or len(event.body) != 2 or not 1 <= n <= MAX_COUNT:
            raise Refused(at, "body")
        return n
    if event.kind == 1 and event.version == 1 and event.body:
        raise Refused(at, "body")
    return 1


def rfc3339(micros):
    """Microseconds since 1970 as RFC 3339 with six decimals; plain counting, any year."""
    seconds, micros = divmod(micros, 1_000_000)
    days, second = divmod(seconds, 86_400)
    year = 1970 + 400 * (days // 146_097)
    days %= 146_097
    leap = lambda y: y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
    while days >= 365 + leap(year):
        days -= 365 + leap(year)
        year += 1
    for month, length in enumerate([31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], 1):
        if days < length:
            break
        days -= length
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{year:04}-{month:02}-{days + 1:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"


def event_line(workspace, head, preamble, seq, takes, event):
    """The JSON line of an event: format.md, section 17."""
    key_kind = int(event.key_kind)
    fields = {
        "seq": seq,
        "commit": {"first": head.seq, "count": head.count},
        "time": rfc3339(preamble.time),
        "workspace": workspace,
        "task": event.key if key_kind == 1 else None,
    }
    if key_kind not in (0, 1):
        fields["key"] = {"kind": key_kind, "name": event.key}
    fields["kind"] = {0: "elided", 1: "nothing"}.get(event.kind, event.kind)
    fields["version"] = event.version
    fields["revision"] = event.revision
    fields["op_id"] = preamble.operation.op_id.hex() if preamble.flags & 1 else None
    fields["session"] = f"{preamble.session:016x}" if preamble.session else None
    if event.kind == 0:
        fields["body"] = {"n": takes}
    elif event.kind == 1 and not event.body:
        fields["body"] = {}
    else:
        fields["body"] = {"hex": event.body.hex()}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def main(path):
    with open(path, "rb") as file:
        data = file.read()
    segment = None
    try:
        segment = Segment(data)
        segment.read()
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    finally:
        if segment:
            sys.stdout.buffer.writelines(f"{line}\n".encode() for line in segment.lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
