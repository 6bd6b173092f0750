//! What a power cut may leave of a disk: all of it if that is little, a seeded sample with the extremes otherwise.
//!
//! A state is one choice per *dirty piece* (how many of its successive versions reached the disk, perhaps the last
//! of them torn), one per file (its length: any it has had since the last sync, or a page boundary in between) and
//! a subset of the un-synced name operations that [`NameOrder`] allows. The choices are independent. So a later part
//! of a file can be there without an earlier one, a file can be long and full of zeros, and a name can be on disk
//! before the bytes it stands for.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::disk::{DiskState, Ino, NameOp};
use super::image::{Image, PAGE};
use super::profile::{CrashModel, Fill, NameOrder};
use super::rng::Rng;

/// More page boundaries than this between an old and a new length are sampled.
const LENGTHS_BETWEEN: u64 = 16;
/// More un-synced name operations than this are never enumerated, only sampled. A set of them is the bits of a `u32`.
const NAMES_ENUMERATED: usize = 24;

/// The power cuts that a [`DiskState`] can suffer: an iterator over the disks that boot afterwards.
///
/// No two have the same contents. It owns all it needs.
#[derive(Debug)]
pub struct CrashStates {
    disk: DiskState,
    space: Space,
    limit: usize,
    seen: HashSet<u64>,
    rng: Rng,
    /// The choices to make next, when sampling.
    queue: Vec<(String, Choice)>,
    /// The next choice, when enumerating.
    digits: Option<Digits>,
    exhaustive: bool,
    tries: usize,
    number: usize,
}

impl DiskState {
    /// At most `limit` disks that a power cut now may leave, under the platform's own
    /// [crash model](super::Profile::crash_model). See [`DiskState::crash_states_with`].
    pub fn crash_states(&self, limit: usize, rng: &mut Rng) -> CrashStates {
        self.crash_states_with(&self.profile().crash_model(), limit, rng)
    }

    /// At most `limit` disks that a power cut now may leave.
    ///
    /// If there are no more than `limit` choices, all of them, else a sample: nothing and everything un-synced
    /// survives, each single thing missing, each single thing present, contents without lengths and names and the
    /// other way round, only the front or the back of the dirty pieces, and then at random.
    ///
    /// A calm disk loses nothing, so there is one state.
    pub fn crash_states_with(&self, model: &CrashModel, limit: usize, rng: &mut Rng) -> CrashStates {
        let mut rng = rng.split();
        let space = Space::of(self, *model, &mut rng);
        let exhaustive = space.count().is_some_and(|n| n <= limit as u128);
        let mut states = CrashStates {
            disk: self.clone(),
            limit,
            seen: HashSet::new(),
            queue: Vec::new(),
            digits: exhaustive.then(|| Digits::first(&space)),
            exhaustive,
            tries: 0,
            number: 0,
            space,
            rng,
        };
        if !exhaustive {
            states.queue = states.space.extremes(&mut states.rng, limit);
            states.queue.reverse();
        }
        states
    }
}

impl CrashStates {
    /// Whether every possible state comes, and not only a sample.
    pub fn is_exhaustive(&self) -> bool {
        self.exhaustive
    }

    /// How many combinations of choices there are; `None` if they cannot be counted. Some may look the same.
    pub fn combinations(&self) -> Option<u128> {
        self.space.count()
    }

    fn next_choice(&mut self) -> Option<(String, Choice)> {
        if let Some(digits) = &mut self.digits {
            let choice = digits.choice(&self.space)?;
            digits.advance(&self.space);
            return Some((format!("power cut, choice {}", self.tries), choice));
        }
        if let Some(next) = self.queue.pop() {
            return Some(next);
        }
        if self.exhaustive || self.tries >= self.limit.saturating_mul(4).saturating_add(64) {
            return None;
        }
        let (density, choice) = self.space.random(&mut self.rng);
        Some((format!("power cut, sample {} with {density} of 16 kept", self.tries), choice))
    }
}

impl Iterator for CrashStates {
    type Item = DiskState;

    fn next(&mut self) -> Option<DiskState> {
        while self.number < self.limit {
            let (origin, choice) = self.next_choice()?;
            self.tries += 1;
            let state = self.space.apply(&self.disk, &choice, origin);
            if self.seen.insert(state.content_hash()) {
                self.number += 1;
                return Some(state);
            }
        }
        None
    }
}

#[derive(Debug)]
struct Space {
    files: Vec<FileSpace>,
    ops: Vec<NameOp>,
    /// For each name operation, the earlier ones it needs.
    needs: Vec<Vec<usize>>,
    /// All allowed sets of name operations, where they can be listed.
    sets: Option<Sets>,
}

/// Sets of name operations, each a combination that a power cut may leave.
#[derive(Debug)]
enum Sets {
    /// The first none, one, two … of so many.
    Prefixes(usize),
    /// Bit `i` = operation `i` is in it. There may be tens of thousands for every call of a program.
    Masks(Vec<u32>),
}

impl Sets {
    fn len(&self) -> usize {
        match self {
            Sets::Prefixes(ops) => ops + 1,
            Sets::Masks(masks) => masks.len(),
        }
    }

    /// One of them, as a flag for each of so many operations.
    fn get(&self, index: usize, ops: usize) -> Option<Vec<bool>> {
        match self {
            Sets::Prefixes(last) => (index <= *last).then(|| (0..ops).map(|i| i < index).collect()),
            Sets::Masks(masks) => {
                masks.get(index).map(|mask| (0..ops).map(|i| mask & (1 << i) != 0).collect())
            }
        }
    }
}

#[derive(Debug)]
struct FileSpace {
    ino: Ino,
    durable: Image,
    pieces: Vec<PieceSpace>,
    /// Distinct, the durable one first.
    lengths: Vec<u64>,
    /// Which of them processes see.
    newest: usize,
}

#[derive(Debug)]
struct PieceSpace {
    index: u64,
    /// What was written there, oldest first: the durable one, then the un-synced ones.
    versions: Vec<Arc<[u8]>>,
    /// What the piece may read as, oldest first. Torn ones lie between the two they are made of.
    contents: Vec<Content>,
    /// Which of `contents` are whole.
    whole: Vec<usize>,
}

/// What a piece may read as. Few of the torn ones are ever chosen, so none is put together before.
#[derive(Clone, Copy, Debug)]
struct Content {
    /// Which of the versions it starts with.
    version: usize,
    /// Where the version before goes on; `None` = it is whole.
    cut: Option<usize>,
}

#[derive(Clone, Debug)]
struct Choice {
    pieces: Vec<Vec<usize>>,
    lengths: Vec<usize>,
    names: Vec<bool>,
}

impl Space {
    fn of(disk: &DiskState, model: CrashModel, rng: &mut Rng) -> Self {
        let files = disk.files().filter_map(|(ino, _)| FileSpace::of(disk, ino, model, rng)).collect();
        let ops = disk.name_ops().to_vec();
        let needs: Vec<Vec<usize>> = ops
            .iter()
            .enumerate()
            .map(|(i, op)| {
                let earlier = ops.iter().enumerate().take(i);
                earlier.filter(|(_, e)| op.needs(e, model.names)).map(|(j, _)| j).collect()
            })
            .collect();
        let mut space = Space { files, ops, needs, sets: None };
        space.sets = space.list_sets(model.names);
        space
    }

    fn list_sets(&self, order: NameOrder) -> Option<Sets> {
        const SETS_MAX: usize = 1 << 16;
        let n = self.ops.len();
        if order == NameOrder::Journal {
            return Some(Sets::Prefixes(n));
        }
        if n > NAMES_ENUMERATED {
            return None;
        }
        let mut sets = vec![0];
        for (i, needs) in self.needs.iter().enumerate() {
            let needs: u32 = needs.iter().map(|j| 1 << j).sum();
            let mut longer = Vec::with_capacity(sets.len() * 2);
            for set in sets {
                if set & needs == needs {
                    longer.push(set | 1 << i);
                }
                longer.push(set);
            }
            sets = longer;
            if sets.len() > SETS_MAX {
                return None;
            }
        }
        Some(Sets::Masks(sets))
    }

    fn count(&self) -> Option<u128> {
        let mut count = self.sets.as_ref()?.len() as u128;
        for file in &self.files {
            count = count.checked_mul(file.lengths.len() as u128)?;
            for piece in &file.pieces {
                count = count.checked_mul(piece.contents.len() as u128)?;
            }
        }
        Some(count)
    }

    fn apply(&self, disk: &DiskState, choice: &Choice, origin: String) -> DiskState {
        let mut images = BTreeMap::new();
        for ((file, pieces), length) in self.files.iter().zip(&choice.pieces).zip(&choice.lengths) {
            let mut image = file.durable.clone();
            for (piece, &pick) in file.pieces.iter().zip(pieces) {
                if let Some(bytes) = piece.read_as(pick) {
                    image.put_piece(piece.index, &bytes);
                }
            }
            image.cut_to(file.lengths.get(*length).copied().unwrap_or(file.durable.len()));
            images.insert(file.ino, image);
        }
        disk.after_crash(&choice.names, images, origin.into())
    }

    /// Every dirty piece at its newest, and so on; the two ends of every choice.
    fn uniform(&self, pieces: bool, lengths: bool, names: bool) -> Choice {
        let last = |p: &PieceSpace| p.whole.last().copied().unwrap_or(0);
        Choice {
            pieces: (self.files.iter())
                .map(|f| f.pieces.iter().map(|p| if pieces { last(p) } else { 0 }).collect())
                .collect(),
            lengths: self.files.iter().map(|f| if lengths { f.newest } else { 0 }).collect(),
            names: vec![names; self.ops.len()],
        }
    }

    /// Adds what the chosen operations need, or takes away what needs an operation that is not chosen.
    fn close(&self, names: &mut [bool], add: bool) {
        let order: Vec<usize> =
            if add { (0..names.len()).rev().collect() } else { (0..names.len()).collect() };
        for i in order {
            let Some(needs) = self.needs.get(i).filter(|_| names.get(i) == Some(&true)) else { continue };
            for &j in needs {
                match names.get(j) {
                    Some(false) if !add => {
                        if let Some(flag) = names.get_mut(i) {
                            *flag = false;
                        }
                    }
                    _ => {
                        if let Some(flag) = names.get_mut(j) {
                            *flag = *flag || add;
                        }
                    }
                }
            }
        }
    }

    fn extremes(&self, rng: &mut Rng, limit: usize) -> Vec<(String, Choice)> {
        let mut first = Vec::new();
        for (pieces, lengths, names) in [
            (false, false, false),
            (true, true, true),
            (false, true, true),
            (true, false, true),
            (false, false, true),
            (true, true, false),
            (false, true, false),
        ] {
            let kept = |b| if b { "kept" } else { "lost" };
            let origin = format!(
                "power cut: contents {}, lengths {}, names {}",
                kept(pieces),
                kept(lengths),
                kept(names)
            );
            first.push((origin, self.uniform(pieces, lengths, names)));
        }
        let mut rest = Vec::new();
        for (f, file) in self.files.iter().enumerate() {
            let ino = file.ino;
            for whole_file in [true, false] {
                let mut choice = self.uniform(!whole_file, true, true);
                let other = self.uniform(whole_file, true, true);
                if let (Some(to), Some(from)) = (choice.pieces.get_mut(f), other.pieces.get(f)) {
                    to.clone_from(from);
                }
                rest.push((format!("power cut: only file {ino} kept={whole_file}"), choice));
            }
            for i in 0..file.lengths.len() {
                let mut choice = self.uniform(true, true, true);
                if let Some(length) = choice.lengths.get_mut(f) {
                    *length = i;
                }
                rest.push((format!("power cut: file {ino} at length choice {i}"), choice));
            }
            for (i, piece) in file.pieces.iter().enumerate() {
                for present in [false, true] {
                    let mut choice = self.uniform(!present, true, true);
                    let pick = if present { piece.contents.len() - 1 } else { 0 };
                    if let Some(to) = choice.pieces.get_mut(f).and_then(|p| p.get_mut(i)) {
                        *to = pick;
                    }
                    let word = if present { "only" } else { "all but" };
                    rest.push((
                        format!("power cut: {word} piece {} of file {ino} kept", piece.index),
                        choice,
                    ));
                }
            }
            for _ in 0..file.pieces.len().min(16) {
                let cut = rng.index(file.pieces.len());
                for front in [true, false] {
                    let mut choice = self.uniform(false, true, true);
                    let newest = self.uniform(true, true, true);
                    if let (Some(to), Some(from)) = (choice.pieces.get_mut(f), newest.pieces.get(f)) {
                        for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
                            if (i < cut) == front {
                                *to = *from;
                            }
                        }
                    }
                    let word = if front { "front" } else { "back" };
                    rest.push((format!("power cut: {word} of file {ino} kept, cut at {cut}"), choice));
                }
            }
        }
        for i in 0..self.ops.len() {
            for present in [false, true] {
                for pieces in [true, false] {
                    let mut choice = self.uniform(pieces, pieces, !present);
                    if let Some(flag) = choice.names.get_mut(i) {
                        *flag = present;
                    }
                    self.close(&mut choice.names, present);
                    let word = if present { "only" } else { "all but" };
                    rest.push((format!("power cut: {word} name operation {i}, contents {pieces}"), choice));
                }
            }
        }
        rng.shuffle(&mut rest);
        rest.truncate(limit.saturating_mul(3) / 4);
        first.extend(rest);
        first
    }

    fn random(&self, rng: &mut Rng) -> (u64, Choice) {
        let density = [1, 3, 8, 13, 15].get(rng.index(5)).copied().unwrap_or(8);
        let mut choice = self.uniform(false, false, false);
        for (file, (pieces, length)) in
            self.files.iter().zip(choice.pieces.iter_mut().zip(choice.lengths.iter_mut()))
        {
            // Half of the time the disk got neighbours together, as write-back does.
            let clustered = rng.chance(1, 2);
            let mut keep = rng.chance(density, 16);
            for (piece, pick) in file.pieces.iter().zip(pieces) {
                if !clustered || rng.chance(1, 4) {
                    keep = rng.chance(density, 16);
                }
                if keep {
                    let newest = piece.whole.last().copied().unwrap_or(0);
                    *pick = if rng.chance(3, 4) { newest } else { rng.index(piece.contents.len()) };
                }
            }
            *length = if rng.chance(1, 2) { file.newest } else { rng.index(file.lengths.len()) };
        }
        for flag in &mut choice.names {
            *flag = rng.chance(density, 16);
        }
        let add = rng.chance(1, 2);
        self.close(&mut choice.names, add);
        (density, choice)
    }
}

impl FileSpace {
    fn of(disk: &DiskState, ino: Ino, model: CrashModel, rng: &mut Rng) -> Option<Self> {
        let unsynced = disk.file(ino).ok()?.unsynced.as_ref()?;
        let durable = &unsynced.durable;
        let mut work = unsynced.base.as_ref().unwrap_or(durable).clone();
        if unsynced.changes.is_empty() && work.len() == durable.len() {
            return None;
        }
        let size = model.piece.size();
        let per_page = (PAGE / size) as u64;
        let mut versions: BTreeMap<u64, Vec<Arc<[u8]>>> = BTreeMap::new();
        let mut lengths = vec![durable.len(), work.len()];
        for change in &unsynced.changes {
            let pages = change.pages(work.len());
            change.apply(&mut work);
            lengths.push(work.len());
            for index in pages.start() * per_page..(pages.end() + 1) * per_page {
                let now = work.piece(index, size);
                let known = versions.get(&index).and_then(|v| v.last()).map(AsRef::as_ref);
                if known.unwrap_or_else(|| durable.piece(index, size)) != now {
                    versions.entry(index).or_default().push(now.into());
                }
            }
        }
        let pieces = versions.into_iter().map(|(index, versions)| {
            let never_written = index * size as u64 >= durable.len();
            let old: Arc<[u8]> = if never_written && model.fill == Fill::Garbage {
                let mut garbage = vec![0; size];
                rng.fill(&mut garbage);
                garbage.into()
            } else {
                durable.piece(index, size).into()
            };
            PieceSpace::new(index, old, versions, model.torn.step())
        });
        let pieces = pieces.collect();
        let lengths = between(lengths);
        let newest = lengths.iter().position(|&l| l == work.len()).unwrap_or(0);
        Some(FileSpace { ino, durable: durable.clone(), pieces, lengths, newest })
    }
}

/// The lengths a file may be left with, given those it had, oldest first.
fn between(had: Vec<u64>) -> Vec<u64> {
    let page = PAGE as u64;
    let mut lengths: Vec<u64> = Vec::new();
    for pair in had.windows(2) {
        if let [from, to] = *pair {
            lengths.push(from);
            let boundaries = to.saturating_sub(1) / page - (from / page).min(to.saturating_sub(1) / page);
            let step = boundaries.div_ceil(LENGTHS_BETWEEN).max(1);
            lengths.extend(
                (1..=boundaries)
                    .step_by(usize::try_from(step).unwrap_or(1))
                    .map(|i| (from / page + i) * page),
            );
        }
    }
    lengths.extend(had.last());
    let mut seen = HashSet::new();
    lengths.retain(|&l| seen.insert(l));
    lengths
}

impl PieceSpace {
    fn new(index: u64, old: Arc<[u8]>, newer: Vec<Arc<[u8]>>, torn: Option<usize>) -> Self {
        let mut versions = vec![old];
        versions.extend(newer);
        let mut contents = vec![Content { version: 0, cut: None }];
        let mut whole = vec![0];
        for (before, pair) in versions.windows(2).enumerate() {
            let version = before + 1;
            if let ([last, new], Some(step)) = (pair, torn) {
                let differs = |(a, b): (&u8, &u8)| a != b;
                let first = last.iter().zip(new.iter()).position(differs).unwrap_or(new.len());
                let end = last.iter().zip(new.iter()).rposition(differs).unwrap_or(0);
                // A cut elsewhere leaves one of the two.
                let cuts = (step..=end).step_by(step).filter(|&cut| cut > first);
                contents.extend(cuts.map(|cut| Content { version, cut: Some(cut) }));
            }
            whole.push(contents.len());
            contents.push(Content { version, cut: None });
        }
        PieceSpace { index, versions, contents, whole }
    }

    /// The bytes of one of its contents.
    fn read_as(&self, pick: usize) -> Option<Cow<'_, [u8]>> {
        let Content { version, cut } = *self.contents.get(pick)?;
        let new = self.versions.get(version)?;
        let Some(cut) = cut else { return Some(Cow::Borrowed(new)) };
        let last = self.versions.get(version.checked_sub(1)?)?;
        Some(Cow::Owned([new.get(..cut)?, last.get(cut..)?].concat()))
    }
}

/// A number with one digit per choice, counted up from zero.
#[derive(Debug)]
struct Digits {
    digits: Vec<usize>,
    done: bool,
}

impl Digits {
    fn first(space: &Space) -> Self {
        Digits { digits: vec![0; Self::radices(space).count()], done: false }
    }

    fn radices(space: &Space) -> impl Iterator<Item = usize> {
        let files = space
            .files
            .iter()
            .flat_map(|f| f.pieces.iter().map(|p| p.contents.len()).chain(std::iter::once(f.lengths.len())));
        files.chain(space.sets.as_ref().map(Sets::len))
    }

    fn choice(&self, space: &Space) -> Option<Choice> {
        if self.done {
            return None;
        }
        let mut digits = self.digits.iter().copied();
        let mut choice = Choice { pieces: Vec::new(), lengths: Vec::new(), names: Vec::new() };
        for file in &space.files {
            choice.pieces.push(digits.by_ref().take(file.pieces.len()).collect());
            choice.lengths.push(digits.next()?);
        }
        choice.names = space.sets.as_ref()?.get(digits.next()?, space.ops.len())?;
        Some(choice)
    }

    fn advance(&mut self, space: &Space) {
        for (digit, radix) in self.digits.iter_mut().zip(Self::radices(space)) {
            *digit += 1;
            if *digit < radix {
                return;
            }
            *digit = 0;
        }
        self.done = true;
    }
}
