//! `foldlog verify`.

use foldlog::{BlobId, Durability, Key, NewEvent};

use crate::support::{Fixture, KIND, foldlog, options};

#[test]
fn healthy_store_is_fine() {
    let fixture = Fixture::small();
    let run = fixture.look(&["verify"]).ends(0);
    assert!(run.out.contains(": fine; 7 commits of 8 events in 1 segment(s), "), "{}", run.out);
    let run = fixture.look(&["verify", "--json"]).ends(0);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
}

#[test]
fn store_may_be_named_by_the_environment() {
    let fixture = Fixture::small();
    let mut command = crate::support::command();
    crate::support::start(command.arg("verify").env("FOLDLOG_STORE", fixture.root())).ends(0);
    foldlog(["verify", "--json"]).fails(2, "usage");
}

#[test]
fn damage_is_a_finding_with_its_exact_place() {
    let fixture = Fixture::small();
    let path = fixture.damage("body 3");
    let run = fixture.look(&["verify", "--json"]).ends(4);
    let line = run.out.lines().next().unwrap();
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let offset = value["offset"].as_u64().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[usize::try_from(offset).unwrap() + 8], 4, "a frame's header with event 4 stands there");
    // Keys and their order are the contract.
    let start = format!(
        r#"{{"severity":"damage","code":"corrupt","file":{},"offset":{offset},"seq":4,"message":""#,
        serde_json::to_string(path.to_str().unwrap()).unwrap()
    );
    assert!(line.starts_with(&start), "{line}\n{start}");
    assert!(line.contains(r#","remedy":""#) && value.as_object().unwrap().len() == 7);
    let people = fixture.look(&["verify"]).ends(4).out;
    assert!(
        people.contains("damage corrupt: ")
            && people.contains("what to do: ")
            && people.contains(": DAMAGED; ")
    );
}

#[test]
fn torn_tail_is_below_damage() {
    let fixture = Fixture::small();
    let path = fixture.segments("one").remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[7; 40]);
    std::fs::write(&path, bytes).unwrap();
    let run = fixture.look(&["verify", "--json"]).ends(1);
    assert_eq!(run.json()[0]["severity"], "warning");
}

#[test]
fn poison_is_damage() {
    let fixture = Fixture::small();
    std::fs::write(fixture.folder("one").join("POISON"), b"").unwrap();
    let run = fixture.look(&["verify", "--json"]).ends(4);
    assert_eq!(run.json()[0]["code"], "poisoned");
}

#[test]
fn missing_parts_are_damage() {
    for (part, code) in [("LOCK", "incomplete-workspace"), ("META", "bad-meta")] {
        let fixture = Fixture::small();
        std::fs::remove_file(fixture.folder("one").join(part)).unwrap();
        let run = fixture.look(&["verify", "--json"]).ends(4);
        assert_eq!(run.json()[0]["code"], code);
    }
    let fixture = Fixture::small();
    std::fs::remove_file(fixture.segments("one").remove(0)).unwrap();
    assert_eq!(fixture.look(&["verify", "--json"]).ends(4).json()[0]["code"], "missing-segment");
    let fixture = Fixture::small();
    std::fs::remove_file(fixture.root().join("META")).unwrap();
    assert_eq!(fixture.look(&["verify", "--json"]).ends(4).json()[0]["code"], "bad-meta");
}

#[test]
fn missing_and_damaged_blobs_are_damage_with_event_and_file() {
    let fixture = Fixture::small();
    let workspace = fixture.workspace("one", options());
    let ids = workspace.put_blobs(&[b"first", b"second", b"third"]).unwrap();
    let named = ids.clone();
    let receipt = workspace.commit(Durability::Durable, move |_, draft| {
        draft.push(NewEvent::state(KIND, 1, Key::task("t0"), *b"three").blobs(named));
        Ok(())
    });
    let seq = receipt.unwrap().first.0;
    let paths = workspace.log().paths().clone();
    let path = |id: &BlobId| paths.blob(id);
    workspace.close().unwrap();
    let run = fixture.look(&["verify"]).ends(0);
    assert!(run.out.contains(": fine; ") && run.out.contains("; 3 blob(s) named"), "{}", run.out);
    std::fs::remove_file(path(&ids[0])).unwrap();
    std::fs::write(path(&ids[1]), b"Second").unwrap();
    let mut found = fixture.look(&["verify", "--json"]).ends(4).json();
    found.sort_by_key(|finding| finding["code"].to_string());
    assert_eq!(found.len(), 2, "{found:?}");
    for (finding, code, id) in [(&found[0], "blob-damaged", ids[1]), (&found[1], "blob-missing", ids[0])] {
        assert_eq!((&finding["severity"], &finding["code"]), (&"damage".into(), &code.into()));
        assert_eq!((&finding["seq"], &finding["offset"]), (&seq.into(), &serde_json::Value::Null));
        assert_eq!(finding["file"], path(&id).to_str().unwrap());
        assert!(!finding["remedy"].as_str().unwrap().is_empty());
    }
    assert!(fixture.look(&["verify"]).ends(4).out.contains(": DAMAGED; "));
}
