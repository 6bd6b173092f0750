meta:
  id: foldlog_segment
  title: foldlog segment, format version 1
  file-extension: seg
  license: MIT OR Apache-2.0
  ks-version: '0.10'
  endian: le
  bit-endian: le
doc: |
  One file of a foldlog log: a header and frames. Kaitai says where the fields are; CRC, link and seq, and what the end
  means, are in format.md and recovery.md.
seq:
  - id: header
    type: segment_header
    size: 256
  - id: frames
    type: frame
    if: header.state == segment_state::live and _io.size - _io.pos >= 32
    repeat: until
    repeat-until: _.body_len == 0 or _io.size - _io.pos < 32
enums:
  segment_state:
    1: prepared
    2: live
  frame_kind:
    0x0001: commit
    0x4001: epoch
    0x4002: seal
    0xc003: mark
    0x4004: recovery_mark
    0x4005: gap
  key_kind:
    0: none
    1: task
    2: document
    3: path
    4: session
types:
  segment_header:
    seq:
      - id: magic
        contents: [0x89, "FLG", 0x0d, 0x0a, 0x1a, 0x0a]
      - id: header_len
        type: u2
      - id: format
        type: u2
      - id: state
        type: u2
        enum: segment_state
      - id: reserved
        type: u2
      - id: compat
        type: u4
      - id: ro_compat
        type: u4
      - id: incompat
        type: u4
      - id: generation
        type: u4
      - id: log_id
        size: 16
      - id: segment_id
        type: u8
      - id: stands_for
        type: u8
      - id: ordinal_a
        type: u8
      - id: ordinal_b
        type: u8
      - id: first_seq
        type: u8
      - id: base_lpos
        type: u8
      - id: prev_segment_id
        type: u8
      - id: prev_last_seq
        type: u8
      - id: prev_last_crc
        type: u4
      - id: max_body
        type: u4
      - id: horizon
        type: u8
      - id: created
        type: u8
      - id: writer_version
        size: 16
      - id: reserved_rest
        size: 100
      - id: crc
        type: u4
  frame:
    seq:
      - id: body_len
        type: u4
      - id: head
        type: frame_head
        if: body_len != 0
      - id: body
        size: body_len
        if: body_len != 0
        type:
          switch-on: head.kind
          cases:
            'frame_kind::commit': commit
            'frame_kind::epoch': epoch
            'frame_kind::seal': seal
            'frame_kind::mark': mark
            'frame_kind::recovery_mark': recovery_mark
            'frame_kind::gap': gap
      - id: pad
        size: (8 - body_len % 8) % 8
        if: body_len != 0
  frame_head:
    doc: A frame's header behind its length.
    seq:
      - id: crc
        type: u4
      - id: seq
        type: u8
      - id: link
        type: u4
      - id: kind
        type: u2
        enum: frame_kind
      - id: count
        type: u2
      - id: durable_lag
        type: u4
      - id: writer
        type: u4
  commit:
    seq:
      - id: preamble
        type: preamble
      - id: events
        type: event
        repeat: eos
  preamble:
    seq:
      - id: flags
        type: u1
        valid:
          expr: _ & 0xfe == 0
      - id: time
        type: u8
      - id: session
        type: u8
      - id: operation
        type: operation
        if: flags & 1 != 0
  operation:
    seq:
      - id: op_id
        size: 16
      - id: request_hash
        size: 16
      - id: seen_seq
        type: u8
  event:
    seq:
      - id: kind
        type: u2
      - id: version
        type: u1
      - id: flags
        type: u1
        valid:
          expr: _ & 0xfc == 0
      - id: key_kind
        type: u1
        enum: key_kind
      - id: len_key
        type: u2
      - id: key
        type: str
        size: len_key
        encoding: UTF-8
      - id: revision
        type: u8
      - id: num_blobs
        type: u2
        if: flags & 2 != 0
      - id: blobs
        size: 32
        repeat: expr
        repeat-expr: num_blobs
        if: flags & 2 != 0
      - id: len_body
        type: u4
      - id: body
        size: len_body
  epoch:
    seq:
      - id: epoch
        type: u8
  seal:
    seq:
      - id: next_segment_id
        type: u8
      - id: next_first_seq
        type: u8
      - id: next_base_lpos
        type: u8
      - id: segment_id
        type: u8
      - id: last_seq
        type: u8
      - id: last_crc
        type: u4
  mark:
    seq:
      - id: time
        type: u8
  recovery_mark:
    seq:
      - id: at_lpos
        type: u8
      - id: num_bytes
        type: u8
      - id: num_frames
        type: u4
      - id: first_seq
        type: u8
      - id: verdict
        type: u2
      - id: len_note
        type: u2
      - id: note
        type: str
        size: len_note
        encoding: UTF-8
  gap:
    seq:
      - id: from_seq
        type: u8
      - id: to_seq
        type: u8
