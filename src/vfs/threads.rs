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
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;
#[cfg(not(all(test, shuttle)))]
use std::{sync, thread, time::Instant};

#[cfg(all(test, shuttle))]
use shuttled::{Instant, sync, thread};
use sync::RwLockReadGuard;
use thread::Thread;

pub(crate) use sync::atomic::AtomicUsize;
pub(crate) use sync::{MutexGuard, RwLockWriteGuard};

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
        match self.0.try_write() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often who waits for a [`FairMutex`] looks and yields before it sleeps.
const SPINS: u32 = if cfg!(all(test, shuttle)) { 1 } else { 64 };

/// A mutex that is handed from thread to thread in the order they came, and waited for no longer than one likes.
#[derive(Debug, Default)]
pub(crate) struct FairMutex<T> {
    gate: Mutex<Gate>,
    /// Locked by the gate's owner only, so never contended.
    value: Mutex<T>,
}

#[derive(Debug, Default)]
struct Gate {
    /// The ticket of who has the lock.
    owner: Option<u64>,
    waiting: VecDeque<(u64, Thread)>,
    tickets: u64,
}

impl<T> FairMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        let gate = Gate { owner: None, waiting: VecDeque::new(), tickets: 0 };
        FairMutex { gate: Mutex::new(gate), value: Mutex::new(value) }
    }

    pub(crate) fn try_lock(&self) -> Option<FairGuard<'_, T>> {
        let mut gate = self.gate.lock();
        if gate.owner.is_some() {
            return None;
        }
        gate.tickets += 1;
        gate.owner = Some(gate.tickets);
        drop(gate);
        Some(self.enter())
    }

    pub(crate) fn lock(&self) -> FairGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock_for(Duration::from_secs(3600)) {
                return guard;
            }
        }
    }

    pub(crate) fn try_lock_for(&self, time: Duration) -> Option<FairGuard<'_, T>> {
        let ticket = {
            let mut gate = self.gate.lock();
            gate.tickets += 1;
            let ticket = gate.tickets;
            if gate.owner.is_none() {
                gate.owner = Some(ticket);
                drop(gate);
                return Some(self.enter());
            }
            gate.waiting.push_back((ticket, thread::current()));
            ticket
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "threads wait in real time, whatever a simulated clock says"
        )]
        let now = Instant::now;
        let start = now();
        // The owner is about a commit away from handing over; being woken up takes longer than that.
        for _ in 0..SPINS {
            thread::yield_now();
            if self.gate.lock().owner == Some(ticket) {
                return Some(self.enter());
            }
        }
        loop {
            let left = time.saturating_sub(now() - start);
            thread::park_timeout(left);
            let mut gate = self.gate.lock();
            if gate.owner == Some(ticket) {
                drop(gate);
                return Some(self.enter());
            }
            if now() - start >= time {
                gate.waiting.retain(|(other, _)| *other != ticket);
                return None;
            }
        }
    }

    fn enter(&self) -> FairGuard<'_, T> {
        FairGuard { mutex: self, value: Some(self.value.try_lock().unwrap_or_else(|| self.value.lock())) }
    }
}

/// A [`FairMutex`], held.
#[derive(Debug)]
pub(crate) struct FairGuard<'a, T> {
    mutex: &'a FairMutex<T>,
    /// `None` only while it is dropped.
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Deref for FairGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("there until the guard is dropped")
    }
}

impl<T> DerefMut for FairGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("there until the guard is dropped")
    }
}

impl<T> Drop for FairGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        let mut gate = self.mutex.gate.lock();
        let next = gate.waiting.pop_front();
        gate.owner = next.as_ref().map(|(ticket, _)| *ticket);
        drop(gate);
        if let Some((_, thread)) = next {
            thread.unpark();
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
    use std::sync::Arc;

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
                        while held.mutex.gate.lock().waiting.len() <= i {
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
    use std::sync::Arc;
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
            let mutex = Arc::clone(&mutex);
            threads.push(thread::spawn(move || {
                ready.send(()).unwrap();
                mutex.lock().push(i);
            }));
            is_ready.recv().unwrap();
            while Arc::clone(&threads_waiting(&held)).len() <= i {
                thread::yield_now();
            }
        }
        drop(held);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*mutex.lock(), (0..8).collect::<Vec<_>>());
        assert!(mutex.try_lock().is_some());
    }

    fn threads_waiting<T>(held: &FairGuard<'_, T>) -> Arc<[u64]> {
        held.mutex.gate.lock().waiting.iter().map(|(ticket, _)| *ticket).collect()
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
