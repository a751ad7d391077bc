//! Tests of the promises of storage: what was acknowledged is there, and damage is refused. Each
//! file begins with its promise and its method.

mod continuity;
mod crash;
mod damage;
mod disks;
mod faults;
mod golden;
mod index_files;
mod journal;
mod pages;
mod reclaim;
mod sealed_files;
mod speed;

use std::sync::Arc;

use crate::scan;
use crate::simulated::{Dice, Faults};
use crate::{Identity, Journal, Records, SimulatedDisk, StorageError, Tail};

/// A record as the tests remember it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remembered {
    first: u64,
    count: u32,
    payload: Vec<u8>,
}

fn identity() -> Identity {
    Identity::new(*b"a data directory", "np2")
}

fn recover(disk: &SimulatedDisk, from: u64) -> Result<(Tail, Vec<Remembered>), StorageError> {
    let mut records = Vec::new();
    let tail = scan(disk, &identity(), from, &mut |record| {
        records.push(Remembered {
            first: record.first,
            count: record.count,
            payload: record.payload.to_vec(),
        });
    })?;
    Ok((tail, records))
}

fn open(disk: &SimulatedDisk, file_bytes: u64) -> Result<Journal, StorageError> {
    let (tail, _) = recover(disk, 0)?;
    Journal::open(Arc::new(disk.clone()), identity(), tail, file_bytes)
}

/// Appends one record and remembers it.
fn append(journal: &mut Journal, dice: &mut Dice, bytes: usize) -> Remembered {
    let payload = dice.bytes(bytes);
    let count = 1 + dice.below(4) as u32;
    let first = journal.append(&payload, count).unwrap();
    Remembered { first, count, payload }
}

/// A journal as the engine writes it: groups, a sync after each, a seal when idle.
fn written_journal(groups: usize, file_bytes: u64) -> (SimulatedDisk, Vec<Remembered>) {
    let disk = SimulatedDisk::new();
    let mut journal = open(&disk, file_bytes).unwrap();
    let mut dice = Dice::new(1);
    let mut records = Vec::new();
    for _ in 0..groups {
        for _ in 0..=dice.below(3) {
            let bytes = dice.below(200);
            records.push(append(&mut journal, &mut dice, bytes));
        }
        journal.sync().unwrap();
        if dice.below(3) == 0 {
            journal.seal().unwrap();
        }
    }
    journal.seal().unwrap();
    (disk, records)
}

fn journal_files(disk: &SimulatedDisk) -> Vec<String> {
    use super::Disk;
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("journal-"));
    names
}

fn file_bytes(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    let mut copy = Vec::new();
    disk.edit(name, |bytes| copy.clone_from(bytes));
    copy
}

/// Each of these records is read by each of its sequences.
fn assert_reads(records: &Records, expected: &[Remembered], what: &str) {
    for Remembered { first, count, payload } in expected {
        for sequence in *first..first + u64::from(*count) {
            let read = records.read(sequence).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = (read.first, read.count, &read.payload);
            assert_eq!(found, (*first, *count, payload), "{what}");
        }
    }
}

/// Does something on copies of a disk, with a crash at the first operation, the second, and so on
/// until there is none. Checks what a kill and three power cuts leave of each, and of the whole.
/// Returns how many crashes there were.
fn crash_at_each_operation(
    whole: &SimulatedDisk,
    file_bytes: u64,
    act: impl Fn(&Journal) -> Result<(), StorageError>,
    check: impl Fn(&SimulatedDisk, &str),
) -> u64 {
    for operation in 1.. {
        let disk = whole.copy();
        let journal = open(&disk, file_bytes).unwrap();
        let crash_at_operation = Some(operation);
        disk.set_faults(Faults { crash_at_operation, ..Faults::default() });
        let acted = act(&journal);
        for seed in 0..4 {
            let after = if seed == 0 { disk.kill() } else { disk.crash(seed) };
            check(&after, &format!("{operation}/{seed}"));
        }
        if acted.is_ok() {
            return operation - 1;
        }
    }
    unreachable!("there are fewer operations than numbers")
}
