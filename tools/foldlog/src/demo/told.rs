//! What the processes of a demo tell each other, one JSON line each; and what stands in its ledger, `acknowledged.jsonl`.

use foldlog::OpId;
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Told {
    /// A task had used this much when the writers began.
    Before { id: String, tokens_in: u64, tokens_out: u64 },
    /// A writer has opened the store, and begins when it is told to.
    Ready,
    /// A writer has done half of it, and goes on when it is told that the kill is over.
    Half,
    /// A commit stands: the library has said so.
    Ack(Ack),
    /// A write has stopped after so many bytes of so many.
    Torn { written: u64, of: u64 },
    /// A writer has done all that it had to do.
    Done { conflicts: u64 },
    /// A writer gave up.
    Failed { message: String },
}

/// A commit that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ack {
    /// Who made it.
    pub(super) writer: String,
    /// Which of its steps it was.
    pub(super) step: usize,
    /// What it did, and to which task.
    pub(super) what: String,
    /// See there.
    pub(super) id: String,
    /// Its request's name, in hex.
    pub(super) op_id: String,
    /// Numbers of its first and last event.
    pub(super) first: u64,
    /// See there.
    pub(super) last: u64,
    /// The tasks it changed: id, revision, event.
    pub(super) tasks: Vec<(String, u64, u64)>,
    /// What it added.
    pub(super) tokens_in: u64,
    /// See there.
    pub(super) tokens_out: u64,
}

impl Told {
    /// Its line, without the end.
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a line.
    pub(super) fn read(line: &str) -> Result<Told, String> {
        serde_json::from_str(line).map_err(|e| format!("not understood: {line}: {e}"))
    }
}

impl Ack {
    /// For people.
    pub(super) fn name(&self) -> String {
        let Ack { writer, what, id, first, op_id, .. } = self;
        format!("{writer}: {what} of {id}, event {first}, request {op_id}")
    }
}

/// A request's name in hex.
pub(super) fn hex(id: OpId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}
