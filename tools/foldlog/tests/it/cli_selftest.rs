//! `foldlog selftest`.

use crate::support::foldlog;

#[test]
fn this_file_system_passes_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let run = foldlog(["selftest", "--json", "--writers", "3", "--kills", "4", dir.path().to_str().unwrap()]);
    let run = run.ends(0);
    let checks = run.json();
    assert_eq!(checks.len(), 9, "{}", run.out);
    assert!(checks.iter().all(|check| check["ok"] == true), "{}", run.out);
    assert_eq!(checks[8]["check"], "writers-under-kill");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn folder_must_exist() {
    let dir = tempfile::tempdir().unwrap();
    foldlog(["selftest", "--json", dir.path().join("absent").to_str().unwrap()]).fails(3, "not-found");
}
