//! Promise: after any crash the journal has a prefix of what was accepted, with everything that was
//! acknowledged, byte for byte. Method: seeded lives of a journal on a simulated disk, each ended
//! by a power cut or a kill at a random operation, also during recovery, with a bit flipped after
//! each. The same harness must catch each mutant, or it proves nothing. A failing seed is printed
//! and replays.

use std::sync::Arc;

use crate::frame::mutant::IGNORE_CHECKSUMS;
use crate::scan;
use crate::simulated::{Dice, Faults};
use crate::{Disk, Identity, Journal, RecordRef, SimulatedDisk, StorageError, Tail};

const SEEDS: u64 = 2_500;
const LIVES: usize = 5;

/// What is broken on purpose, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    Healthy,
    NoSync,
    LyingSync,
    LyingDirectorySync,
    NoChecksumCheck,
}

/// The expected journal.
#[derive(Default)]
struct Model {
    /// Every accepted record: its first sequence, count, payload.
    accepted: Vec<(u64, u32, Vec<u8>)>,
    acknowledged: u64,
}

impl Model {
    fn last(&self) -> u64 {
        let last = self.accepted.last();
        last.map_or(0, |(first, count, _)| first + u64::from(*count) - 1)
    }

    /// Compares the result of recovery with the model, and continues from it.
    fn check(&mut self, tail: &Tail, records: &[(u64, u32, Vec<u8>)]) -> Result<(), String> {
        if !self.accepted.starts_with(records) {
            return Err("wrong records were recovered".to_owned());
        }
        self.accepted.truncate(records.len());
        if tail.last != self.last() || tail.last < self.acknowledged {
            return Err(format!(
                "acknowledged up to {}, recovered up to {}",
                self.acknowledged, tail.last
            ));
        }
        // From now on readers can see them.
        self.acknowledged = tail.last;
        Ok(())
    }
}

fn identity() -> Identity {
    Identity::new([9; 16], "np2")
}

/// One seed: a few lives of a journal, each checked against the model.
fn campaign(seed: u64, mutant: Mutant) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let disk_faults = Faults {
        lying_sync: mutant == Mutant::LyingSync,
        lying_directory_sync: mutant == Mutant::LyingDirectorySync,
        ..Faults::default()
    };
    let mut disk = SimulatedDisk::new();
    let mut model = Model::default();
    for _ in 0..LIVES {
        disk.set_faults(Faults {
            crash_at_operation: Some(1 + dice.below(50) as u64),
            ..disk_faults.clone()
        });
        match live(&disk, &mut model, &mut dice, mutant) {
            Ok(()) | Err(Ended::ByTheDisk) => {}
            Err(Ended::Wrong(what)) => return Err(what),
        }
        disk = if dice.below(4) == 0 { disk.kill() } else { disk.crash(dice.roll()) };
        rot(&disk, &model, &mut dice)?;
    }
    recovered(&disk, &mut model).map(drop).map_err(|ended| match ended {
        Ended::ByTheDisk => "the disk is healthy now".to_owned(),
        Ended::Wrong(what) => what,
    })
}

/// Flips a bit of a copy: it may be refused, or cut where no claim was on disk yet, but never read.
fn rot(disk: &SimulatedDisk, model: &Model, dice: &mut Dice) -> Result<(), String> {
    let rotten = disk.copy();
    let names = rotten.list().map_err(|error| error.to_string())?;
    if names.is_empty() {
        return Ok(());
    }
    rotten.edit(&names[dice.below(names.len())], |bytes| {
        if !bytes.is_empty() {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
    });
    let mut records = Vec::new();
    let scanned = scan(&rotten, &identity(), 0, &mut |record: RecordRef<'_>| {
        records.push((record.first, record.count, record.payload.to_vec()));
    });
    if scanned.is_ok() && !model.accepted.starts_with(&records) {
        return Err("a flipped bit was read".to_owned());
    }
    Ok(())
}

enum Ended {
    ByTheDisk,
    Wrong(String),
}

impl From<StorageError> for Ended {
    fn from(error: StorageError) -> Self {
        if matches!(error, StorageError::Io { .. } | StorageError::Poisoned { .. }) {
            Self::ByTheDisk
        } else {
            Self::Wrong(error.to_string())
        }
    }
}

fn recovered(disk: &SimulatedDisk, model: &mut Model) -> Result<Tail, Ended> {
    let mut records = Vec::new();
    let tail = scan(disk, &identity(), 0, &mut |record: RecordRef<'_>| {
        records.push((record.first, record.count, record.payload.to_vec()));
    })?;
    model.check(&tail, &records).map_err(Ended::Wrong)?;
    Ok(tail)
}

fn live(
    disk: &SimulatedDisk,
    model: &mut Model,
    dice: &mut Dice,
    mutant: Mutant,
) -> Result<(), Ended> {
    // Until `open` has made it durable, a recovered tail is not acknowledged.
    let acknowledged = model.acknowledged;
    let tail = recovered(disk, model)?;
    let file_bytes = [6_000, 60_000][dice.below(2)];
    let recovered_upto = std::mem::replace(&mut model.acknowledged, acknowledged);
    let mut journal = Journal::open(Arc::new(disk.clone()), identity(), tail, file_bytes)?;
    model.acknowledged = recovered_upto;
    for _ in 0..40 {
        match dice.below(10) {
            0..4 => accept(&mut journal, model, dice)?,
            4..7 => {
                journal.flush()?;
                if mutant == Mutant::NoSync {
                    model.acknowledged = model.last();
                }
            }
            7 if mutant != Mutant::NoSync => model.acknowledged = journal.sync()?,
            8 => journal.seal()?,
            _ => read_acknowledged(&journal, model, dice)?,
        }
    }
    Ok(())
}

fn accept(journal: &mut Journal, model: &mut Model, dice: &mut Dice) -> Result<(), Ended> {
    // Longer than a sector or two, so that a torn payload can follow a whole header.
    let most = [64, 3_000, 9_000][dice.below(3)];
    let bytes = dice.below(most);
    journal.reserve(1, bytes as u64, 0)?;
    let (payload, count) = (dice.bytes(bytes), 1 + dice.below(3) as u32);
    let first = journal.append(&payload, count)?;
    model.accepted.push((first, count, payload));
    Ok(())
}

fn read_acknowledged(journal: &Journal, model: &Model, dice: &mut Dice) -> Result<(), Ended> {
    if model.acknowledged == 0 {
        return Ok(());
    }
    let sequence = 1 + dice.below(model.acknowledged as usize) as u64;
    let record = journal.records().read(sequence)?;
    let read = (record.first, record.count, record.payload);
    let covered = read.0 <= sequence && sequence < read.0 + u64::from(read.1);
    if !covered || !model.accepted.contains(&read) {
        return Err(Ended::Wrong(format!("a wrong record was read at {sequence}")));
    }
    Ok(())
}

#[test]
fn every_crash_leaves_a_prefix_with_everything_acknowledged() {
    for seed in 0..SEEDS {
        if let Err(what) = campaign(seed, Mutant::Healthy) {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn each_mutant_is_caught_within_ten_seeds() {
    for mutant in
        [Mutant::NoSync, Mutant::LyingSync, Mutant::LyingDirectorySync, Mutant::NoChecksumCheck]
    {
        IGNORE_CHECKSUMS.set(mutant == Mutant::NoChecksumCheck);
        let caught: Vec<u64> = (0..100).filter(|seed| campaign(*seed, mutant).is_err()).collect();
        IGNORE_CHECKSUMS.set(false);
        let first = caught.first();
        println!("{mutant:?}: first {first:?}, {} of 100", caught.len());
        assert!(
            first.is_some_and(|seed| *seed < 10) && caught.len() >= 20,
            "{mutant:?} was caught only by {caught:?}: the harness proves little"
        );
    }
}
