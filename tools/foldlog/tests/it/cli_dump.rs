//! `foldlog dump`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::{Fixture, command, fill, foldlog, options};

#[test]
fn json_lines_are_the_contract() {
    let fixture = Fixture::small();
    let run = fixture.look(&["dump", "--json"]).ends(0);
    assert_eq!(run.err, "");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.len(), 8);
    let name = fixture.folder("one").file_name().unwrap().to_str().unwrap().to_owned();
    let stamp = |line: &str, key: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value[key].as_str().unwrap().to_owned()
    };
    for (at, expected) in [
        (
            0,
            r#"{"seq":1,"commit":{"first":1,"count":1},"time":TIME,"workspace":NAME,"task":"t0","kind":300,"version":1,"revision":1,"op_id":null,"session":SESSION,"body":{"hex":"626f64792030"}}"#,
        ),
        (
            5,
            r#"{"seq":6,"commit":{"first":6,"count":1},"time":TIME,"workspace":NAME,"task":"t2","kind":300,"version":1,"revision":2,"op_id":null,"session":SESSION,"body":{"hex":"626f64792035"}}"#,
        ),
        (
            6,
            r#"{"seq":7,"commit":{"first":7,"count":2},"time":TIME,"workspace":NAME,"task":null,"key":{"kind":2,"name":"d\"1"},"kind":300,"version":1,"revision":1,"op_id":"abababababababababababababababab","session":SESSION,"body":{"hex":"00ff"}}"#,
        ),
        (
            7,
            r#"{"seq":8,"commit":{"first":7,"count":2},"time":TIME,"workspace":NAME,"task":null,"kind":300,"version":1,"revision":0,"op_id":"abababababababababababababababab","session":SESSION,"body":{"hex":"706c61696e"}}"#,
        ),
    ] {
        let time = stamp(lines[at], "time");
        assert!(time.len() == 27 && time.ends_with('Z'), "{time}");
        assert_eq!(stamp(lines[at], "session").len(), 16);
        let expected = expected
            .replace("TIME", &format!("\"{time}\""))
            .replace("NAME", &format!("\"{name}\""))
            .replace("SESSION", &format!("\"{}\"", stamp(lines[at], "session")));
        assert_eq!(lines[at], expected);
    }
}

#[test]
fn store_workspace_and_segment_give_the_same_events() {
    let fixture = Fixture::small();
    let events = |words: &[&str]| {
        let run = foldlog(words).ends(0);
        run.json().into_iter().map(|line| (line["seq"].clone(), line["body"].clone())).collect::<Vec<_>>()
    };
    let paths = [fixture.root(), fixture.folder("one"), fixture.segments("one").remove(0)];
    let [store, workspace, segment] =
        paths.each_ref().map(|path| events(&["dump", "--json", path.to_str().unwrap()]));
    assert_eq!(store.len(), 8);
    assert_eq!((&store, &store), (&workspace, &segment));
}

#[test]
fn from_leaves_out_what_comes_before_even_within_a_commit() {
    let fixture = Fixture::small();
    let run = fixture.look(&["dump", "--json", "--from", "8"]).ends(0);
    assert_eq!(run.json().iter().map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [8]);
}

#[test]
fn people_get_a_line_for_each_event_and_no_escapes() {
    let fixture = Fixture::small();
    let run = fixture.look(&["dump"]).ends(0);
    assert_eq!(run.out.lines().count(), 8, "{}", run.out);
    assert!(run.out.contains("kind 300 v1  task t0 r1  \"body 0\""), "{}", run.out);
    assert!(run.out.contains("document d\\\"1 r1  0x00ff"), "{}", run.out);
    assert!(!run.out.contains('\x1b'));
}

#[test]
fn raw_shows_frames_control_frames_and_the_end() {
    let fixture = Fixture::small();
    let run = fixture.look(&["dump", "--raw", "--json"]).ends(0);
    let lines = run.json();
    let kinds: Vec<_> =
        lines.iter().filter_map(|line| line["frame"]["kind"].as_str()).map(str::to_owned).collect();
    assert_eq!(kinds.first().map(String::as_str), Some("epoch"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "commit").count(), 7);
    assert_eq!(kinds.last().map(String::as_str), Some("mark"));
    let offsets: Vec<_> = lines.iter().filter_map(|line| line["frame"]["offset"].as_u64()).collect();
    assert_eq!(offsets[0], 256);
    let segment = &lines.last().unwrap()["segment"];
    assert_eq!((segment["verdict"].as_str(), segment["next_seq"].as_u64()), (Some("clean-end"), Some(9)));
    let people = fixture.look(&["dump", "--raw"]).ends(0).out;
    for text in
        ["ordinals 1 to 1, generation 0", "@256      epoch", "vouches up to", "clean-end: the file ends"]
    {
        assert!(people.contains(text), "{text} is not in\n{people}");
    }
}

#[test]
fn raw_shows_what_lies_behind_a_torn_tail() {
    let fixture = Fixture::small();
    let path = fixture.segments("one").remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"half a frame");
    std::fs::write(&path, bytes).unwrap();
    let run = fixture.look(&["dump", "--raw", "--json"]).ends(1);
    assert_eq!(run.json().last().unwrap()["segment"]["behind"]["bytes"], "68616c662061206672616d65");
    assert!(run.err.contains(r#""severity":"warning","code":"short-frame""#), "{}", run.err);
    assert_eq!(fixture.look(&["dump", "--json"]).ends(1).json().len(), 8);
}

#[test]
fn damage_is_passed_by_and_told() {
    let fixture = Fixture::small();
    let path = fixture.damage("body 2");
    for target in [fixture.root(), fixture.folder("one"), path.clone()] {
        let run = fixture.look(&["dump", "--json", target.to_str().unwrap()]).ends(4);
        let seqs: Vec<_> = run.json().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, [1, 2, 4, 5, 6, 7, 8]);
        let finding: serde_json::Value = serde_json::from_str(run.err.lines().next().unwrap()).unwrap();
        assert_eq!((finding["severity"].as_str(), finding["seq"].as_u64()), (Some("damage"), Some(3)));
    }
    // Damage is never kept quiet.
    assert!(fixture.look(&["dump", "--quiet"]).ends(4).err.starts_with("damage corrupt: "));
}

#[test]
fn workspace_without_meta_is_read_by_its_segments() {
    let fixture = Fixture::small();
    std::fs::remove_file(fixture.folder("one").join("META")).unwrap();
    let run = fixture.look(&["dump", "--json"]).ends(4);
    assert_eq!(run.json().len(), 8);
    assert!(run.err.contains(r#""code":"bad-meta""#), "{}", run.err);
}

#[test]
fn several_workspaces_are_told_apart_and_one_can_be_chosen() {
    let fixture = Fixture::small();
    let other = fixture.workspace("other", options());
    fill(&other, 2);
    other.close().unwrap();
    assert_eq!(fixture.look(&["dump", "--json"]).ends(0).json().len(), 10);
    let name = fixture.folder("other").file_name().unwrap().to_str().unwrap().to_owned();
    for word in ["key:other", name.as_str()] {
        assert_eq!(fixture.look(&["dump", "--json", "--workspace", word]).ends(0).json().len(), 2);
    }
    let people = fixture.look(&["dump"]).ends(0).out;
    assert_eq!(people.lines().filter(|line| line.starts_with("workspace ")).count(), 2);
    fixture.look(&["dump", "--json", "--workspace", "key:absent"]).fails(3, "not-found");
}

#[test]
fn closed_pipe_is_no_failure() {
    let fixture = Fixture::empty();
    let workspace = fixture.workspace("one", options());
    let _ = workspace
        .commit(foldlog::Durability::Buffered, |_, draft| {
            for n in 0..2000 {
                draft.push(foldlog::NewEvent::state(
                    crate::support::KIND,
                    1,
                    foldlog::Key::task(&n.to_string()),
                    vec![b'x'; 1000],
                ));
            }
            Ok(())
        })
        .unwrap();
    workspace.close().unwrap();
    let mut child = command()
        .args(["dump", "--json", "--store"])
        .arg(fixture.root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(r#"{"seq":1,"#));
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
