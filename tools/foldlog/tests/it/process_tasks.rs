//! Eight users at once, each call a process of its own: nothing is lost, halved or brought back, and no rule is passed by.

use std::sync::Barrier;

use serde_json::Value;

use crate::support::{Fixture, Run};

const USERS: usize = 8;
/// Fields that each user sets on the one shared task, and steps that each adds to the one counter.
const FIELDS: usize = 8;
const STEPS: usize = 4;
/// Children that each user's own task waits for, one after the other.
const CHILDREN: usize = 4;
/// Tasks that some delete while others change them, and tasks whose status all of them want to change.
const RACES: usize = 8;
/// Most tries of one step: a user is beaten by each other user's steps at most.
const TRIES: usize = 4 * USERS * STEPS;

/// What a user's calls came to. Nobody fails in the middle: the others would wait for ever.
#[derive(Default)]
struct Diary {
    calls: usize,
    wrong: Vec<String>,
    removed: Vec<usize>,
    set: Vec<usize>,
}

struct User<'a> {
    fixture: &'a Fixture,
    n: usize,
    diary: Diary,
}

impl User<'_> {
    /// Makes a call that may be refused with one of these codes; whether it was not.
    fn call(&mut self, words: &[&str], refusals: &[&str]) -> (bool, Run) {
        let run = self.fixture.run(&[words, &["--json"]].concat());
        self.diary.calls += 1;
        let done = run.code == Some(0);
        let refused = run.code == Some(3)
            && refusals.iter().any(|code| run.err.starts_with(&format!("{{\"error\":\"{code}\"")));
        if !done && !refused {
            self.diary.wrong.push(format!("{words:?}: {:?} {}{}", run.code, run.out, run.err));
        }
        (done, run)
    }

    /// Reads the counter, adds one, and does so anew if somebody else has been quicker.
    fn step(&mut self) {
        for _ in 0..TRIES {
            let (_, seen) = self.call(&["show", "counter"], &[]);
            let Ok(seen) = serde_json::from_str::<Value>(&seen.out) else { return };
            let next = format!("n={}", seen["item"]["n"].as_u64().unwrap_or(0) + 1);
            let token = seen["token"].as_str().unwrap_or_default();
            if self
                .call(
                    &["set", "counter", &next, "--expect-revision", token, "--durability", "buffered"],
                    &["conflict"],
                )
                .0
            {
                return;
            }
        }
        self.diary.wrong.push(format!("{TRIES} tries were not enough for one step"));
    }

    fn work(mut self, barrier: &Barrier) -> Diary {
        let n = self.n;
        let own = format!("own{n}");
        barrier.wait();
        self.call(&["create", &own, "--workspace", "key:k", "--durability", "buffered"], &[]);
        for i in 0..FIELDS.max(STEPS).max(CHILDREN) {
            if i < FIELDS {
                let field = format!("f{n}x{i}={n}.{i}0");
                self.call(&["set", "shared", &field, "--durability", "buffered"], &[]);
            }
            if i < STEPS {
                self.step();
            }
            if i < CHILDREN {
                let child = format!("child{n}x{i}");
                self.call(&["delegate", &own, &child, "mode=x", "--durability", "buffered"], &[]);
                self.call(&["complete", &child, "--summary", &child, "--durability", "buffered"], &[]);
            }
        }
        for race in 0..RACES {
            barrier.wait();
            let doomed = format!("doomed{race}");
            if (n + race).is_multiple_of(2) {
                if self.call(&["rm", &doomed, "--durability", "buffered"], &["task-deleted"]).0 {
                    self.diary.removed.push(race);
                }
            } else {
                let field = format!("f{n}=1");
                if self.call(&["set", &doomed, &field, "--durability", "buffered"], &["task-deleted"]).0 {
                    self.diary.set.push(race);
                }
            }
            let moody = format!("moody{race}");
            let words: &[&str] = match (n + race) % 4 {
                0 => &["status", &moody, "interrupted"],
                1 => &["resume", &moody],
                2 => &["status", &moody, "completed"],
                _ => &["status", &moody, "active"],
            };
            self.call(words, &["status-refused"]);
        }
        self.diary
    }
}

#[test]
fn eight_users_lose_nothing_and_break_no_rule() {
    let fixture = Fixture::empty();
    let names = ["shared".to_owned(), "counter".to_owned()].into_iter();
    let races = (0..RACES).flat_map(|race| [format!("doomed{race}"), format!("moody{race}")]);
    for id in names.chain(races) {
        fixture.does(&["create", &id, "--workspace", "key:k", "--durability", "buffered"]);
    }
    let barrier = Barrier::new(USERS);
    let diaries: Vec<Diary> = std::thread::scope(|scope| {
        let start = |n| {
            let user = User { fixture: &fixture, n, diary: Diary::default() };
            let barrier = &barrier;
            scope.spawn(move || user.work(barrier))
        };
        let users: Vec<_> = (0..USERS).map(start).collect();
        users.into_iter().map(|user| user.join().unwrap()).collect()
    });
    for diary in &diaries {
        assert!(diary.wrong.is_empty(), "{:#?}", diary.wrong);
        assert!(diary.calls >= 40, "{}", diary.calls);
    }
    fixture.look(&["verify", "--json"]).ends(0);
    let show = |id: &str| fixture.run(&["show", id, "--json"]).ends(0).json().remove(0);
    let history = |id: &str| fixture.run(&["history", id, "--json"]).ends(0).json();

    let shared = show("shared");
    for (n, i) in (0..USERS).flat_map(|n| (0..FIELDS).map(move |i| (n, i))) {
        assert_eq!(shared["item"][format!("f{n}x{i}")].to_string(), format!("{n}.{i}"), "{shared}");
    }
    assert_eq!(shared["revision"], 1 + USERS * FIELDS);

    let steps: Vec<Value> =
        history("counter").iter().skip(1).map(|c| c["changes"][0]["to"].clone()).collect();
    assert_eq!(steps, (1..=USERS * STEPS).map(Value::from).collect::<Vec<_>>());

    for n in 0..USERS {
        let item = show(&format!("own{n}"))["item"].clone();
        let children: Vec<Value> = (0..CHILDREN).map(|i| format!("child{n}x{i}").into()).collect();
        assert_eq!(
            (&item["status"], &item["childIds"]),
            (&"active".into(), &children.clone().into()),
            "{item}"
        );
        assert_eq!((item.get("awaitingChildId"), item.get("delegatedToId")), (None, None), "{item}");
        let kinds: Vec<String> =
            history(&format!("own{n}")).iter().map(|c| c["kind"].as_str().unwrap().to_owned()).collect();
        let pairs = ["delegated", "child-returned"].repeat(CHILDREN);
        assert_eq!(kinds, [&["created"][..], &pairs].concat());
        for child in children {
            let item = show(child.as_str().unwrap())["item"].clone();
            assert_eq!(
                (&item["status"], &item["completionResultSummary"]),
                (&"completed".into(), &child),
                "{item}"
            );
        }
    }
    pairs_are_whole(&fixture);

    for race in 0..RACES {
        let id = format!("doomed{race}");
        let of = |list: fn(&Diary) -> &Vec<usize>| diaries.iter().filter(|d| list(d).contains(&race)).count();
        assert_eq!(of(|d| &d.removed), 1, "{id} is deleted once");
        let changes = history(&id);
        let kinds: Vec<&str> = changes.iter().map(|c| c["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            [&["created"][..], &vec!["patched"; of(|d| &d.set)], &["deleted"]].concat(),
            "{id}"
        );
        fixture.run(&["show", &id, "--json"]).fails(3, "task-deleted");
        status_follows_the_table(&history(&format!("moody{race}")));
    }
    let listed = fixture.run(&["tasks", "--json"]).ends(0).json();
    assert_eq!(listed.last().unwrap()["total"], 2 + RACES + USERS + USERS * CHILDREN);
}

/// Each half of a delegation or a return stands in one commit with the other.
fn pairs_are_whole(fixture: &Fixture) {
    let mut commits: std::collections::BTreeMap<u64, Vec<(String, String)>> =
        std::collections::BTreeMap::new();
    for line in fixture.run(&["dump", "--json", "--decode"]).ends(0).json() {
        let (Some(task), Some(event)) = (line["task"].as_str(), line["event"].as_object()) else { continue };
        let kind = event.keys().next().unwrap().clone();
        commits.entry(line["commit"]["first"].as_u64().unwrap()).or_default().push((kind, task.to_owned()));
    }
    let mut pairs = 0;
    for events in commits.values() {
        let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
        let whole = match kinds.as_slice() {
            ["created", "delegated"] | ["finished", "child-returned"] => true,
            halves => !halves.iter().any(|k| ["delegated", "finished", "child-returned"].contains(k)),
        };
        assert!(whole, "{events:?}");
        pairs += usize::from(kinds.len() == 2);
    }
    assert_eq!(pairs, 2 * USERS * CHILDREN);
}

fn status_follows_the_table(changes: &[Value]) {
    let mut status = "active".to_owned();
    for change in changes.iter().skip(1) {
        let to = change["changes"][0]["to"].as_str().unwrap().to_owned();
        assert_eq!(change["kind"], "status-changed");
        assert!(
            matches!(
                (status.as_str(), to.as_str()),
                ("active", "interrupted" | "completed") | ("interrupted", "active" | "completed")
            ),
            "{status} to {to}"
        );
        status = to;
    }
}
