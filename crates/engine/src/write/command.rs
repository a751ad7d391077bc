//! How the writer decides each command of the machine, and what it replies.
//!
//! A check-and-insert comes with what a reader found for it. That is a cache: where changes since
//! have outdated it, the writer searches again, so that no verdict depends on it.

use std::fmt::Debug;
use std::sync::Arc;

use nearprint_fingerprint::Sketch;
use nearprint_index::times::second;
use nearprint_machine::commands::{
    Applied, BeginPurge, CheckAndInsert, CheckAndInsertPacked, EndJob, Insert, InsertPacked,
    NoteTime, Remove, RemoveMany, Reset, Verdict,
};
use nearprint_machine::decide::Machine;
use nearprint_machine::document::{Document, DocumentId, Expiry, Namespace, Packed, Sequence};
use nearprint_machine::jobs::{Job, NamespaceFilter, Purge, PurgeWork, RUNNING_MAX};
use nearprint_machine::search::{PackedSearch, Probe, Stale};
use nearprint_storage::Records;

use crate::api::error::Refused;
use crate::api::replies::{PackedInserted, Removed, Written};
use crate::read::found::{Checked, Inserted, Unread};
use crate::read::previous::{ComparedDocument, PreviousUnread};
use crate::read::reader::RecordLookup;
use crate::state::published::Published;
use crate::state::touches::Touches;

/// Bytes of a record that do not depend on its document, rounded up.
const RECORD_BYTES: usize = 64;

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

    /// Lets a reply that reads records read these: they are pinned once its own are journaled.
    fn pin(_: &mut Self::Reply, _: &Records) {}
}

/// What a command takes at most, known before it is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of its record.
    pub(crate) payload_bytes: u64,
    pub(crate) changes: usize,
    /// Records that it appends at most.
    pub(crate) records: u64,
    /// Whether it may add documents. If so it is refused when memory or disk are full.
    pub(crate) adds: bool,
}

impl Bounds {
    const fn new(variable_bytes: usize, changes: usize, adds: bool) -> Self {
        let payload_bytes = (RECORD_BYTES + variable_bytes) as u64;
        Self { payload_bytes, changes, records: 1, adds }
    }

    fn of_document(document: &Document) -> Self {
        let id = document.id.as_ref().map_or(0, id_bytes);
        let metadata = document.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
        let namespace = namespace_bytes(document.namespace.as_ref());
        Self::new(Sketch::BYTES + id + metadata + namespace, 1, true)
    }

    fn of_packed(packed: &Packed) -> Self {
        let fingerprints = packed.fingerprints.len();
        Self::new(8 * fingerprints + namespace_bytes(packed.namespace.as_ref()), fingerprints, true)
    }
}

fn namespace_bytes(namespace: Option<&Namespace>) -> usize {
    namespace.map_or(0, |namespace| namespace.as_str().len())
}

fn id_bytes(id: &DocumentId) -> usize {
    id.as_str().len()
}

impl Command for Insert {
    type Reply = Inserted;

    fn bounds(&self) -> Bounds {
        Bounds::of_document(&self.document)
    }

    fn decide(
        self,
        machine: &mut Machine,
        records: &Records,
    ) -> Result<Applied<Inserted>, Refused> {
        check_expiry(machine, self.document.expiry)?;
        let content = ComparedDocument::of(&self.document);
        Ok(machine.insert(self).map(|decided, sequence| {
            let previous = PreviousUnread::new(content, decided.previous, records);
            Inserted { written: written(decided.verdict, sequence), previous }
        }))
    }

    fn pin(reply: &mut Inserted, records: &Records) {
        reply.previous.iter_mut().for_each(|previous| previous.pin(records));
    }
}

#[derive(Debug)]
pub(crate) struct SearchedCheckAndInsert {
    pub(crate) command: CheckAndInsert,
    pub(crate) lookup: RecordLookup,
    /// The number of hits to list.
    pub(crate) limit: usize,
    /// Where its original is counted, if it is.
    pub(crate) touches: Option<Arc<Touches>>,
}

impl Command for SearchedCheckAndInsert {
    type Reply = Checked;

    fn bounds(&self) -> Bounds {
        Bounds::of_document(&self.command.document)
    }

    fn decide(self, machine: &mut Machine, records: &Records) -> Result<Applied<Checked>, Refused> {
        let Self { command, mut lookup, limit, touches } = self;
        check_expiry(machine, command.document.expiry)?;
        let published = Published::new(machine, records.clone());
        let (now_ms, secret) = (machine.now_ms(), machine.id_secret());
        let CheckAndInsert { document, criteria, .. } = &command;
        let probe = Probe::new(document, *criteria, now_ms, &secret);
        if let Err(Stale) = lookup.search.update(machine.view(), &probe) {
            lookup.repeat(&published.view, &probe);
            lookup.verify(&published, &probe)?;
        }
        let (short, content) = (command.document.short, ComparedDocument::of(&command.document));
        let applied = machine.check_and_insert(command, &lookup.search);
        if let Verdict::Duplicate { .. } = applied.reply.verdict
            && let (Some(touches), Some(original)) = (touches, lookup.search.matches.first())
        {
            let masked = lookup.search.visibility.masked(original.fingerprint);
            touches.touch(original.oldest, masked, second(now_ms));
        }
        Ok(applied.map(|decided, sequence| {
            let previous = PreviousUnread::new(content, decided.previous, records);
            let found = Unread { published, lookup, short, limit }.into();
            Checked { written: written(decided.verdict, sequence), found, previous }
        }))
    }

    fn pin(reply: &mut Checked, records: &Records) {
        reply.found.pin(records);
        reply.previous.iter_mut().for_each(|previous| previous.pin(records));
    }
}

impl Command for InsertPacked {
    type Reply = PackedInserted;

    fn bounds(&self) -> Bounds {
        Bounds::of_packed(&self.packed)
    }

    fn decide(
        self,
        machine: &mut Machine,
        _: &Records,
    ) -> Result<Applied<PackedInserted>, Refused> {
        check_expiry(machine, self.packed.expiry)?;
        let inserted = self.packed.fingerprints.len() as u64;
        let applied = machine.insert_packed(self);
        Ok(applied.map(|(), sequence| PackedInserted { inserted, sequence }))
    }
}

#[derive(Debug)]
pub(crate) struct SearchedCheckAndInsertPacked {
    pub(crate) command: CheckAndInsertPacked,
    pub(crate) search: PackedSearch,
}

impl Command for SearchedCheckAndInsertPacked {
    type Reply = Vec<u8>;

    fn bounds(&self) -> Bounds {
        Bounds::of_packed(&self.command.packed)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Vec<u8>>, Refused> {
        let Self { command, mut search } = self;
        let CheckAndInsertPacked { packed, criteria } = &command;
        check_expiry(machine, packed.expiry)?;
        let namespace = machine.namespace_key(packed.namespace.as_ref());
        let now_ms = machine.now_ms();
        let visibility = machine.view().visibility(namespace, now_ms, criteria.max_age_s);
        if search.is_stale(machine.view(), &visibility) {
            let fingerprints = &packed.fingerprints;
            search = PackedSearch::new(machine.view(), fingerprints, criteria.distance, visibility);
        }
        search.visibility = visibility;
        Ok(machine.check_and_insert_packed(command, search))
    }
}

impl Command for Remove {
    type Reply = Removed;

    fn bounds(&self) -> Bounds {
        let namespace = namespace_bytes(self.namespace.as_ref());
        Bounds::new(id_bytes(&self.id) + namespace, 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Removed>, Refused> {
        Ok(machine.remove(self).map(removed))
    }
}

impl Command for Reset {
    type Reply = Removed;

    fn bounds(&self) -> Bounds {
        Bounds::new(namespace_bytes(self.namespace.as_ref()), 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Removed>, Refused> {
        Ok(machine.reset(self).map(removed))
    }
}

impl Command for RemoveMany {
    type Reply = Removed;

    fn bounds(&self) -> Bounds {
        Bounds::new(16 * self.documents.len(), self.documents.len().max(1), false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Removed>, Refused> {
        Ok(machine.remove_many(self).map(removed))
    }
}

impl Command for BeginPurge {
    type Reply = Job<PurgeWork>;

    fn bounds(&self) -> Bounds {
        let Purge { reach, prefix, .. } = &self.purge;
        let namespace = match reach {
            NamespaceFilter::Namespace(namespace) => namespace_bytes(namespace.as_ref()),
            NamespaceFilter::All => 0,
        };
        Bounds::new(namespace + prefix.as_ref().map_or(0, |prefix| prefix.len()), 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<Self::Reply>, Refused> {
        let Applied { reply, change, sequence } = machine.begin_purge(self);
        let reply = reply.ok_or(Refused::TooManyJobs { max: RUNNING_MAX, is_of_owner: false })?;
        Ok(Applied { reply, change, sequence })
    }
}

impl Command for EndJob {
    type Reply = bool;

    fn bounds(&self) -> Bounds {
        Bounds::new(0, 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<bool>, Refused> {
        Ok(machine.end_job(self))
    }
}

impl Command for NoteTime {
    type Reply = ();

    fn bounds(&self) -> Bounds {
        Bounds::new(0, 1, false)
    }

    fn decide(self, machine: &mut Machine, _: &Records) -> Result<Applied<()>, Refused> {
        Ok(machine.note_time(self))
    }
}

/// Refuses a document that is to expire when no time is left: it would be stored and gone.
///
/// # Errors
/// [`Refused::ClockBeyondExpiries`].
fn check_expiry(machine: &Machine, expiry: Option<Expiry>) -> Result<(), Refused> {
    if expiry.is_some() && Expiry::MAX.has_passed(machine.now_ms()) {
        return Err(Refused::ClockBeyondExpiries);
    }
    Ok(())
}

fn written(verdict: Verdict, sequence: Sequence) -> Written {
    Written { verdict, sequence }
}

fn removed(documents: u64, sequence: Sequence) -> Removed {
    Removed { documents, sequence }
}
