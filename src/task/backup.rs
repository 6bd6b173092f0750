//! Backup and restore of a store of tasks: the copy is the store's; that it was made, and who is dead in it, is known here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::{TaskStore, Tasks, introduce};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::log::{Durability, Key, Seq, State};
use crate::session::Info;
use crate::store::{CopyOptions, CopyReport, Options};
use crate::view::Index;

impl TaskStore {
    /// Makes a complete copy of the store while others write, as [`Store::backup`](crate::Store::backup) does, and notes in each workspace that
    /// was copied where the copy is and how far it goes: [`Index::backups`].
    ///
    /// The note is made behind the copy and is not in it. A store that cannot be written, for want of space or rights, is
    /// backed up all the same: what kept a note from being made stands in the report. A handle that only reads makes none.
    ///
    /// # Errors
    /// As [`Store::backup`](crate::Store::backup).
    ///
    /// # Durability
    /// As there; a note that is reported as made is durable.
    ///
    /// # Blocking
    /// As there, and for each note as a commit: at most `lock_timeout` for LOCK.
    pub fn backup(&self, target: impl AsRef<Path>, options: &CopyOptions) -> Result<CopyReport> {
        let mut report = self.store.backup(target, options)?;
        self.record_backup(&mut report);
        Ok(report)
    }

    /// Notes in the workspaces of this store that a backup of them was made, as [`TaskStore::backup`] does: for a program
    /// that has made it through a handle which only reads.
    pub fn record_backup(&self, report: &mut CopyReport) {
        if self.store.is_read_only() {
            return;
        }
        let target: Arc<str> = report.target.to_string_lossy().into();
        for copy in &mut report.workspaces {
            let noted = self.named(&copy.name).and_then(|home| {
                if home.log().id() == copy.log {
                    return home
                        .note_backup(Event::BackedUp { target: Arc::clone(&target), covers: copy.seq() });
                }
                let what = "another workspace stands in the place of the one that was copied".into();
                Err(Error::new(
                    ErrorKind::StoreReplaced { what },
                    "note a backup in",
                    home.log().paths().dir(),
                ))
            });
            copy.recorded = Some(noted);
        }
    }

    /// Makes a store of the backup in a folder; see [`TaskStore::restore_to`].
    ///
    /// # Errors
    /// As there, and as [`Store::open`](crate::Store::open).
    pub fn restore(
        backup: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: &CopyOptions,
    ) -> Result<CopyReport> {
        TaskStore::open(backup, Options::default().read_only(true))?.restore_to(target, options)
    }

    /// Makes a store of this backup in a folder that is absent or empty, as [`Store::restore_to`](crate::Store::restore_to) does.
    ///
    /// Tasks that a session of the original holds keep their fences; since that session is proven dead in the new store,
    /// they can be attached to, or repaired, at once.
    ///
    /// # Errors
    /// As [`Store::restore_to`](crate::Store::restore_to).
    ///
    /// # Durability
    /// As there.
    ///
    /// # Blocking
    /// As there.
    pub fn restore_to(&self, target: impl AsRef<Path>, options: &CopyOptions) -> Result<CopyReport> {
        self.store.restore_with(target.as_ref(), options, &owners)
    }
}

impl Tasks {
    fn note_backup(&self, event: Event) -> Result<Seq> {
        let log = Arc::clone(self.log());
        let receipt = self.log().commit(Durability::Durable, move |state, draft| {
            if let Some(index) = state.folded::<Index>() {
                introduce(&log, index, draft);
            }
            draft.push(event.to_new(Key::none()));
            Ok(())
        })?;
        Ok(receipt.cursor.seq)
    }
}

/// The sessions that hold a task, as they have introduced themselves. Where no fold of tasks is there, all that have written.
fn owners(state: &State, writers: &BTreeSet<u64>) -> Vec<Info> {
    let index = state.folded::<Index>();
    let held: BTreeSet<u64> = match index {
        Some(index) => index.tasks().map(|task| task.fence.session).filter(|session| *session != 0).collect(),
        None => writers.clone(),
    };
    let said: BTreeMap<u64, _> =
        held.iter().map(|session| (*session, index.and_then(|index| index.writer(*session)))).collect();
    said.into_iter()
        .map(|(session, writer)| Info {
            pid: writer.map_or(0, |writer| writer.pid),
            session,
            started: 0,
            version: writer.map_or_else(|| "unknown".into(), |writer| writer.version.clone()),
            label: writer.map_or_else(
                || "a session of the store that was backed up".into(),
                |writer| writer.label.clone(),
            ),
            listings: Vec::new(),
            owns: Vec::new(),
        })
        .collect()
}
