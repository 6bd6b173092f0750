//! `foldlog doc`: values as they went in, expectations, the two homes, and a state file that others write.

use crate::support::Fixture;

fn json(out: &str) -> serde_json::Value {
    serde_json::from_str(out.lines().next().unwrap()).unwrap()
}

#[test]
fn documents_are_put_got_listed_told_and_removed() {
    let fixture = Fixture::empty();
    let file = fixture.root().with_file_name("v.json");
    let put = |text: &str, words: &[&str], code| {
        std::fs::write(&file, text).unwrap();
        let all = [&["doc", "put", "a/b", file.to_str().unwrap()][..], words].concat();
        fixture.run_in("p", &all).ends(code)
    };
    let odd = r#"{ "n": 1.50, "s": "\u0041" }"#;
    assert_eq!(put(odd, &["--kind", "k"], 0).out, "a/b: revision 1 (event 3), durable\n");
    assert_eq!(fixture.run_in("p", &["doc", "get", "a/b"]).ends(0).out, format!("{odd}\n"));
    assert_eq!(put(odd, &[], 0).out, "a/b: revision 1 (event 3), nothing to change\n");
    let got = json(&fixture.run_in("p", &["doc", "get", "a/b", "--json"]).ends(0).out);
    let token = got["token"].as_str().unwrap();
    assert_eq!((&got["kind"], &got["from"], &got["revision"]), (&"k".into(), &"workspace".into(), &1.into()));
    put("[2]", &["--expect", token], 0);
    let lost = put("[3]", &["--expect", token, "--json"], 3);
    let lost: serde_json::Value = serde_json::from_str(lost.err.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&lost["error"], &lost["conflicts"][0]["of"], &lost["conflicts"][0]["item"]),
        (&"conflict".into(), &"document".into(), &serde_json::json!([2]))
    );
    put("[3]", &["--expect", lost["conflicts"][0]["token"].as_str().unwrap()], 0);
    put("[4]", &["--expect", "absent"], 3);
    put("{", &[], 2);
    let listed = fixture.run_in("p", &["doc", "ls", "a/", "--kind", "k", "--json"]).ends(0).out;
    assert_eq!((json(&listed)["bytes"].clone(), listed.lines().last()), (3.into(), Some(r#"{"next":null}"#)));
    assert_eq!(
        fixture.run_in("p", &["doc", "rm", "a/b"]).ends(0).out,
        "a/b: revision 4 (event 9), durable\n"
    );
    fixture.run_in("p", &["doc", "get", "a/b", "--json"]).fails(3, "document-deleted");
    put("[5]", &[], 3);
    put("[5]", &["--expect", "absent"], 0);
    fixture.run_in("p", &["doc", "get", "c", "--json"]).fails(3, "no-document");
    let told = fixture.run_in("p", &["doc", "history", "a/b", "--json"]).ends(0).out;
    let told: Vec<_> = told.lines().map(|line| json(line)["value"].clone()).collect();
    let none = serde_json::Value::Null;
    let n = |n: i64| serde_json::json!([n]);
    assert_eq!(told, [serde_json::json!({"n": 1.5, "s": "A"}), n(2), n(3), none, n(5)]);
    let dumped = fixture.does(&["dump", "--json", "--decode"]);
    assert!(
        dumped.contains(r#""event":{"document-put":{"kind":"k","value":[5],"again":true}}"#)
            || dumped.contains(r#""value":[5],"again":true"#),
        "{dumped}"
    );
    fixture.look(&["verify"]).ends(0);
}

#[test]
fn workspace_comes_before_the_global_home() {
    let fixture = Fixture::empty();
    let file = fixture.root().with_file_name("v.json");
    let put = |text: &str, words: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let all = [&["doc", "put", "a", file.to_str().unwrap()][..], words].concat();
        fixture.run_in("p", &all).ends(0);
    };
    put("1", &["--global"]);
    // In a folder without a workspace the global one is all there is.
    let from = |words: &[&str]| {
        let got =
            json(&fixture.run_in("p", &[&["doc", "get", "a", "--json"][..], words].concat()).ends(0).out);
        (got["value"].clone(), got["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(from(&[]), (1.into(), "global".into()));
    fixture.run_in("p", &["doc", "get", "a", "--local", "--json"]).fails(3, "not-found");
    put("2", &[]);
    assert_eq!(
        (from(&[]), from(&["--global"])),
        ((2.into(), "workspace".into()), (1.into(), "global".into()))
    );
    fixture.run_in("p", &["doc", "rm", "a"]).ends(0);
    assert_eq!(from(&[]), (1.into(), "global".into()));
    fixture.run_in("p", &["doc", "get", "a", "--local", "--json"]).fails(3, "document-deleted");
}

#[test]
fn state_file_is_taken_in_written_and_never_believed_when_malformed() {
    let fixture = Fixture::empty();
    let file = fixture.root().with_file_name("state.json");
    let sync = |code| fixture.run_in("p", &["doc", "sync", "s", file.to_str().unwrap()]).ends(code);
    let get = || fixture.run_in("p", &["doc", "get", "s"]).ends(0).out;
    std::fs::write(&file, "{\"a\":").unwrap();
    fixture.run_in("p", &["doc", "sync", "s", file.to_str().unwrap(), "--json"]).fails(3, "bad-state-file");
    std::fs::write(&file, "{\"a\": 1}\n").unwrap();
    assert_eq!((sync(0).out.as_str(), get().as_str()), ("s: taken in from the file\n", "{\"a\": 1}\n"));
    assert_eq!(sync(0).out, "s: nothing to do\n");
    std::fs::write(&file, "").unwrap();
    let run = sync(1);
    assert!(
        run.out == "s: written to the file\n" && run.err.contains("state-file-malformed"),
        "{} {}",
        run.out,
        run.err
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"a\": 1}");
}
