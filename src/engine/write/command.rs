//! How the writer decides each command of the machine, and what it replies.
//!
//! A check-and-insert comes with what a reader found for it. That is a cache: where changes since
//! have outdated it, the writer searches again, so that no verdict depends on it.

use std::fmt::Debug;

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::error::Refused;
use crate::engine::published::Published;
use crate::engine::read::found::{Checked, Unread};
use crate::engine::read::reader::Lookup;
use crate::engine::replies::{PackedInserted, Removed, Written};
use crate::machine::apply::Machine;
use crate::machine::commands::{
    Applied, CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, Remove, Reset, Verdict,
};
use crate::machine::search::{PackedSearch, Probe, Stale};
use crate::sketch::Sketch;
use crate::storage::Records;

/// Bytes of a record that do not depend on its document, rounded up.
const RECORD_BYTES: usize = 32;

/// A command as the writer decides it.
pub(crate) trait Command: Debug + Send + 'static {
    /// What the caller receives.
    type Reply: Debug + Send + 'static;

    /// What it takes at most.
    fn bounds(&self) -> Bounds;

    /// Decides it, and changes the machine accordingly. `records` are those of the state before.
    ///
    /// # Errors
    /// [`Refused`], and the machine is unchanged.
    fn decide(
        self,
        machine: &mut Machine,
        records: &Records,
    ) -> Result<Applied<Self::Reply>, Refused>;
}

/// What a command takes at most, known before it is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of its record.
    pub(crate) payload_bytes: u64,
    /// Changes.
    pub(crate) changes: usize,
    /// Whether it may add documents. If so it is refused when memory or disk are full.
    pub(crate) adds: bool,
}

impl Bounds {
    const fn new(variable_bytes: usize, changes: usize, adds: bool) -> Self {
        Self { payload_bytes: (RECORD_BYTES + variable_bytes) as u64, changes, adds }
    }

    fn of_document(document: &Document) -> Self {
        Self::new(Sketch::BYTES + document.id.as_ref().map_or(0, id_bytes), 1, true)
    }

    const fn of_packed(fingerprints: usize) -> Self {
        Self::new(8 * fingerprints, fingerprints, true)
    }
}

fn id_bytes(id: &DocumentId) -> usize {
    id.as_str().len()
}

impl Command for Insert {
    type Reply = Written;

    fn bounds(&self) -> Bounds {
        Bounds::of_document(&self.document)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Written>, Refused> {
        Ok(machine.insert(self).map(written))
    }
}

/// A check-and-insert with its search.
#[derive(Debug)]
pub(crate) struct SearchedCheckAndInsert {
    pub(crate) command: CheckAndInsert,
    pub(crate) lookup: Lookup,
    /// The number of hits to list.
    pub(crate) limit: usize,
}

impl Command for SearchedCheckAndInsert {
    type Reply = Checked;

    fn bounds(&self) -> Bounds {
        Bounds::of_document(&self.command.document)
    }

    fn decide(self, machine: &mut Machine, records: &Records) -> Result<Applied<Checked>, Refused> {
        let Self { command, mut lookup, limit } = self;
        let published = Published { view: machine.view().clone(), records: records.clone() };
        let probe = Probe::new(&command.document, command.criteria, &machine.id_secret());
        if let Err(Stale) = lookup.search.update(machine.view(), &probe) {
            lookup = Lookup::begin(&published.view, &probe);
            lookup.verify(&published, &probe)?;
        }
        let short = command.document.short;
        let applied = machine.check_and_insert(command, &lookup.search);
        Ok(applied.map(|verdict, sequence| {
            let found = Unread { published, lookup, short, limit }.into();
            Checked { written: written(verdict, sequence), found }
        }))
    }
}

impl Command for InsertPacked {
    type Reply = PackedInserted;

    fn bounds(&self) -> Bounds {
        Bounds::of_packed(self.fingerprints.len())
    }

    fn decide(
        self,
        machine: &mut Machine,
        _: &Records,
    ) -> Result<Applied<PackedInserted>, Refused> {
        let inserted = self.fingerprints.len() as u64;
        let applied = machine.insert_packed(self);
        Ok(applied.map(|(), sequence| PackedInserted { inserted, sequence }))
    }
}

/// A packed check-and-insert with its search.
#[derive(Debug)]
pub(crate) struct SearchedCheckAndInsertPacked {
    pub(crate) command: CheckAndInsertPacked,
    pub(crate) search: PackedSearch,
}

impl Command for SearchedCheckAndInsertPacked {
    type Reply = Vec<u8>;

    fn bounds(&self) -> Bounds {
        Bounds::of_packed(self.command.fingerprints.len())
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Vec<u8>>, Refused> {
        let Self { command, mut search } = self;
        if search.is_stale(machine.view()) {
            search = PackedSearch::new(machine.view(), &command.fingerprints, command.distance);
        }
        Ok(machine.check_and_insert_packed(command, search))
    }
}

impl Command for Remove {
    type Reply = Removed;

    fn bounds(&self) -> Bounds {
        Bounds::new(id_bytes(&self.id), 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Removed>, Refused> {
        Ok(machine.remove(self).map(removed))
    }
}

impl Command for Reset {
    type Reply = Removed;

    fn bounds(&self) -> Bounds {
        Bounds::new(0, 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Removed>, Refused> {
        Ok(machine.reset(self).map(removed))
    }
}

fn written(verdict: Verdict, sequence: Sequence) -> Written {
    Written { verdict, sequence }
}

fn removed(documents: u64, sequence: Sequence) -> Removed {
    Removed { documents, sequence }
}
