//! A map by key for whoever follows other processes: the look-up of a key that is not in the processor's cache is most of
//! what folding an event costs. A name of up to 40 bytes, an id say, lies in the map itself, beside its value.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use foldhash::fast::RandomState;

use super::envelope::{Key, KeyKind};

/// 64-bit words that a short name has room in.
const WORDS: usize = 5;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Keys<V> {
    short: HashMap<Short, V, RandomState>,
    long: HashMap<Key, V, RandomState>,
}

impl<V> Default for Keys<V> {
    fn default() -> Self {
        Keys { short: HashMap::default(), long: HashMap::default() }
    }
}

/// A key with a short name: words of its bytes, all others 0, behind one of its kind and its length.
#[derive(Clone, Copy, Debug)]
struct Short {
    head: u64,
    name: [u64; WORDS],
}

impl Short {
    #[inline]
    fn of(kind: KeyKind, name: &str) -> Option<Short> {
        if name.len() > WORDS * 8 {
            return None;
        }
        let mut short = Short { head: (name.len() as u64) << 8 | u64::from(kind.0), name: [0; WORDS] };
        for (word, bytes) in short.name.iter_mut().zip(name.as_bytes().chunks(8)) {
            *word = match bytes.first_chunk() {
                Some(bytes) => u64::from_le_bytes(*bytes),
                None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
        }
        Some(short)
    }

    fn to_key(self) -> Key {
        let [kind, len, ..] = self.head.to_le_bytes();
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = bytes.get(..len.into()).and_then(|name| str::from_utf8(name).ok());
        Key { kind: KeyKind(kind), name: name.expect("it was made of a name of that length").into() }
    }
}

impl PartialEq for Short {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Word by word: in the look-up they are still in registers.
        self.head == other.head && self.name.iter().zip(&other.name).fold(0, |any, (a, b)| any | (a ^ b)) == 0
    }
}

impl Eq for Short {}

impl Hash for Short {
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.head);
        self.name.iter().for_each(|word| hasher.write_u64(*word));
    }
}

/// What a long key is by, so that one can be found by its borrowed parts.
trait Named {
    fn parts(&self) -> (KeyKind, &str);
}

impl Named for Key {
    fn parts(&self) -> (KeyKind, &str) {
        (self.kind, &self.name)
    }
}

impl Named for (KeyKind, &str) {
    fn parts(&self) -> (KeyKind, &str) {
        *self
    }
}

impl<'a> Borrow<dyn Named + 'a> for Key {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl Hash for dyn Named + '_ {
    /// As the derived one of [`Key`]: field by field.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.parts().hash(hasher);
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Named + '_ {}

impl<V> Keys<V> {
    pub(super) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    #[inline]
    pub(super) fn get(&self, kind: KeyKind, name: &str) -> Option<&V> {
        match Short::of(kind, name) {
            Some(short) => self.short.get(&short),
            None => self.long.get(&(kind, name) as &dyn Named),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, kind: KeyKind, name: &str) -> Option<&mut V> {
        match Short::of(kind, name) {
            Some(short) => self.short.get_mut(&short),
            None => self.long.get_mut(&(kind, name) as &dyn Named),
        }
    }

    /// Sets what a key is by; returns what it was.
    pub(super) fn insert(&mut self, kind: KeyKind, name: &str, value: V) -> Option<V> {
        match Short::of(kind, name) {
            Some(short) => self.short.insert(short, value),
            None => self.long.insert(Key { kind, name: name.into() }, value),
        }
    }

    pub(super) fn remove(&mut self, kind: KeyKind, name: &str) -> Option<V> {
        match Short::of(kind, name) {
            Some(short) => self.short.remove(&short),
            None => self.long.remove(&(kind, name) as &dyn Named),
        }
    }

    /// All there is, in key order.
    pub(super) fn sorted(&self) -> Vec<(Key, &V)> {
        let short = self.short.iter().map(|(short, value)| (short.to_key(), value));
        let long = self.long.iter().map(|(key, value)| (key.clone(), value));
        let mut all: Vec<_> = short.chain(long).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_of_any_length_and_kind_are_told_apart_and_come_back_in_order() {
        let mut names: Vec<String> = (0..=90).map(|n| "x".repeat(n)).collect();
        names.extend(["\0", "\0\0", "x\0", "xxxxxxx\0", "xxxxxxxx\0", "ä", "ää", "日本語"].map(String::from));
        names.extend((0..300).map(|n| format!("{n:036}")));
        names.extend((0..300).map(|n| format!("{n:048}")));
        let mut keys = Keys::default();
        let mut model = BTreeMap::new();
        for (n, name) in names.iter().enumerate() {
            for kind in [KeyKind::NONE, KeyKind::TASK, KeyKind(255)] {
                let before = model.insert(Key { kind, name: name.as_str().into() }, n);
                assert_eq!(keys.insert(kind, name, n), before, "{kind:?} {name:?}");
            }
        }
        let check = |keys: &Keys<usize>, model: &BTreeMap<Key, usize>| {
            assert_eq!(keys.len(), model.len());
            assert!(keys.sorted().into_iter().eq(model.iter().map(|(key, n)| (key.clone(), n))));
            for (key, n) in model {
                assert_eq!(keys.get(key.kind, &key.name), Some(n), "{key:?}");
            }
        };
        check(&keys, &model);
        assert_eq!(keys.get(KeyKind::DOCUMENT, "x"), None);
        for (n, name) in names.iter().enumerate().step_by(3) {
            let key = Key { kind: KeyKind::TASK, name: name.as_str().into() };
            assert_eq!(keys.remove(KeyKind::TASK, name), model.remove(&key), "{name:?}");
            assert_eq!(keys.get_mut(KeyKind::TASK, name), None);
            if let Some(value) = keys.get_mut(KeyKind::NONE, name) {
                *value += n;
                *model.get_mut(&Key { kind: KeyKind::NONE, ..key }).unwrap() += n;
            }
        }
        check(&keys, &model);
    }
}
