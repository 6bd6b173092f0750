//! Any bytes: a frame or a reason, never a panic; what is a frame encodes to the same bytes again.
#![no_main]

use foldlog::log::frame::{FrameKind, decode, encode};
use foldlog_fuzz::salt;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let max_body = 1u32 << (first % 27);
    check(bytes, max_body);
    // The same with a CRC that checks, or nothing behind the CRC would ever be reached.
    if let (Some(len), true) = (bytes.first_chunk::<4>(), bytes.len() > 32) {
        let len = u32::from_le_bytes(*len) as usize;
        if let Some(body) = (len > 0).then(|| bytes.get(32..32 + len)).flatten() {
            let mut whole = Vec::new();
            let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
            let header = foldlog::log::frame::FrameHeader {
                seq: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
                link: u32_at(16),
                kind: FrameKind(u16_at(20)),
                count: u16_at(22),
                durable_lag: u32_at(24),
                writer: u32_at(28),
            };
            encode(&mut whole, &salt(), &header, body);
            if let Some(frame) = check(&whole, max_body) {
                assert_eq!(frame, (header, body.to_vec()));
            }
        }
    }
});

fn check(bytes: &[u8], max_body: u32) -> Option<(foldlog::log::frame::FrameHeader, Vec<u8>)> {
    let frame = decode(bytes, &salt(), max_body).ok()?;
    assert!(!frame.body.is_empty() && frame.body.len() <= max_body as usize);
    assert!(frame.len() <= bytes.len() && frame.len() % 8 == 0);
    assert_ne!(frame.crc, 0);
    assert!(frame.header.seq.checked_add(frame.header.count.into()).is_some());
    let mut again = Vec::new();
    let crc = encode(&mut again, &salt(), &frame.header, frame.body);
    assert_eq!((crc, &again[..]), (frame.crc, &bytes[..frame.len()]));
    Some((frame.header, frame.body.to_vec()))
}
