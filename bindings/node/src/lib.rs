//! The addon of the npm package `foldlog`: a thin layer between JavaScript and the library.
//!
//! Everything that crosses is a string, a number or a boolean: changes and options come as JSON text, answers and errors
//! go as JSON text (`foldlog_requests` reads and writes all of it), and `lib/` makes objects of them. So no array buffer is
//! ever shared with the engine, which Electron forbids.
//!
//! ```text
//! JavaScript's thread   reads; commits that wait for nothing         home
//! a thread a workspace  commits that wait, in the order they came    lane
//! a few threads         opening, closing, histories, flushes         pool
//! a thread a stream     subscriptions                                 follow
//! ```
//! What other threads have done is left in a [`wire::Wire`], one for each JavaScript environment, which calls its owner
//! once however much there is. Nothing here outlives its environment but what it was doing at that moment.
//!
//! A panic becomes an error of the call that met it: `#[napi(catch_unwind)]` on JavaScript's thread, [`wire::Job::run`] on
//! the others.

mod backup;
mod follow;
mod home;
mod known;
mod lane;
mod pool;
mod store;
mod wire;

use foldlog_requests::Failure;
use napi_derive::napi;

/// A failure as an exception whose message is its JSON.
fn thrown(failure: impl Into<Failure>) -> napi::Error {
    napi::Error::new(napi::Status::GenericFailure, failure.into().json_with_data())
}

/// What the addon is, as JSON: release, format, and all error codes.
#[napi(catch_unwind)]
pub fn about() -> String {
    use foldlog_requests::json::{array, raw, text};
    let mut out = String::from("{");
    text("version", env!("CARGO_PKG_VERSION"), &mut out);
    raw("format", foldlog::log::format::FORMAT, &mut out);
    let codes = foldlog::ErrorKind::CODES.iter().map(|code| format!("\"{code}\""));
    raw("codes", array(&codes.collect::<Vec<_>>()), &mut out);
    out + "}"
}

/// Panics, so that a host can see what that comes to: an exception here, as everywhere.
#[napi(catch_unwind)]
pub fn panics() -> napi::Result<()> {
    panic!("a panic that was asked for")
}
