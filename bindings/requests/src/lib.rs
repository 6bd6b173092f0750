//! Requests as JSON in, answers and errors as JSON out: what the command line and the language packages share.
//!
//! Here, and nowhere else, a change in JSON becomes a [`foldlog::Op`], and a receipt, a task, a history, a session, a
//! finding or an error becomes JSON. It calls the library's public functions only, opens no file and keeps no state.
//!
//! [`request`] is what is asked for; [`perform`] does it; [`words`] and [`place`] read what stands for something else;
//! [`settle`] waits for what was committed; [`receipt`], [`task`], [`document`], [`history`], [`changes`], [`sessions`],
//! [`orphans`], [`backup`] and [`health`] write answers, [`failure`] errors, all by the pieces of [`json`]. `docs/pipe.md` and `docs/cli.md` are the contract.

pub mod backup;
pub mod changes;
pub mod compact;
pub mod document;
pub mod event_json;
#[cfg(test)]
mod event_json_tests;
pub mod failure;
#[cfg(test)]
mod failure_tests;
pub mod health;
pub mod history;
pub mod json;
mod members;
pub mod orphans;
pub mod perform;
pub mod place;
pub mod purge;
pub mod receipt;
pub mod request;
pub mod retention;
pub mod sessions;
pub mod settle;
pub mod task;

pub mod words;

pub use failure::Failure;
pub use request::Request;
