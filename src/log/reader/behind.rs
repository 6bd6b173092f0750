//! Reading on from where a snapshot ends.

use std::collections::BTreeMap;

use super::{Reach, Visit, Walk, list, walk_over};
use crate::error::{Context as _, Result};
use crate::log::bytes::u32_at;
use crate::log::format::{FRAME_HEADER_LEN, FRAME_LINK_AT};
use crate::log::scan::Position;
use crate::log::segment::SegmentName;
use crate::log::{LogId, Paths, snapshot};
use crate::vfs::{Open, Vfs, read_full};

/// Walks a log from the frame on that a snapshot ends at, which is not handed out again. `None` = that frame is not there, or
/// a segment before it is not.
///
/// # Errors
/// As [`walk`].
pub(crate) fn walk_behind(
    vfs: &dyn Vfs,
    paths: &Paths,
    log: LogId,
    durable: Option<u64>,
    snapshot: &snapshot::Header,
    visit: &mut dyn FnMut(&Visit<'_, '_>),
) -> Result<Option<Walk>> {
    let anchor = &snapshot.anchor;
    let vouched = snapshot::vouched_to_readers(vfs, paths, log);
    let files = list(vfs, paths, log, anchor.segment.ordinal_a)?;
    let newest = files.get(&anchor.segment.ordinal_a).into_iter().flatten();
    let newest =
        newest.filter(|found| found.is_live()).map(|found| found.name).max_by_key(|name| name.generation);
    let Some(below) =
        names_below(vfs, paths, anchor.segment.ordinal_a)?.filter(|_| newest == Some(anchor.segment))
    else {
        return Ok(None);
    };
    let path = paths.segment(&anchor.segment);
    let mut head = [0; FRAME_HEADER_LEN];
    let file = vfs.open(&path, Open::Read).context("open", &path)?;
    let n = read_full(&*file, &mut head, anchor.last_offset).context("read", &path)?;
    let Some(link) = head.get(..n).and_then(|head| u32_at(head, FRAME_LINK_AT)) else { return Ok(None) };
    drop(file);
    let start = Position { offset: anchor.last_offset, seq: anchor.last_seq, link };
    let walk = Walk { vouched, below, ..Walk::default() };
    let mut stands = None;
    let walk = walk_over(vfs, paths, log, durable, Reach::Intact, files, walk, Some(start), &mut |seen| {
        // The first frame that is met is the one the snapshot ends at.
        match stands {
            None => stands = Some(seen.located.frame.crc == anchor.last_crc),
            Some(true) => visit(seen),
            Some(false) => {}
        }
    })?;
    Ok((stands == Some(true)).then_some(walk))
}

/// The names of the segments below an ordinal; `None` = they do not reach there.
fn names_below(vfs: &dyn Vfs, paths: &Paths, ordinal: u64) -> Result<Option<Vec<SegmentName>>> {
    let dir = paths.log();
    let mut all: BTreeMap<u64, SegmentName> = BTreeMap::new();
    for entry in vfs.list(&dir).context("list", &dir)? {
        let Some(name) = SegmentName::parse(&entry.name).filter(|name| name.ordinal_b < ordinal) else {
            continue;
        };
        let best = all.entry(name.ordinal_a).or_insert(name);
        if (best.generation, best.ordinal_b) < (name.generation, name.ordinal_b) {
            *best = name;
        }
    }
    let (mut next, mut below) = (1, Vec::new());
    while next < ordinal {
        let Some(name) = all.get(&next) else { return Ok(None) };
        below.push(*name);
        next = name.ordinal_b + 1;
    }
    Ok(Some(below))
}
