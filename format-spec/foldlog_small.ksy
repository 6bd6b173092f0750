meta:
  id: foldlog_small
  title: foldlog META of a store and of a workspace, control block, session info; format version 1
  license: MIT OR Apache-2.0
  ks-version: '0.10'
  endian: le
seq:
  - id: magic_start
    contents: [0x89, "FL"]
  - id: which
    type: u1
    enum: which
  - id: magic_end
    contents: [0x0d, 0x0a, 0x1a, 0x0a]
  - id: content
    type:
      switch-on: which
      cases:
        'which::store_meta': store_meta
        'which::workspace_meta': workspace_meta
        'which::control_block': control_block
        'which::session_info': session_info
enums:
  which:
    0x53: store_meta
    0x57: workspace_meta
    0x43: control_block
    0x49: session_info
  binding_kind:
    0: none
    1: path
    2: key
types:
  store_meta:
    seq:
      - id: length
        type: u2
      - id: format
        type: u2
      - id: features
        type: features
      - id: store_id
        size: 16
      - id: created
        type: u8
      - id: writer_version
        size: 16
      - id: reserved
        size: 52
      - id: crc
        type: u4
  features:
    seq:
      - id: compat
        type: u4
      - id: ro_compat
        type: u4
      - id: incompat
        type: u4
      - id: min_reader
        type: u4
      - id: min_writer
        type: u4
  workspace_meta:
    seq:
      - id: head
        type: workspace_head
      - id: bindings
        type: binding
        repeat: expr
        repeat-expr: head.num_bindings
      - id: crc
        type: u4
  workspace_head:
    seq:
      - id: length
        type: u4
      - id: format
        type: u2
      - id: codec
        type: u2
      - id: features
        type: features
      - id: control
        type: u2
      - id: reserved
        type: u2
      - id: log_id
        size: 16
      - id: created
        type: u8
      - id: writer_version
        size: 16
      - id: num_bindings
        type: u2
  binding:
    seq:
      - id: kind
        type: u1
        enum: binding_kind
      - id: len_text
        type: u2
      - id: text
        type: str
        size: len_text
        encoding: UTF-8
  control_block:
    seq:
      - id: layout
        type: u4
      - id: reserved_1
        type: u4
      - id: log_id
        size: 16
      - id: reserved_2
        type: u4
      - id: crc
        type: u4
    instances:
      boot:
        pos: 64
        type: u8
      tail:
        pos: 128
        type: position
      durable:
        pos: 192
        type: position
      dirty_from:
        pos: 256
        type: position
      poison:
        pos: 320
        type: position
      format_generation:
        pos: 384
        type: u8
      active_ordinal:
        pos: 448
        type: u8
      snapshot:
        pos: 512
        type: u8
      changes:
        pos: 576
        type: u8
      lane_0:
        pos: 640
        type: position
      lane_1:
        pos: 704
        type: position
      holder:
        pos: 768
        type: u8
        repeat: expr
        repeat-expr: 2
  position:
    seq:
      - id: check
        type: u2
      - id: lpos_low
        type: u2
      - id: lpos_high
        type: u4
  session_info:
    seq:
      - id: length
        type: u4
      - id: layout
        type: u2
      - id: pid
        type: u4
      - id: session
        type: u8
      - id: started
        type: u8
      - id: version
        type: text
      - id: label
        type: text
      - id: num_logs
        type: u2
      - id: logs
        type: listing
        repeat: expr
        repeat-expr: num_logs
      - id: num_owns
        type: u2
      - id: owns
        size: 16
        repeat: expr
        repeat-expr: num_owns
      - id: crc
        type: u4
  text:
    seq:
      - id: len_text
        type: u2
      - id: text
        type: str
        size: len_text
        encoding: UTF-8
  listing:
    seq:
      - id: log_id
        size: 16
      - id: control_device
        type: u8
      - id: control_inode
        size: 16
