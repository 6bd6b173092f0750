//! What everybody has been told, what nobody was told, and whether the log bears it out.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldlog::vfs::sim::SimProcess;
use foldlog::{Error, ErrorKind, Seq};
use parking_lot::Mutex;

use crate::simulated::{Item, prefix_hashes, revisions_count_up};

#[derive(Clone, Debug)]
pub(super) struct Ack {
    pub(super) token: String,
    pub(super) first: Seq,
    pub(super) revisions: Vec<u64>,
    pub(super) durable: bool,
    pub(super) boot: u64,
}

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) boot: u64,
    pub(super) who: String,
    pub(super) last: u64,
    pub(super) epochs: Vec<(Seq, u64)>,
    pub(super) hash: blake3::Hash,
}

pub(super) struct Writer {
    pub(super) process: SimProcess,
    /// A commit of it was acknowledged: it is listed as a witness.
    pub(super) listed: bool,
    /// The epochs that anybody knew of when it opened the store, and how many had opened it by then; whether it was alone.
    pub(super) epochs: HashSet<u64>,
    pub(super) opened: u64,
    pub(super) alone: bool,
}

#[derive(Default)]
pub(super) struct Book {
    pub(super) boot: u64,
    pub(super) tokens: HashMap<String, usize>,
    pub(super) refused: HashSet<String>,
    pub(super) acks: Vec<Ack>,
    pub(super) seen: Vec<Seen>,
    /// The writers whose session may be alive, and how many there have ever been.
    pub(super) writers: BTreeMap<String, Writer>,
    pub(super) opened: u64,
    pub(super) epochs: HashSet<u64>,
    /// The disk may refuse something, or has done so since the machines were switched on or all went well.
    pub(super) faults: bool,
    /// Nobody waits for LOCK long enough to sit out a sleep of the others.
    pub(super) impatient: bool,
    /// Words of the control block were overwritten, or it was deleted, since the last power cut.
    pub(super) scrambled: bool,
    /// Somebody may have left a durable word that passes its check and lies beyond the end: that is called damage.
    pub(super) beyond: bool,
    /// Syncs fail in this schedule, so there are many, over many pages.
    pub(super) many_syncs: bool,
    /// A sync may have failed at any time.
    pub(super) sync_faults: bool,
    pub(super) linger: bool,
    pub(super) windows: bool,
    /// Nothing goes wrong from now on: every commit gets through.
    pub(super) calm: bool,
    /// The most calls of its own that a commit took in the calm, buffered and otherwise, and the most at any time.
    pub(super) calm_calls: [u64; 2],
    pub(super) calls: u64,
    /// How many snapshots were written, and how many processes have opened by one.
    pub(super) snapshots: u64,
    pub(super) by_snapshot: u64,
}

/// One schedule's shared notes. Their lock is held over no call.
pub(super) type Notes = Mutex<Book>;

impl Book {
    pub(super) fn alive(&self, but: &str, is: impl Fn(&Writer) -> bool) -> Vec<String> {
        let others = self.writers.iter().filter(|(name, w)| *name != but && is(w) && w.process.is_alive());
        others.map(|(name, _)| name.clone()).collect()
    }
}

/// Which failures a commit may meet that was begun when nothing went wrong any more.
pub(super) fn expected_in_calm(error: &Error, book: &Notes) -> bool {
    let book = book.lock();
    match error.kind() {
        ErrorKind::DurabilityLost { .. } => book.sync_faults,
        ErrorKind::Busy { .. } | ErrorKind::NotDurable { .. } => book.impatient,
        ErrorKind::Damaged(_) => book.beyond,
        _ => false,
    }
}

/// Which failures a schedule may meet. Damage, replacement, foreign files and versions are never among them.
pub(super) fn expected(error: &Error, book: &Notes) -> bool {
    let book = book.lock();
    match error.kind() {
        ErrorKind::DurabilityLost { .. } => book.sync_faults,
        ErrorKind::Busy { .. } | ErrorKind::NotDurable { .. } | ErrorKind::NotYet => true,
        ErrorKind::NoSpace | ErrorKind::Io => book.faults,
        ErrorKind::Damaged(_) => book.beyond,
        _ => false,
    }
}

pub(super) fn audit(book: &Book, items: &[(u64, Item)]) -> Result<(), String> {
    revisions_count_up(items)?;
    numbers_follow(items)?;
    let mut there: HashMap<&str, (u64, Vec<u64>)> = HashMap::new();
    for (seq, item) in items {
        let Item::Commit(events) = item else { continue };
        if events[0].body == "end" {
            continue;
        }
        let (token, _) = events[0].body.split_once('/').ok_or("a foreign event")?;
        let count = *book.tokens.get(token).ok_or(format!("{token} was never sent"))?;
        let whole = events.len() == count
            && events.iter().enumerate().all(|(i, e)| {
                e.seq == seq + i as u64 && e.body.trim_end_matches('.') == format!("{token}/{i}/{count}")
            });
        if !whole {
            return Err(format!("a commit of {count} events is there as {events:?}"));
        }
        if book.refused.contains(token) {
            return Err(format!("{token} was refused, and is there as event {seq}"));
        }
        let revisions = events.iter().map(|e| e.revision).collect();
        if there.insert(token, (*seq, revisions)).is_some() {
            return Err(format!("{token} is there twice"));
        }
    }
    for ack in &book.acks {
        match there.get(ack.token.as_str()) {
            Some((seq, revisions)) if (Seq(*seq), revisions) == (ack.first, &ack.revisions) => {}
            Some(found) => return Err(format!("{ack:?} is there as {found:?}")),
            None if ack.durable => return Err(format!("{ack:?} was durable and is gone")),
            None if ack.boot == book.boot => return Err(format!("{ack:?} is gone without a power cut")),
            None => {}
        }
    }
    let prefixes = prefix_hashes(items);
    for seen in &book.seen {
        match prefixes.get(&(seen.last, seen.epochs.clone())) {
            Some(hash) if *hash == seen.hash => {}
            Some(_) => {
                return Err(format!("{} saw {seen:?}: another state than the log has there", seen.who));
            }
            None if seen.boot == book.boot => {
                return Err(format!(
                    "{} saw {seen:?}, which was taken back while the machine was up",
                    seen.who
                ));
            }
            None => {}
        }
    }
    Ok(())
}

/// Event numbers are given out one after the other, none twice.
fn numbers_follow(items: &[(u64, Item)]) -> Result<(), String> {
    let mut next = 1;
    for (seq, item) in items {
        if *seq != next {
            return Err(format!("event {seq} stands where {next} comes next"));
        }
        if let Item::Commit(events) = item {
            next += events.len() as u64;
        }
    }
    Ok(())
}
