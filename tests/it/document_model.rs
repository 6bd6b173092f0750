//! Documents against a reference of plain maps: whatever operations come, both say the same.
//!
//! The reference holds, for each name, its members or its text, its kind and its revision, and knows the rules from their
//! description. Two windows commit; in the end a third reads the log anew, and every history is held against the states
//! that were seen.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use foldlog::document::Documents;
use foldlog::event::{Field, Patch};
use foldlog::task::{CommitOptions, DocumentExpect, Op};
use foldlog::vfs::sim::{Profile, SimMachine};
use foldlog::{Durability, Revision, Token};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};

use super::documents::{name, on, options, text, value};

const NAMES: [&str; 3] = ["a", "a/b", "ü"];

#[derive(Clone, Debug)]
enum Cmd {
    Put { at: usize, kind: Option<usize>, value: Stands, again: bool },
    Patch { at: usize, set: Vec<(usize, usize)>, unset: Vec<usize> },
    Delete { at: usize },
}

/// A value: members, in order, or something that has none.
#[derive(Clone, Debug, PartialEq)]
enum Stands {
    Members(Vec<(usize, usize)>),
    Other(usize),
}

#[derive(Clone, Copy, Debug)]
enum Expecting {
    Any,
    Absent,
    Exists,
    Revision(u64),
    Token(usize),
}

type Step = (usize, Vec<Cmd>, Vec<(usize, Expecting)>);

/// What values there are: small ones, and one that goes to a blob.
fn texts(n: usize) -> String {
    match n {
        0 => "1.50".into(),
        1 => "\"\\u0041\"".into(),
        2 => "{\"k\": [1 ]}".into(),
        _ => format!("\"{}\"", "long".repeat(20_000)),
    }
}

impl Stands {
    fn text(&self) -> String {
        match self {
            Stands::Other(n) => format!("[{n}]"),
            Stands::Members(all) => {
                let all: Vec<String> = all.iter().map(|(m, n)| format!("\"m{m}\":{}", texts(*n))).collect();
                format!("{{{}}}", all.join(","))
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct One {
    /// `None` = it was deleted, or never there.
    value: Option<Stands>,
    kind: Option<usize>,
    revision: u64,
}

#[derive(Clone, Debug, Default)]
struct Reference {
    all: BTreeMap<usize, One>,
    /// What each state event left, by document.
    told: Vec<(usize, Option<String>)>,
}

impl Reference {
    fn one(&self, at: usize) -> One {
        self.all.get(&at).cloned().unwrap_or_default()
    }

    fn commit(
        &mut self,
        cmds: &[Cmd],
        expect: &[(usize, Expecting)],
        given: &[Vec<Token>],
    ) -> Result<(), &'static str> {
        let before = self.clone();
        let mut conflict = false;
        for (at, expecting) in expect {
            let one = before.one(*at);
            let token = |ago: usize| given[*at].iter().rev().nth(ago).map(|token| token.revision.0);
            let wanted = match expecting {
                Expecting::Any => continue,
                Expecting::Absent => {
                    conflict |= one.value.is_some();
                    continue;
                }
                Expecting::Exists => None,
                Expecting::Revision(more) => Some(one.revision + more),
                Expecting::Token(ago) => token(*ago),
            };
            if one.revision > 0 && one.value.is_none() {
                return Err("document-deleted");
            }
            conflict |= match wanted {
                Some(revision) => revision != one.revision,
                None => one.value.is_none(),
            };
        }
        if conflict {
            return Err("conflict");
        }
        for cmd in cmds {
            if let Err(code) = self.judge(cmd) {
                *self = before;
                return Err(code);
            }
        }
        Ok(())
    }

    fn judge(&mut self, cmd: &Cmd) -> Result<(), &'static str> {
        let at = match cmd {
            Cmd::Put { at, .. } | Cmd::Patch { at, .. } | Cmd::Delete { at } => *at,
        };
        let mut one = self.one(at);
        let deleted = one.revision > 0 && one.value.is_none();
        let before = one.clone();
        match cmd {
            Cmd::Put { again: false, .. } if deleted => return Err("document-deleted"),
            Cmd::Put { kind, value, .. } => {
                one.kind = kind.or(one.kind.filter(|_| !deleted));
                one.value = Some(value.clone());
            }
            _ if deleted => return Err("document-deleted"),
            _ if one.value.is_none() => return Err("no-document"),
            Cmd::Delete { .. } => one.value = None,
            Cmd::Patch { set, unset, .. } => {
                let Some(Stands::Members(all)) = &mut one.value else { return Err("invalid") };
                for (m, n) in set {
                    match all.iter_mut().find(|(known, _)| known == m) {
                        Some((_, now)) => *now = *n,
                        None => all.push((*m, *n)),
                    }
                }
                all.retain(|(m, _)| !unset.contains(m));
            }
        }
        if one != before || deleted {
            one.revision += 1;
            self.told.push((at, one.value.as_ref().map(Stands::text)));
            self.all.insert(at, one);
        }
        Ok(())
    }
}

fn op(cmd: &Cmd) -> Op {
    match cmd {
        Cmd::Put { at, kind, value: stands, again } => Op::PutDocument {
            name: name(NAMES[*at]),
            kind: kind.map(|kind| format!("kind {kind}").into()),
            value: value(&stands.text()),
            again: *again,
        },
        Cmd::Patch { at, set, unset } => {
            let field = |m: &usize| Field::of(&format!("m{m}"));
            let patch = set.iter().fold(Patch::new(), |patch, (m, n)| patch.set(field(m), value(&texts(*n))));
            let patch = unset.iter().fold(patch, |patch, m| patch.unset(field(m)));
            Op::PatchDocument { name: name(NAMES[*at]), patch }
        }
        Cmd::Delete { at } => Op::DeleteDocument { name: name(NAMES[*at]) },
    }
}

fn members() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..4usize, prop_oneof![12 => 0..3usize, 1 => Just(3)]), 0..4).prop_map(|all| {
        let mut once: Vec<(usize, usize)> = Vec::new();
        for (m, n) in all {
            if once.iter().all(|(known, _)| *known != m) {
                once.push((m, n));
            }
        }
        once
    })
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..NAMES.len();
    let stands =
        prop_oneof![4 => members().prop_map(Stands::Members), 1 => (0..3usize).prop_map(Stands::Other)];
    let cmd = prop_oneof![
        3 => (at(), prop::option::weighted(0.3, 0..2usize), stands, prop::bool::weighted(0.4))
            .prop_map(|(at, kind, value, again)| Cmd::Put { at, kind, value, again }),
        4 => (at(), members(), prop::collection::vec(0..4usize, 0..2)).prop_map(|(at, set, unset)| {
            let unset = unset.into_iter().filter(|m| set.iter().all(|(known, _)| known != m)).collect();
            Cmd::Patch { at, set, unset }
        }),
        1 => at().prop_map(|at| Cmd::Delete { at }),
    ];
    let expecting = prop_oneof![
        Just(Expecting::Any),
        Just(Expecting::Absent),
        Just(Expecting::Exists),
        (0..2u64).prop_map(Expecting::Revision),
        (0..3usize).prop_map(Expecting::Token),
    ];
    let expect = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec((at(), expecting), 1..3)];
    (0..2usize, prop::collection::vec(cmd, 1..4), expect)
}

fn run(steps: &[Step], tally: &RefCell<BTreeMap<&'static str, u64>>) -> TestCaseResult {
    let machine = SimMachine::new(Profile::Linux, 1);
    let windows: Vec<Documents> = ["p", "q"].map(|label| on(&machine, label, options())).into();
    let (mut reference, mut given) = (Reference::default(), vec![Vec::<Token>::new(); NAMES.len()]);
    for (by, cmds, expect) in steps {
        let mut asked = CommitOptions::from(Durability::Buffered);
        for (at, expecting) in expect {
            let expected = match expecting {
                Expecting::Any => DocumentExpect::Any,
                Expecting::Absent => DocumentExpect::Absent,
                Expecting::Exists => DocumentExpect::Exists,
                Expecting::Revision(more) => {
                    DocumentExpect::Revision(Revision(reference.one(*at).revision + more))
                }
                Expecting::Token(ago) => given[*at]
                    .iter()
                    .rev()
                    .nth(*ago)
                    .map_or(DocumentExpect::Exists, |t| DocumentExpect::At(*t)),
            };
            asked = asked.expect_document(&name(NAMES[*at]), expected);
        }
        let told = reference.commit(cmds, expect, &given);
        let answer = windows[*by].tasks().commit(cmds.iter().map(op).collect(), asked);
        let said = answer.as_ref().map_or_else(foldlog::Error::code, |_| "ok");
        prop_assert_eq!(said, told.err().unwrap_or("ok"), "{:?}", cmds);
        *tally.borrow_mut().entry(said).or_default() += 1;
        for (at, shown) in NAMES.iter().enumerate() {
            let one = reference.one(at);
            let found = windows[1 - by].get(shown).unwrap();
            prop_assert_eq!(
                found.as_ref().map(|f| f.document.value.to_json()),
                one.value.as_ref().map(Stands::text)
            );
            if let Some(found) = found {
                prop_assert_eq!(found.token.revision.0, one.revision);
                let kind = one.kind.map(|kind| format!("kind {kind}"));
                prop_assert_eq!(found.document.kind.as_deref(), kind.as_deref());
                if let Ok(done) = &answer
                    && let Some(token) = done.document(&name(shown))
                {
                    prop_assert_eq!(token, found.token);
                    given[at].push(token);
                }
            }
        }
    }
    let third = on(&machine, "r", options().read_only(true));
    let hashes: Vec<_> =
        windows.iter().chain([&third]).map(|all| all.read(|state, _| state.hash()).unwrap()).collect();
    prop_assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    for (at, shown) in NAMES.iter().enumerate() {
        prop_assert_eq!(text(&third, shown), reference.one(at).value.as_ref().map(Stands::text));
        let mine: Vec<_> =
            reference.told.iter().filter(|(of, _)| *of == at).map(|(_, text)| text.clone()).collect();
        let history = third.history(&name(shown)).unwrap_or_default();
        let value = |c: &foldlog::view::DocumentChange| {
            c.document.as_ref().map(|d| third.tasks().value(&d.value).unwrap().to_json())
        };
        prop_assert_eq!(history.iter().map(value).collect::<Vec<_>>(), mine);
    }
    Ok(())
}

#[test]
fn documents_and_reference_say_the_same() {
    let cases = if super::simulated::quick() { 60 } else { 400 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let tally = RefCell::new(BTreeMap::new());
    let steps = prop::collection::vec(step(), 20..=40);
    match TestRunner::new(config).run(&steps, |steps| run(&steps, &tally)) {
        Ok(()) => {
            println!("{tally:?}");
            let every = ["conflict", "document-deleted", "invalid", "no-document", "ok"];
            assert!(tally.borrow().keys().eq(&every), "an answer that never came");
        }
        Err(TestError::Fail(why, steps)) => panic!("{steps:#?}\n{why}"),
        Err(why) => panic!("{why}"),
    }
}
