//! `foldlog compact`.

use foldlog::event::{Field, Patch, TaskId};
use foldlog::{Durability, Item, Place, TaskStore};

use crate::support::{Fixture, options};

/// A store with one task in `key:one` and many steps of it, over several segments.
fn stepped() -> Fixture {
    let fixture = Fixture::empty();
    let store = TaskStore::open(fixture.root(), options().segment_size(8 << 10)).unwrap();
    let home = store.home(&Place::Key("one".into())).unwrap();
    let item = Item::parse(r#"{"id":"a","ts":1,"task":"z","tokensIn":0}"#).unwrap();
    let _ = home.create(item, Durability::Buffered).unwrap();
    for step in 0..800_i64 {
        let patch = Patch::new().set(Field::Ts, step).set(Field::TokensIn, step);
        let _ = home.patch(&TaskId::new("a").unwrap(), patch, Durability::Buffered).unwrap();
    }
    home.workspace().clone().close().unwrap();
    fixture
}

#[test]
fn log_is_smaller_behind_it_and_says_the_same() {
    let fixture = stepped();
    let shown = fixture.look(&["show", "a", "--json"]).ends(0).out;
    let hash = |fixture: &Fixture| fixture.look(&["stats", "--json"]).ends(0).json()[0]["state_hash"].clone();
    let (before, segments) = (hash(&fixture), fixture.segments("one").len());
    assert!(segments > 5);
    let told = fixture.run(&["compact", "--json"]).ends(0).json();
    let line = &told[0];
    let (from, to) = (line["bytes_before"].as_u64().unwrap(), line["bytes_after"].as_u64().unwrap());
    assert!(to * 5 < from && line["dropped"].as_u64().unwrap() > 500, "{line}");
    assert_eq!(
        fixture.segments("one").len(),
        segments + 1 - usize::try_from(line["segments"].as_u64().unwrap()).unwrap()
    );
    assert_eq!(fixture.look(&["show", "a", "--json"]).ends(0).out, shown);
    assert_eq!(hash(&fixture), before);
    fixture.look(&["verify"]).ends(0);
    let again = fixture.run(&["compact"]).ends(0).out;
    assert_eq!(again.lines().count(), 1);
    assert!(again.contains("nothing to gain"), "{again}");
}

#[test]
fn one_workspace_alone_may_be_named() {
    let fixture = stepped();
    let told = fixture.run(&["compact", "--workspace", "key:one"]).ends(0).out;
    assert!(told.contains("segments of") && told.contains("are gone"), "{told}");
    let run = fixture.run(&["compact", "--workspace", "key:two"]);
    assert!(run.code != Some(0) && !run.err.is_empty(), "{}", run.err);
}
