//! An edit of a state file, judged: what of it the file's side has changed, and what the document's.

use std::collections::HashMap;

use crate::event::{Field, Item, Mirrored, Patch, Value, value_hash};
use crate::view::{Mirror, patched};

/// An edit of the file, as the document takes it.
#[derive(Debug, PartialEq)]
pub(super) enum Edit {
    /// The file's contents as they are.
    Whole,
    Members(Patch),
}

#[derive(Debug)]
pub(super) struct Merged {
    /// `None` = nothing of it is to be taken.
    pub(super) op: Option<Edit>,
    /// The document behind it.
    pub(super) value: Value,
    /// Members that both have changed; of values that are no objects, the whole.
    pub(super) kept: Vec<String>,
}

pub(super) fn object(value: &Value) -> Option<Item> {
    match value {
        Value::Raw(text) if text.starts_with('{') => Item::parse(text).ok(),
        _ => None,
    }
}

/// A version that the file may have been edited from.
struct Base<'a> {
    whole: u64,
    /// `None` = it is to be judged as a whole.
    members: Option<HashMap<&'a str, u64>>,
}

/// Whose a member's value is, by all bases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The file's side has not touched it.
    Mine,
    /// Only the file's side has.
    Theirs,
    /// Both have, or the bases disagree.
    Both,
}

/// `is` and `says` are what the document and the file have, `was` what they had at each base; 0 = nothing.
fn whose(is: u64, says: u64, was: impl Iterator<Item = u64> + Clone) -> Whose {
    if says == is || was.clone().all(|was| says == was) {
        Whose::Mine
    } else if was.clone().all(|was| says != was && is == was) {
        Whose::Theirs
    } else {
        Whose::Both
    }
}

/// Three-way: what both had last, what the document is, what the file says. Where the file may have held several versions,
/// only what is so against each of them is so.
pub(super) fn merge(mine: &Value, theirs: &Value, mirror: &Mirror) -> Merged {
    let versions: Vec<&Mirrored> = mirror.seen().into_iter().chain(mirror.meant()).collect();
    let mut bases: Vec<Base<'_>> = Vec::new();
    for version in &versions {
        let all = version.members.as_ref();
        let members = all.map(|all| all.iter().map(|(name, hash)| (&**name, *hash)).collect());
        bases.push(Base { whole: version.whole, members });
    }
    if mirror.seen().is_none() {
        // Of a file that was never seen nothing is known: it may have been made of nothing.
        bases.push(Base { whole: 0, members: Some(HashMap::new()) });
    }
    let (here, there) = match (object(mine), object(theirs)) {
        (Some(here), Some(there)) if versions.iter().all(|version| version.members.is_some()) => {
            (here, there)
        }
        _ => return merge_whole(mine, theirs, &bases),
    };
    let (now_here, now_there) = (here.finder(usize::MAX), there.finder(usize::MAX));
    let was = |field: &Field| {
        let name = field.name().to_owned();
        let all = bases.iter().map(|base| base.members.as_ref());
        all.map(|members| members.and_then(|all| all.get(name.as_str())).copied().unwrap_or(0))
            .collect::<Vec<u64>>()
    };
    let (mut patch, mut kept) = (Patch::default(), Vec::new());
    for (field, value) in there.fields() {
        let is = now_here.get(field).map_or(0, value_hash);
        match whose(is, value_hash(value), was(field).iter().copied()) {
            Whose::Mine => {}
            Whose::Theirs => patch.set.push((field.clone(), value.clone())),
            Whose::Both => kept.push(field.name().to_owned()),
        }
    }
    for (field, value) in here.fields() {
        if now_there.get(field).is_some() {
            continue;
        }
        match whose(value_hash(value), 0, was(field).iter().copied()) {
            Whose::Mine => {}
            Whose::Theirs => patch.unset.push(field.clone()),
            Whose::Both => kept.push(field.name().to_owned()),
        }
    }
    let value = patched(mine, &patch).unwrap_or_else(|| mine.clone());
    // Where the document has nothing of its own, the file's very text is taken.
    let same = |item: &Item| {
        item.fields().len() == there.fields().len()
            && item.fields().iter().all(|(field, value)| now_there.get(field) == Some(value))
    };
    if kept.is_empty() && object(&value).is_some_and(|item| same(&item)) {
        return Merged { op: Some(Edit::Whole), value: theirs.clone(), kept };
    }
    let op = (!patch.is_empty()).then_some(Edit::Members(patch));
    Merged { op, value, kept }
}

fn merge_whole(mine: &Value, theirs: &Value, bases: &[Base<'_>]) -> Merged {
    let kept = |kept| Merged { op: None, value: mine.clone(), kept };
    match whose(value_hash(mine), value_hash(theirs), bases.iter().map(|base| base.whole)) {
        Whose::Mine => kept(Vec::new()),
        Whose::Theirs => Merged { op: Some(Edit::Whole), value: theirs.clone(), kept: Vec::new() },
        Whose::Both => kept(vec!["the whole value".into()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::MirrorNote;

    fn value(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    fn base(text: &str, note: MirrorNote) -> Mirrored {
        let value = value(text);
        let members = object(&value).map(|item| {
            item.fields().iter().map(|(field, value)| (field.name().into(), value_hash(value))).collect()
        });
        Mirrored { whole: value_hash(&value), content: hash(text), members, note, ..Mirrored::default() }
    }

    fn hash(text: &str) -> [u8; 32] {
        *blake3::hash(text.as_bytes()).as_bytes()
    }

    /// What the document is behind it, and what was kept. The file was seen to hold the first, and the others were meant for it.
    fn merged(versions: &[&str], mine: &str, theirs: &str) -> (String, Vec<String>) {
        let notes = std::iter::once(MirrorNote::Seen).chain(std::iter::repeat(MirrorNote::Meant));
        let all = versions.iter().zip(notes).map(|(text, note)| base(text, note));
        let merged = merge(&value(mine), &value(theirs), &Mirror::of(all));
        (merged.value.to_json(), merged.kept)
    }

    #[test]
    fn members_that_one_side_changed_are_taken_and_of_both_the_documents_stands() {
        for (was, mine, theirs, right, kept) in [
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":1}"#, r#"{ "a":2, "b":1}"#, r#"{ "a":2, "b":1}"#, &[][..]),
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, r#"{"a":2,"b":2}"#, &[]),
            (r#"{"a":1,"b":1}"#, r#"{"a":3,"b":2}"#, r#"{"a":2,"b":1}"#, r#"{"a":3,"b":2}"#, &["a"]),
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"b":1}"#, r#"{"b":2}"#, &[]),
            (r#"{"a":1,"b":1}"#, r#"{"a":2,"b":1}"#, r#"{"b":1}"#, r#"{"a":2,"b":1}"#, &["a"]),
            (r#"{"a":1}"#, r#"{"a":1,"c":1}"#, r#"{"a":1,"d":1}"#, r#"{"a":1,"c":1,"d":1}"#, &[]),
            (r#"{"a":1}"#, r#"{}"#, r#"{"a":2}"#, r#"{}"#, &["a"]),
            (r#"{"a":1}"#, r#"{"a":5}"#, r#"{"a":5,"b":1}"#, r#"{"a":5,"b":1}"#, &[]),
            ("1", "1", "2", "2", &[]),
            ("1", "3", "2", "3", &["the whole value"]),
            ("1", "3", "1", "3", &[]),
            (r#"{"a":1}"#, "[]", r#"{"a":2}"#, "[]", &["the whole value"]),
        ] {
            let (found, others) = merged(&[was], mine, theirs);
            assert_eq!(
                (found.as_str(), others),
                (right, kept.iter().map(|s| (*s).to_owned()).collect()),
                "{was} {mine} {theirs}"
            );
        }
        // Where nothing is known of what both had, nothing of the document is given up.
        assert_eq!(
            merged(&[], r#"{"a":1}"#, r#"{"a":2,"b":3}"#),
            (r#"{"a":1,"b":3}"#.into(), vec!["a".into()])
        );
    }

    #[test]
    fn edit_that_may_have_been_made_from_several_versions_is_one_against_each() {
        for (versions, mine, theirs, right, kept) in [
            // Against the second the document has not changed since, against the first it has.
            (&[r#"{"a":1}"#, r#"{"a":2}"#][..], r#"{"a":2}"#, r#"{"a":3}"#, r#"{"a":2}"#, &["a"][..]),
            (&["[1]", "[2]"], "[2]", "[3]", "[2]", &["the whole value"]),
            (&["[1]", "[2]"], "[2]", "[1]", "[2]", &["the whole value"]),
            (&["1", "{}"], "{}", r#"{"a":1}"#, "{}", &["the whole value"]),
            // It is what the first had, and undone against the second.
            (
                &[r#"{"a":1,"b":1}"#, r#"{"a":2,"b":1}"#],
                r#"{"a":2,"b":1}"#,
                r#"{"a":1,"b":3}"#,
                r#"{"a":2,"b":3}"#,
                &["a"],
            ),
            (
                &[r#"{"a":1}"#, r#"{"a":1,"b":1}"#],
                r#"{"a":1,"b":1}"#,
                r#"{"a":1}"#,
                r#"{"a":1,"b":1}"#,
                &["b"],
            ),
            (
                &[r#"{"a":1}"#, r#"{"a":1,"b":1}"#],
                r#"{"a":1,"b":1}"#,
                r#"{"a":2,"b":1}"#,
                r#"{"a":2,"b":1}"#,
                &[],
            ),
        ] {
            let (found, others) = merged(versions, mine, theirs);
            let kept: Vec<String> = kept.iter().map(|s| (*s).to_owned()).collect();
            assert_eq!((found.as_str(), others), (right, kept), "{versions:?} {mine} {theirs}");
        }
    }
}
