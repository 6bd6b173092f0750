//! Purge: what was said of a key before an event goes from every file, not only from the state.
//!
//! The event that says so is in the log already, and durable; nothing here decides what goes. The segment it is in is ended,
//! so that all that may hold the bytes is immutable; then, under COMPACT, segments are written anew without them, and
//! snapshots, what was set aside, blobs that nothing names any more and what the dead have left half made are removed. Each
//! step leaves a log that comes to the same state, so a crash anywhere costs another call, which does again what is left.

use std::path::{Path, PathBuf};

use super::blobs::BlobId;
use super::compact::{CompactProgress, Compactor, Purged, Sealed, Worth};
use super::engine::{Log, Writer};
use super::envelope::{Envelope, Key};
use super::format::EVENT_ELIDED;
use super::lock::{LockFile, Rank};
use super::scan::Content;
use super::segment::{HEADER_LEN, SegmentName};
use super::{Seq, snapshot};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::session;
use crate::vfs::{FileKind, sync_name};

/// Most bytes of segments that are written anew at a time.
const RUN_MAX: u64 = 64 << 20;

/// What a purge has done, and what it has not been able to do yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PurgeReport {
    /// How many segments held what was to go, and were written anew.
    pub segments: usize,
    /// How many events went, those included that compaction drops.
    pub events: u64,
    /// Snapshots that were removed. They are made again by themselves.
    pub snapshots: Vec<PathBuf>,
    /// Blobs that nothing named any more.
    pub blobs: Vec<BlobId>,
    /// What had been set aside, and may have held it: removed whole.
    pub quarantine: Vec<PathBuf>,
    /// Files that still hold it, or may. Empty = none of this workspace does.
    pub pending: Vec<PendingFile>,
}

/// A file that could not be removed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingFile {
    /// The file.
    pub path: PathBuf,
    /// Who keeps it, as far as that can be known: sessions of this workspace that live.
    pub holder: String,
}

impl Log {
    /// Removes what was said of each key before this event of it from every file of the log, and waits for nobody who keeps one
    /// in use: such files are reported, and the same call later removes them.
    ///
    /// That event must be in the log, durable, and stand for all that came before; the fold must be one that
    /// [counts](super::fold::Fold::purges()) such events.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if it is broken off, or if the log has an event that this program must understand and does not;
    /// [`ErrorKind::Damaged`]; [`ErrorKind::Busy`] if another process compacts for longer than `lock_timeout`; [`ErrorKind::NoSpace`] and
    /// other system errors. What was done until then stays done, and the log comes to the same state.
    ///
    /// # Durability
    /// What was removed is removed durably when this returns.
    ///
    /// # Blocking
    /// For COMPACT and LOCK, each at most `lock_timeout`, and for as long as it takes to read the log some times and to write the
    /// segments that held it.
    ///
    /// # Concurrency
    /// As [`Log::compact`]. Commits of others wait for one rotation, and while a few blobs at a time are removed.
    pub fn purge(&self, keys: &[(Key, Seq)], progress: CompactProgress<'_>) -> Result<PurgeReport> {
        self.check_purgeable()?;
        let purged: Purged = keys.iter().cloned().collect();
        let Some(behind) = purged.values().max().copied() else { return Ok(PurgeReport::default()) };
        let patience = self.settings.lock_timeout;
        let compact = LockFile::open(&self.vfs, self.paths.compact(), Rank::Compact)?;
        let compacting = compact.acquire(patience).map_err(|e| self.name_holder(e))?;
        self.end_segment_with(behind)?;
        // What others set aside from here on lies behind it.
        let set_aside = self.quarantined_by_now()?;
        // They end in segments that are about to be replaced.
        snapshot::spend_all(&*self.vfs, &self.paths)?;
        let mut report = PurgeReport::default();
        self.rewrite_without(&purged, &mut report, progress)?;
        let mut kept = self.remove_leftovers()?;
        kept.extend(
            self.remove_all(&self.paths.snapshots(), snapshot::unfinished(&*self.vfs, &self.paths)?)?.1,
        );
        // This process's own view may stand on one of them.
        self.leave_snapshots(&mut self.writer.lock())?;
        let (gone, in_use) = snapshot::remove_spent(&*self.vfs, &self.paths)?;
        report.snapshots = gone;
        kept.extend(in_use);
        let (gone, left) = self.remove_all(&self.paths.quarantine(), set_aside)?;
        report.quarantine = gone;
        kept.extend(left);
        // Under COMPACT, so that no two sweeps note for each other what is named.
        let swept = self.sweep_blobs()?;
        drop(compacting);
        report.blobs = swept.removed;
        kept.extend(swept.left);
        // Where folders cannot be synced (Windows), what was done to names is durable with any file.
        let meta = self.paths.meta();
        sync_name(&*self.vfs, &meta).context("sync", &meta)?;
        if !kept.is_empty() {
            let holder = self.name_users();
            report.pending =
                kept.into_iter().map(|path| PendingFile { path, holder: holder.clone() }).collect();
        }
        self.tell();
        Ok(report)
    }

    /// Refuses where [`Log::purge`] would, before anything is said in the log.
    ///
    /// # Errors
    /// As there.
    pub fn check_purgeable(&self) -> Result<()> {
        self.check_writable()?;
        self.look_at_bytes()?;
        self.check_compactable("purge")
    }

    /// Lets go of a snapshot that has what was purged since, as soon as whoever purged it has taken its name away.
    pub(super) fn leave_purged_snapshot(&self) -> Result<()> {
        let base = {
            let view = self.view.read();
            let base = view.state.base.as_ref().filter(|_| view.state.stands_on_what_was_purged());
            base.map(|base| base.file().path().to_path_buf())
        };
        let Some(base) = base else { return Ok(()) };
        match self.vfs.stat(&base) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => match self.writer.try_lock() {
                Some(mut writer) => self.leave_snapshots(&mut writer),
                // Whoever is at it now is not to wait for this; the next look comes to it.
                None => Ok(()),
            },
            // Nobody has come to it yet.
            _ => Ok(()),
        }
    }

    /// Folds the log anew. Nobody of this process commits meanwhile, so nobody waits for the view with LOCK in his hands.
    fn leave_snapshots(&self, writer: &mut Writer) -> Result<()> {
        writer.let_go();
        let findings = self.rebuild(&mut self.view.write())?;
        findings.into_iter().for_each(|finding| self.note(finding));
        Ok(())
    }

    /// Who may have a file of this log in use.
    fn name_users(&self) -> String {
        let me = self.session.as_ref().map_or(0, |session| session.id());
        let live = session::live(&*self.vfs, &self.sessions, session::Probe::Look).unwrap_or_default();
        let others: Vec<_> = live.iter().filter(|info| info.session != me).map(ToString::to_string).collect();
        match others.as_slice() {
            [] => "this process itself, or one that only reads".into(),
            [other] => format!("{other}; or this process itself, or one that only reads"),
            _ => format!("one of: {}; or this process itself, or one that only reads", others.join("; ")),
        }
    }

    /// What had been set aside, which a purge removes whole: nobody can say what damaged bytes are of.
    ///
    /// # Errors
    /// System errors.
    pub fn quarantined(&self) -> Result<Vec<PathBuf>> {
        let dir = self.paths.quarantine();
        match self.vfs.list(&dir) {
            Ok(entries) => {
                let files = entries.iter().filter(|entry| entry.kind == FileKind::File);
                Ok(files.map(|entry| dir.join(&entry.name)).collect())
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(Error::io(e, "list", &dir)),
        }
    }

    /// Writes the segments anew that hold what is to go, the last ones first: so what is left of a key is always its
    /// beginning.
    fn rewrite_without(
        &self,
        purged: &Purged,
        report: &mut PurgeReport,
        progress: CompactProgress<'_>,
    ) -> Result<()> {
        let compactor = self.compactor();
        let mut rest = usize::MAX;
        loop {
            let all = self.all_sealed(&compactor)?;
            // From the end on: the last run of segments that hold it.
            let mut run: Option<(usize, usize)> = None;
            let mut len = 0;
            for (at, segment) in all.iter().enumerate().take(rest).rev() {
                let holds = holds(&compactor, segment, purged)?;
                match &mut run {
                    None if holds => run = Some((at, 1)),
                    None => continue,
                    Some((first, count)) if holds && len + segment.len <= RUN_MAX => {
                        (*first, *count) = (at, *count + 1)
                    }
                    Some(_) => break,
                }
                len += segment.len;
            }
            let Some((first, count)) = run else { return Ok(()) };
            let done = compactor.rewrite(&all, (first, count), purged, Worth::AnyByte, progress)?;
            rest = first;
            report.segments += count;
            report.events += done.map_or(0, |done| done.dropped);
        }
    }

    /// All segments but the one that is written.
    fn all_sealed(&self, compactor: &Compactor) -> Result<Vec<Sealed>> {
        let Some(active) = self.view.read().active.clone() else {
            return Err(Error::new(ErrorKind::NotYet, "purge", self.paths.dir()));
        };
        let all = compactor.sealed_below(active.header.ordinal_a)?;
        if all.last().map_or(0, |last| last.header.ordinal_b) + 1 != active.header.ordinal_a {
            let why = "a segment cannot be read as part of the log; `foldlog verify` says which".into();
            return Err(Error::new(ErrorKind::Refused(why), "purge", &self.paths.log()));
        }
        Ok(all)
    }

    /// Removes files of segments that are part of the log no more, and what the dead have begun; returns what could not be
    /// removed. COMPACT is held.
    fn remove_leftovers(&self) -> Result<Vec<PathBuf>> {
        let all = self.all_sealed(&self.compactor())?;
        // Others may end the active segment at any time: what lies behind these is nobody's to judge.
        let judged = all.last().map_or(0, |last| last.header.ordinal_b);
        let mut writer = self.writer.lock();
        let (held, view, _) =
            self.enter(&mut writer, self.settings.lock_timeout).map_err(|e| self.name_holder(e))?;
        drop(view);
        let dir = self.paths.log();
        let mut going = Vec::new();
        for entry in self.vfs.list(&dir).context("list", &dir)? {
            let path = dir.join(&entry.name);
            if let Some(name) = SegmentName::parse(&entry.name) {
                if name.ordinal_b <= judged && all.iter().all(|segment| segment.path != path) {
                    going.push(path);
                }
                continue;
            }
            if !entry.name.starts_with('.') || entry.kind != FileKind::File {
                continue;
            }
            // Under COMPACT and LOCK nobody but the dead makes one; a successor that is being prepared is a header alone.
            match self.vfs.stat(&path) {
                Ok(stat) if stat.len <= HEADER_LEN as u64 => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                // What cannot be looked at may hold anything.
                _ => going.push(path),
            }
        }
        let left = self.remove_all(&dir, going);
        drop(held);
        left.map(|(_, left)| left)
    }

    /// What has been set aside, and is no longer on its way: who heals does so under LOCK.
    fn quarantined_by_now(&self) -> Result<Vec<PathBuf>> {
        let mut writer = self.writer.lock();
        let (held, view, _) =
            self.enter(&mut writer, self.settings.lock_timeout).map_err(|e| self.name_holder(e))?;
        drop(view);
        let all = self.quarantined();
        drop(held);
        all
    }

    /// Removes files of one folder, durably; returns which are gone and which could not be removed.
    pub(super) fn remove_all(&self, dir: &Path, files: Vec<PathBuf>) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        if files.is_empty() {
            return Ok((files, Vec::new()));
        }
        let is_gone = |path: &PathBuf| match self.vfs.unlink(path) {
            Ok(()) => true,
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        let (gone, left) = files.into_iter().partition(is_gone);
        self.vfs.sync_dir(dir).context("sync", dir)?;
        Ok((gone, left))
    }
}

/// Whether a segment holds what is to go.
fn holds(compactor: &Compactor, segment: &Sealed, purged: &Purged) -> Result<bool> {
    let mut found = false;
    compactor.each_frame(segment, &mut |located| {
        if let Content::Commit(commit) = &located.content {
            let goes =
                |event: &Envelope<'_>| purged.get(&event.to_key()).is_some_and(|behind| event.seq < *behind);
            found |= commit.events().any(|event| event.kind != EVENT_ELIDED && goes(&event));
        }
        Ok(())
    })?;
    Ok(found)
}
