//! Ctrl-C: one line, and exit code 130 on every system. Nothing needs tidying, since a store survives any kill.
//!
//! A verb that does much in pieces may ask to be told instead ([`gently`]): it stops between two of them, and says how far
//! it came. The second Ctrl-C ends it at once, as the first does elsewhere.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use foldlog_requests::Failure;

use crate::exit::Exit;
use crate::out;

fn left_behind() -> &'static Mutex<Option<PathBuf>> {
    static LEFT: OnceLock<Mutex<Option<PathBuf>>> = OnceLock::new();
    LEFT.get_or_init(Mutex::default)
}

/// Whether the verb looks at [`asked`].
static GENTLE: AtomicBool = AtomicBool::new(false);
/// Whether there was a Ctrl-C since.
static ASKED: AtomicBool = AtomicBool::new(false);

/// From here on the first Ctrl-C only makes [`asked`] true.
pub(crate) fn gently() {
    GENTLE.store(true, Ordering::Release);
}

/// Whether the verb is to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Acquire)
}

/// Ends the program with 130 at the first Ctrl-C, or at the second where the verb stops by itself.
pub(crate) fn install() {
    let installed = ctrlc::set_handler(|| {
        let json = || std::env::args_os().any(|word| word == "--json");
        if GENTLE.load(Ordering::Acquire) && !ASKED.swap(true, Ordering::AcqRel) {
            if !json() {
                out::say("\nfoldlog: stopping at the next whole piece; Ctrl-C again ends it at once");
            }
            return;
        }
        let left = left_behind().lock().ok().and_then(|mut left| left.take());
        let remedy = match left {
            Some(dir) => format!("delete {}, which this run made, or start again", dir.display()),
            None => "start again; what was written stands, and nothing is half written".into(),
        };
        let failure = Failure::Own { code: "interrupted", message: "interrupted".into(), remedy, file: None };
        out::error(&failure, json(), false);
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
