//! Locks between the threads of one process, which a forked child can live with.
//!
//! parking_lot keeps the waiting threads of a whole process in one table. A forked child inherits that table with
//! entries of threads that it does not have, and whose stacks its own threads are given: it waits for ever, or reads
//! rubbish and aborts. std's locks keep their state in themselves, so a lock that the child makes is sound. A lock that
//! the *parent* made may be held by a thread that does not exist here: the child touches none of them ([`PerImage`] for
//! those that are static; handles are checked by [`super::Process::forks`]).
//!
//! A panic under a lock does not poison it: everything guarded here is whole between any two statements, or is checked
//! against the bytes.

#[cfg(all(test, shuttle))]
mod shuttled;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;
#[cfg(not(all(test, shuttle)))]
use std::{sync, thread, time::Instant};

#[cfg(all(test, shuttle))]
use shuttled::{Instant, sync, thread};
use sync::RwLockReadGuard;
use sync::atomic::{Ordering, fence};
use thread::Thread;

pub(crate) use sync::MutexGuard;
pub(crate) use sync::atomic::{AtomicBool, AtomicUsize};

#[cfg(all(test, shuttle))]
pub(crate) use shuttle::thread_local;
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::thread_local;

/// A mutex without poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of whoever has it alone; no lock is needed.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Wakes who waits with a guard of a [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Bell(sync::Condvar);

impl Bell {
    pub(crate) const fn new() -> Self {
        Bell(sync::Condvar::new())
    }

    pub(crate) fn ring(&self) {
        self.0.notify_all();
    }

    /// Waits for the bell or for the end of the time, without the lock.
    pub(crate) fn wait<T>(&self, guard: MutexGuard<'_, T>, time: Duration) {
        drop(self.0.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A readers-writer lock without poison.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        RwLock(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let guard = match self.0.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(RwLockWriteGuard { lock: self, guard: Some(guard) })
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { lock: self, guard: Some(self.lock_to_write()) }
    }

    fn lock_to_write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`RwLock`], held for writing.
#[derive(Debug)]
pub(crate) struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    /// `None` only within [`RwLockWriteGuard::unlocked`].
    guard: Option<sync::RwLockWriteGuard<'a, T>>,
}

impl<T> RwLockWriteGuard<'_, T> {
    /// Runs something without the lock, which is taken again before this returns: others may read, and write, meanwhile.
    pub(crate) fn unlocked<R>(this: &mut Self, run: impl FnOnce() -> R) -> R {
        this.guard = None;
        let done = run();
        this.guard = Some(this.lock.lock_to_write());
        done
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_deref().expect("it is locked wherever it can be reached")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_deref_mut().expect("it is locked wherever it can be reached")
    }
}

/// How often who waits for a [`FairMutex`] looks and yields before it sleeps.
const SPINS: u32 = if cfg!(all(test, shuttle)) { 1 } else { 64 };

/// A mutex that goes from thread to thread in the order they came, and is waited for no longer than one likes.
///
/// Where nobody waits, it is the plain mutex and one look at a counter. While anybody waits, only the first in line tries
/// for it, and whoever has had it wakes that one. Who need not have it any more, because its holder has done what it was
/// wanted for, holds nobody up: see [`FairMutex::try_lock_unless`].
#[derive(Debug, Default)]
pub(crate) struct FairMutex<T> {
    value: Mutex<T>,
    line: Line,
}

/// Who waits.
#[derive(Debug, Default)]
struct Line {
    /// How many there are, to be looked at without the gate.
    len: AtomicUsize,
    gate: Mutex<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    waiting: VecDeque<Waiter>,
    tickets: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    thread: Thread,
    excuse: Option<Arc<Excuse>>,
}

/// Whether somebody who waits for a [`FairMutex`] need not have it any more: its holder has done what it was wanted for.
#[derive(Debug, Default)]
pub(crate) struct Excuse(AtomicBool);

impl Excuse {
    /// By the holder of the mutex, before it lets go of it.
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_given(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How waiting for a [`FairMutex`] ended.
#[derive(Debug)]
pub(crate) enum Waited<'a, T> {
    Taken(FairGuard<'a, T>),
    Excused,
    /// The time is over.
    Late,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Puts this thread behind all others.
    fn enter(&self, excuse: Option<&Arc<Excuse>>) -> u64 {
        let mut gate = self.gate.lock();
        gate.tickets += 1;
        let ticket = gate.tickets;
        gate.waiting.push_back(Waiter { ticket, thread: thread::current(), excuse: excuse.cloned() });
        self.len.store(gate.waiting.len(), Ordering::Relaxed);
        drop(gate);
        // Whoever waits says so and then tries; whoever unlocks does that and then looks whether somebody waits. With a
        // fence in between on both sides, at least one of them sees the other, so nobody is left asleep at a free lock.
        fence(Ordering::SeqCst);
        ticket
    }

    fn leave(&self, gate: &mut Gate, ticket: u64) {
        gate.waiting.retain(|other| other.ticket != ticket);
        self.len.store(gate.waiting.len(), Ordering::Relaxed);
    }

    fn wake_first(gate: &Gate) {
        if let Some(first) = gate.waiting.front() {
            first.thread.unpark();
        }
    }

    /// Sends away who need not wait any more, and wakes the first of the others.
    fn pass_on(&self) {
        let mut gate = self.gate.lock();
        gate.waiting.retain(|waiter| {
            let is_excused = waiter.excuse.as_ref().is_some_and(|excuse| excuse.is_given());
            if is_excused {
                waiter.thread.unpark();
            }
            !is_excused
        });
        self.len.store(gate.waiting.len(), Ordering::Relaxed);
        Line::wake_first(&gate);
    }
}

impl<T> FairMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        let gate = Mutex::new(Gate { waiting: VecDeque::new(), tickets: 0 });
        FairMutex { value: Mutex::new(value), line: Line { len: AtomicUsize::new(0), gate } }
    }

    pub(crate) fn try_lock(&self) -> Option<FairGuard<'_, T>> {
        if self.line.is_empty() { self.guard() } else { None }
    }

    fn guard(&self) -> Option<FairGuard<'_, T>> {
        let value = self.value.try_lock()?;
        Some(FairGuard { value, _turn: Turn { line: &self.line } })
    }

    pub(crate) fn lock(&self) -> FairGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock_for(Duration::from_secs(3600)) {
                return guard;
            }
        }
    }

    pub(crate) fn try_lock_for(&self, time: Duration) -> Option<FairGuard<'_, T>> {
        if let Some(guard) = self.try_lock() {
            return Some(guard);
        }
        match self.wait(time, None, SPINS) {
            Waited::Taken(guard) => Some(guard),
            Waited::Excused | Waited::Late => None,
        }
    }

    /// The same, unless it need not be had any more. Who waits so for a short time only has no place in line.
    pub(crate) fn try_lock_unless(&self, excuse: &Arc<Excuse>, time: Duration) -> Waited<'_, T> {
        // The owner is about a commit away from letting go, or from having done it; being woken up takes longer than that.
        for _ in 0..SPINS {
            if excuse.is_given() {
                return Waited::Excused;
            }
            if let Some(guard) = self.try_lock() {
                return Waited::Taken(guard);
            }
            thread::yield_now();
        }
        self.wait(time, Some(excuse), 0)
    }

    fn wait(&self, time: Duration, excuse: Option<&Arc<Excuse>>, spins: u32) -> Waited<'_, T> {
        #[expect(
            clippy::disallowed_methods,
            reason = "threads wait in real time, whatever a simulated clock says"
        )]
        let now = Instant::now;
        let start = now();
        let ticket = self.line.enter(excuse);
        let mut spun = 0;
        loop {
            let over = now() - start >= time;
            let mut gate = self.line.gate.lock();
            let is_first = gate.waiting.front().is_some_and(|first| first.ticket == ticket);
            let is_excused = excuse.is_some_and(|excuse| excuse.is_given());
            let taken = if is_first && !is_excused { self.guard() } else { None };
            if taken.is_some() || is_excused || over {
                self.line.leave(&mut gate, ticket);
                if taken.is_none() && is_first {
                    // It may have been woken for a lock that is free by now.
                    Line::wake_first(&gate);
                }
                return match taken {
                    Some(guard) => Waited::Taken(guard),
                    None if is_excused => Waited::Excused,
                    None => Waited::Late,
                };
            }
            drop(gate);
            // As above.
            if spun < spins {
                spun += 1;
                thread::yield_now();
            } else {
                thread::park_timeout(time.saturating_sub(now() - start));
            }
        }
    }
}

/// A [`FairMutex`], held.
#[derive(Debug)]
pub(crate) struct FairGuard<'a, T> {
    value: MutexGuard<'a, T>,
    /// Ends after the field before: that is the order in which a struct is dropped.
    _turn: Turn<'a>,
}

impl<T> Deref for FairGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for FairGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Wakes the first in line when it ends.
#[derive(Debug)]
struct Turn<'a> {
    line: &'a Line,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // See `Line::enter`.
        fence(Ordering::SeqCst);
        if !self.line.is_empty() {
            self.line.pass_on();
        }
    }
}

/// A static that each process image has for itself: a forked child finds a fresh one, in whatever state the threads of
/// its parent had theirs.
///
/// A child of the eighth generation meets its first ancestor's; nothing worse than without this can come of it.
#[derive(Debug)]
pub(crate) struct PerImage<T>([T; 8]);

impl<T> PerImage<T> {
    pub(crate) const fn new(images: [T; 8]) -> Self {
        PerImage(images)
    }

    /// That of a process image with this many forks behind it ([`super::Process::forks`]).
    pub(crate) fn of(&self, forks: u64) -> &T {
        let [first, ..] = &self.0;
        usize::try_from(forks % 8).ok().and_then(|i| self.0.get(i)).unwrap_or(first)
    }
}

#[cfg(all(test, shuttle))]
mod shuttled_tests {
    use super::*;

    #[test]
    fn fair_mutex_excludes_in_the_order_of_arrival_in_any_order_of_steps() {
        shuttle::check_random(
            || {
                let mutex = Arc::new(FairMutex::new(Vec::new()));
                let held = mutex.lock();
                let threads: Vec<_> = (0..3)
                    .map(|i| {
                        let other = Arc::clone(&mutex);
                        let thread = shuttle::thread::spawn(move || other.lock().push(i));
                        while mutex.line.gate.lock().waiting.len() <= i {
                            thread::yield_now();
                        }
                        thread
                    })
                    .collect();
                drop(held);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(*mutex.lock(), [0, 1, 2]);
                assert!(mutex.try_lock().is_some());
            },
            10_000,
        );
    }

    #[test]
    fn fair_mutex_is_had_by_each_or_its_holder_does_the_work_in_any_order_of_steps() {
        shuttle::check_random(
            || {
                let mutex = Arc::new((FairMutex::new(0), Mutex::new(Vec::new())));
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        let mutex = Arc::clone(&mutex);
                        shuttle::thread::spawn(move || {
                            let (done, wanted) = &*mutex;
                            let mine: Arc<Excuse> = Arc::default();
                            wanted.lock().push(Arc::clone(&mine));
                            match done.try_lock_unless(&mine, Duration::from_secs(3600)) {
                                Waited::Taken(mut done) => {
                                    for excuse in std::mem::take(&mut *wanted.lock()) {
                                        *done += 1;
                                        excuse.give();
                                    }
                                }
                                Waited::Excused => {}
                                Waited::Late => panic!("nobody is late"),
                            }
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(*mutex.0.lock(), 3);
            },
            10_000,
        );
    }

    #[test]
    fn fair_mutex_loses_no_turn_to_a_waiter_that_gives_up_in_any_order_of_steps() {
        shuttle::check_random(
            || {
                let mutex = Arc::new(FairMutex::new(0));
                let threads: Vec<_> = (0..3)
                    .map(|i| {
                        let mutex = Arc::clone(&mutex);
                        shuttle::thread::spawn(move || {
                            let turn = if i == 0 {
                                Some(mutex.lock())
                            } else {
                                mutex.try_lock_for(Duration::from_secs(1))
                            };
                            turn.map_or(0, |mut value| {
                                let before = *value;
                                thread::yield_now();
                                *value = before + 1;
                                1
                            })
                        })
                    })
                    .collect();
                let done: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
                assert_eq!(*mutex.lock(), done);
            },
            10_000,
        );
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn fair_mutex_excludes_in_the_order_of_arrival_and_gives_up() {
        let mutex = Arc::new(FairMutex::new(Vec::new()));
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        assert!(mutex.try_lock_for(Duration::from_millis(5)).is_none());
        let mut threads = Vec::new();
        for i in 0..8 {
            let (ready, is_ready) = channel();
            let other = Arc::clone(&mutex);
            threads.push(thread::spawn(move || {
                ready.send(()).unwrap();
                other.lock().push(i);
            }));
            is_ready.recv().unwrap();
            while threads_waiting(&mutex).len() <= i {
                thread::yield_now();
            }
        }
        drop(held);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*mutex.lock(), (0..8).collect::<Vec<_>>());
        assert!(mutex.try_lock().is_some());
    }

    fn threads_waiting<T>(mutex: &FairMutex<T>) -> Arc<[u64]> {
        mutex.line.gate.lock().waiting.iter().map(|waiter| waiter.ticket).collect()
    }

    #[test]
    fn fair_mutex_sends_away_who_is_excused_and_goes_to_who_is_not() {
        let mutex = Arc::new(FairMutex::new(0));
        let held = mutex.lock();
        let excuses: Vec<Arc<Excuse>> = (0..4).map(|_| Arc::default()).collect();
        let threads: Vec<_> = excuses
            .iter()
            .enumerate()
            .map(|(i, excuse)| {
                let (mutex, excuse, other) = (Arc::clone(&mutex), Arc::clone(excuse), Arc::clone(&mutex));
                let thread =
                    thread::spawn(move || match mutex.try_lock_unless(&excuse, Duration::from_secs(60)) {
                        Waited::Taken(mut value) => {
                            *value += 1;
                            "taken"
                        }
                        Waited::Excused => "excused",
                        Waited::Late => "late",
                    });
                while threads_waiting(&other).len() <= i {
                    thread::yield_now();
                }
                thread
            })
            .collect();
        for (i, excuse) in excuses.iter().enumerate() {
            if i != 1 {
                excuse.give();
            }
        }
        drop(held);
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(answers, ["excused", "taken", "excused", "excused"]);
        assert_eq!((*mutex.lock(), threads_waiting(&mutex).len()), (1, 0));
    }

    #[test]
    fn fair_mutex_loses_no_turn_to_a_waiter_that_gives_up() {
        let mutex = Arc::new(FairMutex::new(0u64));
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let mutex = Arc::clone(&mutex);
                thread::spawn(move || {
                    let mut done = 0;
                    for _ in 0..3000 {
                        if let Some(mut value) = mutex.try_lock_for(Duration::from_micros(i * 7)) {
                            *value += 1;
                            done += 1;
                        }
                    }
                    done
                })
            })
            .collect();
        let done: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(*mutex.lock(), done);
    }

    #[test]
    fn panic_under_a_lock_leaves_it_usable() {
        let mutex = Arc::new(FairMutex::new(1));
        let other = Arc::clone(&mutex);
        let panicked = thread::spawn(move || {
            let _held = other.lock();
            std::panic::panic_any("under the lock");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*mutex.lock(), 1);
    }
}
