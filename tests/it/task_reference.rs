//! The reference that [`crate::task_model`] compares with: the rules of tasks on plain maps of names and JSON texts.
//!
//! Written from the rules as they are documented. It shares no decision with the library; only the plain types of its
//! callers, [`Status`] and [`Query`], are the library's.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldlog::event::Status;

mod looks;
mod owners;

/// The ids of these tests: few, so that they meet.
pub(crate) const IDS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
/// How many status tables there are.
pub(crate) const TABLES: usize = 3;

/// An object: names and texts, in order.
pub(crate) type Members = Vec<(String, String)>;

/// A fence: its number and its session.
pub(crate) type Held = (u64, u64);

/// One operation, ids as places in [`IDS`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cmd {
    Create { id: usize, item: Members, again: bool },
    Patch { id: usize, set: Members, unset: Vec<String>, drop: Vec<usize> },
    Rename { id: usize, title: String },
    SetStatus { id: usize, status: Status },
    Resume { id: usize },
    Delegate { parent: usize, child: usize, item: Members },
    Complete { id: usize, summary: Option<String> },
    Remove { ids: Vec<usize>, cascade: bool },
    Import { id: usize, item: Members, evidence: Vec<(String, String)> },
    SetRules(usize),
    Attach { id: usize },
    Detach { id: usize, fence: Held },
    Abandon { id: usize },
    Mend { id: usize, unowned: bool },
}

impl Cmd {
    /// An item's members with its id in front.
    pub(crate) fn whole(id: usize, members: &Members) -> Members {
        let mut whole = vec![("id".to_owned(), format!("\"{}\"", IDS[id]))];
        whole.extend(members.iter().cloned());
        whole
    }
}

/// What a commit expects of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Absent,
    Exists,
    Revision(u64),
}

/// What an import came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImportSaid {
    Created,
    Updated(Vec<String>),
    Unchanged,
    Own,
    Deleted,
}

/// The answer to a commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) again: bool,
    /// Id, revision and last event of each task that changed.
    pub(crate) tasks: Vec<(&'static str, u64, u64)>,
    pub(crate) imports: Vec<(&'static str, ImportSaid)>,
    pub(crate) fences: Vec<(&'static str, Held)>,
}

/// A live task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) members: Members,
    pub(crate) created: u64,
    pub(crate) named: bool,
    /// The record that was imported last, and what its source said of each field that counts.
    imported: Option<(Members, BTreeMap<String, String>)>,
}

impl Record {
    fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    fn set(&mut self, name: &str, text: &str) {
        match self.members.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => text.clone_into(old),
            None => self.members.push((name.to_owned(), text.to_owned())),
        }
    }

    fn unset(&mut self, name: &str) {
        self.members.retain(|(known, _)| known != name);
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(string)
    }

    fn link(&self, name: &str) -> Option<String> {
        self.text(name).filter(|id| !id.is_empty())
    }

    fn status(&self) -> Status {
        let name = self.text("status").unwrap_or_default();
        Status::ALL.into_iter().find(|status| status.name() == name).unwrap_or(Status::Active)
    }

    fn set_status(&mut self, status: Status) {
        self.set("status", &quoted(status.name()));
        if status != Status::Delegated {
            self.unset("awaitingChildId");
            self.unset("delegatedToId");
        }
    }

    fn children(&self) -> Vec<String> {
        self.get("childIds").map(strings).unwrap_or_default()
    }

    /// The union; spelled anew only where something is new.
    fn add_children(&mut self, new: &[String]) {
        let mut all = self.children();
        let before = all.len();
        for id in new {
            if !all.contains(id) {
                all.push(id.clone());
            }
        }
        if all.len() > before {
            self.set("childIds", &array(&all));
        }
    }

    fn number(&self, name: &str) -> f64 {
        let plain = |text: &&str| text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let number = self.get(name).filter(plain).and_then(|text| text.parse::<f64>().ok());
        number.filter(|n| n.is_finite()).unwrap_or(0.0)
    }

    fn whole(&self, name: &str) -> u64 {
        match self.get(name).map(str::parse::<u64>) {
            Some(Ok(n)) => n,
            _ => self.number(name) as u64,
        }
    }
}

pub(crate) fn json(members: &Members) -> String {
    let all: Vec<String> = members.iter().map(|(name, text)| format!("{}:{text}", quoted(name))).collect();
    format!("{{{}}}", all.join(","))
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

fn strings(text: &str) -> Vec<String> {
    let all: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    all.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

fn array(all: &[String]) -> String {
    format!("[{}]", all.iter().map(|id| quoted(id)).collect::<Vec<_>>().join(","))
}

fn place(id: &str) -> Option<usize> {
    IDS.iter().position(|known| *known == id)
}

const RULED: [&str; 7] =
    ["id", "status", "parentTaskId", "rootTaskId", "delegatedToId", "awaitingChildId", "completedByChildId"];

/// From, to, and whether only `resume` may.
type Row = (Status, Status, bool);

fn table(n: usize) -> (&'static str, Vec<Row>) {
    use Status::{Active, Completed, Delegated, Interrupted};
    let mut rows = vec![
        (Active, Delegated, false),
        (Active, Interrupted, false),
        (Active, Completed, false),
        (Delegated, Active, false),
        (Interrupted, Completed, false),
    ];
    match n {
        0 => {
            rows.push((Delegated, Interrupted, false));
            rows.push((Interrupted, Active, true));
            ("default", rows)
        }
        1 => ("zoo-3.78", rows),
        _ => {
            rows.push((Delegated, Interrupted, false));
            ("zoo-next", rows)
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Slot {
    live: Option<Record>,
    revision: u64,
    changed: u64,
    /// The last number it had, and whose it is; 0 = nobody's.
    fence: Held,
}

type Judged<T = ()> = Result<T, &'static str>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    slots: Vec<Slot>,
    rules: usize,
    last: u64,
    /// Events that the first commit of all has in front; the first of every other process has one.
    prefix: u64,
    /// The sessions that have written, and those that are dead.
    written: BTreeSet<u64>,
    pub(crate) dead: BTreeSet<u64>,
    requests: HashMap<u8, (Vec<Cmd>, Told)>,
    // Of the commit in the making.
    touched: Vec<usize>,
    imports: Vec<(&'static str, ImportSaid)>,
    fences: Vec<(&'static str, Held)>,
    /// Who commits, and of whom it is known that they are dead.
    me: u64,
    known_dead: BTreeSet<u64>,
}

impl Reference {
    pub(crate) fn new(prefix: u64) -> Self {
        Reference {
            slots: vec![Slot::default(); IDS.len()],
            rules: 0,
            last: 0,
            prefix,
            written: BTreeSet::new(),
            dead: BTreeSet::new(),
            requests: HashMap::new(),
            touched: Vec::new(),
            imports: Vec::new(),
            fences: Vec::new(),
            me: 0,
            known_dead: BTreeSet::new(),
        }
    }

    pub(crate) fn live(&self, id: usize) -> Option<&Record> {
        self.slots[id].live.as_ref()
    }

    pub(crate) fn revision(&self, id: usize) -> u64 {
        self.slots[id].revision
    }

    pub(crate) fn changed(&self, id: usize) -> u64 {
        self.slots[id].changed
    }

    pub(crate) fn rules_name(&self) -> &'static str {
        table(self.rules).0
    }

    fn named(&self, id: &str) -> Option<&Record> {
        self.live(place(id)?)
    }

    /// All or nothing: the operations go on a copy.
    pub(crate) fn commit(
        &mut self,
        me: u64,
        cmds: &[Cmd],
        expect: &[(usize, Expected)],
        fences: &[(usize, Held)],
        op_id: Option<u8>,
    ) -> Judged<Told> {
        if let Some((before, told)) = op_id.and_then(|n| self.requests.get(&n)) {
            if before != cmds {
                return Err("op-id-reused");
            }
            return Ok(Told { again: true, imports: Vec::new(), ..told.clone() });
        }
        let mut conflict = false;
        for (id, expected) in expect {
            let slot = &self.slots[*id];
            conflict |= match expected {
                Expected::Exists if slot.live.is_none() && slot.revision > 0 => return Err("task-deleted"),
                Expected::Exists => slot.revision == 0,
                Expected::Absent => slot.revision > 0,
                Expected::Revision(wanted) => slot.revision != *wanted,
            };
        }
        if conflict {
            return Err("conflict");
        }
        for (id, fence) in fences {
            self.holds(*id, *fence)?;
        }
        let mut next = self.clone();
        next.touched.clear();
        next.imports.clear();
        next.fences.clear();
        (next.me, next.known_dead) = (me, self.asked(cmds));
        let front = match self.written.contains(&me) {
            true => 0,
            false if self.written.is_empty() => self.prefix,
            false => 1,
        };
        next.last += front;
        for cmd in cmds {
            next.judge(cmd)?;
        }
        if next.last == self.last + front {
            next.last = self.last;
        } else {
            next.written.insert(me);
        }
        if next.last == self.last && op_id.is_some() {
            // Only the op id is left in the log.
            next.last += 1;
        }
        let count = next.last - self.last;
        let first = if count > 0 { self.last + 1 } else { self.last };
        let tasks = next.touched.iter().map(|&id| (IDS[id], next.revision(id), next.changed(id))).collect();
        let (imports, fences) = (next.imports.clone(), next.fences.clone());
        let told = Told { first, count, again: false, tasks, imports, fences };
        if let Some(n) = op_id {
            next.requests.insert(n, (cmds.to_vec(), told.clone()));
        }
        *self = next;
        Ok(told)
    }

    /// An event of a task.
    fn event(&mut self, id: usize, change: impl FnOnce(&mut Option<Record>)) {
        self.last += 1;
        let slot = &mut self.slots[id];
        slot.revision += 1;
        slot.changed = self.last;
        change(&mut slot.live);
        if !self.touched.contains(&id) {
            self.touched.push(id);
        }
    }

    fn change(&mut self, id: usize, change: impl FnOnce(&mut Record)) {
        self.event(id, |live| change(live.as_mut().unwrap()));
    }

    fn there(&self, id: usize) -> Judged<&Record> {
        match &self.slots[id] {
            Slot { live: Some(record), .. } => Ok(record),
            Slot { revision: 0, .. } => Err("no-task"),
            _ => Err("task-deleted"),
        }
    }

    fn judge(&mut self, cmd: &Cmd) -> Judged {
        match cmd {
            Cmd::Create { id, item, again } => self.create(*id, &Cmd::whole(*id, item), *again),
            Cmd::Patch { id, set, unset, drop } => self.patch(*id, set, unset, drop),
            Cmd::Rename { id, title } => {
                let record = self.there(*id)?;
                if !record.named || record.get("task") != Some(title.as_str()) {
                    self.change(*id, |record| {
                        record.set("task", title);
                        record.named = true;
                    });
                }
                Ok(())
            }
            Cmd::SetStatus { id, status } => self.set_status(*id, *status),
            Cmd::Resume { id } => match self.there(*id)?.status() {
                Status::Active => Ok(()),
                Status::Interrupted if self.row(Status::Interrupted, Status::Active).is_some() => {
                    self.change(*id, |record| record.set_status(Status::Active));
                    Ok(())
                }
                _ => Err("status-refused"),
            },
            Cmd::Delegate { parent, child, item } => {
                self.delegate(*parent, *child, &Cmd::whole(*child, item))
            }
            Cmd::Complete { id, summary } => self.complete(*id, summary.as_deref()),
            Cmd::Remove { ids, cascade } => self.remove(ids, *cascade),
            Cmd::Import { id, item, evidence } => {
                self.import(*id, &Cmd::whole(*id, item), evidence.len() as u64);
                Ok(())
            }
            Cmd::Attach { id } => self.attach(*id),
            Cmd::Detach { id, fence } => self.detach(*id, *fence),
            Cmd::Abandon { id } => self.abandon(*id),
            Cmd::Mend { id, unowned } => self.mend(*id, *unowned),
            Cmd::SetRules(n) => {
                if *n != self.rules {
                    self.rules = *n;
                    self.last += 1;
                }
                Ok(())
            }
        }
    }

    /// Whether a status may follow another, and if so whether by `resume` alone.
    fn row(&self, from: Status, to: Status) -> Option<bool> {
        table(self.rules).1.iter().find(|(f, t, _)| (*f, *t) == (from, to)).map(|(.., resume)| *resume)
    }

    fn freely(&self, from: Status, to: Status) -> Judged {
        match self.row(from, to) {
            Some(false) => Ok(()),
            _ => Err("status-refused"),
        }
    }

    fn create(&mut self, id: usize, item: &Members, again: bool) -> Judged {
        match &self.slots[id] {
            Slot { live: Some(_), .. } => return Err("task-exists"),
            Slot { revision: 1.., .. } if !again => return Err("task-deleted"),
            _ => {}
        }
        let given = Record { members: item.clone(), ..Record::default() };
        if ["delegatedToId", "awaitingChildId", "completedByChildId"]
            .iter()
            .any(|name| given.get(name).is_some())
        {
            return Err("ruled-field");
        }
        match given.get("status").map(|text| string(text).unwrap_or_default()).as_deref() {
            None | Some("active" | "interrupted" | "completed") => {}
            Some("delegated") => return Err("ruled-field"),
            Some(_) => return Err("invalid"),
        }
        if let Some(parent) = given.get("parentTaskId") {
            let parent = string(parent).filter(|id| !id.is_empty() && !id.contains('/')).ok_or("invalid")?;
            self.there(place(&parent).ok_or("no-task")?)?;
            self.acyclic(&parent, IDS[id])?;
        }
        let created = self.last + 1;
        let mut record = Record { created, ..Record::default() };
        item.iter().for_each(|(name, text)| record.set(name, text));
        self.event(id, |live| *live = Some(record));
        Ok(())
    }

    /// The child must not be the parent, nor above it.
    fn acyclic(&self, parent: &str, child: &str) -> Judged {
        let mut at = Some(parent.to_owned());
        for _ in 0..=IDS.len() {
            match &at {
                Some(id) if id == child => return Err("cycle"),
                Some(id) => at = self.named(id).and_then(|record| record.link("parentTaskId")),
                None => break,
            }
        }
        Ok(())
    }

    fn patch(&mut self, id: usize, set: &Members, unset: &[String], drop: &[usize]) -> Judged {
        let mut next = self.there(id)?.clone();
        let mut changes = false;
        for (name, text) in set {
            if next.get(name) == Some(text) {
                continue;
            }
            if RULED.contains(&name.as_str()) {
                return Err("ruled-field");
            }
            if name == "childIds" {
                let new = strings(text);
                changes |= new.iter().any(|id| !next.children().contains(id));
                next.add_children(&new);
            } else {
                next.set(name, text);
                changes = true;
            }
        }
        for name in unset {
            if next.get(name).is_some() {
                if RULED.contains(&name.as_str()) || name == "childIds" {
                    return Err("ruled-field");
                }
                next.unset(name);
                changes = true;
            }
        }
        let kept: Vec<String> =
            next.children().into_iter().filter(|child| drop.iter().all(|&id| IDS[id] != child)).collect();
        if kept.len() < next.children().len() {
            next.set("childIds", &array(&kept));
            changes = true;
        }
        if changes {
            self.change(id, |record| *record = next);
        }
        Ok(())
    }

    fn set_status(&mut self, id: usize, to: Status) -> Judged {
        let record = self.there(id)?;
        let from = record.status();
        if from == to {
            return Ok(());
        }
        if to == Status::Delegated {
            return Err("ruled-field");
        }
        self.freely(from, to)?;
        if to == Status::Completed && self.waiting_parent(id).is_some() {
            return Err("status-refused");
        }
        self.change(id, |record| record.set_status(to));
        Ok(())
    }

    fn waiting_parent(&self, id: usize) -> Option<usize> {
        let parent = self.live(id)?.link("parentTaskId")?;
        let record = self.named(&parent)?;
        let waits = record.status() == Status::Delegated
            && record.link("awaitingChildId").as_deref() == Some(IDS[id]);
        place(&parent).filter(|_| waits)
    }

    fn delegate(&mut self, parent: usize, child: usize, item: &Members) -> Judged {
        let record = self.there(parent)?.clone();
        if record.status() == Status::Delegated {
            let awaited = record.link("awaitingChildId").and_then(|id| self.named(&id).map(Record::status));
            if matches!(awaited, Some(Status::Active | Status::Delegated)) {
                return Err("status-refused");
            }
        } else {
            self.freely(record.status(), Status::Delegated)?;
        }
        self.acyclic(IDS[parent], IDS[child])?;
        let root = match record.link("rootTaskId") {
            Some(root) if !root.contains('/') => root,
            _ => self.top(parent),
        };
        match self.slots[child].clone() {
            Slot { live: Some(there), .. } => {
                if item.len() > 1 {
                    return Err("task-exists");
                }
                if there.status() != Status::Active {
                    return Err("status-refused");
                }
                match there.link("parentTaskId") {
                    Some(other) if other != IDS[parent] => return Err("invalid"),
                    Some(_) => {}
                    None => self.change(child, |record| {
                        record.set("parentTaskId", &quoted(IDS[parent]));
                        record.set("rootTaskId", &quoted(&root));
                    }),
                }
            }
            Slot { revision: 1.., .. } => return Err("task-deleted"),
            Slot { .. } => {
                let mut given = Record { members: item.clone(), ..Record::default() };
                for (name, id) in [("parentTaskId", IDS[parent]), ("rootTaskId", &root)] {
                    match given.get(name).map(string) {
                        Some(said) if said.as_deref() != Some(id) => return Err("ruled-field"),
                        _ => given.set(name, &quoted(id)),
                    }
                }
                if let (None, Some(workspace)) = (given.get("workspace"), record.get("workspace")) {
                    given.set("workspace", workspace);
                }
                if given.text("status").is_some_and(|status| status != "active") {
                    return Err("ruled-field");
                }
                self.create(child, &given.members, false)?;
            }
        }
        self.change(parent, |record| {
            record.set_status(Status::Delegated);
            record.set("delegatedToId", &quoted(IDS[child]));
            record.set("awaitingChildId", &quoted(IDS[child]));
            record.add_children(&[IDS[child].to_owned()]);
        });
        Ok(())
    }

    /// The last live task on the way up.
    fn top(&self, id: usize) -> String {
        let (mut top, mut seen) = (id, vec![id]);
        while let Some(above) =
            self.live(top).and_then(|record| record.link("parentTaskId")).and_then(|id| place(&id))
            && self.live(above).is_some()
            && !seen.contains(&above)
        {
            seen.push(above);
            top = above;
        }
        IDS[top].to_owned()
    }

    fn complete(&mut self, id: usize, summary: Option<&str>) -> Judged {
        let record = self.there(id)?;
        let waiting = self.waiting_parent(id);
        let done = record.status() == Status::Completed;
        if !done {
            self.freely(record.status(), Status::Completed)?;
        }
        if waiting.is_none() {
            if done {
                return Ok(());
            }
            if record.link("parentTaskId").is_some_and(|parent| self.named(&parent).is_some()) {
                return Err("not-waiting");
            }
        }
        if !done {
            self.change(id, |record| {
                record.set_status(Status::Completed);
                if let Some(summary) = summary {
                    record.set("completionResultSummary", summary);
                }
            });
        }
        if let Some(parent) = waiting {
            self.change(parent, |record| {
                record.set_status(Status::Active);
                record.set("completedByChildId", &quoted(IDS[id]));
                match summary {
                    Some(summary) => record.set("completionResultSummary", summary),
                    None => record.unset("completionResultSummary"),
                }
                record.add_children(&[IDS[id].to_owned()]);
            });
        }
        Ok(())
    }

    /// Live tasks whose parent link names this one, by id.
    pub(crate) fn children(&self, id: &str) -> Vec<String> {
        let is_child = |i: &usize| {
            self.live(*i).is_some_and(|record| record.link("parentTaskId").as_deref() == Some(id))
        };
        (0..IDS.len()).filter(is_child).map(|i| IDS[i].to_owned()).collect()
    }

    fn remove(&mut self, ids: &[usize], cascade: bool) -> Judged {
        let mut going: Vec<usize> = Vec::new();
        for &id in ids {
            self.there(id)?;
            if going.contains(&id) {
                continue;
            }
            let mut open = vec![id];
            while let Some(next) = open.pop() {
                going.push(next);
                let below: Vec<usize> = self.children(IDS[next]).iter().filter_map(|id| place(id)).collect();
                if !cascade && below.iter().any(|child| !ids.contains(child)) {
                    return Err("refused");
                }
                if cascade {
                    let new: Vec<usize> =
                        below.into_iter().filter(|c| !going.contains(c) && !open.contains(c)).collect();
                    open.extend(new);
                }
            }
        }
        let mut freed: Vec<usize> = Vec::new();
        for &id in &going {
            if let Some(parent) = self.waiting_parent(id)
                && !going.contains(&parent)
                && !freed.contains(&parent)
            {
                freed.push(parent);
            }
        }
        for id in going {
            self.event(id, |live| *live = None);
            self.changes_hands(id, 0);
        }
        for id in freed {
            self.change(id, |record| record.set_status(Status::Active));
        }
        Ok(())
    }

    fn import(&mut self, id: usize, item: &Members, evidence: u64) {
        let said = match self.slots[id].clone() {
            Slot { live: None, revision: 1.., .. } => ImportSaid::Deleted,
            Slot { live: None, .. } => {
                let mut record = Record { created: self.last + 1, ..Record::default() };
                item.iter().for_each(|(name, text)| record.set(name, text));
                record.imported = Some((item.clone(), item.iter().cloned().collect()));
                self.event(id, |live| *live = Some(record));
                ImportSaid::Created
            }
            Slot { live: Some(record), .. } => match &record.imported {
                None => ImportSaid::Own,
                Some((before, _)) if before == item => ImportSaid::Unchanged,
                Some((_, source)) => {
                    let (mut next, mut source, mut kept) = (record.clone(), source.clone(), Vec::new());
                    let now = Record { members: item.clone(), ..Record::default() };
                    let before = source.clone();
                    let gone: Vec<&String> = before.keys().filter(|name| now.get(name).is_none()).collect();
                    for (name, says) in item {
                        let said = before.get(name).map(String::as_str);
                        if said == Some(says) {
                            continue;
                        }
                        source.insert(name.clone(), says.clone());
                        let stands = record.get(name);
                        if stands == said || stands == Some(says) {
                            next.set(name, says);
                        } else {
                            kept.push(name.clone());
                        }
                    }
                    for name in gone {
                        source.remove(name);
                        let stands = record.get(name);
                        if stands.is_none() || stands == before.get(name).map(String::as_str) {
                            next.unset(name);
                        } else {
                            kept.push(name.clone());
                        }
                    }
                    next.imported = Some((item.clone(), source));
                    self.event(id, |live| *live = Some(next));
                    kept.sort_unstable();
                    ImportSaid::Updated(kept)
                }
            },
        };
        if matches!(said, ImportSaid::Created | ImportSaid::Updated(_)) {
            self.last += evidence;
        }
        self.imports.push((IDS[id], said));
    }
}
