//! Commands in the queue of the writer, each with the caller that waits for its reply.
//!
//! [`Queued`] pairs a command with the sender of its reply, so that a reply is never of another
//! type than its command's. The writer decides a group of them, keeps the replies until the group
//! is durable, and only then acknowledges them.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use nearprint_storage::{Records, StorageError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::api::client::Client;
use crate::api::error::Refused;
use crate::write::command::{Bounds, Command};
use crate::write::core::{CommandGroup, Core};
use crate::write::outbox::Admission;

/// Single writes have this part of the queue to themselves, at least one change.
const SINGLE_PART: usize = 8;

/// The changes that may wait for the writer.
///
/// Batches wait for room, in order, and whoever waits is served before those that do not. So
/// single writes have room of their own: batches that always wait would keep them out.
#[derive(Debug)]
pub(crate) struct QueueRoom {
    singles: Room,
    batches: Room,
}

#[derive(Debug)]
struct Room {
    free: Arc<Semaphore>,
    max: usize,
}

impl QueueRoom {
    /// For this many changes.
    pub(crate) fn new(changes_max: usize) -> Self {
        let singles = (changes_max / SINGLE_PART).max(1);
        let batches = changes_max.saturating_sub(singles).max(1);
        let room = |max| Room { free: Arc::new(Semaphore::new(max)), max };
        Self { singles: room(singles), batches: room(batches) }
    }

    /// Room for the changes of a command, or all that there is for its kind.
    ///
    /// # Errors
    /// [`Refused::Overloaded`] if a single write would have to wait.
    pub(crate) async fn take(
        &self,
        admission: Admission<'_>,
        changes: usize,
    ) -> Result<OwnedSemaphorePermit, Refused> {
        let room = match admission {
            Admission::Shed => &self.singles,
            Admission::Wait | Admission::Collect(_) => &self.batches,
        };
        let (free, changes) = (Arc::clone(&room.free), changes.min(room.max) as u32);
        match admission {
            Admission::Shed => {
                free.try_acquire_many_owned(changes).map_err(|_| Refused::Overloaded)
            }
            Admission::Wait | Admission::Collect(_) => {
                free.acquire_many_owned(changes).await.map_err(|_| Refused::Stopping)
            }
        }
    }

    /// Whether any change waits.
    pub(crate) fn is_used(&self) -> bool {
        [&self.singles, &self.batches].iter().any(|room| room.free.available_permits() < room.max)
    }
}

/// A command in the queue, whatever its type.
pub(crate) trait QueuedWrite: Debug + Send {
    /// What it takes at most.
    fn bounds(&self) -> Bounds;

    /// Who waits for it; none if the engine itself does.
    fn client(&self) -> Option<Client> {
        None
    }

    /// Decides it, and keeps its reply.
    ///
    /// # Errors
    /// [`StorageError`]: the core must not be used again.
    fn decide(&mut self, core: &mut Core, group: &CommandGroup) -> Result<(), StorageError>;

    /// Whether it was refused because a stored record or the index cannot be read.
    fn met_unreadable(&self) -> bool;

    /// Lets the reply read these records instead of those of the time when it was decided.
    fn pin(&mut self, records: &Records);

    /// Sends the reply. What was decided must be durable.
    fn acknowledge(self: Box<Self>);

    /// Tells the caller that nothing changed, and why.
    fn refuse(self: Box<Self>, refused: Refused);
}

#[derive(Debug)]
pub(crate) struct Queued<C: Command> {
    bounds: Bounds,
    /// When it was accepted, in milliseconds since 1970.
    at_ms: u64,
    /// `None` once it is decided.
    command: Option<C>,
    /// [`Refused::Failed`] until it is decided.
    reply: Result<C::Reply, Refused>,
    caller: oneshot::Sender<Result<C::Reply, Refused>>,
    client: Option<Client>,
    /// Released with the command. Commands of the engine itself need none: it bounds them.
    _permits: Option<OwnedSemaphorePermit>,
}

/// A write that is in the queue.
///
/// Dropping it does not take the write back.
#[derive(Debug)]
#[must_use = "only waiting for a write shows whether it was done"]
pub struct Pending<R> {
    reply: oneshot::Receiver<Result<R, Refused>>,
    bytes: usize,
    /// The longest wait; of a lone engine, which does not depend on others, none.
    wait_max: Option<Duration>,
}

impl<C: Command> Queued<C> {
    /// A command that is accepted at this time, and where its reply arrives. The reply takes about
    /// `bytes` bytes.
    pub(crate) fn new(
        command: C,
        at_ms: u64,
        (client, permits): (Option<Client>, Option<OwnedSemaphorePermit>),
        bytes: usize,
    ) -> (Box<Self>, Pending<C::Reply>) {
        let (caller, reply) = oneshot::channel();
        let queued = Self {
            bounds: command.bounds(),
            at_ms,
            command: Some(command),
            reply: Err(Refused::Failed),
            caller,
            client,
            _permits: permits,
        };
        (Box::new(queued), Pending { reply, bytes, wait_max: None })
    }
}

impl<C: Command> QueuedWrite for Queued<C> {
    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn client(&self) -> Option<Client> {
        self.client.clone()
    }

    fn decide(&mut self, core: &mut Core, group: &CommandGroup) -> Result<(), StorageError> {
        if let Some(command) = self.command.take() {
            self.reply = core.decide(command, self.at_ms, group)?;
        }
        Ok(())
    }

    fn met_unreadable(&self) -> bool {
        matches!(self.reply, Err(Refused::Unreadable | Refused::UnreadableIndex))
    }

    fn pin(&mut self, records: &Records) {
        if let Ok(reply) = &mut self.reply {
            C::pin(reply, records);
        }
    }

    fn acknowledge(self: Box<Self>) {
        // The caller may have left; what was decided stays decided.
        drop(self.caller.send(self.reply));
    }

    fn refuse(self: Box<Self>, refused: Refused) {
        drop(self.caller.send(Err(refused)));
    }
}

impl<R> Pending<R> {
    /// Memory that its reply takes, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn no_longer_than(self, wait_max: Option<Duration>) -> Self {
        Self { wait_max, ..self }
    }

    /// Waits until the write is as durable as the policy promises.
    ///
    /// # Errors
    /// [`Refused`]: it was not done. [`Refused::OutcomeUnknown`]: it may be.
    pub async fn wait(self) -> Result<R, Refused> {
        let replied = match self.wait_max {
            None => self.reply.await,
            Some(wait_max) => match timeout(wait_max, self.reply).await {
                Ok(replied) => replied,
                Err(_) => return Err(Refused::OutcomeUnknown),
            },
        };
        // The writer replies to every command, unless it panics.
        replied.unwrap_or(Err(Refused::Failed))
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub(crate) fn wait_blocking(self) -> Result<R, Refused> {
        self.reply.blocking_recv().unwrap_or(Err(Refused::Failed))
    }
}

/// Decides writes in order, as one group, when the clock says this: the first one, and others as
/// long as there is time. Those that add documents leave `free_bytes_min` bytes of the disk free.
/// None of them may be acknowledged before the core has made them durable. Returns how many were
/// decided.
///
/// # Errors
/// [`StorageError`]: the core must not be used again. A full disk is not such an error: it refuses
/// the group, and nothing changed.
pub(crate) fn decide_group(
    core: &mut Core,
    writes: &mut [Box<dyn QueuedWrite>],
    (clock_ms, free_bytes_min): (u64, u64),
    has_time: &mut dyn FnMut() -> bool,
) -> Result<Result<usize, Refused>, StorageError> {
    let adds = writes.iter().any(|write| write.bounds().adds);
    let free_bytes_min = if adds { free_bytes_min } else { 0 };
    let bytes = writes.iter().map(|write| write.bounds().payload_bytes).sum();
    let records = writes.iter().map(|write| write.bounds().records).sum();
    let begun = match core.begin_group((records, bytes), free_bytes_min, clock_ms) {
        Err(error) if error.is_full() => return Ok(Err(Refused::DiskFull)),
        begun => begun?,
    };
    let mut decided = 0;
    for write in writes {
        if decided > 0 && !has_time() {
            break;
        }
        write.decide(core, &begun)?;
        decided += 1;
    }
    Ok(Ok(decided))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn batches_that_wait_keep_no_single_write_out() {
        let queue = QueueRoom::new(16);
        let batch = queue.take(Admission::Wait, 1_000).await.unwrap();
        let mut next = Box::pin(queue.take(Admission::Wait, 1));
        assert!(next.as_mut().now_or_never().is_none(), "the room of batches is taken");
        let single = queue.take(Admission::Shed, 1).await.unwrap();
        let other = queue.take(Admission::Shed, 1).await.unwrap();
        assert_eq!(queue.take(Admission::Shed, 1).await.unwrap_err(), Refused::Overloaded);
        drop(batch);
        assert!(next.await.is_ok() && queue.is_used());
        drop((single, other));
        assert!(!queue.is_used());
    }
}
