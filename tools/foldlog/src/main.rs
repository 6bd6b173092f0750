//! The `foldlog` command: looks into event logs, verifies them and mends them.
//!
//! A file per verb. What is shared: [`args`] (the command line), [`target`] (which store, which workspaces), [`out`]
//! (stdout is data, stderr is talk), [`failure`] and [`exit`] (what went wrong, and the code it ends with).

mod args;
mod dump;
mod event_json;
#[cfg(test)]
mod event_json_tests;
mod exit;
mod failure;
mod finding;
mod help;
mod interrupt;
mod out;
mod raw;
mod repair;
mod selftest;
mod stats;
mod target;
mod verify;

use std::process::ExitCode;

use args::{Args, Verb};
use clap::Parser as _;
use exit::Exit;
use failure::Failure;
use out::Out;

fn main() -> ExitCode {
    interrupt::install();
    let args = match Args::try_parse() {
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
            failure.exit().into()
        }
    }
}

fn run(args: &Args, out: &mut Out) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Dump(verb) => dump::run(&args.global, verb, out),
        Verb::Verify => verify::run(&args.global, out),
        Verb::Repair(verb) => repair::run(&args.global, verb, out),
        Verb::Stats => stats::run(&args.global, out),
        Verb::Selftest(verb) => selftest::run(verb, out),
        Verb::SelftestWorker(verb) => selftest::worker::run(verb, out),
        Verb::Completions { shell } => help::completions(*shell, out),
        Verb::Man => help::man(out),
    }
}
