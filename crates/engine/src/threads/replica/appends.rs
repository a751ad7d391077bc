//! What a node has sent to the log, and what the log has answered.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::api::clock;
use crate::api::observer::Observer;
use crate::replication::log::{Log, LogError};
use crate::state::replica::LeadCounts;
use crate::threads::replica::log_thread::LogReading;
use crate::threads::replica::node::Node;

/// The appends of a node.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    /// Where to, once it is open.
    pub(crate) log: Option<Arc<dyn Log>>,
    pub(crate) counts: LeadCounts,
    unanswered: Vec<Unanswered>,
}

#[derive(Debug)]
struct Unanswered {
    answer: oneshot::Receiver<Result<u64, LogError>>,
    /// How far the log was read when it was sent.
    read: u64,
    sent_at: Instant,
}

impl Appends {
    /// Sends an entry, which has so many changes that were not sent before.
    pub(crate) fn append(&mut self, entry: Arc<[u8]>, read: u64, changes: u64) {
        let Some(log) = &self.log else { return };
        self.counts.appended += 1;
        self.counts.changes += changes;
        let (answer, sent_at) = (log.append(entry), clock::now());
        self.unanswered.push(Unanswered { answer, read, sent_at });
    }

    /// Hears what the log has answered. What has no answer is sent again if it does not count.
    pub(crate) fn hear(
        &mut self,
        node: &mut Node,
        reading: &mut LogReading,
        observer: &dyn Observer,
    ) {
        let Self { unanswered, counts, .. } = self;
        unanswered.retain_mut(|sent| match sent.answer.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => true,
            Ok(Ok(last)) => {
                observer.entry_appended(sent.sent_at.elapsed());
                node.acknowledged(last, sent.read);
                reading.is_appended();
                false
            }
            Ok(Err(LogError::Refused(why))) => {
                counts.refused += 1;
                reading.is_refused(why);
                false
            }
            Ok(Err(_)) | Err(oneshot::error::TryRecvError::Closed) => {
                counts.unanswered += 1;
                false
            }
        });
    }
}
