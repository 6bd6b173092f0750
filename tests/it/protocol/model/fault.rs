//! What can be done to the processes, to the disk and to the words.

use super::{At, Config, FRESH, Marker, Mutation, NOBODY, Proc, SLOTS, State, TORN, Words, bit, frames};

impl Config {
    /// What can be done to them.
    pub(super) fn faults(&self, s: &State, add: &mut dyn FnMut(u8, &'static str, u8, State)) {
        for p in 0..self.procs {
            let (proc, me) = (s.procs[p], p as u8);
            if proc.at == At::Dead {
                if s.left.restarts > 0 && !s.poison_file {
                    let mut n = s.clone();
                    n.left.restarts -= 1;
                    (n.procs[p].end, n.procs[p].last) = self.end(s);
                    n.procs[p].at = At::Idle;
                    self.see(&mut n);
                    add(me, "starts again and opens the log", NOBODY, n);
                }
                continue;
            }
            if s.left.kills > 0 {
                let mut n = s.clone();
                n.left.kills -= 1;
                self.kill(&mut n, p);
                add(me, "is killed", NOBODY, n);
            }
            if proc.at == At::SyncEnd && s.left.fails > 0 && proc.covers & s.dirty != 0 {
                let mut n = s.clone();
                n.left.fails -= 1;
                self.forget(&mut n, proc.covers & s.dirty, Some(p));
                self.fails(&mut n, p);
                add(me, "is told that its sync failed; the pages are forgotten", NOBODY, n);
                if self.flush_fails {
                    let mut n = s.clone();
                    n.left.fails -= 1;
                    (n.dirty, n.sync_failed) = (s.dirty & !proc.covers, true);
                    self.fails(&mut n, p);
                    add(me, "is told, alone, that the device did not flush", NOBODY, n);
                }
            }
            if proc.at == At::WriteRest && s.left.full > 0 {
                let mut n = s.clone();
                n.left.full -= 1;
                let mut from = proc.end;
                if self.is(Mutation::WholeFramesUndone) {
                    let before =
                        frames(&s.cache, &s.link, &self.long).take_while(|(_, end)| *end <= proc.from);
                    let (end, last) = before.last().map_or((0, 0), |(id, end)| (end, id));
                    from = end;
                    (n.procs[p].end, n.procs[p].last, n.procs[p].put) = (end, last, 0);
                }
                for slot in usize::from(from)..SLOTS {
                    if s.cache[slot] != 0 {
                        self.put(&mut n, slot, 0);
                    }
                }
                // What landed whole stands; the others fail, and are made again as commits of their own.
                n.procs[p].at = At::Publish;
                add(me, "finds the disk full, zeroes what is not whole", NOBODY, n);
            }
        }
        if s.left.fails > 0 && s.dirty != 0 {
            let mut n = s.clone();
            n.left.fails -= 1;
            self.forget(&mut n, s.dirty, None);
            add(NOBODY, "write-back fails: the pages are forgotten", NOBODY, n);
        }
        if self.forgets && s.sync_failed {
            let gone = |slot: &usize| s.cache[*slot] != s.disk[*slot] && s.dirty & bit(*slot as u8) == 0;
            for slot in (0..SLOTS).filter(gone) {
                let mut n = s.clone();
                n.cache[slot] = s.disk[slot];
                add(NOBODY, "the kernel drops the forgotten page of slot", slot as u8, n);
            }
        }
        if s.left.cuts > 0 {
            self.cuts(s, add);
        }
        if s.left.scrambles > 0 {
            self.scramble(s, add);
        }
    }

    /// The power goes: of every slot that was not synced either is left, or neither.
    fn cuts(&self, s: &State, add: &mut dyn FnMut(u8, &'static str, u8, State)) {
        let open: Vec<usize> = (0..SLOTS).filter(|slot| s.cache[*slot] != s.disk[*slot]).collect();
        for choice in 0..3_u32.pow(open.len() as u32) {
            let mut n = s.clone();
            n.left.cuts -= 1;
            let mut rest = choice;
            for slot in &open {
                match rest % 3 {
                    1 if s.dirty & bit(*slot as u8) != 0 => n.disk[*slot] = s.cache[*slot],
                    2 if s.dirty & bit(*slot as u8) != 0 => n.disk[*slot] = TORN,
                    _ => {}
                }
                rest /= 3;
            }
            n.cache = n.disk;
            n.dirty = 0;
            n.errors = 0;
            for p in 0..self.procs {
                self.kill(&mut n, p);
            }
            let stand: u16 = frames(&n.cache, &n.link, &self.long).map(|(id, _)| 1_u16 << id).sum();
            // What was only buffered may go; what has stayed must stay.
            n.acked &= stand | n.acked_durable;
            (n.waiters, n.hint) = (0, 0);
            n.poison = false;
            let mut zero = n.clone();
            add(NOBODY, "the power goes; the words stay", NOBODY, n);
            (zero.tail, zero.durable, zero.dirty_from) = (0, 0, 0);
            if self.marker == Marker::EndedWell {
                zero.marks = 0;
            }
            (zero.begun, zero.well) = ([0; 2], [0; 2]);
            add(NOBODY, "the power goes; the words too", NOBODY, zero);
        }
    }

    fn scramble(&self, s: &State, add: &mut dyn FnMut(u8, &'static str, u8, State)) {
        let mut word = |what: &'static str, change: &dyn Fn(&mut State)| {
            let mut n = s.clone();
            change(&mut n);
            if n != *s {
                n.left.scrambles -= 1;
                add(NOBODY, what, NOBODY, n);
            }
        };
        word("the tail word is zeroed", &|n| n.tail = 0);
        word("the durable word is zeroed", &|n| n.durable = 0);
        word("dirty_from is zeroed", &|n| n.dirty_from = 0);
        word("the poison word is zeroed", &|n| n.poison = false);
        word("the marks of the lanes are zeroed", &|n| {
            (n.marks, n.begun, n.well) = (0, [0; 2], [0; 2]);
        });
        word("the waiters word is zeroed", &|n| n.waiters = 0);
        word("all words are zeroed", &|n| {
            (n.tail, n.durable, n.dirty_from, n.poison) = (0, 0, 0, false);
            (n.marks, n.waiters, n.hint) = (0, 0, 0);
            (n.begun, n.well) = ([0; 2], [0; 2]);
        });
        if self.words == Words::Any {
            word("the tail word points beyond the end", &|n| n.tail = SLOTS as u8);
            word("dirty_from points at the start", &|n| n.dirty_from = 1);
            word("the waiters word is garbage", &|n| n.waiters = 3);
            word("the hint is garbage", &|n| n.hint = SLOTS as u8);
            if self.marker == Marker::UnderWay {
                word("the marks of the lanes are garbage", &|n| n.marks = 3);
            }
        }
    }

    /// Slots are forgotten by the kernel: clean, and not on the disk. `told` has heard of it by this very call.
    fn forget(&self, s: &mut State, slots: u8, told: Option<usize>) {
        s.dirty &= !slots;
        s.sync_failed = true;
        if self.one_caller {
            if told.is_none() {
                s.errors |= 1;
            }
            return;
        }
        for p in 0..self.procs {
            if s.procs[p].at != At::Dead {
                s.errors |= self.descriptor(p);
            }
        }
        if let Some(p) = told {
            s.errors &= !self.descriptor(p);
        }
    }

    fn kill(&self, s: &mut State, p: usize) {
        if s.lock == p as u8 {
            s.lock = NOBODY;
        }
        for lane in &mut s.lanes {
            if *lane == p as u8 {
                *lane = NOBODY;
            }
        }
        let shared = self.one_caller || self.one_descriptor && p < 2;
        if !shared {
            s.errors &= !self.descriptor(p);
        }
        s.procs[p] = Proc { at: At::Dead, done: s.procs[p].done, ..FRESH };
        // A commit that was under way is not made again: an id stands for one frame.
        while s.procs[p].done < self.commits[p] && s.number[1 + p * 3 + usize::from(s.procs[p].done)] != 0 {
            s.procs[p].done += 1;
        }
    }
}
