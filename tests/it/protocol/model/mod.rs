//! The protocol of committing and making durable, as a state machine small enough to explore whole.
//!
//! One step is one system call or one operation on a word of the control block; anybody can be killed between two
//! steps, or never take another. What a step stands for:
//!
//! | steps | code |
//! | --- | --- |
//! | announce, take LOCK, look for a witness, read to the end | `Log::enter`, `lock`, `session::has_witness` |
//! | zero what is behind the frames | `heal` |
//! | write again through the own descriptor | `Log::own_bytes` |
//! | write a part, write the rest; undo half a write | `Batch::write` |
//! | set or clear dirty_from, publish the tail, keep LOCK | design, not built: words of the control block |
//! | look at durable, look at poison, read the end, sync, raise durable | `Log::make_durable`, `Log::sync_alone` |
//! | poison the word, leave POISON | `Log::poison` |
//! | say that a sync is under way or has ended well | design, not built |
//! | look without LOCK | `Log::refresh` |
//!
//! A frame takes one slot, a long one two, and is whole, torn or absent. `cache` is what every process reads, `disk`
//! what a power cut leaves for sure; of the slots that differ it leaves any mixture. A sync that fails leaves its pages
//! clean: the kernel forgets them, may even read the old contents again (`forgets`), and tells either every descriptor
//! that was open then, or one caller only.
//!
//! Nobody gives up for having waited too long: what a time-out would end counts as stuck, if no step of the living can
//! end it. Left out: rotation, the reserve, Marks and RecoveryMarks, quarantine, damage that is not a crash's.

use std::fmt;

use super::checker::Model;

mod commit;
mod config;
mod fault;
mod sync;

pub(super) use config::{Config, Faults, Marker, Mutation, TailFrom, Words};

/// The promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A power cut now would lose a commit that was acknowledged as durable.
    DurableLost,
    /// A commit that was acknowledged is gone, although no power was cut and no sync failed.
    BufferedLost,
    /// Two commits that were acknowledged or seen have the same epoch and number.
    NumberTwice,
    /// What a live process has folded does not stand any more, although no sync failed.
    TakenBack,
    /// Durable was raised by somebody who took the lane when POISON stood.
    PoisonPassed,
    /// LOCK was given back with rubbish behind the last frame.
    UncleanEnd,
    /// An undamaged log was called damaged.
    FalseDamage,
    /// Somebody waits, and no step of the living can end it.
    Stuck,
}

pub(super) const PROCS: usize = 3;
const SLOTS: usize = 8;
const NOBODY: u8 = 0xFF;
const TORN: u8 = 0x7F;
/// The second half of a long frame, with its id.
const REST: u8 = 0x40;
const IDS: usize = 1 + PROCS * 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    Idle,
    /// Has announced itself.
    Announced,
    Unannounce,
    CatchUp,
    Zero,
    Own,
    SetDirty,
    PublishEarly,
    ClearDirtyEarly,
    UnlockEarly,
    WritePart,
    WriteRest,
    Publish,
    ClearDirty,
    Unlock,
    Kept,
    Poll,
    UnlockToPoll,
    LookDurable,
    LookPoison,
    LaneAway,
    LockForLane,
    LaneUnderLock,
    OwnAgain,
    ReadTail,
    MarkSync,
    SyncStart,
    SyncEnd,
    ReadTailLate,
    LookAtOther,
    LookPoisonAgain,
    Raise,
    MarkWell,
    ReleaseLane,
    PoisonWord,
    PoisonFile,
    Stopped,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Proc {
    at: At,
    /// Commits done, or given up.
    done: u8,
    /// Frames of this write that are whole.
    put: u8,
    /// Where this write began.
    from: u8,
    /// What it has folded: up to here, and the last frame there.
    end: u8,
    last: u8,
    /// What is to become durable.
    mine: u8,
    /// Up to where the sync it makes will count, and the slots that sync covers.
    to: u8,
    covers: u8,
    lane: u8,
    /// The lane to take under LOCK, if it must be a certain one; and the sync of the other lane that is awaited.
    wish: u8,
    awaited: u8,
    owns: bool,
    listed: bool,
    epoch_due: bool,
    healing: bool,
    synced: bool,
    failed: bool,
    retried: bool,
    poison_stood: bool,
}

const FRESH: Proc = Proc {
    at: At::Idle,
    done: 0,
    put: 0,
    from: 0,
    end: 0,
    last: 0,
    mine: 0,
    to: 0,
    covers: 0,
    lane: NOBODY,
    wish: NOBODY,
    awaited: 0,
    owns: false,
    listed: false,
    epoch_due: false,
    healing: false,
    synced: false,
    failed: false,
    retried: false,
    poison_stood: false,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    cache: [u8; SLOTS],
    disk: [u8; SLOTS],
    /// Slots that a sync would write.
    dirty: u8,
    lock: u8,
    lanes: [u8; 2],
    tail: u8,
    durable: u8,
    dirty_from: u8,
    waiters: u8,
    hint: u8,
    /// A bit a lane, by the meaning that [`Marker`] says.
    marks: u8,
    begun: [u8; 2],
    well: [u8; 2],
    poison: bool,
    poison_file: bool,
    /// A descriptor a bit: an error that it has not been told. One caller: the lowest bit is everybody's.
    errors: u8,
    /// For each frame that was ever written: the one before it, and its epoch and number.
    link: [u8; IDS],
    number: [u8; IDS],
    epochs: u8,
    seen: u16,
    acked: u16,
    acked_durable: u16,
    sync_failed: bool,
    broken: Option<Broken>,
    left: Faults,
    procs: [Proc; PROCS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    who: u8,
    what: &'static str,
    n: u8,
    fault: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            NOBODY => write!(f, "        ** ")?,
            who => write!(f, "process {} ", char::from(b'A' + who))?,
        }
        match self.n {
            NOBODY => f.write_str(self.what),
            n => write!(f, "{} {n}", self.what),
        }
    }
}

/// The whole frames from the start on.
fn frames<'a>(
    slots: &'a [u8; SLOTS],
    link: &'a [u8; IDS],
    long: &'a [bool; PROCS],
) -> impl Iterator<Item = (u8, u8)> + 'a {
    let (mut end, mut last) = (0, 0);
    std::iter::from_fn(move || {
        let id = *slots.get(end)?;
        if id == 0 || id >= REST || link[usize::from(id)] != last {
            return None;
        }
        let two = long[(usize::from(id) - 1) / 3];
        if two && slots.get(end + 1) != Some(&(REST | id)) {
            return None;
        }
        end += 1 + usize::from(two);
        last = id;
        Some((id, end as u8))
    })
}

fn bit(n: u8) -> u8 {
    1 << n
}

impl Config {
    fn end(&self, s: &State) -> (u8, u8) {
        frames(&s.cache, &s.link, &self.long).last().map_or((0, 0), |(id, end)| (end, id))
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    fn descriptor(&self, p: usize) -> u8 {
        bit(if self.one_caller || self.one_descriptor && p < 2 { 0 } else { p as u8 })
    }

    fn see(&self, s: &mut State) {
        let ids: u16 = frames(&s.cache, &s.link, &self.long).map(|(id, _)| 1 << id).sum();
        s.seen |= ids;
    }

    /// Whether an error of an earlier sync is waiting to be told to this process.
    fn must_fail(&self, s: &State, p: usize) -> bool {
        s.errors & self.descriptor(p) != 0
    }

    fn put(&self, s: &mut State, slot: usize, value: u8) {
        if s.cache[slot] != value {
            s.cache[slot] = value;
            for proc in &mut s.procs {
                // What changes while a sync is under way is not covered by it.
                proc.covers &= !bit(slot as u8);
            }
        }
        s.dirty |= bit(slot as u8);
    }

    /// The same bytes again, from the durable word on.
    fn own(&self, s: &mut State, p: usize) {
        for slot in s.durable..s.procs[p].end {
            s.dirty |= bit(slot);
        }
        s.procs[p].owns = true;
    }

    fn ack(&self, s: &mut State, p: usize, durable: bool) {
        let proc = s.procs[p];
        let ids = frames(&s.cache, &s.link, &self.long)
            .filter(|(id, end)| (usize::from(*id) - 1) / 3 == p && *end <= proc.end)
            .map(|(id, _)| 1_u16 << id)
            .sum::<u16>();
        // What does not stand any more was acknowledged all the same.
        let first = 1 + p * 3 + usize::from(proc.done - proc.put);
        let own: u16 = (first..first + usize::from(proc.put)).map(|id| 1_u16 << id).sum();
        let all = own | if durable { ids } else { 0 };
        s.acked |= all;
        s.seen |= all;
        if durable {
            s.acked_durable |= all;
        }
    }

    /// A durable commit returns.
    fn finish(&self, s: &mut State, p: usize) {
        self.ack(s, p, true);
        self.rest(s, p);
    }

    fn rest(&self, s: &mut State, p: usize) {
        let proc = s.procs[p];
        s.procs[p] = Proc {
            done: proc.done,
            end: proc.end,
            last: proc.last,
            owns: proc.owns,
            listed: proc.listed,
            ..FRESH
        };
    }

    fn stop(&self, s: &mut State, p: usize) {
        let proc = s.procs[p];
        if s.lock == p as u8 {
            s.lock = NOBODY;
        }
        if proc.lane != NOBODY {
            s.lanes[usize::from(proc.lane)] = NOBODY;
        }
        s.procs[p] = Proc { at: At::Stopped, done: proc.done, end: proc.end, last: proc.last, ..FRESH };
    }

    /// Whether what a process has folded still stands.
    fn stands(&self, s: &State, proc: &Proc) -> bool {
        proc.end == 0 || frames(&s.cache, &s.link, &self.long).any(|frame| frame == (proc.last, proc.end))
    }
}

impl Model for Config {
    type State = State;
    type Step = Step;
    type Broken = Broken;
    const STUCK: Broken = Broken::Stuck;

    fn start(&self) -> State {
        // A log that is in use: everybody has its descriptor, has been listed, and nothing is left over.
        let proc = Proc { owns: true, listed: true, ..FRESH };
        let mut procs = [proc; PROCS];
        procs[self.procs..].fill(Proc { at: At::Dead, ..FRESH });
        State {
            cache: [0; SLOTS],
            disk: [0; SLOTS],
            dirty: 0,
            lock: NOBODY,
            lanes: [NOBODY; 2],
            tail: 0,
            durable: 0,
            dirty_from: 0,
            waiters: 0,
            hint: 0,
            marks: if self.marker == Marker::EndedWell { 3 } else { 0 },
            begun: [u8::from(self.marker == Marker::Counted); 2],
            well: [u8::from(self.marker == Marker::Counted); 2],
            poison: false,
            poison_file: false,
            errors: 0,
            link: [0; IDS],
            number: [0; IDS],
            epochs: 0,
            seen: 0,
            acked: 0,
            acked_durable: 0,
            sync_failed: false,
            broken: None,
            left: self.faults,
            procs,
        }
    }

    fn steps(&self, s: &State, out: &mut Vec<(Step, State)>) {
        let tidy = |mut n: State| {
            for slot in 0..SLOTS {
                if n.cache[slot] == n.disk[slot] {
                    n.dirty &= !bit(slot as u8);
                }
            }
            n
        };
        for p in 0..self.procs {
            self.own_steps(s, p, &mut |what, n, after| {
                out.push((Step { who: p as u8, what, n, fault: false }, tidy(after)));
            });
        }
        self.faults(s, &mut |who, what, n, after| {
            out.push((Step { who, what, n, fault: true }, tidy(after)));
        });
    }

    fn broken(&self, s: &State) -> Option<Broken> {
        if s.broken.is_some() {
            return s.broken;
        }
        let on_disk: u16 = frames(&s.disk, &s.link, &self.long).map(|(id, _)| 1_u16 << id).sum();
        if s.acked_durable & !on_disk != 0 {
            return Some(Broken::DurableLost);
        }
        if !s.sync_failed {
            let stand: u16 = frames(&s.cache, &s.link, &self.long).map(|(id, _)| 1_u16 << id).sum();
            if s.acked & !stand != 0 {
                return Some(Broken::BufferedLost);
            }
            let folded = |proc: &Proc| proc.at == At::Dead || self.stands(s, proc);
            if !s.procs.iter().all(folded) {
                return Some(Broken::TakenBack);
            }
        }
        let counted = if s.sync_failed { s.acked_durable } else { s.seen };
        let numbers = || (1..IDS).filter(|id| counted & 1 << id != 0).map(|id| s.number[id]);
        let twice =
            numbers().enumerate().any(|(n, number)| numbers().skip(n + 1).any(|other| other == number));
        twice.then_some(Broken::NumberTwice)
    }

    fn is_at_rest(&self, s: &State) -> bool {
        (0..self.procs).all(|p| {
            let proc = &s.procs[p];
            match proc.at {
                At::Dead | At::Stopped => true,
                At::Idle | At::Kept => proc.done >= self.commits[p],
                _ => false,
            }
        })
    }

    fn is_own(&self, step: Step) -> bool {
        !step.fault
    }
}
