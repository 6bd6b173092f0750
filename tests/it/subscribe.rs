//! Subscriptions: whatever happens to writers, readers, files and the power, a subscriber gets every commit once, whole and
//! in order.

use std::time::Duration;

use foldlog::log::control_frame::Control;
use foldlog::log::format::{WORD_RING, WORD_SLEEPERS};
use foldlog::log::segment::SegmentHeader;
use foldlog::vfs::Vfs as _;
use foldlog::vfs::sim::{Effect, Fault, Op, Outcome, Plan, Profile, Program, Rng, SimMachine, SimProcess};
use foldlog::{
    Cursor, Delivery, Durability, Error, ErrorKind, KeepLock, Mapping, Options, Place, Seq, Since, Store,
    Subscription, Workspace,
};
use parking_lot::Mutex;

use crate::simulated::{
    Item, budget, file, log_of, machine_with, note, open_on, options, paths, put, segments,
};

const B: Durability = Durability::Buffered;
const D: Durability = Durability::Durable;

fn everything(subscription: &mut Subscription) -> Vec<Delivery> {
    std::iter::from_fn(|| subscription.try_next().unwrap()).collect()
}

fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    let events = deliveries.iter().flat_map(|delivery| &delivery.events);
    events.map(|event| String::from_utf8_lossy(&event.body).into_owned()).collect()
}

/// What a subscriber must have got by now: the log's commits, by a walk of its own.
fn commits_of(process: &SimProcess) -> Vec<Vec<(u64, String)>> {
    let (items, _) = log_of(process).unwrap();
    let commits = items.into_iter().filter_map(|(_, item)| match item {
        Item::Commit(events) => Some(events.into_iter().map(|e| (e.seq, e.body)).collect()),
        _ => None,
    });
    commits.collect()
}

fn told(deliveries: &[Delivery]) -> Vec<Vec<(u64, String)>> {
    let event =
        |event: &foldlog::DeliveredEvent| (event.seq.0, String::from_utf8_lossy(&event.body).into_owned());
    deliveries.iter().map(|delivery| delivery.events.iter().map(event).collect()).collect()
}

/// What a subscriber has got over all its lives.
#[derive(Default)]
struct Book {
    deliveries: Vec<Delivery>,
    cursor: Cursor,
    rewinds: u64,
}

/// One life of a subscriber: it goes on where the one before stopped, and is killed anywhere.
struct Reader<'a> {
    book: &'a Mutex<Book>,
    options: Options,
    durable_only: bool,
}

impl Reader<'_> {
    fn subscribe(&self, workspace: &Workspace) -> Result<Subscription, Error> {
        loop {
            let cursor = self.book.lock().cursor;
            match workspace.subscribe(Since::Cursor(cursor)) {
                Ok(subscription) if self.durable_only => return Ok(subscription.durable_only()),
                Ok(subscription) => return Ok(subscription),
                Err(e) => self.rewind(workspace, e)?,
            }
        }
    }

    /// Forgets what a power cut has cost, which nobody had called durable.
    fn rewind(&self, workspace: &Workspace, error: Error) -> Result<(), Error> {
        let ErrorKind::Rewound { to } = *error.kind() else { return Err(error) };
        let cursor = workspace.read(|state| state.cursor_at(to))?;
        let mut book = self.book.lock();
        book.rewinds += 1;
        for delivery in book.deliveries.iter().filter(|delivery| delivery.last() > to) {
            // A stored cursor whose epoch is gone altogether tells nothing of what came before it.
            assert!(to.0 == 0 || !delivery.is_durable(), "rewound to {to}, although {delivery:?}");
            assert!(!self.durable_only, "{delivery:?}");
        }
        book.deliveries.retain(|delivery| delivery.last() <= to);
        book.cursor = cursor;
        Ok(())
    }

    fn take(&self, subscription: &Subscription, delivery: Delivery) {
        let mut book = self.book.lock();
        assert!(delivery.first > book.cursor.seq, "{delivery:?} behind {:?}", book.cursor);
        assert_eq!(delivery.first, delivery.events[0].seq);
        assert_eq!(delivery.cursor.seq, delivery.events.last().unwrap().seq);
        assert!(!self.durable_only || delivery.is_durable(), "{delivery:?}");
        assert!(subscription.cursor().seq >= delivery.cursor.seq);
        book.cursor = delivery.cursor;
        book.deliveries.push(delivery);
    }

    fn run(&self, process: &SimProcess, rounds: u32) -> Result<(), Error> {
        let (_store, workspace) = open_on(process, self.options.clone())?;
        let mut subscription = self.subscribe(&workspace)?;
        for _ in 0..rounds {
            match subscription.next_within(Duration::from_millis(2)) {
                Ok(Some(delivery)) => self.take(&subscription, delivery),
                Ok(None) => {}
                Err(e) if matches!(e.kind(), ErrorKind::Rewound { .. }) => {
                    self.rewind(&workspace, e)?;
                    subscription = self.subscribe(&workspace)?;
                }
                Err(e) => tolerable(&e),
            }
        }
        Ok(())
    }

    /// In the calm: everything there is.
    fn catch_up(&self, process: &SimProcess) {
        let (_store, workspace) = open_on(process, options()).unwrap();
        // A failed sync that nobody has recovered from yet keeps what is durable from getting on.
        let _ = put(&workspace, D, "calm", "calm").unwrap();
        let mut subscription = self.subscribe(&workspace).unwrap();
        while let Some(delivery) = subscription.try_next().unwrap() {
            self.take(&subscription, delivery);
        }
    }
}

fn tolerable(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::DurabilityLost { .. } | ErrorKind::NotYet), "{error}");
}

fn write(process: &SimProcess, options: Options, seed: u64) {
    let mut rng = Rng::new(seed);
    let Ok((_store, workspace)) = open_on(process, options) else { return };
    for n in 0..4 + rng.below(8) {
        let events: Vec<_> = (0..1 + rng.below(3))
            .map(|i| note("k", &format!("{}.{n}.{i}{}", process.label(), ".".repeat(rng.index(700)))))
            .collect();
        let level = if rng.chance(1, 4) { D } else { B };
        let done = workspace.commit(level, move |_, draft| {
            for event in events {
                draft.push(event);
            }
            Ok(())
        });
        if rng.chance(1, 4) {
            let _ = workspace.tick();
        }
        drop(done); // what became of it is for the subscriber to say
    }
}

fn schedule(seed: u64) -> (u64, u64, u64) {
    let mut rng = Rng::new(seed);
    let profile = [Profile::Linux, Profile::Linux, Profile::Mac, Profile::Windows][rng.index(4)];
    let size = if rng.chance(2, 3) { 4096 } else { 1 << 20 };
    let mut machine = machine_with(profile, seed, &["first"]);
    let books = [Mutex::new(Book::default()), Mutex::new(Book::default()), Mutex::new(Book::default())];
    let fails = rng.chance(1, 3);
    let mut cuts = 0;
    for phase in 0..1 + rng.below(3) {
        let mut programs = Vec::new();
        let mut labels = Vec::new();
        for writer in 0..2 {
            let mut before: Option<String> = None;
            for life in 0..1 + rng.below(2) {
                let label = format!("{phase}w{writer}.{life}");
                let keep = if rng.chance(1, 2) { KeepLock::UntilTick } else { KeepLock::Never };
                let options = options().segment_size(size).keep_lock(keep);
                let seed = rng.next_u64();
                let mut program =
                    Program::new(label.clone(), move |process| write(&process, options.clone(), seed));
                if let Some(before) = before.replace(label.clone()) {
                    program = program.after(before);
                }
                labels.push(label);
                programs.push(program);
            }
        }
        for (i, book) in books.iter().enumerate() {
            let mut before: Option<String> = None;
            for life in 0..1 + rng.below(3) {
                let label = format!("{phase}r{i}.{life}");
                let mapping = if rng.chance(1, 4) { Mapping::Off } else { Mapping::Auto };
                let options = options().segment_size(size).mapping(mapping).read_only(i == 1);
                let reader = Reader { book, options, durable_only: i == 2 };
                let rounds = 8 + u32::try_from(rng.below(30)).unwrap();
                let mut program = Program::new(label.clone(), move |process| {
                    if let Err(e) = reader.run(&process, rounds) {
                        tolerable(&e);
                    }
                });
                if let Some(before) = before.replace(label.clone()) {
                    program = program.after(before);
                }
                labels.push(label);
                programs.push(program);
            }
        }
        if fails {
            machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0").nth(1 + rng.below(6)));
        }
        let names: Vec<&str> = labels.iter().map(String::as_str).collect();
        let plan = Plan::seeded(rng.next_u64(), &names, [80, 300][rng.index(2)]).without_trace();
        let run = machine.run(rng.next_u64(), programs, &plan);
        assert!(run.panics().is_empty(), "{run}");
        assert_ne!(run.outcome, Outcome::StepLimit, "{run}");
        machine.clear_faults();
        if run.outcome == Outcome::PowerCut {
            cuts += 1;
            let disk = machine.disk().crash_states(8, &mut rng).last().unwrap();
            machine = SimMachine::from_disk(&disk, rng.next_u64());
        }
    }
    let mut sum = (0, 0, cuts);
    for (i, book) in books.iter().enumerate() {
        let reader = Reader { book, options: options(), durable_only: i == 2 };
        reader.catch_up(&machine.process("auditor"));
        let book = book.lock();
        let commits = commits_of(&machine.process("witness"));
        assert_eq!(told(&book.deliveries), commits, "subscriber {i} and the log");
        sum.0 += book.deliveries.len() as u64;
        sum.1 += book.rewinds;
    }
    sum
}

/// Subscribers of three kinds (of all, of all without a session, of what is durable), beside writers that are killed,
/// healed, starved of syncs and cut off from power, are killed themselves and go on from their last cursor.
#[test]
fn subscriber_gets_every_commit_once_in_any_schedule() {
    let (mut sum, first) = ((0, 0, 0), first_seed());
    let schedules = budget(600);
    for seed in first..first + schedules {
        let ran = std::panic::catch_unwind(|| schedule(seed));
        let (commits, rewinds, cuts) = ran.unwrap_or_else(|panic| {
            eprintln!("FOLDLOG_SIM_FIRST={seed} FOLDLOG_SIM_SCHEDULES=1 cargo test --test it {}", NAME);
            std::panic::resume_unwind(panic)
        });
        sum = (sum.0 + commits, sum.1 + rewinds, sum.2 + cuts);
    }
    if schedules >= 50 {
        assert!(sum.0 > 500 && sum.1 > 3 && sum.2 > 5, "{sum:?}: not much was tried");
    }
}

const NAME: &str = "subscriber_gets_every_commit_once_in_any_schedule";

fn first_seed() -> u64 {
    std::env::var("FOLDLOG_SIM_FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// A store in memory: time is real there, and threads are.
fn memory() -> (Store, Workspace) {
    let store = Store::memory(options()).unwrap();
    let workspace = store.workspace(&Place::Key("project".into())).unwrap();
    (store, workspace)
}

fn word(machine: &SimMachine, at: u64) -> u64 {
    let somebody = machine.process("somebody");
    let bytes = file(&somebody, &paths(&somebody).control());
    let at = usize::try_from(at).unwrap();
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set_word(machine: &SimMachine, at: u64, word: u64) {
    let path = paths(&machine.process("somebody")).control();
    let at = usize::try_from(at).unwrap();
    let set = |bytes: &mut Vec<u8>| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    machine.with_disk(|disk| disk.mutate(&path, set)).unwrap();
}

#[test]
fn subscription_starts_where_it_is_told_to() {
    let machine = machine_with(Profile::Linux, 1, &["one", "two"]);
    let (_store, ws) = open_on(&machine.process("p"), options()).unwrap();
    let cursor = ws.read(foldlog::State::cursor).unwrap();
    let mut all = ws.subscribe(Since::Beginning).unwrap();
    let mut now = ws.subscribe(Since::Now).unwrap();
    let mut behind = ws.subscribe(Since::After(Seq(1))).unwrap();
    let mut at = ws.subscribe(Since::Cursor(cursor)).unwrap();
    assert_eq!(now.try_next().unwrap(), None);
    assert_eq!(now.cursor(), cursor);
    let _ = ws
        .commit(B, |state, draft| {
            draft.operation(foldlog::OpId([7; 16]), b"request", state.last());
            draft.push(note("a", "three"));
            draft.push(note("b", "four"));
            Ok(())
        })
        .unwrap();
    assert_eq!(bodies(&everything(&mut all)), ["one", "two", "three", "four"]);
    assert_eq!(bodies(&everything(&mut behind)), ["two", "three", "four"]);
    let last = everything(&mut now);
    assert_eq!(last, everything(&mut at));
    let [last] = &last[..] else { panic!("one commit: {last:?}") };
    assert_eq!((last.first, last.last(), last.op_id), (Seq(3), Seq(4), Some(foldlog::OpId([7; 16]))));
    assert_eq!(last.session, ws.log().session().unwrap().id());
    assert_eq!((last.events[1].revision.0, &*last.events[1].key.name), (1, "b"));
    assert_eq!((last.durable, last.is_durable()), (Seq(2), false));
    // Inside a commit: nobody has seen a part of it.
    let mut inside = ws.subscribe(Since::After(Seq(3))).unwrap();
    assert_eq!(everything(&mut inside), []);
    // Of a history that never was, or beyond this one's end.
    for cursor in [Cursor { epoch: 99, ..cursor }, Cursor { seq: Seq(5), ..cursor }] {
        let error = ws.subscribe(Since::Cursor(cursor)).unwrap_err();
        assert_eq!(error.code(), "rewound", "{error}");
    }
    assert!(matches!(
        ws.subscribe(Since::After(Seq(9))).unwrap_err().kind(),
        ErrorKind::Rewound { to: Seq(4) }
    ));
}

#[test]
fn durable_only_waits_for_the_sync_of_whoever_it_is() {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (_a, writer) = open_on(&machine.process("writer"), options()).unwrap();
    let (_b, other) = open_on(&machine.process("other"), options()).unwrap();
    let mut all = other.subscribe(Since::Beginning).unwrap();
    let mut durable = other.subscribe(Since::Beginning).unwrap().durable_only();
    for n in 0..3 {
        let _ = put(&writer, B, "a", &n.to_string()).unwrap();
    }
    assert_eq!(bodies(&everything(&mut all)), ["0", "1", "2"]);
    assert_eq!(everything(&mut durable), []);
    writer.flush().unwrap();
    let got = everything(&mut durable);
    assert_eq!(bodies(&got), ["0", "1", "2"]);
    assert!(got.iter().all(Delivery::is_durable));
    let _ = put(&writer, B, "a", "3").unwrap();
    assert_eq!(everything(&mut durable), []);
    let _ = put(&other, D, "a", "4").unwrap();
    assert_eq!(bodies(&everything(&mut durable)), ["3", "4"]);
}

#[test]
fn writer_rings_once_and_only_for_one_who_sleeps() {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (_a, writer) = open_on(&machine.process("writer"), options()).unwrap();
    let sleeper = machine.process("reader");
    let (_b, reader) = open_on(&sleeper, options()).unwrap();
    let mut subscription = reader.subscribe(Since::Now).unwrap();
    let _ = put(&writer, B, "a", "the first finds no witness").unwrap();
    let before = machine.calls(Op::Wake);
    for n in 0..50 {
        let _ = put(&writer, B, "a", &n.to_string()).unwrap();
        assert!(subscription.try_next().unwrap().is_some(), "who does not sleep need not be woken");
    }
    assert_eq!(everything(&mut subscription).len(), 1);
    assert_eq!((machine.calls(Op::Wake), word(&machine, WORD_RING)), (before, 0));
    // Somebody says that it sleeps, and is killed.
    assert_eq!(subscription.next_within(Duration::from_millis(10)).unwrap(), None);
    assert_eq!(word(&machine, WORD_SLEEPERS), 1);
    machine.kill(&sleeper);
    for n in 0..50 {
        let _ = put(&writer, B, "a", &n.to_string()).unwrap();
    }
    assert_eq!((machine.calls(Op::Wake), word(&machine, WORD_RING)), (before + 1, 1));
    assert_eq!(word(&machine, WORD_SLEEPERS), 0);
}

/// Whatever stands in the two words: a sleeper finds what is new, and a writer commits.
#[test]
fn rubbish_in_the_words_costs_a_pause_at_most() {
    for (sleepers, ring) in [(0, u64::MAX), (u64::MAX, u64::MAX), (1, 1 << 40), (0, 0), (7, 1)] {
        let machine = machine_with(Profile::Linux, 1, &[]);
        let (_a, writer) = open_on(&machine.process("writer"), options()).unwrap();
        let (_b, reader) = open_on(&machine.process("reader"), options()).unwrap();
        let mut subscription = reader.subscribe(Since::Now).unwrap();
        set_word(&machine, WORD_SLEEPERS, sleepers);
        set_word(&machine, WORD_RING, ring);
        let _ = put(&writer, B, "a", "new").unwrap();
        let clock = machine.process("clock");
        let start = clock.monotonic();
        assert_eq!(bodies(&[subscription.next_within(Duration::from_secs(9)).unwrap().unwrap()]), ["new"]);
        assert!(clock.monotonic() - start <= Duration::from_millis(501));
    }
}

/// The steps of a sleeper and a writer in every order that 400 seeds give: none of the rings is lost.
#[test]
fn no_ring_is_lost_in_any_order_of_steps() {
    let mut slept = 0;
    for seed in 0..budget(400) {
        let machine = machine_with(Profile::Linux, seed, &[]);
        let (told, wakings, done) = (Mutex::new(Vec::new()), Mutex::new(None), Mutex::new(false));
        let writer = Program::new("writer", |process| {
            let (_store, ws) = open_on(&process, options()).unwrap();
            for n in 0..6 {
                let _ = put(&ws, B, "a", &n.to_string()).unwrap();
            }
            *done.lock() = true;
        });
        let reader = Program::new("reader", |process| {
            let (_store, ws) = open_on(&process, options()).unwrap();
            let mut subscription = ws.subscribe(Since::Beginning).unwrap();
            while told.lock().len() < 6 {
                // Longer than any pause: what ends it is a ring, or a look that makes up for a lost one.
                let (rung, slept) = (word(&machine, WORD_RING), subscription.wakings());
                let found = subscription.next_within(Duration::from_secs(3600)).unwrap().unwrap();
                // The last commit was there, ring and all, before it slept; it has slept all the same.
                let lost = *done.lock()
                    && subscription.wakings().by_time > slept.by_time
                    && word(&machine, WORD_RING) == rung;
                assert!(!lost, "slept beside {found:?}");
                told.lock().push(found);
            }
            *wakings.lock() = Some(subscription.wakings());
        });
        let run = machine.run(seed, vec![writer, reader], &Plan::new().without_trace());
        assert!(run.panics().is_empty() && run.outcome == Outcome::Done, "{run}");
        assert_eq!(bodies(&told.lock()), ["0", "1", "2", "3", "4", "5"], "{run}");
        slept += wakings.lock().unwrap().by_ring;
    }
    assert!(slept > budget(400) / 8, "{slept}: hardly anybody was woken");
}

/// Whether it was called out of its sleep, if it slept; else it has found out by the clock.
fn was_roused(subscription: &Subscription) -> bool {
    let w = subscription.wakings();
    w.by_time == 0 || w.by_ring + w.not_slept > 0
}

#[test]
fn waker_stop_and_close_end_a_wait_at_once() {
    let hour = Duration::from_secs(3600);
    // By a waker, in the wait at hand or the next one.
    let (_store, ws) = memory();
    let mut subscription = ws.subscribe(Since::Now).unwrap();
    let waker = subscription.waker();
    waker.wake();
    assert_eq!(subscription.next_within(hour).unwrap(), None);
    assert!(!subscription.is_stopped());
    let stopper = std::thread::spawn({
        let waker = waker.clone();
        move || waker.stop()
    });
    assert_eq!(subscription.next_within(hour).unwrap(), None);
    assert!(subscription.is_stopped());
    assert!(was_roused(&subscription));
    assert!(subscription.next().is_none(), "the iterator ends too");
    stopper.join().unwrap();
    // By the end of the handle it came from, however that comes.
    for closes in [true, false] {
        let (_store, ws) = memory();
        let other = ws.clone();
        let mut subscription = ws.subscribe(Since::Now).unwrap();
        let closer = std::thread::spawn(move || {
            drop(other);
            if closes { ws.close().unwrap() } else { drop(ws) }
        });
        assert_eq!(subscription.next_within(hour).unwrap(), None);
        assert!(subscription.is_stopped());
        assert!(was_roused(&subscription));
        closer.join().unwrap();
    }
    // One of a clone's is not ended by the drop of another clone.
    let (_store, ws) = memory();
    let mut subscription = ws.clone().subscribe(Since::Now).unwrap();
    let _ = put(&ws, B, "a", "still").unwrap();
    assert!(subscription.try_next().unwrap().is_some());
}

#[test]
fn feed_ends_when_either_side_goes() {
    let (_store, ws) = memory();
    let feed = ws.subscribe(Since::Beginning).unwrap().into_feed(1).unwrap();
    for n in 0..5 {
        let _ = put(&ws, B, "a", &n.to_string()).unwrap();
    }
    let got: Vec<_> = feed.iter().take(5).map(Result::unwrap).collect();
    assert_eq!(bodies(&got), ["0", "1", "2", "3", "4"]);
    ws.close().unwrap();
    assert!(feed.recv().is_err(), "the log's side has gone");
    // The other side: the thread lets go of the log, which alone is kept by it here.
    let (_store, ws) = memory();
    let feed = ws.subscribe(Since::Beginning).unwrap().into_feed(1).unwrap();
    let waker = feed.waker();
    drop(feed);
    waker.stop();
    ws.close().unwrap();
}

#[test]
fn horizon_of_a_segment_trims_what_lies_below() {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let small = || options().segment_size(4096);
    let (store, ws) = open_on(&machine.process("writer"), small()).unwrap();
    for n in 1..=30 {
        let _ = put(&ws, D, "a", &text(n)).unwrap();
    }
    let mut under_way = ws.subscribe(Since::After(Seq(1))).unwrap();
    assert!(under_way.try_next().unwrap().is_some());
    ws.close().unwrap();
    drop(store);
    let process = machine.process("compactor");
    let all = segments(&process);
    assert!(all.len() > 3, "{all:?}");
    let header = SegmentHeader::decode(&file(&process, &all[2])).unwrap();
    // As compaction leaves it: the second segment says up to where it has dropped what it liked.
    let horizon = header.first_seq - 1;
    let mut second = SegmentHeader::decode(&file(&process, &all[1])).unwrap();
    second.horizon = horizon;
    let head = second.encode();
    machine
        .with_disk(|disk| disk.mutate(&all[1], |bytes| bytes[..head.len()].copy_from_slice(&head)))
        .unwrap();
    for read_only in [false, true] {
        let (_store, ws) = open_on(&machine.process("reader"), small().read_only(read_only)).unwrap();
        for below in [Since::Beginning, Since::After(Seq(horizon - 1)), Since::After(Seq(2))] {
            let error = ws.subscribe(below).unwrap_err();
            let first = Seq(horizon + 1);
            assert!(
                matches!(error.kind(), ErrorKind::Trimmed { first_available } if *first_available == first),
                "{error}"
            );
        }
        let mut rest = ws.subscribe(Since::After(Seq(horizon))).unwrap();
        assert_eq!(everything(&mut rest).len() as u64, 30 - horizon);
        let error = rest.go_on_from(Since::Beginning).unwrap_err();
        assert_eq!(error.code(), "trimmed");
        assert_eq!(rest.cursor().seq, Seq(30), "an error changes nothing");
    }
}

fn text(n: u64) -> String {
    format!("{n}{}", "-".repeat(700))
}

/// The pages of a failed sync are dropped, or not, and can be read again, or not: who has seen what is gone is told so, and
/// nobody else notices anything.
#[test]
fn recovery_from_a_failed_sync_is_followed() {
    let (mut told_so, mut unharmed) = (0, 0);
    for (size, evicts) in [(1 << 20, false), (1 << 20, true), (4096, false), (4096, true)] {
        let machine = machine_with(Profile::Linux, 3, &[]);
        let (_a, reader) = open_on(&machine.process("reader"), options().segment_size(size)).unwrap();
        let mut all = reader.subscribe(Since::Beginning).unwrap();
        let mut durable = reader.subscribe(Since::Beginning).unwrap().durable_only();
        let loser = machine.process("loses");
        let (_b, writer) = open_on(&loser, options().segment_size(size)).unwrap();
        for n in 1..=7 {
            let _ = put(&writer, if n <= 4 { D } else { B }, "k", &text(n)).unwrap();
        }
        machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
        assert_eq!(put(&writer, D, "k", &text(8)).unwrap_err().code(), "durability-lost");
        machine.clear_faults();
        let mut seen = everything(&mut all);
        let sure = everything(&mut durable);
        assert!(seen.len() >= 7 && sure.len() >= 4, "{} {}", seen.len(), sure.len());
        machine.kill(&loser);
        if evicts {
            machine.evict();
        }
        let (_c, heir) = open_on(&machine.process("heir"), options().segment_size(size)).unwrap();
        let _ = put(&heir, D, "k", "after").unwrap();
        let more = match all.try_next() {
            Ok(first) => first.into_iter().chain(everything(&mut all)).collect::<Vec<_>>(),
            Err(e) => {
                let ErrorKind::Rewound { to } = *e.kind() else { panic!("{e}") };
                told_so += 1;
                seen.retain(|delivery| delivery.last() <= to);
                assert!(seen.len() >= 4, "what was durable is not taken back: {to}");
                all.go_on_from(Since::After(to)).unwrap();
                everything(&mut all)
            }
        };
        unharmed += u32::from(seen.len() >= 7);
        seen.extend(more);
        let commits = commits_of(&machine.process("witness"));
        assert_eq!(self::told(&seen), commits);
        let mut sure = sure;
        sure.extend(everything(&mut durable));
        assert_eq!(self::told(&sure), commits, "of what is durable");
    }
    assert!(told_so > 0 && unharmed > 0, "{told_so} {unharmed}");
}

/// Damage ends a subscription where it is; repair opens the way over the gap, and the numbers lost are told.
#[test]
fn repair_is_followed_over_its_gap() {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (store, ws) = open_on(&machine.process("writer"), options()).unwrap();
    for n in 1..=9 {
        let _ = put(&ws, D, "a", &text(n)).unwrap();
    }
    ws.close().unwrap();
    drop(store);
    let path = segments(&machine.process("p")).remove(0);
    let at = file(&machine.process("p"), &path);
    let at = at.windows(705).position(|bytes| bytes.starts_with(b"5---")).unwrap();
    machine.with_disk(|disk| disk.mutate(&path, |bytes| bytes[at] ^= 1)).unwrap();
    let (_a, reader) = open_on(&machine.process("reader"), options()).unwrap();
    let mut subscription = reader.subscribe(Since::Beginning).unwrap();
    let mut got: Vec<_> = (0..4).map(|_| subscription.try_next().unwrap().unwrap()).collect();
    for _ in 0..2 {
        let error = subscription.try_next().unwrap_err();
        assert_eq!(error.code(), "damaged", "{error}");
    }
    let (_b, mender) = open_on(&machine.process("mender"), options()).unwrap();
    let _ = mender.log().repair().unwrap();
    let _ = put(&mender, D, "a", "after").unwrap();
    got.extend(everything(&mut subscription));
    let witness = machine.process("witness");
    assert_eq!(told(&got), commits_of(&witness));
    let (items, _) = log_of(&witness).unwrap();
    let gap = items.iter().find_map(|(_, item)| match item {
        Item::Control(Control::Gap { from, to }) => Some((Seq(*from), Seq(*to))),
        _ => None,
    });
    assert_eq!(got.iter().filter_map(|delivery| delivery.lost_before).next(), gap);
    assert_eq!(gap, Some((Seq(5), Seq(5))));
}

#[test]
fn subscriber_of_a_read_only_medium_changes_nothing() {
    let machine = machine_with(Profile::Linux, 1, &["one", "two"]);
    machine.set_read_only(true);
    let before = machine.disk().content_hash();
    let (_store, ws) = open_on(&machine.process("reader"), options().read_only(true)).unwrap();
    let mut subscription = ws.subscribe(Since::Beginning).unwrap();
    assert_eq!(bodies(&everything(&mut subscription)), ["one", "two"]);
    let clock = machine.process("clock");
    let start = clock.monotonic();
    assert_eq!(subscription.next_within(Duration::from_secs(10)).unwrap(), None);
    assert!(clock.monotonic() - start >= Duration::from_secs(10));
    let wakings = subscription.wakings();
    assert!(wakings.by_time <= 10 + 20, "twice a second, once it has slowed down: {wakings:?}");
    assert_eq!(machine.disk().content_hash(), before);
}

#[test]
fn sleeper_wakes_twice_a_second() {
    let machine = machine_with(Profile::Linux, 1, &["one"]);
    let (_store, ws) = open_on(&machine.process("reader"), options()).unwrap();
    let mut subscription = ws.subscribe(Since::Now).unwrap();
    assert_eq!(subscription.next_within(Duration::from_secs(10)).unwrap(), None);
    let wakings = subscription.wakings();
    assert_eq!((wakings.by_ring, wakings.by_time, wakings.not_slept), (0, 20, 0));
}
