//! The tasks of a store: opening it, and the workspaces that a verb is about.

use foldlog::task::TaskStore;
use foldlog::{Housekeeping, Options, Severity, Tasks};
use foldlog_requests::{Failure, place};

use crate::args::Global;
use crate::exit::Exit;
use crate::out::Out;
use crate::target;

/// The workspaces to look at, and how the look has gone so far.
#[derive(Debug)]
pub(crate) struct Homes {
    /// The store.
    pub(crate) store: TaskStore,
    /// Those that can be read, by their folders' names.
    pub(crate) all: Vec<Tasks>,
    /// What keeps the others from being read, and what is wrong with these; it was told.
    pub(crate) exit: Exit,
    /// The first that cannot be read: where something was not found, it might be there.
    pub(crate) unread: Option<Failure>,
}

impl Homes {
    /// Whether several were asked for.
    pub(crate) fn several(&self) -> bool {
        self.all.len() > 1
    }

    /// The answer where no workspace has the task: that one could not be read comes first.
    pub(crate) fn nowhere(self, absent: foldlog::Error) -> Failure {
        self.unread.unwrap_or(Failure::Library(absent))
    }
}

/// Opens the workspaces that `--workspace` names, else all of the store, for reading.
///
/// # Errors
/// If the store cannot be opened, or the one workspace that was named cannot.
pub(crate) fn look(global: &Global, out: &mut Out) -> Result<Homes, Failure> {
    let options = Options::default().read_only(true).create(false).housekeeping(Housekeeping::Off);
    let store = TaskStore::open(target::root(global)?, options)?;
    let opened = match &global.workspace {
        Some(text) => vec![Ok(store.named(&place::find(store.store(), text)?)?)],
        None => store.homes()?.into_iter().map(|(_, home)| home).collect(),
    };
    let mut homes = Homes { store, all: Vec::new(), exit: Exit::Fine, unread: None };
    for home in opened {
        match home {
            Ok(home) => {
                // What heals by itself at the next write is no news here.
                let grave = |severity| matches!(severity, Severity::Error | Severity::Damage);
                let report = home.workspace().open_report();
                for finding in report.findings.iter().filter(|finding| grave(finding.severity)) {
                    out.tell(finding);
                    homes.exit = homes.exit.worse(Exit::of_severity(Some(finding.severity)));
                }
                homes.all.push(home);
            }
            Err(error) => {
                let failure = Failure::Library(error);
                homes.exit = homes.exit.worse(Exit::of(&failure));
                match homes.unread {
                    None => homes.unread = Some(failure),
                    Some(_) => out.error(&failure),
                }
            }
        }
    }
    Ok(homes)
}

/// Tells of a workspace that could not be read, behind what was found in the others.
pub(crate) fn tell_unread(homes: &mut Homes, out: &mut Out) {
    if let Some(failure) = homes.unread.take() {
        out.error(&failure);
    }
}

/// Opens the store for changes.
///
/// # Errors
/// As [`TaskStore::open`].
pub(crate) fn open(global: &Global, verb: &str, create: bool) -> Result<TaskStore, Failure> {
    let options =
        Options::default().create(create).label(format!("foldlog {verb}")).housekeeping(Housekeeping::Off);
    Ok(TaskStore::open(target::root(global)?, options)?)
}
