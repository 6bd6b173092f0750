//! The foldlog command.

#[cfg_attr(not(test), expect(dead_code, reason = "the verb that prints events is not built yet"))]
mod event_json;
#[cfg(test)]
mod event_json_tests;

fn main() {}
