//! Windows: waking those who wait for a word, by named events; `WaitOnAddress` stays inside one process.
//!
//! A system event that stays set wakes all who wait for it, but somebody has to reset it, and not too early. So a word
//! has four of them, and who waits for the value v waits for event v mod 4. Who has raised the word to n sets those of
//! n − 1 and n − 2, for everybody who still waits for an older value (n − 2 for a raise whose caller was overtaken by
//! the next), and resets the one of n + 1, long before somebody can wait for that. A waker that is held up for three
//! raises may reset one too late, and whoever falls asleep on it in just that moment sleeps to the end of its pause.
//!
//! Names hold in one logon session (`Local\`): a process of another one is not woken, and looks when its pause is over.

use std::io;
use std::iter::once;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{FALSE, TRUE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{CreateEventW, ResetEvent, SetEvent, WaitForSingleObject};

use crate::vfs::FileId;

const EVENTS: u64 = 4;

/// The bell of the one word of a mapping that has one: the first for which it was asked.
#[derive(Debug)]
pub(super) struct Bells {
    file: FileId,
    bell: OnceLock<(u64, Option<Bell>)>,
}

impl Bells {
    /// Of a mapped file: whoever maps the same one finds the same events.
    pub(super) fn of(file: FileId) -> Self {
        Bells { file, bell: OnceLock::new() }
    }

    /// The word's bell, opened if none is yet; `None` if another word has it, or the system refuses.
    pub(super) fn open(&self, at: u64) -> Option<&Bell> {
        let (of, bell) = self.bell.get_or_init(|| (at, Bell::open(self.file, at).ok()));
        bell.as_ref().filter(|_| *of == at)
    }

    /// The word's bell, if it is open.
    pub(super) fn get(&self, at: u64) -> Option<&Bell> {
        self.bell.get().filter(|(of, _)| *of == at).and_then(|(_, bell)| bell.as_ref())
    }
}

/// The events of one word.
#[derive(Debug)]
pub(super) struct Bell([OwnedHandle; EVENTS as usize]);

impl Bell {
    fn open(file: FileId, at: u64) -> io::Result<Bell> {
        let event =
            |n: u64| open_event(&format!("Local\\foldlog-{:x}-{:x}-{at}-{n}", file.device, file.inode));
        Ok(Bell([event(0)?, event(1)?, event(2)?, event(3)?]))
    }

    fn event(&self, value: u64) -> &OwnedHandle {
        let [a, b, c, d] = &self.0;
        match value % EVENTS {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }

    /// Waits until the word is raised beyond this value, at most so long. `now` reads the word.
    pub(super) fn wait(&self, value: u64, time: Duration, now: impl Fn() -> u64) {
        let event = self.event(value);
        let began = Instant::now();
        while now() == value {
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() || !wait_for(event, left) {
                return;
            }
            // Set, and the word is as it was: left over from before the word was put back. Whoever raises it now has
            // done so before it sets the event, so the next look at the word sees what this reset may have undone.
            if now() == value {
                reset(event);
            }
        }
    }

    /// Wakes all who wait for a value before this one, to which the word has been raised.
    pub(super) fn wake(&self, value: u64) {
        set(self.event(value.wrapping_sub(1)));
        set(self.event(value.wrapping_sub(2)));
        reset(self.event(value.wrapping_add(1)));
    }
}

fn open_event(name: &str) -> io::Result<OwnedHandle> {
    let name: Vec<u16> = name.encode_utf16().chain(once(0)).collect();
    #[expect(unsafe_code, reason = "std has no named events")]
    // SAFETY: no security attributes; `name` ends with a 0 and outlives the call.
    let handle = unsafe { CreateEventW(std::ptr::null(), TRUE, FALSE, name.as_ptr()) };
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "what makes a handle gives it raw")]
    // SAFETY: the handle was just made, is not null, and belongs to nobody else.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Whether it was set within the time; `false` also for a wait that failed, which is then taken for the whole of it.
fn wait_for(event: &OwnedHandle, time: Duration) -> bool {
    // Rounded up, or the last millisecond would be spent asking.
    let millis = u32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u32::MAX - 1);
    #[expect(unsafe_code, reason = "std has no named events")]
    // SAFETY: the handle is open as long as `event` is.
    let ended = unsafe { WaitForSingleObject(event.as_raw_handle(), millis) };
    ended == WAIT_OBJECT_0
}

/// What fails here costs who waits the rest of a pause.
fn set(event: &OwnedHandle) {
    #[expect(unsafe_code, reason = "std has no named events")]
    // SAFETY: the handle is open as long as `event` is.
    let _ = unsafe { SetEvent(event.as_raw_handle()) };
}

fn reset(event: &OwnedHandle) {
    #[expect(unsafe_code, reason = "std has no named events")]
    // SAFETY: the handle is open as long as `event` is.
    let _ = unsafe { ResetEvent(event.as_raw_handle()) };
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn event_that_was_left_set_is_reset_and_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("words")).unwrap();
        let bell = Bell::open(super::super::windows::identity(&file).unwrap(), 8).unwrap();
        // Raised from 5 to 6, and then put back to 5.
        bell.wake(6);
        let looks = Cell::new(0);
        let now = || {
            looks.set(looks.get() + 1);
            5
        };
        bell.wait(5, Duration::from_millis(20), now);
        // Before the first wait, behind it, before the second, which is let run out.
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn only_the_word_asked_for_first_has_a_bell() {
        let bells = Bells::of(FileId { device: 1, inode: 2 });
        assert!(bells.get(8).is_none());
        assert!(bells.open(8).is_some() && bells.get(8).is_some());
        assert!(bells.open(16).is_none() && bells.get(16).is_none());
    }
}
