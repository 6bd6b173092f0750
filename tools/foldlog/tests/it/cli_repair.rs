//! `foldlog repair`.

use foldlog::{Place, Store};

use crate::support::{Fixture, Run, command, fill, options};

#[test]
fn healthy_log_is_left_alone_even_with_apply() {
    let fixture = Fixture::small();
    for words in [&["repair", "--workspace", "key:one"][..], &["repair", "--workspace", "key:one", "--apply"]]
    {
        let run = fixture.look(words).ends(0);
        assert!(run.out.ends_with(": nothing to repair\n"), "{}", run.out);
    }
}

#[test]
fn plan_changes_nothing_and_says_what_would_be_lost() {
    let fixture = Fixture::small();
    fixture.damage("body 3");
    let run = fixture.look(&["repair", "--workspace", "key:one", "--json"]).ends(4);
    let line = &run.json()[0];
    assert_eq!((&line["applied"], &line["verdict"]), (&false.into(), &"corrupt".into()));
    assert_eq!(line["lost"], serde_json::json!([[4, 4]]));
    let people = fixture.look(&["repair", "--workspace", "key:one"]).ends(4);
    assert!(people.out.contains("event numbers lost: 4\n"), "{}", people.out);
    assert!(people.err.contains("--apply"), "{}", people.err);
}

#[test]
fn apply_keeps_what_checks_and_the_log_goes_on() {
    let fixture = Fixture::small();
    fixture.damage("body 3");
    let run = fixture.run(&["repair", "--workspace", "key:one", "--apply", "--json"]).ends(1);
    let line = &run.json()[0];
    assert_eq!((&line["applied"], &line["lost"]), (&true.into(), &serde_json::json!([[4, 4]])));
    let note = fixture.folder("one").join("quarantine").join(line["quarantined"].as_str().unwrap());
    assert!(note.is_file());
    fixture.look(&["verify"]).ends(0);
    let seqs = |run: Run| run.json().iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(seqs(fixture.look(&["dump", "--json"]).ends(0)), [1, 2, 3, 5, 6, 7, 8]);
    let workspace = fixture.workspace("one", options());
    fill(&workspace, 1);
    workspace.close().unwrap();
    assert_eq!(seqs(fixture.look(&["dump", "--json"]).ends(0)), [1, 2, 3, 5, 6, 7, 8, 9]);
}

#[test]
fn current_folder_is_the_default() {
    let fixture = Fixture::empty();
    let project = fixture.dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let store = Store::open(fixture.root(), options()).unwrap();
    let workspace = store.workspace(&Place::Path(project.to_str().unwrap().into())).unwrap();
    fill(&workspace, 2);
    workspace.close().unwrap();
    drop(store);
    let here = |dir: &std::path::Path| {
        let mut command = command();
        command.args(["repair", "--json", "--store"]).arg(fixture.root()).current_dir(dir);
        Run::of(&command.output().unwrap())
    };
    here(&project).ends(0);
    here(fixture.dir.path()).fails(3, "not-found");
}

#[test]
fn poisoned_workspace_is_copied_forward_when_asked() {
    let fixture = Fixture::small();
    let poison = fixture.folder("one").join("POISON");
    std::fs::write(&poison, b"").unwrap();
    let run = fixture.look(&["repair", "--workspace", "key:one"]).ends(4);
    assert!(run.err.contains("a sync has failed"), "{}", run.err);
    assert!(poison.exists(), "a dry run changes nothing");
    Run::of(
        &command()
            .args(["repair", "--workspace", "key:one", "--apply", "--store"])
            .arg(fixture.root())
            .output()
            .unwrap(),
    )
    .ends(0);
    assert!(!poison.exists());
    let run = fixture.look(&["verify", "--json"]).ends(0);
    assert_eq!(
        (run.json()[0]["code"].as_str(), run.json()[0]["severity"].as_str()),
        (Some("recovered"), Some("notice"))
    );
}
