//! The statuses of a task, and the tables that say which may follow which. `format-spec/events.md`, section *Statuses*.

use std::fmt;

/// Where a task stands. An item without a status is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Open.
    Active,
    /// Waits for a child.
    Delegated,
    /// Was stopped before its end.
    Interrupted,
    /// Done.
    Completed,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 4] = [Status::Active, Status::Delegated, Status::Interrupted, Status::Completed];

    /// As it stands in an item.
    pub fn name(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Delegated => "delegated",
            Status::Interrupted => "interrupted",
            Status::Completed => "completed",
        }
    }

    /// The status of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Status::Active => 1,
            Status::Delegated => 2,
            Status::Interrupted => 3,
            Status::Completed => 4,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// By what a transition may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// Any verb.
    Any,
    /// Only the explicit `resume`.
    Resume,
}

/// Which status may follow which: data, kept in the workspace's log, so that all processes agree.
///
/// Staying as it is is always allowed, and a new task may have any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusTable {
    name: String,
    rows: Vec<(Status, Status, By)>,
}

impl Default for StatusTable {
    fn default() -> Self {
        use Status::{Active, Completed, Delegated, Interrupted};
        Self::new(
            "default",
            [
                (Active, Delegated, By::Any),
                (Active, Interrupted, By::Any),
                (Active, Completed, By::Any),
                (Delegated, Active, By::Any),
                (Delegated, Interrupted, By::Any),
                (Interrupted, Active, By::Resume),
                (Interrupted, Completed, By::Any),
            ],
        )
    }
}

impl StatusTable {
    /// A table of one's own.
    pub fn new(name: impl Into<String>, rows: impl IntoIterator<Item = (Status, Status, By)>) -> Self {
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_unstable();
        rows.dedup();
        StatusTable { name: name.into(), rows }
    }

    /// What Zoo 3.78 enforces.
    pub fn zoo_3_78() -> Self {
        use Status::{Active, Completed, Delegated, Interrupted};
        Self::new(
            "zoo-3.78",
            [
                (Active, Delegated, By::Any),
                (Active, Interrupted, By::Any),
                (Active, Completed, By::Any),
                (Delegated, Active, By::Any),
                (Interrupted, Completed, By::Any),
            ],
        )
    }

    /// The same with delegated → interrupted, for the end of a dead chain.
    pub fn zoo_next() -> Self {
        let mut rows = Self::zoo_3_78().rows;
        rows.push((Status::Delegated, Status::Interrupted, By::Any));
        Self::new("zoo-next", rows)
    }

    /// A table that ships, by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::default(), Self::zoo_3_78(), Self::zoo_next()].into_iter().find(|table| table.name == name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows: from, to, by what.
    pub fn rows(&self) -> &[(Status, Status, By)] {
        &self.rows
    }

    /// By what this transition may be made; `None` = not at all.
    pub fn allows(&self, from: Status, to: Status) -> Option<By> {
        self.rows.iter().find(|(f, t, _)| (*f, *t) == (from, to)).map(|(.., by)| *by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Active, Completed, Delegated, Interrupted};

    /// The tables as they are documented, row by row: what may follow each status, `r` = by resume only.
    #[test]
    fn tables_that_ship_are_as_documented() {
        let all = [
            (StatusTable::default(), ["-dic", "a-i-", "R--c", "----"]),
            (StatusTable::zoo_3_78(), ["-dic", "a---", "---c", "----"]),
            (StatusTable::zoo_next(), ["-dic", "a-i-", "---c", "----"]),
        ];
        for (table, expected) in all {
            for (from, row) in [Active, Delegated, Interrupted, Completed].into_iter().zip(expected) {
                for (to, cell) in [Active, Delegated, Interrupted, Completed].into_iter().zip(row.chars()) {
                    let by = match cell {
                        '-' => None,
                        'R' => Some(By::Resume),
                        _ => Some(By::Any),
                    };
                    assert_eq!(table.allows(from, to), by, "{}: {from} to {to}", table.name());
                }
            }
            assert_eq!(StatusTable::named(table.name()), Some(table));
        }
    }
}
