//! What is no store, no longer one, or newer than this release: the documented answer, and not a byte changed.

use std::path::Path;

use crate::support::{Fixture, foldlog, tree};

const READERS: [&[&str]; 7] = [
    &["tasks", "--json"],
    &["show", "x", "--json"],
    &["history", "x", "--json"],
    &["dump", "--json"],
    &["verify", "--json"],
    &["stats", "--json"],
    &["repair", "--json", "--workspace", "key:one"],
];

/// Every verb that takes a store gives this answer.
#[track_caller]
fn all_answer(fixture: &Fixture, code: i32, error: &str) {
    for words in READERS {
        fixture.look(words).fails(code, error);
    }
    fixture.look(&["repair", "--apply", "--json", "--workspace", "key:one"]).fails(code, error);
    for words in [&["set", "x", "a=1"][..], &["rename", "x", "y"], &["rm", "x"], &["delegate", "x", "y"]] {
        fixture.look(&[words, &["--json"]].concat()).fails(code, error);
    }
}

fn patch(path: &Path, at: usize, byte: u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] = byte;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn no_store_named() {
    for words in READERS {
        let run = foldlog(words).fails(2, "usage");
        assert!(run.err.contains("FOLDLOG_STORE"), "{}", run.err);
    }
}

#[test]
fn absent_store_and_empty_folder() {
    let fixture = Fixture::empty();
    all_answer(&fixture, 3, "not-found");
    std::fs::create_dir(fixture.root()).unwrap();
    all_answer(&fixture, 3, "not-found");
    foldlog(["dump", "--json", fixture.root().join("absent").to_str().unwrap()]).fails(3, "not-found");
}

#[test]
fn text_file_as_store_and_foreign_folder() {
    let fixture = Fixture::empty();
    std::fs::write(fixture.root(), "not a store\n").unwrap();
    all_answer(&fixture, 3, "foreign");
    std::fs::remove_file(fixture.root()).unwrap();
    std::fs::create_dir(fixture.root()).unwrap();
    std::fs::write(fixture.root().join("letter.txt"), "dear").unwrap();
    all_answer(&fixture, 3, "foreign");
    std::fs::write(fixture.root().join("META"), "not a META either, although it stands in its place")
        .unwrap();
    all_answer(&fixture, 3, "foreign");
}

#[test]
fn text_file_and_empty_file_as_segment() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("letter.txt", "dear reader\n".repeat(50)), ("empty.seg", String::new())] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let before = tree(dir.path());
        for words in [&["dump", "--json"][..], &["dump", "--raw", "--json"]] {
            foldlog(words.iter().copied().chain([path.to_str().unwrap()])).fails(3, "foreign");
        }
        assert_eq!(tree(dir.path()), before);
    }
}

#[test]
fn copy_in_text_mode() {
    let mangle = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let mangled: Vec<u8> =
            bytes.iter().flat_map(|b| if *b == b'\n' { vec![b'\r', b'\n'] } else { vec![*b] }).collect();
        assert_ne!(mangled, bytes, "every magic has a line feed");
        std::fs::write(path, mangled).unwrap();
    };
    let fixture = Fixture::small();
    let segment = fixture.segments("one").remove(0);
    mangle(&segment);
    foldlog(["dump", "--json", segment.to_str().unwrap()]).fails(3, "foreign");
    let run = fixture.look(&["verify", "--json"]).ends(4);
    assert!(run.out.contains("text-mode copy"), "{}", run.out);
    mangle(&fixture.folder("one").join("META"));
    fixture.look(&["verify", "--json"]).fails(3, "foreign");
    mangle(&fixture.root().join("META"));
    all_answer(&fixture, 3, "foreign");
}

#[test]
fn newer_format() {
    let fixture = Fixture::small();
    let (folder, segment) = (fixture.folder("one"), fixture.segments("one").remove(0));
    patch(&segment, 10, 2);
    foldlog(["dump", "--json", segment.to_str().unwrap()]).fails(4, "too-new");
    let run = fixture.look(&["verify", "--json"]).ends(4);
    assert_eq!(run.json()[0]["code"], "too-new");
    fixture.look(&["repair", "--apply", "--json", "--workspace", "key:one"]).fails(4, "too-new");
    patch(&folder.join("META"), 12, 2);
    fixture.look(&["dump", "--json"]).fails(4, "too-new");
    fixture.look(&["verify", "--json"]).fails(4, "too-new");
    patch(&fixture.root().join("META"), 10, 2);
    all_answer(&fixture, 4, "too-new");
}

#[test]
fn segment_of_another_log_plays_no_part_and_is_told() {
    let (fixture, other) = (Fixture::small(), Fixture::small());
    let stranger = other.segments("one").remove(0);
    std::fs::copy(&stranger, fixture.folder("one").join("log").join(stranger.file_name().unwrap())).unwrap();
    let run = fixture.look(&["verify", "--json"]).ends(1);
    let line = &run.json()[0];
    assert_eq!((&line["severity"], &line["code"]), (&"warning".into(), &"unusable-segment".into()));
    assert!(line["message"].as_str().unwrap().contains("belongs to log "), "{line}");
    assert_eq!(fixture.look(&["dump", "--json"]).ends(1).json().len(), 8);
}

#[test]
fn one_bad_workspace_does_not_hide_the_others() {
    let fixture = Fixture::small();
    let other = fixture.workspace("other", crate::support::options());
    crate::support::fill(&other, 2);
    other.close().unwrap();
    patch(&fixture.folder("one").join("META"), 12, 2);
    let run = fixture.look(&["dump", "--json"]).fails(4, "too-new");
    assert_eq!(run.json().len(), 2);
}
