//! foldlog itself: the bare log, and its tasks.

use std::path::Path;
use std::time::Duration;

use foldlog::view::Index;
use foldlog::{
    CommitOptions, Draft, Durability, ErrorKind, Field, Item, Key, NewEvent, Op, Options, Patch, Place,
    Receipt, State, Store, TaskExpect, TaskId, TaskStore, Tasks, Token, Value, Vocabulary, Workspace,
};

use crate::Result;
use crate::data::{self, ID_LEN, Step, TASKS};
use crate::peer::{Contender, Level, Peer};

/// The one event kind of the log.
const STEP: u16 = 100;

const LOG: &str = "Log::commit of one event with the step's text as its body";
const TASK: &str = "Tasks::patch of four fields; the sums are read from the fold in memory, the patch expects the task as \
                    it was read, a conflict is tried again";

const fn contender(name: &'static str, level: Level, settings: &'static str) -> Contender {
    Contender { name, level, many: true, polls: true, batch: None, settings }
}

pub const CONTENDERS: &[Contender] = &[
    contender("foldlog-log", Level::Buffered, LOG),
    contender("foldlog-task", Level::Buffered, TASK),
    Contender {
        batch: Some("64 × commit buffered, one wait_durable of the last ticket"),
        ..contender("foldlog-log", Level::Durable, LOG)
    },
    contender("foldlog-task", Level::Durable, TASK),
];

pub fn open(name: &str, level: Level, dir: &Path, create: bool) -> Result<Box<dyn Peer>> {
    let durability = match level {
        Level::Buffered => Durability::Buffered,
        Level::Durable => Durability::Durable,
    };
    let place = Place::Key("peers".into());
    let root = dir.join("store");
    if name == "foldlog-log" {
        let options = Options::default().vocabulary(Vocabulary::new([(STEP, 1)])).label("peers");
        let store = Store::open(root, options)?;
        let workspace = store.workspace(&place)?;
        return Ok(Box::new(OfLog { _store: store, workspace, durability }));
    }
    let store = TaskStore::open(root, Options::default().label("peers"))?;
    let tasks = store.home(&place)?;
    if create {
        let ops = |first: usize| -> Result<Vec<Op>> {
            (first..first + 100).map(|task| Ok(Op::Create { item: item(task)?, again: false })).collect()
        };
        for first in (0..TASKS).step_by(100) {
            let _ = tasks.commit(ops(first)?, Durability::Buffered)?;
        }
        tasks.workspace().flush()?;
    }
    let ids = (0..TASKS).map(|task| TaskId::new(&data::id(task))).collect::<foldlog::Result<_>>()?;
    Ok(Box::new(OfTasks { _store: store, tasks, ids, durability }))
}

fn item(task: usize) -> Result<Item> {
    let id = TaskId::new(&data::id(task))?;
    let item = Item::parse(&data::item(task))?;
    debug_assert_eq!(item.text(&Field::Id).as_deref(), Some(id.as_str()));
    Ok(item
        .with(Field::Ts, data::TS)
        .with(Field::TokensIn, 0_i64)
        .with(Field::TokensOut, 0_i64)
        .with(Field::TotalCost, 0_i64))
}

struct OfLog {
    _store: Store,
    workspace: Workspace,
    durability: Durability,
}

impl OfLog {
    fn commit_with(&self, step: &Step, durability: Durability) -> Result<Receipt> {
        let mut id = [0; ID_LEN];
        id.copy_from_slice(step.id.as_bytes());
        let body = step.text.clone().into_bytes();
        let fill = move |_: &State, draft: &mut Draft| {
            let key = Key::task(std::str::from_utf8(&id).unwrap_or_default());
            draft.push(NewEvent::state(STEP, 1, key, body));
            Ok(())
        };
        Ok(self.workspace.commit(durability, fill)?)
    }
}

impl Peer for OfLog {
    fn commit(&mut self, step: &Step) -> Result<()> {
        self.commit_with(step, self.durability).map(drop)
    }

    fn batch(&mut self, steps: &[Step]) -> Result<()> {
        let mut last = None;
        for step in steps {
            last = Some(self.commit_with(step, Durability::Buffered)?);
        }
        Ok(last.map_or(Ok(()), |ticket| self.workspace.wait_durable(&ticket, Duration::from_secs(10)))?)
    }

    fn count(&mut self) -> Result<u64> {
        Ok(self
            .workspace
            .read(|state| state.iter().filter(|key| key.kind == STEP).map(|key| key.revision.0).sum())?)
    }

    fn poll(&mut self) -> Result<u64> {
        Ok(self.workspace.read(|state| state.last().0)?)
    }
}

struct OfTasks {
    _store: TaskStore,
    tasks: Tasks,
    ids: Vec<TaskId>,
    durability: Durability,
}

impl OfTasks {
    /// A task's token and its two sums, as this process has them.
    fn sums(&self, id: &TaskId) -> Result<(Token, i64, i64)> {
        let look = |state: &State| {
            let task = state.folded::<Index>()?.get(id.as_str())?;
            let sum = |field| match task.item.get(&field) {
                Some(Value::Int(n)) => Some(*n),
                _ => None,
            };
            let token = Token { revision: task.revision, at: state.cursor_at(task.seq) };
            Some((token, sum(Field::TokensIn)?, sum(Field::TokensOut)?))
        };
        Ok(self.tasks.workspace().log().cached(look)?.ok_or("a task is missing, or a sum of it")?)
    }
}

impl Peer for OfTasks {
    fn commit(&mut self, step: &Step) -> Result<()> {
        let id = &self.ids[step.task];
        loop {
            let (token, tokens_in, tokens_out) = self.sums(id)?;
            let patch = Patch::new()
                .set(Field::Ts, step.ts)
                .set(Field::TokensIn, tokens_in + step.tokens_in)
                .set(Field::TokensOut, tokens_out + 1)
                .set(Field::TotalCost, Value::parse(&step.cost_text).map_err(|e| e.to_string())?);
            let options = CommitOptions::new().durability(self.durability).expect(id, TaskExpect::At(token));
            match self.tasks.patch(id, patch, options) {
                Ok(_) => return Ok(()),
                // The conflict was judged on the newest state, which is folded by now.
                Err(e) if matches!(e.kind(), ErrorKind::Conflict(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn count(&mut self) -> Result<u64> {
        self.tasks.workspace().log().refresh()?;
        self.ids.iter().map(|id| Ok(self.sums(id)?.2.unsigned_abs())).sum()
    }

    fn poll(&mut self) -> Result<u64> {
        self.tasks.workspace().log().refresh()?;
        Ok(self.sums(&self.ids[0])?.2.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use foldlog::log::frame::frame_len;

    use super::*;
    use crate::data::TEXT_LEN;

    /// Bytes of a commit's body in front of its events.
    const PREAMBLE_LEN: usize = 17;

    #[test]
    fn frame_is_as_long_as_the_bare_loops_write() {
        let event = NewEvent::state(STEP, 1, Key::task(&data::id(0)), vec![b'x'; TEXT_LEN]);
        assert_eq!(frame_len(PREAMBLE_LEN + event.encoded_len()) as u64, crate::peers::raw::FRAME);
    }
}
