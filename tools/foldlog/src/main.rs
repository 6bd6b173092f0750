//! The foldlog command.
fn main() {}
