//! Any bytes as bodies: a commit or control frame that decodes encodes to the same bytes again.
#![no_main]

use foldlog::log::control_frame::Control;
use foldlog::log::envelope::{Commit, Envelope};
use foldlog::log::frame::FrameKind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((head, body)) = data.split_first_chunk::<10>() else { return };
    let [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1] = *head;
    let seq = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let count = u16::from_le_bytes([c0, c1]);
    if let Ok(commit) = Commit::decode(seq, count, body) {
        let mut again = Vec::new();
        commit.preamble.encode(&mut again);
        let mut next = seq;
        for event in commit.events() {
            assert_eq!(event.seq.0, next);
            assert!(event.takes >= 1);
            next += u64::from(event.takes);
            let (from, blobs) = (again.len(), event.blobs.len() / 32);
            event.encode(&mut again);
            assert_eq!(again.len() - from, Envelope::encoded_len(event.key.len(), blobs, event.body.len()));
        }
        assert_eq!(next, seq + u64::from(count));
        assert_eq!(again, body);
    }
    for kind in [FrameKind::EPOCH, FrameKind::SEAL, FrameKind::MARK, FrameKind::RECOVERY_MARK, FrameKind::GAP]
    {
        if let Some(control) = Control::decode(kind, seq, body) {
            let mut again = Vec::new();
            control.encode(&mut again);
            assert_eq!((control.kind(), &again[..]), (kind, body));
        }
    }
});
