//! The core without crashes: snapshots save the replay, a full disk refuses, ids of documents that
//! come after many others are shown.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearprint_fingerprint::{Distance, Fingerprint, Sketch, Threshold};
use nearprint_machine::commands::{Insert, InsertPacked};
use nearprint_machine::document::{Document, DocumentId, Packed, Sequence};
use nearprint_machine::query::Criteria;
use nearprint_machine::search::Probe;
use nearprint_storage::simulated::{Failure, Faults, Operation};
use nearprint_storage::{Disk, FILE_NUMBER_MAX, SimulatedDisk};

use super::rig::{ENTROPY, History, Rig, commit_one, options};
use crate::api::error::{OpenError, Refused};
use crate::api::options::Durability;
use crate::directories::recovery::recover;
use crate::directory_file::RESTORE_MARKER;
use crate::read::reader::{HitLimits, RecordLookup};
use crate::state::published::Published;

fn empty(disk: &SimulatedDisk) -> Rig {
    Rig::recover(disk, Durability::Always, History::new(), Sequence::ZERO).unwrap()
}

fn again(disk: &SimulatedDisk, history: History) -> Rig {
    Rig::recover(disk, Durability::Always, history, Sequence::new(30)).unwrap()
}

#[test]
fn a_full_disk_refuses_the_group_and_takes_the_next_when_there_is_room() {
    let disk = SimulatedDisk::new();
    let mut rig = empty(&disk);
    let packed = |first: u64| {
        let fingerprints: Vec<_> = (first..first + 50).map(Fingerprint::new).collect();
        InsertPacked { packed: fingerprints.into() }
    };
    disk.set_faults(Faults { capacity_bytes: Some(1), ..Faults::default() });
    assert_eq!(commit_one(&mut rig.core, packed(0)), Err(Refused::DiskFull));
    assert_eq!(rig.core.view().counts().documents, 0);
    disk.set_faults(Faults::default());
    commit_one(&mut rig.core, packed(100)).unwrap();
    assert_eq!(rig.core.view().counts().documents, 50);
}

/// A rig with thirty fingerprints in one snapshot.
fn with_snapshot(disk: &SimulatedDisk) -> Rig {
    let mut rig = empty(disk);
    let fingerprints: Vec<_> = (0..30).map(|bits| Fingerprint::new(bits << 30)).collect();
    let packed = Packed::from(fingerprints);
    rig.expect_packed(&packed);
    commit_one(&mut rig.core, InsertPacked { packed }).unwrap();
    rig.snapshot().unwrap();
    rig
}

#[test]
fn a_snapshot_saves_the_replay_of_its_changes() {
    let disk = SimulatedDisk::new();
    let history = with_snapshot(&disk).history;
    let rig = again(&disk.crash(1), history);
    assert_eq!(rig.core.view().segments().iter().map(|s| s.documents()).sum::<usize>(), 30);
    assert!(rig.core.view().deltas().all(|delta| delta.length() == 0), "nothing was replayed");
    assert_eq!(rig.snapshots.list().len(), 1);
}

/// The watcher takes what a snapshot in progress has written off the space that it needs.
#[test]
fn a_snapshot_that_has_ended_or_failed_has_written_nothing() {
    let disk = SimulatedDisk::new();
    let mut rig = with_snapshot(&disk);
    let written = rig.snapshots.begun_bytes();
    assert_eq!(written.load(Ordering::Relaxed), 0);
    commit_one(&mut rig.core, InsertPacked { packed: vec![Fingerprint::new(7)].into() }).unwrap();
    let frozen = rig.core.freeze().unwrap();
    disk.set_faults(Faults { fail: vec![(Operation::Sync, 1, Failure::Io)], ..Faults::default() });
    let parts = rig.core.view().parts_of(&frozen.view);
    assert!(rig.snapshots.take(parts, &frozen.jobs, 0).is_err());
    assert_eq!(written.load(Ordering::Relaxed), 0);
}

#[test]
fn a_damaged_snapshot_is_passed_over_and_a_later_one_loads() {
    for suffix in [".manifest", ".seg"] {
        let disk = SimulatedDisk::new();
        let history = with_snapshot(&disk).history;
        let disk = disk.kill();
        let name = disk.list().unwrap().into_iter().find(|name| name.ends_with(suffix)).unwrap();
        disk.edit(&name, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        let mut rig = again(&disk, history);
        assert_eq!(rig.snapshots.list(), [], "a snapshot counts only when it is whole");
        rig.snapshot().unwrap();
        let rig = again(&disk.kill(), rig.history);
        assert_eq!(rig.snapshots.list().len(), 1);
    }
}

#[test]
fn a_name_that_no_service_writes_is_left_alone() {
    let disk = SimulatedDisk::new();
    let history = with_snapshot(&disk).history;
    let disk = disk.kill();
    let strays = [
        format!("segment-{}.seg", u64::MAX),
        format!("segment-{}.seg", FILE_NUMBER_MAX + 1),
        "segment-00000000000000000000.seg".to_owned(),
        "segment-7.seg".to_owned(),
        format!("table-{}.seg", u64::MAX),
        format!("snapshot-{}.manifest", u64::MAX),
        format!("snapshot-{}-again.manifest", u64::MAX),
        "other.manifest".to_owned(),
    ];
    for name in &strays {
        disk.create(name).unwrap();
    }
    let mut rig = again(&disk, history);
    assert_eq!(rig.snapshots.list().len(), 1);
    rig.snapshot().unwrap();
    let listed = disk.list().unwrap();
    assert!(strays.iter().all(|name| listed.contains(name)), "{listed:?}");
}

#[test]
fn a_manifest_under_the_name_of_another_is_passed_over() {
    let disk = SimulatedDisk::new();
    let history = with_snapshot(&disk).history;
    let disk = disk.kill();
    let is_manifest = |name: &String| name.ends_with(".manifest");
    let name = disk.list().unwrap().into_iter().find(is_manifest).unwrap();
    disk.rename(&name, "snapshot-00000000000000000099.manifest").unwrap();
    let rig = again(&disk, history);
    assert_eq!(rig.snapshots.list(), []);
}

#[test]
fn a_directory_that_has_lost_all_its_records_is_refused() {
    let disk = SimulatedDisk::new();
    drop(empty(&disk));
    let disk = disk.kill();
    for name in disk.list().unwrap().iter().filter(|name| name.starts_with("journal-")) {
        disk.remove(name).unwrap();
    }
    let names = disk.list().unwrap();
    let real: Arc<dyn Disk> = Arc::new(disk.clone());
    let refused = recover(&real, &options(Durability::Always), &ENTROPY);
    assert!(matches!(refused, Err(OpenError::NoRecords)), "{refused:?}");
    assert_eq!(disk.list().unwrap(), names, "nothing was changed");
}

#[test]
fn a_restore_that_was_cut_short_is_refused() {
    let disk = SimulatedDisk::new();
    disk.create(RESTORE_MARKER).unwrap();
    disk.create("journal-00000000000000000001.log").unwrap();
    let real: Arc<dyn Disk> = Arc::new(disk.clone());
    let refused = recover(&real, &options(Durability::Always), &ENTROPY);
    assert!(matches!(refused, Err(OpenError::NoDirectoryFile)), "{refused:?}");
}

/// Showing an id that comes after many documents without one reads a record, off the async threads.
#[test]
fn an_id_behind_many_documents_without_one_is_shown() {
    let disk = SimulatedDisk::new();
    let mut rig = empty(&disk);
    let fingerprint = Fingerprint::new(7);
    let id = DocumentId::new("the last").unwrap();
    let document = Document { id: Some(id.clone()), ..Document::bare(fingerprint) };
    let bare = InsertPacked { packed: vec![fingerprint; 40].into() };
    commit_one(&mut rig.core, bare).unwrap();
    commit_one(&mut rig.core, Insert::from(document)).unwrap();
    let (state, bare) = (rig.core.published(), Document::bare(fingerprint));
    let probe = Probe::new(&bare, Criteria::within(Distance::default()), 0, &[0; 16]);
    let lookup = RecordLookup::begin(&state.view, &probe, false);
    assert!(lookup.reads_records());
    let findings = lookup.show(&state, TEN).unwrap();
    let hit = &findings.hits[0];
    assert_eq!((hit.document_count, &hit.documents[0].id), (41, &Some(id)));
}

const TEN: HitLimits = HitLimits { short: false, limit: 10, bytes_max: usize::MAX };

/// A record whose sketch was compared is not read again to show its id.
#[test]
fn a_record_that_was_compared_is_not_read_again_for_its_id() {
    let disk = SimulatedDisk::new();
    let mut rig = empty(&disk);
    let id = DocumentId::new("compared").unwrap();
    let sketch = Some(Box::new(Sketch::from_bytes(&[7; Sketch::BYTES])));
    let document = Document { sketch, ..Document::bare(Fingerprint::new(7)) };
    let stored = Document { id: Some(id.clone()), ..document.clone() };
    commit_one(&mut rig.core, Insert::from(stored)).unwrap();
    rig.snapshot().unwrap();
    let state = rig.core.published();
    let threshold = Threshold::of_similarity(0.8);
    let criteria = Criteria { threshold, ..Criteria::within(Distance::default()) };
    let probe = Probe::new(&document, criteria, 0, &[0; 16]);
    let mut lookup = RecordLookup::begin(&state.view, &probe, false);
    assert_ne!(lookup.documents_to_read(&state.view, (10, false)), 0);
    lookup.verify(&state, &probe).unwrap();
    assert_eq!(lookup.documents_to_read(&state.view, (10, false)), 0);
    let records = empty(&SimulatedDisk::new()).core.published().records;
    let without_records = Published { records, ..state };
    let findings = lookup.show(&without_records, TEN).unwrap();
    assert_eq!(findings.hits[0].documents[0].id, Some(id));
    // Another look-up has not read it, and does not find it.
    let lookup = RecordLookup::begin(&without_records.view, &probe, false);
    lookup.show(&without_records, TEN).unwrap_err();
}
