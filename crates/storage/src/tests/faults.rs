//! Promise: a failed write or sync is never retried, and a full disk is noticed before anything is
//! decided. Method: faults of the simulated disk.

use super::*;
use crate::Disk;
use crate::simulated::{Failure, Faults, Operation};

fn failing(operation: Operation, failure: Failure) -> Faults {
    Faults { fail: vec![(operation, 1, failure)], ..Faults::default() }
}

#[test]
fn after_a_failed_write_or_sync_every_call_fails() {
    for operation in [Operation::Write, Operation::Sync] {
        for failure in [Failure::Io, Failure::Full] {
            let disk = SimulatedDisk::new();
            let mut journal = open(&disk, 1 << 20).unwrap();
            disk.set_faults(failing(operation, failure));
            journal.append(b"payload", 1).unwrap();
            assert!(matches!(journal.sync(), Err(StorageError::Io { .. })));
            let operations = disk.operations();
            let poisoned = |result| matches!(result, Err(StorageError::Poisoned { .. }));
            assert!(poisoned(journal.append(b"payload", 1).map(drop)));
            assert!(poisoned(journal.flush()));
            assert!(poisoned(journal.sync().map(drop)));
            assert!(poisoned(journal.seal()));
            assert!(poisoned(journal.reserve(1, 1, 0)));
            assert_eq!(disk.operations(), operations, "nothing was tried again");
        }
    }
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_durable_once_recovered() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, 1 << 20).unwrap();
        let mut dice = Dice::new(seed);
        for _ in 0..20 {
            append(&mut journal, &mut dice, 300);
            journal.flush().unwrap();
        }
        disk.set_faults(Faults { seed, ..failing(Operation::Sync, Failure::Io) });
        journal.sync().unwrap_err();

        let disk = disk.kill();
        let (_, seen) = recover(&disk, 0).unwrap();
        drop(open(&disk, 1 << 20).unwrap());
        let disk = disk.crash(seed);
        let (_, after) = recover(&disk, 0).unwrap();
        assert_eq!(after, seen, "seed {seed}");
    }
}

#[test]
fn a_full_disk_refuses_a_group_and_writes_resume_when_there_is_space() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    let capacity = |bytes| {
        disk.set_faults(Faults { capacity_bytes: Some(bytes), ..Faults::default() });
    };
    // One byte too few for the seal after the thirteenth.
    capacity(68 + 13 * 360 + 59);
    let mut accepted = 0;
    while journal.reserve(1, 300, 0).is_ok() {
        journal.append(&[7; 300], 1).unwrap();
        journal.sync().unwrap();
        accepted += 1;
    }
    assert_eq!(accepted, 12);
    assert!(journal.reserve(1, 300, 0).unwrap_err().is_full());
    journal.seal().unwrap();
    assert_eq!(journal.records().read(accepted).unwrap().payload, [7; 300]);

    capacity(50_000);
    journal.reserve(1, 300, 0).unwrap();
    journal.append(&[8; 300], 1).unwrap();
    assert_eq!(journal.sync().unwrap(), accepted + 1);
}

#[test]
fn without_room_for_a_new_file_the_old_one_grows() {
    for (operation, failure) in [
        (Operation::Create, Failure::Full),
        (Operation::Reserve, Failure::Full),
        (Operation::Create, Failure::OutOfFiles),
    ] {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, 1_000).unwrap();
        disk.set_faults(failing(operation, failure));
        let mut dice = Dice::new(4);
        let mut records = Vec::new();
        for _ in 0..4 {
            records.push(append(&mut journal, &mut dice, 800));
            journal.sync().unwrap();
        }
        // The last group is flushed and not synced: torn at most, not damage.
        append(&mut journal, &mut dice, 100);
        journal.flush().unwrap();
        for seed in 0..50 {
            let recovered = recover(&disk.crash(seed), 0).unwrap().1;
            assert!(recovered.starts_with(&records), "seed {seed}");
        }
    }
}

#[test]
fn the_last_file_that_there_may_be_grows_until_there_may_be_more() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1_000).unwrap();
    let mut dice = Dice::new(4);
    let mut written = |files: u64, journal: &mut Journal| {
        disk.set_faults(Faults { record_files_max: Some(files), ..Faults::default() });
        let records: Vec<_> = (0..9).map(|_| append(journal, &mut dice, 800)).collect();
        journal.sync().unwrap();
        journal.cut().unwrap();
        assert_eq!(journal_files(&disk).len() as u64, files);
        records
    };
    let first = written(1, &mut journal);
    let second = written(2, &mut journal);
    disk.set_faults(Faults { record_files_max: Some(2), ..Faults::default() });
    let before = disk.operations();
    let third = append(&mut journal, &mut dice, 800);
    journal.sync().unwrap();
    assert_eq!(disk.operations() - before, 2, "a write and a sync");
    let recovered = recover(&disk.kill(), 0).unwrap().1;
    assert_eq!(recovered, [first, second, vec![third]].concat());
}

#[test]
fn a_group_after_a_rotation_that_failed_on_a_full_disk_can_be_torn() {
    for seed in 0..100 {
        let disk = SimulatedDisk::new();
        let mut journal = open(&disk, 1_000).unwrap();
        let mut dice = Dice::new(4);
        // The new file is created, has no space for its header, and is removed again.
        disk.set_faults(failing(Operation::Reserve, Failure::Full));
        let first = append(&mut journal, &mut dice, 1_200);
        journal.sync().unwrap();
        assert_eq!(journal_files(&disk).len(), 1);

        let second = append(&mut journal, &mut dice, 1_200);
        let in_the_sync = Faults { crash_at_operation: Some(2), ..Faults::default() };
        disk.set_faults(in_the_sync);
        journal.sync().unwrap_err();
        let recovered = recover(&disk.crash(seed), 0).unwrap().1;
        assert!([first, second].starts_with(&recovered), "seed {seed}");
        assert!(!recovered.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_closed_file_returns_its_reserved_space_and_the_next_one_reserves_again() {
    let disk = SimulatedDisk::new();
    let capacity = |bytes| {
        disk.set_faults(Faults { capacity_bytes: Some(bytes), ..Faults::default() });
    };
    let mut journal = open(&disk, 1_000).unwrap();
    capacity(10 << 20);
    journal.reserve(1, 1_000, 0).unwrap();
    journal.append(&[1; 1_000], 1).unwrap();
    journal.sync().unwrap();
    let extent = journal.records().extent();
    assert_eq!(extent.files, 2);
    assert_eq!(disk.free_bytes().unwrap(), (10 << 20) - extent.bytes);
    capacity(extent.bytes + 50);
    assert!(journal.reserve(1, 1, 0).unwrap_err().is_full());
}

#[test]
fn a_header_whose_sync_failed_is_durable_once_recovered() {
    for seed in 0..50 {
        let disk = SimulatedDisk::new();
        disk.set_faults(Faults { seed, ..failing(Operation::Sync, Failure::Io) });
        assert!(open(&disk, 1 << 20).is_err());
        let disk = disk.kill();
        let mut journal = open(&disk, 1 << 20).unwrap();
        let record = append(&mut journal, &mut Dice::new(seed), 100);
        journal.sync().unwrap();
        assert_eq!(recover(&disk.crash(seed), 0).unwrap().1, [record]);
    }
}

#[test]
fn no_seal_is_written_on_a_full_disk() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, 1 << 20).unwrap();
    let first = append(&mut journal, &mut Dice::new(5), 300);
    journal.sync().unwrap();
    disk.set_faults(failing(Operation::Write, Failure::Full));
    journal.seal().unwrap();
    let second = append(&mut journal, &mut Dice::new(6), 300);
    journal.sync().unwrap();
    assert_eq!(recover(&disk, 0).unwrap().1, [first, second]);
}

#[test]
fn a_power_cut_at_each_operation_of_a_rotation_keeps_everything_acknowledged() {
    for at in 1..40 {
        let disk = SimulatedDisk::new();
        disk.set_faults(Faults { crash_at_operation: Some(at), ..Faults::default() });
        let mut acknowledged = 0;
        let mut run = || -> Result<(), StorageError> {
            let mut journal = open(&disk, 500)?;
            for _ in 0..6 {
                journal.append(&[1; 200], 1)?;
                acknowledged = journal.sync()?;
                journal.seal()?;
            }
            Ok(())
        };
        let _ended = run();
        for seed in 0..50 {
            let disk = disk.crash(seed);
            assert!(recover(&disk, 0).unwrap().0.last >= acknowledged, "operation {at}");
            let journal = open(&disk, 500).unwrap();
            assert!(journal.next_sequence() > acknowledged);
        }
    }
}
