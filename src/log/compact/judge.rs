//! What becomes of each event: which are overwritten, which of those are kept all the same, and which are to go.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use crate::log::envelope::{Commit, Envelope, Key, Preamble};
use crate::log::fold::{Keep, Keeps};
use crate::log::format::EVENT_ELIDED;
use crate::log::state::State;
use crate::log::{OpId, Revision, Seq};

/// What a state event does to its key, as far as compaction goes by it. A value is a bit; which one is the fold's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It gives these values, whatever they were, and does nothing else but take a number and a revision. It may go where they
    /// were there before it, and are given again behind it.
    Gives(u64),
    /// It stays. Behind it the values `given` are there, and those `taken` are not, or what they were before it matters.
    Stays {
        /// See there.
        given: u64,
        /// See there.
        taken: u64,
    },
}

/// It stays, and has to do with no value.
impl Default for Effect {
    fn default() -> Self {
        Effect::Stays { given: 0, taken: 0 }
    }
}

/// One event, as far as the judgement goes by it.
struct Judged {
    key: u32,
    effect: Effect,
    /// Whether all that it gives was there before.
    was_there: bool,
    /// Whether it may go at all.
    may_go: bool,
    /// Whether it is to go, whatever it does.
    must_go: bool,
    /// About how many bytes it has.
    len: u32,
    /// The commit it is in, among those judged.
    commit: u32,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// It goes, and leaves its number.
    Goes,
    /// It goes, and leaves its number, its key and its revision: who sends its request again is answered with them.
    Blank,
}

/// Of which keys everything goes that was said before an event: that event's number.
pub(in crate::log) type Purged = HashMap<Key, Seq, RandomState>;

/// The events of the segments, in order, and which of them go.
#[derive(Default)]
pub(super) struct Judgement {
    keys: HashMap<Key, u32, RandomState>,
    there: Vec<u64>,
    events: Vec<Judged>,
    /// When each commit was made, the request it answers, and its first event.
    commits: Vec<(u64, Option<OpId>, Seq)>,
}

impl Judgement {
    pub(super) fn take(
        &mut self,
        commit: &Commit<'_>,
        purged: &Purged,
        effect: impl Fn(&Envelope<'_>) -> Option<Effect>,
    ) {
        let number = u32::try_from(self.commits.len()).unwrap_or(u32::MAX);
        let Preamble { time, operation, .. } = commit.preamble;
        let first = commit.first().map_or(Seq(0), |event| event.seq);
        self.commits.push((time, operation.map(|operation| operation.op_id), first));
        for event in commit.events() {
            let is_state = event.kind != EVENT_ELIDED && event.revision != Revision(0);
            let effect = if is_state { effect(&event) } else { None };
            let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
            let is_known = effect.is_some();
            // Whatever an unknown one does, it may be that what was before matters to it.
            let unknown = Effect::Stays { given: 0, taken: u64::MAX };
            let (key, effect) = match is_state {
                true => (*self.keys.entry(event.to_key()).or_insert(next), effect.unwrap_or(unknown)),
                false => (u32::MAX, Effect::default()),
            };
            if key == next {
                self.there.push(0);
            }
            let mut was_there = true;
            if let Some(there) = self.there.get_mut(key as usize) {
                match effect {
                    Effect::Gives(values) => {
                        was_there = values & !*there == 0;
                        *there |= values;
                    }
                    Effect::Stays { given, taken } => *there = *there & !taken | given,
                }
            }
            let must_go = event.kind != EVENT_ELIDED
                && !purged.is_empty()
                && purged.get(&event.to_key()).is_some_and(|behind| event.seq < *behind);
            let len = u32::try_from(event.body.len() + event.key.len() + 19).unwrap_or(u32::MAX);
            self.events.push(Judged {
                key,
                effect,
                was_there,
                may_go: is_known,
                must_go,
                len,
                commit: number,
            });
        }
    }

    /// Which events go: backwards, by what is given again behind them, and by what is kept of the history. `window` has
    /// the requests that may be sent again.
    pub(super) fn verdict(self, keeps: &Keeps, window: &Window, now: u64) -> Verdict {
        // A clock that was ahead when something was committed makes nothing older than it is.
        let newest = self.commits.iter().map(|(time, ..)| *time).max().unwrap_or(0).min(now);
        let mut kept = Kept { of: vec![None; self.there.len()], together: 0 };
        let mut names: Vec<Option<&Key>> = vec![None; self.there.len()];
        for (key, place) in &self.keys {
            if let Some(name) = names.get_mut(*place as usize) {
                *name = Some(key);
            }
        }
        let mut later = vec![0_u64; self.there.len()];
        let mut fates = vec![Fate::Stays; self.events.len()];
        let mut bytes = 0;
        for (event, fate) in self.events.iter().zip(&mut fates).rev() {
            let (time, request, first) = self.commits.get(event.commit as usize).copied().unwrap_or_default();
            let mut goes = event.must_go;
            if let Some(given_later) = later.get_mut(event.key as usize) {
                match event.effect {
                    Effect::Gives(values) => {
                        let is_history = event.may_go && event.was_there && values & !*given_later == 0;
                        let age = newest.saturating_sub(time);
                        goes |= is_history && !kept.keeps(event, age, names.get(event.key as usize), keeps);
                        *given_later |= values;
                    }
                    Effect::Stays { taken, .. } => *given_later &= !taken,
                }
            }
            if goes {
                bytes += u64::from(event.len);
                let asked = request.is_some_and(|op_id| window.needs(op_id, first));
                *fate = if asked { Fate::Blank } else { Fate::Goes };
            }
        }
        Verdict { fates, bytes, as_of: newest }
    }
}

/// How much history has been kept so far, from the newest on.
struct Kept {
    /// Of each key: what is to be kept, how many events and how many bytes have been.
    of: Vec<Option<(Keep, u64, u64)>>,
    together: u64,
}

impl Kept {
    fn keeps(&mut self, event: &Judged, old: u64, key: Option<&Option<&Key>>, keeps: &Keeps) -> bool {
        let (Some(place), Some(Some(key))) = (self.of.get_mut(event.key as usize), key) else { return false };
        let (keep, events, mine) = place.get_or_insert_with(|| (keeps(key), 0, 0));
        let stays = match keep {
            Keep::Nothing => false,
            Keep::All => true,
            Keep::Within { age, count, bytes, together } => {
                let sum = if *together { &mut self.together } else { &mut *mine };
                let stays = age.is_none_or(|age| old <= age)
                    && count.is_none_or(|count| *events < count)
                    && bytes.is_none_or(|bytes| *sum + u64::from(event.len) <= bytes);
                // Nothing older than what is left out is kept: history has one end.
                if stays {
                    *sum += u64::from(event.len)
                } else {
                    *keep = Keep::Nothing
                }
                stays
            }
        };
        *events += u64::from(stays);
        stays
    }
}

/// Which events go, about how many bytes with them, and when the newest commit was made.
pub(super) struct Verdict {
    pub(super) fates: Vec<Fate>,
    pub(super) bytes: u64,
    pub(super) as_of: u64,
}

/// The memory of op ids.
#[derive(PartialEq, Eq)]
pub(super) struct Window {
    ids: HashSet<OpId, RandomState>,
    /// The first event of the last one that was forgotten. It stays in the log: by it a request is known to be older than the memory.
    start: Seq,
}

impl Window {
    pub(super) fn of(state: &State) -> Self {
        Window { ids: state.operations.keys().copied().collect(), start: state.window_start }
    }

    pub(super) fn needs(&self, op_id: OpId, first: Seq) -> bool {
        first == self.start || self.ids.contains(&op_id)
    }
}
