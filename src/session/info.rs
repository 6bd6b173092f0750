//! The bytes of a session's `.info`.

use std::fmt;

use crate::vfs::FileId;

/// First bytes of the file.
pub(super) const MAGIC: [u8; 8] = [0x89, b'F', b'L', b'I', 0x0D, 0x0A, 0x1A, 0x0A];
/// Layout number.
pub(super) const LAYOUT: u16 = 1;

/// A log that a session has taken part in, and the control block it knew there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The log's id.
    pub log: [u8; 16],
    /// Identity of the control block's file.
    pub control: FileId,
}

/// Who a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Process id, for people.
    pub pid: u32,
    /// The random number in its file's name; 0 = unreadable.
    pub session: u64,
    /// When it started, µs since 1970 UTC.
    pub started: u64,
    /// Release of foldlog it runs.
    pub version: String,
    /// What its host calls itself.
    pub label: String,
    /// The logs it is a witness of.
    pub listings: Vec<Listing>,
    /// The logs in which something may be its own.
    pub owns: Vec<[u8; 16]>,
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}, foldlog {})", self.label, self.pid, self.version)
    }
}

impl Info {
    /// A stand-in for a session whose info cannot be read: it lists nothing, so it is nobody's witness.
    pub(super) fn unreadable(name: &str) -> Self {
        let (pid, session) = name.split_once('-').unwrap_or(("0", "0"));
        Info {
            pid: pid.parse().unwrap_or(0),
            session: u64::from_str_radix(session, 16).unwrap_or(0),
            started: 0,
            version: "unknown".into(),
            label: "unreadable session".into(),
            listings: Vec::new(),
            owns: Vec::new(),
        }
    }

    /// The bytes on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&LAYOUT.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.started.to_le_bytes());
        for text in [&self.version, &self.label] {
            out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&u16::try_from(self.listings.len()).unwrap_or(u16::MAX).to_le_bytes());
        for listing in &self.listings {
            out.extend_from_slice(&listing.log);
            out.extend_from_slice(&listing.control.device.to_le_bytes());
            out.extend_from_slice(&listing.control.inode.to_le_bytes());
        }
        out.extend_from_slice(&u16::try_from(self.owns.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.owns.iter().for_each(|log| out.extend_from_slice(log));
        let len = u32::try_from(out.len() + 4).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(8..12) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the whole file; `None` if it is not one, whatever the reason.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (before, crc) = bytes.split_last_chunk::<4>()?;
        if bytes.len() > super::INFO_LEN_MAX || crc32fast::hash(before) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut b = before;
        if *take::<8>(&mut b)? != MAGIC
            || u32::from_le_bytes(*take(&mut b)?) as usize != bytes.len()
            || u16::from_le_bytes(*take(&mut b)?) != LAYOUT
        {
            return None;
        }
        let pid = u32::from_le_bytes(*take(&mut b)?);
        let session = u64::from_le_bytes(*take(&mut b)?);
        let started = u64::from_le_bytes(*take(&mut b)?);
        let (version, label) = (text(&mut b)?, text(&mut b)?);
        let count = u16::from_le_bytes(*take(&mut b)?);
        let mut listings = Vec::new();
        for _ in 0..count {
            listings.push(Listing {
                log: *take(&mut b)?,
                control: FileId {
                    device: u64::from_le_bytes(*take(&mut b)?),
                    inode: u128::from_le_bytes(*take(&mut b)?),
                },
            });
        }
        let count = u16::from_le_bytes(*take(&mut b)?);
        let mut owns = Vec::new();
        for _ in 0..count {
            owns.push(*take(&mut b)?);
        }
        b.is_empty().then_some(Info { pid, session, started, version, label, listings, owns })
    }
}

fn take<'a, const N: usize>(b: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, rest) = b.split_first_chunk::<N>()?;
    *b = rest;
    Some(head)
}

fn text(b: &mut &[u8]) -> Option<String> {
    let len = usize::from(u16::from_le_bytes(*take(b)?));
    let (head, rest) = b.split_at_checked(len)?;
    *b = rest;
    String::from_utf8(head.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn info() -> impl Strategy<Value = Info> {
        let listing = (any::<[u8; 16]>(), any::<u64>(), any::<u128>())
            .prop_map(|(log, device, inode)| Listing { log, control: FileId { device, inode } });
        let who = (any::<u32>(), any::<u64>(), any::<u64>(), "\\PC{0,12}", "\\PC{0,40}");
        let logs =
            (proptest::collection::vec(listing, 0..4), proptest::collection::vec(any::<[u8; 16]>(), 0..4));
        (who, logs).prop_map(|((pid, session, started, version, label), (listings, owns))| Info {
            pid,
            session,
            started,
            version,
            label,
            listings,
            owns,
        })
    }

    /// The same bytes with a length and a checksum that fit.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let len = u32::try_from(bytes.len() + 4).unwrap().to_le_bytes();
        if let Some(place) = bytes.get_mut(8..12) {
            place.copy_from_slice(&len);
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn any_info_comes_back_and_no_other_bytes_do(info in info(), at in any::<prop::sample::Index>(), bit in 0..8) {
            let bytes = info.encode();
            prop_assert_eq!(Info::decode(&bytes), Some(info));
            let cut = at.index(bytes.len());
            prop_assert_eq!(Info::decode(&bytes[..cut]), None);
            let mut flipped = bytes.clone();
            flipped[cut] ^= 1_u8 << bit;
            prop_assert_eq!(Info::decode(&flipped), None);
            prop_assert_eq!(Info::decode(&[&bytes[..], &[0]].concat()), None);
        }

        /// Bytes that somebody has made, checksum and all: an info or none, and one that is written as it was read.
        #[test]
        fn any_bytes_are_an_info_or_none(
            tail in proptest::collection::vec(any::<u8>(), 0..200),
            info in info(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            prop_assert_eq!(Info::decode(&tail), None);
            let head = [&MAGIC[..], &[0; 4], &LAYOUT.to_le_bytes(), &tail].concat();
            let mut changed = info.encode();
            changed.truncate(changed.len() - 4);
            let at = at.index(changed.len());
            changed[at] = byte;
            for bytes in [sealed(head), sealed(changed)] {
                if let Some(info) = Info::decode(&bytes) {
                    prop_assert_eq!(info.encode(), bytes);
                }
            }
        }
    }
}
