"""Reads META of a store and of a workspace, the control block and a session's info, by format-spec/format.md.

Each function returns the fields that the vectors' .json files hold, or raises Refused at offset 0.
"""

import zlib
from io import BytesIO

from kaitaistruct import KaitaiStream
from foldlog_small import FoldlogSmall as Ksy
from segment import Refused

LEVEL = 1
VECTOR_LOG = bytes(range(16))


def refuse_if(fault, code):
    if fault:
        raise Refused(0, code)


def whole(type_, data, fault):
    """Parses what stands between magic and end: exactly that."""
    stream = KaitaiStream(BytesIO(data[8:]))
    try:
        value = type_(stream)
    except (EOFError, UnicodeDecodeError) as error:
        raise Refused(0, fault) from error
    refuse_if(not stream.is_eof(), fault)
    return value


def crc_fails(data):
    return zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little")


def feature_fields(features):
    return {name: getattr(features, name) for name in ("compat", "ro_compat", "incompat", "min_reader", "min_writer")}


def writable(features):
    return features.min_writer <= LEVEL and features.ro_compat == 0


def store_meta(data):
    refuse_if(data[:8] != b"\x89FLS\r\n\x1a\n", "magic")
    refuse_if(len(data) < 12, "damaged")
    format_ = int.from_bytes(data[10:12], "little")
    refuse_if(format_ > 1, "too-new")
    refuse_if(format_ == 0 or len(data) != 128 or data[8:10] != b"\x80\0" or crc_fails(data), "damaged")
    meta = whole(Ksy.StoreMeta, data, "damaged")
    refuse_if(meta.features.incompat or meta.features.min_reader > LEVEL, "too-new")
    refuse_if(any(meta.reserved), "damaged")
    return feature_fields(meta.features) | {
        "store_id": meta.store_id.hex(),
        "created": meta.created,
        "writer_version": meta.writer_version.hex(),
        "writable": writable(meta.features),
    }


def workspace_meta(data):
    refuse_if(data[:8] != b"\x89FLW\r\n\x1a\n", "magic")
    refuse_if(len(data) < 14, "damaged")
    format_ = int.from_bytes(data[12:14], "little")
    refuse_if(format_ > 1, "too-new")
    wrong_length = int.from_bytes(data[8:12], "little") != len(data) or not 89 <= len(data) <= 1 << 20
    refuse_if(format_ == 0 or wrong_length or crc_fails(data), "damaged")
    head = Ksy.WorkspaceHead(KaitaiStream(BytesIO(data[8:])))
    too_new = head.codec or head.features.incompat or head.features.min_reader > LEVEL
    refuse_if(too_new, "too-new")
    refuse_if(head.reserved or head.num_bindings == 0, "damaged")
    meta = whole(Ksy.WorkspaceMeta, data, "damaged")
    names = {0: "none", 1: "path", 2: "key"}
    for binding in meta.bindings:
        refuse_if(int(binding.kind) not in names or (int(binding.kind) == 0 and binding.text), "damaged")
    return {"codec": head.codec} | feature_fields(head.features) | {
        "control": head.control,
        "log_id": head.log_id.hex(),
        "created": head.created,
        "writer_version": head.writer_version.hex(),
        "bindings": [{"kind": names[int(b.kind)], "text": b.text} for b in meta.bindings],
        "writable": writable(head.features) and head.control <= 1,
    }


def position(log_id, word):
    lpos = word.lpos_high << 16 | word.lpos_low
    check = zlib.crc32(log_id + lpos.to_bytes(8, "little")) & 0xFFFF
    return lpos if lpos and word.check == check else None


def control(data):
    refuse_if(len(data) != 4096 or data[:8] != b"\x89FLC\r\n\x1a\n", "identity")
    block = Ksy(KaitaiStream(BytesIO(data))).content
    reserved = block.reserved_1 or block.reserved_2
    refuse_if(block.layout != 1 or reserved or block.log_id != VECTOR_LOG, "identity")
    refuse_if(zlib.crc32(data[:36]) != block.crc, "identity")
    at = lambda word: position(block.log_id, word)
    return {
        "log_id": block.log_id.hex(),
        "boot": f"{block.boot:016x}",
        "tail": at(block.tail),
        "durable": at(block.durable),
        "dirty_from": at(block.dirty_from),
        "poison": at(block.poison),
        "format_generation": block.format_generation,
        "active_ordinal": block.active_ordinal,
        "snapshot": block.snapshot,
        "changes": block.changes,
        "lanes": [at(block.lane_0), at(block.lane_1)],
        "holder": block.holder,
    }


def info(data):
    bad_length = len(data) > 64 << 10 or int.from_bytes(data[8:12], "little") != len(data)
    refuse_if(data[:8] != b"\x89FLI\r\n\x1a\n" or bad_length or len(data) < 14, "unreadable")
    refuse_if(crc_fails(data) or data[12:14] != b"\1\0", "unreadable")
    session = whole(Ksy.SessionInfo, data, "unreadable")
    return {
        "pid": session.pid,
        "session": f"{session.session:016x}",
        "started": session.started,
        "version": session.version.text,
        "label": session.label.text,
        "logs": [
            {
                "log_id": log.log_id.hex(),
                "device": f"{log.control_device:016x}",
                "inode": log.control_inode[::-1].hex(),
            }
            for log in session.logs
        ],
        "owns": [log.hex() for log in session.owns],
    }


READERS = {"store-meta": store_meta, "workspace-meta": workspace_meta, "control": control, "info": info}
