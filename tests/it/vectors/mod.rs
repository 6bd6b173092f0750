//! The test vectors of `format-spec/vectors`: made here byte for byte, read with the library, compared with the tree.
//!
//! `FOLDLOG_BLESS=1 cargo test vectors` writes them anew; without it a difference fails. Every vector states by hand
//! where it must be refused and why, or where and how its frames end: blessing cannot hide a change of meaning.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "test code; a panic is a failure")]

use std::collections::BTreeMap;
use std::path::PathBuf;

mod bodies;
mod build;
mod frames;
mod headers;
mod mutate;
mod read;
mod small;
mod valid;

/// What a vector must give.
pub(crate) enum Want {
    /// A segment that reads to its end: where its frames end, why, and how many events it has.
    Events { end: u64, stop: &'static str, events: usize },
    /// A structure that reads; what it says is blessed.
    Fields,
    /// The offset and code of the refusal.
    Refused { at: u64, code: &'static str },
}

/// One vector: a file, and what reading it must give.
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) want: Want,
}

/// What reading it gave: the text of the `.json` file, and of the `.jsonl` file if it is a segment that reads.
pub(crate) struct Outcome {
    pub(crate) json: String,
    pub(crate) lines: Option<String>,
}

fn all() -> Vec<Vector> {
    let mut all = valid::vectors();
    all.extend(headers::vectors());
    all.extend(frames::vectors());
    all.extend(bodies::vectors());
    all.extend(small::vectors());
    for (number, vector) in all.iter_mut().enumerate() {
        vector.name = format!("{:03}-{}", number + 1, vector.name);
    }
    all
}

fn outcome(vector: &Vector) -> Outcome {
    match vector.kind {
        "seg" => read::segment(&vector.bytes),
        "store-meta" => small::read_store_meta(&vector.bytes),
        "workspace-meta" => small::read_workspace_meta(&vector.bytes),
        "control" => small::read_control(&vector.bytes),
        "info" => small::read_info(&vector.bytes),
        other => panic!("no reader for {other}"),
    }
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "format-spec", "vectors"].iter().collect()
}

/// All files that the vectors should be, by name.
fn files() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for vector in all() {
        let Outcome { json, lines } = outcome(&vector);
        for (ending, bytes) in [
            (vector.kind, Some(vector.bytes)),
            ("json", Some(format!("{json}\n").into_bytes())),
            ("jsonl", lines.map(String::into_bytes)),
        ] {
            if let Some(bytes) = bytes {
                let clash = files.insert(format!("{}.{ending}", vector.name), bytes);
                assert!(clash.is_none(), "two vectors named {}", vector.name);
            }
        }
    }
    files
}

#[test]
fn vectors_mean_what_they_state() {
    let all = all();
    let refused = all.iter().filter(|v| matches!(v.want, Want::Refused { .. })).count();
    assert!(all.len() >= 60 && refused >= 40, "{} vectors, {refused} of them invalid", all.len());
    for vector in &all {
        let Outcome { json, lines } = outcome(vector);
        let json: String = json.chars().take(500).collect();
        let starts = match vector.want {
            Want::Events { end, stop, events } => {
                let lines = lines.unwrap_or_default();
                assert_eq!(lines.lines().count(), events, "{}: {json}", vector.name);
                format!(r#"{{"end":{end},"stop":"{stop}","#)
            }
            Want::Fields => {
                assert!(!json.contains("refused_at"), "{}: {json}", vector.name);
                "{".into()
            }
            Want::Refused { at, code } => format!(r#"{{"refused_at":{at},"code":"{code}""#),
        };
        assert!(json.starts_with(&starts), "{}: {json}, wanted {starts}", vector.name);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "compares files of the source tree; no store is involved")]
fn vectors_in_the_tree_are_the_ones_made_here() {
    let files = files();
    if std::env::var_os("FOLDLOG_BLESS").is_some() {
        for entry in std::fs::read_dir(folder()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, bytes) in &files {
            std::fs::write(folder().join(name), bytes).unwrap();
        }
    }
    let mut present = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        present.insert(entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap());
    }
    let names = |of: &BTreeMap<String, Vec<u8>>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&present), names(&files), "the names differ; FOLDLOG_BLESS=1 writes them anew");
    for (name, bytes) in &files {
        assert!(present.get(name) == Some(bytes), "{name} differs; FOLDLOG_BLESS=1 writes it anew");
    }
}
