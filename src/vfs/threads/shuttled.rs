//! What [`super`] is made of when shuttle decides which thread goes on: `--cfg shuttle`.
//!
//! A time-out may end whenever the clock is asked, unless it is as good as none; so every race with one is found.

pub(crate) use shuttle::sync;

use std::cell::Cell;
use std::time::Duration;

use shuttle::rand::{Rng as _, thread_rng};

/// A wait this long never ends by itself.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// Longer than any time-out of a test, and far less than that.
const JUMP: Duration = Duration::from_secs(6);

pub(crate) mod thread {
    pub(crate) use shuttle::thread::{Thread, current, yield_now};

    /// Until somebody unparks this thread; or, one time in four, not so long.
    pub(crate) fn park_timeout(time: std::time::Duration) {
        use super::{FOR_EVER, thread_rng};
        use shuttle::rand::Rng as _;
        if time < FOR_EVER - FOR_EVER / 8 && thread_rng().gen_ratio(1, 4) {
            yield_now();
        } else {
            shuttle::thread::park();
        }
    }
}

/// A clock that jumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Instant {
        // All threads of a run are one thread of the system, and other runs are none of their business.
        std::thread_local! {
            static CLOCK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        }
        let on = if thread_rng().gen_ratio(1, 8) { JUMP } else { Duration::from_micros(1) };
        CLOCK.set(CLOCK.get() + on);
        Instant(CLOCK.get())
    }
}

impl std::ops::Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
