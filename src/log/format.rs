//! Every number of format version 1. `format-spec/format.md` states the same ones; a test reads both.

/// The format this release writes, and the newest it reads.
pub const FORMAT: u16 = 1;
/// The reader and writer level this release has, compared with META's `min_reader` and `min_writer`.
pub const LEVEL: u32 = 1;

/// First bytes of a segment. As in PNG: a text-mode copy, a byte-order mistake or a cut shows at once.
pub const SEGMENT_MAGIC: [u8; 8] = [0x89, b'F', b'L', b'G', 0x0D, 0x0A, 0x1A, 0x0A];
/// First bytes of a workspace's META.
pub const WORKSPACE_MAGIC: [u8; 8] = [0x89, b'F', b'L', b'W', 0x0D, 0x0A, 0x1A, 0x0A];
/// First bytes of a store's META.
pub const STORE_MAGIC: [u8; 8] = [0x89, b'F', b'L', b'S', 0x0D, 0x0A, 0x1A, 0x0A];
/// First bytes of the control block.
pub const CONTROL_MAGIC: [u8; 8] = [0x89, b'F', b'L', b'C', 0x0D, 0x0A, 0x1A, 0x0A];
/// First bytes of a session's `.info`.
pub const SESSION_MAGIC: [u8; 8] = [0x89, b'F', b'L', b'I', 0x0D, 0x0A, 0x1A, 0x0A];

/// Length of a segment's header; the first frame starts here.
pub const SEGMENT_HEADER_LEN: u16 = 256;
/// Where the header's own CRC stands.
pub const SEGMENT_CRC_AT: usize = 252;
/// Header state: complete but for what its Seal tells; holds no frame.
pub const STATE_PREPARED: u16 = 1;
/// Header state: in use or sealed.
pub const STATE_LIVE: u16 = 2;

/// Length of a frame's header.
pub const FRAME_HEADER_LEN: usize = 32;
/// Where a frame's header has the CRC of the frame before it.
pub const FRAME_LINK_AT: usize = 16;
/// Frames start at multiples of this.
pub const FRAME_ALIGN: usize = 8;
/// Largest body of a frame in format 1; what a new segment's header states.
pub const MAX_BODY: u32 = 4 << 20;
/// What no header may state more than.
pub const MAX_BODY_CAP: u32 = 64 << 20;
/// Most event numbers one frame may take.
pub const MAX_COUNT: u16 = 4096;
/// `durable_lag` of a frame that vouches for nothing.
pub const LAG_NONE: u32 = u32::MAX;

/// Bit of a frame kind: who does not know it may step over it.
pub const KIND_IGNORABLE: u16 = 0x8000;
/// Bit of a frame kind: takes no event number.
pub const KIND_CONTROL: u16 = 0x4000;
/// Frame kind: a commit.
pub const KIND_COMMIT: u16 = 0x0001;
/// Frame kind: a new epoch starts.
pub const KIND_EPOCH: u16 = 0x4001;
/// Frame kind: the log goes on in another segment.
pub const KIND_SEAL: u16 = 0x4002;
/// Frame kind: the watermark, after a quiet second or at close.
pub const KIND_MARK: u16 = 0xC003;
/// Frame kind: something was cut here.
pub const KIND_RECOVERY_MARK: u16 = 0x4004;
/// Frame kind: numbers that repair could not save.
pub const KIND_GAP: u16 = 0x4005;

/// Event kind: numbers whose events compaction dropped.
pub const EVENT_ELIDED: u16 = 0;
/// Event kind: a commit that only leaves its op id.
pub const EVENT_NOTHING: u16 = 1;
/// Preamble flag: op id, request hash and seen seq follow.
pub const PREAMBLE_OP_ID: u8 = 0x01;
/// Event flag: a reader that does not know the kind may skip the event.
pub const EVENT_IGNORABLE: u8 = 0x01;
/// Event flag: blob names follow.
pub const EVENT_BLOBS: u8 = 0x02;

/// Largest blob.
pub const BLOB_MAX: u64 = 64 << 20;

/// How many op ids the log remembers.
pub const OP_ID_WINDOW: usize = 65_536;

/// Size of the control block.
pub const CONTROL_LEN: usize = 4096;
/// Its layout number; another layout is another file name.
pub const CONTROL_LAYOUT: u32 = 1;
/// Where its identity CRC stands (over all before it).
pub const CONTROL_CRC_AT: usize = 36;
/// Word: hash of the boot id of its creator or of the last session that found no witness.
pub const WORD_BOOT: u64 = 64;
/// Word: published tail (unused where META says `control: none`).
pub const WORD_TAIL: u64 = 128;
/// Word: durable lpos.
pub const WORD_DURABLE: u64 = 192;
/// Word: where an unfinished write started (unused with `none`).
pub const WORD_DIRTY: u64 = 256;
/// Word: a failed sync's lpos, 0 = none.
pub const WORD_POISON: u64 = 320;
/// Word: format generation.
pub const WORD_FORMAT_GENERATION: u64 = 384;
/// Word: active ordinal (unused with `none`).
pub const WORD_ACTIVE: u64 = 448;
/// Word: seq of the newest snapshot.
pub const WORD_SNAPSHOT: u64 = 512;
/// Word: change counter (unused with `none`).
pub const WORD_CHANGES: u64 = 576;
/// Words: syncs begun and ended well in each lane, and under LOCK.
pub const WORD_LANES: [u64; 3] = [640, 704, 896];
/// Words: up to where the sync that is under way in each lane reaches, 0 = none.
pub const WORD_TARGETS: [u64; 2] = [960, 1024];
/// Words: holder and since when (unused with `none`).
pub const WORD_HOLDER: [u64; 2] = [768, 776];

/// Word: not 0 if somebody waits for LOCK (unused with `none`).
pub const WORD_WANTED: u64 = 832;
/// Word: not 0 if somebody sleeps until there is something new (unused with `none`).
pub const WORD_SLEEPERS: u64 = 1088;
/// Word: counts how often sleepers were woken (unused with `none`).
pub const WORD_RING: u64 = 1152;

/// META: the codec number of the binary codec; also its incompat bits (none).
pub const CODEC_BINARY: u16 = 0;
/// META: per-commit control words are not used.
pub const CONTROL_NONE: u16 = 0;
/// META: per-commit control words are used.
pub const CONTROL_WORDS: u16 = 1;
/// Shortest META of a workspace: one binding, to nothing.
pub const META_LEN_MIN: usize = 89;
/// Longest META of a workspace.
pub const META_LEN_MAX: usize = 1 << 20;
/// Length of a store's META.
pub const STORE_META_LEN: usize = 128;

/// Size at which a segment is sealed and its successor taken into use.
pub const SEGMENT_SIZE: u64 = 8 << 20;

/// First bytes of a snapshot.
pub const SNAPSHOT_MAGIC: [u8; 8] = [0x89, b'F', b'L', b'V', 0x0D, 0x0A, 0x1A, 0x0A];
/// The form of a snapshot that this release writes, and the only one it reads: any other costs a replay.
pub const SNAPSHOT_FORMAT: u16 = 2;
/// Length of a snapshot's header; its first section starts here.
pub const SNAPSHOT_HEADER_LEN: u16 = 256;
/// Where the header's own CRC stands.
pub const SNAPSHOT_CRC_AT: usize = 252;
/// How many bytes have a CRC of their own.
pub const SNAPSHOT_BLOCK: u64 = 16 << 10;
/// Up to which length all blocks of a snapshot are checked at once.
pub const SNAPSHOT_EAGER: u64 = 1 << 20;
/// How much new log makes a snapshot worth its while, unless told otherwise.
pub const SNAPSHOT_AFTER: u64 = 4 << 20;
