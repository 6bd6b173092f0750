//! Which snapshots there are, which of them are kept, and how they go.

use std::path::PathBuf;

use super::file::{self, Header};
use crate::error::{Context as _, Error, Result};
use crate::log::{LogId, Paths};
use crate::vfs::{Existing, FileKind, Open, Vfs};

/// How many snapshots are kept of each fold: if one turns out to be spoiled, the other saves a replay.
const KEPT: usize = 2;
/// Those of another fold than the newest one has are kept while no more of the log than this lies behind them, and no more than
/// they are long: whoever has that fold and is still at work has written another by then.
const OTHERS_WITHIN: u64 = 64 << 20;
/// What a snapshot's name ends in once repair has changed what lies below it.
const SPENT: &str = ".spent";
/// What a snapshot is called while it is written.
pub(super) const TEMPORARY: &str = ".new-";

/// A snapshot's file name: the number of the last event it covers, and something random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SnapshotName {
    pub(super) seq: u64,
    pub(super) random: u64,
}

impl SnapshotName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (seq, random) = name.strip_suffix(".snap")?.split_once('-')?;
        let parsed = SnapshotName { seq: seq.parse().ok()?, random: u64::from_str_radix(random, 16).ok()? };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:020}-{:016x}.snap", self.seq, self.random)
    }
}

/// All snapshots there are, newest first, and what was left of unfinished ones.
pub(super) fn list(vfs: &dyn Vfs, paths: &Paths) -> Result<(Vec<SnapshotName>, Vec<PathBuf>)> {
    let dir = paths.snapshots();
    let entries = match vfs.list(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(e) => return Err(Error::io(e, "list", &dir)),
    };
    let files = || entries.iter().filter(|entry| entry.kind == FileKind::File);
    let mut all: Vec<_> = files().filter_map(|entry| SnapshotName::parse(&entry.name)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    let unfinished =
        files().filter(|entry| entry.name.starts_with(TEMPORARY)).map(|entry| dir.join(&entry.name));
    Ok((all, unfinished.collect()))
}

/// The last event that any snapshot covers, spent ones too: all up to it was durable before the snapshot got its name.
pub(in crate::log) fn vouched(vfs: &dyn Vfs, paths: &Paths, log: LogId) -> Result<u64> {
    let seq = |name: SnapshotName, path: PathBuf| {
        let header = file::header_of(vfs, &path)?;
        (header.log_id == log && header.seq == name.seq).then_some(header.seq)
    };
    let dir = paths.snapshots();
    let (all, _) = list(vfs, paths)?;
    let newest = all.iter().find_map(|name| seq(*name, dir.join(name.to_string())));
    let spent = spent(vfs, paths)?.into_iter().filter_map(|(name, path)| seq(name, path));
    Ok(spent.chain(newest).max().unwrap_or(0))
}

/// The same for who only reads, and changes nothing: where the folder cannot be listed, nothing is known. Whoever mends an end asks
/// [`vouched`].
pub(in crate::log) fn vouched_to_readers(vfs: &dyn Vfs, paths: &Paths, log: LogId) -> u64 {
    vouched(vfs, paths, log).unwrap_or(0)
}

/// Those that nobody goes by any more.
fn spent(vfs: &dyn Vfs, paths: &Paths) -> Result<Vec<(SnapshotName, PathBuf)>> {
    let dir = paths.snapshots();
    let entries = match vfs.list(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(e, "list", &dir)),
    };
    let name = |entry: &crate::vfs::Entry| SnapshotName::parse(entry.name.strip_suffix(SPENT)?);
    Ok(entries.iter().filter_map(|entry| Some((name(entry)?, dir.join(&entry.name)))).collect())
}

/// What a snapshot is called that nobody goes by any more.
fn spent_name(path: &std::path::Path) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(SPENT);
    name.into()
}

/// What was left of those that somebody had begun to write. COMPACT is held: whoever it was is dead.
pub(in crate::log) fn unfinished(vfs: &dyn Vfs, paths: &Paths) -> Result<Vec<PathBuf>> {
    Ok(list(vfs, paths)?.1)
}

/// Has nobody go by any of them from now on: repair is about to change what lies below. They still vouch, until
/// [`remove_spent`]. COMPACT is held.
pub(in crate::log) fn spend_all(vfs: &dyn Vfs, paths: &Paths) -> Result<()> {
    let dir = paths.snapshots();
    let (all, _) = list(vfs, paths)?;
    for path in all.iter().map(|name| dir.join(name.to_string())) {
        vfs.rename(&path, &spent_name(&path), Existing::Replace).context("set aside", &path)?;
    }
    if all.is_empty() { Ok(()) } else { vfs.sync_dir(&dir).context("sync", &dir) }
}

/// Removes those that nobody goes by, but for those that somebody still has in use: the log itself vouches now. COMPACT is
/// held. Returns which are gone, and which are left.
pub(in crate::log) fn remove_spent(vfs: &dyn Vfs, paths: &Paths) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    for (_, path) in spent(vfs, paths)? {
        if remove_unused(vfs, &path) { gone.push(path) } else { left.push(path) }
    }
    if !gone.is_empty() {
        let dir = paths.snapshots();
        vfs.sync_dir(&dir).context("sync", &dir)?;
    }
    Ok((gone, left))
}

/// Removes a snapshot that nobody has in use; whether it is gone.
fn remove_unused(vfs: &dyn Vfs, path: &std::path::Path) -> bool {
    let is_gone = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    let probe = match vfs.open(path, Open::ProbeLock) {
        Ok(probe) => probe,
        Err(e) => return is_gone(&e),
    };
    match probe.try_lock() {
        Ok(true) => {}
        // Where files cannot be locked nobody can say that he uses one.
        Err(e) if e.kind() == std::io::ErrorKind::Unsupported => {}
        Ok(false) | Err(_) => return false,
    }
    let removed = vfs.unlink(path);
    let _ = probe.unlock();
    removed.map_or_else(|e| is_gone(&e), |()| true)
}

/// Those that are kept, newest first, each with its header: the newest of each fold that is still in use.
pub(super) fn kept(vfs: &dyn Vfs, paths: &Paths, log: LogId) -> Result<Vec<(SnapshotName, Header)>> {
    let (all, _) = list(vfs, paths)?;
    let dir = paths.snapshots();
    let mut kept: Vec<(SnapshotName, Header)> = Vec::new();
    for name in all {
        let path = dir.join(name.to_string());
        let Some(header) = file::header_of(vfs, &path).filter(|header| header.log_id == log) else {
            continue;
        };
        let is_near = |newest: &Header| {
            let behind = newest.anchor.events_end_lpos.saturating_sub(header.anchor.events_end_lpos);
            let len = vfs.stat(&path).map_or(0, |stat| stat.len);
            newest.fold == header.fold || behind <= OTHERS_WITHIN.max(len)
        };
        if kept.iter().filter(|(_, other)| other.fold == header.fold).count() < KEPT
            && kept.first().is_none_or(|(_, newest)| is_near(newest))
        {
            kept.push((name, header));
        }
    }
    Ok(kept)
}

/// Removes those that are not kept, now that there is one more. COMPACT is held.
pub(super) fn remove_older(vfs: &dyn Vfs, paths: &Paths, log: LogId) -> Result<()> {
    let kept = kept(vfs, paths, log)?;
    // What cannot be read stays while it would be one of the newest of any fold: a newer release may have written it.
    let last = kept.get(KEPT - 1).map(|(name, _)| *name);
    let (all, _) = list(vfs, paths)?;
    for name in all {
        let path = paths.snapshots().join(name.to_string());
        let is_known = file::header_of(vfs, &path).is_some();
        let stays =
            kept.iter().any(|(known, _)| *known == name) || !is_known && last.is_none_or(|last| name > last);
        // A file that somebody has in use stays where it can be found, and goes after a later one: purge must know of it.
        if !stays && !remove_unused(vfs, &path) {
            let _ = vfs.rename(&path, &spent_name(&path), Existing::Replace);
        }
    }
    Ok(())
}

/// The ordinal of the segment in which the oldest of the snapshots ends that are kept: what lies below may be written anew, and
/// all still find what they stand on. `None` = there is none.
pub(in crate::log) fn oldest_ordinal(vfs: &dyn Vfs, paths: &Paths, log: LogId) -> Result<Option<u64>> {
    let kept = kept(vfs, paths, log)?;
    Ok(kept.iter().map(|(_, header)| header.anchor.segment.ordinal_a).min())
}
