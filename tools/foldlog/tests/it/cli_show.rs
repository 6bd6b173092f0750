//! `foldlog show`, `foldlog history`, and the decoded side of `foldlog dump`.

use crate::support::{Fixture, command, start};

/// A string's member. The text may hold what no parser decodes.
fn pick(run: &str, key: &str) -> String {
    let at = run.find(&format!("\"{key}\":\"")).unwrap() + key.len() + 4;
    run[at..].split('"').next().unwrap().to_owned()
}

#[test]
fn values_come_back_bit_for_bit() {
    let fixture = Fixture::empty();
    let (n, f, s, o, big) = (
        "n=18446744073709551615",
        "f=1.50",
        r#"s="\ud83d""#,
        "o={ \"b\" : -0 ,\r\n \"a\":[1e2]}",
        "z=123456789012345678901234567890",
    );
    fixture.run_in("p", &["create", "x", n, f, s, o, big, "w=bare word", "e=\"\""]).ends(0);
    let shown = fixture.look(&["show", "x", "--json"]).ends(0).out;
    let (epoch, name) = (pick(&shown, "epoch"), fixture.names().remove(0));
    // White space between tokens may not end the line.
    let item = r#"{"id":"x","n":18446744073709551615,"f":1.50,"s":"\ud83d","o":{ "b" : -0 ,   "a":[1e2]},"z":123456789012345678901234567890,"w":"bare word","e":""}"#;
    let rest =
        format!(r#""revision":1,"seq":3,"epoch":"{epoch}","token":"1.3.{epoch}","workspace":"{name}""#);
    assert_eq!(shown, format!("{{\"item\":{item},{rest}}}\n"));
    assert_eq!(epoch.len(), 16);
    assert!(fixture.does(&["tasks", "--json"]).starts_with(&format!("{{\"item\":{item},")));
    assert!(
        fixture.does(&["dump", "--json", "--decode"]).contains(&format!(r#""created":{{"item":{item},"#))
    );
    fixture.does(&["set", "x", "n=18446744073709551616", "f="]);
    let history = fixture.look(&["history", "x", "--json"]).ends(0).out;
    assert!(
        history.ends_with(
            "\"changes\":[{\"field\":\"n\",\"from\":18446744073709551615,\"to\":18446744073709551616},\
             {\"field\":\"f\",\"from\":1.50}]}\n"
        ),
        "{history}"
    );
}

#[test]
fn people_see_fields_aligned_and_large_values_shortened() {
    let fixture = Fixture::empty();
    let text = "ä".repeat(40_000);
    fixture.run_in("p", &["create", "x", "mode=code", "pi=3.10", "completionResultSummary=s"]).ends(0);
    let blob = format!("big={text}");
    fixture.does(&["set", "x", "middling=[\"0123456789012345678901234567890123456789\",\"0123456789012345678901234567890123456789\",\"0123456789012345678901234567890123456789\",\"0123456789012345678901234567890123456789\"]"]);
    let mut writer = command();
    writer.arg("--store").arg(fixture.root()).args(["set", "x", "big=@-"]);
    pipe(&mut writer, &text);
    let out = fixture.look(&["show", "x"]).ends(0).out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "task x");
    assert!(lines[1].starts_with(&format!("  workspace  {} (", fixture.names()[0])), "{out}");
    assert!(lines[2].starts_with("  revision   3, event "), "{out}");
    assert_eq!(lines[3], "  id                       \"x\"");
    assert_eq!(lines[5], "  pi                       3.10");
    assert!(lines[7].ends_with("… (173 bytes)"), "{out}");
    assert!(lines[8].ends_with("… (80002 bytes)"), "{out}");
    let full = fixture.look(&["show", "x", "--full"]).ends(0).out;
    assert!(full.contains(&text));
    // A value that is kept outside its event is loaded wherever it is printed as data.
    for words in [
        &["show", "x", "--json"][..],
        &["tasks", "--json"],
        &["history", "x", "--json"],
        &["history", "x", "--full"],
    ] {
        assert!(fixture.look(words).ends(0).out.contains(&text), "{words:?}");
    }
    assert!(fixture.look(&["history", "x"]).ends(0).out.contains("  big: (80002 bytes)\n"));
    let dumped = fixture.look(&["dump", "--json", "--decode", "--kind", "patched"]).ends(0).out;
    assert!(
        dumped.contains(r#""event":{"patched":{"set":{"big":{"blob":""#)
            && dumped.contains(r#"","len":80002}}}}"#),
        "{dumped}"
    );
    assert!(blob.len() > 80_000);
}

/// Runs a command with this on stdin.
#[track_caller]
fn pipe(command: &mut std::process::Command, text: &str) -> crate::support::Run {
    use std::io::Write as _;
    use std::process::Stdio;
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = crate::support::spawn(command);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    crate::support::Run::of(&child.wait_with_output().unwrap()).ends(0)
}

#[test]
fn value_from_stdin_is_read_as_one_on_the_command_line() {
    let fixture = Fixture::empty();
    let write = |words: &[&str], text: &str| {
        let mut command = command();
        command.current_dir(fixture.project("p")).arg("--store").arg(fixture.root()).args(words);
        pipe(&mut command, text)
    };
    write(&["create", "x", "f=@-"], "two\nlines\n");
    write(&["set", "x", "g=@-", "h=\"@-\""], "{\"a\":1.0}\n");
    assert!(fixture.does(&["show", "x", "--json"]).contains(r#""f":"two\nlines","g":{"a":1.0},"h":"@-"}"#));
    fixture.run(&["set", "x", "a=@-", "b=@-", "--json"]).fails(2, "usage");
}

#[test]
fn what_is_not_there_and_what_is_twice_is_told() {
    let fixture = Fixture::empty();
    fixture.run_in("p", &["create", "x"]).ends(0);
    fixture.run_in("p", &["create", "gone"]).ends(0);
    fixture.does(&["rm", "gone"]);
    for verb in ["show", "history"] {
        fixture.look(&[verb, "absent", "--json"]).fails(3, "no-task");
        fixture.look(&[verb, "a/b", "--json"]).fails(2, "invalid");
    }
    fixture.look(&["show", "gone", "--json"]).fails(3, "task-deleted");
    let run = fixture.look(&["history", "gone", "--json"]).ends(0);
    let last = &run.json()[1];
    assert_eq!(
        (&last["kind"], &last["live"], &last["revision"]),
        (&"deleted".into(), &false.into(), &2.into())
    );
    // A workspace that is named is the one, so an id can come to be in two.
    fixture.does(&["create", "x", "mode=other", "--workspace", "key:k"]);
    let run = fixture.look(&["show", "x", "--json"]).ends(1);
    let mut names: Vec<_> =
        run.json().iter().map(|line| line["workspace"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, fixture.names());
    let run = fixture.look(&["show", "x"]).ends(1);
    assert_eq!(run.out.matches("task x\n").count(), 2);
    assert!(run.err.contains("in 2 workspaces"), "{}", run.err);
    assert_eq!(fixture.look(&["history", "x", "--json"]).ends(1).json().len(), 2);
    assert_eq!(
        fixture.look(&["show", "x", "--workspace", "key:k", "--json"]).ends(0).json()[0]["item"]["mode"],
        "other"
    );
    fixture.run(&["set", "x", "a=1", "--json"]).fails(3, "cross-workspace");
    fixture.does(&["set", "x", "a=1", "--workspace", "key:k"]);
}

#[test]
fn history_says_when_who_what_and_from_what_to_what() {
    let fixture = Fixture::empty();
    fixture.run_in("p", &["create", "x", "mode=a"]).ends(0);
    fixture.does(&["set", "x", "mode=b", "t=null", "--op-id", "000102030405060708090a0b0c0d0e0f"]);
    fixture.does(&["rename", "x", "title"]);
    let json = fixture.look(&["history", "x", "--json"]).ends(0);
    let lines: Vec<&str> = json.out.lines().collect();
    let of = |line: &str, key: &str| pick(line, key);
    let (time, session, name) = (of(lines[1], "time"), of(lines[1], "session"), fixture.names().remove(0));
    let pid = json.json()[1]["writer"]["pid"].as_u64().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(time.len() == 27 && time.ends_with('Z') && session.len() == 16);
    assert_eq!(
        lines[1],
        format!(
            r#"{{"seq":5,"time":"{time}","workspace":"{name}","session":"{session}","writer":{{"label":"foldlog set","pid":{pid},"version":"{version}"}},"op_id":"000102030405060708090a0b0c0d0e0f","kind":"patched","revision":2,"live":true,"changes":[{{"field":"mode","from":"a","to":"b"}},{{"field":"t","to":null}}]}}"#
        )
    );
    let mut command = command();
    command.env("TZ", "AAA-5:30").arg("--store").arg(fixture.root()).args(["history", "x"]);
    let people = start(&mut command).ends(0).out;
    let lines: Vec<&str> = people.lines().collect();
    let (date, clock) = time.split_once('T').unwrap();
    let local = |at: &str| -> u32 {
        at.split(':').take(2).fold(0, |sum, part| sum * 60 + part.parse::<u32>().unwrap())
    };
    let shown = lines[4].split_once(' ').unwrap().1;
    assert!(lines[4].ends_with("  event 5  revision 2  patched"), "{people}");
    assert!(lines[4].starts_with("20") && date.starts_with("20"));
    assert_eq!((local(clock) + 330) % 1440, local(shown.get(..8).unwrap()), "{people}");
    assert_eq!(lines[5], format!("  by foldlog set (pid {pid}, foldlog {version}), session {session}"));
    assert_eq!(lines[6], "  as request 000102030405060708090a0b0c0d0e0f");
    assert_eq!(lines[7..9], ["  mode: \"a\" → \"b\"", "  t: null"]);
    assert!(people.ends_with("  task: \"title\"\n"), "{people}");
}

#[test]
fn dump_chooses_events_and_says_what_they_mean() {
    let fixture = Fixture::empty();
    fixture.run_in("p", &["create", "x", "mode=a"]).ends(0);
    fixture.does(&["delegate", "x", "y"]);
    fixture.does(&["complete", "y", "--summary", "ok"]);
    fixture.does(&["set", "x", "mode=", "childIds2=[]"]);
    fixture.does(&["status", "x", "interrupted"]);
    fixture.does(&["rm", "x", "--cascade"]);
    let dump = |words: &[&str]| fixture.look(&[&["dump", "--json"], words].concat()).ends(0);
    let of_x = dump(&["--task", "x", "--decode"]).json();
    let events: Vec<String> = of_x.iter().map(|line| line["event"].to_string()).collect();
    assert_eq!(
        events,
        [
            r#"{"created":{"again":false,"item":{"id":"x","mode":"a"}}}"#,
            r#"{"delegated":{"child":"y"}}"#,
            r#"{"child-returned":{"child":"y","summary":"ok"}}"#,
            r#"{"patched":{"set":{"childIds2":[]},"unset":["mode"]}}"#,
            r#"{"status-changed":{"cause":"set","from":"active","to":"interrupted"}}"#,
            r#"{"deleted":{}}"#,
        ]
    );
    // Without the switch the line is the format's own, to the byte.
    let plain = dump(&["--task", "x"]).out;
    let decoded = dump(&["--task", "x", "--decode"]).out;
    for (plain, decoded) in plain.lines().zip(decoded.lines()) {
        assert!(decoded.starts_with(&plain[..plain.len() - 1]) && plain.ends_with(r#""}}"#), "{plain}");
    }
    let kinds = |words: &[&str]| -> Vec<u64> {
        dump(words).json().iter().map(|l| l["kind"].as_u64().unwrap()).collect()
    };
    assert_eq!(kinds(&["--kind", "created", "--kind", "26"]), [16, 16, 26, 26]);
    assert_eq!(kinds(&["--task", "y", "--kind", "finished"]), [24]);
    assert_eq!(kinds(&["--kind", "session-started"]).len(), 6);
    fixture.look(&["dump", "--json", "--kind", "gossip"]).fails(2, "usage");
    fixture.look(&["dump", "--json", "--raw", "--task", "x"]).fails(2, "usage");
    let people = fixture.look(&["dump", "--task", "x"]).ends(0).out;
    assert!(
        people
            .contains("  created v1  task x r1  {\"item\":{\"id\":\"x\",\"mode\":\"a\"},\"again\":false}\n"),
        "{people}"
    );
    assert!(people.ends_with("  deleted v1  task x r6\n"), "{people}");
    // A kind that this release does not know is as it was.
    let small = Fixture::small();
    let line = small.look(&["dump", "--json", "--decode", "--kind", "300"]).ends(0).json().remove(0);
    assert_eq!((&line["event"], &line["body"]["hex"]), (&serde_json::Value::Null, &"626f64792030".into()));
}
