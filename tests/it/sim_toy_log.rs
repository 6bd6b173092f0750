//! Proof that the simulator finds what it is for: a toy log with planted bugs, each found within a stated number of
//! crash states or schedules, and the same log without them, in which nothing is found.
//!
//! The toy is right by rules that any log has to keep (each bug breaks one). Its folder holds `LOCK`; segments
//! `seg-1`, `seg-2` …, all but the last complete; `head`, which names the last; and perhaps `base`, which replaces
//! the segments it covers. A segment is a header and records of length, CRC, sequence number and payload.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foldlog::vfs::sim::{
    DiskState, Effect, Fault, Fill, Op, Plan, Profile, Program, Rng, SimMachine, SimProcess, Torn,
};
use foldlog::vfs::{Existing, Open, Vfs, VfsFile, read_full, write_full};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Acknowledges without a sync.
    NoSync,
    /// Acknowledges, then syncs.
    AckBeforeSync,
    /// New names are not made durable.
    NoFolderSync,
    /// A file gets its final name before its contents are durable.
    RenameBeforeSync,
    /// The head names a segment that is not there yet.
    PublishBeforeWrite,
    /// The head is overwritten instead of replaced.
    HeadInPlace,
    /// Earlier, buffered records are not synced when their segment is finished.
    NoSealSync,
    /// Old segments go before the base that replaces them is durable by name.
    UnlinkEarly,
    /// A failed sync is tried again and believed.
    RetrySync,
    /// A new descriptor's sync is believed for bytes that it did not write.
    TrustCache,
    /// A head found in place is believed to be durable.
    TrustNames,
    /// Records are taken by their length alone.
    NoCrc,
    /// A length that reaches past the end is taken for damage.
    TrustLength,
    /// Appends at the end of the file, whatever is there.
    AppendBehindTorn,
    /// Leaves what lies behind the end and writes over it.
    StaleTail,
    /// Heals by writing the good part anew, in place.
    HealInPlace,
    /// Looking cuts the torn tail.
    CutOnRead,
    /// The count that a write returns is ignored.
    ShortWrite,
    /// Half a record stays after an error, and the next one goes behind it.
    HalfRecord,
    /// No lock.
    NoLock,
    /// The lock is released before the record is written.
    EarlyUnlock,
    /// The end is looked up before the lock is taken.
    StaleEnd,
}

#[derive(Debug)]
enum Trouble {
    Io(io::Error),
    #[expect(dead_code, reason = "shown in messages")]
    Damaged(String),
    /// A sync failed; nothing this handle knows can be believed.
    Poisoned,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Io(error)
    }
}

type Records = Vec<(u64, Vec<u8>)>;

const HEADER: usize = 24;
const PER_SEGMENT: usize = 4;

fn at(name: &str) -> PathBuf {
    Path::new("/toy").join(name)
}

fn segment(ordinal: u64) -> PathBuf {
    at(&format!("seg-{ordinal}"))
}

fn header(first: u64, covers: u64) -> Vec<u8> {
    let mut bytes = [first.to_le_bytes(), covers.to_le_bytes()].concat();
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(b"TOYS");
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn record(seq: u64, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let crc = crc32fast::hash(&[&len, seq.to_le_bytes().as_slice(), payload].concat()).to_le_bytes();
    [&len, &crc, seq.to_le_bytes().as_slice(), payload].concat()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// First sequence number and covered ordinal.
fn parse_header(bytes: &[u8], what: &Path) -> Result<(u64, u64), Trouble> {
    let whole = bytes.get(..HEADER).filter(|b| u32_at(b, 20) == Some(crc32fast::hash(&b[..16])));
    let whole = whole.ok_or_else(|| Trouble::Damaged(format!("header of {}", what.display())))?;
    Ok((u64_at(whole, 0).unwrap(), u64_at(whole, 8).unwrap()))
}

/// The records from the header on, and where they end.
fn scan(bytes: &[u8], first: u64, bug: Bug) -> Result<(Records, usize), Trouble> {
    let (mut records, mut end) = (Records::new(), HEADER);
    loop {
        let seq = first + records.len() as u64;
        let (Some(len), Some(crc), Some(found)) =
            (u32_at(bytes, end), u32_at(bytes, end + 4), u64_at(bytes, end + 8))
        else {
            break;
        };
        let len = len as usize;
        let Some(payload) = bytes.get(end + 16..).and_then(|b| b.get(..len)) else {
            if bug == Bug::TrustLength {
                return Err(Trouble::Damaged(format!("record of {len} bytes at {end}")));
            }
            break;
        };
        let real = crc32fast::hash(&[&bytes[end..end + 4], &bytes[end + 8..end + 16], payload].concat());
        if len == 0 || found != seq || (real != crc && bug != Bug::NoCrc) {
            break;
        }
        records.push((seq, payload.to_vec()));
        end += 16 + len;
    }
    Ok((records, end))
}

fn read(vfs: &SimProcess, path: &Path) -> io::Result<Vec<u8>> {
    let file = vfs.open(path, Open::Read)?;
    let mut bytes = vec![0; usize::try_from(file.stat()?.len).unwrap()];
    let n = read_full(file.as_ref(), &mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

fn missing<T>(result: io::Result<T>, what: &Path) -> Result<T, Trouble> {
    result.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Trouble::Damaged(format!("{} is missing", what.display())),
        _ => Trouble::Io(e),
    })
}

fn read_head(vfs: &SimProcess) -> Result<u64, Trouble> {
    let bytes = missing(read(vfs, &at("head")), &at("head"))?;
    let whole = bytes.get(..12).filter(|b| u32_at(b, 8) == Some(crc32fast::hash(&b[..8])));
    whole.and_then(|b| u64_at(b, 0)).ok_or_else(|| Trouble::Damaged("head".to_owned()))
}

/// All records, without a lock and without changing anything.
fn read_all(vfs: &SimProcess, bug: Bug) -> Result<Records, Trouble> {
    let last = read_head(vfs)?;
    let (mut records, mut covered) = (Records::new(), 0);
    match read(vfs, &at("base")) {
        Ok(bytes) => {
            let (first, covers) = parse_header(&bytes, &at("base"))?;
            let (found, end) = scan(&bytes, first, bug)?;
            if end != bytes.len() {
                return Err(Trouble::Damaged(format!("base at {end}")));
            }
            (records, covered) = (found, covers);
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e.into()),
    }
    for ordinal in covered + 1..=last {
        let path = segment(ordinal);
        let bytes = missing(read(vfs, &path), &path)?;
        let (first, _) = parse_header(&bytes, &path)?;
        let (found, end) = scan(&bytes, first, bug)?;
        if first != records.len() as u64 + 1 || (ordinal < last && end != bytes.len()) {
            return Err(Trouble::Damaged(format!("{} at {end}", path.display())));
        }
        if ordinal == last && end != bytes.len() && bug == Bug::CutOnRead {
            vfs.open(&path, Open::Write)?.set_len(end as u64)?;
        }
        records.extend(found);
    }
    Ok(records)
}

/// Writes a file and gives it its final name, all of it durable.
fn publish(vfs: &SimProcess, name: &str, bytes: &[u8], bug: Bug) -> Result<(), Trouble> {
    let (path, temp) = (at(name), at(&format!("{name}.tmp")));
    match vfs.unlink(&temp) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let file = vfs.open(&temp, Open::Create)?;
    write_full(file.as_ref(), bytes, 0).map_err(|(_, e)| e)?;
    if bug == Bug::RenameBeforeSync {
        vfs.rename(&temp, &path, Existing::Replace)?;
        file.sync_data()?;
    } else {
        file.sync_data()?;
        vfs.rename(&temp, &path, Existing::Replace)?;
    }
    if bug != Bug::NoFolderSync {
        vfs.sync_dir(&at(""))?;
    }
    Ok(())
}

fn publish_head(vfs: &SimProcess, ordinal: u64, bug: Bug) -> Result<(), Trouble> {
    let mut bytes = ordinal.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    if bug == Bug::HeadInPlace {
        let file = vfs.open(&at("head"), Open::Write)?;
        write_full(file.as_ref(), &bytes, 0).map_err(|(_, e)| e)?;
        file.sync_data()?;
        return Ok(());
    }
    publish(vfs, "head", &bytes, bug)
}

struct Toy {
    vfs: SimProcess,
    bug: Bug,
    lock: Box<dyn VfsFile>,
    active: Option<Active>,
    /// For [`Bug::HalfRecord`]: an append of ours failed half-way.
    half: bool,
}

struct Active {
    ordinal: u64,
    file: Box<dyn VfsFile>,
    first: u64,
    count: usize,
    end: u64,
}

impl Toy {
    fn open(vfs: &SimProcess, bug: Bug) -> Result<Toy, Trouble> {
        let lock = vfs.open(&at("LOCK"), Open::Lock)?;
        let mut toy = Toy { vfs: vfs.clone(), bug, lock, active: None, half: false };
        toy.locked(|toy| toy.catch_up().map(drop))?;
        Ok(toy)
    }

    fn locked<T>(&mut self, run: impl FnOnce(&mut Toy) -> Result<T, Trouble>) -> Result<T, Trouble> {
        if self.bug == Bug::NoLock {
            return run(self);
        }
        while !self.lock.try_lock()? {
            self.vfs.sleep(Duration::from_micros(30));
        }
        let answer = run(self);
        self.lock.unlock()?;
        answer
    }

    fn sync(&self, file: &dyn VfsFile) -> Result<(), Trouble> {
        match file.sync_data() {
            Err(_) if self.bug == Bug::RetrySync => Ok(file.sync_data()?),
            Err(_) => Err(Trouble::Poisoned),
            Ok(()) => Ok(()),
        }
    }

    /// Finds the end of the log, and mends it if a writer or the power died.
    fn catch_up(&mut self) -> Result<&mut Active, Trouble> {
        let ordinal = read_head(&self.vfs)?;
        let known = self.active.as_ref().is_some_and(|a| a.ordinal == ordinal);
        let path = segment(ordinal);
        if !known {
            if self.bug != Bug::TrustNames {
                self.vfs.sync_dir(&at(""))?;
            }
            let file = missing(self.vfs.open(&path, Open::Write), &path)?;
            self.active = Some(Active { ordinal, file, first: 0, count: 0, end: 0 });
        }
        let file = self.active.as_ref().map(|a| a.file.as_ref()).unwrap();
        let len = file.stat()?.len;
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        read_full(file, &mut bytes, 0)?;
        let (first, _) = parse_header(&bytes, &path)?;
        let (records, end) = scan(&bytes, first, self.bug)?;
        let mut end = end as u64;
        bytes.truncate(usize::try_from(end).unwrap());
        if len > end {
            match self.bug {
                Bug::StaleTail => {}
                Bug::AppendBehindTorn => end = len,
                Bug::HalfRecord if self.half => end = len,
                Bug::HealInPlace => {
                    file.set_len(0)?;
                    write_full(file, &bytes, 0).map_err(|(_, e)| e)?;
                    self.sync(file)?;
                }
                _ => {
                    file.set_len(end)?;
                    self.sync(file)?;
                }
            }
        }
        if !known && self.bug != Bug::TrustCache {
            // An earlier sync may have dropped these bytes: what this descriptor vouches for, it writes.
            write_full(file, &bytes, 0).map_err(|(_, e)| e)?;
        }
        let active = self.active.as_mut().unwrap();
        (active.first, active.count, active.end) = (first, records.len(), end);
        Ok(active)
    }

    fn rotate(&mut self) -> Result<(), Trouble> {
        let (vfs, bug) = (self.vfs.clone(), self.bug);
        let old = self.active.as_ref().unwrap();
        if bug != Bug::NoSealSync {
            self.sync(old.file.as_ref())?;
        }
        let (ordinal, first) = (old.ordinal + 1, old.first + old.count as u64);
        if bug == Bug::PublishBeforeWrite {
            publish_head(&vfs, ordinal, bug)?;
        }
        publish(&vfs, &format!("seg-{ordinal}"), &header(first, 0), bug)?;
        if bug != Bug::PublishBeforeWrite {
            publish_head(&vfs, ordinal, bug)?;
        }
        self.catch_up().map(drop)
    }

    /// Appends one record, durable if asked; says so to the oracle before and after.
    fn append(&mut self, payload: &[u8], durable: bool) -> Result<u64, Trouble> {
        let machine = self.vfs.machine().clone();
        let text = String::from_utf8_lossy(payload).into_owned();
        if self.bug == Bug::StaleEnd {
            self.catch_up()?;
        }
        let (seq, rest) = self.locked(|toy| {
            let full = |a: &mut Active| a.count >= PER_SEGMENT;
            let active =
                if toy.bug == Bug::StaleEnd { toy.active.as_mut().unwrap() } else { toy.catch_up()? };
            if full(active) {
                toy.rotate()?;
            }
            let bug = toy.bug;
            let active = toy.active.as_mut().unwrap();
            let seq = active.first + active.count as u64;
            let bytes = record(seq, payload);
            machine.mark(format!("try {seq} {text}"));
            if bug == Bug::EarlyUnlock {
                return Ok((seq, Some(bytes)));
            }
            let wrote = if bug == Bug::ShortWrite {
                active.file.write_at(&bytes, active.end).map(drop).map_err(|e| (0, e))
            } else {
                write_full(active.file.as_ref(), &bytes, active.end)
            };
            if let Err((_, e)) = wrote {
                toy.half = true;
                if bug != Bug::HalfRecord {
                    active.file.set_len(active.end)?;
                }
                return Err(e.into());
            }
            Ok((seq, None))
        })?;
        let active = self.active.as_ref().unwrap();
        if let Some(bytes) = rest {
            write_full(active.file.as_ref(), &bytes, active.end).map_err(|(_, e)| e)?;
        }
        machine.mark(format!("wrote {seq} {text}"));
        if durable {
            if matches!(self.bug, Bug::AckBeforeSync | Bug::NoSync) {
                machine.mark(format!("durable {seq}"));
            }
            if self.bug != Bug::NoSync {
                self.sync(active.file.as_ref())?;
            }
            machine.mark(format!("durable {seq}"));
        }
        Ok(seq)
    }

    /// Puts all finished segments into one base.
    fn compact(&mut self) -> Result<(), Trouble> {
        self.locked(|toy| {
            let active = toy.catch_up()?;
            let (ordinal, first) = (active.ordinal, active.first);
            let mut bytes = header(1, ordinal - 1);
            for (seq, payload) in read_all(&toy.vfs, toy.bug)?.into_iter().filter(|(seq, _)| *seq < first) {
                bytes.extend(record(seq, &payload));
            }
            let old: Vec<PathBuf> = (1..ordinal).map(segment).collect();
            let bug = if toy.bug == Bug::UnlinkEarly { Bug::NoFolderSync } else { toy.bug };
            publish(&toy.vfs, "base", &bytes, bug)?;
            for path in old {
                match toy.vfs.unlink(&path) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.into()),
                    _ => {}
                }
            }
            toy.vfs.sync_dir(&at("")).map_err(Trouble::Io)
        })
    }
}

/// A machine with an empty toy log, all of it durable.
fn installed(profile: Profile, seed: u64) -> SimMachine {
    let mut disk = DiskState::empty(profile);
    disk.plant(at("LOCK"), b"").unwrap();
    disk.plant(segment(1), &header(1, 0)).unwrap();
    let machine = SimMachine::from_disk(&disk, seed);
    publish_head(&machine.process("setup"), 1, Bug::None).unwrap();
    SimMachine::from_disk(&machine.disk().all_synced(), seed)
}

// ---- the oracle ----

/// What the marks say must and may be found.
struct Told {
    tried: BTreeMap<u64, BTreeSet<String>>,
    wrote: BTreeSet<(u64, String)>,
    durable: u64,
}

impl Told {
    fn by(marks: &[String]) -> Told {
        let mut told = Told { tried: BTreeMap::new(), wrote: BTreeSet::new(), durable: 0 };
        for mark in marks {
            let mut words = mark.split(' ');
            let (word, seq) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
            let text = words.next().unwrap_or_default().to_owned();
            match word {
                "try" => drop(told.tried.entry(seq).or_default().insert(text)),
                "wrote" => drop(told.wrote.insert((seq, text))),
                _ => told.durable = told.durable.max(seq),
            }
        }
        told
    }

    /// All that was written must be there, up to the newest durable record if the power was cut.
    fn check(&self, found: &Records, power_cut: bool) -> Result<(), String> {
        let found: Vec<(u64, String)> =
            found.iter().map(|(seq, p)| (*seq, String::from_utf8_lossy(p).into_owned())).collect();
        for (seq, text) in &found {
            if !self.tried.get(seq).is_some_and(|t| t.contains(text)) {
                return Err(format!("record {seq} was never written: {text:.20}"));
            }
        }
        let must = self.wrote.iter().filter(|(seq, _)| !power_cut || *seq <= self.durable);
        for lost in must {
            if !found.contains(lost) {
                return Err(format!("record {} is lost: {:.20}", lost.0, lost.1));
            }
        }
        Ok(())
    }
}

fn text<T>(result: Result<T, impl Debug>) -> Result<T, String> {
    result.map_err(|e| format!("{e:?}"))
}

/// The bugs that show when a log is read, opened or mended. All others recover without fault, so that what is found
/// was done before the crash.
fn in_recovery(bug: Bug) -> Bug {
    use Bug::{
        AppendBehindTorn, CutOnRead, HealInPlace, NoCrc, StaleTail, TrustCache, TrustLength, TrustNames,
    };
    match bug {
        NoCrc | TrustLength | AppendBehindTorn | StaleTail | HealInPlace | CutOnRead | TrustCache
        | TrustNames => bug,
        _ => Bug::None,
    }
}

/// Boots from `disk` and looks, recovers, appends, crashes once more on the way, and looks again.
fn examine(disk: &DiskState, told: &Told, bug: Bug, power_cut: bool) -> Result<(), String> {
    let bug = in_recovery(bug);
    let machine = SimMachine::from_disk(disk, 5);
    let process = machine.process("looks");
    let before = machine.disk().content_hash();
    let seen = text(read_all(&process, bug))?;
    if machine.disk().content_hash() != before {
        return Err("looking changed something".to_owned());
    }
    told.check(&seen, power_cut)?;
    machine.record();
    let process = machine.process("recovers");
    let mut toy = text(Toy::open(&process, bug))?;
    let next = seen.len() as u64 + 1;
    // Now and then as long as a lost one, so that it ends exactly where another one still lies.
    let bytes: Vec<u8> = disk.tree().iter().filter_map(|(path, ..)| disk.read(path)).flatten().collect();
    let payload = pad("again", crc32fast::hash(&bytes) as usize);
    text(toy.append(payload.as_bytes(), true))?;
    drop(toy);
    let mut wanted = seen;
    wanted.push((next, payload.into_bytes()));
    let found = text(read_all(&machine.process("looks"), bug))?;
    if found != wanted {
        let seqs = |r: &Records| r.iter().map(|(seq, _)| *seq).collect::<Vec<_>>();
        return Err(format!("after recovery and an append: {:?}, not {:?}", seqs(&found), seqs(&wanted)));
    }
    let record = machine.take_record();
    let mut rng = Rng::new(11);
    for boundary in &record.boundaries {
        let acked = record.marks_at(boundary).iter().any(|m| m.starts_with("durable"));
        let wanted = if acked { &wanted[..] } else { &wanted[..0] };
        for disk in boundary.disk.crash_states(4, &mut rng) {
            let found = text(read_all(&SimMachine::from_disk(&disk, 6).process("looks"), bug))?;
            let mut known = found.clone();
            known.retain(|r| r.0 != next);
            let why = |e| format!("crash in recovery, before {:?}: {e}", boundary.call);
            told.check(&known, true).map_err(why)?;
            if !found.starts_with(wanted) {
                return Err("crash after recovery lost its append".to_owned());
            }
        }
    }
    Ok(())
}

// ---- the workloads ----

/// How much was looked at, and what was found.
#[derive(Debug, Default)]
struct Hunt {
    looked: usize,
    found: Option<String>,
}

impl Hunt {
    /// Notes one more; says whether to go on.
    fn look(&mut self, result: Result<(), String>, context: impl FnOnce() -> String) -> bool {
        self.looked += 1;
        if let Err(why) = result {
            self.found = Some(format!("{why} ({})", context()));
        }
        self.found.is_none()
    }
}

fn pad(word: &str, size: usize) -> String {
    const SIZES: [usize; 4] = [40, 700, 5000, 1500];
    let mut text = word.to_owned();
    while text.len() < SIZES[size % SIZES.len()] {
        text.push('.');
    }
    text
}

fn work(process: &SimProcess, machine: &SimMachine, seed: u64, bug: Bug) {
    let mut rng = Rng::new(seed);
    let mut toy = None;
    let mut step = 0;
    let mut tries = 0;
    while step < 11 && tries < 60 {
        tries += 1;
        let open = match toy.take() {
            Some(toy) => Ok(toy),
            None => Toy::open(process, bug),
        };
        let Ok(mut open) = open else { continue };
        let payload = pad(&format!("{step}-{tries}"), rng.index(4));
        let result = match step {
            9 if seed.is_multiple_of(2) => open.compact(),
            _ => open.append(payload.as_bytes(), rng.chance(1, 2)).map(drop),
        };
        match result {
            Ok(()) => {
                step += 1;
                toy = Some(open);
            }
            Err(Trouble::Io(e)) => {
                if e.kind() == io::ErrorKind::StorageFull {
                    machine.set_capacity(None);
                }
                toy = Some(open);
            }
            // A poisoned handle is thrown away, and everything is found anew.
            Err(_) => {}
        }
    }
}

/// A power cut at every call of one process.
fn crashes(bug: Bug, profile: Profile, seeds: u64, limit: usize) -> Hunt {
    let mut hunt = Hunt::default();
    for seed in 0..seeds {
        let machine = installed(profile, seed);
        machine.record();
        work(&machine.process("works"), &machine, seed, bug);
        let record = machine.take_record();
        let fill = if seed.is_multiple_of(2) { Fill::Nul } else { Fill::Garbage };
        let model = profile.crash_model().with_torn(Torn::Words).with_fill(fill);
        for (boundary, marks, disk) in record.power_cuts(model, limit, seed) {
            let context = || format!("seed {seed}, before {:?}, {}", boundary.call, disk.origin());
            if !hunt.look(examine(&disk, &Told::by(marks), bug, true), context) {
                return hunt;
            }
        }
    }
    hunt
}

/// The same with one fault each: a sync that drops pages, a short write, a full disk, a failed folder sync.
fn faults(bug: Bug, profile: Profile, seeds: u64) -> Hunt {
    let mut hunt = Hunt::default();
    for seed in 0..seeds {
        let nth = 1 + seed % 16;
        for sort in 0..5 {
            let machine = installed(profile, seed);
            match sort {
                0 => machine.fault(Fault::on(Op::Sync, Effect::DropsPages).nth(nth)),
                1 => machine.fault(Fault::on(Op::Write, Effect::Short(20)).path("seg").nth(nth)),
                2 => machine.set_capacity(Some(12288 + 4096 * nth)),
                3 => machine.fault(Fault::on(Op::SyncDir, Effect::Eio).nth(nth)),
                _ => machine.fault(Fault::on(Op::Write, Effect::Eio).nth(nth)),
            }
            work(&machine.process("works"), &machine, seed, bug);
            let told = Told::by(&machine.marks());
            let context = |what: &str| format!("seed {seed}, fault {sort} at {nth}, {what}");
            let killed = machine.disk().process_kill();
            if !hunt.look(examine(&killed, &told, bug, false), || context("killed")) {
                return hunt;
            }
            for disk in machine.disk().crash_states(16, &mut Rng::new(seed)) {
                if !hunt.look(examine(&disk, &told, bug, true), || context(disk.origin())) {
                    return hunt;
                }
            }
        }
    }
    hunt
}

/// Ends a program with this trouble, without the noise of a panic.
fn or_die<T>(result: Result<T, impl Debug>) -> T {
    result.unwrap_or_else(|e| std::panic::resume_unwind(Box::new(format!("{e:?}"))))
}

/// Three writers and a reader, interleaved, killed and stopped by seed.
fn schedules(bug: Bug, seeds: u64) -> Hunt {
    let mut hunt = Hunt::default();
    for seed in 0..seeds {
        let machine = installed(Profile::Linux, seed);
        let labels = ["a", "b", "c"];
        let mut programs: Vec<Program<'_>> = labels
            .iter()
            .map(|label| {
                Program::new(*label, move |process: SimProcess| {
                    let mut toy = or_die(Toy::open(&process, bug));
                    for i in 0..4 {
                        let payload = pad(&format!("{label}{i}"), i);
                        or_die(toy.append(payload.as_bytes(), i % 2 == 1));
                    }
                    if *label == "a" {
                        or_die(toy.compact());
                    }
                })
            })
            .collect();
        programs.push(Program::new("reader", move |process: SimProcess| {
            let mut before = Records::new();
            for _ in 0..6 {
                // What vanishes under a reader was compacted away: it looks again.
                if let Some(found) = (0..20).find_map(|_| read_all(&process, bug).ok()) {
                    or_die(if found.starts_with(&before) { Ok(()) } else { Err("what was read is gone") });
                    before = found;
                }
                process.sleep(Duration::from_micros(100));
            }
        }));
        machine.record();
        let run = machine.run(seed, programs, &Plan::seeded(seed, &labels, 120));
        let told = Told::by(&machine.marks());
        let mut result = match run.panics().first() {
            Some(message) => Err((*message).to_owned()),
            None => examine(&machine.disk().process_kill(), &told, bug, false),
        };
        let mut record = machine.take_record();
        // The end always, and some of the moments on the way there.
        let last = record.boundaries.len() - 1;
        let mut number = 0;
        record.boundaries.retain(|_| {
            number += 1;
            number > last || (number as u64 + seed).is_multiple_of(16)
        });
        for (boundary, marks, disk) in record.power_cuts(Profile::Linux.crash_model(), 4, seed) {
            let why = |e| format!("power cut before {:?}, {}: {e}", boundary.call, disk.origin());
            result = result.and_then(|()| examine(&disk, &Told::by(marks), bug, true).map_err(why));
        }
        if !hunt.look(result, || run.to_string()) {
            return hunt;
        }
    }
    hunt
}

#[derive(Clone, Copy, Debug)]
enum By {
    Crashes,
    Faults,
    Schedules,
}

fn hunt(by: By, bug: Bug) -> Hunt {
    match by {
        By::Crashes => crashes(bug, Profile::Linux, 6, 96),
        By::Faults => faults(bug, Profile::Linux, 80),
        By::Schedules => schedules(bug, 300),
    }
}

/// Every planted bug, by what it is found, and within how many states or schedules.
const BUGS: [(Bug, By, usize); 22] = [
    (Bug::NoSync, By::Crashes, 50),
    (Bug::AckBeforeSync, By::Crashes, 50),
    (Bug::NoFolderSync, By::Crashes, 500),
    (Bug::RenameBeforeSync, By::Crashes, 500),
    (Bug::PublishBeforeWrite, By::Crashes, 500),
    (Bug::HeadInPlace, By::Crashes, 700),
    (Bug::NoSealSync, By::Crashes, 4000),
    (Bug::UnlinkEarly, By::Crashes, 2000),
    (Bug::NoCrc, By::Crashes, 50),
    (Bug::TrustLength, By::Schedules, 100),
    (Bug::AppendBehindTorn, By::Crashes, 50),
    (Bug::StaleTail, By::Crashes, 1000),
    (Bug::HealInPlace, By::Crashes, 50),
    (Bug::CutOnRead, By::Crashes, 50),
    (Bug::RetrySync, By::Faults, 100),
    (Bug::TrustCache, By::Faults, 100),
    (Bug::ShortWrite, By::Faults, 100),
    (Bug::HalfRecord, By::Faults, 3000),
    (Bug::TrustNames, By::Schedules, 250),
    (Bug::NoLock, By::Schedules, 10),
    (Bug::EarlyUnlock, By::Schedules, 50),
    (Bug::StaleEnd, By::Schedules, 10),
];

#[test]
fn every_planted_bug_is_found() {
    for (bug, by, bound) in BUGS {
        let hunt = hunt(by, bug);
        println!(
            "{bug:?} by {by:?} after {}: {:.300}",
            hunt.looked,
            hunt.found.as_deref().unwrap_or("NOT FOUND")
        );
        assert!(hunt.found.is_some(), "{bug:?} is not found in {} {by:?}", hunt.looked);
        assert!(hunt.looked <= bound, "{bug:?} is found after {} {by:?}, not {bound}", hunt.looked);
    }
}

#[test]
fn nothing_is_found_without_a_bug() {
    for by in [By::Crashes, By::Faults, By::Schedules] {
        let hunt = hunt(by, Bug::None);
        println!("{by:?}: {} looked at", hunt.looked);
        assert_eq!(hunt.found, None, "after {} {by:?}", hunt.looked);
    }
}

#[test]
fn other_platforms_have_other_rules() {
    for (profile, bug) in [
        (Profile::Mac, Bug::None),
        (Profile::Windows, Bug::None),
        // Folders cannot be synced there, and need not be.
        (Profile::Windows, Bug::NoFolderSync),
    ] {
        let hunt = crashes(bug, profile, 2, 64);
        assert_eq!(hunt.found, None, "{bug:?} on {profile:?} after {}", hunt.looked);
    }
    assert!(crashes(Bug::NoFolderSync, Profile::Mac, 2, 64).found.is_some());
}
