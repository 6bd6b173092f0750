//! A simulated machine: a disk that forgets what was not synced, processes that can die at any call, and faults.
//!
//! ```text
//! SimMachine ── SimProcess (a Vfs) ── open files, locks        machine.rs, process.rs
//!     │             └ steps of a seeded schedule               scheduler.rs
//!     ├ faults, capacity, read-only medium                     faults.rs
//!     └ DiskState: live and durable contents and names         disk.rs, image.rs
//!          └ crash_states: what a power cut may leave          crash.rs, profile.rs
//! ```
//!
//! Code under test is given a [`SimProcess`] and cannot tell it from the real system. Three ways to use it:
//!
//! - **Crash at every call.** [`SimMachine::record`] keeps the disk before each mutating call;
//!   [`Record::power_cuts`] lists what a power cut at any of them may leave, and [`DiskState::crash_states`] what one
//!   at a given moment may; [`SimMachine::from_disk`] boots from it.
//! - **Interleave and kill.** [`SimMachine::run`] runs processes one call at a time in an order that follows from a
//!   seed, and kills, stops or cuts the power by [`Plan`].
//! - **Memory stores.** [`SimMachine::memory`] loses nothing and costs little.
//!
//! # Example
//! ```
//! use std::path::Path;
//! use foldlog::vfs::sim::{Profile, SimMachine};
//! use foldlog::vfs::{Open, Vfs, write_full};
//!
//! let machine = SimMachine::new(Profile::Linux, 1);
//! machine.record();
//! let process = machine.process("writer");
//! let file = process.open(Path::new("/log"), Open::Create)?;
//! write_full(file.as_ref(), b"hello", 0).map_err(|(_, e)| e)?;
//! file.sync_data()?;
//! process.sync_dir(Path::new("/"))?;
//! machine.mark("acknowledged");
//!
//! let record = machine.take_record();
//! for (boundary, marks, disk) in record.power_cuts(Profile::Linux.crash_model(), 1024, 1) {
//!     let found = disk.read("/log");
//!     let fine = marks.is_empty() || found.as_deref() == Some(b"hello");
//!     assert!(fine, "{:?}, {}: {found:?}", boundary.call, disk.origin());
//!     let _recovering = SimMachine::from_disk(&disk, 2).process("recovery");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What is not simulated
//! A forked parent that goes on beside its child, several threads under a schedule, case folding, the
//! refusals that follow from access rights, and time stamps of files.

mod crash;
mod disk;
mod faults;
mod image;
mod machine;
mod process;
mod profile;
mod rng;
mod scheduler;
#[cfg(test)]
mod tests;

pub use crash::CrashStates;
pub use disk::DiskState;
pub use faults::{Call, Effect, Fault, Op};
pub use machine::{Boundary, Record, SimMachine};
pub use process::SimProcess;
pub use profile::{CrashModel, Fill, NameOrder, Piece, Profile, Torn};
pub use rng::Rng;
pub use scheduler::{End, Kill, Outcome, Plan, Program, Run};
