//! JSON text taken apart without changing a byte of it.
//!
//! Only the outermost object is opened; the values in it stay text, because numbers, escapes and key order must come out
//! as they went in. The grammar is serde_json's business; what it lets pass and this library does not (a key that occurs
//! twice in one object, where readers disagree about which one counts) is looked for here. Nothing recurses, so the depth
//! of a value is bounded by its length alone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Why a text is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadJson(pub String);

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<serde_json::Error> for BadJson {
    fn from(e: serde_json::Error) -> Self {
        BadJson(e.to_string())
    }
}

/// The members of the object that `text` is, in order: each key, and its value's text without the space around it.
///
/// # Errors
/// [`BadJson`] for text that is not one JSON object, for a key that occurs twice in any object of it, and for a key of
/// the outermost object that holds half a surrogate pair.
pub fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &str)>, BadJson> {
    let mut de = serde_json::Deserializer::from_str(text);
    let members = de.deserialize_map(Members)?;
    de.end()?;
    let mut seen = HashSet::new();
    for (at, (key, value)) in members.iter().enumerate() {
        let is_known = match members.len() <= FEW {
            true => members.iter().take(at).any(|(known, _)| known == key),
            false => !seen.insert(&**key),
        };
        if is_known {
            return Err(twice(key));
        }
        no_key_twice(value)?;
    }
    Ok(members)
}

/// The text of the one JSON value that `text` is, without the space around it.
///
/// # Errors
/// [`BadJson`] for anything else, and for a key that occurs twice in any object of it.
pub fn value(text: &str) -> Result<&str, BadJson> {
    let raw: &RawValue = serde_json::from_str(text)?;
    no_key_twice(raw.get())?;
    Ok(raw.get())
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Name(key)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            members.push((key, value.get()));
        }
        Ok(members)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

fn twice(key: &str) -> BadJson {
    BadJson(format!("the key {key:?} occurs twice in one object"))
}

/// Up to so many keys are compared one by one, which costs less than a set of them.
const FEW: usize = 16;

/// Walks text that is known to be valid JSON. What it holds on the way is a small multiple of the text, whatever that is: one of
/// brackets alone opens as many levels as it has bytes.
fn no_key_twice(text: &str) -> Result<(), BadJson> {
    let mut open = Levels::default();
    // The keys of all open objects, as they are spelled; of each object that has any its level, and which is its first.
    let mut keys: Vec<&str> = Vec::new();
    let mut objects: Vec<(usize, usize)> = Vec::new();
    // Of those with more than a few, decoded.
    let mut many: Vec<(usize, HashSet<Cow<'_, str>>)> = Vec::new();
    let mut key_next = false;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '[', ']', ',', '"']) {
        let (_, from) = rest.split_at(at);
        let mut len = 1;
        match from.as_bytes().first() {
            Some(b'{') => {
                open.push(true);
                key_next = true;
            }
            Some(b'[') => {
                open.push(false);
                key_next = false;
            }
            Some(b'}' | b']') => {
                if let Some((_, first)) = objects.pop_if(|(level, _)| *level == open.depth) {
                    keys.truncate(first);
                    many.pop_if(|(level, _)| *level == open.depth);
                }
                open.pop();
            }
            Some(b',') => key_next = open.is_object(),
            _ => {
                len = string_len(from);
                if key_next && open.is_object() {
                    key_next = false;
                    let key = from.get(..len).unwrap_or_default();
                    let first = match objects.last() {
                        Some((level, first)) if *level == open.depth => *first,
                        _ => {
                            objects.push((open.depth, keys.len()));
                            keys.len()
                        }
                    };
                    let known = keys.get(first..).unwrap_or_default();
                    let is_known = match many.last_mut().filter(|(level, _)| *level == open.depth) {
                        Some((_, set)) => !set.insert(decoded(key)),
                        None if known.len() < FEW => known.iter().any(|known| same_key(known, key)),
                        None => {
                            let mut set: HashSet<Cow<'_, str>> =
                                known.iter().map(|key| decoded(key)).collect();
                            let is_new = set.insert(decoded(key));
                            many.push((open.depth, set));
                            !is_new
                        }
                    };
                    if is_known {
                        return Err(twice(&decoded(key)));
                    }
                    keys.push(key);
                }
            }
        }
        rest = from.get(len..).unwrap_or_default();
    }
    Ok(())
}

/// A key without its quotes and escapes. Half a surrogate pair has no decoded form; such keys are compared as written.
fn decoded(key: &str) -> Cow<'_, str> {
    serde_json::from_str::<Name<'_>>(key).map_or(Cow::Borrowed(key), |name| name.0)
}

fn same_key(one: &str, other: &str) -> bool {
    match one.contains('\\') || other.contains('\\') {
        true => decoded(one) == decoded(other),
        false => one == other,
    }
}

/// Which of the open levels are objects, a bit each.
#[derive(Default)]
struct Levels {
    depth: usize,
    bits: Vec<u64>,
}

impl Levels {
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        if let Some(bits) = self.bits.get_mut(word) {
            *bits = *bits & !(1 << bit) | u64::from(is_object) << bit;
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Of the innermost.
    fn is_object(&self) -> bool {
        let Some(top) = self.depth.checked_sub(1) else { return false };
        self.bits.get(top / 64).is_some_and(|bits| bits >> (top % 64) & 1 == 1)
    }
}

/// Length of the string literal that `text`, which is valid, begins with; its quotes are counted.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|b| match b {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        b => b == b'"',
    });
    end.map_or(text.len(), |end| end + 2)
}

/// Appends a string as a JSON literal, in the canonical spelling: `"` and `\` behind a backslash, `\b \f \n \r \t`, other
/// control characters as `\u00xx` in lower case, everything else as it is. That is what `JSON.stringify` writes.
pub fn write_string(text: &str, out: &mut String) {
    // Writing into memory does not fail, and a string is always JSON.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// Whether a text is a JSON number with a fraction and without an exponent, and nothing else.
pub(super) fn is_fraction(text: &str) -> bool {
    let Some((whole, fraction)) = text.strip_prefix('-').unwrap_or(text).split_once('.') else {
        return false;
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    digits(whole) && digits(fraction) && (whole == "0" || !whole.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Value;

    #[test]
    fn members_keep_order_and_spelling() {
        let text = "\n{ \"b\" : 1.50 , \"a\\u0041\": {\"x\" : [ 1 ]},\"\":null}\n";
        let members = members(text).unwrap();
        let plain: Vec<(&str, &str)> = members.iter().map(|(k, v)| (&**k, *v)).collect();
        assert_eq!(plain, [("b", "1.50"), ("aA", "{\"x\" : [ 1 ]}"), ("", "null")]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in
            ["", "[]", "1", "null", "{", "{}x", "{\"a\":NaN}", "{\"a\":Infinity}", "{a:1}", "{\"a\":01}"]
        {
            assert!(members(text).is_err(), "{text}");
        }
    }

    #[test]
    fn key_twice_is_refused_at_any_depth_and_however_it_is_spelled() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":{"a":1,"b":[{"c":1,"c":1}]}}"#,
            r#"{"x":[{"a":{"q":1},"b":"}","a":2}]}"#,
            r#"{"x":{"\ud83d":1,"\ud83d":2}}"#,
            r#"{"x":{"a":{"b":{}},"c":[{"a":[]}],"\u0063":0}}"#,
        ] {
            assert!(members(text).unwrap_err().0.contains("twice"), "{text}");
        }
        for text in [
            r#"{"x":{"a":1},"y":{"a":1}}"#,
            r#"{"x":[{"a":1},{"a":1},["a","a"]]}"#,
            r#"{"x":{"a":"a","b":{"a":"b"},"c":"\",\"a\":"}}"#,
        ] {
            assert!(members(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn key_twice_is_found_among_few_and_among_many() {
        for many in [2, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let keys: Vec<String> = (0..many).map(|n| format!("\"k{n}\":{{\"k0\":[]}}")).collect();
            let fine = format!("{{{}}}", keys.join(","));
            for again in [0, many / 2, many - 1] {
                let bad = format!("{{{},\"\\u006b{again}\":0}}", keys.join(","));
                for (fine, bad) in [
                    (fine.clone(), bad.clone()),
                    (format!("{{\"x\":[{fine},{fine}]}}"), format!("{{\"x\":[{fine},{bad}]}}")),
                ] {
                    assert!(members(&fine).is_ok(), "{fine}");
                    assert!(members(&bad).unwrap_err().0.contains("twice"), "{bad}");
                }
            }
        }
    }

    #[test]
    fn depth_is_bounded_by_length_alone() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(members(&deep).unwrap().len(), 1);
        let deep = format!("{{\"a\":{}1{}}}", "{\"k\":".repeat(100_000), "}".repeat(100_000));
        assert_eq!(members(&deep).unwrap().len(), 1);
        let mut mixed = String::new();
        for level in 0..1_000 {
            mixed += if level % 3 == 0 { "[{\"a\":[],\"b\":{},\"c\":[" } else { "[[" };
        }
        let closed: String =
            (0..1_000).rev().map(|level| if level % 3 == 0 { "]}]" } else { "]]" }).collect();
        assert!(no_key_twice(&format!("{mixed}{closed}")).is_ok());
        let deepest = format!("{mixed}{{\"k\":[{{}}],\"k\":0}}{closed}");
        assert!(no_key_twice(&deepest).unwrap_err().0.contains("twice"));
    }

    #[test]
    fn half_a_surrogate_pair_is_kept_in_values_and_refused_in_names() {
        assert_eq!(members(r#"{"a":"\ud83d"}"#).unwrap()[0].1, r#""\ud83d""#);
        assert!(members(r#"{"\ud83d":1}"#).is_err());
    }

    proptest::proptest! {
        #[test]
        fn fraction_is_a_value_that_is_kept_as_its_text(text in "-?[0-9]{0,3}[.]?[0-9]{0,3}[-.eE+ 0-9]{0,2}") {
            if is_fraction(&text) {
                proptest::prop_assert_eq!(Value::parse(&text).ok(), Some(Value::Raw(text.as_str().into())));
            } else if let Ok(Value::Raw(kept)) = Value::parse(&text) {
                proptest::prop_assert!(kept.contains(['e', 'E']) || &*kept == "-0" || kept.len() < text.len(), "{text}");
            }
        }
    }
}
