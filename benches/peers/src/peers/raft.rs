//! raft-engine, the log of TiKV: one process, one raft group, an entry per step.

use std::path::Path;

use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt};

use crate::Result;
use crate::data::Step;
use crate::peer::{Contender, Level, Peer};

pub const CONTENDERS: &[Contender] = &[
    Contender {
        name: "raft-engine",
        level: Level::Buffered,
        many: false,
        polls: false,
        batch: None,
        settings: "one process; the default Config, write(sync = false)",
    },
    Contender {
        name: "raft-engine",
        level: Level::Durable,
        many: false,
        polls: false,
        batch: Some("64 entries in one LogBatch"),
        settings: "one process; the default Config, write(sync = true)",
    },
];

const GROUP: u64 = 1;

/// raft-engine asks the entry for its number; ours has it in front.
struct Entry;

impl MessageExt for Entry {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        entry.value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

pub struct Raft {
    engine: Engine,
    next: u64,
    sync: bool,
}

impl Raft {
    pub fn open(level: Level, dir: &Path) -> Result<Self> {
        let dir = dir.join("engine").to_str().ok_or("the folder's name is no UTF-8")?.to_owned();
        let engine = Engine::open(Config { dir, ..Config::default() })?;
        let next = engine.last_index(GROUP).unwrap_or(0) + 1;
        Ok(Raft { engine, next, sync: level == Level::Durable })
    }
}

impl Peer for Raft {
    fn commit(&mut self, step: &Step) -> Result<()> {
        self.batch(std::slice::from_ref(step))
    }

    fn batch(&mut self, steps: &[Step]) -> Result<()> {
        let mut entries = Vec::with_capacity(steps.len());
        for step in steps {
            let mut entry = BytesValue::new();
            entry.value = [&self.next.to_le_bytes(), step.text.as_bytes()].concat();
            entries.push(entry);
            self.next += 1;
        }
        let mut batch = LogBatch::with_capacity(1);
        batch.add_entries::<Entry>(GROUP, &entries)?;
        self.engine.write(&mut batch, self.sync)?;
        Ok(())
    }

    fn count(&mut self) -> Result<u64> {
        let (Some(first), Some(last)) = (self.engine.first_index(GROUP), self.engine.last_index(GROUP))
        else {
            return Ok(0);
        };
        let (mut count, mut entries) = (0, Vec::new());
        for from in (first..=last).step_by(10_000) {
            let to = (from + 10_000).min(last + 1);
            entries.clear();
            count += self.engine.fetch_entries_to::<Entry>(GROUP, from, to, None, &mut entries)? as u64;
        }
        Ok(count)
    }
}
