//! The control block, whatever stands in it: the same answers, at once with a whole block, within a second without.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use foldlog::log::{LogId, control, format};
use foldlog::vfs::sim::{
    Effect, Fault, Kill, Op, Outcome, Plan, Profile, Program, Rng, SimMachine, SimProcess,
};
use foldlog::vfs::{Open, Vfs, write_full};
use foldlog::{ControlUse, Durability, ErrorKind, Mapping, Options, Seq, Status, Store, Workspace};

use crate::counterexamples::{calls_of, long, worst_power_cut};
use crate::simulated::{
    ROOT, bodies, budget, file, last, log_of, machine_with, open_on, options, paths, put,
};

const SECOND: Duration = Duration::from_secs(1);

/// What is done to the block, or how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Intact,
    ByCalls,
    Mixed,
    Unmappable,
    Incoherent,
    Deleted,
    Zeroed,
    Random,
    RandomWords,
    OtherBoot,
    OtherLog,
    Short,
    Long,
    Replaced,
    Tail(u64),
    Dirty,
    Lanes,
    Talk,
}

const ALL: [Block; 20] = [
    Block::ByCalls,
    Block::Mixed,
    Block::Unmappable,
    Block::Incoherent,
    Block::Deleted,
    Block::Zeroed,
    Block::Random,
    Block::RandomWords,
    Block::OtherBoot,
    Block::OtherLog,
    Block::Short,
    Block::Long,
    Block::Replaced,
    Block::Tail(8),
    Block::Tail(1_000),
    Block::Tail(1 << 40),
    Block::Dirty,
    Block::Lanes,
    Block::Talk,
    Block::Intact,
];

impl Block {
    /// Whether a reader sees every commit at once all the same.
    fn tells(self) -> bool {
        matches!(self, Block::Intact | Block::ByCalls | Block::Mixed | Block::Unmappable)
    }

    fn options(self, who: usize) -> Options {
        let off = self == Block::ByCalls || self == Block::Mixed && who.is_multiple_of(2);
        options().segment_size(4096).lock_timeout(Duration::from_secs(5)).mapping(if off {
            Mapping::Off
        } else {
            Mapping::Auto
        })
    }

    fn prepare(self, machine: &SimMachine) {
        match self {
            Block::Unmappable => machine.set_maps(false),
            Block::Incoherent => machine.set_private_maps(),
            Block::OtherBoot => machine.set_boot_id(Some(77)),
            _ => {}
        }
    }

    /// Under whoever has it mapped.
    fn strike(self, machine: &SimMachine, path: &PathBuf, rng: &mut Rng) {
        let mut random = vec![0; 4096];
        rng.fill(&mut random);
        let word = |bytes: &mut Vec<u8>, at: u64, word: u64| {
            let at = usize::try_from(at).unwrap();
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        machine.with_disk(|disk| {
            let log = disk.read(path).and_then(|b| Some(LogId(b.get(16..32)?.try_into().unwrap())));
            let mutate = |disk: &mut foldlog::vfs::sim::DiskState, change: &dyn Fn(&mut Vec<u8>)| {
                // There may be none at this moment.
                let _ = disk.mutate(path, |b| {
                    if b.len() == 4096 {
                        change(b)
                    }
                });
            };
            match self {
                Block::Zeroed => mutate(disk, &|b| b.fill(0)),
                Block::Random => mutate(disk, &|b| b.copy_from_slice(&random)),
                Block::RandomWords => mutate(disk, &|b| b[64..].copy_from_slice(&random[64..])),
                Block::OtherBoot => mutate(disk, &|b| word(b, format::WORD_BOOT, 1)),
                Block::OtherLog => mutate(disk, &|b| b.copy_from_slice(&control::encode(LogId([7; 16])))),
                Block::Short => drop(disk.mutate(path, |b| b.truncate(100))),
                Block::Long => drop(disk.mutate(path, |b| b.resize(5000, 1))),
                Block::Replaced => {
                    let fresh = log.map_or_else(|| random.clone(), control::encode);
                    disk.plant(path, &fresh).unwrap();
                }
                Block::Tail(lpos) => mutate(disk, &|b| {
                    word(b, format::WORD_TAIL, control::position_word(log.unwrap(), lpos));
                }),
                Block::Dirty => mutate(disk, &|b| {
                    word(b, format::WORD_DIRTY, u64::from_le_bytes(random[..8].try_into().unwrap()))
                }),
                Block::Lanes => mutate(disk, &|b| {
                    for (i, at) in format::WORD_LANES.into_iter().enumerate() {
                        let value = u64::from_le_bytes(random[i * 8..i * 8 + 8].try_into().unwrap()) >> 16;
                        word(b, at, control::position_word(log.unwrap(), value));
                    }
                }),
                Block::Talk => mutate(disk, &|b| {
                    word(b, format::WORD_WANTED, 99);
                    word(b, format::WORD_HOLDER[0], 98);
                }),
                _ => {}
            }
        });
        if self == Block::Deleted {
            let _ = machine.process("somebody").unlink(path);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Commit(usize, Durability),
    Read(usize),
    Reopen(usize),
    Kill(usize),
    Tick(usize),
}

fn program(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let step = |rng: &mut Rng| {
        let who = rng.index(3);
        match rng.below(16) {
            0 | 1 => Step::Reopen(who),
            2 => Step::Kill(who),
            3 => Step::Tick(who),
            4..=7 => Step::Read(who),
            8..=10 => Step::Commit(who % 2, Durability::Durable),
            11 => Step::Commit(who % 2, Durability::Interval(50)),
            _ => Step::Commit(who % 2, Durability::Buffered),
        }
    };
    (0..40).map(|_| step(&mut rng)).collect()
}

/// A handle: two write, one reads.
struct Handle {
    process: SimProcess,
    open: Option<(Store, Workspace)>,
}

impl Handle {
    fn new(machine: &SimMachine, block: Block, who: usize) -> Handle {
        let process = machine.process(&format!("p{who}"));
        let open = open_on(&process, block.options(who).read_only(who == 2)).unwrap();
        Handle { process, open: Some(open) }
    }

    fn workspace(&self) -> &Workspace {
        &self.open.as_ref().unwrap().1
    }
}

/// What the processes of a program were told.
fn told(seed: u64, block: Block) -> Vec<String> {
    let machine = machine_with(Profile::Linux, seed, &["start"]);
    block.prepare(&machine);
    let path = paths(&machine.process("x")).control();
    let mut rng = Rng::new(seed ^ 0xB10C);
    let strikes: BTreeSet<usize> = (0..4).map(|_| rng.index(40)).collect();
    let mut handles: Vec<_> = (0..3).map(|who| Handle::new(&machine, block, who)).collect();
    let (mut told, mut durable) = (Vec::new(), vec!["start".to_owned()]);
    for (n, step) in program(seed).into_iter().enumerate() {
        if strikes.contains(&n) {
            block.strike(&machine, &path, &mut rng);
        }
        let text = match step {
            Step::Commit(who, level) => {
                let body = long(&n.to_string());
                match put(handles[who].workspace(), level, "a", &body) {
                    Ok(receipt) => {
                        if level == Durability::Durable {
                            assert!(receipt.durable);
                            durable.push(body);
                        }
                        format!("{} +{} {:?}", receipt.first, receipt.count, receipt.revisions)
                    }
                    Err(e) => e.to_string(),
                }
            }
            Step::Read(who) => {
                if !block.tells() {
                    machine.advance(SECOND);
                }
                let workspace = handles[who].workspace();
                format!("{} {:?}", last(workspace), workspace.health().status)
            }
            Step::Tick(who) => {
                format!("{:?}", handles[who].workspace().tick().map(drop).map_err(|e| e.code()))
            }
            Step::Reopen(who) => {
                handles[who].open = None;
                handles[who] = Handle::new(&machine, block, who);
                last(handles[who].workspace()).to_string()
            }
            Step::Kill(who) => {
                machine.kill(&handles[who].process);
                handles[who] = Handle::new(&machine, block, who);
                last(handles[who].workspace()).to_string()
            }
        };
        told.push(format!("{n} {step:?}: {text}"));
    }
    let auditor = machine.process("auditor");
    let all = bodies(&auditor);
    let (_, walk) = log_of(&auditor).unwrap();
    assert!(walk.damage.is_none(), "seed {seed}, {block:?}: {walk:?}");
    told.push(format!("{:?}", all.iter().map(|b| b.trim_end_matches('-')).collect::<Vec<_>>()));
    let after = worst_power_cut(&machine);
    let (_store, workspace) = open_on(&after.process("after"), options()).unwrap();
    assert_eq!(workspace.health().status, Status::Healthy, "seed {seed}, {block:?}");
    let left = bodies(&after.process("auditor"));
    assert_eq!(left, all[..left.len()], "seed {seed}, {block:?}: not a prefix");
    for body in durable {
        assert!(left.contains(&body), "seed {seed}, {block:?}: {body} was durable");
    }
    told
}

#[test]
fn answers_are_the_same_with_every_block() {
    for seed in 0..budget(24) {
        let intact = told(seed, Block::Intact);
        for block in ALL {
            let told = told(seed, block);
            for (with, without) in intact.iter().zip(&told) {
                assert_eq!(with, without, "seed {seed}, {block:?}");
            }
        }
    }
}

/// Three processes commit and read in any order, and somebody strikes at the block all the time.
#[test]
fn nobody_loses_or_waits_while_the_block_is_struck() {
    for (n, block) in (0..budget(3)).flat_map(|n| ALL.map(|block| (n, block))) {
        let seed = n * 100 + 7;
        let machine = machine_with(Profile::Linux, seed, &[]);
        block.prepare(&machine);
        let path = paths(&machine.process("x")).control();
        let acks = std::sync::Mutex::new((Vec::new(), Vec::new()));
        let mut programs: Vec<_> = (0..3)
            .map(|who| {
                let acks = &acks;
                Program::new(format!("p{who}"), move |process| {
                    let (_store, workspace) = open_on(&process, block.options(who)).unwrap();
                    let mut seen = Seq(0);
                    for n in 0..10 {
                        let level = if n % 3 == who % 3 { Durability::Durable } else { Durability::Buffered };
                        let body = long(&format!("{who}.{n}"));
                        let receipt = put(&workspace, level, "a", &body).unwrap();
                        let mut acks = acks.lock().unwrap();
                        acks.0.push((receipt.first, body.clone()));
                        if receipt.durable {
                            acks.1.push(body);
                        }
                        drop(acks);
                        let now = last(&workspace);
                        assert!(now >= seen && now >= receipt.first, "{now} after {seen}, {}", receipt.first);
                        seen = now;
                    }
                })
            })
            .collect();
        let striker = machine.clone();
        programs.push(Program::new("striker", move |process| {
            let mut rng = Rng::new(seed);
            for _ in 0..12 {
                process.sleep(Duration::from_micros(50 + rng.below(400)));
                if block == Block::Deleted {
                    let _ = process.unlink(&path);
                } else {
                    block.strike(&striker, &path, &mut rng);
                }
            }
        }));
        let run = machine.run(seed, programs, &Plan::new().step_limit(60_000));
        assert_eq!((run.panics(), &run.outcome), (vec![""; 0], &Outcome::Done), "{block:?}: {run}");
        let (mut acks, durable) = acks.into_inner().unwrap();
        acks.sort();
        let all = bodies(&machine.process("auditor"));
        let told: Vec<_> = acks.iter().map(|(_, body)| body.clone()).collect();
        assert_eq!(all, told, "{block:?}: {run}");
        let left = bodies(&worst_power_cut(&machine).process("auditor"));
        for body in durable {
            assert!(left.contains(&body), "{block:?}: {body} was durable; {run}");
        }
    }
}

fn set_word(machine: &SimMachine, at: u64, word: impl Fn(LogId) -> u64) {
    let path = paths(&machine.process("x")).control();
    machine
        .with_disk(|disk| {
            disk.mutate(&path, |bytes| {
                let log = LogId(bytes[16..32].try_into().unwrap());
                let at = usize::try_from(at).unwrap();
                bytes[at..at + 8].copy_from_slice(&word(log).to_le_bytes());
            })
        })
        .unwrap();
}

fn word(machine: &SimMachine, at: u64) -> u64 {
    let x = machine.process("x");
    let at = usize::try_from(at).unwrap();
    u64::from_le_bytes(file(&x, &paths(&x).control())[at..at + 8].try_into().unwrap())
}

/// Nothing new: one look at one word, and no system call. Something new: seen at once. A word that lies: within a second.
#[test]
fn reader_sees_a_commit_at_once_and_after_a_second_whatever_the_word_says() {
    for mapping in [Mapping::Auto, Mapping::Off] {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let (_w_store, writer) = open_on(&machine.process("w"), options()).unwrap();
        let (_r_store, reader) =
            open_on(&machine.process("r"), options().mapping(mapping).read_only(true)).unwrap();
        let _ = put(&writer, Durability::Buffered, "a", "1").unwrap();
        assert_eq!(last(&reader), Seq(2));
        let calls = || [Op::Read, Op::Stat, Op::Open, Op::Load].map(|op| machine.calls(op));
        let before = calls();
        assert_eq!(last(&reader), Seq(2));
        let [read, stat, open, load] = calls();
        let mapped = u64::from(mapping == Mapping::Auto);
        assert_eq!(
            [read, stat, open, load],
            [before[0] + 1 - mapped, before[1], before[2], before[3] + mapped]
        );
        for n in 3..20 {
            let _ = put(&writer, Durability::Buffered, "a", &n.to_string()).unwrap();
            let before = calls();
            assert_eq!(last(&reader), Seq(n));
            let [read, stat, open, load] = calls();
            assert_eq!(
                [stat, open],
                [before[1], before[2]],
                "what is told of is read, and nothing else is asked"
            );
            if mapping == Mapping::Auto {
                assert_eq!(read, before[0] + 1);
                assert!(load > before[3]);
            }
        }
        // The word is put back to what the reader knows, as a stale copy of the block would have it.
        let known = word(&machine, format::WORD_TAIL);
        let _ = put(&writer, Durability::Durable, "a", "20").unwrap();
        set_word(&machine, format::WORD_TAIL, |_| known);
        machine.advance(SECOND);
        assert_eq!(last(&reader), Seq(20), "{mapping:?}");
    }
}

/// A sync that is under way is waited for, and no other one is begun beside it, until it is believed to hang.
#[test]
fn second_lane_is_taken_when_the_first_hangs_and_not_before() {
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let x = machine.process("x");
    let hanging = x.open(&paths(&x).sync0(), Open::Lock).unwrap();
    assert!(hanging.try_lock().unwrap());
    let took = std::sync::Mutex::new(Duration::ZERO);
    let program = Program::new("p", |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let before = process.monotonic();
        assert!(put(&workspace, Durability::Durable, "a", "1").unwrap().durable);
        *took.lock().unwrap() = process.monotonic() - before;
    });
    let run = machine.run(1, vec![program], &Plan::new());
    assert_eq!((run.panics(), &run.outcome), (vec![""; 0], &Outcome::Done), "{run}");
    // By the simulated clock: five looks, 200 µs apart.
    let took = took.into_inner().unwrap();
    assert!((Duration::from_micros(800)..Duration::from_millis(50)).contains(&took), "{took:?}: {run}");
}

/// One in 65,536 random words passes its check; in a block that does not say any more whose it is, none counts.
#[test]
fn words_that_check_count_for_nothing_in_a_block_that_is_not_this_logs() {
    for at in [format::WORD_POISON, format::WORD_DURABLE] {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
        set_word(&machine, at, |log| control::position_word(log, 10 << 20));
        set_word(&machine, 0, |_| 0);
        let receipt = put(&workspace, Durability::Durable, "a", "2").unwrap();
        assert_eq!((receipt.first, workspace.health().status), (Seq(3), Status::Healthy));
        // And the next look at the paths says again whose block it is.
        machine.advance(SECOND);
        let _ = put(&workspace, Durability::Durable, "a", "3").unwrap();
        assert_ne!(word(&machine, 0), 0);
        assert_eq!(word(&machine, format::WORD_POISON), 0);
    }
}

/// A poison word without POISON is what a process leaves that could make no file: it is believed, and recovered from.
#[test]
fn poison_word_alone_is_believed_and_recovered_from() {
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let process = machine.process("w");
    let (_store, workspace) = open_on(&process, options()).unwrap();
    set_word(&machine, format::WORD_POISON, |log| control::position_word(log, 300));
    assert!(put(&workspace, Durability::Durable, "a", "1").unwrap().durable);
    assert_eq!(word(&machine, format::WORD_POISON), 0);
    assert!(process.stat(&paths(&process).poison()).is_err());
    let findings = workspace.health().findings;
    assert!(findings.iter().any(|finding| finding.code == "recovered"), "{findings:?}");
    let (_again_store, again) = open_on(&machine.process("again"), options()).unwrap();
    assert_eq!(again.health().status, Status::Healthy);
    assert!(put(&again, Durability::Durable, "a", "2").unwrap().durable);
}

/// As on Windows while somebody has the block open: it cannot be replaced. Who has one goes on with it.
#[test]
fn block_that_cannot_be_replaced_stays_in_force() {
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
    let x = machine.process("x");
    let control = paths(&x).control();
    x.unlink(&control).unwrap();
    let rubbish = x.open(&control, Open::Create).unwrap();
    write_full(&*rubbish, b"rubbish", 0).unwrap();
    let refuse = Effect::Fail(std::io::ErrorKind::PermissionDenied);
    machine.fault(Fault::on(Op::Rename, refuse).path(".new-control").always());
    for n in 3..8 {
        machine.advance(SECOND);
        assert_eq!(put(&workspace, Durability::Durable, "a", &n.to_string()).unwrap().first, Seq(n));
    }
    assert_eq!(workspace.health().control, ControlUse::Mapped);
    // Who has none reads, and cannot tell others of commits, so it makes none.
    let (_other_store, other) = open_on(&machine.process("other"), options()).unwrap();
    assert_eq!(last(&other), Seq(7));
    assert!(matches!(other.health().control, ControlUse::None { .. }));
    let refused = put(&other, Durability::Buffered, "a", "no").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Permission), "{refused}");
    machine.clear_faults();
    assert_eq!(put(&other, Durability::Durable, "a", "8").unwrap().first, Seq(8));
    assert_eq!(file(&x, &control).len(), 4096);
    assert!(
        !x.list(paths(&x).control().parent().unwrap()).unwrap().iter().any(|e| e.name.starts_with(".new"))
    );
}

#[test]
fn handles_say_how_they_share_the_block() {
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let usage = |options: Options| {
        let (_store, workspace) = open_on(&machine.process("w"), options).unwrap();
        workspace.health().control
    };
    let by_calls = |usage: ControlUse| match usage {
        ControlUse::ByCalls { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(usage(options()), ControlUse::Mapped);
    assert_eq!(usage(options().read_only(true)), ControlUse::Mapped);
    assert!(by_calls(usage(options().mapping(Mapping::Off))).contains("mapping is off"));
    machine.set_private_maps();
    assert!(by_calls(usage(options())).contains("do not see each other"));
    machine.set_maps(false);
    assert!(by_calls(usage(options())).contains("cannot be mapped"));
    assert!(by_calls(usage(options().read_only(true))).contains("cannot be mapped"));
    let x = machine.process("x");
    x.unlink(&paths(&x).control()).unwrap();
    assert!(matches!(usage(options().read_only(true)), ControlUse::None { .. }));
}

/// Nothing of the store is mapped where that is forbidden, not even to find out whether it could be.
#[test]
fn mapping_off_maps_nothing() {
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let before = machine.calls(Op::Map);
    let (_store, workspace) = open_on(&machine.process("w"), options().mapping(Mapping::Off)).unwrap();
    let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
    assert_eq!(machine.calls(Op::Map), before);
}

#[test]
fn locks_that_do_not_exclude_open_read_only() {
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let names = || -> Vec<String> {
        let entries = machine.process("x").list(&PathBuf::from(ROOT).join("sessions")).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    };
    let before = names();
    machine.set_locks_exclude(false);
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert!(store.barrier().unwrap().contains("locks do not exclude"), "{:?}", store.barrier());
    let refused = put(&workspace, Durability::Buffered, "a", "no").unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::ReadOnly { reason } if reason.contains("locks")),
        "{refused}"
    );
    assert_eq!(last(&workspace), Seq(1));
    assert_eq!(names(), before, "the session that could not be is gone");
    machine.set_locks_exclude(true);
    let (_store, workspace) = open_on(&machine.process("again"), options()).unwrap();
    let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
}

/// A kill at any call of an open leaves one file of the probe at most, and the next opener removes it.
#[test]
fn killed_probe_leaves_nothing_that_grows() {
    let start = machine_with(Profile::Linux, 1, &["0"]);
    let open = |process: SimProcess| drop(open_on(&process, options()));
    let probes = |machine: &SimMachine| {
        let entries = machine.process("x").list(&PathBuf::from(ROOT).join("sessions")).unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".probe")).count()
    };
    let mut left = 0;
    for at in 1..=calls_of(&start, open) {
        let machine = SimMachine::from_disk(&start.disk(), 7);
        let plan = Plan::new().kill("victim", at, Kill::After);
        let _ = machine.run(1, vec![Program::new("victim", open)], &plan);
        left += probes(&machine);
        // One opener finds its session dead and says so; the next removes what that left.
        for _ in 0..2 {
            let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
            let _ = workspace.commit(Durability::Buffered, |_, _| Ok(())).unwrap();
            drop(_store.live_sessions().unwrap());
        }
        assert_eq!(probes(&machine), 0, "killed after call {at}");
    }
    assert!(left > 3, "the probe was met {left} times");
}
