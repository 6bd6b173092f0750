//! A store as the library leaves it on disk, read by the rules of `format-spec/` alone: names, META, the chain of
//! segments, what they vouch for, and the state hash.
#![expect(clippy::disallowed_methods, reason = "looks at the bytes from outside")]
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "test code; a panic is a failure")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foldlog::log::WorkspaceMeta;
use foldlog::log::control_frame::{Control, Seal};
use foldlog::log::frame::{FrameHeader, FrameKind};
use foldlog::log::scan::{Content, Position, Scanner, Stop};
use foldlog::log::segment::{SegmentHeader, SegmentName, SegmentState};
use foldlog::store::meta::StoreMeta;
use foldlog::{Durability, Key, NewEvent, OpId, Place, Seq, State, Store, Workspace};

use crate::commit_basics::{NOTE, note, options};

/// What the page's state hash is made of.
#[derive(Default)]
struct Fold {
    epochs: Vec<(u64, u64)>,
    keys: BTreeMap<(u8, Vec<u8>), KeyFold>,
}

#[derive(Default)]
struct KeyFold {
    revision: u64,
    seq: u64,
    kind: u16,
    version: u8,
    body: Vec<u8>,
}

impl Fold {
    fn take(&mut self, seq: u64, content: &Content<'_>) {
        match content {
            Content::Control(Control::Epoch { epoch }) => self.epochs.push((seq, *epoch)),
            Content::Commit(commit) => {
                for event in commit.events().filter(|e| e.kind != 0 && e.revision.0 != 0) {
                    let key = self.keys.entry((event.key_kind.0, event.key.as_bytes().to_vec())).or_default();
                    key.revision = event.revision.0;
                    (key.seq, key.kind, key.version) = (event.seq.0, event.kind, event.version);
                    key.body = event.body.to_vec();
                }
            }
            _ => {}
        }
    }

    /// Section 11, written down as it stands there.
    fn hash(&self) -> blake3::Hash {
        let mut bytes = (self.epochs.len() as u64).to_le_bytes().to_vec();
        for (first, epoch) in &self.epochs {
            bytes.extend(first.to_le_bytes());
            bytes.extend(epoch.to_le_bytes());
        }
        for ((kind, name), key) in &self.keys {
            bytes.push(*kind);
            bytes.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
            bytes.extend(name);
            bytes.extend(key.revision.to_le_bytes());
            bytes.extend(key.seq.to_le_bytes());
            bytes.extend(key.kind.to_le_bytes());
            bytes.push(key.version);
            bytes.extend((key.body.len() as u64).to_le_bytes());
            bytes.extend(&key.body);
        }
        blake3::hash(&bytes)
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Commits enough of every sort to fill several small segments.
fn fill(workspace: &Workspace, round: u32) {
    for n in 0..40u32 {
        let task = format!("task-{}", n % 7);
        let receipt = workspace.commit(Durability::Buffered, move |_, draft| {
            draft.push(note(&task, &"text ".repeat(usize::try_from(n).unwrap())));
            if n % 5 == 0 {
                draft.push(NewEvent::record(NOTE, 1, Key::document("journal"), format!("{round}/{n}")));
                draft.push(NewEvent::record(NOTE, 1, Key::none(), b"about the log".as_slice()));
            }
            if n % 11 == 0 {
                draft.operation(OpId([u8::try_from(n + round).unwrap(); 16]), b"request", Seq(0));
            }
            Ok(())
        });
        assert!(receipt.unwrap().count > 0);
    }
}

#[test]
fn store_on_disk_is_what_the_pages_say() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let place = Place::Key("the key".into());
    let mut hash = None;
    for round in 0..2 {
        let store = Store::open(&root, options().segment_size(2 << 10)).unwrap();
        let workspace = store.workspace(&place).unwrap();
        fill(&workspace, round);
        hash = Some(workspace.read(State::hash).unwrap());
        if round == 1 {
            let log = workspace.log();
            log.session().unwrap().will_own(log.id().0).unwrap();
        }
        workspace.close().unwrap();
    }

    assert_eq!(names(&root), ["BIND", "META", "sessions", "workspaces"]);
    let sessions = names(&root.join("sessions"));
    assert!(
        sessions.len() == 2 && sessions[0].ends_with(".dead") && sessions[1].ends_with(".info"),
        "the proof of the end of the one that may have owned something: {sessions:?}"
    );
    StoreMeta::decode(&std::fs::read(root.join("META")).unwrap()).unwrap();
    let workspaces = names(&root.join("workspaces"));
    let hex = blake3::hash(b"key\0the key").to_hex();
    assert_eq!(workspaces, [format!("the-key-{}", &hex[..32])]);
    let folder = root.join("workspaces").join(&workspaces[0]);
    assert_eq!(names(&folder), ["COMPACT", "LOCK", "META", "SYNC0", "SYNC1", "control", "log", "quarantine"]);
    let meta = WorkspaceMeta::decode(&std::fs::read(folder.join("META")).unwrap()).unwrap();

    let (fold, segments, vouched, last) = read_chain(&folder.join("log"), &meta);
    assert!(segments > 3, "{segments} segments");
    assert_eq!(Some(fold.hash()), hash);
    assert_eq!(fold.epochs.len(), 2, "each round started without a witness");
    assert_eq!(vouched, last, "a clean close vouches for everything");
}

/// Steps R2 to R8 and S1 to S3 of recovery.md over files that are all well.
fn read_chain(log: &Path, meta: &WorkspaceMeta) -> (Fold, usize, u64, u64) {
    let files: Vec<(SegmentName, PathBuf)> =
        names(log).iter().filter_map(|name| Some((SegmentName::parse(name)?, log.join(name)))).collect();
    let (mut fold, mut segments, mut vouched) = (Fold::default(), 0, 0);
    let mut before: Option<(Seal, u32)> = None;
    loop {
        segments += 1;
        let ordinal = segments as u64;
        let bytes_of = |(name, path): &(SegmentName, PathBuf)| {
            let wanted = before.is_none_or(|(seal, _)| name.id == seal.next_segment_id);
            (wanted && name.ordinal_a == ordinal).then(|| std::fs::read(path).unwrap())
        };
        let bytes = files.iter().find_map(bytes_of).expect("a segment of every ordinal");
        let header = SegmentHeader::decode(&bytes).unwrap();
        assert_eq!((header.state, header.log_id), (SegmentState::Live, meta.log_id));
        let expected = before.map_or((0, 0, 0, 1, 0), |(seal, crc)| {
            (seal.segment_id.0, seal.last_seq, crc, seal.next_first_seq, seal.next_base_lpos)
        });
        let prev = (header.prev_segment_id.0, header.prev_last_seq, header.prev_last_crc);
        assert_eq!((prev.0, prev.1, prev.2, header.first_seq, header.base_lpos), expected);
        let salt = header.salt();
        let mut scanner = Scanner::new(&bytes, 0, &salt, header.max_body, Position::start_of(&header));
        let stop = loop {
            match scanner.next_frame() {
                Ok(located) => {
                    let FrameHeader { seq, durable_lag, kind, .. } = located.frame.header;
                    if durable_lag != u32::MAX {
                        assert!(durable_lag >= 1, "a frame vouches for what is before it, never for itself");
                        vouched = vouched.max(seq - u64::from(durable_lag));
                    }
                    if kind == FrameKind::SEAL {
                        assert_eq!(scanner.position().seq, seq);
                    }
                    fold.take(seq, &located.content);
                }
                Err(stop) => break stop,
            }
        };
        let end = scanner.position();
        match stop {
            Stop::Sealed { seal, crc } => {
                assert_eq!((seal.last_crc, seal.last_seq), (0, end.seq - 1));
                assert_eq!(seal.next_base_lpos, header.base_lpos + end.offset - 256);
                before = Some((seal, crc));
            }
            _ => {
                assert!(bytes[usize::try_from(end.offset).unwrap()..].iter().all(|b| *b == 0));
                return (fold, segments, vouched, end.seq - 1);
            }
        }
    }
}
