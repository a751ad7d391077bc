//! Enacts what a primary has decided.
//!
//! A follower decides nothing. It applies the primary's records in their order, as recovery does,
//! and appends them to its own journal byte for byte.

use nearprint_machine::change::{Change, Record};
use nearprint_machine::document::Sequence;
use nearprint_storage::{RecordRef, Records, StorageError};
use tokio::sync::oneshot;

use crate::api::error::Refused;
use crate::write::command::Bounds;
use crate::write::core::{CommandGroup, Core};
use crate::write::queued::QueuedWrite;

/// A record that the primary has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecidedRecord {
    /// The sequence of its first change.
    pub(crate) first: u64,
    pub(crate) record: Record,
    /// The same as it stands in the journal.
    pub(crate) payload: Vec<u8>,
}

impl DecidedRecord {
    fn stored(&self) -> RecordRef<'_> {
        let (first, count) = (self.first, self.record.change.count());
        RecordRef { first, count, payload: &self.payload }
    }
}

/// Records in the queue of the writer; at most one such queue entry at a time, because one that is
/// refused must not be overtaken.
#[derive(Debug)]
pub(crate) struct Enactment {
    records: Vec<DecidedRecord>,
    enacted: oneshot::Sender<Result<Sequence, Refused>>,
    last: Sequence,
}

impl Enactment {
    /// Records to enact, and where the last change after them is sent.
    pub(crate) fn new(
        records: Vec<DecidedRecord>,
    ) -> (Box<Self>, oneshot::Receiver<Result<Sequence, Refused>>) {
        let (enacted, received) = oneshot::channel();
        (Box::new(Self { records, enacted, last: Sequence::ZERO }), received)
    }
}

impl QueuedWrite for Enactment {
    fn bounds(&self) -> Bounds {
        let changes = self.records.iter().map(|decided| decided.record.change.count() as usize);
        let adds = self.records.iter().any(|decided| adds(&decided.record.change));
        let payload_bytes = self.records.iter().map(|decided| decided.payload.len() as u64).sum();
        Bounds { payload_bytes, changes: changes.sum(), adds, records: self.records.len() as u64 }
    }

    fn decide(&mut self, core: &mut Core, _: &CommandGroup) -> Result<(), StorageError> {
        self.records
            .drain(..)
            .try_for_each(|decided| core.enact(&decided.record, decided.stored()))?;
        self.last = core.view().sequence();
        Ok(())
    }

    fn met_unreadable(&self) -> bool {
        false
    }

    /// Its reply reads nothing.
    fn pin(&mut self, _: &Records) {}

    fn acknowledge(self: Box<Self>) {
        drop(self.enacted.send(Ok(self.last)));
    }

    fn refuse(self: Box<Self>, refused: Refused) {
        drop(self.enacted.send(Err(refused)));
    }
}

/// Whether a change adds documents, so that a full disk or memory refuses it.
fn adds(change: &Change) -> bool {
    matches!(change, Change::Put { .. } | Change::PutPacked { .. } | Change::PutSparse { .. })
}
