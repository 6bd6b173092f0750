//! Items: open JSON objects, their fields in order, and patches of them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

use super::id::TaskId;
use super::json;
use super::value::Value;
use crate::error::{Error, ErrorKind, Result};

/// Largest item, in bytes of JSON text.
pub const ITEM_LEN_MAX: u64 = 64 << 20;
/// Most fields of an item.
pub const ITEM_FIELDS_MAX: usize = 4096;

/// Defines the fields with a meaning once: variant, number in the encoding, name in JSON.
macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal $name:literal;)+) => {
        /// A field's name. The known ones have a meaning here; any other is kept as it came.
        ///
        /// A name has one form: [`Field::of`] makes the known ones from their names.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Field {
            $($(#[doc = $doc])+ $variant,)+
            /// Any other.
            Other(Arc<str>),
        }

        impl Field {
            /// The field of this name.
            pub fn of(name: &str) -> Self {
                match name {
                    $($name => Field::$variant,)+
                    _ => Field::Other(name.into()),
                }
            }

            /// Its name.
            pub fn name(&self) -> &str {
                match self {
                    $(Field::$variant => $name,)+
                    Field::Other(name) => name,
                }
            }

            /// Its number in the encoding; 0 = spelled out. Frozen for ever.
            pub(crate) fn number(&self) -> u8 {
                match self {
                    $(Field::$variant => $number,)+
                    Field::Other(_) => 0,
                }
            }

            /// The field of a number.
            pub(crate) fn of_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Field::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

fields! {
    /// The task's id.
    Id = 1 "id";
    /// A running number that hosts give.
    Number = 2 "number";
    /// Time of its last activity, ms since 1970.
    Ts = 3 "ts";
    /// Its title.
    Task = 4 "task";
    /// Tokens sent.
    TokensIn = 5 "tokensIn";
    /// Tokens received.
    TokensOut = 6 "tokensOut";
    /// Tokens written to a cache.
    CacheWrites = 7 "cacheWrites";
    /// Tokens read from a cache.
    CacheReads = 8 "cacheReads";
    /// What it cost.
    TotalCost = 9 "totalCost";
    /// Bytes of its folder.
    Size = 10 "size";
    /// The folder it works in.
    Workspace = 11 "workspace";
    /// The host's mode.
    Mode = 12 "mode";
    /// The host's provider profile.
    ApiConfigName = 13 "apiConfigName";
    /// Its status; absent = active.
    Status = 14 "status";
    /// The task that delegated to it.
    ParentTaskId = 15 "parentTaskId";
    /// The top of its chain of parents.
    RootTaskId = 16 "rootTaskId";
    /// All tasks it ever delegated to.
    ChildIds = 17 "childIds";
    /// The task it delegated to last.
    DelegatedToId = 18 "delegatedToId";
    /// The task it waits for.
    AwaitingChildId = 19 "awaitingChildId";
    /// The task that returned to it last.
    CompletedByChildId = 20 "completedByChildId";
    /// What came of it, or of the child that returned last.
    CompletionResultSummary = 21 "completionResultSummary";
    /// Whether it runs in the background.
    Background = 22 "background";
    /// An approval that waits for the user.
    PendingAction = 23 "pendingAction";
    /// A delegation under way, as older hosts mark it.
    PendingHandoff = 24 "pendingHandoff";
}

impl Field {
    /// Whether only the task rules may change it, each by a verb of its own, so that no save can by accident.
    pub fn is_ruled(&self) -> bool {
        matches!(
            self,
            Field::Id
                | Field::Status
                | Field::ParentTaskId
                | Field::RootTaskId
                | Field::DelegatedToId
                | Field::AwaitingChildId
                | Field::CompletedByChildId
        )
    }

    /// Brings a known field whose name was spelled out by hand into its one form; returns whether it was one.
    fn settle(&mut self) -> bool {
        let Field::Other(name) = self else { return false };
        let known = Field::of(name);
        if matches!(known, Field::Other(_)) {
            return false;
        }
        *self = known;
        true
    }

    /// Whether it is one of the sums that every step of a task moves.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Field::Ts
                | Field::TokensIn
                | Field::TokensOut
                | Field::CacheWrites
                | Field::CacheReads
                | Field::TotalCost
        )
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A JSON object, its fields in the order they came. Equal to another if all fields are, in the same order.
#[derive(Clone, Default)]
pub struct Item {
    /// Empty while it is packed.
    fields: Vec<(Field, Value)>,
    packed: Option<Box<Packed>>,
}

/// Where items lie that are decoded only when somebody looks at them.
pub(crate) trait Shelf: Send + Sync {
    /// The fields of the item that lies at a place, which is this task's.
    fn fields(&self, place: u32, id: &TaskId) -> Vec<(Field, Value)>;
}

/// An item that nobody has looked at yet.
#[derive(Clone)]
struct Packed {
    shelf: Arc<dyn Shelf>,
    place: u32,
    has_blobs: bool,
    id: TaskId,
    fields: OnceLock<Vec<(Field, Value)>>,
}

impl Packed {
    fn fields(&self) -> &[(Field, Value)] {
        self.fields.get_or_init(|| self.shelf.fields(self.place, &self.id))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for Item {}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("fields", &self.fields()).finish()
    }
}

impl Item {
    /// An item with an id and nothing else.
    pub fn new(id: &TaskId) -> Self {
        Item::of_fields(vec![(Field::Id, Value::Text(id.shared()))])
    }

    /// The item that a JSON text is.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for text that is not one JSON object, and for a key that occurs twice in any object of it;
    /// [`ErrorKind::TooLarge`] over 64 MiB. Half a surrogate pair in a string is kept as it is spelled.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() as u64 > ITEM_LEN_MAX {
            let kind =
                ErrorKind::TooLarge { what: "an item's bytes", len: text.len() as u64, max: ITEM_LEN_MAX };
            return Err(Error::new(kind, "read", Path::new("")));
        }
        let members = json::members(text).map_err(|bad| invalid("item", bad.0))?;
        Ok(Item::of_fields(members.into_iter().map(|(k, v)| (Field::of(&k), Value::of_valid(v))).collect()))
    }

    /// The item that lies at a place of a shelf, and is this task's. `has_blobs`: whether any value is kept in a blob.
    pub(crate) fn packed(shelf: Arc<dyn Shelf>, place: u32, id: TaskId, has_blobs: bool) -> Self {
        let packed = Packed { shelf, place, has_blobs, id, fields: OnceLock::new() };
        Item { fields: Vec::new(), packed: Some(Box::new(packed)) }
    }

    /// Whether any value is kept in a blob.
    pub(crate) fn has_blobs(&self) -> bool {
        match &self.packed {
            Some(packed) => packed.has_blobs,
            None => self.fields.iter().any(|(_, value)| matches!(value, Value::Blob { .. })),
        }
    }

    /// Its fields, to be changed.
    fn own(&mut self) -> &mut Vec<(Field, Value)> {
        if let Some(packed) = self.packed.take() {
            let Packed { shelf, place, id, fields, .. } = *packed;
            self.fields = fields.into_inner().unwrap_or_else(|| shelf.fields(place, &id));
        }
        &mut self.fields
    }

    /// Its fields, in order.
    pub fn fields(&self) -> &[(Field, Value)] {
        match &self.packed {
            Some(packed) => packed.fields(),
            None => &self.fields,
        }
    }

    /// A field's value.
    pub fn get(&self, field: &Field) -> Option<&Value> {
        self.fields().iter().find(|(f, _)| f == field).map(|(_, v)| v)
    }

    /// A field's value if it is a string.
    pub fn text(&self, field: &Field) -> Option<std::borrow::Cow<'_, str>> {
        self.get(field)?.as_str()
    }

    /// Sets a field: in its place if it is there, else behind all others. Returns what it was.
    pub fn set(&mut self, field: Field, value: impl Into<Value>) -> Option<Value> {
        let value = value.into();
        let fields = self.own();
        match fields.iter_mut().find(|(f, _)| *f == field) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                fields.push((field, value));
                None
            }
        }
    }

    /// The same, for building one.
    #[must_use]
    pub fn with(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.set(field, value);
        self
    }

    /// Removes a field; returns what it was.
    pub fn unset(&mut self, field: &Field) -> Option<Value> {
        let fields = self.own();
        let at = fields.iter().position(|(f, _)| f == field)?;
        Some(fields.remove(at).1)
    }

    /// Its text: one line, no space, fields in order. The text of a blob is not here.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (i, (field, value)) in self.fields().iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            json::write_string(field.name(), &mut out);
            out.push(':');
            value.write_json(&mut out);
        }
        out.push('}');
        out
    }

    /// About how many bytes its text has, blobs included.
    pub fn json_len(&self) -> u64 {
        let each = self.fields().iter().map(|(f, v)| v.json_len().saturating_add(f.name().len() as u64 + 4));
        each.fold(1, u64::saturating_add)
    }

    /// Brings what was put together by hand into the form in which others will read it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a value that is no JSON, and for a field that is there twice.
    pub(crate) fn settle(&mut self) -> Result<()> {
        settle_fields("item", self.own())
    }

    /// Sets a field and says how to take that back.
    pub(crate) fn edit(&mut self, field: &Field, value: Value) -> Edit {
        let fields = self.own();
        match fields.iter_mut().enumerate().find(|(_, (f, _))| f == field) {
            Some((at, (_, old))) => Edit::Replaced(at, std::mem::replace(old, value)),
            None => {
                fields.push((field.clone(), value));
                Edit::Added
            }
        }
    }

    /// Removes a field and says how to take that back.
    pub(crate) fn edit_out(&mut self, field: &Field) -> Edit {
        let fields = self.own();
        match fields.iter().position(|(f, _)| f == field) {
            Some(at) => {
                let (field, old) = fields.remove(at);
                Edit::Removed(at, field, old)
            }
            None => Edit::Nothing,
        }
    }

    /// A way to look up so many fields that one search each would take too long.
    pub(crate) fn finder(&self, asked: usize) -> Finder<'_> {
        let map = (asked > FEW).then(|| {
            // Of a name that is there twice the first counts.
            self.fields().iter().enumerate().rev().map(|(at, (field, _))| (field, at)).collect()
        });
        Finder { item: self, map }
    }

    /// [`Item::edit`] of many fields, in time that grows with their number alone.
    pub(crate) fn edit_all(&mut self, all: Vec<(Field, Value)>, mut told: impl FnMut(&Field, u64, Edit)) {
        let mut places: Option<Places> = (all.len() > FEW).then(|| {
            self.fields().iter().enumerate().rev().map(|(at, (field, _))| (field.clone(), at)).collect()
        });
        for (field, value) in all {
            let len = value.json_len();
            let edit = match &mut places {
                None => self.edit(&field, value),
                Some(places) => {
                    match places.get(&field).and_then(|at| Some((*at, self.own().get_mut(*at)?))) {
                        Some((at, (_, old))) => Edit::Replaced(at, std::mem::replace(old, value)),
                        None => {
                            places.insert(field.clone(), self.fields().len());
                            self.own().push((field.clone(), value));
                            Edit::Added
                        }
                    }
                }
            };
            told(&field, len, edit);
        }
    }

    /// [`Item::edit_out`] of many fields, in time that grows with their number alone. The edits come last field first, so
    /// that they are taken back as they stood.
    pub(crate) fn edit_out_all(&mut self, all: &[Field], mut told: impl FnMut(Edit)) {
        if all.len() <= FEW {
            return all.iter().for_each(|field| told(self.edit_out(field)));
        }
        let going: HashSet<&Field, RandomState> = all.iter().collect();
        let fields = std::mem::take(self.own());
        let (mut stay, mut go) = (Vec::with_capacity(fields.len()), Vec::new());
        for (at, (field, value)) in fields.into_iter().enumerate() {
            if going.contains(&field) {
                go.push(Edit::Removed(at, field, value));
            } else {
                stay.push((field, value));
            }
        }
        self.fields = stay;
        go.into_iter().rev().for_each(told);
    }

    /// Takes the last edit back.
    pub(crate) fn take_back(&mut self, edit: Edit) {
        match edit {
            Edit::Nothing => {}
            Edit::Added => drop(self.own().pop()),
            Edit::Replaced(at, old) => {
                if let Some((_, now)) = self.own().get_mut(at) {
                    *now = old;
                }
            }
            Edit::Removed(at, field, old) => {
                let fields = self.own();
                fields.insert(at.min(fields.len()), (field, old));
            }
        }
    }

    /// Makes an item of fields in order; a name that comes twice counts the first time.
    pub(crate) fn of_fields(fields: Vec<(Field, Value)>) -> Self {
        Item { fields, packed: None }
    }

    /// Its fields, in order.
    pub fn into_fields(mut self) -> Vec<(Field, Value)> {
        std::mem::take(self.own())
    }

    /// Values to be changed in place; only the form of a value may change, never what it spells.
    pub(crate) fn fields_mut(&mut self) -> &mut Vec<(Field, Value)> {
        self.own()
    }
}

/// See [`Item::finder`].
pub(crate) struct Finder<'a> {
    item: &'a Item,
    map: Option<HashMap<&'a Field, usize, RandomState>>,
}

impl<'a> Finder<'a> {
    /// A field's value.
    pub(crate) fn get(&self, field: &Field) -> Option<&'a Value> {
        match &self.map {
            None => self.item.get(field),
            Some(map) => map.get(field).and_then(|at| self.item.fields().get(*at)).map(|(_, value)| value),
        }
    }
}

type Places = HashMap<Field, usize, RandomState>;

/// Up to how many fields are searched for one by one.
const FEW: usize = 32;

/// What an edit of an item replaced, and where.
#[derive(Debug)]
pub(crate) enum Edit {
    Nothing,
    /// The field was put behind all others.
    Added,
    Replaced(usize, Value),
    Removed(usize, Field, Value),
}

impl Edit {
    /// The value that is there no more.
    pub(crate) fn old(&self) -> Option<&Value> {
        match self {
            Edit::Nothing | Edit::Added => None,
            Edit::Replaced(_, old) | Edit::Removed(_, _, old) => Some(old),
        }
    }
}

/// Which fields of an item change, and how. What it does not name stays.
///
/// `childIds` in [`Patch::set`] is added to the set that is there; [`Patch::drop_children`] takes ids out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    pub(crate) set: Vec<(Field, Value)>,
    pub(crate) unset: Vec<Field>,
    pub(crate) drop_children: Vec<Arc<str>>,
}

/// The patch that sets all of an item's fields.
impl From<Item> for Patch {
    fn from(item: Item) -> Self {
        Patch { set: item.into_fields(), ..Patch::default() }
    }
}

impl Patch {
    /// A patch of nothing.
    pub fn new() -> Self {
        Patch::default()
    }

    /// Sets a field.
    #[must_use]
    pub fn set(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.unset.retain(|f| *f != field);
        let value = value.into();
        match self.set.iter_mut().find(|(f, _)| *f == field) {
            Some((_, old)) => *old = value,
            None => self.set.push((field, value)),
        }
        self
    }

    /// Removes a field.
    #[must_use]
    pub fn unset(mut self, field: Field) -> Self {
        self.set.retain(|(f, _)| *f != field);
        if !self.unset.contains(&field) {
            self.unset.push(field);
        }
        self
    }

    /// Takes ids out of `childIds`.
    #[must_use]
    pub fn drop_children(mut self, ids: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        self.drop_children.extend(ids.into_iter().map(Into::into));
        self
    }

    /// The patch that a JSON text spells: an object with `set` (an object), `unset` (an array of names) and
    /// `dropChildIds` (an array of ids), each of which may be missing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |why: String| invalid("patch", why);
        if text.len() as u64 > ITEM_LEN_MAX {
            let kind =
                ErrorKind::TooLarge { what: "a patch's bytes", len: text.len() as u64, max: ITEM_LEN_MAX };
            return Err(Error::new(kind, "read", Path::new("")));
        }
        let mut patch = Patch::new();
        let names = |text: &str| {
            serde_json::from_str::<Vec<String>>(text).map_err(|e| bad(format!("not an array of names: {e}")))
        };
        for (key, value) in json::members(text).map_err(|e| bad(e.0))? {
            match &*key {
                "set" => {
                    for (name, value) in json::members(value).map_err(|e| bad(e.0))? {
                        let field = Field::of(&name);
                        if patch.unset.contains(&field) {
                            return Err(bad(format!("{name} is both set and unset")));
                        }
                        patch.set.push((field, Value::of_valid(value)));
                    }
                }
                "unset" => {
                    for name in names(value)? {
                        let field = Field::of(&name);
                        if patch.set.iter().any(|(f, _)| *f == field) {
                            return Err(bad(format!("{name} is both set and unset")));
                        }
                        patch = patch.unset(field);
                    }
                }
                "dropChildIds" => patch = patch.drop_children(names(value)?),
                other => return Err(bad(format!("{other:?} is none of set, unset, dropChildIds"))),
            }
        }
        Ok(patch)
    }

    /// As [`Item::settle`].
    pub(crate) fn settle(&mut self) -> Result<()> {
        settle_fields("patch", &mut self.set)?;
        for field in &mut self.unset {
            if field.settle() && self.set.iter().any(|(set, _)| set == field) {
                return Err(invalid("patch", format!("{field} is both set and unset")));
            }
        }
        Ok(())
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty() && self.drop_children.is_empty()
    }

    /// Fields it sets, with their values.
    pub fn sets(&self) -> &[(Field, Value)] {
        &self.set
    }

    /// Fields it removes.
    pub fn unsets(&self) -> &[Field] {
        &self.unset
    }

    /// Ids it takes out of `childIds`.
    pub fn drops(&self) -> &[Arc<str>] {
        &self.drop_children
    }
}

fn settle_fields(what: &'static str, fields: &mut [(Field, Value)]) -> Result<()> {
    let mut respelled = false;
    for (field, value) in fields.iter_mut() {
        respelled |= field.settle();
        value.settle().map_err(|bad| invalid(what, format!("{field}: {bad}")))?;
    }
    if respelled {
        let mut seen = HashSet::new();
        if let Some((twice, _)) = fields.iter().find(|(field, _)| !seen.insert(field)) {
            return Err(invalid(what, format!("{twice} is there twice")));
        }
    }
    Ok(())
}

fn invalid(what: &'static str, why: String) -> Error {
    Error::new(ErrorKind::Invalid { what, why }, "read", Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_every_field_bit_for_bit() {
        let text = r#"{"id":"a","zeta":1.50,"ts":1,"childIds":["x"],"o":{"k": [1 ]},"Ä":"\ud83d"}"#;
        let item = Item::parse(text).unwrap();
        assert_eq!(item.to_json(), text);
        assert_eq!(item.get(&Field::Ts), Some(&Value::Int(1)));
    }

    #[test]
    fn numbers_of_fields_are_one_to_one() {
        let all: Vec<_> = (0..=u8::MAX).filter_map(Field::of_number).collect();
        assert_eq!(all.len(), 24);
        for (i, field) in all.iter().enumerate() {
            assert_eq!((usize::from(field.number()), &Field::of(field.name())), (i + 1, field));
        }
    }

    #[test]
    fn many_fields_at_once_are_as_one_by_one_and_taken_back_so() {
        let field = |n: usize| Field::of(&format!("f{n}"));
        let before = Item::of_fields((0..300).map(|n| (field(n), Value::Int(0))).collect());
        let all: Vec<_> =
            (0..400).map(|n| (field(n * 3 % 350), Value::Int(i64::try_from(n).unwrap()))).collect();
        let gone: Vec<_> = (0..200).map(|n| field(n * 7 % 500)).collect();
        let (mut one_by_one, mut at_once, mut edits) = (before.clone(), before.clone(), Vec::new());
        all.iter().for_each(|(field, value)| drop(one_by_one.set(field.clone(), value.clone())));
        gone.iter().for_each(|field| drop(one_by_one.unset(field)));
        at_once.edit_all(all, |_, _, edit| edits.push(edit));
        at_once.edit_out_all(&gone, |edit| edits.push(edit));
        assert_eq!(at_once, one_by_one);
        let finder = at_once.finder(1000);
        (0..500).for_each(|n| assert_eq!(finder.get(&field(n)), at_once.get(&field(n)), "{n}"));
        edits.into_iter().rev().for_each(|edit| at_once.take_back(edit));
        assert_eq!(at_once, before);
    }

    #[derive(Default)]
    struct Counting(std::sync::atomic::AtomicUsize);

    impl Shelf for Counting {
        fn fields(&self, place: u32, id: &TaskId) -> Vec<(Field, Value)> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Item::new(id).with(Field::Number, i64::from(place)).into_fields()
        }
    }

    #[test]
    fn packed_item_is_fetched_once_and_only_if_somebody_looks() {
        let shelf = Arc::new(Counting::default());
        let fetched = || shelf.0.load(std::sync::atomic::Ordering::Relaxed);
        let id = TaskId::new("a").unwrap();
        let plain = Item::new(&id).with(Field::Number, 7_i64);
        let packed = |has_blobs| Item::packed(Arc::clone(&shelf) as Arc<dyn Shelf>, 7, id.clone(), has_blobs);
        let item = packed(true);
        let other = item.clone();
        assert!(item.has_blobs() && !packed(false).has_blobs());
        assert_eq!(fetched(), 0, "that it was handed out, copied and asked for blobs takes no look");
        assert_eq!(
            (&item, item.to_json(), item.get(&Field::Number)),
            (&plain, plain.to_json(), Some(&Value::Int(7)))
        );
        assert_eq!(fetched(), 1);
        // Each way to change one finds what it has, and nothing of the shelf's is changed.
        let mut changed = other.clone();
        assert_eq!(changed.set(Field::Number, 8_i64), Some(Value::Int(7)));
        assert_eq!(changed.unset(&Field::Id), Some(Value::Text(id.shared())));
        assert_eq!(changed.to_json(), r#"{"number":8}"#);
        let mut edited = packed(false);
        let edits = vec![edited.edit(&Field::Number, Value::Null), edited.edit_out(&Field::Id)];
        assert_eq!(edited.to_json(), r#"{"number":null}"#);
        edits.into_iter().rev().for_each(|edit| edited.take_back(edit));
        assert_eq!(edited, plain);
        let mut many = packed(false);
        let all: Vec<_> = (0..40).map(|n| (Field::of(&format!("f{n}")), Value::Int(n))).collect();
        many.edit_all(all.clone(), |_, _, _| {});
        let names: Vec<_> = all.into_iter().map(|(field, _)| field).collect();
        many.edit_out_all(&names, |_| {});
        assert_eq!((many, Patch::from(packed(false)).sets()), (plain.clone(), plain.fields()));
        assert_eq!((other, packed(false).into_fields().len()), (plain, 2));
    }

    #[test]
    fn patch_parses_and_refuses() {
        let patch =
            Patch::parse(r#"{"set":{"mode":"x","childIds":["c"]},"unset":["q"],"dropChildIds":["d"]}"#);
        let expected = Patch::new()
            .set(Field::Mode, "x")
            .set(Field::ChildIds, Value::strings(["c"]))
            .unset(Field::of("q"))
            .drop_children(["d"]);
        assert_eq!(patch.unwrap(), expected);
        for bad in [
            "[]",
            r#"{"sett":{}}"#,
            r#"{"set":[]}"#,
            r#"{"unset":[1]}"#,
            r#"{"set":{"a":1},"unset":["a"]}"#,
            r#"{"unset":["a"],"set":{"a":1}}"#,
            r#"{"set":{"a":1,"a":2}}"#,
        ] {
            let parsed = Patch::parse(bad);
            assert!(parsed.is_err(), "{bad}: {parsed:?}");
        }
    }
}
