//! The vectors, changed a little, with their checksums mended: what a faulty writer could leave.
//!
//! By itself this shows that nothing panics and that every refusal has its place inside the file. With
//! `FOLDLOG_MUTANTS=DIR` the changed files and what reading them gave go to that folder; `format-spec/reader/check DIR`
//! then says whether the independent reader sees each of them as the library does.

use std::path::PathBuf;

use foldlog::log::{LogId, SegmentId};

use super::build::{frame_crc, mend_header};
use super::{Outcome, Vector, Want, all, outcome};

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

fn change(bytes: &mut Vec<u8>, kind: &str, random: &mut Random) {
    let in_frames = kind == "seg" && bytes.len() > 256 && random.below(5) > 0;
    let at =
        if in_frames { 256 + random.below((bytes.len() - 256).min(400)) } else { random.below(bytes.len()) };
    match random.below(7) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = 0,
        2 => bytes[at] = random.byte(),
        3 => bytes[at] = bytes[at].wrapping_add(1),
        4 => bytes.truncate(at.max(12)),
        5 => bytes.insert(at, random.byte()),
        _ if bytes.len() > 12 => _ = bytes.remove(at),
        _ => {}
    }
}

fn put_crc(bytes: &mut [u8], at: usize) {
    if let Some((before, place)) = bytes.split_at_mut_checked(at)
        && let Some(place) = place.first_chunk_mut::<4>()
    {
        *place = crc32fast::hash(before).to_le_bytes();
    }
}

/// Mends what covers the changed bytes, so that the change itself is looked at; now and then the links too.
fn mend(bytes: &mut [u8], kind: &str, all_of_it: bool) {
    match kind {
        "seg" if bytes.len() >= 256 => {
            mend_header(bytes);
            let log = LogId(bytes[32..48].try_into().unwrap());
            let id = SegmentId(u64::from_le_bytes(bytes[48..56].try_into().unwrap()));
            let mut link: [u8; 4] = bytes[112..116].try_into().unwrap();
            let mut rest = &mut bytes[256..];
            while let Some(body_len) = rest.first_chunk().map(|len| u32::from_le_bytes(*len) as usize) {
                let Some(len) = body_len.checked_next_multiple_of(8).map(|padded| 32 + padded) else {
                    return;
                };
                if body_len == 0 || rest.len() < len {
                    return;
                }
                let (frame, behind) = rest.split_at_mut(len);
                if all_of_it {
                    frame[16..20].copy_from_slice(&link);
                }
                link = frame_crc(log, id, frame).to_le_bytes();
                frame[4..8].copy_from_slice(&link);
                rest = behind;
            }
        }
        "seg" => {}
        "control" => put_crc(bytes, 36),
        _ => {
            if all_of_it && kind != "store-meta" {
                let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
                bytes[8..12].copy_from_slice(&length);
            }
            put_crc(bytes, bytes.len() - 4);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "writes where the environment says; no store is involved")]
fn changed_vectors_are_read_or_refused() {
    let dir = std::env::var_os("FOLDLOG_MUTANTS").map(PathBuf::from);
    let seed = std::env::var("FOLDLOG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ seed);
    let vectors: Vec<_> = all().into_iter().filter(|v| (20..8192).contains(&v.bytes.len())).collect();
    for number in 0..12_000 {
        let from = &vectors[random.below(vectors.len())];
        let mut bytes = from.bytes.clone();
        for _ in 0..=random.below(3) {
            change(&mut bytes, from.kind, &mut random);
        }
        mend(&mut bytes, from.kind, number % 3 > 0);
        let name = format!("{number:05}-{}", from.name);
        let mutant = Vector { name, kind: from.kind, bytes, want: Want::Fields };
        let Outcome { json, lines } = outcome(&mutant);
        if let Some(at) = json.strip_prefix(r#"{"refused_at":"#).and_then(|rest| rest.split(',').next()) {
            let at: usize = at.parse().unwrap();
            assert!(at <= mutant.bytes.len(), "seed {seed}, {}: {json}", mutant.name);
        }
        if let Some(dir) = &dir {
            let write = |ending: &str, bytes: &[u8]| {
                std::fs::write(dir.join(format!("{}.{ending}", mutant.name)), bytes).unwrap();
            };
            write(mutant.kind, &mutant.bytes);
            write("json", format!("{json}\n").as_bytes());
            lines.iter().for_each(|lines| write("jsonl", lines.as_bytes()));
        }
    }
}
