//! Promise: the engine knows at least how much of the journal is garbage, whatever the records
//! hold, and a restart forgets nothing of it. Method: seeded lives with records of 100 bytes to
//! 64 KiB (ids, sketches, metadata, namespaces, batches), replaced, removed, purged and swept;
//! after each step the bound is compared with what reading all records gives, and a restart with
//! what was known before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_index::compaction::policy::Load;
use nearprint_index::memory::file::catch_unreadable;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::view::{Expired, Selection};
use nearprint_machine::commands::{Insert, InsertPacked, Reason, Remove, RemoveMany, Reset};
use nearprint_machine::document::{Document, DocumentId, Metadata, Namespace, Packed, Sequence};
use nearprint_storage::simulated::Dice;
use nearprint_storage::sizes::Sizes;
use nearprint_storage::{Disk, RecordRef, SimulatedDisk, StorageError, Sweep, SweepRange};

use super::rig::{ENTROPY, commit_one, options, variable};
use crate::api::error::storage_error;
use crate::api::options::{Durability, Options};
use crate::directories::recovery::{Recovered, recover};
use crate::snapshot::placing::Movable;
use crate::snapshot::snapshots::Snapshots;
use crate::state::survey::Survey;
use crate::threads::reclaimer::needed::Needed;
use crate::threads::reclaimer::{keep_needed, survey};
use crate::write::core::Core;

const STEPS: usize = 60;
const PACK_BYTES: u64 = 40_000;

/// Flushes and merges, as the background threads do.
pub(super) fn settle(core: &mut Core) -> Result<(), StorageError> {
    while let Some(work) =
        core.view().next_flush().or_else(|| core.view().next_merge(Load::Writing))
    {
        let install = || work.steps().for_each(|built| core.install(&built));
        catch_unreadable(install).map_err(storage_error)?;
    }
    Ok(())
}

/// Moves every part that has a file into it.
pub(super) fn move_into_files(
    core: &mut Core,
    snapshots: &mut Snapshots,
) -> Result<(), StorageError> {
    let temporary = Movable::in_temporary_files(core.view());
    for movable in temporary.into_iter().chain(Movable::in_memory(core.view())) {
        if let Some(moved) = snapshots.moved(&movable)? {
            core.install(&moved);
        }
    }
    Ok(())
}

/// Sweeps what both snapshots cover; `each` receives the bytes that each pack has reclaimed.
pub(super) fn sweep(
    core: &Core,
    snapshots: &Snapshots,
    pack_bytes: u64,
    each: &mut dyn FnMut(u64),
) -> Result<(), StorageError> {
    let next = snapshots.covered_by_both().next().get();
    let mut range = SweepRange { from: 1, next, pack_bytes };
    let state = core.state();
    let needed = Needed::new(&state, core.machine().id_secret());
    while let Sweep::UpTo { next, freed } = core.reclaimer().sweep(
        range,
        &mut |record, keep| {
            keep_needed(&needed, record, keep);
        },
        &mut |_| true,
    )? {
        range.from = next;
        each(freed);
    }
    Ok(())
}

/// A directory that is written, swept and opened again.
struct Life {
    disk: Arc<dyn Disk>,
    options: Options,
    open: Recovered,
    survey: Survey,
}

impl Life {
    fn new() -> Self {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
        let options = Options { journal_file_bytes: 100_000, ..options(Durability::Always) };
        let mut open = recover(&disk, &options, &ENTROPY).unwrap();
        let survey = open.core.survey(open.snapshots.take_survey());
        Self { disk, options, open, survey }
    }

    fn restart(&mut self) {
        self.open = recover(&self.disk, &self.options, &ENTROPY).unwrap();
        self.survey = self.open.core.survey(self.open.snapshots.take_survey());
    }

    fn snapshot(&mut self) {
        let Recovered { core, snapshots, .. } = &mut self.open;
        let frozen = core.freeze().unwrap();
        while let Some(work) = core.view().next_flush() {
            work.steps().for_each(|built| core.install(&built));
        }
        let sequence = frozen.view.sequence();
        snapshots.keep_survey(self.survey.for_snapshot(core.records(), sequence));
        snapshots.take(core.view().parts_of(&frozen.view), &frozen.jobs, 0).unwrap();
    }

    fn survey(&mut self) {
        let Recovered { core, snapshots, .. } = &self.open;
        let (secret, upto) = (core.machine().id_secret(), snapshots.covered_by_both());
        let read = survey(&core.reclaimer(), &core.state(), secret, upto, &mut |_| true).unwrap();
        self.survey = read.unwrap();
    }

    fn bound(&self) -> u64 {
        self.survey.garbage_at_most(self.open.core.records(), self.open.core.view())
    }

    /// The garbage, by reading every record.
    fn garbage(&self) -> u64 {
        let core = &self.open.core;
        let state = core.state();
        let needed = Needed::new(&state, core.machine().id_secret());
        let mut records = BTreeMap::new();
        for sequence in 1..=core.view().sequence().get() {
            if let Ok(record) = core.records().read(sequence) {
                records.insert(record.first, record);
            }
        }
        let garbage = records.values().map(|record| {
            let (first, count, payload) = (record.first, record.count, &record.payload[..]);
            let record = RecordRef { first, count, payload };
            let mut kept = 0;
            keep_needed(&needed, record, &mut |part| kept += part.frame_bytes());
            record.frame_bytes().saturating_sub(kept)
        });
        garbage.sum()
    }

    fn write(&mut self, dice: &mut Dice) {
        let core = &mut self.open.core;
        let namespace = match dice.below(3) {
            0 => None,
            1 => Some(Namespace::new("n").unwrap()),
            _ => Some(Namespace::new("n".repeat(256)).unwrap()),
        };
        let id = DocumentId::new(format!("{}", dice.below(12))).unwrap();
        let fingerprint = Fingerprint::new(dice.below(40) as u64);
        match dice.below(12) {
            0 => drop(commit_one(core, Remove { namespace, id })),
            1 => drop(commit_one(core, Reset { namespace, fingerprint })),
            2 => {
                let count = 1 + dice.below(900);
                let fingerprints = (0..count).map(|_| Fingerprint::new(dice.roll())).collect();
                let packed = Packed { namespace, expiry: None, fingerprints };
                commit_one(core, InsertPacked { packed }).unwrap();
            }
            3 => {
                let selection = Selection {
                    namespace: None,
                    after: Sequence::ZERO,
                    upto: core.view().sequence(),
                    expired: Expired::Not(0),
                };
                let mut listed = core.view().list(selection, 3_000);
                listed.retain(|listed| listed.posting.namespace == NamespaceNumber::DEFAULT);
                listed.retain(|_| dice.below(2) == 0);
                let documents = listed.iter().map(|l| (l.posting.sequence, l.masked)).collect();
                let reason = Reason::Expiry;
                commit_one(core, RemoveMany { namespace: None, documents, reason }).unwrap();
            }
            _ => {
                let bytes = [0, 100, 5_000, 60_000][dice.below(4)];
                let metadata = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes));
                let sketch = Box::new(Sketch::from_bytes(&[7; Sketch::BYTES]));
                let document = Document {
                    id: (dice.below(4) > 0).then_some(id),
                    namespace,
                    sketch: (dice.below(2) == 0).then_some(sketch),
                    metadata: (bytes > 0).then(|| Metadata::new(metadata).unwrap()),
                    ..Document::bare(fingerprint)
                };
                commit_one(core, Insert::from(document)).unwrap();
            }
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.below(16) {
            0 | 1 => self.snapshot(),
            2 => {
                self.snapshot();
                self.open.snapshots.repeat().unwrap();
                self.survey();
                let core = &self.open.core;
                let later =
                    core.records().extent().bytes - core.records().bytes_before(self.survey.next);
                assert!(self.bound() <= self.garbage() + later, "exact in what was read");
            }
            3 => {
                self.open.core.sync().unwrap();
                let Recovered { core, snapshots, .. } = &self.open;
                sweep(core, snapshots, PACK_BYTES, &mut |_| ()).unwrap();
            }
            4 => self.restart(),
            _ => self.write(dice),
        }
        let (bound, garbage) = (self.bound(), self.garbage());
        let core = &self.open.core;
        let (extent, view) = (core.records().extent(), core.view());
        assert!(
            bound >= garbage,
            "{bound} < {garbage}: {extent:?}, {} of {} stored, {:?}",
            view.documents(),
            view.sequence(),
            Survey { sizes: Sizes::default(), unread: Sizes::default(), ..self.survey.clone() },
        );
    }
}

#[test]
fn there_is_never_more_garbage_than_the_bound_also_after_a_restart() {
    for seed in 0..variable("NEARPRINT_SIMULATION_SEEDS", 10) {
        let (mut life, mut dice) = (Life::new(), Dice::new(seed));
        for _ in 0..STEPS {
            life.step(&mut dice);
        }
    }
}

#[test]
fn a_restart_knows_as_much_as_before_it() {
    for seed in 0..20 {
        let (mut life, mut dice) = (Life::new(), Dice::new(seed));
        for _ in 0..4 {
            (0..15).for_each(|_| life.write(&mut dice));
            life.snapshot();
            life.open.snapshots.repeat().unwrap();
            life.survey();
            (0..10).for_each(|_| life.write(&mut dice));
            life.snapshot();
            (0..5).for_each(|_| life.write(&mut dice));
            let before = life.bound();
            life.restart();
            assert_eq!(life.bound(), before);
        }
    }
}
