//! `foldlog tasks`: lists, trees, pages, columns.

use foldlog::{Item, Place, TaskStore};

use crate::support::{Fixture, Run, command, start};

/// A store with these tasks in `key:one`.
fn with(items: &[&str]) -> Fixture {
    let fixture = Fixture::empty();
    create(&fixture, "one", items);
    fixture
}

fn create(fixture: &Fixture, key: &str, items: &[&str]) {
    let store = TaskStore::open(fixture.root(), crate::support::options()).unwrap();
    let home = store.home(&Place::Key(key.into())).unwrap();
    for item in items {
        let _ = home.create(Item::parse(item).unwrap(), foldlog::Durability::Buffered).unwrap();
    }
    home.workspace().clone().close().unwrap();
}

/// The ids of a list, and what its last line says.
fn ids(run: &Run) -> (Vec<String>, serde_json::Value) {
    let mut lines = run.json();
    let end = lines.pop().unwrap();
    (lines.iter().map(|line| line["item"]["id"].as_str().unwrap().to_owned()).collect(), end)
}

#[track_caller]
fn lists(fixture: &Fixture, words: &[&str], expected: &[&str]) {
    let run = fixture.look(&[&["tasks", "--json"], words].concat()).ends(0);
    assert_eq!(ids(&run).0, expected, "{words:?}");
}

const SOME: [&str; 5] = [
    r#"{"id":"a","ts":3000,"task":"z","totalCost":0.5,"tokensIn":1,"tokensOut":2,"size":10,"status":"interrupted"}"#,
    r#"{"id":"b","ts":5000,"task":"y","totalCost":1.5,"tokensIn":5,"size":5,"background":true}"#,
    r#"{"id":"c","ts":1000,"task":"x","totalCost":0.1,"tokensOut":1,"size":20,"parentTaskId":"a","status":"completed"}"#,
    r#"{"id":"d","ts":2000,"task":"w","parentTaskId":"a","background":false}"#,
    r#"{"id":"e","ts":4000,"task":"v","parentTaskId":"d","totalCost":0.25,"tokensIn":40}"#,
];

#[test]
fn json_lines_are_the_contract() {
    let fixture = with(&SOME[..1]);
    let run = fixture.look(&["tasks", "--json"]).ends(0);
    let epoch = run.json()[0]["epoch"].as_str().unwrap().to_owned();
    let seq = run.json()[0]["seq"].as_u64().unwrap();
    let (item, name) = (SOME[0], fixture.names().remove(0));
    let line = format!(
        r#"{{"item":{item},"revision":1,"seq":{seq},"epoch":"{epoch}","token":"1.{seq}.{epoch}","workspace":"{name}""#
    );
    assert_eq!(run.out, format!("{line}}}\n{{\"total\":1,\"next\":null}}\n"));
    let sums = r#""depth":0,"totals":{"tasks":1,"tokensIn":1,"tokensOut":2,"cacheWrites":0,"cacheReads":0,"totalCost":0.5,"size":10}"#;
    let tree = fixture.does(&["tasks", "--json", "--tree"]);
    assert_eq!(tree, format!("{line},{sums}}}\n{{\"total\":1,\"next\":null}}\n"));
    let none = fixture.does(&["tasks", "--json", "--status", "delegated"]);
    assert_eq!(none, "{\"total\":0,\"next\":null}\n");
}

#[test]
fn conditions_choose_and_orders_sort() {
    let fixture = with(&SOME);
    for (words, expected) in [
        ("", &["b", "e", "a", "d", "c"][..]),
        ("--sort time", &["b", "e", "a", "d", "c"]),
        ("--sort created", &["e", "d", "c", "b", "a"]),
        ("--sort changed", &["e", "d", "c", "b", "a"]),
        ("--sort cost", &["b", "a", "e", "c", "d"]),
        ("--sort tokens", &["e", "b", "a", "c", "d"]),
        ("--sort size", &["c", "a", "b", "d", "e"]),
        ("--sort title", &["e", "d", "c", "b", "a"]),
        ("--status active", &["b", "e", "d"]),
        ("--status completed", &["c"]),
        ("--status interrupted --sort title", &["a"]),
        ("--parent a", &["d", "c"]),
        ("--parent a --status active", &["d"]),
        ("--parent nobody", &[]),
        ("--background", &["b"]),
        ("--foreground", &["e", "a", "d", "c"]),
    ] {
        lists(&fixture, &words.split_whitespace().collect::<Vec<_>>(), expected);
    }
    fixture.does(&["set", "c", "mode=x"]);
    lists(&fixture, &["--sort", "changed", "--limit", "2"], &["c", "e"]);
    for wrong in ["--status gone", "--sort colour", "--limit 0", "--background --foreground"] {
        let words: Vec<&str> = ["tasks", "--json"].into_iter().chain(wrong.split(' ')).collect();
        fixture.look(&words).fails(2, "usage");
    }
}

#[test]
fn pages_join_into_the_whole_list() {
    let fixture = with(&SOME);
    for (several, trees) in [(false, false), (false, true), (true, false), (true, true)] {
        if several {
            create(&fixture, "two", &[r#"{"id":"c","ts":2500}"#, r#"{"id":"f","parentTaskId":"c"}"#]);
        }
        let tree: &[&str] = if trees { &["--tree"] } else { &[] };
        let whole = ids(&fixture.look(&[&["tasks", "--json"], tree].concat()).ends(0)).0;
        assert_eq!(whole.len(), if several { 7 } else { 5 });
        let (mut pages, mut after, mut rounds) = (Vec::new(), String::new(), 0);
        loop {
            let mut words = [&["tasks", "--json", "--limit", "1"], tree].concat();
            if !after.is_empty() {
                words.extend(["--after", &after]);
            }
            let (page, end) = ids(&fixture.look(&words).ends(0));
            assert_eq!(end["total"], whole.len());
            pages.extend(page);
            rounds += 1;
            match end["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => break,
            }
            assert!(rounds < 20, "pages that never end");
        }
        assert_eq!(pages, whole);
        if several {
            break;
        }
    }
    fixture.look(&["tasks", "--json", "--after", "gone"]).fails(3, "not-found");
}

#[test]
fn tree_puts_children_below_parents_with_sums() {
    let fixture = with(&SOME);
    let run = fixture.look(&["tasks", "--tree", "--json"]).ends(0);
    let mut lines = run.json();
    lines.pop();
    let seen: Vec<_> = lines
        .iter()
        .map(|line| {
            let sums = &line["totals"];
            let number = |key: &str| sums[key].as_f64().unwrap();
            (
                line["item"]["id"].as_str().unwrap(),
                line["depth"].as_u64().unwrap(),
                number("tasks"),
                number("tokensIn") + number("tokensOut"),
                number("totalCost"),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("b", 0, 1.0, 5.0, 1.5),
            ("a", 0, 4.0, 44.0, 0.85),
            ("d", 1, 2.0, 40.0, 0.25),
            ("e", 2, 1.0, 40.0, 0.25),
            ("c", 1, 1.0, 1.0, 0.1),
        ]
    );
    let people = fixture.look(&["tasks", "--tree"]).ends(0).out;
    let heads: Vec<&str> = people.lines().map(|line| line.split("  active").next().unwrap()).collect();
    assert!(heads[0].starts_with("TITLE") && heads[0].contains("ALL TOKENS"), "{people}");
    assert_eq!((heads[3].trim_end(), heads[4].trim_end()), ("  w", "    v"), "{people}");
    // The top is a page's measure, and what is below it goes with it.
    assert_eq!(ids(&fixture.run(&["tasks", "--tree", "--json", "--limit", "1", "--after", "b"])).0.len(), 4);
}

/// Links are data: an older layout may hold a parent that is gone, and tasks that are above themselves.
#[test]
fn cycle_and_dangling_parent_hide_nothing() {
    use foldlog::task::{ImportRecord, Op};
    let fixture = with(&[r#"{"id":"plain"}"#]);
    let store = TaskStore::open(fixture.root(), crate::support::options()).unwrap();
    let home = store.home(&Place::Key("one".into())).unwrap();
    let links = [("p", "q"), ("q", "r"), ("r", "p"), ("below", "q"), ("own", "own"), ("lost", "gone")];
    for (id, parent) in links {
        let item = Item::parse(&format!(r#"{{"id":"{id}","parentTaskId":"{parent}"}}"#)).unwrap();
        let record = ImportRecord {
            id: foldlog::TaskId::new(id).unwrap(),
            item,
            source: "test".into(),
            weak: Vec::new(),
            evidence: Vec::new(),
        };
        let _ = home.commit(vec![Op::Import(record)], foldlog::Durability::Buffered).unwrap();
    }
    drop((home, store));
    for words in [&["tasks", "--json"][..], &["tasks", "--json", "--tree"]] {
        let mut found = ids(&fixture.look(words).ends(0)).0;
        found.sort_unstable();
        assert_eq!(found, ["below", "lost", "own", "p", "plain", "q", "r"], "{words:?}");
    }
    assert_eq!(fixture.look(&["tasks", "--tree"]).ends(0).out.lines().count(), 8);
}

#[test]
fn columns_fit_the_width_and_nothing_is_cut_without_one() {
    let title = "a title that is far too long to stand in a narrow terminal, in full width: 日本語日本語";
    let id = "019fb786-503a-76ca-8708-fee1243c878d";
    let item = format!(
        r#"{{"id":"{id}","task":"{title}\nsecond line","ts":1784332598169,"tokensIn":12345,"totalCost":0.157,"size":2097152}}"#
    );
    let fixture = with(&[&item]);
    let table = |columns: Option<&str>| {
        let mut command = command();
        command.env("TZ", "AAA-5:30").arg("--store").arg(fixture.root()).arg("tasks");
        columns.iter().for_each(|columns| {
            command.env("COLUMNS", columns);
        });
        start(&mut command).ends(0).out
    };
    let whole = table(None);
    assert_eq!(
        whole.lines().last().unwrap(),
        format!("{title}  active  2026-07-18 05:26     12k  0.1570  2.0 MiB  {id}")
    );
    assert_eq!(table(Some("nonsense")), whole);
    for (columns, line) in [
        (
            "130",
            format!(
                "a title that is far too long to stand in…  active  2026-07-18 05:26     12k  0.1570  2.0 MiB  {id}"
            ),
        ),
        ("90", format!("a title t…  active  2026-07-18 05:26     12k  0.1570  {id}")),
        ("80", format!("a title that is…  active  2026-07-18 05:26  {id}")),
        ("60", format!("a title that …  active  {id}")),
        ("50", format!("a title tha…  {id}")),
        ("20", format!("…  {id}")),
    ] {
        assert_eq!(table(Some(columns)).lines().last().unwrap(), line, "{columns}");
        assert!(line.chars().count() <= columns.parse::<usize>().unwrap().max(39), "{columns}");
    }
}

#[test]
fn title_cannot_steer_the_terminal() {
    let fixture = with(
        &[
            r#"{"id":"a","ts":5,"task":"\u001b[2J\u009b1m\u202etxt\u2066\r\nnext"}"#,
            r#"{"id":"b","ts":4,"task":"\n \n  tab\there\u0007"}"#,
            r#"{"id":"c","ts":3,"task":"\ud83d"}"#,
            r#"{"id":"d","ts":2,"task":{"not":"text"}}"#,
            r#"{"id":"e","ts":1,"task":"","status":"unheard-of"}"#,
        ]
        .map(|item| item.replace("unheard-of", "active"))
        .each_ref()
        .map(String::as_str),
    );
    let run = fixture.look(&["tasks"]).ends(0);
    let titles: Vec<&str> =
        run.out.lines().skip(1).map(|line| line.split("  active").next().unwrap().trim_end()).collect();
    assert_eq!(
        titles,
        [
            r"\u{1b}[2J\u{9b}1m\u{202e}txt\u{2066}",
            r"tab\there\u{7}",
            r#""\\ud83d""#,
            r#"{"not":"text"}"#,
            "(no title)"
        ]
    );
    for words in [&["show", "a"][..], &["history", "a"], &["tasks", "--tree"], &["dump"]] {
        let run = fixture.look(words).ends(0);
        let bad =
            run.out.chars().find(|c| (c.is_control() && *c != '\n') || matches!(*c, '\u{202e}' | '\u{2066}'));
        assert_eq!(bad, None, "{words:?}");
    }
}

#[test]
fn all_workspaces_are_listed_in_one_order_and_one_can_be_chosen() {
    let fixture = with(&SOME[..2]);
    create(&fixture, "two", &[r#"{"id":"x","ts":4000,"task":"t"}"#]);
    fixture.does(&["set", "a", "mode=1"]);
    lists(&fixture, &[], &["b", "x", "a"]);
    // By when it happened: event numbers of two logs say nothing of each other.
    lists(&fixture, &["--sort", "changed"], &["a", "x", "b"]);
    lists(&fixture, &["--sort", "created"], &["x", "b", "a"]);
    lists(&fixture, &["--workspace", "key:two"], &["x"]);
    fixture.look(&["tasks", "--json", "--workspace", "key:absent"]).fails(3, "not-found");
    let people = fixture.look(&["tasks"]).ends(0).out;
    assert!(people.lines().next().unwrap().contains("WORKSPACE"), "{people}");
    assert!(people.contains("key two    x\n"), "{people}");
    // One that cannot be read keeps the others from nothing.
    std::fs::write(fixture.folder("two").join("META"), "no META").unwrap();
    let run = fixture.look(&["tasks", "--json"]).fails(3, "foreign");
    assert_eq!(ids(&run).0, ["b", "a"]);
    fixture.look(&["show", "x", "--json"]).fails(3, "foreign");
    assert_eq!(fixture.look(&["show", "a", "--json"]).fails(3, "foreign").json()[0]["revision"], 2);
}

#[test]
fn store_without_tasks_and_damage_are_told() {
    let fixture = Fixture::small();
    let run = fixture.look(&["tasks"]).ends(0);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", "there is no task like that\n"));
    fixture.damage("body 2");
    let run = fixture.look(&["tasks", "--json"]).ends(4);
    assert_eq!(run.out, "{\"total\":0,\"next\":null}\n");
    assert!(run.err.contains(r#""severity":"damage","code":"corrupt""#), "{}", run.err);
}
