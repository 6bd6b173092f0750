//! Reading: how this process comes to know what others have committed, and hands it out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::engine::Log;
use super::format::WORD_TAIL;
use super::reader::{self, Reach, Walk};
use super::settings::{Recovery, Settings};
use super::snapshot;
use super::state::State;
use super::view::{Tail, View};
use super::{Consistency, LogId, Paths, Seq};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::{Open, Vfs};

/// How often a log is read anew whose last segment is replaced while it is read.
const REPLACED_MAX: u32 = 4;
/// For how long a reader believes the tail word that nothing is new.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

impl Log {
    /// Reads on to what others have committed, without the lock, and hands out the state.
    ///
    /// # Errors
    /// [`ErrorKind::StoreReplaced`], system errors. Bytes in motion are no error: the state is then as of before them.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.refresh()?;
        self.look(look)
    }

    /// Hands out the state as it is, and believes what was found in it only if it is not a spoiled snapshot's.
    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        let (found, trouble) = {
            let view = self.view.read();
            (look(&view.state), view.state.trouble())
        };
        let Some(trouble) = trouble else { return Ok(found) };
        // Whatever the view is by now.
        let left = self.leave_spoiled_snapshot();
        trouble.lost.map_or(left, |why| Err(why.duplicate()))?;
        Ok(found)
    }

    /// The state as of the last read or commit of this process; makes no system call, but where a snapshot has to be looked into.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn cached<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.check_fork()?;
        self.look(look)
    }

    /// Hands out a state that is as new as asked for, whole commits only.
    ///
    /// # Errors
    /// As [`Log::read`]; [`ErrorKind::NotYet`] if the event that was asked for is not in the log.
    ///
    /// # Blocking
    /// Never for LOCK, nor for any other process; for a commit of this process that is being written.
    pub fn read_at<T>(&self, consistency: Consistency, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.check_fork()?;
        let wanted = match consistency {
            Consistency::Latest => return self.read(look),
            Consistency::Cached => Seq(0),
            Consistency::AtLeast(seq) => seq,
        };
        if self.view.read().state.last() < wanted {
            self.refresh()?;
        }
        self.look(|state| (state.last() >= wanted).then(|| look(state)))?
            .ok_or_else(|| Error::new(ErrorKind::NotYet, "read", self.paths.dir()))
    }

    /// Reads on to what others have committed.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn refresh(&self) -> Result<()> {
        self.check_fork()?;
        if self.uses_words() {
            if self.is_told_all() {
                return Ok(());
            }
            self.control.look_again(&self.vfs, &self.paths, self.meta.log_id, self.lock.as_ref());
        }
        self.look_at_bytes()
    }

    /// Whether the view stands where the tail word says that the log ends, perhaps after reading on to there: whoever
    /// writes more tells of it. Once a second the bytes and their names are asked nevertheless, and whether the block is
    /// still the one that the others have.
    fn is_told_all(&self) -> bool {
        let seen = self.seen.load(Ordering::Acquire);
        if seen == 0 {
            return false;
        }
        let Some(word) = self.control.with(|block| block.load(WORD_TAIL)) else { return false };
        let now = self.vfs.monotonic_coarse();
        let then = Duration::from_nanos(self.looked_at.load(Ordering::Relaxed));
        now.saturating_sub(then) < BELIEVED_FOR && (word == seen || self.read_told(&mut self.view.write()))
    }

    /// Reads on to where the tail word says that the log ends, without a look at the file. `false` = that cannot be done
    /// so, or not that far; what has been read stands.
    pub(super) fn read_told(&self, view: &mut View) -> bool {
        if !self.uses_words() || !view.is_whole() {
            return false;
        }
        let told = self.control.with(|block| {
            let lpos = block.believed(WORD_TAIL, view.end_lpos())?;
            Some((lpos, block.word_of(lpos)))
        });
        let Some((lpos, word)) = told.flatten() else { return false };
        let is_there = view.read_to(lpos, &self.settings.vocabulary);
        if is_there {
            self.seen.store(word, Ordering::Release);
        }
        is_there
    }

    /// Reads on to what others have committed, whatever the words say.
    pub(super) fn look_at_bytes(&self) -> Result<()> {
        let now = self.vfs.monotonic();
        self.looked_at.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.leave_purged_snapshot()?;
        {
            let view = self.view.read();
            if view.too_new.is_some() {
                return Ok(());
            }
            // What is wrong there is for `follow` to say: a recovery may have gone on elsewhere.
            if view.damage.is_none() && matches!(view.len_at_end(), Ok(Some(_))) {
                self.note_seen(&view);
                return Ok(());
            }
        }
        let mut view = self.view.write();
        self.take_up_repair(&mut view)?;
        if view.damage.is_none() {
            self.follow(&mut view)?;
        }
        self.note_seen(&view);
        Ok(())
    }

    /// The tail word that will say that nothing was added to this view.
    fn note_seen(&self, view: &View) {
        if self.uses_words() {
            let word = if view.is_whole() {
                self.control.with(|block| block.word_of(view.end_lpos()))
            } else {
                None
            };
            self.seen.store(word.unwrap_or(0), Ordering::Release);
        }
    }

    /// Follows the bytes; rebuilds the view where repair has replaced what it was folded from. So again with what was folded
    /// anew: that may have been replaced in turn before its successor was met.
    pub(super) fn follow(&self, view: &mut View) -> Result<Tail> {
        let writing = self.session.is_some();
        for _ in 0..REPLACED_MAX {
            let (epochs, segments) = (view.state.epochs().len(), view.chain.len());
            let tail = view.catch_up(
                &*self.vfs,
                &self.paths,
                self.meta.log_id,
                &self.settings.vocabulary,
                open_for(writing),
            );
            // A copy of the segment may stand in its place, and the file itself be gone.
            let forward = matches!(&tail, Err(e) if matches!(e.kind(), ErrorKind::StoreReplaced { .. }))
                && self.went_forward(view);
            if !forward && let Err(e) = tail {
                return Err(self.lost_or(e));
            }
            // A Seal whose successor is not there may stand in a file that has been written anew since.
            let is_sealed = matches!(tail, Ok(Tail::Sealed { .. }));
            let moved = view.state.epochs().len() != epochs || view.chain.len() != segments;
            let moved = moved || forward || is_sealed;
            if !moved || !view.chain_is_replaced(&*self.vfs, &self.paths)? {
                return tail;
            }
            let walk = self.read_anew(view)?;
            self.forget_poison(view);
            walk.findings.into_iter().for_each(|finding| self.note(finding));
        }
        Err(Error::new(ErrorKind::NotYet, "follow", &self.paths.log()))
    }

    /// Folds the log from its first event, whatever snapshots there are.
    pub(super) fn replay_whole(&self) -> Result<(View, Walk)> {
        let (log, writing) = (self.meta.log_id, self.session.is_some());
        replay_whole(&*self.vfs, &self.paths, log, &self.settings, writing)
    }

    /// Folds the log anew.
    pub(super) fn read_anew(&self, view: &mut View) -> Result<Walk> {
        let (log, writing) = (self.meta.log_id, self.session.is_some());
        let whole = read_whole(&self.vfs, &self.paths, log, &self.settings, writing, &self.shunned())?;
        self.note_snapshot(whole.snapshot);
        *view = whole.view;
        Ok(whole.walk)
    }

    /// A damaged log that somebody has repaired since is read anew.
    pub(super) fn take_up_repair(&self, view: &mut View) -> Result<()> {
        if view.damage.is_some() && view.chain_is_replaced(&*self.vfs, &self.paths)? {
            self.rebuild(view)?.into_iter().for_each(|finding| self.note(finding));
        }
        Ok(())
    }
}

pub(super) fn open_for(writing: bool) -> Open {
    if writing { Open::Write } else { Open::Read }
}

/// A log, folded.
pub(super) struct Whole {
    pub(super) view: View,
    pub(super) walk: Walk,
    /// Where the snapshot ends that it was folded from, and how long that is.
    pub(super) snapshot: Option<(u64, u64)>,
}

/// Folds a log: from a snapshot, or where none can be used from its first event.
pub(super) fn read_whole(
    vfs: &Arc<dyn Vfs>,
    paths: &Paths,
    log: LogId,
    settings: &Settings,
    writing: bool,
    shunned: &[PathBuf],
) -> Result<Whole> {
    let mut findings = Vec::new();
    for _ in 1..REPLACED_MAX {
        let Some(mut opened) = snapshot::open(vfs, paths, log, settings, shunned, &mut findings)? else {
            break;
        };
        match opened.view.adopt(&**vfs, &opened.walk, open_for(writing)) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound { .. } | ErrorKind::Permission) => {}
            adopted => {
                adopted?;
                let snapshot = Some(opened.extent());
                let snapshot::Opened { view, mut walk, .. } = opened;
                walk.findings.append(&mut findings);
                return Ok(Whole { view, walk, snapshot });
            }
        }
    }
    let (view, mut walk) = replay_whole(&**vfs, paths, log, settings, writing)?;
    walk.findings.append(&mut findings);
    Ok(Whole { view, walk, snapshot: None })
}

/// Folds a log from its first event.
fn replay_whole(
    vfs: &dyn Vfs,
    paths: &Paths,
    log: LogId,
    settings: &Settings,
    writing: bool,
) -> Result<(View, Walk)> {
    let reach = if settings.recovery == Recovery::Salvage { Reach::Salvage } else { Reach::Intact };
    let look = || {
        reader::stable(paths, || {
            // Hints are read before the bytes: a word raised meanwhile speaks of bytes not yet looked at.
            let durable = reader::durable_word(vfs, paths, log);
            let mut view = View::empty(settings.fold);
            let walk = reader::walk(vfs, paths, log, durable, reach, &mut |visit| {
                view.visit(visit, &settings.vocabulary)
            })?;
            Ok((view, walk))
        })
    };
    for _ in 1..REPLACED_MAX {
        let (mut view, walk) = look()?;
        // Only now: what a single look made of bytes in motion may have been taken back.
        match view.adopt(vfs, &walk, open_for(writing)) {
            // A copy has taken the last segment's place since.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound { .. } | ErrorKind::Permission) => {}
            adopted => return adopted.map(|()| (view, walk)),
        }
    }
    let (mut view, walk) = look()?;
    view.adopt(vfs, &walk, open_for(writing))?;
    Ok((view, walk))
}
