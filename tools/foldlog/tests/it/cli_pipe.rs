//! `pipe`: one long-lived process for any language.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Fixture, command};

/// A program at the other end of a pipe.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn of(fixture: &Fixture, words: &[&str]) -> Client {
        let mut command = command();
        command.arg("--store").arg(fixture.root()).arg("pipe").args(words);
        let mut child = crate::support::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, stdin, stdout }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it has ended");
        line
    }

    fn raw(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    /// The answer to a request.
    #[track_caller]
    fn ok(&mut self, request: Value) -> Value {
        let line = self.raw(&request.to_string());
        let mut answer: Value = serde_json::from_str(&line).expect(&line);
        assert!(answer.get("error").is_none(), "{request}: {line}");
        answer["ok"].take()
    }

    #[track_caller]
    fn fails(&mut self, request: Value, code: &str) -> Value {
        let line = self.raw(&request.to_string());
        let answer: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(answer["error"], code, "{request}: {line}");
        assert!(
            !answer["message"].as_str().unwrap().is_empty() && !answer["remedy"].as_str().unwrap().is_empty()
        );
        answer
    }

    fn ends(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

#[test]
fn requests_are_answered_in_order_and_values_come_back_as_they_were_spelled() {
    let fixture = Fixture::empty();
    let mut client = Client::of(&fixture, &["--label", "a client"]);
    // Several at once, before any answer is read; an empty line between them.
    client.send(r#"{"id":"a","op":"create","workspace":"key:k","item":{"id":"t","n":1.50,"big":18446744073709551616,"s":"\ud83d"}}"#);
    client.send("");
    client.send(r#"{"op":"patch","task":"t","set":{"mode":"code","n":2.50},"unset":["s"]}"#);
    client.send(r#"{"id":{"any":[1]},"op":"get","task":"t"}"#);
    let receipt: Value = serde_json::from_str(&client.line()).unwrap();
    assert_eq!(
        (&receipt["id"], &receipt["ok"]["revisions"], &receipt["ok"]["durable"]),
        (&json!("a"), &json!({"t": 1}), &json!(true))
    );
    let second = client.line();
    assert!(second.starts_with(r#"{"id":null,"ok":{"seq":"#), "{second}");
    let got = client.line();
    assert!(
        got.starts_with(r#"{"id":{"any":[1]},"ok":{"item":{"id":"t","n":2.50,"big":18446744073709551616,"mode":"code"},"revision":2,"#),
        "{got}"
    );
    assert_eq!(client.ends(), Some(0));
    assert!(fixture.look(&["show", "t"]).ends(0).out.contains("2.50"));
    fixture.look(&["verify"]).ends(0);
}

#[test]
fn every_change_does_what_its_verb_does() {
    let fixture = Fixture::empty();
    let mut client = Client::of(&fixture, &["--workspace", "key:k"]);
    let _ = client.ok(json!({"op": "create", "item": "p"}));
    let made = client.ok(json!({"op": "commit", "ops": [
        {"op": "delegate", "parent": "p", "child": {"id": "c", "mode": "x"}},
        {"op": "attach", "task": "c"},
    ], "expect": {"p": 1, "c": "absent"}}));
    let fence = made["fences"]["c"].as_str().unwrap().to_owned();
    client.fails(json!({"op": "patch", "task": "p", "set": {"a": 1}, "expect": {"p": 1}}), "conflict");
    client.fails(json!({"op": "create", "item": {"id": "c"}}), "task-exists");
    client.fails(json!({"op": "status", "task": "p", "status": "completed"}), "status-refused");
    let done = client.ok(json!({"op": "complete", "task": "c", "summary": "done", "fence": fence, "op_id": "000102030405060708090a0b0c0d0e0f"}));
    let again = client.ok(json!({"op": "complete", "task": "c", "summary": "done", "fence": fence, "op_id": "000102030405060708090a0b0c0d0e0f"}));
    assert_eq!((&done["again"], &again["again"], &done["seq"]), (&json!(false), &json!(true), &again["seq"]));
    let _ = client.ok(json!({"op": "detach", "task": "c", "fence": fence}));
    client.fails(json!({"op": "patch", "task": "c", "set": {"a": 1}, "fence": fence}), "fenced");
    let _ = client.ok(json!({"op": "rename", "task": "p", "title": "A title"}));
    let _ = client.ok(json!({"op": "status", "task": "p", "status": "interrupted"}));
    let _ = client.ok(json!({"op": "resume", "task": "p"}));
    let _ = client.ok(json!({"op": "delegate", "parent": "p", "child": "d"}));
    let _ = client.ok(json!({"op": "abandon", "task": "d"}));
    let _ = client.ok(json!({"op": "patch", "task": "p", "drop_children": ["d"]}));
    assert_eq!(
        client.ok(json!({"op": "judge", "ops": [{"op": "remove", "tasks": ["p"], "cascade": true}]}))["events"],
        2
    );
    let _ = client.ok(json!({"op": "remove", "tasks": ["d"]}));
    client.fails(json!({"op": "get", "task": "d"}), "task-deleted");
    let _ = client.ok(json!({"op": "create", "item": {"id": "d"}, "again": true}));
    let _ = client.ok(json!({"op": "set_rules", "table": "zoo-next"}));
    assert_eq!(client.ok(json!({"op": "rules"})), json!({"table": "zoo-next"}));
    assert_eq!(client.ok(json!({"op": "mend", "parent": "p"}))["revisions"], json!({}));
    let item = client.ok(json!({"op": "get", "task": "p"}))["item"].take();
    assert_eq!(
        item,
        json!({"id": "p", "status": "active", "childIds": ["c"], "completedByChildId": "c", "completionResultSummary": "done", "task": "A title"})
    );
    assert_eq!(client.ends(), Some(0));
}

#[test]
fn looking_waiting_and_holding() {
    let fixture = Fixture::empty();
    let mut client = Client::of(&fixture, &["--label", "holder", "--workspace", "key:k"]);
    for n in 0..3 {
        let _ = client
            .ok(json!({"op": "create", "item": {"id": format!("t{n}"), "ts": n}, "durability": "buffered"}));
    }
    let last =
        client.ok(json!({"op": "patch", "task": "t0", "set": {"parent": null}, "durability": "buffered"}));
    assert_eq!(last["durable"], false);
    assert_eq!(client.ok(json!({"op": "wait_durable", "ticket": last["ticket"]})), json!({}));
    client.fails(json!({"op": "wait_durable", "ticket": "x"}), "invalid");
    let page = client.ok(json!({"op": "list", "sort": "created", "limit": 2}));
    let ids = |page: &Value| {
        page["tasks"].as_array().unwrap().iter().map(|t| t["item"]["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&page), &page["total"]), (vec![json!("t2"), json!("t1")], &json!(3)));
    let rest = client.ok(json!({"op": "list", "sort": "created", "after": page["next"]}));
    assert_eq!((ids(&rest), &rest["next"]), (vec![json!("t0")], &Value::Null));
    assert_eq!(client.ok(json!({"op": "history", "task": "t0"})).as_array().unwrap().len(), 2);
    assert_eq!(client.ok(json!({"op": "tree", "task": "t0"})).as_array().unwrap().len(), 1);
    assert_eq!(client.ok(json!({"op": "totals", "task": "t0"}))["tasks"], 1);
    assert_eq!(client.ok(json!({"op": "workspaces"}))[0]["bound_to"], json!(["key k"]));
    assert_eq!(client.ok(json!({"op": "health"}))[0]["status"], "healthy");
    assert_eq!(client.ok(json!({"op": "check"})), json!([]));
    assert_eq!(client.ok(json!({"op": "orphans"})), json!([]));
    assert_eq!(client.ok(json!({"op": "mend_orphans", "unowned": true})), json!([]));
    let _ = client.ok(json!({"op": "flush"}));
    let _ = client.ok(json!({"op": "attach", "task": "t0"}));
    let told = client.ok(json!({"op": "sessions"}));
    assert_eq!((&told[0]["label"], &told[0]["holds"][0]["id"]), (&json!("holder"), &json!("t0")));
    fixture.run(&["attach", "t0", "--json"]).fails(3, "owned");
    let ops = client.ok(json!({"op": "hello"}))["ops"].take();
    for op in ops.as_array().unwrap() {
        // Each is known: what it says of a request without members is something else than that there is no such operation.
        let line = client.raw(&json!({"op": op}).to_string());
        assert!(!line.contains("there is no operation"), "{line}");
    }
    // The pipe lives, and may write a Mark meanwhile: whether looking changes anything is asked once it has ended.
    let session = fixture.run(&["who", "--json"]).json().remove(0);
    assert_eq!(session["state"], "alive");
    assert_eq!(client.ends(), Some(0));
    assert_eq!(fixture.look(&["who", "--json"]).json()[0]["state"], "dead");
}

/// Commits of any process come whole, once and in order, between the answers; from a cursor it goes on where it was.
#[test]
fn subscription_brings_what_any_process_commits() {
    let fixture = Fixture::empty();
    fixture.run(&["create", "t", "n=1", "--workspace", "key:k"]).ends(0);
    let mut client = Client::of(&fixture, &["--workspace", "key:k"]);
    let begun = client.ok(json!({"op": "subscribe", "from": "start"}));
    assert_eq!(begun["sub"], 1);
    let next = |client: &mut Client| -> Value { serde_json::from_str(&client.line()).unwrap() };
    let first = next(&mut client);
    let changes = &first["commit"]["changes"];
    assert_eq!(
        (&first["sub"], &changes[0]["id"], &changes[0]["kind"], changes.as_array().unwrap().len()),
        (&json!(1), &json!("t"), &json!("created"), 1)
    );
    // Another process's.
    fixture.run(&["set", "t", "n=2"]).ends(0);
    let second = next(&mut client);
    assert_eq!(second["commit"]["changes"][0]["changes"], json!([{"field": "n", "from": 1, "to": 2}]));
    // Its own come as well, in whatever order with the answers to its requests.
    client.send(r#"{"id":5,"op":"commit","ops":[{"op":"delegate","parent":"t","child":"c"},{"op":"attach","task":"c"}]}"#);
    let (a, b) = (next(&mut client), next(&mut client));
    let (answer, event) = if a.get("id").is_some() { (a, b) } else { (b, a) };
    assert_eq!((&answer["id"], answer.get("error")), (&json!(5), None));
    let told: Vec<_> = event["commit"]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["id"].clone(), c["kind"].clone()))
        .collect();
    assert_eq!(
        told,
        [("c", "created"), ("t", "delegated"), ("c", "attached")].map(|(id, kind)| (json!(id), json!(kind)))
    );
    assert_eq!(client.ok(json!({"op": "unsubscribe", "sub": 1})), json!({}));
    client.fails(json!({"op": "unsubscribe", "sub": 1}), "invalid");
    fixture.run(&["set", "t", "n=3"]).ends(0);
    // From where it was: the one that it has missed, and nothing before.
    let again = client.ok(json!({"op": "subscribe", "from": event["commit"]["cursor"], "durable": true}));
    assert_eq!((&again["sub"], &again["cursor"]), (&json!(2), &event["commit"]["cursor"]));
    let missed = next(&mut client);
    assert_eq!((&missed["sub"], &missed["commit"]["durable"]), (&json!(2), &json!(true)));
    assert_eq!(missed["commit"]["changes"][0]["changes"][0]["to"], 3);
    client.fails(json!({"op": "subscribe", "from": "yesterday"}), "invalid");
    client.fails(json!({"op": "subscribe", "workspace": "key:none"}), "not-found");
    assert_eq!(client.ends(), Some(0), "whoever is subscribed keeps it from ending");
}

#[test]
fn what_is_no_request_is_answered_and_nothing_else_suffers() {
    let fixture = Fixture::empty();
    let mut client = Client::of(&fixture, &[]);
    for line in [
        "x",
        "[]",
        "{}",
        r#"{"op":1}"#,
        r#"{"op":"nothing"}"#,
        r#"{"op":"get"}"#,
        r#"{"op":"get","taks":"t"}"#,
        r#"{"op":"create","item":{"id":"t"}}"#,
        r#"{"op":"create","workspace":"key:k","item":{"id":"../t"}}"#,
        r#"{"op":"create","workspace":"key:k","item":{"a":1}}"#,
        r#"{"op":"create","workspace":"key:k","item":{"id":"t","a":1,"a":2}}"#,
        r#"{"op":"patch","task":"t","set":[]}"#,
        r#"{"op":"commit","ops":[{"op":"get","task":"t"}]}"#,
        r#"{"op":"detach","task":"t","fence":"1"}"#,
        r#"{"op":"attach","task":"t","durability":"often"}"#,
        r#"{"op":"list","workspace":"key:k","sort":"luck"}"#,
        r#"{"op":"list"}"#,
    ] {
        let answer: Value = serde_json::from_str(&client.raw(line)).unwrap();
        assert!(
            ["invalid", "not-found"].contains(&answer["error"].as_str().unwrap_or_default()),
            "{line}: {answer}"
        );
    }
    let answer: Value = serde_json::from_str(&client.raw(r#"{"id":7,"op":"get","no":1}"#)).unwrap();
    assert_eq!((&answer["id"], &answer["error"]), (&json!(7), &json!("invalid")));
    client.fails(json!({"op": "get", "task": "t"}), "no-task");
    client.fails(json!({"op": "list", "workspace": "key:none"}), "not-found");
    assert_eq!(client.ends(), Some(0));
    // Bytes that are no text end it: what comes behind them cannot be told apart.
    let mut client = Client::of(&fixture, &[]);
    client.stdin.as_mut().unwrap().write_all(b"\xff\n").unwrap();
    assert!(client.line().contains("\"error\":\"invalid\""));
    assert_eq!(client.ends(), Some(0));
}

#[test]
fn reading_alone_makes_and_changes_nothing() {
    let fixture = Fixture::empty();
    fixture.run_in("p", &["create", "t"]).ends(0);
    let before = crate::support::tree(fixture.dir.path());
    let mut client = Client::of(&fixture, &["--read-only"]);
    assert_eq!(client.ok(json!({"op": "get", "task": "t"}))["revision"], 1);
    client.fails(json!({"op": "patch", "task": "t", "set": {"a": 1}}), "read-only");
    client.fails(json!({"op": "attach", "task": "t"}), "read-only");
    assert_eq!(client.ends(), Some(0));
    assert_eq!(crate::support::tree(fixture.dir.path()), before);
    let absent = Fixture::empty();
    absent.run(&["pipe", "--no-create", "--json"]).fails(3, "not-found");
}

/// The client that the page prints, as it stands there.
#[test]
fn client_of_the_page_works() {
    let page = include_str!("../../../../docs/pipe.md");
    let client = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let code =
        client.lines().skip_while(|line| !line.starts_with("class")).filter(|line| !line.is_empty()).count();
    assert!(code <= 30, "{code} lines");
    let fixture = Fixture::empty();
    let script = fixture.dir.path().join("client.py");
    let work = "
import sys
log = Foldlog(sys.argv[1], '--label', 'python')
log('create', workspace='key:k', item={'id': 't', 'n': 1})
receipt = log('patch', task='t', set={'n': 2})
assert receipt['durable'], receipt
assert log('get', task='t')['item'] == {'id': 't', 'n': 2}
try:
    log('get', task='none')
    raise SystemExit('no error')
except RuntimeError as e:
    assert str(e).startswith('no-task: '), e
assert log.close() == 0
print('well')
";
    std::fs::write(&script, format!("{client}{work}")).unwrap();
    let Some(python) = ["python3", "python"].into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    }) else {
        println!("not run: the client in docs/pipe.md needs python3");
        return;
    };
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_foldlog")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(folder.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let output =
        Command::new(python).arg(&script).arg(fixture.root()).env("PATH", path.unwrap()).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "well",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn documents_are_written_read_followed_and_resolved() {
    let fixture = Fixture::empty();
    let mut client = Client::of(&fixture, &[]);
    let mut ask = |op: &str, members: Value| {
        let mut request = json!({"id": 1, "op": op, "workspace": "key:p"});
        for (name, value) in members.as_object().unwrap() {
            request[name] = value.clone();
        }
        if request["global"] == json!(true) {
            request.as_object_mut().unwrap().remove("workspace");
        }
        client.send(&request.to_string());
        serde_json::from_str::<Value>(&client.line()).unwrap()
    };
    let first = ask("doc_put", json!({"name": "a", "kind": "k", "value": {"n": 1}}));
    let token = first["ok"]["documents"]["a"].clone();
    assert!(token.as_str().unwrap().starts_with("1."), "{first}");
    let patch = json!({"name": "a", "set": {"m": [1.50]}, "unset": ["n"], "expect_documents": {"a": token}});
    assert!(ask("doc_patch", patch.clone())["ok"]["durable"] == json!(true));
    let late = ask("doc_patch", patch);
    assert_eq!((&late["error"], &late["conflicts"][0]["item"]), (&json!("conflict"), &json!({"m": [1.5]})));
    let got = ask("doc_get", json!({"name": "a"}));
    assert_eq!((&got["ok"]["value"], &got["ok"]["kind"]), (&json!({"m": [1.5]}), &json!("k")));
    // With a task, all or nothing.
    let with_task =
        |id: &str| json!({"ops": [{"op": "create", "item": id}, {"op": "doc_delete", "name": "a"}]});
    assert!(ask("commit", with_task("t")).get("ok").is_some());
    assert_eq!(ask("commit", with_task("u"))["error"], json!("document-deleted"));
    assert_eq!(ask("get", json!({"task": "u"}))["error"], json!("no-task"));
    assert_eq!(ask("doc_resolve", json!({"name": "a"})), json!({"id": 1, "ok": null}));
    assert!(ask("doc_put", json!({"global": true, "name": "a", "value": 7})).get("ok").is_some());
    let found = ask("doc_resolve", json!({"name": "a"}));
    assert_eq!((&found["ok"]["value"], &found["ok"]["from"]), (&json!(7), &json!("global")));
    let back = json!({"name": "a", "value": 8});
    assert_eq!(ask("doc_put", back)["error"], json!("document-deleted"));
    let back = json!({"name": "a", "value": 8, "expect_documents": {"a": "absent"}});
    assert!(ask("doc_put", back).get("ok").is_some());
    assert_eq!(ask("doc_resolve", json!({"name": "a"}))["ok"]["from"], json!("workspace"));
    let listed = ask("doc_list", json!({"prefix": "a"}));
    assert_eq!((&listed["ok"]["documents"][0]["revision"], &listed["ok"]["next"]), (&json!(4), &Value::Null));
    let told = ask("doc_history", json!({"name": "a"}));
    let values: Vec<&Value> = told["ok"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!(values, [&json!({"n": 1}), &json!({"m": [1.5]}), &Value::Null, &json!(8)]);
    let sub = ask("subscribe", json!({"from": "start"}));
    assert!(sub.get("ok").is_some(), "{sub}");
    let mut revisions = Vec::new();
    while revisions.len() < 4 {
        let line: Value = serde_json::from_str(&client.line()).unwrap();
        let documents = line["commit"]["documents"].as_array().cloned().unwrap_or_default();
        revisions.extend(documents.iter().map(|one| one["revision"].as_u64().unwrap()));
    }
    assert_eq!(revisions, [1, 2, 3, 4]);
}
