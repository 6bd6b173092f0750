//! A store: a folder with one log per workspace.

pub mod meta;
