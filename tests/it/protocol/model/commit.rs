//! The steps of a commit, from LOCK to LOCK, and of healing.

use super::{At, Broken, Config, Mutation, NOBODY, Proc, REST, SLOTS, State, TORN, frames};

impl Config {
    /// What a process can do next: at most a handful of steps.
    pub(super) fn own_steps(&self, s: &State, p: usize, add: &mut dyn FnMut(&'static str, u8, State)) {
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
            At::Dead | At::Stopped => {}
            At::Idle => {
                let (end, last) = self.end(s);
                if end > proc.end {
                    let mut n = s.clone();
                    (n.procs[p].end, n.procs[p].last) = (end, last);
                    self.see(&mut n);
                    step!("looks without LOCK, folds what is whole", n);
                }
                if proc.done < self.commits[p] {
                    if self.keep {
                        n.waiters = (n.waiters + 1).min(3);
                        n.procs[p].at = At::Announced;
                        step!("announces itself as a waiter", n);
                    } else if s.lock == NOBODY {
                        n.lock = me;
                        n.procs[p].at = At::CatchUp;
                        step!("takes LOCK", n);
                    }
                }
            }
            At::Announced if s.lock == NOBODY => {
                n.lock = me;
                n.procs[p].at = At::Unannounce;
                step!("takes LOCK", n);
            }
            At::Announced => {}
            At::Unannounce => {
                n.waiters = n.waiters.saturating_sub(1);
                n.procs[p].at = At::CatchUp;
                step!("takes its announcement back", n);
            }
            At::CatchUp => {
                let (mut end, mut last) = self.end(s);
                if self.is(M::AppendAtTailWord) {
                    end = s.tail;
                    let at_tail = frames(&s.cache, &s.link, &self.long).find(|(_, at)| *at == end);
                    last = at_tail.map_or(0, |(id, _)| id);
                }
                if end < proc.end || !self.stands(s, &proc) {
                    self.stop(&mut n, p);
                    return step!("finds that what it had folded is gone: refuses", n);
                }
                if s.durable > end {
                    if !s.sync_failed {
                        n.broken = Some(Broken::FalseDamage);
                    }
                    self.stop(&mut n, p);
                    return step!("finds the end below the durable word: damage", n);
                }
                let witness = proc.listed
                    || (0..self.procs).any(|q| {
                        q != p
                            && !matches!(s.procs[q].at, At::Dead)
                            && (s.procs[q].listed || self.is(M::AnybodyIsWitness))
                    });
                (n.procs[p].end, n.procs[p].last) = (end, last);
                (n.procs[p].from, n.procs[p].put) = (end, 0);
                self.see(&mut n);
                if witness {
                    n.procs[p].listed = true;
                } else {
                    n.procs[p].epoch_due = !self.is(M::NoEpoch);
                    (n.tail, n.dirty_from) = (end, 0);
                }
                let behind = &s.cache[usize::from(end)..];
                let rubbish = if self.is(M::TornEndNotHealed) {
                    false
                } else if self.is(M::DirtyClearedEarly) {
                    s.dirty_from != 0
                } else if witness && s.dirty_from == 0 {
                    behind.first().is_some_and(|slot| *slot != 0)
                } else {
                    behind.iter().any(|slot| *slot != 0)
                };
                let cut = self.is(M::CutFromDirty) && s.dirty_from != 0 && s.dirty_from - 1 < end;
                n.procs[p].at = if rubbish || cut {
                    At::Zero
                } else if self.durable[p] && !proc.owns && !self.is(M::OwnBytesSkipped) {
                    At::Own
                } else {
                    At::SetDirty
                };
                step!(
                    match (witness, rubbish || cut) {
                        (true, false) => "reads to the end: clean",
                        (true, true) => "reads to the end: torn",
                        (false, false) => "reads to the end: clean; no witness",
                        (false, true) => "reads to the end: torn; no witness",
                    },
                    n,
                );
            }
            At::Zero => {
                let mut from = proc.end;
                if self.is(M::CutFromDirty) && s.dirty_from != 0 {
                    from = s.dirty_from - 1;
                    let before = frames(&s.cache, &s.link, &self.long).take_while(|(_, end)| *end <= from);
                    let (end, last) = before.last().map_or((0, 0), |(id, end)| (end, id));
                    (n.procs[p].end, n.procs[p].last, n.procs[p].from) = (end, last, end);
                }
                for slot in usize::from(from)..SLOTS {
                    if s.cache[slot] != 0 {
                        self.put(&mut n, slot, 0);
                    }
                }
                n.procs[p].healing = true;
                n.procs[p].mine = 0;
                n.procs[p].at = At::Own;
                step!("sets aside and zeroes what is behind the end", n);
            }
            At::Own => {
                if !self.stands(s, &n.procs[p]) && !self.is(M::OwnBytesUnread) {
                    self.stop(&mut n, p);
                    return step!("finds that what it had folded is gone: refuses", n);
                }
                if !proc.owns && !self.is(M::OwnBytesSkipped) {
                    self.own(&mut n, p);
                }
                n.procs[p].at = if proc.healing { At::LaneUnderLock } else { At::SetDirty };
                step!("writes what is not vouched for again", n);
            }
            At::SetDirty => {
                n.dirty_from = proc.end + 1;
                n.procs[p].at = match self.mutation {
                    M::PublishBeforeWrite => At::PublishEarly,
                    M::DirtyClearedEarly | M::DirtyClearedEarlyOnly => At::ClearDirtyEarly,
                    M::UnlockBeforeWrite => At::UnlockEarly,
                    _ => At::WritePart,
                };
                step!("sets dirty_from", n);
            }
            At::PublishEarly => {
                n.tail = proc.end + 1 + u8::from(self.long[p]);
                n.procs[p].at = At::WritePart;
                step!("publishes the tail", n);
            }
            At::ClearDirtyEarly => {
                n.dirty_from = 0;
                n.procs[p].at = At::WritePart;
                step!("clears dirty_from", n);
            }
            At::UnlockEarly => {
                n.lock = NOBODY;
                n.procs[p].at = At::WritePart;
                step!("gives LOCK back", n);
            }
            At::WritePart => {
                let len = 1 + usize::from(self.long[p]);
                let end = usize::from(proc.end);
                if end + len > SLOTS {
                    return; // never with these numbers of commits; `Stuck` would tell
                }
                for slot in end..end + len {
                    self.put(&mut n, slot, TORN);
                }
                n.procs[p].at = At::WriteRest;
                step!("has written a part of its frame", n);
            }
            At::WriteRest => {
                let id = 1 + me * 3 + proc.done + proc.put;
                let end = usize::from(proc.end);
                self.put(&mut n, end, id);
                if self.long[p] {
                    self.put(&mut n, end + 1, REST | id);
                }
                let before = frames(&s.cache, &s.link, &self.long).take_while(|(_, end)| *end <= proc.end);
                let count = before.count() as u8;
                let epoch = if proc.epoch_due {
                    n.epochs += 1;
                    n.epochs
                } else {
                    s.number[usize::from(proc.last)] >> 4
                };
                n.link[usize::from(id)] = proc.last;
                n.number[usize::from(id)] = epoch << 4 | (count + 1);
                let now = &mut n.procs[p];
                now.epoch_due = false;
                now.put += 1;
                (now.end, now.last) = (proc.end + 1 + u8::from(self.long[p]), id);
                let more = now.put < self.wanted(now, p);
                now.at = if more { At::WritePart } else { At::Publish };
                step!("has written its frame whole", n);
            }
            At::Publish => {
                n.tail = proc.end;
                n.procs[p].listed |= proc.put > 0;
                n.procs[p].at = At::ClearDirty;
                step!("publishes the tail", n);
            }
            At::ClearDirty => {
                n.dirty_from = 0;
                n.procs[p].at = At::Unlock;
                step!("clears dirty_from", n);
            }
            At::Unlock => {
                if s.lock == me {
                    self.release_clean(&mut n);
                }
                let now = &mut n.procs[p];
                now.done += proc.put;
                if self.durable[p] && proc.put > 0 {
                    now.mine = proc.end;
                    now.at = At::Poll;
                    step!("gives LOCK back", n);
                } else {
                    self.ack(&mut n, p, false);
                    self.rest(&mut n, p);
                    step!("gives LOCK back; its commit returns", n);
                    if self.keep && s.waiters == 0 && proc.put > 0 {
                        let mut n = s.clone();
                        n.procs[p].done += proc.put;
                        self.ack(&mut n, p, false);
                        self.rest(&mut n, p);
                        n.procs[p].at = At::Kept;
                        step!("sees no waiter, keeps LOCK; its commit returns", n);
                    }
                }
            }
            At::Kept => {
                if proc.done < self.commits[p] {
                    n.procs[p].at = At::CatchUp;
                    step!("commits again under the kept LOCK", n);
                }
                if !self.is(M::KeptWithoutTimer) {
                    let mut n = s.clone();
                    self.release_clean(&mut n);
                    n.procs[p].at = At::Idle;
                    step!("gives the kept LOCK back by its timer", n);
                }
            }
            _ => self.sync_steps(s, p, add),
        }
    }

    /// How many frames this write is to have.
    fn wanted(&self, proc: &Proc, p: usize) -> u8 {
        let left = self.commits[p] - proc.done;
        if self.batch { left } else { left.min(1) }
    }

    fn release_clean(&self, s: &mut State) {
        let (end, _) = self.end(s);
        if !s.sync_failed && s.cache[usize::from(end)..].iter().any(|slot| *slot != 0) {
            s.broken = Some(Broken::UncleanEnd);
        }
        s.lock = NOBODY;
    }
}
