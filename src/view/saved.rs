//! Tasks as they lie in a snapshot: a row for each, in the order of ids, what they say in a heap beside their names, and
//! lists of rows in the orders that are asked for. `format-spec/snapshot.md`, section *Tasks*.
//!
//! Nothing is decoded but what somebody looks at: a task is handed out with its item where it lies. What a task says is written as the event that would create it, in the encoding
//! of the log.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::Index;
use super::query::SortKeys;
use super::table::TaskTable;
use super::task::{Entry, Imports, Task, Tombstone};
use crate::event::{Event, Fence, Field, Imported, Item, Shelf, Status, TaskId, Value};
use crate::log::bytes::Bytes;
use crate::log::envelope::{Envelope, Key, KeyKind};
use crate::log::{Base, NewEvent, Revision, SaveFold, Seq, SnapshotWriter, Span, Spoiled, State};

const TASKS: u32 = 4096;
const BY_TIME: u32 = 4097;
const BY_STATUS: u32 = 4098;
const BY_WORKSPACE: u32 = 4099;
const BY_PARENT: u32 = 4100;
const WAITING: u32 = 4101;
const OWNED: u32 = 4102;
pub(super) const FACTS: u32 = 4103;

const ROW_LEN: u64 = 152;
const ROW_WORDS: usize = 19;
const PLACE_LEN: u64 = 4;
/// The spans of the statuses stand before the list.
const STATUS_SPANS: u64 = 4 * 8;

/// The key is a task's, but the fold has nothing of it.
const ABSENT: u8 = 0;
const LIVE: u8 = 1;
const DEAD: u8 = 2;

const NAMED: u8 = 1;
const BACKGROUND: u8 = 2;
/// Some value of its item is kept in a blob.
const BLOBS: u8 = 4;

pub(super) fn spoiled(why: &str) -> Spoiled {
    Spoiled(why.into())
}

/// An event's kind, version, blobs and body, one behind the other.
pub(super) fn put_event(event: &Event, out: &mut Vec<u8>) {
    let new: NewEvent = event.to_new(Key::none());
    let (kind, version, blobs, body) = new.parts();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[version, 0]);
    out.extend_from_slice(&u32::try_from(blobs.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(blobs.as_flattened());
    out.extend_from_slice(body);
}

/// What [`put_event`] has written.
pub(super) fn event_of(bytes: &[u8]) -> Result<Event, Spoiled> {
    let mut b = Bytes(bytes);
    let mut parts = || {
        let (kind, version, _) = (b.u16()?, b.u8()?, b.u8()?);
        let blobs = b.u32()?;
        Some((kind, version, b.take(usize::try_from(blobs).ok()?.checked_mul(32)?)?))
    };
    let (kind, version, blobs) = parts().ok_or_else(|| spoiled("an event of it is cut"))?;
    let envelope = Envelope {
        seq: Seq(0),
        takes: 1,
        kind,
        version,
        ignorable: false,
        key_kind: KeyKind::NONE,
        key: "",
        revision: Revision(0),
        blobs,
        body: b.0,
    };
    match Event::decode(&envelope) {
        Ok(Some(event)) => Ok(event),
        Ok(None) => Err(spoiled("an event of it is of an unknown kind")),
        Err(bad) => Err(Spoiled(format!("an event of it does not decode: {bad}"))),
    }
}

/// A text in the heap of its task; `None` = there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Text {
    offset: u32,
    /// One more than its length; 0 = there is none.
    len: u32,
}

/// A task's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    heap: u64,
    heap_len: u32,
    item_len: u32,
    imports_len: u32,
    /// Length of its id, which stands right before the heap; 0 = only the key's row knows where.
    id_len: u32,
    revision: u64,
    seq: u64,
    created: u64,
    fence: Fence,
    bytes: u64,
    keys: [f64; 4],
    title: Text,
    parent: Text,
    awaiting: Text,
    workspace: Text,
    /// Where in the list by parents its children begin, and how many there are.
    children: (u32, u32),
    state: u8,
    status: u8,
    flags: u8,
}

impl Row {
    const EMPTY: Row = Row {
        heap: 0,
        heap_len: 0,
        item_len: 0,
        imports_len: 0,
        id_len: 0,
        revision: 0,
        seq: 0,
        created: 0,
        fence: Fence { number: 0, session: 0 },
        bytes: 0,
        keys: [0.0; 4],
        title: Text { offset: 0, len: 0 },
        parent: Text { offset: 0, len: 0 },
        awaiting: Text { offset: 0, len: 0 },
        workspace: Text { offset: 0, len: 0 },
        children: (0, 0),
        state: ABSENT,
        status: 0,
        flags: 0,
    };

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.heap.to_le_bytes());
        for n in [self.heap_len, self.item_len, self.imports_len, self.id_len] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        let numbers =
            [self.revision, self.seq, self.created, self.fence.number, self.fence.session, self.bytes];
        numbers.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        self.keys.iter().for_each(|n| out.extend_from_slice(&n.to_bits().to_le_bytes()));
        for text in [self.title, self.parent, self.awaiting, self.workspace] {
            out.extend_from_slice(&text.offset.to_le_bytes());
            out.extend_from_slice(&text.len.to_le_bytes());
        }
        out.extend_from_slice(&self.children.0.to_le_bytes());
        out.extend_from_slice(&self.children.1.to_le_bytes());
        out.extend_from_slice(&[self.state, self.status, self.flags, 0, 0, 0, 0, 0]);
    }

    /// Of words of 8 bytes, all at once: this is what every look costs.
    fn decode(bytes: &[u8]) -> Option<Row> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: &[[u8; 8]; ROW_WORDS] = words.try_into().ok()?;
        let [
            heap,
            lens,
            more,
            revision,
            seq,
            created,
            number,
            session,
            bytes,
            ts,
            cost,
            tokens,
            size,
            rest @ ..,
        ] = words.map(u64::from_le_bytes);
        let [title, parent, awaiting, workspace, children, last] = rest;
        let ((heap_len, item_len), (imports_len, id_len)) = (halves(lens), halves(more));
        let text = |word| {
            let (offset, len) = halves(word);
            Text { offset, len }
        };
        let [state, status, flags, ..] = last.to_le_bytes();
        Some(Row {
            heap,
            heap_len,
            item_len,
            imports_len,
            id_len,
            revision,
            seq,
            created,
            fence: Fence { number, session },
            bytes,
            keys: [ts, cost, tokens, size].map(f64::from_bits),
            title: text(title),
            parent: text(parent),
            awaiting: text(awaiting),
            workspace: text(workspace),
            children: halves(children),
            state,
            status,
            flags,
        })
    }

    pub(super) fn is_there(&self) -> bool {
        self.state != ABSENT
    }

    pub(super) fn is_live(&self) -> bool {
        self.state == LIVE
    }

    pub(super) fn status(&self) -> Status {
        Status::of_number(self.status).unwrap_or(Status::Active)
    }

    pub(super) fn background(&self) -> bool {
        self.flags & BACKGROUND != 0
    }

    pub(super) fn sort_keys(&self) -> SortKeys {
        let [ts, cost, tokens, size] = self.keys;
        SortKeys { ts, cost, tokens, size, created: Seq(self.created), changed: Seq(self.seq) }
    }

    /// Where a snapshot's row of a task with this entry says what it says; the heap has been written.
    fn of(entry: &Entry, id_len: u32, heap: u64, out: &mut SnapshotWriter) -> Row {
        let task = match entry {
            Entry::Dead(Tombstone { revision, seq, fence }) => {
                let fence = Fence { number: *fence, session: 0 };
                return Row { revision: revision.0, seq: seq.0, fence, state: DEAD, ..Row::EMPTY };
            }
            Entry::Live(task) => task,
        };
        let mut bytes = Vec::new();
        put_event(&Event::Created { item: task.item.clone(), again: false }, &mut bytes);
        let item_len = bytes.len();
        if let Some(imports) = &task.imports {
            let (set, unset, source) = (Vec::new(), Vec::new(), "".into());
            let kept = imports.fields.clone();
            put_event(
                &Event::Imported(Imported { source, record: imports.record, set, unset, kept }),
                &mut bytes,
            );
        }
        let imports_len = bytes.len() - item_len;
        let mut text = |field: &Field| {
            let Some(text) = task.text(field) else { return Text::default() };
            // It stands in the item, unless it is spelled there in another way.
            let at = find(&bytes, text.as_bytes()).unwrap_or_else(|| {
                bytes.extend_from_slice(text.as_bytes());
                bytes.len() - text.len()
            });
            Text { offset: short(at), len: short(text.len() + 1) }
        };
        let title = text(&Field::Task);
        let (parent, awaiting) = (text(&Field::ParentTaskId), text(&Field::AwaitingChildId));
        let workspace = text(&Field::Workspace);
        out.put(&bytes);
        let SortKeys { ts, cost, tokens, size, .. } = SortKeys::of(task);
        Row {
            heap,
            heap_len: short(bytes.len()),
            item_len: short(item_len),
            imports_len: short(imports_len),
            id_len,
            revision: task.revision.0,
            seq: task.seq.0,
            created: task.created.0,
            fence: task.fence,
            bytes: task.bytes,
            keys: [ts, cost, tokens, size],
            title,
            parent,
            awaiting,
            workspace,
            children: (0, 0),
            state: LIVE,
            status: task.status().number(),
            flags: if task.named { NAMED } else { 0 }
                | if task.background() { BACKGROUND } else { 0 }
                | if task.item.has_blobs() { BLOBS } else { 0 },
        }
    }
}

/// The two numbers that lie in 8 bytes, the first one first.
fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, rest @ ..] = word.to_le_bytes();
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(rest))
}

/// An item has at most 64 MiB.
fn short(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return Some(0);
    }
    bytes.windows(text.len()).position(|window| window == text)
}

/// A list of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows(Span);

impl Rows {
    pub(super) fn len(self) -> u32 {
        u32::try_from(self.0.len / PLACE_LEN).unwrap_or(u32::MAX)
    }

    /// From one place to another.
    pub(super) fn part(self, from: u32, to: u32) -> Rows {
        let len = u64::from(to.saturating_sub(from)) * PLACE_LEN;
        Rows(self.0.part(u64::from(from) * PLACE_LEN, len).unwrap_or_default())
    }
}

/// What a snapshot has of the tasks.
#[derive(Clone, Debug)]
pub(super) struct Below {
    base: Arc<Base>,
    rows: Span,
    /// The first task's row among all keys, and how many there are.
    first: u32,
    count: u32,
    by_time: Rows,
    statuses: [Rows; 4],
    by_workspace: Rows,
    by_parent: Rows,
    waiting: Rows,
    owned: Rows,
}

impl Below {
    pub(super) fn of(base: &Arc<Base>) -> Result<Self, Spoiled> {
        let file = base.file();
        let (first, count) = base.range(KeyKind::TASK);
        let rows = file.section(TASKS)?;
        if rows.len != u64::from(count) * ROW_LEN {
            return Err(spoiled("its table of tasks is cut"));
        }
        let list = |id| Ok(Rows(file.section(id)?));
        let by_status = file.section(BY_STATUS)?;
        let spans = by_status.part(0, STATUS_SPANS).ok_or_else(|| spoiled("its statuses are cut"))?;
        let spans = file.bytes(spans)?;
        let mut b = Bytes(&spans);
        let mut statuses = [Rows::default(); 4];
        for status in &mut statuses {
            let (Some(from), Some(len)) = (b.u32(), b.u32()) else {
                return Err(spoiled("its statuses are cut"));
            };
            let offset = STATUS_SPANS + u64::from(from) * PLACE_LEN;
            let span = by_status.part(offset, u64::from(len) * PLACE_LEN);
            *status = Rows(span.ok_or_else(|| spoiled("a status of it lies outside"))?);
        }
        Ok(Below {
            base: Arc::clone(base),
            rows,
            first,
            count,
            by_time: list(BY_TIME)?,
            statuses,
            by_workspace: list(BY_WORKSPACE)?,
            by_parent: list(BY_PARENT)?,
            waiting: list(WAITING)?,
            owned: list(OWNED)?,
        })
    }

    /// What `here` finds; where the snapshot turns out to be spoiled, what `instead` finds in the same tasks as the log has
    /// them.
    pub(super) fn look<T>(
        self: &Arc<Self>,
        here: impl FnOnce(&Arc<Self>) -> Result<T, Spoiled>,
        instead: impl FnOnce(&TaskTable) -> T,
    ) -> T {
        self.base.look(|_| here(self), |state| in_log(state, instead))
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// All that live, newest activity first.
    pub(super) fn by_time(&self) -> Rows {
        self.by_time
    }

    /// Those of one status, newest activity first.
    pub(super) fn of_status(&self, status: Status) -> Rows {
        let at = Status::ALL.iter().position(|known| *known == status);
        at.and_then(|at| self.statuses.get(at)).copied().unwrap_or_default()
    }

    /// Those that somebody owns.
    pub(super) fn owned(&self) -> Rows {
        self.owned
    }

    /// Those of one workspace, newest activity first.
    pub(super) fn of_workspace(&self, path: &str) -> Result<Rows, Spoiled> {
        self.equal(self.by_workspace, |row| row.workspace, path)
    }

    /// Those that name a task as their parent, by id.
    pub(super) fn children(&self, parent: &str) -> Result<Rows, Spoiled> {
        if let Some(n) = self.place_of(parent)? {
            let (from, len) = self.row(n)?.children;
            return Ok(self.by_parent.part(from, from.saturating_add(len)));
        }
        // It was never here itself.
        self.equal(self.by_parent, |row| row.parent, parent)
    }

    /// Those that wait for a task, by id.
    pub(super) fn waiting_for(&self, child: &str) -> Result<Rows, Spoiled> {
        self.equal(self.waiting, |row| row.awaiting, child)
    }

    /// The part of a list, sorted by a text, that has this one.
    fn equal(&self, rows: Rows, of: impl Fn(&Row) -> Text, wanted: &str) -> Result<Rows, Spoiled> {
        let compare = |place| {
            let row = self.row(self.place(rows, place)?)?;
            Ok(self.text(&row, of(&row))?.as_deref().cmp(&Some(wanted)))
        };
        let from = partition(rows.len(), |place| Ok(compare(place)? == Ordering::Less))?;
        let to = partition(rows.len(), |place| Ok(compare(place)? != Ordering::Greater))?;
        Ok(rows.part(from, to))
    }

    /// A row that a list has at a place.
    pub(super) fn place(&self, rows: Rows, place: u32) -> Result<u32, Spoiled> {
        let span = rows.0.row(place, PLACE_LEN).ok_or_else(|| spoiled("a list of it is too short"))?;
        Bytes(&self.base.file().bytes(span)?).u32().ok_or_else(|| spoiled("a list of it is cut"))
    }

    /// A row.
    pub(super) fn row(&self, n: u32) -> Result<Row, Spoiled> {
        let span = self.rows.row(n, ROW_LEN).ok_or_else(|| spoiled("it points behind its last task"))?;
        Row::decode(&self.base.file().bytes(span)?).ok_or_else(|| spoiled("a task's row is cut"))
    }

    /// The id of a row's task.
    pub(super) fn id(&self, n: u32, row: &Row) -> Result<Cow<'_, str>, Spoiled> {
        let len = u64::from(row.id_len);
        match row.heap.checked_sub(len) {
            Some(start) if len > 0 => self.base.heap_text(start, len),
            _ => self.base.name(self.first.saturating_add(n)),
        }
    }

    fn place_of(&self, id: &str) -> Result<Option<u32>, Spoiled> {
        Ok(self.base.find(KeyKind::TASK, id)?.and_then(|row| row.checked_sub(self.first)))
    }

    /// The row of an id, where the fold has it.
    pub(super) fn find(&self, id: &str) -> Result<Option<(u32, Row)>, Spoiled> {
        let Some(n) = self.place_of(id)? else { return Ok(None) };
        let row = self.row(n)?;
        Ok((row.state != ABSENT).then_some((n, row)))
    }

    fn text(&self, row: &Row, text: Text) -> Result<Option<Cow<'_, str>>, Spoiled> {
        let Some(len) = text.len.checked_sub(1) else { return Ok(None) };
        let offset =
            row.heap.checked_add(text.offset.into()).ok_or_else(|| spoiled("a text lies outside of it"))?;
        self.base.heap_text(offset, len.into()).map(Some)
    }

    pub(super) fn title(&self, row: &Row) -> Result<Option<Cow<'_, str>>, Spoiled> {
        self.text(row, row.title)
    }

    pub(super) fn parent(&self, row: &Row) -> Result<Option<Cow<'_, str>>, Spoiled> {
        self.text(row, row.parent)
    }

    pub(super) fn workspace(&self, row: &Row) -> Result<Option<Cow<'_, str>>, Spoiled> {
        self.text(row, row.workspace)
    }

    /// What a row stands for, that has this id; `None` = nothing. An item stays where it is until somebody looks at it; its
    /// blocks are checked now.
    pub(super) fn entry(self: &Arc<Self>, n: u32, id: &str, row: &Row) -> Result<Option<Entry>, Spoiled> {
        match row.state {
            LIVE => Ok(Some(Entry::Live(Arc::new(self.task(n, id, row)?)))),
            DEAD => {
                let (revision, seq) = (Revision(row.revision), Seq(row.seq));
                Ok(Some(Entry::Dead(Tombstone { revision, seq, fence: row.fence.number })))
            }
            _ => Ok(None),
        }
    }

    /// A live row's task.
    pub(super) fn task(self: &Arc<Self>, n: u32, id: &str, row: &Row) -> Result<Task, Spoiled> {
        let id = TaskId::of_log(id);
        let file = self.base.file();
        let all = u64::from(row.item_len) + u64::from(row.imports_len);
        let item = if file.is_mapped() {
            file.check_span(self.base.heap_span(row.heap, all)?)?;
            Item::packed(Arc::clone(self) as Arc<dyn Shelf>, n, id.clone(), row.flags & BLOBS != 0)
        } else {
            // What is not mapped may be gone later.
            Item::of_fields(self.fields_at(row)?)
        };
        let imports = match row.imports_len {
            0 => None,
            len => {
                let offset = row.heap.saturating_add(row.item_len.into());
                match event_of(&self.base.heap(offset, len.into())?)? {
                    Event::Imported(Imported { record, kept, .. }) => {
                        Some(Arc::new(Imports { record, fields: kept }))
                    }
                    _ => return Err(spoiled("the imports of an item of it are none")),
                }
            }
        };
        Ok(Task {
            id,
            item,
            revision: Revision(row.revision),
            seq: Seq(row.seq),
            created: Seq(row.created),
            named: row.flags & NAMED != 0,
            fence: row.fence,
            imports,
            bytes: row.bytes,
        })
    }

    /// The fields of a row's item.
    fn fields_at(&self, row: &Row) -> Result<Vec<(Field, Value)>, Spoiled> {
        match event_of(&self.base.heap(row.heap, row.item_len.into())?)? {
            Event::Created { item, .. } => Ok(item.into_fields()),
            _ => Err(spoiled("an item of it is none")),
        }
    }
}

impl Shelf for Below {
    fn fields(&self, place: u32, id: &TaskId) -> Vec<(Field, Value)> {
        let instead = |table: &TaskTable| match table.entry(id.as_str()) {
            Some(Entry::Live(task)) => task.item.fields().to_vec(),
            _ => Vec::new(),
        };
        self.base.look(|_| self.fields_at(&self.row(place)?), |state| in_log(state, instead))
    }
}

fn in_log<T>(state: &State, look: impl FnOnce(&TaskTable) -> T) -> T {
    match state.folded::<Index>() {
        Some(index) => look(index.table()),
        None => look(&TaskTable::default()),
    }
}

/// The first place for which something does not hold that holds for none behind it.
pub(super) fn partition(
    len: u32,
    mut holds: impl FnMut(u32) -> Result<bool, Spoiled>,
) -> Result<u32, Spoiled> {
    let (mut from, mut to) = (0, len);
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle)? {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    Ok(from)
}

/// Writes the tasks of an index.
pub(super) struct SaveTasks<'a> {
    index: &'a Index,
    rows: Vec<Row>,
    /// The id of each row, one behind the other, and where each ends.
    names: String,
    name_ends: Vec<usize>,
    workspaces: BTreeMap<Box<str>, Vec<u32>>,
    parents: BTreeMap<Box<str>, Vec<u32>>,
    waiting: BTreeMap<Box<str>, Vec<u32>>,
}

impl<'a> SaveTasks<'a> {
    pub(super) fn of(index: &'a Index) -> Self {
        let (rows, names, name_ends, workspaces, parents, waiting) = Default::default();
        SaveTasks { index, rows, names, name_ends, workspaces, parents, waiting }
    }

    /// What the snapshot below has of a task, as it stands there.
    fn copy(
        &mut self,
        n: u32,
        below: &Below,
        id: &str,
        id_len: u32,
        out: &mut SnapshotWriter,
    ) -> Result<Row, Spoiled> {
        let Some((_, row)) = below.find(id)? else { return Ok(Row::EMPTY) };
        self.list(n, below.workspace(&row)?, below.parent(&row)?, below.text(&row, row.awaiting)?);
        let heap = out.section_offset();
        out.put(&below.base.heap(row.heap, row.heap_len.into())?);
        Ok(Row { heap, id_len, children: (0, 0), ..row })
    }

    fn list(
        &mut self,
        row: u32,
        workspace: Option<Cow<'_, str>>,
        parent: Option<Cow<'_, str>>,
        awaiting: Option<Cow<'_, str>>,
    ) {
        let add = |all: &mut BTreeMap<Box<str>, Vec<u32>>, text: Option<Cow<'_, str>>| {
            let Some(text) = text else { return };
            match all.get_mut(&*text) {
                Some(rows) => rows.push(row),
                None => drop(all.insert(text.into(), vec![row])),
            }
        };
        add(&mut self.workspaces, workspace);
        // Nobody is the child of a task without a name.
        add(&mut self.parents, parent.filter(|id| !id.is_empty()));
        add(&mut self.waiting, awaiting.filter(|id| !id.is_empty()));
    }

    fn put(rows: impl IntoIterator<Item = u32>, out: &mut SnapshotWriter) {
        rows.into_iter().for_each(|row| out.put(&row.to_le_bytes()));
    }
}

impl SaveFold for SaveTasks<'_> {
    fn key(
        &mut self,
        kind: KeyKind,
        name: &str,
        start: u64,
        out: &mut SnapshotWriter,
    ) -> Result<(), Spoiled> {
        if kind != KeyKind::TASK {
            return Ok(());
        }
        // With a fold the log keeps no body between the two.
        let is_beside = start + name.len() as u64 == out.section_offset();
        let id_len = if is_beside { short(name.len()) } else { 0 };
        let n = short(self.rows.len());
        let table = self.index.table();
        let row = match (table.since().get(name), table.below()) {
            (Some(entry), _) => {
                if let Entry::Live(task) = entry {
                    self.list(n, task.text(&Field::Workspace), task.parent(), task.awaiting());
                }
                Row::of(entry, id_len, out.section_offset(), out)
            }
            (None, Some(below)) => self.copy(n, below, name, id_len, out)?,
            (None, None) => Row::EMPTY,
        };
        self.rows.push(row);
        self.names.push_str(name);
        self.name_ends.push(self.names.len());
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut SnapshotWriter) -> Result<(), Spoiled> {
        let SaveTasks { index, mut rows, names, name_ends, workspaces, parents, waiting } = *self;
        // Both are in the order of ids.
        let (mut start, mut from) = (0, 0_u32);
        let mut left = parents.iter().peekable();
        for (row, end) in rows.iter_mut().zip(name_ends) {
            let name = names.get(start..end).unwrap_or_default();
            start = end;
            while let Some((_, all)) = left.next_if(|(parent, _)| &***parent < name) {
                from += short(all.len());
            }
            if let Some((_, all)) = left.next_if(|(parent, _)| &***parent == name) {
                row.children = (from, short(all.len()));
                from += short(all.len());
            }
        }
        drop(names);
        let mut bytes = Vec::with_capacity(rows.len() * usize::try_from(ROW_LEN).unwrap_or(0));
        rows.iter().for_each(|row| row.encode(&mut bytes));
        out.put(&bytes);
        out.end_section(TASKS);
        let live = (0_u32..).zip(&rows).filter(|(_, row)| row.is_live());
        let mut by_time: Vec<(f64, u32)> = live.clone().map(|(n, row)| (row.sort_keys().ts, n)).collect();
        by_time.sort_unstable_by(|(a, m), (b, n)| b.total_cmp(a).then(m.cmp(n)));
        Self::put(by_time.iter().map(|(_, n)| *n), out);
        out.end_section(BY_TIME);
        let of = |n: u32| rows.get(n as usize);
        let in_status = |status: Status| {
            by_time.iter().map(|(_, n)| *n).filter(move |n| of(*n).is_some_and(|row| row.status() == status))
        };
        let mut start = 0_u32;
        for status in Status::ALL {
            let len = short(in_status(status).count());
            out.put(&start.to_le_bytes());
            out.put(&len.to_le_bytes());
            start += len;
        }
        Status::ALL.into_iter().for_each(|status| Self::put(in_status(status), out));
        out.end_section(BY_STATUS);
        for (_, mut all) in workspaces {
            let ts = |n: u32| of(n).map_or(0.0, |row| row.sort_keys().ts);
            all.sort_unstable_by(|m, n| ts(*n).total_cmp(&ts(*m)).then(m.cmp(n)));
            Self::put(all, out);
        }
        out.end_section(BY_WORKSPACE);
        Self::put(parents.into_values().flatten(), out);
        out.end_section(BY_PARENT);
        Self::put(waiting.into_values().flatten(), out);
        out.end_section(WAITING);
        Self::put(live.filter(|(_, row)| row.fence.session != 0).map(|(n, _)| n), out);
        out.end_section(OWNED);
        index.save_facts(out)
    }
}
