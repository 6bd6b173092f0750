//! From a state to the sections of a snapshot, and back.

use std::sync::Arc;

use super::base::{
    Base, FACTS, Facts, HASH, HEAP, KEYS, KeyRow, OPERATION_ORDER, OPERATIONS, REVISIONS, SLOT_LEN, hash_of,
};
use super::file::{SnapshotWriter, Spoiled, spoiled};
use crate::log::Seq;
use crate::log::bytes::Bytes;
use crate::log::envelope::KeyKind;
use crate::log::fold::FoldKind;
use crate::log::state::{Kinds, State, Vocabulary};

/// Writes every section of a state.
///
/// # Errors
/// [`Spoiled`] if the snapshot that the state stands on is.
pub(super) fn save(state: &State, fold: Option<FoldKind>, out: &mut SnapshotWriter) -> Result<(), Spoiled> {
    let mut facts = Facts {
        fold: fold.map_or_else(String::new, |fold| fold.name().into()),
        fold_version: fold.map_or(0, FoldKind::version),
        kinds: state.kinds.all().to_vec(),
        epochs: state.epochs.iter().map(|(first, epoch)| (first.0, *epoch)).collect(),
        notes: state.notes.clone(),
        gaps: state.gaps.iter().map(|(from, to)| (from.0, to.0)).collect(),
        last: state.last.0,
        events: state.events,
        commits: state.commits,
        window_start: state.window_start.0,
        ranges: Vec::new(),
    };
    let mut saver = state.fold.as_ref().map(|fold| fold.save());
    let (mut rows, mut hashes, mut fault) = (Vec::new(), Vec::new(), None);
    state.each_key(&mut |kind, name, known| {
        if fault.is_some() {
            return;
        }
        let row = u32::try_from(hashes.len()).unwrap_or(u32::MAX);
        match facts.ranges.last_mut() {
            Some((last, _, len)) if *last == kind.0 => *len += 1,
            _ => facts.ranges.push((kind.0, row, 1)),
        }
        let at = KeyRow {
            name: out.section_offset(),
            body: out.section_offset() + name.len() as u64,
            revision: known.revision,
            seq: known.seq,
            body_len: u32::try_from(known.body().len()).unwrap_or(u32::MAX),
            event_kind: known.kind,
            name_len: u16::try_from(name.len()).unwrap_or(u16::MAX),
            kind,
            version: known.version,
        };
        at.encode(&mut rows);
        out.put(name.as_bytes());
        out.put(known.body());
        hashes.push(hash_of(kind, name));
        if let Some(saver) = &mut saver
            && let Err(spoiled) = saver.key(kind, name, at.name, out)
        {
            fault = Some(spoiled);
        }
    })?;
    if let Some(spoiled) = fault {
        return Err(spoiled);
    }
    out.end_section(HEAP);
    out.put(&rows);
    out.end_section(KEYS);
    out.put(&slots(&hashes)?);
    out.end_section(HASH);
    save_operations(state, out)?;
    if let Some(saver) = saver {
        saver.finish(out)?;
    }
    let facts = postcard::to_extend(&facts, Vec::new()).map_err(|e| spoiled(e.to_string()))?;
    out.put(&facts);
    out.end_section(FACTS);
    Ok(())
}

/// Each key's row in the first free slot from its hash on; at most half of the slots are taken.
fn slots(hashes: &[u32]) -> Result<Vec<u8>, Spoiled> {
    let slots = hashes.len().saturating_mul(2).max(2).next_power_of_two();
    let mut table = vec![(0_u32, 0_u32); slots];
    for (row, hash) in (1_u32..).zip(hashes) {
        let mut at = *hash as usize & (slots - 1);
        while let Some((_, taken)) = table.get(at).filter(|(_, taken)| *taken != 0) {
            if *taken == row {
                return Err(spoiled("a key came twice"));
            }
            at = (at + 1) & (slots - 1);
        }
        if let Some(place) = table.get_mut(at) {
            *place = (*hash, row);
        }
    }
    let mut bytes = Vec::with_capacity(table.len() * usize::try_from(SLOT_LEN).unwrap_or(8));
    for (hash, row) in table {
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(&row.to_le_bytes());
    }
    Ok(bytes)
}

fn save_operations(state: &State, out: &mut SnapshotWriter) -> Result<(), Spoiled> {
    let mut all = Vec::new();
    if let Some(base) = &state.base {
        match base.instead() {
            Some(whole) => {
                let left = whole.operation_order.iter().skip(state.operations_passed as usize);
                all.extend(left.filter_map(|(_, id)| Some((*id, whole.operations.get(id)?.clone()))));
            }
            None => {
                for order in state.operations_passed..base.operations() {
                    all.push(base.operation_at(order).inspect_err(|spoiled| base.fall(spoiled.clone()))?);
                }
            }
        }
    }
    let above = state.operation_order.iter();
    all.extend(above.filter_map(|(_, id)| Some((*id, state.operations.get(id)?.clone()))));
    let mut sorted: Vec<(u32, &_)> = (0..).zip(&all).collect();
    sorted.sort_unstable_by_key(|(order, (id, _))| (*id, *order));
    let (mut rows, mut revisions) = (Vec::new(), Vec::new());
    let mut places = vec![0_u32; all.len()];
    for (row, (order, (id, known))) in (0_u32..).zip(&sorted) {
        rows.extend_from_slice(&id.0);
        rows.extend_from_slice(&known.request_hash);
        rows.extend_from_slice(&known.first.0.to_le_bytes());
        rows.extend_from_slice(&(revisions.len() as u64).to_le_bytes());
        rows.extend_from_slice(&order.to_le_bytes());
        rows.extend_from_slice(&known.count.to_le_bytes());
        rows.extend_from_slice(&u16::try_from(known.revisions.len()).unwrap_or(u16::MAX).to_le_bytes());
        known.revisions.iter().for_each(|revision| revisions.extend_from_slice(&revision.0.to_le_bytes()));
        if let Some(place) = places.get_mut(*order as usize) {
            *place = row;
        }
    }
    out.put(&rows);
    out.end_section(OPERATIONS);
    places.iter().for_each(|row| out.put(&row.to_le_bytes()));
    out.end_section(OPERATION_ORDER);
    out.put(&revisions);
    out.end_section(REVISIONS);
    Ok(())
}

/// By what the snapshots of one fold are told from those of others, before anything else of them is read.
pub(super) fn fold_word(fold: Option<FoldKind>) -> u64 {
    let (name, version) = (fold.map_or("", FoldKind::name), fold.map_or(0, FoldKind::version));
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes()).update(&[0]).update(&version.to_le_bytes());
    Bytes(hasher.finalize().as_bytes()).u64().unwrap_or(0)
}

/// Whether a program may use a snapshot: it has the same fold, and knows every kind of event that the snapshot covers.
pub(super) fn is_for(base: &Base, fold: Option<FoldKind>, vocabulary: &Vocabulary) -> bool {
    let facts = base.facts();
    let (name, version) = (fold.map_or("", FoldKind::name), fold.map_or(0, FoldKind::version));
    (facts.fold.as_str(), facts.fold_version) == (name, version)
        && facts.kinds.iter().all(|(kind, version)| vocabulary.knows(*kind, *version))
}

/// The state that a snapshot has.
///
/// # Errors
/// [`Spoiled`].
pub(super) fn load(base: &Arc<Base>, fold: Option<FoldKind>) -> Result<State, Spoiled> {
    let facts = base.facts();
    let mut state = State::with_fold(fold);
    state.base = Some(Arc::clone(base));
    state.kinds = Kinds::of(&facts.kinds);
    state.epochs = facts.epochs.iter().map(|(first, epoch)| (Seq(*first), *epoch)).collect();
    state.notes.clone_from(&facts.notes);
    state.gaps = facts.gaps.iter().map(|(from, to)| (Seq(*from), Seq(*to))).collect();
    (state.last, state.window_start) = (Seq(facts.last), Seq(facts.window_start));
    (state.events, state.commits) = (facts.events, facts.commits);
    if let Some(fold) = &mut state.fold {
        fold.load(base)?;
    }
    state.purges_below = state.purges();
    Ok(state)
}

/// What a fold puts into a snapshot beside each key, and behind all of them.
pub trait SaveFold {
    /// Puts into the section at hand what the fold has of a key; keys come in their order. The key's name starts at `start` of
    /// that section, and what the log has of it comes before this.
    ///
    /// # Errors
    /// [`Spoiled`] if the snapshot that the fold stands on is.
    fn key(&mut self, kind: KeyKind, name: &str, start: u64, out: &mut SnapshotWriter)
    -> Result<(), Spoiled>;

    /// Writes sections of its own, numbered from 4096 on.
    ///
    /// # Errors
    /// As [`SaveFold::key`].
    fn finish(self: Box<Self>, out: &mut SnapshotWriter) -> Result<(), Spoiled>;
}
