//! Any bytes as a segment: the scan ends, in the file, and says the same a second time and from any frame on.
#![no_main]

use foldlog::log::classify::Hints;
use foldlog::log::scan::{Position, Scanner, segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (header, bytes) = foldlog_fuzz::segment(data);
    let salt = header.salt();
    let mut frames = Vec::new();
    let summary = segment(&bytes, &header, &salt, |located| {
        frames.push((located.offset, located.frame.header.seq, located.frame.crc));
    });
    let start = Position::start_of(&header);
    assert!(summary.end.offset >= start.offset && summary.end.offset <= bytes.len() as u64);
    assert_eq!(summary.end.offset % 8, 0);
    assert_eq!(summary.frames, frames.len() as u64);
    assert!(frames.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    let beyond = summary.beyond;
    assert!(beyond.content_end >= summary.end.offset && beyond.content_end <= bytes.len() as u64);
    assert!(beyond.frames_end >= summary.end.offset && beyond.frames_end <= bytes.len() as u64);
    assert_eq!(beyond.frames > 0, beyond.first.is_some());
    assert!(beyond.first.is_none_or(|(at, seq)| at >= summary.end.offset && seq >= summary.end.seq));

    // A scan of a part of the file, from the second frame on, comes to the same end.
    if let [(_, _, link), (offset, seq, _), ..] = frames[..] {
        let origin = offset - offset % 16;
        let part = &bytes[usize::try_from(origin).unwrap()..];
        let from = Position { offset, seq, link };
        let mut scanner = Scanner::new(part, origin, &salt, header.max_body, from);
        let mut count = 1;
        let stop = loop {
            match scanner.next_frame() {
                Ok(_) => count += 1,
                Err(stop) => break stop,
            }
        };
        assert_eq!((count, scanner.position(), stop), (summary.frames, summary.end, summary.stop));
    }
    let hint = |vouched, durable_offset| Hints { vouched, durable_offset };
    foldlog_fuzz::check_verdicts(
        &summary,
        &[
            hint(0, None),
            hint(summary.end.seq, None),
            hint(summary.end.seq.saturating_sub(1), Some(summary.end.offset)),
            hint(0, Some(summary.end.offset + 8)),
        ],
    );
});
