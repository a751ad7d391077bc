//! What a job that finds groups reads of documents, and why it ends early.

use std::sync::atomic::Ordering;

use nearprint_index::groups::{Evidence, EvidenceSource};

use crate::api::error::Refused;
use crate::document::Sequence;
use crate::groups::board::GroupsRun;
use crate::groups::jobs::GroupsFailure;
use crate::read::reader::RecordReader;
use crate::shared::{Life, Shared};

/// Why a piece ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupsEnded {
    /// The job was removed.
    Cancelled,
    /// The job fails.
    Failed(GroupsFailure),
}

impl From<Refused> for GroupsEnded {
    fn from(_: Refused) -> Self {
        Self::Failed(GroupsFailure::Unreadable)
    }
}

/// Reads the sketches of one thread.
#[derive(Debug)]
pub(crate) struct RecordEvidence<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) run: &'a GroupsRun,
    pub(crate) records: RecordReader,
}

impl EvidenceSource for RecordEvidence<'_> {
    type Error = GroupsEnded;

    fn evidence(&mut self, document: Sequence) -> Result<Evidence, GroupsEnded> {
        let document = self.records.stored(document)?.document;
        let sketch = document.sketch.map(|sketch| *sketch);
        Ok(Evidence { is_short: document.short, sketch, margins: None })
    }

    fn goes_on(&mut self) -> Result<(), GroupsEnded> {
        if self.run.is_cancelled.load(Ordering::Relaxed) {
            return Err(GroupsEnded::Cancelled);
        }
        if self.shared.life() != Life::Running {
            return Err(GroupsEnded::Failed(GroupsFailure::Stopping));
        }
        Ok(())
    }
}
