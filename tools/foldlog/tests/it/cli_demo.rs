//! `foldlog demo`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Run, foldlog};

/// A demo that is kept, and what it said.
struct Kept {
    dir: tempfile::TempDir,
    said: Value,
}

impl Kept {
    fn of(seed: u64) -> Kept {
        let dir = tempfile::tempdir().unwrap();
        let seed = seed.to_string();
        let keep = dir.path().join("demo");
        let run = foldlog(["demo", "--json", "--seed", &seed, "--keep", keep.to_str().unwrap()]).ends(0);
        assert_eq!((run.out.lines().count(), run.err.as_str()), (1, ""));
        let said = run.json().remove(0);
        Kept { dir, said }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("demo")
    }

    fn store(&self, words: &[&str]) -> Run {
        let store = self.path().join("store");
        foldlog(["--store", store.to_str().unwrap()].into_iter().chain(words.iter().copied()))
    }

    fn check(&self) -> Run {
        foldlog(["demo-check", self.path().to_str().unwrap()])
    }

    /// What of its tear follows from the seed.
    fn tear(&self) -> Value {
        let killed = &self.said["killed"];
        json!([killed["writer"], killed["commit"], killed["written"]])
    }

    fn segment(&self) -> PathBuf {
        let workspaces = self.path().join("store/workspaces");
        let workspace = fs::read_dir(workspaces).unwrap().next().unwrap().unwrap().path();
        let mut all = fs::read_dir(workspace.join("log")).unwrap();
        let only = all.next().unwrap().unwrap().path();
        assert!(all.next().is_none());
        only
    }

    /// The commits that were acknowledged, by their ledger.
    fn acknowledged(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("acknowledged.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get("ack").cloned()).collect()
    }
}

/// Three seeds: three tears, and each time nothing is lost, and what is printed is what new processes say.
#[test]
fn three_seeds_tear_three_writes_and_nothing_is_lost() {
    let mut tears = BTreeSet::new();
    for seed in [1, 2, 3] {
        let kept = Kept::of(seed);
        let said = &kept.said;
        let written = said["killed"]["written"].as_u64().unwrap();
        assert!(written > 0 && written < said["killed"]["of"].as_u64().unwrap());
        assert_eq!(said["healed"].as_array().unwrap().len(), 1, "{said}");
        assert_eq!((&said["healed"][0]["bytes"], &said["healed"][0]["frames"]), (&json!(written), &json!(0)));
        assert!(said["killed"]["others_after"].as_u64() > Some(20), "others were at work: {said}");
        assert!(tears.insert(written), "{written} bytes again, with seed {seed}");
        assert_eq!((&said["missing"], &said["wrong"], &said["verify"]), (&json!([]), &json!([]), &json!(0)));
        assert_eq!(said["acknowledged"], said["found"]);
        assert_eq!(said["acknowledged"], kept.acknowledged().len());
        assert!(said["acknowledged"].as_u64() > Some(60), "{said}");
        assert_eq!(said["tokens"], said["tokens_due"]);

        assert_eq!(kept.store(&["verify", "--json"]).ends(0).out, "");
        let tasks = kept.store(&["tasks", "--json"]).ends(0).json();
        assert_eq!(tasks.last().unwrap()["total"], said["tasks"]);
        let sum = |key: &str| tasks.iter().filter_map(|task| task["item"][key].as_u64()).sum::<u64>();
        assert_eq!(
            (&json!(sum("tokensIn")), &json!(sum("tokensOut"))),
            (&said["tokens_in"], &said["tokens_out"])
        );
        let cost: f64 = tasks.iter().filter_map(|task| task["item"]["totalCost"].as_f64()).sum();
        assert_eq!(json!(cost), said["total_cost"]);
        let stats = kept.store(&["stats", "--json"]).ends(0).json();
        for key in ["events", "commits", "bytes", "state_hash"] {
            assert_eq!(stats[0][key], said[key], "{key}");
        }
        // The bytes that were torn off are the start of a write, and the tasks of the sample are there.
        let raw = kept.store(&["dump", "--raw", "--json"]).ends(0);
        assert_eq!(raw.out.matches("recovery-mark").count(), 1);
        let title = kept.store(&["history", "1785920000000", "--json"]).ends(0);
        assert!(title.out.contains("Find out why the nightly build fails"), "{}", title.out);
        kept.check().ends(0);
    }
}

#[test]
fn same_seed_tears_the_same_write() {
    let (one, other) = (Kept::of(20), Kept::of(20));
    assert_eq!(one.tear(), other.tear());
    let what = |kept: &Kept| -> BTreeSet<(String, u64, String)> {
        let text = |ack: &Value, key: &str| ack[key].as_str().unwrap().to_owned();
        let step = |ack: &Value| (text(ack, "writer"), ack["step"].as_u64().unwrap(), text(ack, "op_id"));
        kept.acknowledged().iter().map(step).collect()
    };
    assert_eq!(what(&one), what(&other), "the same requests, whoever came first");
}

/// Without a place to keep it nothing stays, and what is printed is for people.
#[test]
fn demo_tells_its_story_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::support::command();
    command
        .args(["demo", "--seed", "5"])
        .env("TMPDIR", dir.path())
        .env("TMP", dir.path())
        .env("TEMP", dir.path());
    let run = crate::support::start(&mut command).ends(0);
    for part in [
        "foldlog demo, seed 5, in ",
        "12 tasks, 12 taken over, 12 read back and the same.",
        "_index.json was chosen (title)",
        "4 processes change the tasks at the same time",
        " was killed inside its commit no. ",
        "are in the log, each under its number and name.\n",
        "Verify: every byte checks; ",
        "ALL TOKENS",
        "foldlog demo --seed 5 --keep DIR",
    ] {
        assert!(run.out.contains(part), "{part:?} is not in\n{}", run.out);
    }
    assert!(!run.out.contains("MISSING") && !run.out.contains("WRONG"), "{}", run.out);
    assert_eq!(run.err, "");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn folder_that_holds_something_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine"), "x").unwrap();
    let path = dir.path().to_str().unwrap();
    foldlog(["demo", "--json", "--keep", path]).fails(3, "refused");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let below = dir.path().join("absent/demo");
    foldlog(["demo", "--json", "--keep", below.to_str().unwrap()]).fails(3, "not-found");
}

/// The demo can fail: a store whose last acknowledged commit is gone does not pass its check.
#[test]
fn acknowledged_commit_that_is_gone_is_named() {
    let kept = Kept::of(8);
    kept.check().ends(0);
    let last = kept.acknowledged().into_iter().max_by_key(|ack| ack["first"].as_u64()).unwrap();
    // As a disk would that had answered a sync and kept nothing: from where the frame began there are zeros.
    let frames = kept.store(&["dump", "--raw", "--json"]).ends(0).json();
    let mut frames = frames.iter().map(|line| &line["frame"]);
    let frame = frames.find(|frame| frame["seq"] == last["first"] && frame["kind"] == "commit").unwrap();
    let offset = frame["offset"].as_u64().unwrap();
    let segment = kept.segment();
    let bytes = fs::read(&segment).unwrap();
    let before = usize::try_from(offset).unwrap();
    let mut doctored = bytes[..before].to_vec();
    doctored.resize(bytes.len(), 0);
    fs::write(&segment, doctored).unwrap();
    let run = kept.check().ends(1);
    let report = &run.json()[0];
    assert_eq!(report["missing"].as_array().unwrap().len(), 1, "{report}");
    let missing = report["missing"][0].as_str().unwrap();
    assert!(missing.contains(last["op_id"].as_str().unwrap()), "{missing}");
    // And the log itself knows that something is gone.
    kept.store(&["verify"]).ends(4);
}

/// An update that another overwrites is found, although every commit stands in the log.
#[test]
fn overwritten_update_is_wrong() {
    let kept = Kept::of(9);
    kept.store(&["set", "1785900000000", "tokensIn=1"]).ends(0);
    let run = kept.check().ends(1);
    let report = &run.json()[0];
    assert_eq!((&report["missing"], report["wrong"].as_array().unwrap().len()), (&json!([]), 1), "{report}");
    assert!(report["wrong"][0].as_str().unwrap().contains("1785900000000"), "{report}");
}

#[test]
fn check_wants_the_folder_of_a_demo() {
    let dir = tempfile::tempdir().unwrap();
    foldlog(["demo-check", "--json", dir.path().to_str().unwrap()]).fails(3, "not-found");
    fs::write(Path::new(dir.path()).join("acknowledged.jsonl"), "{}\n").unwrap();
    foldlog(["demo-check", "--json", dir.path().to_str().unwrap()]).fails(3, "foreign");
}
