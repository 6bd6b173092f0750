//! The `foldlog` command: lists and changes tasks; looks into event logs, verifies them and mends them.
//!
//! A file per verb; those that change tasks share [`write`]. What is shared by all: [`args`] (the command line), [`target`]
//! (which store, which workspaces), [`out`] (stdout is data, stderr is talk), [`exit`] (the code it ends with), [`process`]
//! (this program as a worker). By the verbs about tasks: [`homes`] (the workspaces as tasks), [`fields`] (`field=value`),
//! [`table`] and [`escape`] (what people see). What `--json` prints, and what [`pipe`] reads, is `foldlog_requests`.

mod args;

mod backup;
mod compact;
mod decoded;
mod demo;
mod doc;
mod dump;
mod escape;
mod exit;
mod fields;
mod finding;
mod follow;
mod help;
mod history;
mod hold;
mod homes;
mod import;
mod interrupt;
mod orphans;
mod out;
mod pipe;
mod process;
mod progress;
mod purge;
mod raw;
mod repair;
mod retention;
mod selftest;
mod show;
mod stats;
mod table;
mod target;
mod task_args;
mod tasks;
mod tree;
mod verify;
mod watch;
mod who;
mod write;

use std::process::ExitCode;

use args::{Args, Verb};
use exit::Exit;
use foldlog_requests::Failure;
use out::Out;

fn main() -> ExitCode {
    interrupt::install();
    let args = match help::parse() {
        Ok(args) => args,
        Err(refusal) => return help::refuse(&refusal).into(),
    };
    let mut out = Out::new(&args.global);
    let done = run(&args, &mut out).and_then(|exit| out.flush().map(|()| exit));
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // What was printed before it stands, and comes before it where both go to one place.
            let _ = out.flush();
            out.error(&failure);
            Exit::of(&failure).into()
        }
    }
}

fn run(args: &Args, out: &mut Out) -> Result<Exit, Failure> {
    let global = &args.global;
    match &args.verb {
        Verb::Tasks(verb) => tasks::run(global, verb, out),
        Verb::Show(verb) => show::run(global, verb, out),
        Verb::History(verb) => history::run(global, verb, out),
        Verb::Create(verb) => write::create(global, verb, out),
        Verb::Set(verb) => write::set(global, verb, out),
        Verb::Rename(verb) => write::rename(global, verb, out),
        Verb::Status(verb) => write::status(global, verb, out),
        Verb::Resume(verb) => write::resume(global, verb, out),
        Verb::Delegate(verb) => write::delegate(global, verb, out),
        Verb::Complete(verb) => write::complete(global, verb, out),
        Verb::Rm(verb) => write::remove(global, verb, out),
        Verb::Attach(verb) => hold::run(global, verb, out),
        Verb::Abandon(verb) => write::abandon(global, verb, out),
        Verb::Who => who::run(global, out),
        Verb::Doc(verb) => doc::run(global, verb, out),
        Verb::Pipe(verb) => pipe::run(global, verb, out),
        Verb::Import(verb) => import::run(global, verb, out),
        Verb::Dump(verb) => dump::run(global, verb, out),
        Verb::Verify => verify::run(global, out),
        Verb::Repair(verb) if verb.orphans => orphans::run(global, verb.apply, out),
        Verb::Repair(verb) => repair::run(global, verb, out),
        Verb::Compact => compact::run(global, out),
        Verb::Retention(verb) => retention::run(global, verb, out),
        Verb::Purge(verb) => purge::run(global, verb, out),
        Verb::Backup(verb) => backup::back_up(global, verb, out),
        Verb::Restore(verb) => backup::restore(global, verb, out),
        Verb::Stats => stats::run(global, out),
        Verb::Selftest(verb) => selftest::run(verb, out),
        Verb::SelftestWorker(verb) => selftest::worker::run(verb, out),
        Verb::Demo(verb) => demo::run(verb, out),
        Verb::DemoWriter(verb) => demo::writer::run(verb, out),
        Verb::DemoCheck(verb) => demo::check::run(verb, out),
        Verb::Completions { shell } => help::completions(*shell, out),
        Verb::Man => help::man(out),
    }
}
