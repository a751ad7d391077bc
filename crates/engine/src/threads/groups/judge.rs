//! What a job that finds groups reads of documents.

use std::sync::atomic::Ordering;

use nearprint_index::groups::{Evidence, EvidenceSource};
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::JobFailure;

use crate::read::reader::RecordReader;
use crate::shared::{Life, Shared};
use crate::state::board::GroupsRun;

/// Reads the sketches of one thread.
#[derive(Debug)]
pub(crate) struct RecordEvidence<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) run: &'a GroupsRun,
    pub(crate) records: RecordReader,
}

impl EvidenceSource for RecordEvidence<'_> {
    type Error = JobFailure;

    fn evidence(&mut self, document: Sequence) -> Result<Evidence, JobFailure> {
        let document = self.records.stored(document)?.document;
        let sketch = document.sketch.map(|sketch| *sketch);
        Ok(Evidence { is_short: document.short, sketch })
    }

    fn goes_on(&mut self) -> Result<(), JobFailure> {
        if self.run.is_cancelled.load(Ordering::Relaxed) || self.shared.life() != Life::Running {
            return Err(JobFailure::Stopping);
        }
        Ok(())
    }
}
