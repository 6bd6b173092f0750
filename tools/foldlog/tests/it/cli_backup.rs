//! `foldlog backup` and `foldlog restore`.

use crate::support::{Fixture, foldlog, tree};

fn text(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn backup_and_restore_say_what_they_made() {
    let fixture = Fixture::empty();
    fixture.does(&["create", "t", "--workspace", "key:w", "mode=code"]);
    let (root, dir) = (fixture.root(), tempfile::tempdir().unwrap());
    let (backup, restored) = (dir.path().join("backup"), dir.path().join("restored"));
    let run = foldlog(["backup", text(&root), text(&backup), "--json"]).ends(0);
    let [line] = run.json().try_into().unwrap();
    // Keys and their order are the contract.
    assert!(run.out.starts_with(r#"{"target":"#), "{}", run.out);
    let keys: Vec<_> = ["target", "store_id", "whole", "dead_sessions", "took_ms", "workspaces"].into();
    assert_eq!(line.as_object().unwrap().len(), keys.len());
    assert!(keys.iter().all(|key| line.get(key).is_some()), "{line}");
    let copy = &line["workspaces"][0];
    for key in
        ["workspace", "log_id", "cursor", "state_hash", "events", "segments", "blobs", "linked", "copied"]
    {
        assert!(!copy[key].is_null(), "{key}: {copy}");
    }
    assert_eq!((line["whole"].as_bool(), copy["findings"].as_array().unwrap().len()), (Some(true), 0));
    let noted = copy["noted"].as_u64().unwrap();
    assert!(noted > copy["seq"].as_u64().unwrap() && copy["note_error"].is_null());
    let dump = fixture.look(&["dump", "--json", "--decode", "--kind", "backed-up"]).ends(0).json();
    assert_eq!(dump[0]["seq"].as_u64(), Some(noted));
    assert_eq!(dump[0]["event"]["backed-up"]["target"], line["target"]);
    assert_eq!(dump[0]["event"]["backed-up"]["covers"], copy["seq"]);
    // It is a store like any other.
    foldlog(["verify", "--store", text(&backup)]).ends(0);
    let hash = |root: &std::path::Path| {
        foldlog(["stats", "--json", "--store", text(root)]).ends(0).json()[0]["state_hash"].clone()
    };
    assert_eq!(hash(&backup), copy["state_hash"]);
    let before = tree(&backup);
    let run = foldlog(["restore", text(&backup), text(&restored)]).ends(0);
    assert!(
        run.out.contains(": whole to event ")
            && run.out.contains(&format!("restored to {}", text(&std::fs::canonicalize(&restored).unwrap()))),
        "{}",
        run.out
    );
    assert_eq!(tree(&backup), before, "restoring changed the backup");
    foldlog(["set", "t", "mode=ask", "--store", text(&restored)]).ends(0);
    assert_ne!(hash(&restored), hash(&backup));
    assert_eq!(fixture.look(&["show", "t", "--json"]).ends(0).json()[0]["item"]["mode"], "code");
}

#[test]
fn options_of_a_backup_are_kept() {
    let fixture = Fixture::empty();
    fixture.does(&["create", "t", "--workspace", "key:w"]);
    fixture.does(&["create", "u", "--workspace", "key:other"]);
    let (root, dir) = (fixture.root(), tempfile::tempdir().unwrap());
    let before = tree(&root);
    let target = dir.path().join("one");
    let words =
        ["backup", text(&root), text(&target), "--json", "--no-note", "--copy", "--workspace", "key:w"];
    let [line] = foldlog(words).ends(0).json().try_into().unwrap();
    assert_eq!(tree(&root), before, "nothing was to be noted");
    assert_eq!(line["workspaces"].as_array().unwrap().len(), 1);
    assert_eq!(
        (line["workspaces"][0]["linked"]["files"].as_u64(), line["workspaces"][0]["noted"].as_u64()),
        (Some(0), None)
    );
    foldlog(["backup", text(&root), text(&dir.path().join("none")), "--workspace", "key:nobody", "--json"])
        .fails(3, "not-found");
}

#[test]
fn nothing_is_made_over_what_is_there() {
    let fixture = Fixture::small();
    let (root, dir) = (fixture.root(), tempfile::tempdir().unwrap());
    let backup = dir.path().join("backup");
    foldlog(["backup", text(&root), text(&backup)]).ends(0);
    let (of_store, of_backup) = (tree(&root), tree(&backup));
    foldlog(["restore", text(&backup), text(&root), "--json"]).fails(3, "occupied");
    let run = foldlog(["backup", text(&root), text(&backup)]).ends(3);
    assert!(
        run.err.contains("a store is there; nobody has it open for writing")
            && run.err.contains("moved away"),
        "{}",
        run.err
    );
    foldlog(["backup", text(&root), text(&root.join("in")), "--json"]).fails(2, "invalid");
    foldlog(["restore", text(dir.path()), text(&dir.path().join("x")), "--json"]).fails(3, "foreign");
    assert!(tree(&root) == of_store && tree(&backup) == of_backup, "something was touched");
}

#[test]
fn damaged_store_is_copied_as_it_is_only_if_asked_for() {
    let fixture = Fixture::small();
    fixture.damage("body 3");
    let (root, dir) = (fixture.root(), tempfile::tempdir().unwrap());
    let (no, yes) = (dir.path().join("no"), dir.path().join("yes"));
    foldlog(["backup", text(&root), text(&no), "--json"]).fails(4, "damaged");
    assert!(!no.exists());
    let run = foldlog(["backup", text(&root), text(&yes), "--as-it-is", "--no-note"]).ends(4);
    assert!(run.out.contains(": DAMAGED to event 3"), "{}", run.out);
    assert_eq!(
        foldlog(["verify", "--store", text(&yes)]).ends(4).out.matches("damage corrupt").count(),
        fixture.look(&["verify"]).ends(4).out.matches("damage corrupt").count()
    );
}
