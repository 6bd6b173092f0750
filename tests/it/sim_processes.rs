//! Many processes on one store, one call at a time in an order that a seed decides, killed, stopped, starved of space,
//! with failing syncs and power cuts, several crashes in a row. Then a survivor looks at what is there.
//!
//! A failing seed prints the command that runs it alone. `FOLDLOG_SIM_SCHEDULES` sets how many schedules are run,
//! `FOLDLOG_SIM_SEED` runs one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use foldlog::vfs::sim::{
    CrashModel, Effect, Fault, Op, Outcome, Plan, Profile, Program, Rng, SimMachine, SimProcess,
};
use foldlog::vfs::{Vfs, os::Os};
use foldlog::{
    Durability, Error, ErrorKind, Expect, Key, OpId, Options, Result, Seq, State, Status, Store, Workspace,
};
use parking_lot::Mutex;

use crate::simulated::{
    Item, budget, log_of, note, open_on, options, paths, prefix_hashes, quick, revisions_count_up,
};

/// Schedules run by default, and fewest that the test may come down to, whatever becomes of the budgets.
const SCHEDULES: u64 = 15_000;
const SCHEDULES_MIN: u64 = 200;
/// What a survivor may take to open the store and commit at every level.
const SURVIVOR_STEPS: u64 = 3_000;

#[derive(Clone, Debug)]
struct Ack {
    token: String,
    first: Seq,
    revisions: Vec<u64>,
    durable: bool,
    boot: u64,
}

#[derive(Debug)]
struct Seen {
    boot: u64,
    who: String,
    last: u64,
    epochs: Vec<(Seq, u64)>,
    hash: blake3::Hash,
}

struct Writer {
    process: SimProcess,
    /// A commit of it was acknowledged: it is listed as a witness.
    listed: bool,
    /// The epochs that anybody knew of when it opened the store, and how many had opened it by then; whether it was alone.
    epochs: HashSet<u64>,
    opened: u64,
    alone: bool,
}

/// What everybody has been told, and what nobody was told.
#[derive(Default)]
struct Book {
    boot: u64,
    tokens: HashMap<String, usize>,
    refused: HashSet<String>,
    acks: Vec<Ack>,
    seen: Vec<Seen>,
    /// The writers whose session may be alive, and how many there have ever been.
    writers: BTreeMap<String, Writer>,
    opened: u64,
    epochs: HashSet<u64>,
    faults: bool,
    linger: bool,
    windows: bool,
}

/// One phase's shared notes. Its lock is held over no call.
type Notes = Mutex<Book>;

fn alive(book: &Book, but: &str, is: impl Fn(&Writer) -> bool) -> Vec<String> {
    let others = book.writers.iter().filter(|(name, w)| *name != but && is(w) && w.process.is_alive());
    others.map(|(name, _)| name.clone()).collect()
}

/// Which failures a schedule may meet. Damage, replacement, foreign files and versions are never among them.
fn expected(error: &Error, book: &Notes) -> bool {
    match error.kind() {
        ErrorKind::Busy { .. }
        | ErrorKind::DurabilityLost { .. }
        | ErrorKind::NotDurable { .. }
        | ErrorKind::NotYet => true,
        ErrorKind::NoSpace | ErrorKind::Io => book.lock().faults,
        _ => false,
    }
}

fn look(book: &Notes, who: &str, workspace: &Workspace, last: &mut u64) {
    let seen = workspace.read(|state: &State| (state.last().0, state.epochs().to_vec(), state.hash()));
    match seen {
        Ok((seq, epochs, hash)) => {
            assert!(seq >= *last, "{who} has seen event {last}, and now the log ends at {seq}");
            *last = seq;
            let mut book = book.lock();
            let boot = book.boot;
            book.epochs.extend(epochs.iter().map(|(_, epoch)| *epoch));
            book.seen.push(Seen { boot, who: who.into(), last: seq, epochs, hash });
        }
        Err(e) => assert!(expected(&e, book), "{who} reads: {e}"),
    }
    let health = workspace.health();
    assert!(
        matches!(health.status, Status::Healthy | Status::ReadOnly | Status::DurabilityLost),
        "{who}: {health:?}"
    );
}

fn commit(book: &Notes, who: &str, n: u64, workspace: &Workspace, rng: &mut Rng) {
    let token = format!("{who}.{n}");
    let count = 1 + rng.index(3);
    let key = format!("k{}", rng.below(3));
    let level = [
        Durability::Buffered,
        Durability::Interval(1 + u32::try_from(rng.below(2_000)).unwrap()),
        Durability::Durable,
    ][rng.index(3)];
    // Now and then over several pages, which are not written again with the next commit.
    let dots = if rng.chance(1, 10) { 4_000 + rng.index(8_000) } else { rng.index(300) };
    let events: Vec<_> = (0..count)
        .map(|i| {
            note(if i == 0 { &key } else { "other" }, &format!("{token}/{i}/{count}{}", ".".repeat(dots)))
        })
        .collect();
    let stale = workspace.log().cached(|s| s.revision(&Key::task(&key))).unwrap();
    let condition = rng.below(4);
    let operation = rng.chance(1, 4).then(|| OpId([u8::try_from(n).unwrap(); 16]));
    let send = || {
        let (events, key, who) = (events.clone(), Key::task(&key), token.clone());
        workspace.commit(level, move |state, draft| {
            match condition {
                0 => drop(draft.expect(key.clone(), Expect::Revision(stale))),
                1 => drop(draft.expect(key.clone(), Expect::Revision(state.revision(&key)))),
                _ => {}
            }
            if operation.is_some() {
                let mut id = [0; 16];
                id.copy_from_slice(&blake3::hash(who.as_bytes()).as_bytes()[..16]);
                draft.operation(OpId(id), who.as_bytes(), state.last());
            }
            for event in events {
                draft.push(event);
            }
            Ok(())
        })
    };
    let witnesses = {
        let mut book = book.lock();
        book.tokens.insert(token.clone(), count);
        alive(&book, who, |w| w.listed)
    };
    let answer = send();
    let mut notes = book.lock();
    match answer {
        Ok(receipt) => {
            assert_eq!((usize::from(receipt.count), receipt.again), (count, false), "{token}: {receipt:?}");
            if condition == 0 {
                assert_eq!(receipt.revisions[0].0, stale.0 + 1, "{token}: it expected revision {stale}");
            }
            let epoch = receipt.cursor.epoch;
            let lived = alive(&notes, who, |w| w.listed).into_iter().find(|name| witnesses.contains(name));
            let known = !notes.epochs.insert(epoch);
            // On Windows whoever reads its .info keeps a session from listing itself, which costs an epoch more.
            if let Some(witness) = lived.filter(|_| !notes.faults && !notes.windows) {
                assert!(known, "{token}: a new epoch although {witness} was a witness all the time");
            }
            let (linger, opened) = (notes.linger, notes.opened);
            let me = notes.writers.get_mut(who).unwrap();
            if !std::mem::replace(&mut me.listed, true) && me.alone && me.opened == opened && !linger {
                assert!(!me.epochs.contains(&epoch), "{token}: the old epoch goes on, and no witness lived");
            }
            let boot = notes.boot;
            let ack = Ack {
                token: token.clone(),
                first: receipt.first,
                revisions: receipt.revisions.iter().map(|r| r.0).collect(),
                durable: receipt.durable,
                boot,
            };
            assert!(ack.durable || level != Durability::Durable, "{token}: {receipt:?}");
            notes.acks.push(ack);
            drop(notes);
            if operation.is_some() {
                match send() {
                    Ok(again) => {
                        assert_eq!((again.again, again.first), (true, receipt.first), "{token} again")
                    }
                    Err(e) => assert!(expected(&e, book), "{token} again: {e}"),
                }
            }
        }
        Err(e) => {
            // After a failed sync the commit may stand; every other error says that nothing of it does.
            if !matches!(e.kind(), ErrorKind::DurabilityLost { .. } | ErrorKind::NotDurable { .. }) {
                notes.refused.insert(token.clone());
            }
            drop(notes);
            let conflict = matches!(e.kind(), ErrorKind::Conflict(_)) && condition == 0;
            assert!(conflict || expected(&e, book), "{token}: {e}");
        }
    }
}

fn flush(book: &Notes, who: &str, workspace: &Workspace) {
    let (before, boot) = {
        let book = book.lock();
        (book.acks.len(), book.boot)
    };
    match workspace.flush() {
        Ok(()) => {
            let mut book = book.lock();
            book.acks[..before].iter_mut().filter(|ack| ack.boot == boot).for_each(|ack| ack.durable = true);
        }
        Err(e) => assert!(expected(&e, book), "{who} flushes: {e}"),
    }
}

fn try_open(book: &Notes, who: &str, process: &SimProcess, options: Options) -> Option<(Store, Workspace)> {
    let read_only = options.clone();
    for _ in 0..6 {
        match open_on(process, read_only.clone()) {
            Ok(opened) => return Some(opened),
            Err(e) => assert!(
                expected(&e, book) || matches!(e.kind(), ErrorKind::NotFound { .. }),
                "{who} opens: {e}"
            ),
        }
        process.sleep(Duration::from_millis(1));
    }
    None
}

/// A writer is about to open the store.
fn enter(book: &Notes, who: &str, process: &SimProcess) {
    let mut book = book.lock();
    book.opened += 1;
    let alone = alive(&book, who, |_| true).is_empty();
    let (epochs, opened) = (book.epochs.clone(), book.opened);
    book.writers
        .insert(who.into(), Writer { process: process.clone(), listed: false, epochs, opened, alone });
}

fn writer(book: &Notes, process: &SimProcess, seed: u64, options: &Options) {
    let mut rng = Rng::new(seed);
    for life in 0..1 + rng.below(2) {
        let who = format!("{}.{life}", process.label());
        enter(book, &who, process);
        let Some((store, workspace)) = try_open(book, &who, process, options.clone()) else { return };
        let mut last = 0;
        for n in 0..2 + rng.below(8) {
            match rng.below(12) {
                0 => look(book, &who, &workspace, &mut last),
                1 => flush(book, &who, &workspace),
                2 | 3 => {
                    process.sleep(Duration::from_millis([1, 300, 1_100][rng.index(3)]));
                    if let Err(e) = workspace.tick() {
                        assert!(expected(&e, book), "{who} ticks: {e}");
                    }
                }
                _ => commit(book, &who, n, &workspace, &mut rng),
            }
        }
        look(book, &who, &workspace, &mut last);
        // From here on its session may end at any moment.
        book.lock().writers.get_mut(&who).unwrap().listed = false;
        if !rng.chance(1, 2) {
            drop(workspace);
        } else if let Err(e) = workspace.close() {
            assert!(expected(&e, book), "{who} closes: {e}");
        }
        drop(store);
        book.lock().writers.remove(&who);
    }
}

fn reader(book: &Notes, process: &SimProcess, seed: u64, options: &Options) {
    let mut rng = Rng::new(seed);
    let who = process.label().to_string();
    for _ in 0..1 + rng.below(4) {
        if let Some((_store, workspace)) = try_open(book, &who, process, options.clone().read_only(true)) {
            let mut last = 0;
            for _ in 0..1 + rng.below(8) {
                look(book, &who, &workspace, &mut last);
                process.sleep(Duration::from_micros(rng.below(3_000)));
            }
        }
    }
}

fn some_fault(machine: &SimMachine, rng: &mut Rng) -> String {
    let nth = 1 + rng.below(12);
    let fault = match rng.below(7) {
        0 | 1 => Fault::on(Op::Sync, Effect::DropsPages).path(".seg").nth(nth),
        2 => Fault::on(Op::Sync, Effect::Eio).path(".seg").nth(nth),
        3 => Fault::on(Op::Write, Effect::Short(rng.index(400))).path(".seg").nth(nth),
        4 => Fault::on(Op::Write, Effect::Eio).path(".seg").nth(nth).times(1 + rng.below(3)),
        5 => Fault::on(Op::Write, Effect::DoneButFails).path(".seg").nth(nth),
        _ => {
            let free = rng.below(6) * 4096;
            machine.set_capacity(Some(machine.used() + free));
            return format!("{free} bytes of room");
        }
    };
    let told = format!("{fault:?}");
    machine.fault(fault);
    told
}

/// What a schedule was, for its failure's message, and how much of it there was.
#[derive(Default)]
struct Told {
    story: Vec<String>,
    steps: u64,
    kills: u64,
    cuts: u64,
    commits: u64,
    recovered: u64,
    rotations: u64,
    healed: u64,
}

fn schedule(seed: u64, told: &mut Told) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let profile =
        [Profile::Linux, Profile::Linux, Profile::Linux, Profile::Mac, Profile::Windows][rng.index(5)];
    let model = if rng.chance(1, 3) && profile != Profile::Windows {
        CrashModel::adversarial()
    } else {
        profile.crash_model()
    };
    let options = if rng.chance(1, 2) { options().segment_size(4096) } else { options() };
    // Its own draw, so that the others stay as they were: half of the schedules have a reserve, half have files that grow.
    let options = options.reserve(Rng::new(seed ^ 0x7265_7365).chance(1, 2));
    let mut machine = SimMachine::new(profile, seed);
    let notes = Notes::default();
    let book = &notes;
    book.lock().windows = profile == Profile::Windows;
    let mut sync_faults = false;
    told.story.push(format!("{profile:?}, {options:?}"));
    for phase in 0..1 + rng.below(3) {
        if rng.chance(1, 3) {
            let fault = some_fault(&machine, &mut rng);
            sync_faults |= fault.contains("Sync");
            book.lock().faults = true;
            told.story.push(fault);
        }
        if rng.chance(1, 8) {
            machine.set_lock_linger(u32::try_from(rng.below(20)).unwrap());
            book.lock().linger = true;
        }
        let names: Vec<String> = (0..2 + rng.below(3)).map(|i| format!("{phase}-{i}")).collect();
        let labels: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut plan = Plan::new();
        // Who alone was told of a failed sync and is killed before POISON stands takes the knowledge along.
        let told_to_one = profile != Profile::Linux && told.story.iter().any(|s| s.contains("DropsPages"));
        if rng.chance(7, 8) && !told_to_one {
            plan = Plan::seeded(rng.next_u64(), &labels, [60, 150, 400][rng.index(3)]);
        }
        let mut programs = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let (seed, reads) = (rng.next_u64(), i > 0 && rng.chance(1, 3));
            let options = &options;
            programs.push(Program::new(name.clone(), move |process| match reads {
                true => reader(book, &process, seed, options),
                false => writer(book, &process, seed, options),
            }));
        }
        let run = machine.run(rng.next_u64(), programs, &plan);
        told.steps += run.steps;
        told.kills +=
            run.ends.iter().filter(|(_, end)| *end == foldlog::vfs::sim::End::Killed).count() as u64;
        if std::env::var_os("FOLDLOG_SIM_SEED").is_some() {
            told.story.extend(run.trace.iter().map(|call| format!("  {call}")));
        }
        told.story.push(run.to_string());
        if let Some(panic) = run.panics().first() {
            return Err((*panic).to_owned());
        }
        if run.outcome == Outcome::StepLimit {
            return Err("somebody waits for ever".into());
        }
        if run.outcome == Outcome::PowerCut || rng.chance(1, 4) {
            let states: Vec<_> =
                machine.disk().crash_states_with(&model, 1 + rng.index(12), &mut rng).collect();
            let disk = &states[rng.index(states.len())];
            told.story.push(disk.origin().to_owned());
            told.cuts += 1;
            machine.kill_all();
            machine = SimMachine::from_disk(disk, rng.next_u64());
            book.lock().boot += 1;
        }
        machine.clear_faults();
        machine.set_capacity(None);
    }
    survive(&machine, book, &options, sync_faults, told)
}

/// Everything is well again: a newcomer opens, commits at every level in few steps, and all that was promised is there.
fn survive(
    machine: &SimMachine,
    book: &Notes,
    options: &Options,
    sync_faults: bool,
    told: &mut Told,
) -> Result<(), String> {
    machine.set_lock_linger(0);
    book.lock().faults = false;
    let program = Program::new("survivor", |process| {
        enter(book, "survivor", &process);
        let (_store, workspace) = open_on(&process, options.clone()).unwrap();
        let mut last = 0;
        look(book, "survivor", &workspace, &mut last);
        // Whatever sync has failed before, opening has copied the log forward, unless a dead process's lock lingered.
        if workspace.health().status == Status::DurabilityLost {
            workspace.flush().unwrap();
        }
        assert_eq!(workspace.health().status, Status::Healthy, "{:?}", workspace.health());
        let mut rng = Rng::new(1);
        for n in 0..6 {
            commit(book, "survivor", n, &workspace, &mut rng);
        }
        let _ = crate::simulated::put(&workspace, Durability::Durable, "end", "end").unwrap();
        look(book, "survivor", &workspace, &mut last);
        workspace.close().unwrap();
    });
    let run = machine.run(0, vec![program], &Plan::new().step_limit(SURVIVOR_STEPS));
    if let Some(panic) = run.panics().first() {
        return Err((*panic).to_owned());
    }
    if run.outcome != Outcome::Done {
        return Err(format!("the survivor does not get through: {run}"));
    }
    told.commits += book.lock().acks.len() as u64;
    let process = machine.process("auditor");
    let (items, walk) = log_of(&process).map_err(|e| e.to_string())?;
    let copied = walk.segments.iter().filter(|s| s.header.generation > 0).count();
    if copied > 0 && !sync_faults {
        return Err("no sync has failed, and yet the log was copied forward".into());
    }
    told.recovered += copied as u64;
    told.rotations += walk.segments.len() as u64 - 1;
    told.healed += process.list(&paths(&process).quarantine()).map_err(|e| e.to_string())?.len() as u64;
    if let Some(damage) = walk.damage.or(walk.too_new) {
        return Err(format!("crashes alone have left damage: {damage}"));
    }
    audit(&book.lock(), &items)
}

fn audit(book: &Book, items: &[(u64, Item)]) -> Result<(), String> {
    revisions_count_up(items)?;
    let mut there: HashMap<&str, (u64, Vec<u64>)> = HashMap::new();
    for (seq, item) in items {
        let Item::Commit(events) = item else { continue };
        if events[0].body == "end" {
            continue;
        }
        let (token, _) = events[0].body.split_once('/').ok_or("a foreign event")?;
        let count = *book.tokens.get(token).ok_or(format!("{token} was never sent"))?;
        let whole = events.len() == count
            && events.iter().enumerate().all(|(i, e)| {
                e.seq == seq + i as u64 && e.body.trim_end_matches('.') == format!("{token}/{i}/{count}")
            });
        if !whole {
            return Err(format!("a commit of {count} events is there as {events:?}"));
        }
        if book.refused.contains(token) {
            return Err(format!("{token} was refused, and is there as event {seq}"));
        }
        let revisions = events.iter().map(|e| e.revision).collect();
        if there.insert(token, (*seq, revisions)).is_some() {
            return Err(format!("{token} is there twice"));
        }
    }
    for ack in &book.acks {
        match there.get(ack.token.as_str()) {
            Some((seq, revisions)) if (Seq(*seq), revisions) == (ack.first, &ack.revisions) => {}
            Some(found) => return Err(format!("{ack:?} is there as {found:?}")),
            None if ack.durable => return Err(format!("{ack:?} was durable and is gone")),
            None if ack.boot == book.boot => return Err(format!("{ack:?} is gone without a power cut")),
            None => {}
        }
    }
    let prefixes = prefix_hashes(items);
    for seen in &book.seen {
        match prefixes.get(&(seen.last, seen.epochs.clone())) {
            Some(hash) if *hash == seen.hash => {}
            Some(_) => {
                return Err(format!("{} saw {seen:?}: another state than the log has there", seen.who));
            }
            None if seen.boot == book.boot => {
                return Err(format!(
                    "{} saw {seen:?}, which was taken back while the machine was up",
                    seen.who
                ));
            }
            None => {}
        }
    }
    Ok(())
}

fn reproduce(seed: u64) -> String {
    format!("FOLDLOG_SIM_SEED={seed} cargo test --test it sim_processes -- --nocapture")
}

fn run_seed(seed: u64) -> (Told, Option<String>) {
    let mut told = Told::default();
    let failed = match catch_unwind(AssertUnwindSafe(|| schedule(seed, &mut told))) {
        Ok(answer) => answer.err(),
        Err(payload) => Some(payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into())),
    };
    (told, failed)
}

#[test]
fn killed_stopped_and_cut_off_processes_keep_every_promise() {
    if let Some(seed) = std::env::var("FOLDLOG_SIM_SEED").ok().and_then(|s| s.parse().ok()) {
        let (told, failed) = run_seed(seed);
        println!("{}", told.story.join("\n"));
        assert_eq!(failed, None, "{}", reproduce(seed));
        return;
    }
    let schedules = budget(SCHEDULES);
    let start = Os.monotonic();
    let total = Mutex::new((Told::default(), Vec::<u64>::new()));
    let next = Mutex::new(0_u64);
    let run = || {
        loop {
            let seed = {
                let mut next = next.lock();
                if *next == schedules || total.lock().1.len() >= 3 {
                    return;
                }
                *next += 1;
                *next
            };
            let (told, failed) = run_seed(seed);
            let mut total = total.lock();
            let sum = &mut total.0;
            sum.steps += told.steps;
            sum.kills += told.kills;
            sum.cuts += told.cuts;
            sum.commits += told.commits;
            sum.recovered += told.recovered;
            sum.rotations += told.rotations;
            sum.healed += told.healed;
            if let Some(why) = failed {
                eprintln!("{why}\n  {}\n  {}", told.story.join("\n  "), reproduce(seed));
                total.1.push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(run);
        run();
    });
    let (told, failed) = total.into_inner();
    let seconds = Os.monotonic().saturating_sub(start).as_secs_f64();
    let ran = next.into_inner();
    println!(
        "{ran} schedules in {seconds:.0} s ({:.0}/s): {} steps, {} kills, {} power cuts, {} commits acknowledged, {} recoveries, {} rotations, {} files in quarantine",
        ran as f64 / seconds,
        told.steps,
        told.kills,
        told.cuts,
        told.commits,
        told.recovered,
        told.rotations,
        told.healed
    );
    assert!(failed.is_empty(), "seeds {failed:?}; {}", reproduce(failed[0]));
    let least = if quick() { SCHEDULES_MIN / 4 } else { SCHEDULES_MIN };
    assert!(ran >= least, "only {ran} schedules were run, {least} are the least that says anything");
    // A test that kills nobody proves nothing.
    assert!(
        told.kills * 2 > ran && told.cuts * 4 > ran && told.commits > ran * 4,
        "the schedules have become tame"
    );
    assert!(
        told.rotations * 8 > ran && told.recovered * 100 > ran && told.healed > 0,
        "the schedules have become tame"
    );
}
