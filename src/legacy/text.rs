//! Files of unknown worth as text, and text as the records in it, however little of it is whole.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::report::What;
use crate::event::{Field, ITEM_LEN_MAX, Item, Value};
use crate::vfs::{Open, Vfs};

/// Most bytes of a file that is one record. A record may have 64 MiB; the rest is for the space around it.
pub(super) const RECORD_MAX: usize = 65 << 20;
/// Most bytes of a file that holds many.
pub(super) const MANY_MAX: usize = 1 << 30;
/// How many bytes may be looked at in vain for the next whole element behind a broken one.
const RESYNC_BUDGET: usize = 256 << 20;
/// How many strings of JSON may stand in each other.
const WRAPS_MAX: u32 = 3;

/// A file's bytes, without the space they begin with.
pub(super) enum Bytes {
    Some(Vec<u8>),
    Empty,
    /// Nothing but this many bytes of space.
    Blank(u64),
    TooLarge,
}

/// Reads a file to its end. Space at its start, however much there is, takes no memory.
pub(super) fn bytes(vfs: &dyn Vfs, path: &Path, max: usize) -> io::Result<Bytes> {
    let file = vfs.open(path, Open::Read)?;
    let (mut all, mut chunk, mut offset) = (Vec::new(), vec![0; 64 << 10], 0);
    loop {
        let n = file.read_at(&mut chunk, offset)?;
        if n == 0 {
            break;
        }
        offset += n as u64;
        let got = chunk.get(..n).unwrap_or_default();
        let got = if all.is_empty() { got.trim_ascii_start() } else { got };
        if all.len() + got.len() > max {
            return Ok(Bytes::TooLarge);
        }
        all.extend_from_slice(got);
    }
    Ok(match (offset, all.is_empty()) {
        (0, _) => Bytes::Empty,
        (len, true) => Bytes::Blank(len),
        _ => Bytes::Some(all),
    })
}

/// The text that bytes are, and what is wrong with it nevertheless.
pub(super) fn decode(bytes: Vec<u8>) -> Result<(String, Option<What>), What> {
    let marked = matches!(bytes.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    if marked || matches!(bytes.as_slice(), [1..=255, 0, 1..=255, 0, ..] | [0, 1..=255, 0, 1..=255, ..]) {
        return Err(What::Utf16);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, None)),
        // Hosts read such files in this way, so this is what they show.
        Err(e) => Ok((String::from_utf8_lossy(e.as_bytes()).into_owned(), Some(What::NotUtf8))),
    }
}

/// What a text holds.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The texts of its records or messages, each one JSON object.
    pub(super) elements: Vec<String>,
    /// What is wrong with it, if anything is.
    pub(super) fault: Option<What>,
}

impl Content {
    fn bad(fault: What) -> Self {
        Content { elements: Vec::new(), fault: Some(fault) }
    }
}

/// The records in a text: of one object that is a record, of an array, of an object with an array of them under
/// `entries` or `taskHistory`, or of a string with any of these in it.
///
/// `one`: the text is one record, whatever its fields are.
pub(super) fn records(text: &str, one: bool) -> Content {
    records_within(text, one, 0)
}

fn records_within(text: &str, one: bool, wraps: u32) -> Content {
    let text = strip(text);
    let whole = serde_json::from_str::<&RawValue>(text);
    match text.as_bytes().first() {
        None => Content::bad(What::Blank),
        Some(b'"') if whole.is_ok() && wraps < WRAPS_MAX && !one => {
            match serde_json::from_str::<String>(text) {
                Ok(inner) => records_within(&inner, one, wraps + 1),
                Err(_) => Content::bad(What::WrongType),
            }
        }
        Some(b'{') => match whole {
            Ok(_) if one && !has(text, &["id", "ts", "task", "number"]) => Content::bad(What::WrongType),
            Ok(_) => object(text, one, wraps),
            Err(_) => broken_object(text, one, wraps),
        },
        Some(b'[') if one => Content::bad(if whole.is_ok() { What::WrongType } else { What::NotJson }),
        Some(b'[') => array(text, is_record),
        Some(b'<') => Content::bad(What::Html),
        Some(_) if whole.is_ok() => Content::bad(What::WrongType),
        Some(_) => Content::bad(What::NotJson),
    }
}

/// The messages in a text: the objects of an array.
pub(super) fn messages(text: &str) -> Content {
    let text = strip(text);
    match text.as_bytes().first() {
        Some(b'[') => array(text, |raw| has(raw, &["ts", "role"])),
        _ => Content::bad(What::WrongType),
    }
}

fn strip(text: &str) -> &str {
    super::title::trim(text)
}

fn object(text: &str, one: bool, wraps: u32) -> Content {
    if one {
        return Content { elements: vec![text.into()], fault: None };
    }
    let Ok(members) = members(text) else { return Content::bad(What::WrongType) };
    let named = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    if named("id").is_some() {
        return Content { elements: vec![text.into()], fault: None };
    }
    match named("entries").or_else(|| named("taskHistory")) {
        Some(inner) if wraps < WRAPS_MAX => records_within(inner, false, wraps + 1),
        _ => Content::bad(What::WrongType),
    }
}

/// An object that is followed by something, or that does not end.
fn broken_object(text: &str, one: bool, wraps: u32) -> Content {
    if let Some((first, _)) = next_value(text) {
        // A shorter text written over a longer one leaves the end of that; what is whole is the newer one.
        let mut content = object(first, one, wraps);
        content.fault.get_or_insert(What::Surplus);
        return content;
    }
    if one {
        return Content::bad(What::NotJson);
    }
    let list = ["\"entries\"", "\"taskHistory\""].iter().filter_map(|key| text.find(key)).min();
    let inner =
        list.and_then(|at| text.get(at..)).and_then(|rest| rest.find('[').and_then(|at| rest.get(at..)));
    match inner {
        Some(inner) => Content { fault: Some(What::Cut), ..array(inner, is_record) },
        None => Content::bad(What::NotJson),
    }
}

/// The objects of an array, whole or damaged. Behind damage only what `fits` counts: it might be a part of something.
fn array(text: &str, fits: fn(&str) -> bool) -> Content {
    if let Ok(all) = serde_json::from_str::<Vec<&RawValue>>(text) {
        let elements: Vec<String> = all.iter().map(|raw| raw.get().to_owned()).collect();
        return Content { elements, fault: None };
    }
    let (mut rest, mut lost, mut budget) = (text, false, RESYNC_BUDGET);
    let mut content = Content::bad(What::Cut);
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',', '[', ']']);
        if rest.is_empty() {
            return content;
        }
        if rest.starts_with('{') {
            if let Some((raw, behind)) = next_value(rest) {
                if !lost || fits(raw) {
                    content.elements.push(raw.into());
                    lost = false;
                }
                rest = behind;
                continue;
            }
            // At worst all of the rest was looked at.
            match budget.checked_sub(rest.len()) {
                Some(left) => budget = left,
                None => return content,
            }
        }
        lost = true;
        let behind = rest.char_indices().nth(1).map_or("", |(at, _)| rest.split_at(at).1);
        rest = behind.find('{').map_or("", |at| behind.split_at(at).1);
    }
}

/// The value that a text begins with, and what is behind it.
fn next_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let raw = values.next()?.ok()?;
    Some((raw.get(), text.get(values.byte_offset()..)?))
}

fn is_record(raw: &str) -> bool {
    has(raw, &["id"]) && has(raw, &["ts", "task", "number"])
}

fn has(raw: &str, names: &[&str]) -> bool {
    members(raw).is_ok_and(|all| all.iter().any(|(key, _)| names.contains(&&**key)))
}

/// The item that one record's text is, and the names of fields that had to be left out. Readers of these files take
/// the last of two fields of one name; so does this. Inside a value nobody can say which one counts.
pub(super) fn item(raw: &str) -> Result<(Item, Vec<String>), What> {
    if raw.len() as u64 > ITEM_LEN_MAX {
        return Err(What::TooLarge);
    }
    if let Ok(item) = Item::parse(raw) {
        return Ok((item, Vec::new()));
    }
    let (mut item, mut dropped) = (Item::default(), Vec::new());
    let mut de = serde_json::Deserializer::from_str(raw);
    let all = de.deserialize_map(RawMembers).map_err(|_| What::NotJson)?;
    for (key, value) in all {
        match (serde_json::from_str::<String>(key), Value::parse(value)) {
            (Ok(name), Ok(value)) => drop(item.set(Field::of(&name), value)),
            (Ok(name), Err(_)) => dropped.push(name),
            (Err(_), _) => dropped.push(key.into()),
        }
    }
    Ok((item, dropped))
}

/// The members of an object; a name with half a surrogate pair stands as it is spelled.
fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &str)>, serde_json::Error> {
    let all = serde_json::Deserializer::from_str(text).deserialize_map(RawMembers)?;
    let decoded = all.into_iter().map(|(key, value)| {
        let name = serde_json::from_str::<String>(key).map_or(Cow::Borrowed(key), Cow::Owned);
        (name, value)
    });
    Ok(decoded.collect())
}

struct RawMembers;

impl<'de> Visitor<'de> for RawMembers {
    type Value = Vec<(&'de str, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(key) = map.next_key::<&RawValue>()? {
            let value: &RawValue = map.next_value()?;
            all.push((key.get(), value.get()));
        }
        Ok(all)
    }
}

/// A value of an object, for the few fields that are looked at.
pub(super) fn member<'a>(raw: &'a str, name: &str) -> Option<&'a str> {
    members(raw).ok()?.into_iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// A text as a value to be kept: what JSON it is, else the string of it.
pub(super) fn kept(text: &str) -> Value {
    Value::parse(text).unwrap_or_else(|_| Value::text(text))
}

#[cfg(test)]
mod tests;
