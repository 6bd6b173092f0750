//! `foldlog dump --raw`: frames with every field of their headers, segments, and what lies behind the end.

use std::path::Path;

use foldlog::log::control_frame::Control;
use foldlog::log::envelope::Envelope;
use foldlog::log::format::LAG_NONE;
use foldlog::log::frame::{FrameKind, NotAFrame};
use foldlog::log::reader::{Visit, Walked};
use foldlog::log::scan::{Content, Stop};
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::store::inspect;
use foldlog::vfs::os::Os;
use foldlog_requests::Failure;
use foldlog_requests::event_json::rfc3339;
use serde::Serialize;

use crate::dump::event_text;

/// How many bytes behind the end are shown.
const BEHIND_MAX: usize = 64;

fn kind_name(kind: FrameKind) -> String {
    match kind {
        FrameKind::COMMIT => "commit".into(),
        FrameKind::EPOCH => "epoch".into(),
        FrameKind::SEAL => "seal".into(),
        FrameKind::MARK => "mark".into(),
        FrameKind::RECOVERY_MARK => "recovery-mark".into(),
        FrameKind::GAP => "gap".into(),
        FrameKind(number) => format!("{number:#06x}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

// --- JSON Lines -------------------------------------------------------------------------------------------------------

#[derive(Serialize)]
struct FrameLine<'a> {
    frame: FrameFields<'a>,
}

#[derive(Serialize)]
struct FrameFields<'a> {
    file: String,
    offset: u64,
    len: usize,
    kind: String,
    seq: u64,
    count: u16,
    link: String,
    crc: String,
    durable_lag: Option<u32>,
    writer: String,
    salvaged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<CommitFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<ControlFields<'a>>,
}

#[derive(Serialize)]
struct CommitFields<'a> {
    time: String,
    session: String,
    op_id: Option<String>,
    request_hash: Option<String>,
    seen: Option<u64>,
    events: Vec<EventFields<'a>>,
}

#[derive(Serialize)]
struct EventFields<'a> {
    seq: u64,
    takes: u16,
    kind: u16,
    version: u8,
    ignorable: bool,
    key_kind: u8,
    key: &'a str,
    revision: u64,
    blobs: Vec<String>,
    body: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ControlFields<'a> {
    Epoch {
        epoch: String,
    },
    Seal {
        next_segment: String,
        next_first_seq: u64,
        next_base_lpos: u64,
        segment: String,
        last_seq: u64,
        last_crc: String,
    },
    Mark {
        time: String,
    },
    RecoveryMark {
        at_lpos: u64,
        bytes: u64,
        frames: u32,
        first_seq: u64,
        verdict: u16,
        note: &'a str,
    },
    Gap {
        from: u64,
        to: u64,
    },
}

fn event_fields<'a>(event: &Envelope<'a>) -> EventFields<'a> {
    EventFields {
        seq: event.seq.0,
        takes: event.takes,
        kind: event.kind,
        version: event.version,
        ignorable: event.ignorable,
        key_kind: event.key_kind.0,
        key: event.key,
        revision: event.revision.0,
        blobs: event.blobs.chunks(32).map(hex).collect(),
        body: hex(event.body),
    }
}

fn control_fields(control: &Control) -> ControlFields<'_> {
    match control {
        Control::Epoch { epoch } => ControlFields::Epoch { epoch: format!("{epoch:016x}") },
        Control::Seal(seal) => ControlFields::Seal {
            next_segment: seal.next_segment_id.to_string(),
            next_first_seq: seal.next_first_seq,
            next_base_lpos: seal.next_base_lpos,
            segment: seal.segment_id.to_string(),
            last_seq: seal.last_seq,
            last_crc: format!("{:08x}", seal.last_crc),
        },
        Control::Mark { time } => ControlFields::Mark { time: rfc3339(*time) },
        Control::RecoveryMark(mark) => ControlFields::RecoveryMark {
            at_lpos: mark.at_lpos,
            bytes: mark.bytes,
            frames: mark.frames,
            first_seq: mark.first_seq,
            verdict: mark.verdict,
            note: &mark.note,
        },
        Control::Gap { from, to } => ControlFields::Gap { from: *from, to: *to },
    }
}

/// `{"frame":{…}}`.
pub(crate) fn frame_json(visit: &Visit<'_, '_>) -> String {
    let (header, frame) = (&visit.located.frame.header, &visit.located.frame);
    let (mut commit, mut control) = (None, None);
    match &visit.located.content {
        Content::Commit(found) => {
            let operation = found.preamble.operation;
            commit = Some(CommitFields {
                time: rfc3339(found.preamble.time),
                session: format!("{:016x}", found.preamble.session),
                op_id: operation.map(|operation| operation.op_id.to_string()),
                request_hash: operation.map(|operation| hex(&operation.request_hash)),
                seen: operation.map(|operation| operation.seen.0),
                events: found.events().map(|event| event_fields(&event)).collect(),
            });
        }
        Content::Control(found) => control = Some(control_fields(found)),
        Content::Ignored => {}
    }
    let line = FrameLine {
        frame: FrameFields {
            file: visit.path.display().to_string(),
            offset: visit.located.offset,
            len: frame.len(),
            kind: kind_name(header.kind),
            seq: header.seq,
            count: header.count,
            link: format!("{:08x}", header.link),
            crc: format!("{:08x}", frame.crc),
            durable_lag: (header.durable_lag != LAG_NONE).then_some(header.durable_lag),
            writer: format!("{:08x}", header.writer),
            salvaged: visit.salvaged,
            commit,
            control,
        },
    };
    serde_json::to_string(&line).unwrap_or_default()
}

#[derive(Serialize)]
struct SegmentLine {
    segment: SegmentFields,
}

#[derive(Serialize)]
struct SegmentFields {
    file: String,
    state: &'static str,
    id: String,
    stands_for: String,
    ordinal_a: u64,
    ordinal_b: u64,
    generation: u32,
    log: String,
    first_seq: u64,
    base_lpos: u64,
    prev_segment: String,
    prev_last_seq: u64,
    prev_last_crc: String,
    max_body: u32,
    horizon: u64,
    compat: u32,
    ro_compat: u32,
    created: String,
    writer_version: String,
    len: u64,
    frames: u64,
    vouched: u64,
    end: u64,
    next_seq: u64,
    stop: String,
    verdict: &'static str,
    behind: Behind,
}

#[derive(Serialize)]
struct Behind {
    content_end: u64,
    frames: u32,
    first_frame: Option<u64>,
    bytes: String,
}

fn state(header: &SegmentHeader) -> &'static str {
    match header.state {
        SegmentState::Prepared => "prepared",
        SegmentState::Live => "live",
    }
}

fn writer_version(header: &SegmentHeader) -> String {
    let text = String::from_utf8_lossy(&header.writer_version).into_owned();
    text.trim_end_matches('\0').escape_debug().to_string()
}

/// `{"segment":{…}}`: its header, how its frames end, and what lies behind.
///
/// # Errors
/// If the bytes behind the end cannot be read.
pub(crate) fn end_json(walked: &Walked) -> Result<String, Failure> {
    let (header, summary) = (&walked.header, &walked.summary);
    let line = SegmentLine {
        segment: SegmentFields {
            file: walked.path.display().to_string(),
            state: state(header),
            id: header.segment_id.to_string(),
            stands_for: header.stands_for.to_string(),
            ordinal_a: header.ordinal_a,
            ordinal_b: header.ordinal_b,
            generation: header.generation,
            log: header.log_id.to_string(),
            first_seq: header.first_seq,
            base_lpos: header.base_lpos,
            prev_segment: header.prev_segment_id.to_string(),
            prev_last_seq: header.prev_last_seq,
            prev_last_crc: format!("{:08x}", header.prev_last_crc),
            max_body: header.max_body,
            horizon: header.horizon,
            compat: header.compat,
            ro_compat: header.ro_compat,
            created: rfc3339(header.created),
            writer_version: writer_version(header),
            len: summary.len,
            frames: summary.frames,
            vouched: summary.vouched,
            end: summary.end.offset,
            next_seq: summary.end.seq,
            stop: stop(&summary.stop),
            verdict: walked.verdict.as_str(),
            behind: Behind {
                content_end: summary.beyond.content_end,
                frames: summary.beyond.frames,
                first_frame: summary.beyond.first.map(|(offset, _)| offset),
                bytes: hex(&inspect::bytes_behind(&Os, walked, BEHIND_MAX)?),
            },
        },
    };
    Ok(serde_json::to_string(&line).unwrap_or_default())
}

// --- for people -------------------------------------------------------------------------------------------------------

/// A segment's header, before its frames.
pub(crate) fn segment_text(header: &SegmentHeader, path: &Path) -> String {
    format!(
        "segment {}\n  {}, ordinals {} to {}, generation {}, id {}, stands for {}, log {}\n  first event {}, base lpos {}, \
         before it segment {} to event {} crc {:08x}\n  bodies up to {} bytes, horizon {}, made {} by {}",
        path.display(),
        state(header),
        header.ordinal_a,
        header.ordinal_b,
        header.generation,
        header.segment_id,
        header.stands_for,
        header.log_id,
        header.first_seq,
        header.base_lpos,
        header.prev_segment_id,
        header.prev_last_seq,
        header.prev_last_crc,
        header.max_body,
        header.horizon,
        rfc3339(header.created),
        writer_version(header),
    )
}

/// A frame: a line for its header, and one for each event or for what a control frame says.
pub(crate) fn frame_text(visit: &Visit<'_, '_>) -> String {
    let (header, frame) = (&visit.located.frame.header, &visit.located.frame);
    let lag = match header.durable_lag {
        LAG_NONE => "vouches for nothing".to_owned(),
        _ => format!("vouches up to {}", header.vouches_for().unwrap_or(0)),
    };
    let mut text = format!(
        "  @{:<8} {:<13} {} bytes, seq {} + {}, crc {:08x}, link {:08x}, {lag}, writer {:08x}{}",
        visit.located.offset,
        kind_name(header.kind),
        frame.len(),
        header.seq,
        header.count,
        frame.crc,
        header.link,
        header.writer,
        if visit.salvaged { ", behind the end" } else { "" },
    );
    match &visit.located.content {
        Content::Commit(commit) => {
            if let Some(operation) = commit.preamble.operation {
                text += &format!("\n    operation {}, had seen event {}", operation.op_id, operation.seen);
            }
            for event in commit.events() {
                text += &format!("\n    {}", event_text(&commit.preamble, &event).trim_start());
            }
        }
        Content::Control(Control::Epoch { epoch }) => text += &format!("\n    epoch {epoch:016x}"),
        Content::Control(Control::Seal(seal)) => {
            text += &format!(
                "\n    goes on in segment {} at event {}, lpos {}",
                seal.next_segment_id, seal.next_first_seq, seal.next_base_lpos
            );
        }
        Content::Control(Control::Mark { time }) => text += &format!("\n    at {}", rfc3339(*time)),
        Content::Control(Control::RecoveryMark(mark)) => {
            text += &format!(
                "\n    {} bytes and {} whole frame(s) from event {} on were set aside: {}",
                mark.bytes,
                mark.frames,
                mark.first_seq,
                mark.note.escape_debug()
            );
        }
        Content::Control(Control::Gap { from, to }) => {
            text += &format!("\n    events {from} to {to} are lost")
        }
        Content::Ignored => {}
    }
    text
}

/// How a segment's frames end, and what lies behind.
///
/// # Errors
/// If the bytes behind the end cannot be read.
pub(crate) fn end_text(walked: &Walked) -> Result<String, Failure> {
    let summary = &walked.summary;
    let mut text = format!(
        "end of {}\n  @{:<8} {}: {}; next event {}, {} frame(s), file of {} bytes",
        walked.path.display(),
        summary.end.offset,
        walked.verdict,
        stop(&summary.stop),
        summary.end.seq,
        summary.frames,
        summary.len
    );
    let bytes = inspect::bytes_behind(&Os, walked, BEHIND_MAX)?;
    if summary.beyond.content_end > summary.end.offset || !bytes.is_empty() {
        text += &format!(
            "\n  behind it {} whole frame(s), the last byte that is not zero before @{}",
            summary.beyond.frames, summary.beyond.content_end
        );
        for (row, bytes) in bytes.chunks(16).enumerate() {
            text += &format!("\n  @{:<8} {}", summary.end.offset + 16 * row as u64, hex(bytes));
        }
    }
    Ok(text)
}

fn stop(stop: &Stop) -> String {
    match stop {
        Stop::NotAFrame(NotAFrame::End) => "the file ends".into(),
        Stop::NotAFrame(NotAFrame::Zero) => "zeros".into(),
        Stop::NotAFrame(NotAFrame::Short) => "the file ends inside a frame".into(),
        Stop::NotAFrame(NotAFrame::Length(len)) => format!("body length {len}"),
        Stop::NotAFrame(NotAFrame::Crc { computed, stored }) => {
            format!("crc {stored:08x}, computed {computed:08x}")
        }
        Stop::NotAFrame(NotAFrame::Rule(rule)) | Stop::Body(rule) => (*rule).into(),
        Stop::Link { expected, found } => format!("link {found:08x}, expected {expected:08x}"),
        Stop::Seq { expected, found } => format!("seq {found}, expected {expected}"),
        Stop::TooNew { what, number } => format!("unknown {what} {number:#06x}"),
        Stop::Sealed { seal, .. } => format!("sealed, goes on in {}", seal.next_segment_id),
    }
}
