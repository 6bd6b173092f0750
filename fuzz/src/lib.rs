//! What the fuzz targets share: a segment to work on, and how bytes become hints.

use foldlog::log::classify::{Hints, Place, Verdict, classify};
use foldlog::log::format::MAX_BODY;
use foldlog::log::frame::{FrameHeader, FrameKind, Salt, encode};
use foldlog::log::scan::Summary;
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{LogId, SegmentId};

/// The header of the segment that targets work on.
pub fn header() -> SegmentHeader {
    SegmentHeader {
        state: SegmentState::Live,
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        generation: 0,
        log_id: LogId([0x10; 16]),
        segment_id: SegmentId(0x1111),
        stands_for: SegmentId(0x1111),
        ordinal_a: 1,
        ordinal_b: 1,
        first_seq: 1,
        base_lpos: 0,
        prev_segment_id: SegmentId(0),
        prev_last_seq: 0,
        prev_last_crc: 0,
        max_body: MAX_BODY,
        horizon: 0,
        created: 0,
        writer_version: [0; 16],
    }
}

/// The salt of its frames.
pub fn salt() -> Salt {
    header().salt()
}

/// A segment's header and bytes behind it.
pub fn with_header(frames: &[u8]) -> Vec<u8> {
    [&header().encode()[..], frames].concat()
}

/// The header that the bytes start with, or else the fuzzers' own in its place: mutations of a header's CRC would
/// otherwise hide everything behind it. Where the last byte is odd, frames are given links and CRCs that check, so
/// that mutations of what stands in them get past the CRC.
pub fn segment(data: &[u8]) -> (SegmentHeader, Vec<u8>) {
    let (header, mut bytes) = match SegmentHeader::decode(data) {
        Ok(found) => (found, data.to_vec()),
        Err(_) => (header(), with_header(data.get(256..).unwrap_or(data))),
    };
    if data.last().is_some_and(|last| last % 2 == 1) {
        mend(&header, &mut bytes);
    }
    (header, bytes)
}

/// Writes every frame anew as its fields say, with link and CRC as they must be, as long as lengths fit.
fn mend(header: &SegmentHeader, bytes: &mut [u8]) {
    let (mut at, mut link) = (256, header.prev_last_crc);
    while let Some(head) = bytes.get(at..at + 32) {
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let len = u32_at(0) as usize;
        let fields = FrameHeader {
            seq: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
            link,
            kind: FrameKind(u16_at(20)),
            count: u16_at(22),
            durable_lag: u32_at(24),
            writer: u32_at(28),
        };
        let Some(body) = (len > 0).then(|| bytes.get(at + 32..at + 32 + len)).flatten() else { return };
        let mut whole = Vec::new();
        link = encode(&mut whole, &header.salt(), &fields, body);
        let Some(place) = bytes.get_mut(at..at + whole.len()) else { return };
        place.copy_from_slice(&whole);
        at += whole.len();
    }
}

/// What must hold of every verdict, whatever the segment: it is total, and raising W never makes damage torn.
pub fn check_verdicts(summary: &Summary, hints: &[Hints]) {
    let places = [
        Place::Last,
        Place::Earlier { successor_fits: true },
        Place::Earlier { successor_fits: false },
        Place::SuccessorMissing,
    ];
    for place in places {
        for low in hints {
            let before = classify(summary, place, *low);
            for high in hints {
                let raised = Hints {
                    vouched: low.vouched.max(high.vouched),
                    durable_offset: low.durable_offset.max(high.durable_offset),
                };
                let after = classify(summary, place, raised);
                assert!(!(before.is_damage() && after.is_torn()), "{before} became {after}");
                assert!(!before.is_damage() || after.is_damage(), "{before} became {after}");
            }
            let w = summary.vouched.max(summary.beyond.vouched).max(low.vouched);
            let below = low.durable_offset.is_some_and(|durable| durable > summary.end.offset);
            if before.is_torn() {
                assert!(
                    place == Place::Last && summary.end.seq > w && !below,
                    "{before} would cut what is vouched for"
                );
            }
            if summary.end.seq <= w && place == Place::Last {
                assert!(before.is_damage() || before == Verdict::TooNew, "{before} although n <= W");
            }
        }
    }
}

/// The files of a small legacy folder: each starts with a byte that says which, and ends at a byte 0xff, which is in no
/// UTF-8 text.
pub fn legacy_tree(data: &[u8]) -> Vec<(String, &[u8])> {
    const FILES: [&str; 14] = [
        "tasks/a/history_item.json",
        "tasks/a/.history_item.json.new_1_2.tmp",
        "tasks/a/.history_item.json.bak_1_2.tmp",
        "tasks/a/history_item.20260815-101112.bak.json",
        "tasks/a/._index.extract.json",
        "tasks/a/ui_messages.json",
        "tasks/a/api_conversation_history.json",
        "tasks/b/history_item.json",
        "tasks/b/claude_messages.json",
        "tasks/_index.json",
        "tasks/._index.json.new_1_2.tmp",
        "tasks/_index.task.1.bak.json",
        "global-state.json",
        "state/taskHistory.json",
    ];
    let parts = data.split(|b| *b == 0xff).take(16);
    parts
        .filter_map(|part| {
            let (which, bytes) = part.split_first()?;
            Some((format!("/host/{}", FILES[usize::from(*which) % FILES.len()]), bytes))
        })
        .collect()
}
