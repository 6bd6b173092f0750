//! Tasks that stand still, for lists in pages, exports and comparisons.

use std::sync::Arc;

use super::{Listing, Snapshot, Tasks, snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::event::TaskId;
use crate::log::{Consistency, Cursor, Seq, State};
use crate::view::{Index, Query, Totals};

/// All tasks of a workspace as one commit left them. Never changes, whatever is committed; cheap to clone.
///
/// Large values are not loaded: [`Tasks::load`] does it for the tasks that are wanted whole.
#[derive(Clone, Debug)]
pub struct TasksView {
    state: Arc<State>,
}

impl Tasks {
    /// The tasks as of one commit, as new as asked for; see [`Log::view`](crate::Log::view) for what it costs.
    ///
    /// Pages of a list that come from one view fit together, whoever writes meanwhile.
    ///
    /// # Errors
    /// As [`Log::view`](crate::Log::view).
    pub fn view(&self, consistency: Consistency) -> Result<TasksView> {
        let state = self.log().view(consistency)?;
        if state.folded::<Index>().is_none() {
            let kind = ErrorKind::Refused("the fold of tasks is missing".into());
            return Err(Error::new(kind, "read", self.log().paths().dir()));
        }
        Ok(TasksView { state })
    }
}

impl TasksView {
    /// What the log knows beside the tasks. Views with nothing committed in between share one ([`Arc::ptr_eq`]).
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// The fold of tasks.
    pub fn index(&self) -> &Index {
        static NONE: std::sync::LazyLock<Index> = std::sync::LazyLock::new(Index::default);
        self.state.folded().unwrap_or(&NONE)
    }

    /// Whether what was found in it may be believed: not where the snapshot it stands on turned out to be spoiled and the log
    /// cannot be read in its place. Then tasks are missing, and a new view is to be asked for.
    ///
    /// # Errors
    /// Why the log cannot be read.
    pub fn check(&self) -> Result<()> {
        self.state.lost().map_or(Ok(()), |why| Err(why.duplicate()))
    }

    /// The last event that is in it.
    pub fn seq(&self) -> Seq {
        self.state.last()
    }

    /// The same, to be stored.
    pub fn cursor(&self) -> Cursor {
        self.state.cursor()
    }

    /// A task; `None` if there is none of this id, or it was deleted.
    pub fn get(&self, id: &TaskId) -> Option<Snapshot> {
        self.index().get(id.as_str()).map(|task| snapshot(&self.state, &task))
    }

    /// All tasks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Snapshot> + '_ {
        self.index().tasks().map(|task| snapshot(&self.state, &task))
    }

    /// The tasks a query wants, one page of them.
    pub fn list(&self, query: &Query) -> Listing {
        Listing::of(&self.state, self.index().list(query))
    }

    /// A task and all below it, each with its depth, parents before children.
    pub fn tree(&self, id: &str) -> Vec<(usize, Snapshot)> {
        self.index().tree(id).iter().map(|(depth, task)| (*depth, snapshot(&self.state, task))).collect()
    }

    /// Sums over a task and all below it.
    pub fn totals(&self, id: &str) -> Totals {
        self.index().totals(id)
    }
}
