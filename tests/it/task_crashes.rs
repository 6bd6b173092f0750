//! Power cuts and kills at every call of task commits: a delegation and its return, a value in a blob, a cascade.
//!
//! Whatever is left, parent and child agree, a cascade took all or nothing, a blob is whole wherever an item names it,
//! and what was acknowledged as durable is there.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;

use foldlog::event::{Field, Item, Patch, Status};
use foldlog::task::{Op, TaskStore, Tasks};
use foldlog::vfs::sim::{CrashModel, DiskState, Fill, Profile, Rng, SimMachine, SimProcess};
use foldlog::{Durability, Housekeeping, Options, Place, Status as Health, Store};

use super::simulated::{ROOT, quick};
use super::task_rules::id;

fn open(process: &SimProcess, create: bool) -> foldlog::Result<Tasks> {
    let options = Options::default().housekeeping(Housekeeping::Off).create(create);
    let store = Store::open_on(Arc::new(process.clone()), Path::new(ROOT), TaskStore::options(options))?;
    TaskStore::of(store).home(&Place::None)
}

const BELOW: [&str; 5] = ["r", "s1", "s2", "s11", "s12"];

fn base(profile: Profile) -> SimMachine {
    let machine = SimMachine::new(profile, 3);
    let tasks = open(&machine.process("founder"), true).unwrap();
    let create = |name: &str, parent: Option<&str>| {
        let made = Item::new(&id(name)).with(Field::Mode, "code");
        let item = parent.into_iter().fold(made, |item, parent| item.with(Field::ParentTaskId, parent));
        Op::Create { item, again: false }
    };
    let ops = vec![
        create("p", None),
        create("r", None),
        create("s1", Some("r")),
        create("s2", Some("r")),
        create("s11", Some("s1")),
        create("s12", Some("s1")),
    ];
    let _ = tasks.commit(ops, Durability::Durable).unwrap();
    tasks.workspace().clone().close().unwrap();
    drop(tasks);
    SimMachine::from_disk(&machine.disk().all_synced(), 4)
}

fn large(n: usize) -> String {
    format!("{n}").repeat(70_000)
}

/// One round: child `c{n}` comes, gets a title that is kept in a blob, and returns; in the first the cascade too.
fn steps(n: usize) -> Vec<(String, Op)> {
    let child = format!("c{n}");
    let title = Patch::new().set(Field::Task, large(n).as_str()).set(Field::TokensIn, 7_i64);
    let mut steps = vec![
        (format!("delegated {n}"), Op::Delegate { parent: id("p"), child: Item::new(&id(&child)) }),
        (format!("patched {n}"), Op::Patch { id: id(&child), patch: title }),
        (format!("returned {n}"), Op::Complete { id: id(&child), summary: Some("did it".into()) }),
    ];
    if n == 0 {
        steps.insert(1, ("removed".into(), Op::Remove { ids: vec![id("r")], cascade: true }));
    }
    steps
}

fn go(machine: &SimMachine, tasks: &Tasks, level: Durability) {
    for (mark, op) in (0..2).flat_map(steps) {
        if tasks.commit(vec![op], level).unwrap().durable {
            machine.mark(mark);
        }
    }
}

#[derive(Debug, Default)]
struct Told {
    states: usize,
    waiting: usize,
    returned: usize,
    blobs: usize,
    removed: usize,
}

fn examine(disk: &DiskState, marks: &[String], told: &mut Told) -> Result<(), String> {
    let machine = SimMachine::from_disk(disk, 77);
    let tasks = open(&machine.process("next"), false).map_err(|e| format!("opening: {e}"))?;
    if tasks.workspace().health().status != Health::Healthy {
        return Err(format!("{:?}", tasks.workspace().health()));
    }
    let findings = tasks.check().unwrap();
    if !findings.is_empty() {
        return Err(format!("{findings:?}"));
    }
    let marked = |mark: String| marks.contains(&mark);
    let get = |id: &str| {
        let found = tasks.get(id).map_err(|e| format!("{id}: {e}"))?;
        Ok::<_, String>(found.map(|snapshot| snapshot.task))
    };
    let parent = get("p")?.ok_or("the parent is lost")?;
    for n in 0..2 {
        let name = format!("c{n}");
        let waits = parent.awaiting().as_deref() == Some(name.as_str());
        let knows = parent.child_ids().iter().any(|child| **child == *name);
        let child = get(&name)?;
        match &child {
            None if knows || waits => return Err(format!("the parent knows {name}, which is not there")),
            None if marked(format!("delegated {n}")) => return Err(format!("{name} is lost")),
            None => {}
            Some(child) => {
                if !knows || child.parent().as_deref() != Some("p") {
                    return Err(format!("half of the delegation to {name}"));
                }
                if (child.status() == Status::Completed) == waits {
                    return Err(format!("half of the return of {name}"));
                }
                told.waiting += usize::from(waits);
                told.returned += usize::from(!waits);
                match child.text(&Field::Task) {
                    Some(title) if title != large(n) => return Err(format!("{name} has another title")),
                    Some(_) => told.blobs += 1,
                    None if marked(format!("patched {n}")) => {
                        return Err(format!("the title of {name} is lost"));
                    }
                    None => {}
                }
                if marked(format!("returned {n}")) && waits {
                    return Err(format!("the return of {name} is lost"));
                }
            }
        }
    }
    let left = BELOW.iter().filter(|id| tasks.get(id).unwrap().is_some()).count();
    if !(left == 0 || left == BELOW.len() && !marked("removed".into())) {
        return Err(format!("{left} of {} are left of a cascade", BELOW.len()));
    }
    told.removed += usize::from(left == 0);
    // What a crash left is no obstacle.
    let title = Patch::new().set(Field::Task, large(0).as_str());
    let _ = tasks.patch(&id("p"), title, Durability::Durable).map_err(|e| format!("going on: {e}"))?;
    told.states += 1;
    Ok(())
}

#[test]
fn every_crash_of_task_commits_leaves_whole_ones() {
    let models: [(Profile, CrashModel); 4] = [
        (Profile::Linux, CrashModel::adversarial()),
        (Profile::Linux, Profile::Linux.crash_model()),
        (Profile::Mac, Profile::Mac.crash_model().with_fill(Fill::Garbage)),
        (Profile::Windows, Profile::Windows.crash_model()),
    ];
    let mut told = Told::default();
    for (m, (profile, model)) in models.into_iter().enumerate() {
        for level in [Durability::Durable, Durability::Buffered] {
            let machine = base(profile);
            let process = machine.process("writer");
            let tasks = open(&process, false).unwrap();
            machine.record();
            go(&machine, &tasks, level);
            machine.kill(&process);
            let record = machine.take_record();
            let limit = if quick() { 4 } else { 16 };
            let (mut rng, mut seen) = (Rng::new(m as u64), std::collections::HashSet::new());
            for boundary in &record.boundaries {
                let marks = record.marks_at(boundary);
                let cuts = boundary.disk.crash_states_with(&model, limit, &mut rng);
                for disk in cuts.chain([boundary.disk.process_kill()]) {
                    if !seen.insert((disk.content_hash(), disk.boots(), marks.len())) {
                        continue;
                    }
                    examine(&disk, marks, &mut told).unwrap_or_else(|why| {
                        panic!(
                            "{why}\n  {level:?} on {profile:?}, before {:?}, {}, marks {marks:?}",
                            boundary.call,
                            disk.origin()
                        )
                    });
                }
            }
        }
    }
    println!("{told:?}");
    let least = if quick() { 100 } else { 500 };
    let Told { states, waiting, returned, blobs, removed } = told;
    assert!(
        states > least && [waiting, returned, blobs, removed].iter().all(|n| n * 10 > states),
        "{states}"
    );
}
