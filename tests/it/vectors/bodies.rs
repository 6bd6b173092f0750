//! Segments with a frame that checks and stands in its place, but whose body breaks the format.

use foldlog::log::control_frame::Control;
use foldlog::log::envelope::Envelope;
use foldlog::log::frame::FrameKind;

use super::Vector;
use super::build::{Seg, commit_body, elided, event, plain, with_operation};
use super::valid::seal;

pub(super) fn vectors() -> Vec<Vector> {
    let mut all = commits();
    all.extend(events());
    all.extend(controls());
    all
}

/// A segment of three good commits and a frame with this body.
fn fourth(name: &str, kind: FrameKind, count: u16, body: &[u8], code: &'static str) -> Vector {
    Seg::three().frame(kind, count, body).refused(name, 496, code)
}

fn commits() -> Vec<Vector> {
    let one = commit_body(plain(), &[event(256, "t", 4, b"x")]);
    let operation = commit_body(with_operation(), &[]);
    let bad = |name: &str, count, body: &[u8]| fourth(name, FrameKind::COMMIT, count, body, "body");
    let mut flags = one.clone();
    flags[0] = 2;
    let two = commit_body(plain(), &[event(256, "t", 4, b"x"), event(256, "t", 5, b"y")]);
    vec![
        bad("preamble-cut", 1, &one[..16]),
        bad("op-id-cut", 1, &operation[..30]),
        bad("seen-seq-cut", 1, &operation[..operation.len() - 1]),
        fourth("preamble-flag-unknown", FrameKind::COMMIT, 1, &flags, "unknown-flags"),
        bad("commit-without-events", 1, &one[..17]),
        bad("more-numbers-than-count", 1, &two),
        bad("fewer-numbers-than-count", 3, &two),
        bad("byte-behind-last-event", 1, &[&one[..], &[0]].concat()),
        bad("elided-run-over-count", 5, &commit_body(plain(), &[elided(&[6, 0])])),
    ]
}

fn events() -> Vec<Vector> {
    let bad = |name: &str, body: &[u8]| fourth(name, FrameKind::COMMIT, 1, body, "body");
    let with = |event: &Envelope<'_>| commit_body(plain(), std::slice::from_ref(event));
    // In a commit with one event and no op id the event starts at 17; its key at 24.
    let changed = |mut body: Vec<u8>, at: usize, new: &[u8]| {
        body[at..at + new.len()].copy_from_slice(new);
        body
    };
    let task = with(&event(256, "task", 4, b"body"));
    let names = [1; 64];
    let blobs = with(&Envelope { blobs: &names, ..event(256, "t", 4, b"") });
    vec![
        bad("event-cut-in-kind", &task[..18]),
        bad("event-cut-in-key", &task[..26]),
        bad("event-cut-in-revision", &task[..30]),
        bad("event-body-cut", &task[..task.len() - 1]),
        bad("event-body-length-over-frame", &changed(task.clone(), 36, &[255; 4])),
        fourth("event-flag-unknown", FrameKind::COMMIT, 1, &changed(task.clone(), 20, &[4]), "unknown-flags"),
        fourth(
            "event-flag-high-bit",
            FrameKind::COMMIT,
            1,
            &changed(task.clone(), 20, &[0x81]),
            "unknown-flags",
        ),
        bad("key-not-utf-8", &changed(task.clone(), 26, &[0xFF])),
        bad("key-utf-8-surrogate", &changed(task.clone(), 24, &[0xED, 0xA0, 0x80])),
        bad("key-utf-8-overlong", &changed(task.clone(), 24, &[0xC0, 0xAF])),
        bad("key-without-kind", &changed(task, 21, &[0])),
        bad("kind-without-key", &changed(with(&event(256, "", 0, b"")), 21, &[1])),
        bad("revision-without-key", &with(&event(256, "", 1, b""))),
        bad("blob-flag-without-blobs", &changed(blobs.clone(), 33, &[0, 0])),
        bad("blob-names-cut", &changed(blobs, 33, &[3, 0])),
        bad("elided-zero-numbers", &with(&elided(&[0, 0]))),
        bad("elided-4097-numbers", &with(&elided(&[1, 16]))),
        bad("elided-version-2", &with(&Envelope { version: 2, ..elided(&[1, 0]) })),
        bad("elided-body-too-long", &with(&event(0, "", 0, &[1, 0, 0]))),
        bad("elided-body-too-short", &with(&event(0, "", 0, &[1]))),
        bad("nothing-with-body", &with(&event(1, "", 0, b"x"))),
    ]
}

fn controls() -> Vec<Vector> {
    let bad = |name: &str, kind, body: &[u8]| fourth(name, kind, 0, body, "body");
    let gap = |from: u64, to: u64| [from.to_le_bytes(), to.to_le_bytes()].concat();
    let mut whole = Vec::new();
    Control::Seal(seal(3, 0)).encode(&mut whole);
    let mark = |note_len: u16, note: &[u8]| [&[1; 30][..], &note_len.to_le_bytes(), note].concat();
    vec![
        bad("epoch-short", FrameKind::EPOCH, &[1; 7]),
        bad("epoch-long", FrameKind::EPOCH, &[1; 9]),
        bad("epoch-0", FrameKind::EPOCH, &[0; 8]),
        bad("seal-short", FrameKind::SEAL, &whole[..43]),
        bad("seal-long", FrameKind::SEAL, &[&whole[..], &[0]].concat()),
        bad("mark-short", FrameKind::MARK, &[1; 7]),
        bad("mark-long", FrameKind::MARK, &[1; 16]),
        bad("recovery-mark-cut", FrameKind::RECOVERY_MARK, &[1; 29]),
        bad("recovery-mark-note-cut", FrameKind::RECOVERY_MARK, &mark(5, b"note")),
        bad("recovery-mark-note-not-utf-8", FrameKind::RECOVERY_MARK, &mark(4, b"not\xFF")),
        bad("recovery-mark-left-over", FrameKind::RECOVERY_MARK, &mark(3, b"note")),
        bad("gap-short", FrameKind::GAP, &gap(4, 5)[..15]),
        bad("gap-not-from-here", FrameKind::GAP, &gap(5, 6)),
        bad("gap-backwards", FrameKind::GAP, &gap(4, 3)),
        bad("gap-to-the-end-of-numbers", FrameKind::GAP, &gap(4, u64::MAX)),
    ]
}
