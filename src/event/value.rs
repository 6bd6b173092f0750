//! One value of an item: JSON text, in a compact form where that form spells exactly the text that came.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::json::{self, BadJson};
use crate::log::BlobId;

/// A JSON value. Two are equal exactly if their texts are, byte by byte.
///
/// Made only by [`Value::parse`] and the `From` conversions, so a text has one form here: the first that spells it.
/// Integers outside 64 bits, fractions, exponents, `-0`, objects, and strings with unusual escapes stay [`Value::Raw`].
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer in its plain decimal spelling.
    Int(i64),
    /// The same, above the range of the former.
    UInt(u64),
    /// A string in the canonical spelling ([`json::write_string`]).
    Text(Arc<str>),
    /// An array, not empty, of strings in the canonical spelling, without any space.
    Strings(Arc<[Arc<str>]>),
    /// Any other text.
    Raw(Arc<str>),
    /// A text that is kept outside the event, under the BLAKE3 of its bytes.
    Blob {
        /// The blob's name.
        id: BlobId,
        /// Length of the text in bytes.
        len: u64,
    },
}

impl Value {
    /// The value that a JSON text is.
    ///
    /// # Errors
    /// As [`json::value`].
    pub fn parse(text: &str) -> Result<Self, BadJson> {
        Ok(Self::of_valid(json::value(text)?))
    }

    /// The same for a text that is known to be one JSON value without space around it.
    pub(crate) fn of_valid(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'"') => match canonical_string(text) {
                Some(inner) => Value::Text(inner.as_ref().into()),
                None => Value::Raw(text.into()),
            },
            Some(b'n') => Value::Null,
            Some(b't') => Value::Bool(true),
            Some(b'f') => Value::Bool(false),
            Some(b'[') => canonical_strings(text).map_or_else(|| Value::Raw(text.into()), Value::Strings),
            Some(b'0'..=b'9' | b'-') if text != "-0" => match (text.parse(), text.parse()) {
                (Ok(n), _) => Value::Int(n),
                (_, Ok(n)) => Value::UInt(n),
                _ => Value::Raw(text.into()),
            },
            _ => Value::Raw(text.into()),
        }
    }

    /// Brings a value that was put together by hand into the one form of its text, in which others will read it.
    ///
    /// # Errors
    /// [`BadJson`] for a [`Value::Raw`] that is no JSON value.
    pub(crate) fn settle(&mut self) -> Result<(), BadJson> {
        match self {
            // What sums of money are: no other form spells it.
            Value::Raw(text) if json::is_fraction(text) => {}
            Value::Raw(text) => *self = Value::parse(text)?,
            Value::UInt(n) => *self = Value::from(*n),
            Value::Blob { len, .. } if *len > super::ITEM_LEN_MAX => {
                return Err(BadJson(format!("a blob of {len} bytes is longer than any item")));
            }
            Value::Strings(all) if all.is_empty() => *self = Value::strings([""; 0]),
            _ => {}
        }
        Ok(())
    }

    /// A string's value.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Value::Text(text.into())
    }

    /// The value of an array of strings.
    pub fn strings(strings: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        let strings: Arc<[Arc<str>]> = strings.into_iter().map(Into::into).collect();
        if strings.is_empty() { Value::Raw("[]".into()) } else { Value::Strings(strings) }
    }

    /// Appends its text. A blob's is not here; `null` stands in its place.
    pub fn write_json(&self, out: &mut String) {
        use fmt::Write as _;
        // Writing into memory does not fail.
        match self {
            Value::Null | Value::Blob { .. } => out.push_str("null"),
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => drop(write!(out, "{n}")),
            Value::UInt(n) => drop(write!(out, "{n}")),
            Value::Text(text) => json::write_string(text, out),
            Value::Strings(all) => {
                for (i, text) in all.iter().enumerate() {
                    out.push(if i == 0 { '[' } else { ',' });
                    json::write_string(text, out);
                }
                out.push(']');
            }
            Value::Raw(text) => out.push_str(text),
        }
    }

    /// Its text.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    /// About the length of its text in bytes, of a blob's too: escapes count as what they stand for.
    pub fn json_len(&self) -> u64 {
        match self {
            Value::Blob { len, .. } => *len,
            Value::Raw(text) => text.len() as u64,
            Value::Null | Value::Bool(true) => 4,
            Value::Bool(false) => 5,
            Value::Text(text) => text.len() as u64 + 2,
            Value::Strings(all) => all.iter().map(|text| text.len() as u64 + 3).sum::<u64>() + 1,
            Value::Int(_) | Value::UInt(_) => 20,
        }
    }

    /// The string it is, if it is one; half a surrogate pair has none.
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        match self {
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Raw(text) if text.starts_with('"') => serde_json::from_str(text).ok().map(Cow::Owned),
            _ => None,
        }
    }

    /// Whether it is an array of nothing but strings.
    pub fn is_strings(&self) -> bool {
        match self {
            Value::Strings(_) => true,
            Value::Raw(text) if text.starts_with('[') => {
                serde_json::from_str::<Vec<Cow<'_, str>>>(text).is_ok()
            }
            _ => false,
        }
    }

    /// The strings of the array it is, those of its elements that are strings.
    pub fn as_strings(&self) -> Vec<Arc<str>> {
        match self {
            Value::Strings(all) => all.to_vec(),
            Value::Raw(text) if text.starts_with('[') => {
                let all: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).unwrap_or_default();
                all.iter()
                    .filter_map(|raw| serde_json::from_str::<String>(raw.get()).ok())
                    .map(Into::into)
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// The number it is, as near as a double comes.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as near as a double comes")]
            Value::Int(n) => Some(*n as f64),
            #[expect(clippy::cast_precision_loss, reason = "as near as a double comes")]
            Value::UInt(n) => Some(*n as f64),
            Value::Raw(text) if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                text.parse().ok().filter(|n: &f64| n.is_finite())
            }
            _ => None,
        }
    }

    /// The whole number it is, if it is one of at most 64 bits.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Int(n) => u64::try_from(*n).ok(),
            Value::UInt(n) => Some(*n),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        i64::try_from(n).map_or(Value::UInt(n), Value::Int)
    }
}

/// Spells its JSON text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// What a string literal stands for, if it is spelled canonically.
fn canonical_string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let decoded: String = serde_json::from_str(text).ok()?;
    let mut spelled = String::with_capacity(text.len());
    json::write_string(&decoded, &mut spelled);
    (spelled == text).then_some(Cow::Owned(decoded))
}

/// The strings of an array, if all of it is spelled canonically.
fn canonical_strings(text: &str) -> Option<Arc<[Arc<str>]>> {
    if !text.starts_with("[\"") {
        return None;
    }
    let all: Vec<String> = serde_json::from_str(text).ok()?;
    let value = Value::strings(all);
    match value {
        Value::Strings(strings) if Value::Strings(Arc::clone(&strings)).to_json() == text => Some(strings),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_went_in() {
        let u64_max = u64::MAX.to_string();
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-1",
            "9007199254740993",
            "-9223372036854775808",
            "9223372036854775808",
            &u64_max,
            "18446744073709551616",
            "1e400",
            "1.0",
            "1",
            "1E+2",
            "5e-324",
            "0.1000000000000000055511151231257827",
            "\"\"",
            "\"a/b\"",
            "\"a\\/b\"",
            "\"\\u0041\"",
            "\"\\n\\u0000\\u001f\"",
            "\"\\u001F\"",
            "\"\\ud83d\"",
            "\"\\ud83d\\ude00\"",
            "\"😀\u{2028}\u{7f}\"",
            "[]",
            "[\"a\",\"b\"]",
            "[\"a\", \"b\"]",
            "[\"a\",1]",
            "[\"\\ud83d\"]",
            "[\"a\\/\"]",
            "{\"a\": 1 }",
            "{}",
        ] {
            assert_eq!(Value::parse(text).unwrap().to_json(), text);
        }
    }

    #[test]
    fn compact_forms_are_taken_where_they_spell_the_text() {
        assert_eq!(Value::parse("7").unwrap(), Value::Int(7));
        assert_eq!(Value::parse("-0").unwrap(), Value::Raw("-0".into()));
        assert_eq!(Value::parse("18446744073709551615").unwrap(), Value::UInt(u64::MAX));
        assert_eq!(Value::parse("\"a\\nb\"").unwrap(), Value::Text("a\nb".into()));
        assert_eq!(Value::parse("\"\\u000a\"").unwrap(), Value::Raw("\"\\u000a\"".into()));
        assert_eq!(Value::parse("[\"a\"]").unwrap(), Value::strings(["a"]));
        assert_eq!(Value::strings([""; 0]), Value::parse("[]").unwrap());
    }

    #[test]
    fn meaning_is_seen_through_any_spelling() {
        assert_eq!(Value::parse("\"a\\/b\"").unwrap().as_str().as_deref(), Some("a/b"));
        assert_eq!(Value::parse("\"\\ud83d\"").unwrap().as_str(), None);
        assert_eq!(Value::parse("[ \"a\", 1, \"b\" ]").unwrap().as_strings(), ["a".into(), "b".into()]);
        assert_eq!(Value::parse("0.15695351000000002").unwrap().as_f64(), Some(0.156_953_510_000_000_02));
        assert_eq!(Value::parse("1e400").unwrap().as_f64(), None);
        assert_eq!(Value::from(5_u64), Value::parse("5").unwrap());
    }
}
