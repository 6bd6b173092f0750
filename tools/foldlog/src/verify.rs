//! `foldlog verify`: every byte that is vouched for, checked. Writes nothing, takes no lock.

use foldlog::log::fold::{Fold as _, Meanings};
use foldlog::log::scan::Content;
use foldlog::store::inspect::{self, NamedBlobs};
use foldlog::vfs::os::Os;
use foldlog::view::Index;
use foldlog::{ErrorKind, Finding};
use foldlog_requests::Failure;

use crate::args::Global;
use crate::exit::Exit;
use crate::out::Out;
use crate::target::{self, Subject};

/// Runs the verb.
pub(crate) fn run(global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let opened = target::open(&target::root(global)?);
    let store = match opened {
        Err(Failure::Library(error)) if matches!(error.kind(), ErrorKind::Damaged(_)) => {
            return damaged(&error, out);
        }
        opened => opened?,
    };
    let subjects = target::subjects(&store, global)?;
    let mut exit = Exit::Fine;
    for subject in &subjects {
        let done = workspace(subject, out);
        exit = exit.worse(crate::dump::one_of(subjects.len() > 1, done, out)?);
    }
    if subjects.is_empty() {
        out.talk("the store has no workspace yet");
    }
    Ok(exit)
}

fn workspace(subject: &Subject, out: &mut Out) -> Result<Exit, Failure> {
    let (mut events, mut commits) = (0, 0);
    let mut blobs = NamedBlobs::default();
    let mut tasks = Index::default();
    let found = inspect::workspace(&Os, &subject.dir, &mut |visit| {
        if !visit.located.frame.header.kind.is_control() {
            events += u64::from(visit.located.frame.header.count);
            commits += 1;
        }
        blobs.note(visit);
        if let Content::Commit(commit) = &visit.located.content {
            tasks.apply(commit, Meanings::unknown(), false);
        }
    });
    let mut found = match found {
        Err(error) if matches!(error.kind(), ErrorKind::Damaged(_)) => return damaged(&error, out),
        found => found?,
    };
    // What today's rules of tasks would have refused; the log holds it all the same.
    let of_tasks = tasks.findings().iter().cloned();
    found.findings.extend(of_tasks.map(|finding| Finding { file: subject.dir.clone(), ..finding }));
    blobs.check(&Os, &subject.dir, &mut |finding| found.findings.push(finding));
    found.findings.iter().try_for_each(|finding| out.finding(finding))?;
    let exit = Exit::of_severity(found.worst());
    if !out.json {
        let bytes: u64 = found.walk.segments.iter().map(|walked| walked.summary.len).sum();
        out.line(&format!(
            "{}: {}; {commits} commits of {events} events in {} segment(s), {bytes} bytes{}",
            subject.name,
            match exit {
                Exit::Fine => "fine",
                Exit::Damaged => "DAMAGED",
                _ => "no damage",
            },
            found.walk.segments.len(),
            if blobs.is_empty() { String::new() } else { format!("; {} blob(s) named", blobs.len()) },
        ))?;
    }
    Ok(exit)
}

/// Damage that leaves nothing to look at is a finding like any other here.
fn damaged(error: &foldlog::Error, out: &mut Out) -> Result<Exit, Failure> {
    if let ErrorKind::Damaged(finding) = error.kind() {
        out.finding(finding)?;
    }
    Ok(Exit::Damaged)
}
