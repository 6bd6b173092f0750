//! The verbs that change tasks: what they do, what they refuse, their receipts.

use crate::support::{Fixture, Run};

/// A store with these tasks in the workspace of one project.
fn with(ids: &[&str]) -> Fixture {
    let fixture = Fixture::empty();
    for id in ids {
        fixture.run_in("p", &["create", id]).ends(0);
    }
    fixture
}

fn item(fixture: &Fixture, id: &str) -> String {
    let shown = fixture.does(&["show", id, "--json"]);
    let end = shown.find(r#","revision":"#).unwrap();
    shown[r#"{"item":"#.len()..end].to_owned()
}

fn json(run: &Run) -> serde_json::Value {
    run.json().remove(0)
}

fn token(fixture: &Fixture, id: &str) -> String {
    json(&fixture.run(&["show", id, "--json"]).ends(0))["token"].as_str().unwrap().to_owned()
}

#[test]
fn receipts_are_the_contract() {
    let fixture = Fixture::empty();
    let run = fixture.run_in("p", &["create", "t", "--json"]).ends(0);
    let epoch = json(&run)["epoch"].as_str().unwrap().to_owned();
    assert_eq!(epoch.len(), 16);
    assert_eq!(
        run.out,
        format!(
            r#"{{"seq":1,"last_seq":3,"epoch":"{epoch}","revisions":{{"t":1}},"tokens":{{"t":"1.3.{epoch}"}},"durable":true,"again":false}}"#
        ) + "\n"
    );
    assert_eq!(fixture.does(&["set", "t", "a=1"]), "t: revision 2 (event 5), durable\n");
    assert_eq!(fixture.does(&["set", "t", "a=1"]), "nothing to change\n");
    let run = fixture.run(&["set", "t", "a=1", "--json"]).ends(0);
    let said = json(&run);
    assert_eq!((&said["seq"], &said["last_seq"]), (&5.into(), &5.into()));
    assert!(run.out.contains(r#""revisions":{},"tokens":{},"#), "{}", run.out);
    let run = fixture.run(&["delegate", "t", "c", "mode=x", "--json"]).ends(0);
    let said = json(&run);
    let tokens = &said["tokens"];
    assert_eq!(said["revisions"], serde_json::json!({"c": 1, "t": 3}));
    assert_eq!(tokens["c"].as_str().unwrap(), token(&fixture, "c"));
    assert_eq!(tokens["t"].as_str().unwrap(), token(&fixture, "t"));
    for (durability, code) in [("buffered", 0), ("interval:20", 0), ("durable", 0), ("sometimes", 2)] {
        let word = format!("d=\"{durability}\"");
        fixture.run(&["set", "t", &word, "--durability", durability]).ends(code);
    }
    fixture.look(&["verify"]).ends(0);
}

#[test]
fn every_verb_does_what_it_says() {
    let fixture = with(&["p"]);
    fixture.does(&["set", "p", "mode=code", "n=1", "gone=1", "list=[\"a\"]"]);
    fixture.does(&["set", "p", "gone=", "n=2"]);
    assert_eq!(item(&fixture, "p"), r#"{"id":"p","mode":"code","n":2,"list":["a"]}"#);
    fixture.does(&["rename", "p", "123 =\ttitle"]);
    assert!(item(&fixture, "p").ends_with(r#","task":"123 =\ttitle"}"#));
    fixture.does(&["delegate", "p", "c", "mode=ask"]);
    assert_eq!(item(&fixture, "c"), r#"{"id":"c","mode":"ask","parentTaskId":"p","rootTaskId":"p"}"#);
    assert!(
        item(&fixture, "p")
            .contains(r#""status":"delegated","delegatedToId":"c","awaitingChildId":"c","childIds":["c"]"#)
    );
    assert!(fixture.does(&["complete", "c", "--summary", "42"]).starts_with("c: revision 2 (event "));
    assert!(item(&fixture, "c").ends_with(r#""status":"completed","completionResultSummary":"42"}"#));
    assert!(
        item(&fixture, "p").contains(r#""status":"active""#)
            && item(&fixture, "p").contains(r#""completedByChildId":"c""#)
    );
    fixture.does(&["status", "p", "interrupted"]);
    let run = fixture.run(&["status", "p", "active", "--json"]).fails(3, "status-refused");
    assert!(run.err.contains("`resume`"), "{}", run.err);
    fixture.does(&["resume", "p"]);
    assert_eq!(fixture.does(&["resume", "p"]), "nothing to change\n");
    fixture.does(&["complete", "p"]);
    assert_eq!(fixture.does(&["complete", "p"]), "nothing to change\n");
    let run = fixture.run(&["rm", "p", "--json"]).fails(3, "refused");
    assert!(run.err.contains("--cascade"), "{}", run.err);
    let gone = json(&fixture.run(&["rm", "p", "--cascade", "--json"]).ends(0));
    assert_eq!(gone["revisions"].as_object().unwrap().keys().collect::<Vec<_>>(), ["c", "p"]);
    for id in ["p", "c"] {
        fixture.run(&["show", id, "--json"]).fails(3, "task-deleted");
    }
}

#[test]
fn fields_that_a_verb_rules_are_refused_and_the_verb_is_named() {
    let fixture = with(&["t", "c"]);
    for (word, verb) in [
        ("status=completed", "`status`"),
        ("status=", ""),
        ("id=x", "never changes"),
        ("parentTaskId=c", "`delegate`"),
        ("rootTaskId=c", "`delegate`"),
        ("awaitingChildId=c", "`delegate`"),
        ("delegatedToId=c", "`delegate`"),
        ("completedByChildId=c", "`complete`"),
        ("childIds=[\"c\"]", "`delegate`"),
        ("childIds=", "`delegate`"),
    ] {
        let run = fixture.run(&["set", "t", "mode=x", word, "--json"]);
        if verb.is_empty() {
            // It is not there, so nothing is to be removed.
            assert!(run.ends(0).out.contains(r#""revisions":{"t":2}"#));
            continue;
        }
        assert!(run.fails(3, "ruled-field").err.contains(verb), "{word}");
    }
    fixture.run(&["create", "n", "awaitingChildId=c", "--json"]).fails(3, "ruled-field");
    fixture.run(&["status", "t", "delegated", "--json"]).fails(3, "ruled-field");
}

#[test]
fn wrong_words_are_usage_errors_and_write_nothing() {
    let fixture = with(&["t"]);
    for words in [
        &["set", "t"][..],
        &["set", "t", "novalue"],
        &["set", "t", "=1"],
        &["set", "t", "a=1", "a=2"],
        &["set", "t", "a={\"k\":1,\"k\":2}"],
        &["create", "n", "id=n"],
        &["create", "n", "a="],
        &["status", "t", "finished"],
        &["set", "t", "a=1", "--expect-revision", "1.2"],
        &["set", "t", "a=1", "--expect-revision", "-1"],
        &["set", "t", "a=1", "--op-id", "12"],
        &["set", "t", "a=1", "--durability", "interval:"],
        &["rm"],
        &["rm", "t", "u", "--expect-revision", "1"],
        &["rename", "t"],
    ] {
        fixture.look(&[words, &["--json"]].concat()).fails(2, "usage");
    }
    for words in [&["set", "a/b", "a=1"][..], &["create", "CON"], &["rm", ".x"], &["delegate", "t", "_c"]] {
        fixture.look(&[words, &["--json"]].concat()).fails(2, "invalid");
    }
}

#[test]
fn refusals_have_their_own_codes() {
    let fixture = with(&["t", "u"]);
    let fails = |words: &[&str], code| drop(fixture.run(&[words, &["--json"]].concat()).fails(3, code));
    fails(&["create", "t"], "task-exists");
    fails(&["set", "n", "a=1"], "no-task");
    fails(&["rm", "t", "n"], "no-task");
    fails(&["create", "n", "parentTaskId=absent"], "no-task");
    fixture.does(&["delegate", "t", "c"]);
    fails(&["delegate", "t", "d"], "status-refused");
    fails(&["delegate", "c", "t"], "cycle");
    fails(&["status", "c", "completed"], "status-refused");
    fixture.does(&["status", "t", "active"]);
    fails(&["complete", "c"], "not-waiting");
    fixture.does(&["rm", "u"]);
    fails(&["set", "u", "a=1"], "task-deleted");
    fails(&["create", "u"], "task-deleted");
    // Nothing of a refused commit stands.
    assert_eq!(item(&fixture, "t").matches("childIds").count(), 1);
    fixture.run(&["set", "t", "a=1", "--workspace", "key:absent", "--json"]).fails(3, "not-found");
    let small = Fixture::small();
    small.run(&["create", "x", "--workspace", "key:one", "--json"]).fails(4, "unknown-event");
}

#[test]
fn tokens_hold_across_calls_and_a_conflict_says_what_stands() {
    let fixture = with(&["t"]);
    let before = token(&fixture, "t");
    fixture.does(&["set", "t", "n=1.0", "--expect-revision", &before]);
    let run = fixture.run(&["set", "t", "n=3", "--json", "--expect-revision", &before]).fails(3, "conflict");
    let now = token(&fixture, "t");
    assert!(
        run.err.trim_end().ends_with(&format!(
            r#""file":null,"conflicts":[{{"of":"task","id":"t","expected":"{before}","revision":2,"token":"{now}","item":{{"id":"t","n":1.0}}}}]}}"#
        )),
        "{}",
        run.err
    );
    let human = fixture.run(&["set", "t", "n=3", "--expect-revision", &before]).ends(3);
    assert!(human.err.contains("expected revision 1, found revision 2"), "{}", human.err);
    fixture.does(&["set", "t", "n=3", "--expect-revision", "2"]);
    fixture.run(&["set", "t", "n=4", "--json", "--expect-revision", "2"]).fails(3, "conflict");
    // The number is right, the history is another.
    let foreign = format!("3.{}.0123456789abcdef", token(&fixture, "t").split('.').nth(1).unwrap());
    let run = fixture.run(&["set", "t", "n=4", "--json", "--expect-revision", &foreign]).fails(3, "conflict");
    assert!(run.err.contains(r#""rewound_to":0}"#), "{}", run.err);
    for verb in [
        &["rename", "t", "x"][..],
        &["status", "t", "completed"],
        &["resume", "t"],
        &["complete", "t"],
        &["rm", "t"],
        &["delegate", "t", "c"],
    ] {
        fixture.run(&[verb, &["--expect-revision", "9", "--json"]].concat()).fails(3, "conflict");
    }
    assert!(item(&fixture, "t").contains(r#""n":3"#));
    // What was never there has revision 0.
    fixture.does(&["create", "new", "--expect-revision", "0"]);
    let run = fixture.run(&["create", "newer", "--expect-revision", "1", "--json"]).fails(3, "conflict");
    assert!(run.err.contains(r#""revision":0,"token":null,"item":null}"#), "{}", run.err);
}

#[test]
fn request_sent_twice_is_applied_once_and_answered_alike() {
    let fixture = with(&["t"]);
    let mut ids = (0..).map(|n: u128| format!("{n:032x}"));
    for words in [
        &["create", "a", "x=1"][..],
        &["set", "a", "x=2"],
        &["rename", "a", "title"],
        &["status", "a", "interrupted"],
        &["resume", "a"],
        &["delegate", "a", "b"],
        &["complete", "b", "--summary", "s"],
        &["rm", "a", "--cascade"],
        &["create", "a", "--again"],
    ] {
        let id = ids.next().unwrap();
        let uuid = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
        let first = fixture.run_in("p", &[words, &["--json", "--op-id", &id]].concat()).ends(0);
        let again = fixture.run_in("p", &[words, &["--json", "--op-id", &uuid]].concat()).ends(0);
        assert_eq!(again.out, first.out.replace(r#""again":false"#, r#""again":true"#), "{words:?}");
        assert!(first.out.contains(r#""again":false"#));
    }
    let human =
        fixture.run_in("p", &["create", "a", "--again", "--op-id", &format!("{:032x}", 8)]).ends(0).out;
    assert!(human.starts_with("a: revision ") && human.ends_with(", durable, applied before\n"), "{human}");
    let other = ["set", "t", "x=1", "--json", "--op-id", "00000000000000000000000000000001"];
    fixture.run(&other).fails(3, "op-id-reused");
}

#[test]
fn homes_are_found_and_kept() {
    let fixture = with(&["t"]);
    fixture.run_in("q", &["create", "u"]).ends(0);
    let names = fixture.names();
    assert_eq!(names.len(), 2, "each folder has a workspace");
    let home = |id: &str| {
        json(&fixture.run(&["show", id, "--json"]).ends(0))["workspace"].as_str().unwrap().to_owned()
    };
    let (p, q) = (home("t"), home("u"));
    assert!(p.starts_with("p-") && q.starts_with("q-"), "{p} {q}");
    // From wherever it is called, a task is changed where it is at home, and a child is where its parent is.
    fixture.run_in("q", &["set", "t", "a=1"]).ends(0);
    fixture.run_in("q", &["create", "c", "parentTaskId=t"]).ends(0);
    fixture.run_in("q", &["delegate", "t", "d"]).ends(0);
    assert_eq!((home("t"), home("c"), home("d")), (p.clone(), p.clone(), p.clone()));
    fixture.run_in("q", &["create", "t", "--json"]).fails(3, "task-exists");
    fixture.run(&["rm", "t", "u", "--json"]).fails(3, "cross-workspace");
    fixture.run(&["delegate", "u", "t", "--json"]).fails(3, "task-exists");
    fixture.does(&["rm", "u"]);
    fixture.run_in("p", &["create", "u", "--again"]).ends(0);
    assert_eq!(home("u"), q, "it comes back where it was");
    fixture.run(&["create", "k", "--workspace", "key:new"]).ends(0);
    assert!(home("k").starts_with("new-"));
    fixture.run(&["create", "l", "--workspace", &p]).ends(0);
    assert_eq!(home("l"), p);
    fixture.run(&["set", "u", "a=1", "--workspace", &p, "--json"]).fails(3, "no-task");
}

#[test]
fn cascade_takes_all_below_and_frees_who_waited() {
    let fixture = with(&["top"]);
    fixture.does(&["delegate", "top", "mid"]);
    fixture.does(&["delegate", "mid", "low"]);
    fixture.run(&["rm", "mid", "--json"]).fails(3, "refused");
    let run = fixture.run(&["rm", "mid", "--cascade", "--json"]).ends(0);
    assert_eq!(json(&run)["revisions"], serde_json::json!({"mid": 3, "low": 2, "top": 3}));
    assert!(item(&fixture, "top").contains(r#""status":"active""#));
    assert_eq!(fixture.does(&["tasks", "--json"]).lines().count(), 2);
    fixture.look(&["verify"]).ends(0);
}

/// Looking at a store, and being refused, leaves no trace in the workspaces.
#[test]
fn store_that_takes_no_writes_is_looked_at() {
    let fixture = with(&["t"]);
    for words in [
        &["tasks"][..],
        &["tasks", "--tree", "--json"],
        &["show", "t"],
        &["show", "t", "--json"],
        &["history", "t"],
        &["history", "t", "--json"],
        &["dump", "--decode", "--json"],
    ] {
        fixture.look(words).ends(0);
    }
}
