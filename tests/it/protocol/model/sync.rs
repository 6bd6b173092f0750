//! The steps that make a commit durable, in a lane.

use super::{At, Broken, Config, FRESH, Marker, Mutation, NOBODY, Proc, SLOTS, State, TailFrom, bit};

impl Config {
    /// Steps from the end of the append to the acknowledgement.
    pub(super) fn sync_steps(&self, s: &State, p: usize, add: &mut dyn FnMut(&'static str, u8, State)) {
        use Mutation as M;
        let me = p as u8;
        let proc = s.procs[p];
        let mut n = s.clone();
        macro_rules! step {
            ($what:expr, $n:expr $(,)?) => {
                add($what, NOBODY, $n)
            };
        }
        match proc.at {
            At::Poll => {
                if s.durable >= proc.mine {
                    let mut n = s.clone();
                    if self.stands(s, &proc) || self.is(M::WordBelieved) {
                        self.finish(&mut n, p);
                        step!("sees durable at its commit, which stands, and returns", n);
                    } else {
                        self.stop(&mut n, p);
                        step!("sees durable at its commit, which is gone: fails", n);
                    }
                }
                if (s.poison || s.poison_file) && !self.is(M::PoisonNotLookedAt) {
                    let mut n = s.clone();
                    self.stop(&mut n, p);
                    step!("sees poison: its commit fails", n);
                }
                if self.is(M::HintBelieved) && s.hint >= proc.mine {
                    return;
                }
                let free = (0..self.lanes).find(|lane| s.lanes[*lane] == NOBODY);
                let stolen = self.is(M::LaneStolen).then_some(0);
                if let Some(lane) = free.or(stolen) {
                    self.take_lane(&mut n, p, lane);
                    n.procs[p].at = At::LookDurable;
                    add("takes lane", lane as u8, n);
                }
            }
            At::UnlockToPoll => {
                n.lock = NOBODY;
                n.procs[p].at = At::Poll;
                if proc.synced {
                    self.finish(&mut n, p);
                    return step!("gives LOCK back; its commit returns", n);
                }
                step!("gives LOCK back", n);
            }
            At::LookDurable => {
                n.procs[p].at = if s.durable >= proc.mine { At::ReleaseLane } else { At::LookPoison };
                step!("looks at durable", n);
            }
            At::LookPoison => {
                if (s.poison || s.poison_file) && !self.is(M::PoisonNotLookedAt) {
                    self.stop(&mut n, p);
                    return step!("sees poison, leaves the lane: its commit fails", n);
                }
                n.procs[p].at = self.may_sync(s, p);
                step!("looks at poison and at the mark of the lane", n);
            }
            // Whoever waits for LOCK in a lane waits for a healer, who waits for the lane.
            At::LaneAway => {
                n.lanes[usize::from(proc.lane)] = NOBODY;
                n.procs[p].lane = NOBODY;
                n.procs[p].poison_stood = false;
                n.procs[p].at = At::LockForLane;
                step!("gives the lane back to take LOCK first", n);
            }
            At::LockForLane if s.lock == NOBODY => {
                n.lock = me;
                n.procs[p].at = At::LaneUnderLock;
                step!("takes LOCK", n);
            }
            At::LaneUnderLock => {
                if s.lock != me {
                    // Only where the lane is kept.
                    if s.lock == NOBODY {
                        n.lock = me;
                        n.procs[p].at = At::OwnAgain;
                        step!("takes LOCK", n);
                    }
                } else if let Some(lane) = (0..self.lanes).find(|lane| {
                    s.lanes[*lane] == NOBODY && (proc.wish == NOBODY || usize::from(proc.wish) == *lane)
                }) {
                    self.take_lane(&mut n, p, lane);
                    n.procs[p].at = At::LookPoison;
                    add("takes, under LOCK, lane", lane as u8, n);
                }
            }
            At::OwnAgain => {
                // Frames that others have appended since, too.
                let (end, last) = self.end(s);
                if !self.stands(s, &proc) && !self.is(M::OwnBytesUnread) {
                    n.procs[p].failed = true;
                    n.procs[p].at = At::PoisonWord;
                    return step!("finds that what it had folded is gone", n);
                }
                if end > proc.end {
                    (n.procs[p].end, n.procs[p].last) = (end, last);
                }
                self.see(&mut n);
                self.own(&mut n, p);
                n.procs[p].at = self.tail_or_sync();
                step!("writes what is not vouched for again", n);
            }
            At::ReadTail => {
                n.procs[p].to = match self.tail {
                    TailFrom::Word => s.tail.max(proc.mine),
                    TailFrom::Bytes if self.end_from_memory() => self.end(s).0.max(proc.mine),
                    TailFrom::Bytes => self.end(s).0,
                };
                if self.tail == TailFrom::Bytes && !self.stands(s, &proc) && !self.end_from_memory() {
                    n.procs[p].failed = true;
                    n.procs[p].at = At::PoisonWord;
                    return step!("finds that its own frame is gone", n);
                }
                if self.is(M::HintBelieved) {
                    n.hint = n.procs[p].to;
                }
                n.procs[p].at = At::MarkSync;
                add("reads the end:", n.procs[p].to, n);
            }
            At::MarkSync => {
                match self.marker {
                    Marker::None => {}
                    Marker::UnderWay => n.marks |= bit(proc.lane),
                    Marker::EndedWell => n.marks &= !bit(proc.lane),
                    Marker::Counted => n.begun[usize::from(proc.lane)] += 1,
                }
                n.procs[p].at = At::SyncStart;
                step!("marks the lane: a sync begins", n);
            }
            At::SyncStart => {
                n.procs[p].covers = s.dirty;
                n.procs[p].at = At::SyncEnd;
                step!("begins to sync", n);
            }
            At::SyncEnd => {
                if self.must_fail(s, p) {
                    n.errors &= !self.descriptor(p);
                    self.fails(&mut n, p);
                    return step!("is told that the sync failed", n);
                }
                for slot in 0..SLOTS {
                    if proc.covers & s.dirty & bit(slot as u8) != 0 {
                        n.disk[slot] = s.cache[slot];
                    }
                }
                n.dirty &= !proc.covers;
                n.procs[p].covers = 0;
                n.procs[p].at = match self.mutation {
                    M::TailReadAfterSync => At::ReadTailLate,
                    _ if self.marker == Marker::Counted => At::MarkWell,
                    _ => self.before_raise(),
                };
                step!("has synced", n);
            }
            At::ReadTailLate => {
                n.procs[p].to = self.end(s).0.max(proc.mine);
                n.procs[p].at = self.before_raise();
                add("reads the end:", n.procs[p].to, n);
            }
            At::LookAtOther => {
                let other = 1 - proc.lane;
                let (begun, well) = (s.begun[usize::from(other)], s.well[usize::from(other)]);
                let awaited = if proc.awaited == 0 { begun } else { proc.awaited };
                if begun != 0 && (begun == well || well >= awaited) {
                    n.procs[p].awaited = 0;
                    n.procs[p].at = self.before_raise();
                    step!("sees the other lane's sync ended well", n);
                } else if begun == 0 || s.lanes[usize::from(other)] == NOBODY {
                    n.procs[p].awaited = 0;
                    if proc.healing || s.lock == me {
                        // It holds LOCK: it may take the other lane at once.
                        n.lanes[usize::from(proc.lane)] = NOBODY;
                        n.procs[p].lane = NOBODY;
                        n.procs[p].at = At::LaneUnderLock;
                    } else {
                        n.procs[p].at = At::LaneAway;
                    }
                    n.procs[p].wish = other;
                    step!("sees that the other lane's sync may have failed", n);
                } else if proc.awaited == 0 {
                    n.procs[p].awaited = begun;
                    step!("sees a sync under way in the other lane, waits for it", n);
                }
            }
            At::LookPoisonAgain => {
                if s.poison || s.poison_file {
                    self.stop(&mut n, p);
                    return step!("sees poison, leaves the lane: its commit fails", n);
                }
                n.procs[p].at = At::Raise;
                step!("looks at poison again", n);
            }
            At::Raise => {
                if proc.poison_stood {
                    n.broken = Some(Broken::PoisonPassed);
                }
                n.durable = s.durable.max(proc.to);
                n.procs[p].synced = true;
                n.procs[p].at = match self.marker {
                    Marker::None | Marker::Counted => At::ReleaseLane,
                    Marker::UnderWay | Marker::EndedWell => At::MarkWell,
                };
                add("raises durable to", n.durable, n);
            }
            At::MarkWell => {
                match self.marker {
                    Marker::None => {}
                    Marker::UnderWay => n.marks &= !bit(proc.lane),
                    Marker::EndedWell => n.marks |= bit(proc.lane),
                    Marker::Counted => {
                        let lane = usize::from(proc.lane);
                        n.begun[lane] = s.begun[lane].max(1);
                        n.well[lane] = n.begun[lane];
                    }
                }
                n.procs[p].at = match self.marker {
                    Marker::Counted if self.lanes == 2 && !self.is(M::OverlapNotAwaited) => At::LookAtOther,
                    Marker::Counted => self.before_raise(),
                    _ => At::ReleaseLane,
                };
                step!("marks the lane: the sync ended well", n);
            }
            At::PoisonWord => {
                n.poison = true;
                n.procs[p].at = At::PoisonFile;
                step!("raises the poison word", n);
            }
            At::PoisonFile => {
                n.poison_file = true;
                if self.is(M::PoisonAfterLane) {
                    self.after_lane(&mut n, p);
                } else {
                    n.procs[p].at = At::ReleaseLane;
                }
                step!("leaves POISON, synced", n);
            }
            At::ReleaseLane => {
                if s.lanes[usize::from(proc.lane)] == me {
                    n.lanes[usize::from(proc.lane)] = NOBODY;
                }
                if proc.failed && self.is(M::PoisonAfterLane) {
                    n.procs[p].at = At::PoisonWord;
                    return step!("gives the lane back", n);
                }
                self.after_lane(&mut n, p);
                step!("gives the lane back", n);
            }
            _ => {}
        }
    }

    fn take_lane(&self, n: &mut State, p: usize, lane: usize) {
        n.lanes[lane] = p as u8;
        n.procs[p].lane = lane as u8;
        n.procs[p].poison_stood = n.poison_file;
    }

    /// A process has been told that its sync failed.
    pub(super) fn fails(&self, n: &mut State, p: usize) {
        let proc = &mut n.procs[p];
        proc.covers = 0;
        match self.mutation {
            Mutation::SyncRetried if !proc.retried => {
                proc.retried = true;
                proc.at = At::SyncStart;
            }
            Mutation::PoisonForgotten | Mutation::PoisonAfterLane => {
                proc.failed = true;
                proc.at = At::ReleaseLane;
            }
            _ => {
                proc.failed = true;
                proc.at = At::PoisonWord;
            }
        }
    }

    /// Leaves a lane: where to next.
    fn after_lane(&self, s: &mut State, p: usize) {
        let proc = &mut s.procs[p];
        proc.lane = NOBODY;
        (proc.to, proc.covers, proc.retried, proc.poison_stood) = (0, 0, false, false);
        (proc.wish, proc.awaited) = (NOBODY, 0);
        let locked = s.lock == p as u8;
        if proc.failed {
            if locked {
                s.lock = NOBODY;
            }
            s.procs[p] = Proc { at: At::Stopped, end: proc.end, last: proc.last, ..FRESH };
        } else if proc.healing {
            (proc.healing, proc.synced, proc.mine) = (false, false, 0);
            proc.at = At::SetDirty;
        } else if locked {
            proc.at = At::UnlockToPoll;
        } else {
            proc.at = At::Poll;
        }
        if s.procs[p].at == At::Poll && s.procs[p].synced {
            self.finish(s, p);
        }
    }

    /// Where the lane leads once durable and poison have been looked at.
    fn may_sync(&self, s: &State, p: usize) -> At {
        match (self.is_suspect(s, s.procs[p].lane), s.lock == p as u8) {
            (false, _) => self.tail_or_sync(),
            (true, true) => At::OwnAgain,
            (true, false) if self.is(Mutation::LaneKeptWaitingForLock) => At::LaneUnderLock,
            (true, false) => At::LaneAway,
        }
    }

    /// Whether the last sync of a lane may have failed without anybody left to say so.
    fn is_suspect(&self, s: &State, lane: u8) -> bool {
        let at = usize::from(lane);
        match self.marker {
            Marker::None => false,
            Marker::UnderWay => s.marks & bit(lane) != 0,
            Marker::EndedWell => s.marks & bit(lane) == 0,
            Marker::Counted => s.begun[at] == 0 || s.begun[at] != s.well[at],
        }
    }

    fn before_raise(&self) -> At {
        match self.mutation {
            Mutation::PoisonNotLookedAt | Mutation::PoisonNotLookedAtAgain => At::Raise,
            _ => At::LookPoisonAgain,
        }
    }

    fn end_from_memory(&self) -> bool {
        self.is(Mutation::OwnBytesUnread) || self.is(Mutation::EndNotReadAgain)
    }

    fn tail_or_sync(&self) -> At {
        if self.is(Mutation::TailReadAfterSync) { At::MarkSync } else { At::ReadTail }
    }
}
