//! The extension module of the Python package: requests as JSON text in, answers as JSON text out.
//!
//! Everything that has a meaning is in `foldlog` and `foldlog-requests`; what Python programs see is in
//! `python/foldlog/`. Here are the three things that need the interpreter: it is let go of around every wait, Ctrl-C ends
//! a wait, and an error or a panic becomes an exception.

mod backup;
mod changes;
mod home;
mod open;
mod waiting;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::backup::restore;
    #[pymodule_export]
    use super::changes::Changes;
    #[pymodule_export]
    use super::home::{Done, Home};
    #[pymodule_export]
    use super::open::{Store, check_value, codes, open};
    #[pymodule_export]
    use super::waiting::Pending;
}
