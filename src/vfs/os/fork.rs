//! What `fork` does to locks, and what is done about it.
//!
//! A `flock` belongs to the open file description, which a forked child shares: the lock of a parent that dies lives
//! on in the child, and an unlock in the child frees the parent's. So the child *closes* every lock descriptor, which
//! does nothing to the parent, before `fork` returns in it (`pthread_atfork`). Descriptor numbers are kept in a table
//! that the handler can walk without a lock and without memory; a count of forks tells a handle that it has been closed.
//!
//! ```text
//!   opener:   quiet?  open  enter in table  still quiet? ── no: close, open again
//!   forker:             BEGUN += 1   fork   ENDED += 1
//!   child:                             └─ close all in table, FORKS += 1
//! ```
//! A fork between `open` and the entry would leave the child a descriptor nobody knows of; the opener sees that from
//! the two counters. A forker never waits for an opener.
//!
//! Not seen: children made by `vfork`, `posix_spawn` or a bare `clone`. They run no handlers, and lose the descriptors
//! as soon as they `exec` (close-on-exec). The library must never be unloaded, or the handlers would dangle.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// How often a fork under way in another thread is waited for, at [`PAUSE`] each: a second in all.
const QUIET_TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

const FREE: i32 = -1;
const CHUNK_SLOTS: usize = 64;

/// A part of the table. Chunks are linked once and never freed.
struct Chunk {
    slots: [AtomicI32; CHUNK_SLOTS],
    next: AtomicPtr<Chunk>,
}

static TABLE: Chunk = Chunk::new();
/// Forks that led to this process, counted in the child.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Forks that this process has begun and ended, counted in the parent.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

impl Chunk {
    const fn new() -> Chunk {
        Chunk {
            slots: [const { AtomicI32::new(FREE) }; CHUNK_SLOTS],
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Chunk> {
        let next = self.next.load(Ordering::Acquire);
        #[expect(unsafe_code, reason = "a list that a signal handler may walk")]
        // SAFETY: `next` is null or comes from `Box::into_raw` in `enter`, which publishes it whole (release, paired
        // with the acquire above); nobody frees it or makes a `&mut` of it afterwards.
        unsafe {
            next.as_ref()
        }
    }
}

/// A lock descriptor's place in the table, and when it got there.
#[derive(Debug)]
pub(super) struct Registered {
    slot: &'static AtomicI32,
    forks: u64,
}

impl Registered {
    /// Whether the descriptor is still open, that is, whether this process opened it itself.
    pub(super) fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::SeqCst)
    }

    /// Takes the descriptor out of the table; it must be unlocked by now, and is closed next. (In this order: a fork
    /// in between leaves the child an unlocked stray, the other order would close a stranger's descriptor in it.)
    pub(super) fn leave(&self) {
        self.slot.store(FREE, Ordering::SeqCst);
    }
}

/// How many forks lie between this process and the one that first asked.
pub(super) fn count() -> u64 {
    // Without memory for the handlers no lock can be opened either, so nothing depends on the count.
    let _no_locks_then = install();
    FORKS.load(Ordering::SeqCst)
}

/// Opens a lock file so that a forked child will close it. `open` is told whether it has been called before.
pub(super) fn open_registered(
    mut open: impl FnMut(bool) -> io::Result<File>,
) -> io::Result<(File, Registered)> {
    install()?;
    let mut again = false;
    loop {
        let before = quiet()?;
        let forks = FORKS.load(Ordering::SeqCst);
        let file = open(again)?;
        let entry = Registered { slot: enter(file.as_raw_fd()), forks };
        if BEGUN.load(Ordering::SeqCst) == before {
            return Ok((file, entry));
        }
        if entry.is_ours() {
            entry.leave();
        } else {
            // A signal handler of this thread has forked, and this is the child: the number may be closed already.
            let _closed = std::os::fd::IntoRawFd::into_raw_fd(file);
        }
        again = true;
    }
}

/// The number of forks begun, at a moment when all of them had ended.
fn quiet() -> io::Result<u64> {
    for _ in 0..QUIET_TRIES {
        let ended = ENDED.load(Ordering::SeqCst);
        let begun = BEGUN.load(Ordering::SeqCst);
        if begun == ended {
            return Ok(begun);
        }
        std::thread::sleep(PAUSE);
    }
    // Only if another library's fork handler is stuck, perhaps on a lock that our caller holds.
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "a fork in another thread does not come to its end"))
}

/// Puts a descriptor into a free slot, behind a new chunk if there is none.
fn enter(fd: RawFd) -> &'static AtomicI32 {
    let mut chunk: &'static Chunk = &TABLE;
    loop {
        for slot in &chunk.slots {
            if slot.compare_exchange(FREE, fd, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return slot;
            }
        }
        chunk = match chunk.next() {
            Some(next) => next,
            None => chunk.grow(),
        };
    }
}

impl Chunk {
    /// The chunk after this one, made if need be.
    fn grow(&'static self) -> &'static Chunk {
        let new = Box::into_raw(Box::new(Chunk::new()));
        let null = std::ptr::null_mut();
        match self.next.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire) {
            #[expect(unsafe_code, reason = "a list that a signal handler may walk")]
            // SAFETY: `new` was leaked just above and is never freed once it is published.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                #[expect(unsafe_code, reason = "a list that a signal handler may walk")]
                // SAFETY: `new` was never published, so this thread alone has it; `theirs` was, by the same rule as
                // above, and is not null because the exchange failed.
                unsafe {
                    drop(Box::from_raw(new));
                    &*theirs
                }
            }
        }
    }
}

/// Registers the handlers once. Twice, when two threads race, does no harm: all counters are only compared.
///
/// No `Once`: a fork while another thread is inside would leave the child one that never completes.
fn install() -> io::Result<()> {
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    #[expect(unsafe_code, reason = "rustix has no pthread_atfork")]
    // SAFETY: the handlers are functions of this library, which is never unloaded; they touch only atomics and close(2).
    let error = unsafe { libc::pthread_atfork(Some(fork_begins), Some(fork_ended), Some(forked_off)) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

extern "C" fn fork_begins() {
    BEGUN.fetch_add(1, Ordering::SeqCst);
}

/// In the parent, whether or not the fork succeeded.
extern "C" fn fork_ended() {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

/// In the child, whose only thread this is. Async-signal-safe: no memory, no locks, no panics.
extern "C" fn forked_off() {
    let mut chunk = Some(&TABLE);
    while let Some(part) = chunk {
        for slot in &part.slots {
            let fd = slot.swap(FREE, Ordering::SeqCst);
            if fd != FREE {
                #[expect(
                    unsafe_code,
                    reason = "closing descriptors whose owners don't exist in this process"
                )]
                // SAFETY: the number is a lock file's: entries leave the table before their descriptor is closed. Its
                // owner in this process sees from FORKS that it is closed and never uses or closes it again.
                unsafe {
                    libc::close(fd);
                }
            }
        }
        chunk = part.next();
    }
    FORKS.fetch_add(1, Ordering::SeqCst);
    // Forks that other threads of the parent had under way don't exist here.
    ENDED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
}
