//! Promise: a sweep reclaims what is not needed and nothing else, whenever the power is cut, and
//! pinned readers see no difference. Method: sweeps a small journal with a crash at every
//! operation; flips every bit of a pack and cuts it at every byte; reads a pack slowly while it is
//! replaced.

use super::*;
use crate::journal::reclaim::{Keep, Reclaimer, Sweep, SweepRange, Usage};
use crate::names::record_range;
use crate::{Damage, Disk, Extent, RecordRef};

const FILE_BYTES: u64 = 1_500;

/// Every record with an odd first sequence is needed; of the others, only the last change.
fn needed(record: RecordRef<'_>, emit: &mut dyn FnMut(RecordRef<'_>)) {
    if record.first % 2 == 1 {
        emit(record);
    } else if record.count > 1 {
        let first = record.first + u64::from(record.count) - 1;
        emit(RecordRef { first, count: 1, payload: b"the last" });
    }
}

fn needed_of(records: &[Remembered]) -> Vec<Remembered> {
    let mut all = Vec::new();
    for Remembered { first, count, payload } in records {
        needed(RecordRef { first: *first, count: *count, payload }, &mut |part| {
            let payload = part.payload.to_vec();
            all.push(Remembered { first: part.first, count: part.count, payload });
        });
    }
    all
}

/// The sequence after the last closed file.
fn closed(disk: &SimulatedDisk) -> u64 {
    let newest = journal_files(disk).pop().unwrap();
    record_range(&newest).unwrap().0
}

fn packs(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("records-"));
    names
}

/// Sweeps all closed files that end before a sequence; returns where it stopped.
fn sweep_by(reclaimer: &Reclaimer, next: u64, keep: &mut Keep<'_>) -> Result<u64, StorageError> {
    let mut range = SweepRange { from: 1, next, pack_bytes: FILE_BYTES };
    while let Sweep::UpTo { next, .. } = reclaimer.sweep(range, keep, &mut |_| true)? {
        range.from = next;
    }
    Ok(range.from)
}

fn sweep(journal: &Journal, next: u64) -> Result<(), StorageError> {
    sweep_by(&journal.reclaimer(), next, &mut needed).map(drop)
}

#[test]
fn a_sweep_keeps_what_is_needed_and_pinned_readers_see_no_difference() {
    let (disk, written) = written_journal(60, FILE_BYTES);
    let next = closed(&disk);
    let journal = open(&disk, FILE_BYTES).unwrap();
    let pinned = journal.records().pin();
    let before = journal.records().extent();
    let surveyed = journal.reclaimer().survey(next, &mut needed, &mut |_| true);
    let usage = surveyed.unwrap().unwrap().usage;
    sweep(&journal, next).unwrap();

    let (old, new): (Vec<_>, Vec<_>) = written.iter().cloned().partition(|r| r.first < next);
    assert_reads(&journal.records(), &needed_of(&old), "swept");
    assert_reads(&journal.records(), &new, "swept");
    assert_reads(&pinned, &written, "swept");
    let gone = old.iter().find(|r| r.first % 2 == 0 && r.count == 1).unwrap();
    let error = journal.records().read(gone.first).unwrap_err();
    assert!(matches!(error, StorageError::Reclaimed { sequence } if sequence == gone.first));

    let after = journal.records().extent();
    let changes: u64 = needed_of(&old).iter().chain(&new).map(|r| u64::from(r.count)).sum();
    assert_eq!(after.changes, changes);
    assert!(after.bytes < before.bytes && after.packs > 0, "{after:?}");
    // The survey predicted the size, except for the headers and ends of files.
    let rest = before.bytes - usage.bytes;
    let predicted = usage.live_bytes + rest;
    assert!(after.bytes.abs_diff(predicted) <= 200 * before.files, "{usage:?} {after:?}");

    let names = disk.list().unwrap();
    assert_eq!(names.len() as u64, after.files, "what was packed is removed: {names:?}");
    assert_eq!(recover(&disk.kill(), 0).unwrap().1, [needed_of(&old), new].concat());
}

#[test]
fn the_extent_is_that_of_the_files_on_the_disk() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, FILE_BYTES).unwrap();
    let mut dice = Dice::new(5);
    let assert_extent = |journal: &Journal, changes: u64| {
        let names = disk.list().unwrap();
        let bytes = names.iter().map(|name| file_bytes(&disk, name).len() as u64).sum();
        let packs = packs(&disk).len() as u64;
        let expected = Extent { files: names.len() as u64, packs, bytes, changes };
        assert_eq!(journal.records().extent(), expected);
    };
    for _ in 0..80 {
        append(&mut journal, &mut dice, 200);
        journal.sync().unwrap();
        journal.seal().unwrap();
        assert_extent(&journal, journal.next_sequence() - 1);
    }
    let packed = closed(&disk);
    let needed_changes = |records: &[Remembered]| -> u64 {
        needed_of(records).iter().map(|record| u64::from(record.count)).sum()
    };
    let (_, written) = recover(&disk.copy(), 0).unwrap();
    let (old, new): (Vec<_>, Vec<_>) = written.into_iter().partition(|r| r.first < packed);
    sweep(&journal, packed).unwrap();
    let live: u64 = new.iter().map(|record| u64::from(record.count)).sum();
    assert_extent(&journal, needed_changes(&old) + live);
    assert_extent(&open(&disk, FILE_BYTES).unwrap(), needed_changes(&old) + live);
}

#[test]
fn a_second_sweep_changes_nothing_that_is_read() {
    let (disk, written) = written_journal(60, FILE_BYTES);
    let next = closed(&disk);
    let journal = open(&disk, FILE_BYTES).unwrap();
    sweep(&journal, next).unwrap();
    let usage = |needed: &mut Keep<'_>| {
        journal.reclaimer().survey(next, needed, &mut |_| true).unwrap().unwrap().usage
    };
    let Usage { bytes, live_bytes } = usage(&mut |record, emit| emit(record));
    assert_eq!(bytes, live_bytes);
    let files = journal.records().extent();
    let reclaimer = journal.reclaimer();
    let mut all = |record: RecordRef<'_>, emit: &mut dyn FnMut(RecordRef<'_>)| emit(record);
    sweep_by(&reclaimer, next, &mut all).unwrap();
    assert!(journal.records().extent().files <= files.files);
    let old: Vec<_> = written.iter().filter(|r| r.first < next).cloned().collect();
    assert_reads(&journal.records(), &needed_of(&old), "swept");
}

/// Parts of a record may take more bytes than the record did. What is not needed is removed anyway,
/// because the same sweep may remove the record that forgets it.
#[test]
fn unneeded_records_are_removed_even_if_the_rest_takes_more_bytes() {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, FILE_BYTES).unwrap();
    for _ in 0..60 {
        journal.append(b"three", 3).unwrap();
        journal.sync().unwrap();
    }
    let mut ends = |record: RecordRef<'_>, emit: &mut dyn FnMut(RecordRef<'_>)| {
        emit(RecordRef { first: record.first, count: 1, payload: b"first" });
        emit(RecordRef { first: record.first + 2, count: 1, payload: b"last" });
    };
    let next = closed(&disk);
    assert_eq!(sweep_by(&journal.reclaimer(), next, &mut ends).unwrap(), next);
    for first in (1..next).step_by(3) {
        let error = journal.records().read(first + 1).unwrap_err();
        assert!(matches!(error, StorageError::Reclaimed { .. }), "{error}");
        assert_eq!(journal.records().read(first + 2).unwrap().payload, b"last");
    }
}

#[test]
fn a_stopped_sweep_changes_nothing() {
    let (disk, written) = written_journal(60, FILE_BYTES);
    let next = closed(&disk);
    let journal = open(&disk, FILE_BYTES).unwrap();
    let names = disk.list().unwrap();
    let range = SweepRange { from: 1, next, pack_bytes: FILE_BYTES };
    let stopped = journal.reclaimer().sweep(range, &mut needed, &mut |_| false).unwrap();
    assert_eq!(stopped, Sweep::Stopped);
    assert_eq!(disk.list().unwrap(), names);
    assert_reads(&journal.records(), &written, "stopped");
}

#[test]
fn a_crash_at_every_operation_of_a_sweep_loses_nothing_that_is_needed() {
    let (whole, written) = written_journal(40, FILE_BYTES);
    let next = closed(&whole);
    let sweep_all = |journal: &Journal| sweep(journal, next);
    let crashes = crash_at_each_operation(&whole, FILE_BYTES, sweep_all, |after, what| {
        let (tail, records) = recover(after, 0).unwrap();
        assert_eq!(tail.last, written.iter().map(|r| u64::from(r.count)).sum::<u64>());
        for needed in needed_of(&written) {
            let last = needed.first + u64::from(needed.count);
            let covers = |r: &&Remembered| r.first <= needed.first;
            let found = records.iter().rfind(covers).unwrap();
            let is_whole = written.contains(found) && found.first + u64::from(found.count) >= last;
            assert!(*found == needed || is_whole, "{what}: {needed:?}, {found:?}");
        }
        // The journal continues from there.
        let journal = open(after, FILE_BYTES).unwrap();
        sweep(&journal, next).unwrap();
        let names = after.list().unwrap();
        assert!(names.iter().all(|name| !name.starts_with("journal-") || {
            record_range(name).unwrap().0 >= next
        }));
    });
    assert!(crashes > 20, "a sweep has more than {crashes} operations");
}

#[test]
fn every_flip_and_every_cut_of_a_pack_is_damage() {
    let (disk, _) = written_journal(12, 600);
    let next = closed(&disk);
    sweep(&open(&disk, 600).unwrap(), next).unwrap();
    let name = packs(&disk).pop().unwrap();
    let bytes = file_bytes(&disk, &name);
    assert!(recover(&disk.copy(), 0).is_ok());
    for bit in 0..bytes.len() * 8 {
        let flipped = disk.copy();
        flipped.edit(&name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert!(recover(&flipped, 0).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        let cut = disk.copy();
        cut.edit(&name, |bytes| bytes.truncate(length));
        // Even if its records are not read.
        assert!(recover(&cut, next - 1).is_err(), "cut to {length}");
    }
    let longer = disk.copy();
    longer.edit(&name, |bytes| bytes.extend_from_slice(&[0; 60]));
    assert!(recover(&longer, next - 1).is_err());
}

#[test]
fn a_missing_pack_and_a_snapshot_older_than_the_packs_are_refused() {
    let (disk, _) = written_journal(40, FILE_BYTES);
    let next = closed(&disk);
    sweep(&open(&disk, FILE_BYTES).unwrap(), next).unwrap();
    let error = recover(&disk, next - 2).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { why: Damage::Reclaimed, .. }), "{error}");
    let packs = packs(&disk);
    assert!(packs.len() > 1, "one between others: {packs:?}");
    for name in &packs {
        let without = disk.copy();
        without.remove(name).unwrap();
        let error = recover(&without, 0).unwrap_err();
        assert!(matches!(error, StorageError::Missing(_)), "{error}");
    }
}
