//! A bridge against what must be true of it: a user who saves, undoes, empties and removes a file at any of its calls, programs
//! that change the document, processes that are killed, calls that fail.
//!
//! Two things are checked after every step. What a user saved and is not in the file any more, although the user did not save
//! over it, is in the document's history, or there is a copy. And a member of the document that nobody put there through the
//! document came by an edit of a file that had the very value which the document had then.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use foldlog::Durability;
use foldlog::document::{Bridge, Documents};
use foldlog::event::{Field, Patch, Value};
use foldlog::task::DocumentExpect;
use foldlog::vfs::sim::{Effect, Fault, Op, Profile, Rng, SimMachine, SimProcess};
use foldlog::vfs::{Existing, Open, Vfs as _, read_full, write_full};

use super::bridge_faults::{FILE, copies, documents_on, save};
use super::documents::{name, value};
use super::hooked::Hooked;
use super::simulated::quick;

type Members = BTreeMap<String, String>;

/// What text says, where it is an object of strings.
fn members(text: &str) -> Option<Members> {
    serde_json::from_str(text).ok()
}

fn spelled(members: &Members) -> String {
    serde_json::to_string(members).unwrap()
}

/// A save: what stood there before in one way or another, and what it changed of that; `None` = it removed the member.
#[derive(Clone, Debug)]
struct Save {
    text: String,
    bases: Vec<Members>,
    /// How many changes the document had had.
    behind: usize,
}

impl Save {
    fn changed(&self, base: &Members) -> BTreeMap<String, Option<String>> {
        let Some(now) = members(&self.text) else { return BTreeMap::new() };
        let names: HashSet<&String> = now.keys().chain(base.keys()).collect();
        let differ = names.into_iter().filter(|name| now.get(*name) != base.get(*name));
        differ.map(|name| (name.clone(), now.get(name).cloned())).collect()
    }
}

/// The user, and all that is known of what was done.
struct User {
    process: SimProcess,
    rng: Rng,
    next: u64,
    /// All saves that ever were.
    saves: Vec<Save>,
    /// The one that is in the file, or was until somebody else wrote it.
    latest: Option<Save>,
    /// What the file last held that could be read, whoever wrote it.
    good: Vec<Members>,
    /// All that it ever held.
    contents: Vec<String>,
    /// How many saves there may be in one call of the bridge.
    patience: u32,
    history: usize,
    trace: Vec<String>,
}

fn read(process: &SimProcess) -> Option<String> {
    let file = process.open(Path::new(FILE), Open::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.stat().unwrap().len).unwrap()];
    let n = read_full(&*file, &mut bytes, 0).unwrap();
    bytes.truncate(n);
    Some(String::from_utf8(bytes).unwrap())
}

impl User {
    fn token(&mut self, by: &str) -> String {
        self.next += 1;
        format!("{by}{}", self.next)
    }

    /// Notes what is in the file.
    fn look(&mut self) {
        let Some(now) = read(&self.process) else { return };
        if !self.contents.contains(&now) {
            self.contents.push(now.clone());
        }
        if let Some(now) = members(&now)
            && self.latest.is_none()
        {
            self.good = vec![now];
        }
    }

    fn save(&mut self, at: &str) {
        // Whether what was saved before is still there is settled before it is saved over.
        let now = read(&self.process);
        if self.latest.as_ref().is_some_and(|latest| now.as_deref() != Some(&latest.text)) {
            return;
        }
        self.look();
        let base = now.as_deref().and_then(members);
        let mut bases = self.good.clone();
        bases.extend(base.clone().filter(|base| !bases.contains(base)));
        let mut text = match self.rng.below(12) {
            0 => String::new(),
            1 => "{\"a\":".into(),
            2 => {
                if self.process.unlink(Path::new(FILE)).is_ok() {
                    // A bridge may have seen it.
                    self.good = bases;
                    self.latest = None;
                    self.trace.push(format!("{at}: removed"));
                }
                return;
            }
            3 | 4 => {
                let at = self.rng.index(self.contents.len().max(1));
                self.contents.get(at).cloned().unwrap_or_default()
            }
            _ => {
                let mut next = base.or_else(|| bases.last().cloned()).unwrap_or_default();
                for _ in 0..=self.rng.below(2) {
                    let member = ["a", "b", "c", "d"][self.rng.index(4)].to_owned();
                    if self.rng.chance(1, 5) {
                        next.remove(&member);
                    } else {
                        let by = if self.rng.chance(1, 8) { "bad" } else { "u" };
                        let token = self.token(by);
                        next.insert(member, token);
                    }
                }
                spelled(&next)
            }
        };
        if self.rng.chance(1, 6) && members(&text).is_some() {
            text.push('\n');
        }
        if now.as_deref() == Some(&text) {
            return;
        }
        if self.rng.chance(1, 2) {
            save(&self.process, FILE, text.as_bytes());
        } else {
            let temporary = Path::new("/home/mine");
            let file = self.process.open(temporary, Open::Create).unwrap();
            write_full(&*file, text.as_bytes(), 0).unwrap();
            self.process.rename(temporary, Path::new(FILE), Existing::Replace).unwrap();
        }
        self.trace.push(format!("{at}: saved {text:?}"));
        let save = Save { text, bases: bases.clone(), behind: self.history };
        self.good = bases;
        self.saves.push(save.clone());
        self.latest = Some(save);
        self.look();
    }

    /// At a call of a bridge. Between its last look and its renaming there is no saving what is saved.
    fn interrupt(&mut self, op: Op, path: &Path) {
        let listed = self.process.list(Path::new("/home")).unwrap_or_default();
        let is_publishing = listed.iter().any(|entry| entry.name.contains("foldlog"));
        let is_looking = path == Path::new(FILE) && matches!(op, Op::Stat | Op::Read) || op == Op::Rename;
        if is_publishing && is_looking {
            return;
        }
        if self.patience > 0 && self.rng.chance(1, 40) {
            self.patience -= 1;
            let at = format!("  at {op:?} {}", path.display());
            self.save(&at);
        }
    }
}

struct Scene {
    machine: SimMachine,
    user: Arc<Mutex<User>>,
    rng: Rng,
    bridges: Vec<(SimProcess, Documents, Bridge)>,
    /// The document's revisions that came through the document.
    put: HashSet<u64>,
    syncs: [u64; 3],
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let machine = SimMachine::new(Profile::Linux, seed);
        let process = machine.process("user");
        process.create_dir(Path::new("/home")).unwrap();
        let user = User {
            process,
            rng: Rng::new(seed ^ 7),
            next: 0,
            saves: Vec::new(),
            latest: None,
            good: vec![Members::new()],
            contents: Vec::new(),
            patience: 0,
            history: 0,
            trace: Vec::new(),
        };
        let user = Arc::new(Mutex::new(user));
        let mut scene = Scene {
            machine,
            user,
            rng: Rng::new(seed),
            bridges: Vec::new(),
            put: HashSet::new(),
            syncs: [0; 3],
        };
        for _ in 0..2 {
            let bridge = scene.bridge();
            scene.bridges.push(bridge);
        }
        scene
    }

    fn bridge(&self) -> (SimProcess, Documents, Bridge) {
        let process = self.machine.process("bridge");
        let user = Arc::clone(&self.user);
        let vfs = Hooked::new(Arc::new(process.clone()), move |op, path| {
            if let Ok(mut user) = user.try_lock() {
                user.interrupt(op, path);
            }
        });
        let all = documents_on(vfs);
        all.tasks().validate_documents("state", |_, value| match value.to_json().contains("bad") {
            true => Err("it is bad".into()),
            false => Ok(()),
        });
        let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap().kind("state");
        (process, all, bridge)
    }

    fn step(&mut self) {
        let which = self.rng.index(self.bridges.len());
        let (process, all, bridge) = self.bridges[which].clone();
        match self.rng.below(10) {
            0..=1 => self.user.lock().unwrap().save("between"),
            2..=3 => {
                let member = ["a", "b", "c", "d"][self.rng.index(4)];
                let token = self.user.lock().unwrap().token("d");
                let patch = match self.rng.chance(1, 5) {
                    true => Patch::new().unset(Field::of(member)),
                    false => Patch::new().set(Field::of(member), value(&format!("{token:?}"))),
                };
                let done = all.patch(&name("state"), patch.clone(), DocumentExpect::Any, Durability::Durable);
                self.user.lock().unwrap().trace.push(format!("{which}: {patch:?}"));
                match done {
                    Ok(done) if done.count > 0 => {
                        self.put.insert(done.document(&name("state")).unwrap().revision.0);
                    }
                    Ok(_) => {}
                    Err(e) => assert_eq!(e.code(), "no-document", "{e}"),
                }
            }
            kind => {
                let at = ["home/", "home/.foldlog-", "quarantine", "paths", "LOCK"][self.rng.index(5)];
                let op = [Op::Create, Op::Write, Op::Rename, Op::Open, Op::Unlink, Op::SyncDir, Op::List]
                    [self.rng.index(7)];
                let effect = [
                    Effect::Fail(io::ErrorKind::PermissionDenied),
                    Effect::Fail(io::ErrorKind::StorageFull),
                    Effect::DoneButFails,
                ][self.rng.index(3)];
                let nth = 1 + self.rng.below(3);
                let mut told = format!("{which}: sync");
                match kind {
                    4 => {
                        told += &format!(", {op:?} of {at} {effect:?}");
                        self.machine.fault(Fault::on(op, effect).path(at).nth(nth).process("bridge"));
                    }
                    5 => {
                        told += &format!(", killed at {op:?} {nth}");
                        let deadly = Fault::on(op, Effect::DoneButFails).nth(nth).process("bridge");
                        self.machine.fault(deadly.deadly());
                    }
                    _ => {}
                }
                {
                    let mut user = self.user.lock().unwrap();
                    user.patience = 2;
                    user.trace.push(told);
                }
                // A kill unwinds the thread.
                let done = catch_unwind(AssertUnwindSafe(|| bridge.sync()));
                self.machine.clear_faults();
                let done = match done {
                    Ok(done) => done.map_err(|e| (e.code(), e.to_string())),
                    Err(panic) if process.is_alive() => resume_unwind(panic),
                    Err(_) => Err(("killed", String::new())),
                };
                let mut user = self.user.lock().unwrap();
                user.trace.push(format!("   {done:?}"));
                match &done {
                    Ok(synced) => {
                        self.syncs[0] += u64::from(synced.imported);
                        self.syncs[1] += u64::from(synced.exported);
                        self.syncs[2] += u64::from(!synced.kept.is_empty());
                    }
                    Err((code, told)) if kind > 5 => assert!(
                        ["bad-state-file", "document-refused", "unstable"].contains(code),
                        "{told}: {:#?}",
                        user.trace
                    ),
                    Err(_) => {}
                }
                drop(user);
                if !process.is_alive() || done.is_err() {
                    self.machine.kill(&process);
                    self.bridges[which] = self.bridge();
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        let mut user = self.user.lock().unwrap();
        // A third process, that nothing happens to.
        let all = super::documents::on(&self.machine, "checks", super::documents::options());
        let changes = all.history(&name("state")).unwrap_or_default();
        let states: Vec<(u64, Members)> = changes
            .iter()
            .map(|change| {
                let document = change.document.as_ref().unwrap();
                (change.revision.0, members(&Value::to_json(&document.value)).unwrap())
            })
            .collect();
        user.history = states.len();
        let copies = copies(&user.process);
        let now = read(&user.process);
        if let Some(latest) = user.latest.clone()
            && now.as_deref() != Some(&latest.text)
        {
            let is_taken = members(&latest.text).is_some()
                && latest.bases.iter().any(|base| {
                    let changed = latest.changed(base);
                    states.iter().skip(latest.behind.saturating_sub(1)).any(|(_, state)| {
                        changed.iter().all(|(member, value)| state.get(member) == value.as_ref())
                    })
                });
            assert!(
                is_taken || copies.contains(&latest.text),
                "{latest:?} is lost; now {now:?}, {copies:?}\n{:#?}",
                user.trace
            );
            user.latest = None;
        }
        user.look();
        for pair in states.windows(2) {
            let [(_, before), (revision, after)] = pair else { continue };
            if self.put.contains(revision) {
                continue;
            }
            let names: HashSet<&String> = before.keys().chain(after.keys()).collect();
            for member in names.into_iter().filter(|member| before.get(*member) != after.get(*member)) {
                let is_edit = user.saves.iter().any(|save| {
                    save.bases.iter().any(|base| {
                        base.get(member) == before.get(member)
                            && save.changed(base).get(member) == Some(&after.get(member).cloned())
                    })
                });
                assert!(
                    is_edit,
                    "{member} went from {:?} to {:?} at {revision} by nobody's edit\n{:#?}",
                    before.get(member),
                    after.get(member),
                    user.trace
                );
            }
        }
    }

    /// Nothing goes wrong any more: both come to rest.
    fn rest(mut self) -> [u64; 3] {
        let (_, all, bridge) = self.bridge();
        self.user.lock().unwrap().patience = 0;
        let mut last = Ok(());
        for _ in 0..4 {
            last = bridge.sync().map(|synced| {
                self.syncs[0] += u64::from(synced.imported);
            });
            self.check();
        }
        let user = self.user.lock().unwrap();
        if let Some(found) = all.get("state").unwrap() {
            last.unwrap();
            let now = read(&user.process).unwrap();
            let document = found.document.value.to_json();
            // What came back after it was set aside stays.
            assert!(
                members(&now) == members(&document) || copies(&user.process).contains(&now),
                "{now:?} {document:?}\n{:#?}",
                user.trace
            );
        }
        self.syncs
    }
}

#[test]
fn nothing_that_was_saved_or_acknowledged_is_lost() {
    let (from, many) = match std::env::var("FOLDLOG_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed, 1),
        None => (0, if quick() { 60 } else { 2_000 }),
    };
    let mut all = [0; 3];
    for seed in from..from + many {
        println!("FOLDLOG_SEED={seed}");
        let mut scene = Scene::new(seed);
        for _ in 0..40 {
            scene.step();
        }
        for (sum, n) in all.iter_mut().zip(scene.rest()) {
            *sum += n;
        }
    }
    println!("imported, exported, kept: {all:?}");
    assert!(many == 1 || all.iter().all(|n| *n > many), "{all:?}");
}
