//! A state together with the records of its documents, as readers load it.

use std::sync::Arc;

use nearprint_index::view::View;
use nearprint_machine::decide::Machine;
use nearprint_machine::jobs::Jobs;
use nearprint_storage::Records;

/// A state with its records. The records are pinned: those of the view's documents stay readable
/// for the life of this value, even if their files are reclaimed.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    /// The index.
    pub view: View,
    pub jobs: Arc<Jobs>,
    pub records: Records,
}

impl Published {
    /// The state of a machine, with its records.
    pub(crate) fn new(machine: &Machine, records: Records) -> Self {
        Self { view: machine.view().clone(), jobs: Arc::clone(machine.jobs()), records }
    }

    /// The same state for a reader that may wait for the disk.
    pub(crate) fn on_disk(&self) -> Self {
        Self { records: self.records.on_disk(), ..self.clone() }
    }

    /// The same state for a reader that must not wait ([`Records::in_memory`]).
    pub(crate) fn in_memory(&self) -> Self {
        Self { records: self.records.in_memory(), ..self.clone() }
    }
}
