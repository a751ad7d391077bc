//! Promise: a reindex that is cut off anywhere leaves a directory that opens with the old or the
//! new distance, and has everything. Method: a random life on a simulated disk, and a reindex that
//! crashes at each of its operations in turn, by a kill and by a power cut; what opens afterwards
//! is compared with the model.

use std::sync::Arc;

use nearprint_fingerprint::{BINS, Distance, Fingerprint, MinResemblance, Sketch};
use nearprint_index::view::SimilarTo;
use nearprint_index::visibility::Visibility;
use nearprint_machine::commands::Insert;
use nearprint_machine::document::{Document, Sequence};
use nearprint_storage::simulated::{Dice, Faults};
use nearprint_storage::{Disk, SimulatedDisk};

use super::rig::{ENTROPY, History, Rig, commit_one, options};
use crate::api::error::OpenError;
use crate::api::options::{Durability, Options};
use crate::directories::recovery::recover;
use crate::directories::reindex::reindex;
use crate::directory_file::DirectoryFile;
use crate::snapshot::manifest::is_of_snapshot;

const SEEDS: u64 = 6;
/// More than any of these reindexes has.
const OPERATIONS_MAX: u64 = 10_000;

fn distance(bits: u8) -> Distance {
    Distance::new(bits).unwrap()
}

fn for_distance(bits: u8) -> Options {
    Options { distance_max: distance(bits), ..options(Durability::Always) }
}

fn directory(disk: &SimulatedDisk) -> DirectoryFile {
    DirectoryFile::read(disk).unwrap().unwrap()
}

fn reindexed(disk: &SimulatedDisk, bits: u8) -> Result<(), OpenError> {
    let directory = directory(disk);
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    reindex(&disk, &directory, &for_distance(bits), 7, &mut |_| ()).map(drop)
}

/// A disk after a few lives, and what it must have. Half of them end with a snapshot.
fn lived(dice: &mut Dice) -> (SimulatedDisk, History) {
    let mut disk = SimulatedDisk::new();
    let mut history = History::new();
    for _ in 0..3 {
        let promised = history.answered;
        let mut rig = Rig::recover(&disk, Durability::Always, history, promised).unwrap();
        rig.live(dice).unwrap();
        if dice.below(2) == 0 {
            rig.snapshot().unwrap();
        }
        history = rig.history;
        disk = disk.kill();
    }
    (disk, history)
}

/// Opens it with the distance in force, which is returned, and compares everything.
fn check(disk: &SimulatedDisk, history: &History) -> u8 {
    let in_force = directory(disk).distance_max;
    let options = for_distance(in_force.get());
    let promised = history.answered;
    let rig = Rig::recover_with(disk, &options, history.clone(), promised).unwrap();
    let sequence = rig.core.view().sequence();
    assert_eq!((sequence, rig.core.view().shape().distance_max), (promised, in_force));
    in_force.get()
}

#[test]
fn a_reindex_that_is_cut_off_anywhere_leaves_the_old_or_the_new_distance_and_everything() {
    let mut outcomes = [0, 0];
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let (before, history) = lived(&mut dice);
        for operation in 1..OPERATIONS_MAX {
            let disk = before.copy();
            disk.set_faults(Faults { crash_at_operation: Some(operation), ..Faults::default() });
            let ended = reindexed(&disk, 6).is_ok();
            for after in [disk.kill(), disk.crash(dice.roll())] {
                after.set_faults(Faults::default());
                let bits = check(&after.copy(), &history);
                outcomes[usize::from(bits == 6)] += 1;
                assert!(bits == 6 || (bits == 3 && !ended), "{seed}, {operation}: {bits}");
                // It can be run again, to the end.
                if bits == 3 {
                    reindexed(&after, 6).unwrap();
                    assert_eq!(check(&after, &history), 6);
                }
            }
            if ended {
                break;
            }
        }
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn a_reindexed_directory_has_one_snapshot_and_starts_from_it() {
    let (disk, history) = lived(&mut Dice::new(1));
    for bits in [6, 8, 0, 3] {
        reindexed(&disk, bits).unwrap();
        let names: Vec<_> = disk.list().unwrap();
        let manifests = names.iter().filter(|name| name.ends_with(".manifest"));
        let expected =
            format!("snapshot-{:020}-distance-{bits:02}.manifest", history.answered.get());
        assert_eq!(manifests.collect::<Vec<_>>(), [&expected]);
        assert_eq!(check(&disk.copy(), &history), bits);
        let disk: Arc<dyn Disk> = Arc::new(disk.copy());
        let recovered = recover(&disk, &for_distance(bits), &ENTROPY).unwrap();
        let newest = recovered.snapshots.list();
        assert_eq!(newest.len(), 1);
        assert_eq!((newest[0].sequence, newest[0].taken_at_ms), (history.answered, 7));
    }
}

#[test]
fn a_snapshot_for_another_distance_is_ignored_and_removed_later() {
    let (disk, history) = lived(&mut Dice::new(2));
    let mut rig = Rig::recover(&disk, Durability::Always, history, Sequence::ZERO).unwrap();
    rig.snapshot().unwrap();
    let history = rig.history;
    let old = disk.copy();
    reindexed(&disk, 6).unwrap();
    // The files of the old distance as a crash after the switch leaves them.
    for name in old.list().unwrap().into_iter().filter(|name| is_of_snapshot(name)) {
        let file = old.open(&name).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        disk.create(&name).unwrap().write_at(0, &bytes).unwrap();
    }
    assert_eq!(check(&disk.copy(), &history), 6);
    let mut rig = Rig::recover_with(&disk, &for_distance(6), history, Sequence::ZERO).unwrap();
    assert_eq!(rig.snapshots.list().len(), 1, "only that of the new distance");
    let insert = Insert::from(Document::bare(Fingerprint::new(1)));
    commit_one(&mut rig.core, insert).unwrap();
    rig.snapshot().unwrap();
    let old_names: Vec<_> = old.list().unwrap();
    let left = disk.list().unwrap();
    assert!(!left.iter().any(|name| is_of_snapshot(name) && old_names.contains(name)), "{left:?}");
}

#[test]
fn a_reindex_that_fails_leaves_no_files() {
    let (disk, history) = lived(&mut Dice::new(3));
    let names = disk.list().unwrap();
    disk.set_faults(Faults { capacity_bytes: Some(1), ..Faults::default() });
    assert!(reindexed(&disk, 6).is_err());
    disk.set_faults(Faults::default());
    let left = disk.list().unwrap();
    assert!(left.iter().all(|name| !is_of_snapshot(name) || names.contains(name)), "{left:?}");
    assert_eq!(check(&disk, &history), 3);
}

#[test]
fn labels_go_and_come_back_with_a_reindex() {
    let disk = SimulatedDisk::new();
    let open = |disk: &SimulatedDisk, has_labels| {
        let options = Options { has_labels, ..options(Durability::Always) };
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        recover(&disk, &options, &ENTROPY)
    };
    let mut core = open(&disk, true).unwrap().core;
    for number in 0..40 {
        let sketch = Some(Box::new(Sketch::from_codes(&[1; BINS])));
        let document = Document { sketch, ..Document::bare(Fingerprint::new(number << 32)) };
        commit_one(&mut core, Insert::from(document)).unwrap();
    }
    drop(core);
    let similar = |disk: &SimulatedDisk, has_labels| {
        let core = open(disk, has_labels).unwrap().core;
        let sketch = Sketch::from_codes(&[1; BINS]);
        let view = core.view();
        let labels: u64 = view.segments().iter().map(|segment| segment.bytes().labels).sum();
        let text = SimilarTo {
            fingerprint: Fingerprint::new(1),
            sketch: &sketch,
            threshold: MinResemblance::of_similarity(0.83).unwrap(),
            beyond: Distance::default(),
        };
        let found = view.similar(text, &Visibility::DEFAULT, &mut |_| true).0;
        (found.len(), labels > 0)
    };
    for has_labels in [false, true] {
        assert!(matches!(open(&disk, has_labels), Err(OpenError::Search { .. })));
        let change = Options { has_labels, ..options(Durability::Always) };
        let on: Arc<dyn Disk> = Arc::new(disk.clone());
        reindex(&on, &directory(&disk), &change, 7, &mut |_| ()).unwrap();
        let expected = if has_labels { (40, true) } else { (0, false) };
        assert_eq!(similar(&disk, has_labels), expected);
    }
}
