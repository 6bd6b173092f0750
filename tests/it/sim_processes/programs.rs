//! What simulated processes do: write, read, wait, come and go.

use std::time::Duration;

use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{Rng, SimProcess};
use foldlog::{Durability, ErrorKind, Expect, Key, OpId, Options, Receipt, State, Status, Store, Workspace};

use super::book::{Ack, Notes, Seen, Writer, expected, expected_in_calm};
use crate::simulated::{note, open_on};

/// The most calls of its own that a commit makes when nothing goes wrong, buffered or synced, whoever is there too and
/// whatever the dead have left.
pub(super) const CALM_CALLS: [u64; 2] = [4_000, 4_000];
/// The most that it makes in any weather: everything that is waited for has its bound.
pub(super) const CALLS: u64 = 60_000;

pub(super) fn look(book: &Notes, who: &str, workspace: &Workspace, last: &mut u64) {
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
    let fine = matches!(health.status, Status::Healthy | Status::ReadOnly);
    let lost = health.status == Status::DurabilityLost && book.lock().sync_faults;
    let beyond = health.status == Status::Damaged && book.lock().beyond;
    assert!(fine || lost || beyond, "{who}: {health:?}");
}

/// What is known without a look at the disk is never ahead of it, and never goes back.
fn recall(who: &str, workspace: &Workspace, last: &mut u64) {
    let seq = workspace.log().cached(|state| state.last().0).unwrap();
    assert!(seq >= *last, "{who} has seen event {last}, and remembers {seq}");
    *last = seq;
}

/// A commit that was made `Buffered`, and is waited for later.
pub(super) type Ticket = (String, Receipt);

/// A process that writes, and what it has in hand.
pub(super) struct Session<'a> {
    pub(super) book: &'a Notes,
    pub(super) process: &'a SimProcess,
    pub(super) who: &'a str,
    pub(super) workspace: &'a Workspace,
    pub(super) tickets: Vec<Ticket>,
}

impl Session<'_> {
    pub(super) fn commit(&mut self, n: u64, level: Durability, rng: &mut Rng) {
        let (book, who, workspace) = (self.book, self.who, self.workspace);
        let token = format!("{who}.{n}");
        let count = 1 + rng.index(3);
        let key = format!("k{}", rng.below(3));
        // Now and then over several pages, which are not written again with the next commit.
        let many_syncs = book.lock().many_syncs;
        let dots = if rng.chance(if many_syncs { 5 } else { 1 }, 10) {
            4_000 + rng.index(8_000)
        } else {
            rng.index(300)
        };
        let events: Vec<_> = (0..count)
            .map(|i| {
                let key = if i == 0 { &key } else { "other" };
                note(key, &format!("{token}/{i}/{count}{}", ".".repeat(dots)))
            })
            .collect();
        let stale = workspace.log().cached(|s| s.revision(&Key::task(&key))).unwrap();
        let condition = rng.below(4);
        let operation = rng.chance(1, 4);
        let send = || {
            let (events, key, who) = (events.clone(), Key::task(&key), token.clone());
            workspace.commit(level, move |state, draft| {
                match condition {
                    0 => drop(draft.expect(key.clone(), Expect::Revision(stale))),
                    1 => drop(draft.expect(key.clone(), Expect::Revision(state.revision(&key)))),
                    _ => {}
                }
                if operation {
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
        let (witnesses, calm) = {
            let mut book = book.lock();
            book.tokens.insert(token.clone(), count);
            (book.alive(who, |w| w.listed), book.calm)
        };
        let (_, before) = self.process.machine().steps(self.process);
        let answer = send();
        let (_, after) = self.process.machine().steps(self.process);
        let calls = after - before;
        let mut notes = book.lock();
        notes.calls = notes.calls.max(calls);
        assert!(calls <= CALLS, "{token} took {calls} calls: {answer:?}");
        if calm {
            let kind = usize::from(level == Durability::Durable);
            notes.calm_calls[kind] = notes.calm_calls[kind].max(calls);
            assert!(calls <= CALM_CALLS[kind], "{token} took {calls} calls in the calm: {answer:?}");
        }
        match answer {
            Ok(receipt) => {
                assert_eq!(
                    (usize::from(receipt.count), receipt.again),
                    (count, false),
                    "{token}: {receipt:?}"
                );
                if condition == 0 {
                    assert_eq!(receipt.revisions[0].0, stale.0 + 1, "{token}: it expected revision {stale}");
                }
                let epoch = receipt.cursor.epoch;
                let lived = notes.alive(who, |w| w.listed).into_iter().find(|name| witnesses.contains(name));
                let known = !notes.epochs.insert(epoch);
                // On Windows whoever reads its .info keeps a session from listing itself, which costs an epoch more;
                // so does a block that is not the one it listed.
                let hindered = notes.faults || notes.windows || notes.scrambled;
                if let Some(witness) = lived.filter(|_| !hindered) {
                    assert!(known, "{token}: a new epoch although {witness} was a witness all the time");
                }
                let (linger, opened) = (notes.linger, notes.opened);
                let me = notes.writers.get_mut(who).unwrap();
                if !std::mem::replace(&mut me.listed, true) && me.alone && me.opened == opened && !linger {
                    assert!(
                        !me.epochs.contains(&epoch),
                        "{token}: the old epoch goes on, and no witness lived"
                    );
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
                if level == Durability::Buffered && !receipt.durable && rng.chance(1, 2) {
                    self.tickets.push((token.clone(), receipt.clone()));
                }
                if operation {
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
                let fine = if calm { expected_in_calm(&e, book) } else { expected(&e, book) };
                assert!(conflict || fine, "{token}: {e}, calm: {calm}");
            }
        }
    }

    /// Waits for some of what is in flight, in any order.
    fn wait(&mut self, rng: &mut Rng) {
        while !self.tickets.is_empty() {
            let (token, receipt) = self.tickets.swap_remove(rng.index(self.tickets.len()));
            let calm = self.book.lock().calm;
            let patience = Duration::from_millis(if calm { 60_000 } else { [0, 1, 20_000][rng.index(3)] });
            let answer = self.workspace.log().wait_durable(&receipt, patience);
            match answer {
                Ok(()) => {
                    let mut book = self.book.lock();
                    book.acks.iter_mut().filter(|a| a.token == token).for_each(|ack| ack.durable = true);
                }
                Err(e) => {
                    let fine = if calm { expected_in_calm(&e, self.book) } else { expected(&e, self.book) };
                    assert!(fine, "{token} is waited for: {e}, calm: {calm}");
                }
            }
            if rng.chance(1, 2) {
                return;
            }
        }
    }

    fn flush(&self) {
        let (before, boot) = {
            let book = self.book.lock();
            (book.acks.len(), book.boot)
        };
        match self.workspace.flush() {
            Ok(()) => {
                let mut book = self.book.lock();
                let acks = book.acks[..before].iter_mut().filter(|ack| ack.boot == boot);
                acks.for_each(|ack| ack.durable = true);
            }
            Err(e) => assert!(expected(&e, self.book), "{} flushes: {e}", self.who),
        }
    }

    fn snapshot(&self) {
        match self.workspace.snapshot() {
            Ok(written) => self.book.lock().snapshots += u64::from(written.is_some()),
            Err(e) => assert!(expected(&e, self.book), "{} writes a snapshot: {e}", self.who),
        }
    }

    fn tick(&self) {
        if let Err(e) = self.workspace.tick() {
            assert!(expected(&e, self.book), "{} ticks: {e}", self.who);
        }
    }

    /// As a host without a thread does it: LOCK is given back before anything else is waited for.
    fn rest(&self, setup: &Setup, time: Duration) {
        if setup.keeps {
            self.process.sleep(Duration::from_micros(150));
            self.tick();
        }
        self.process.sleep(time);
    }
}

/// How a process opens the store.
pub(super) struct Setup {
    pub(super) options: Options,
    /// It may keep LOCK between two commits, until it ticks.
    pub(super) keeps: bool,
}

pub(super) fn level(book: &Notes, rng: &mut Rng) -> Durability {
    match rng.index(if book.lock().many_syncs { 8 } else { 4 }) {
        0 | 1 => Durability::Buffered,
        2 => Durability::Interval(1 + u32::try_from(rng.below(2_000)).unwrap()),
        _ => Durability::Durable,
    }
}

pub(super) fn try_open(
    book: &Notes,
    who: &str,
    process: &SimProcess,
    options: &Options,
) -> Option<(Store, Workspace)> {
    for _ in 0..6 {
        match open_on(process, options.clone()) {
            Ok(opened) => {
                let by_snapshot = opened.1.log().cached(|state| state.snapshot().is_some()).unwrap();
                book.lock().by_snapshot += u64::from(by_snapshot);
                return Some(opened);
            }
            Err(e) => {
                let missing = matches!(e.kind(), ErrorKind::NotFound { .. });
                assert!(expected(&e, book) || missing, "{who} opens: {e}");
            }
        }
        process.sleep(Duration::from_millis(1));
    }
    None
}

/// A writer is about to open the store.
pub(super) fn enter(book: &Notes, who: &str, process: &SimProcess) {
    let mut book = book.lock();
    book.opened += 1;
    let alone = book.alive(who, |_| true).is_empty();
    let (epochs, opened) = (book.epochs.clone(), book.opened);
    book.writers
        .insert(who.into(), Writer { process: process.clone(), listed: false, epochs, opened, alone });
}

/// `ends_calm`: stays until nothing goes wrong any more, and commits then.
pub(super) fn writer(book: &Notes, process: &SimProcess, seed: u64, setup: &Setup, ends_calm: bool) {
    let mut rng = Rng::new(seed);
    let lives = 1 + rng.below(2);
    for life in 0..lives {
        let who = format!("{}.{life}", process.label());
        enter(book, &who, process);
        let Some((store, workspace)) = try_open(book, &who, process, &setup.options) else { return };
        let mut session = Session { book, process, who: &who, workspace: &workspace, tickets: Vec::new() };
        let (mut last, mut n) = (0, 0);
        // A dice of its own, so that all else goes as it went before there were any.
        let mut snaps = Rng::new(seed ^ 0x5A4B_0000 ^ life);
        let takes_snapshots = snaps.chance(1, 2);
        for _ in 0..2 + rng.below(8) {
            if takes_snapshots && snaps.chance(1, 5) {
                session.snapshot();
            }
            match rng.below(14) {
                0 => look(book, &who, &workspace, &mut last),
                1 => session.flush(),
                2 | 3 => {
                    session.rest(setup, Duration::from_millis([1, 300, 1_100][rng.index(3)]));
                    session.tick();
                }
                4 => recall(&who, &workspace, &mut last),
                5 | 6 => session.wait(&mut rng),
                7 => {
                    for _ in 0..2 + rng.below(6) {
                        session.commit(n, Durability::Buffered, &mut rng);
                        n += 1;
                    }
                }
                _ => {
                    let level = level(book, &mut rng);
                    session.commit(n, level, &mut rng);
                    n += 1;
                }
            }
        }
        session.rest(setup, Duration::ZERO);
        if ends_calm && life + 1 == lives {
            while !book.lock().calm {
                process.sleep(Duration::from_millis(1));
            }
            for level in [Durability::Buffered, Durability::Durable, Durability::Interval(5)] {
                session.commit(n, level, &mut rng);
                n += 1;
            }
            session.wait(&mut rng);
            session.rest(setup, Duration::ZERO);
        }
        look(book, &who, &workspace, &mut last);
        // From here on its session may end at any moment.
        book.lock().writers.get_mut(&who).unwrap().listed = false;
        drop(session);
        if !rng.chance(1, 2) {
            drop(workspace);
        } else if let Err(e) = workspace.close() {
            assert!(expected(&e, book), "{who} closes: {e}");
        }
        drop(store);
        book.lock().writers.remove(&who);
    }
}

pub(super) fn reader(book: &Notes, process: &SimProcess, seed: u64, setup: &Setup) {
    let mut rng = Rng::new(seed);
    let who = process.label().to_string();
    for _ in 0..1 + rng.below(4) {
        if let Some((_store, workspace)) =
            try_open(book, &who, process, &setup.options.clone().read_only(true))
        {
            let mut last = 0;
            for _ in 0..1 + rng.below(8) {
                if rng.chance(1, 4) {
                    recall(&who, &workspace, &mut last);
                } else {
                    look(book, &who, &workspace, &mut last);
                }
                process.sleep(Duration::from_micros(rng.below(3_000)));
            }
        }
    }
}
