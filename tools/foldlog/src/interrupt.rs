//! Ctrl-C: one line, and exit code 130 on every system. Nothing needs tidying, since a store survives any kill.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::out;

fn left_behind() -> &'static Mutex<Option<PathBuf>> {
    static LEFT: OnceLock<Mutex<Option<PathBuf>>> = OnceLock::new();
    LEFT.get_or_init(Mutex::default)
}

/// Ends the program with 130 at the first Ctrl-C.
pub(crate) fn install() {
    let installed = ctrlc::set_handler(|| {
        let left = left_behind().lock().ok().and_then(|mut left| left.take());
        let remedy = match left {
            Some(dir) => format!("delete {}, which this run made, or start again", dir.display()),
            None => "start again; what was written stands, and nothing is half written".into(),
        };
        let failure = Failure::Own { code: "interrupted", message: "interrupted".into(), remedy, file: None };
        out::error(&failure, std::env::args_os().any(|word| word == "--json"), false);
        std::process::exit(Exit::Interrupted.number().into());
    });
    if let Err(e) = installed {
        out::say(&format!("foldlog: Ctrl-C ends the program without a word: {e}"));
    }
}

/// Names what an interrupted run leaves behind, for its last words; `None` = nothing.
pub(crate) fn leaves(dir: Option<PathBuf>) {
    if let Ok(mut left) = left_behind().lock() {
        *left = dir;
    }
}
