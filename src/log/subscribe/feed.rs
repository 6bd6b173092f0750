//! A channel of commits, fed by a thread of its own.

use std::fmt;
use std::ops::Deref;
use std::sync::mpsc::{Receiver, sync_channel};

use super::{Delivery, Subscription, Waker};
use crate::error::Result;

/// The receiving end of a channel that a thread feeds. It ends when the subscription is stopped, behind the first error,
/// and when this is dropped.
pub struct Feed {
    receiver: Receiver<Result<Delivery>>,
    waker: Waker,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl Feed {
    pub(super) fn start(subscription: Subscription, capacity: usize) -> std::io::Result<Feed> {
        let (sender, receiver) = sync_channel(capacity);
        let waker = subscription.waker();
        std::thread::Builder::new().name("foldlog-feed".into()).spawn(move || {
            for delivery in subscription {
                if sender.send(delivery).is_err() {
                    break; // nobody listens any more
                }
            }
        })?;
        Ok(Feed { receiver, waker })
    }

    /// What other threads can end it with.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Deref for Feed {
    type Target = Receiver<Result<Delivery>>;

    fn deref(&self) -> &Self::Target {
        &self.receiver
    }
}

impl Drop for Feed {
    /// Ends the thread if it waits for the log; if it waits for room in the channel, the end of the receiver does.
    fn drop(&mut self) {
        self.waker.stop();
    }
}
