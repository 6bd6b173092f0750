//! Any program of changes, with snapshots, compactions, kills and backups in between: whoever was there, whoever opens by a
//! snapshot, whoever replays what is left of the log, and whoever opens a backup come to the same state.
#![no_main]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arbitrary::Arbitrary;
use foldlog::event::{Field, Item, Patch, Status, TaskId, Value};
use foldlog::vfs::sim::{Profile, SimMachine};
use foldlog::view::Query;
use foldlog::{
    CommitOptions, CopyOptions, Durability, Housekeeping, Op, OpId, Options, Place, Recovery, Result, Store,
    TaskStore, Tasks,
};
use libfuzzer_sys::fuzz_target;

/// Longer programs find nothing that shorter ones do not, and take seconds.
const STEPS: usize = 40;

#[derive(Arbitrary, Debug)]
enum Step {
    Create {
        task: u8,
        parent: Option<u8>,
        again: bool,
    },
    Patch {
        task: u8,
        fields: Vec<(u8, i16)>,
        with_id: Option<u8>,
    },
    /// So many small changes of one task or of all in turn, which fill segments.
    Burst {
        task: u8,
        count: u8,
        turns: bool,
    },
    Rename {
        task: u8,
        title: u8,
    },
    Status {
        task: u8,
        status: u8,
    },
    Resume {
        task: u8,
    },
    Delegate {
        parent: u8,
        child: u8,
    },
    Complete {
        task: u8,
    },
    Remove {
        task: u8,
        cascade: bool,
    },
    Attach {
        task: u8,
    },
    Abandon {
        task: u8,
    },
    Snapshot,
    Compact,
    Reopen {
        killed: bool,
    },
    Backup,
}

fuzz_target!(|program: Vec<Step>| {
    let machine = SimMachine::new(Profile::Linux, 1);
    let mut place =
        Stand { process: "p0".into(), nth: 0, tasks: open(&machine, "p0", "/store", options()).unwrap() };
    let mut backups = 0;
    for step in program.iter().take(STEPS) {
        match step {
            Step::Snapshot => drop(place.tasks.workspace().snapshot().unwrap()),
            Step::Compact => compact(&place.tasks),
            Step::Reopen { killed } => place.reopen(&machine, *killed),
            Step::Backup if backups < 3 => {
                backups += 1;
                back_up(&machine, &place.tasks, backups);
            }
            Step::Backup => {}
            change => {
                place.change(change);
                continue;
            }
        }
        check(&machine, &place.tasks, step);
    }
    // Twice, so that there is something below the older one.
    for _ in 0..2 {
        let _ = place.tasks.workspace().snapshot().unwrap();
        place.change(&Step::Burst { task: 0, count: 1, turns: true });
    }
    compact(&place.tasks);
    check(&machine, &place.tasks, &Step::Compact);
    back_up(&machine, &place.tasks, 9);
});

struct Stand {
    process: String,
    nth: u32,
    tasks: Tasks,
}

fn id(task: u8) -> TaskId {
    TaskId::new(&format!("t{}", task % 12)).unwrap()
}

fn options() -> Options {
    TaskStore::options(Options::default().housekeeping(Housekeeping::Off))
        .segment_size(4096)
        .snapshot_after(u64::MAX)
}

fn open(machine: &SimMachine, process: &str, root: &str, options: Options) -> Result<Tasks> {
    let store = Store::open_on(Arc::new(machine.process(process)), Path::new(root), options)?;
    TaskStore::of(store).home(&Place::Key("fuzz".into()))
}

fn compact(tasks: &Tasks) {
    let _ = tasks.workspace().compact(&mut |_, _| ControlFlow::Continue(())).unwrap();
}

/// All of it: what the hash covers, and what programs are shown.
fn told(tasks: &Tasks) -> (String, Vec<String>) {
    let hash = tasks.read(|state, _| state.hash().to_string()).unwrap();
    let all = tasks.list(&Query::default()).unwrap();
    (hash, all.tasks.iter().map(|found| format!("{} {:?}", found.task.item.to_json(), found.token)).collect())
}

fn check(machine: &SimMachine, tasks: &Tasks, step: &Step) {
    let right = told(tasks);
    let reader = options().read_only(true);
    let by_snapshot = open(machine, "reader", "/store", reader.clone()).unwrap();
    assert_eq!(told(&by_snapshot), right, "who opens by a snapshot, after {step:?}");
    let replayed = open(machine, "replayer", "/store", reader.recovery(Recovery::Salvage)).unwrap();
    assert_eq!(told(&replayed), right, "who replays, after {step:?}");
}

fn back_up(machine: &SimMachine, tasks: &Tasks, nth: usize) {
    let right = told(tasks);
    let target = format!("/backup{nth}");
    let copier = machine.process("copier");
    let store = Store::open_on(Arc::new(copier), Path::new("/store"), options().read_only(true)).unwrap();
    let report = store.backup(&target, &CopyOptions::default()).unwrap();
    assert!(report.is_whole(), "{report:?}");
    let found = open(machine, "restorer", &target, options().read_only(true)).unwrap();
    assert_eq!(told(&found), right, "the backup");
}

impl Stand {
    fn reopen(&mut self, machine: &SimMachine, killed: bool) {
        self.nth += 1;
        self.process = format!("p{}", self.nth);
        if killed {
            machine.kill_all();
        }
        let next = || open(machine, &self.process, "/store", options());
        if killed {
            let tasks = next().unwrap();
            self.tasks = tasks;
        } else {
            // The last handle closes before another is there.
            self.tasks.workspace().flush().unwrap();
            let tasks = next().unwrap();
            self.tasks = tasks;
        }
    }

    /// Rules may refuse it; then nothing has happened.
    fn change(&self, step: &Step) {
        let tasks = &self.tasks;
        let mut options = CommitOptions::new().durability(Durability::Buffered);
        let op = match step {
            Step::Create { task, parent, again } => {
                let item =
                    Item::new(&id(*task)).with(Field::Ts, i64::from(*task)).with(Field::Task, "a title");
                let item = match parent {
                    Some(parent) => item.with(Field::ParentTaskId, id(*parent).as_str()),
                    None => item,
                };
                Op::Create { item, again: *again }
            }
            Step::Patch { task, fields, with_id } => {
                let patch = fields.iter().take(5).fold(Patch::new(), |patch, (field, value)| {
                    let number = i64::from(*value);
                    match field % 6 {
                        0 => patch.set(Field::Ts, number),
                        1 => patch.set(Field::TokensIn, number),
                        2 => patch
                            .set(Field::Mode, "m".repeat(usize::from(value.unsigned_abs() % 700)).as_str()),
                        3 => patch.set(Field::of(&format!("own{}", value % 4)), number),
                        4 => patch.unset(Field::of(&format!("own{}", value % 4))),
                        _ => patch.set(Field::Workspace, format!("/w{}", value % 3).as_str()),
                    }
                });
                if let Some(n) = with_id {
                    options = options.op_id(OpId([*n; 16]));
                }
                Op::Patch { id: id(*task), patch }
            }
            Step::Burst { task, count, turns } => {
                for n in 0..u16::from(count % 96) {
                    let which = if *turns { (n % 12) as u8 } else { *task };
                    let patch = Patch::new().set(Field::Ts, i64::from(n)).set(Field::TokensOut, i64::from(n));
                    let _ = tasks.patch(&id(which), patch, Durability::Buffered);
                }
                return;
            }
            Step::Rename { task, title } => {
                Op::Rename { id: id(*task), title: Value::text(format!("title {title}")) }
            }
            Step::Status { task, status } => {
                Op::SetStatus { id: id(*task), status: Status::ALL[usize::from(status % 4)] }
            }
            Step::Resume { task } => Op::Resume { id: id(*task) },
            Step::Delegate { parent, child } => {
                let child = Item::new(&id(*child)).with(Field::Task, "a child");
                Op::Delegate { parent: id(*parent), child }
            }
            Step::Complete { task } => Op::Complete { id: id(*task), summary: None },
            Step::Remove { task, cascade } => Op::Remove { ids: vec![id(*task)], cascade: *cascade },
            Step::Attach { task } => Op::Attach { id: id(*task) },
            Step::Abandon { task } => Op::Abandon { id: id(*task) },
            Step::Snapshot | Step::Compact | Step::Reopen { .. } | Step::Backup => return,
        };
        let _ = tasks.commit(vec![op], options);
    }
}
