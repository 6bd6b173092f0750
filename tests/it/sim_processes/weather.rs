//! What goes wrong from outside: disks that refuse, syncs that fail, and words of the control block that somebody
//! overwrites, zeroes or restores.

use std::time::Duration;

use foldlog::log::{Paths, WorkspaceMeta, control};
use foldlog::vfs::sim::{Effect, Fault, Op, Rng, SimMachine, SimProcess};
use foldlog::vfs::{Existing, Open, Vfs, read_full, write_full};

use super::book::Notes;
use crate::simulated::{ROOT, file};

const BLOCK: usize = 4096;
/// Words of the control block that anybody asks.
const WORDS: [u64; 13] = [64, 128, 192, 256, 320, 384, 640, 704, 768, 776, 832, 896, 0];
/// Words that count syncs: one that is restored to what it was says that a sync ended well which did not.
const LANES: [u64; 3] = [640, 704, 896];

/// What the weather of a schedule may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Climate {
    pub(super) disk: bool,
    pub(super) syncs: bool,
    pub(super) words: bool,
    /// The durable word may be raised beyond the end.
    pub(super) beyond: bool,
    /// One caller alone is told of a failed sync.
    pub(super) told_to_one: bool,
    pub(super) windows: bool,
}

impl Climate {
    /// A fault of the disk; nothing if this schedule has none.
    pub(super) fn disk_fault(self, book: &Notes, machine: &SimMachine, rng: &mut Rng) -> Option<String> {
        let nth = 1 + rng.below(12);
        let kind = if self.syncs && rng.chance(1, 2) { 0 } else { rng.below(8) };
        let fault = match kind {
            0..=2 if self.syncs => {
                let effect = if rng.chance(4, 5) { Effect::DropsPages } else { Effect::Eio };
                let fault = Fault::on(Op::Sync, effect).path(".seg").nth(1 + rng.below(9));
                if rng.chance(1, 2) { fault.deadly() } else { fault }
            }
            3 if self.disk => Fault::on(Op::Write, Effect::Short(rng.index(400))).path(".seg").nth(nth),
            4 if self.disk => Fault::on(Op::Write, Effect::Eio).path(".seg").nth(nth).times(1 + rng.below(3)),
            5 if self.disk => Fault::on(Op::Write, Effect::DoneButFails).path(".seg").nth(nth),
            6 if self.disk => Fault::on(Op::Append, Effect::Short(rng.index(9000))).path(".seg"),
            7 if self.disk => {
                let free = rng.below(6) * 4096;
                book.lock().faults = true;
                machine.set_capacity(Some(machine.used() + free));
                return Some(format!("{free} bytes of room"));
            }
            _ => return None,
        };
        let told = format!("{fault:?}");
        {
            let mut book = book.lock();
            book.faults = true;
            book.sync_faults |= told.contains("Sync");
        }
        machine.fault(fault);
        Some(told)
    }

    /// A process that does nothing but harm, for a while; then everything is well.
    pub(super) fn storm(self, book: &Notes, process: &SimProcess, seed: u64, ends_calm: bool) {
        let mut rng = Rng::new(seed);
        let mut vandal = Vandal { climate: self, paths: None, known: Vec::new() };
        for _ in 0..1 + rng.below(6) {
            process.sleep(Duration::from_micros([3, 60, 900][rng.index(3)]));
            if self.words && rng.chance(3, 4) {
                book.lock().scrambled = true;
                vandal.act(book, process, &mut rng);
            } else {
                let _ = self.disk_fault(book, process.machine(), &mut rng);
            }
        }
        if ends_calm {
            process.sleep(Duration::from_micros(rng.below(2_000)));
            clear(process.machine());
            process.machine().calm();
            book.lock().calm = true;
        }
    }
}

/// The disk does what it should from here on.
pub(super) fn clear(machine: &SimMachine) {
    machine.clear_faults();
    machine.set_capacity(None);
}

struct Vandal {
    climate: Climate,
    paths: Option<(Paths, WorkspaceMeta)>,
    /// Blocks as they once were.
    known: Vec<Vec<u8>>,
}

impl Vandal {
    fn find(&mut self, process: &SimProcess) -> Option<(Paths, WorkspaceMeta)> {
        if self.paths.is_none() {
            let all = std::path::Path::new(ROOT).join("workspaces");
            let entries = process.list(&all).ok()?;
            let name = &entries.iter().find(|entry| !entry.name.starts_with('.'))?.name;
            let paths = Paths::new(all.join(name));
            let meta = WorkspaceMeta::decode(&file(process, &paths.meta())).ok()?;
            self.paths = Some((paths, meta));
        }
        self.paths.clone()
    }

    /// Whatever fails has no effect, as good as none.
    fn act(&mut self, book: &Notes, process: &SimProcess, rng: &mut Rng) {
        let Some((paths, meta)) = self.find(process) else { return };
        let path = paths.control();
        // A word with a good check is somebody's word, and believed; that nobody has it by chance is what 16 bits are for.
        let garbage = |rng: &mut Rng| loop {
            let word = rng.next_u64();
            if control::position(meta.log_id, word).is_none() {
                return word;
            }
        };
        let Ok(block) = process.open(&path, Open::Write) else { return };
        let mut now = vec![0; BLOCK];
        if read_full(&*block, &mut now, 0).unwrap_or(0) == BLOCK {
            self.known.push(now);
        }
        if self.climate.beyond && rng.chance(1, 2) {
            book.lock().beyond = true;
            let word = control::position_word(meta.log_id, 1_000_000 + rng.below(1_000_000));
            let _ = write_full(&*block, &word.to_le_bytes(), 192);
            return;
        }
        let word = WORDS[rng.index(WORDS.len())];
        match rng.below(8) {
            0 | 1 => drop(write_full(&*block, &garbage(rng).to_le_bytes(), word)),
            2 | 3 => drop(write_full(&*block, &[0; 8], word)),
            4 => {
                let restored = rng.index(self.known.len().max(1));
                let words: Vec<u64> = if rng.chance(1, 2) { WORDS.to_vec() } else { vec![word] };
                if let Some(old) = self.known.get(restored) {
                    for at in words.into_iter().filter(|at| !self.climate.told_to_one || !LANES.contains(at))
                    {
                        let at_byte = at as usize;
                        let _ = write_full(&*block, &old[at_byte..at_byte + 8], at);
                    }
                }
            }
            5 => drop(write_full(&*block, &[0; BLOCK], 0)),
            6 => {
                let words: Vec<u8> = (0..BLOCK / 8).flat_map(|_| garbage(rng).to_le_bytes()).collect();
                drop(write_full(&*block, &words, 0));
            }
            // Windows refuses to delete a file that is mapped.
            _ if self.climate.windows => {}
            _ => {
                drop(block);
                if rng.chance(1, 2) {
                    drop(process.unlink(&path));
                } else {
                    self.replace(process, &paths, rng);
                }
            }
        }
    }

    /// Another block in its place, as a restore from a backup leaves it.
    fn replace(&self, process: &SimProcess, paths: &Paths, rng: &mut Rng) {
        let other = paths.dir().join(".restored");
        let Ok(file) = process.open(&other, Open::Create) else { return };
        let bytes = match self.known.get(rng.index(self.known.len().max(1))) {
            // What it says of syncs under way is not of the files beside it.
            Some(known) if !self.climate.told_to_one => known.clone(),
            _ => vec![0; [0, 100, BLOCK][rng.index(3)]],
        };
        let _ = write_full(&*file, &bytes, 0);
        drop(file);
        let _ = process.rename(&other, &paths.control(), Existing::Replace);
    }
}
