//! The bare system calls: what any log must do at the least, and nothing else. Nothing is encoded, checked or read.
//!
//! The end of the log is a word in a shared mapping, so that finding it costs no call. A frame is 256 bytes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use rustix::fs::fdatasync;

use crate::Result;
use crate::data::Step;
use crate::peer::{Contender, Level, Peer};
use crate::sys::{Words, lock, try_lock, unlock};

pub const FRAME: u64 = 256;
/// Zeros are written in pieces of this size.
const PIECE: u64 = 1 << 20;
/// Steps for which a file of zeros has room at the most; durable runs are bounded so that they fit.
pub const STEPS_MAX: u64 = (64 << 20) / FRAME;
/// The shared words: end of the log, and how far it is durable.
const TAIL: usize = 0;
const DURABLE: usize = 1;
/// How long a commit of `raw-group` sleeps while others sync.
const PAUSE: Duration = Duration::from_micros(20);

const fn contender(name: &'static str, level: Level, polls: bool, settings: &'static str) -> Contender {
    Contender { name, level, many: true, polls, batch: None, settings }
}

pub const CONTENDERS: &[Contender] = &[
    contender(
        "raw-append",
        Level::Buffered,
        false,
        "fetch_add on the shared tail, pwrite; no lock, so a death leaves a hole",
    ),
    contender("raw-flock", Level::Buffered, true, "flock, pwrite at the shared tail, unlock"),
    contender("raw-growing", Level::Durable, false, "fetch_add, pwrite, fdatasync; the file grows"),
    Contender {
        name: "raw-zeroed",
        level: Level::Durable,
        many: true,
        polls: false,
        batch: Some("64 × pwrite, one fdatasync"),
        settings: "fetch_add, pwrite, fdatasync; zeros were written and synced before",
    },
    contender(
        "raw-group",
        Level::Durable,
        false,
        "as raw-flock on zeros; then until the durable word covers it: whoever gets one of two sync locks reads the \
         tail, calls fdatasync and raises the word; the others sleep 20 µs",
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Append,
    Flock,
    Sync,
    Group,
}

pub struct Raw {
    way: Way,
    file: File,
    lock: File,
    lanes: [File; 2],
    words: Words,
    /// Where the file must end, if it does not grow.
    end: u64,
    frame: [u8; FRAME as usize],
}

impl Raw {
    /// With `room`, zeros for so many steps are written first, if it is to lie on zeros.
    pub fn open(name: &str, dir: &Path, room: u64) -> Result<Self> {
        let (way, zeros) = match name {
            "raw-append" => (Way::Append, false),
            "raw-flock" => (Way::Flock, false),
            "raw-growing" => (Way::Sync, false),
            "raw-zeroed" => (Way::Sync, true),
            "raw-group" => (Way::Group, true),
            _ => return Err(format!("there is no peer {name}").into()),
        };
        let open = |name: &str| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(name))
        };
        let file = open("log")?;
        if zeros && room > 0 {
            let piece = vec![0; PIECE as usize];
            for at in (0..room.min(STEPS_MAX) * FRAME).step_by(piece.len()) {
                file.write_all_at(&piece, at)?;
            }
            file.sync_all()?;
        }
        Ok(Raw {
            way,
            end: if zeros { file.metadata()?.len() } else { u64::MAX },
            file,
            lock: open("lock")?,
            lanes: [open("lane-0")?, open("lane-1")?],
            words: Words::open(&dir.join("words"))?,
            frame: [b'x'; FRAME as usize],
        })
    }

    fn write(&mut self, at: u64) -> Result<()> {
        if at + FRAME > self.end {
            return Err("the file of zeros is full".into());
        }
        // The first byte of a frame is never 0: that is how `count` knows it.
        self.frame[1..9].copy_from_slice(&at.to_le_bytes());
        Ok(self.file.write_all_at(&self.frame, at)?)
    }

    /// Appends without a lock.
    fn append(&mut self) -> Result<()> {
        let at = self.words.word(TAIL).fetch_add(FRAME, AcqRel);
        self.write(at)
    }

    /// Appends under the lock; the end of the frame.
    fn append_locked(&mut self) -> Result<u64> {
        lock(&self.lock)?;
        let at = self.words.word(TAIL).load(Acquire);
        self.write(at)?;
        self.words.word(TAIL).store(at + FRAME, Release);
        unlock(&self.lock)?;
        Ok(at + FRAME)
    }

    /// Returns when everything below `mine` is durable, by this process's sync or by another's.
    fn wait_durable(&self, mine: u64) -> Result<()> {
        let durable = self.words.word(DURABLE);
        'wait: while durable.load(Acquire) < mine {
            for lane in &self.lanes {
                if !try_lock(lane)? {
                    continue;
                }
                if durable.load(Acquire) < mine {
                    let tail = self.words.word(TAIL).load(Acquire);
                    fdatasync(&self.file)?;
                    durable.fetch_max(tail, AcqRel);
                }
                unlock(lane)?;
                continue 'wait;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Peer for Raw {
    fn commit(&mut self, _step: &Step) -> Result<()> {
        match self.way {
            Way::Append => self.append(),
            Way::Flock => self.append_locked().map(drop),
            Way::Sync => {
                self.append()?;
                Ok(fdatasync(&self.file)?)
            }
            Way::Group => {
                let mine = self.append_locked()?;
                self.wait_durable(mine)
            }
        }
    }

    fn batch(&mut self, steps: &[Step]) -> Result<()> {
        for _ in steps {
            self.append()?;
        }
        Ok(fdatasync(&self.file)?)
    }

    fn count(&mut self) -> Result<u64> {
        let (tail, mut count, mut chunk) = (self.words.word(TAIL).load(Acquire), 0, vec![0; 1 << 20]);
        let mut at = 0;
        while at < tail {
            let len = (tail - at).min(chunk.len() as u64) as usize;
            self.file.read_exact_at(&mut chunk[..len], at)?;
            count += chunk[..len].chunks(FRAME as usize).filter(|frame| frame[0] != 0).count() as u64;
            at += len as u64;
        }
        Ok(count)
    }

    fn poll(&mut self) -> Result<u64> {
        Ok(self.words.word(TAIL).load(Acquire) / FRAME)
    }
}
