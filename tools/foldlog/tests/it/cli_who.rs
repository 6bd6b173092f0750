//! Who lives and who holds what: `who`, `attach`, `abandon`, `repair --orphans`, and changes by a fence.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Stdio};

use crate::support::{Fixture, Run, command};

/// A program that holds a task until its stdin ends, or it is killed.
struct Holder {
    child: Child,
    stdin: Option<ChildStdin>,
    fence: String,
}

impl Holder {
    fn of(fixture: &Fixture, id: &str) -> Holder {
        let mut command = command();
        command.arg("--store").arg(fixture.root()).args(["--json", "attach", id]);
        let mut child = crate::support::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).expect(&line);
        let fence = said["fences"][id].as_str().unwrap().to_owned();
        Holder { stdin: child.stdin.take(), child, fence }
    }

    fn ends(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }

    fn dies(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A parent that waits for a child.
fn delegated() -> Fixture {
    let fixture = Fixture::empty();
    fixture.run_in("p", &["create", "p"]).ends(0);
    fixture.run(&["delegate", "p", "c"]).ends(0);
    fixture
}

fn who(fixture: &Fixture) -> Vec<serde_json::Value> {
    fixture.look(&["who", "--json"]).ends(0).json()
}

fn status(fixture: &Fixture, id: &str) -> String {
    let shown = fixture.run(&["show", id, "--json"]).ends(0).json().remove(0);
    shown["item"]["status"].as_str().unwrap_or("active").to_owned()
}

fn at(line: &serde_json::Value, keys: &[&str]) -> Vec<serde_json::Value> {
    keys.iter().map(|key| line[*key].clone()).collect()
}

#[test]
fn holder_is_named_and_what_it_holds_is_refused_to_others() {
    let fixture = delegated();
    assert_eq!(who(&fixture), Vec::<serde_json::Value>::new(), "who owned nothing leaves nothing");
    let holder = Holder::of(&fixture, "c");
    let told = who(&fixture);
    assert_eq!(told.len(), 1);
    assert_eq!(
        at(&told[0], &["state", "label", "version"]),
        ["alive", "foldlog attach", env!("CARGO_PKG_VERSION")]
    );
    assert_eq!(told[0]["pid"], holder.child.id());
    assert_eq!(at(&told[0]["holds"][0], &["id", "fence", "status"]), ["c", holder.fence.as_str(), "active"]);
    let session = told[0]["session"].as_str().unwrap();
    assert!(holder.fence.ends_with(session), "{} {session}", holder.fence);
    let people = fixture.look(&["who"]).ends(0).out;
    assert!(
        people.starts_with("alive    foldlog attach, pid ") && people.contains("holds c (active), fence 1."),
        "{people}"
    );
    assert!(fixture.look(&["show", "c"]).ends(0).out.contains(&format!("held by    session {session}")));
    assert_eq!(fixture.look(&["show", "c", "--json"]).json()[0]["fence"], holder.fence.as_str());

    let refused = fixture.run(&["attach", "c", "--json"]).fails(3, "owned");
    assert!(refused.err.contains("foldlog attach (pid ") && refused.err.contains("alive"), "{}", refused.err);
    // Others may change what nobody else's run depends on; and on its behalf with its fence.
    fixture.run(&["set", "c", "note=x"]).ends(0);
    fixture.run(&["set", "c", "note=y", "--fence", &holder.fence]).ends(0);
    let older = format!("0.{session}");
    fixture.run(&["set", "c", "note=z", "--fence", &older, "--json"]).fails(3, "fenced");
    fixture.run(&["set", "c", "note=z", "--fence", "1"]).ends(2);
    assert_eq!(holder.ends(), Some(0));
    assert_eq!(fixture.look(&["show", "c", "--json"]).json()[0].get("fence"), None, "it was given back");
    let last: Vec<String> = fixture
        .look(&["history", "c"])
        .ends(0)
        .out
        .lines()
        .filter(|line| line.contains("tached"))
        .map(|line| line.split("  ").last().unwrap().to_owned())
        .collect();
    assert_eq!(last, [format!("attached (by the fence 1.{session})"), "detached (fence 1)".into()]);
}

#[test]
fn killed_holder_is_dead_and_the_next_change_mends_what_it_left() {
    let fixture = delegated();
    let holder = Holder::of(&fixture, "c");
    let plan = fixture.look(&["repair", "--orphans"]).ends(0);
    assert_eq!(plan.out, "no delegation is left without an end\n");
    holder.dies();
    assert_eq!(at(&who(&fixture)[0], &["state", "label"]), ["dead", "foldlog attach"]);
    let plan = fixture.look(&["repair", "--orphans", "--json"]).ends(1).json();
    assert_eq!(
        at(&plan[0], &["parent", "fault", "child", "owner", "mended"]),
        [serde_json::json!("p"), "child-orphaned".into(), "c".into(), "dead".into(), false.into()]
    );
    assert_eq!(
        (status(&fixture, "p"), status(&fixture, "c")),
        ("delegated".into(), "active".into()),
        "looking mends nothing"
    );
    fixture.run(&["set", "p", "note=x"]).ends(0);
    assert_eq!((status(&fixture, "p"), status(&fixture, "c")), ("active".into(), "interrupted".into()));
    let told = fixture.look(&["history", "c"]).ends(0).out;
    assert!(
        told.contains("status-changed (orphaned)") && told.contains("abandoned (held by session "),
        "{told}"
    );
    fixture.run(&["set", "p", "note=y"]).ends(0);
    assert_eq!(who(&fixture), Vec::<serde_json::Value>::new(), "nothing is the dead one's any more");
    fixture.look(&["verify"]).ends(0);
}

#[test]
fn delegation_that_nobody_runs_is_mended_on_request_alone() {
    let fixture = delegated();
    fixture.run(&["set", "p", "note=x"]).ends(0);
    assert_eq!(status(&fixture, "p"), "delegated");
    let plan = fixture.look(&["repair", "--orphans"]).ends(1);
    assert!(plan.out.ends_with(": p waits for c, which is active and which nobody runs\n"), "{}", plan.out);
    assert!(plan.err.contains("repair --orphans --apply"), "{}", plan.err);
    let done = fixture.run(&["repair", "--orphans", "--apply"]).ends(0);
    assert!(done.out.starts_with("mended: "), "{}", done.out);
    assert_eq!((status(&fixture, "p"), status(&fixture, "c")), ("active".into(), "interrupted".into()));
    assert_eq!(fixture.look(&["repair", "--orphans"]).ends(0).out, "no delegation is left without an end\n");
}

#[test]
fn session_without_a_trace_keeps_its_tasks_until_they_are_abandoned() {
    let fixture = delegated();
    Holder::of(&fixture, "c").dies();
    for entry in std::fs::read_dir(fixture.root().join("sessions")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let told = who(&fixture);
    assert_eq!(
        at(&told[0], &["state", "label", "started"]),
        [serde_json::json!("unknown"), "foldlog attach".into(), serde_json::Value::Null]
    );
    let left = fixture.run(&["repair", "--orphans", "--apply"]).ends(1);
    assert!(
        left.out.contains("whose session has left no trace") && left.err.contains("foldlog abandon"),
        "{} {}",
        left.out,
        left.err
    );
    fixture.run(&["attach", "c", "--json"]).fails(3, "owned");
    fixture.run(&["abandon", "c"]).ends(0);
    assert_eq!((status(&fixture, "p"), status(&fixture, "c")), ("active".into(), "interrupted".into()));
    assert_eq!(who(&fixture), Vec::<serde_json::Value>::new());
}

#[cfg(unix)]
#[test]
fn command_is_run_while_the_task_is_held_and_its_end_is_told() {
    let fixture = delegated();
    let attach = |script: &str| -> Run {
        let program = env!("CARGO_BIN_EXE_foldlog");
        let script = script.replace("foldlog", program);
        fixture.run(&["attach", "c", "--", "sh", "-c", &script])
    };
    let run = attach("foldlog set \"$FOLDLOG_TASK\" note=in --fence \"$FOLDLOG_FENCE\"; exit 7");
    let run = run.ends(7);
    assert!(run.out.contains("c: held by the fence 1.") && run.out.contains("revision 3"), "{}", run.out);
    // Taken away meanwhile: what the command sends late is refused, and so is the end.
    let run = attach("foldlog abandon c && foldlog set c note=late --fence \"$FOLDLOG_FENCE\"").ends(3);
    assert!(run.err.matches("has changed hands").count() == 2, "{}", run.err);
    let shown = fixture.look(&["show", "c", "--json"]).json().remove(0);
    assert_eq!((&shown["item"]["note"], shown.get("fence")), (&"in".into(), None));
    let killed = attach("kill -9 $$").ends(255);
    assert_eq!(killed.err, "");
    fixture.run(&["attach", "c", "--", "/no/such/program"]).ends(3);
    assert_eq!(fixture.look(&["show", "c", "--json"]).json()[0].get("fence"), None);
}
