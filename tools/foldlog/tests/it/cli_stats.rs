//! `foldlog stats`.

use foldlog::State;

use crate::support::{Fixture, fill, options};

#[test]
fn figures_of_each_workspace_and_the_total_last() {
    let fixture = Fixture::small();
    let other = fixture.workspace("other", options());
    fill(&other, 3);
    let hash = other.read(|state| State::hash(state).to_hex().to_string()).unwrap();
    other.close().unwrap();
    let lines = fixture.look(&["stats", "--json"]).ends(0).json();
    assert_eq!(lines.len(), 3);
    let of = |key: &str| lines.iter().find(|line| line["bound_to"] == format!("key:{key}")).unwrap();
    let (one, two) = (of("one"), of("other"));
    for (key, value) in [
        ("events", 8),
        ("commits", 7),
        ("seq", 8),
        ("durable_seq", 8),
        ("segments", 1),
        ("epochs", 1),
        ("keys", 4),
    ] {
        assert_eq!(one[key], value, "{key} in {one}");
    }
    assert_eq!((&two["state_hash"], &two["verdict"]), (&hash.into(), &"clean-end".into()));
    assert_eq!(
        one["bytes"].as_u64().unwrap(),
        std::fs::metadata(fixture.segments("one").remove(0)).unwrap().len()
    );
    let total = &lines[2];
    assert_eq!(
        (&total["total"], &total["workspaces"], &total["events"]),
        (&true.into(), &2.into(), &11.into())
    );
    let people = fixture.look(&["stats"]).ends(0).out;
    assert!(
        people.lines().last().unwrap().starts_with("total: 2 workspace(s), 11 events in 10 commits"),
        "{people}"
    );
}

#[test]
fn damaged_workspace_still_has_figures() {
    let fixture = Fixture::small();
    fixture.damage("body 3");
    let run = fixture.look(&["stats", "--json"]).ends(4);
    let line = &run.json()[0];
    assert_eq!((&line["verdict"], &line["seq"], &line["events"]), (&"corrupt".into(), &3.into(), &3.into()));
    assert!(run.err.contains(r#""severity":"damage""#));
}

#[test]
fn what_cannot_be_folded_is_null() {
    let fixture = Fixture::small();
    std::fs::remove_file(fixture.folder("one").join("META")).unwrap();
    let run = fixture.look(&["stats", "--json"]).ends(4);
    let line = &run.json()[0];
    assert_eq!((&line["events"], &line["state_hash"]), (&8.into(), &serde_json::Value::Null));
}
