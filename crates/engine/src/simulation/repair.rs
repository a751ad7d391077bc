//! Promise: a repair that is interrupted anywhere can be run again, with the same result, and until
//! then no service starts; every damaged file has a copy. Method: the directory of the golden
//! files, damaged in each of its files, with a power cut in every operation of the repair.

use std::sync::Arc;

use nearprint_index::view::Counts;
use nearprint_storage::simulated::Faults;
use nearprint_storage::{Disk, SimulatedDisk, StorageError};

use super::golden::{directory_of_today, settings};
use super::rig::ENTROPY;
use crate::api::error::OpenError;
use crate::directories::recovery::{Recovered, recover};
use crate::directories::repair::{carry_out, plan};
use crate::directory_file::DirectoryFile;

/// Repairs if there is something to repair. Returns the number of changes reported as lost.
fn repair(disk: &SimulatedDisk) -> Result<u64, StorageError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let directory = DirectoryFile::read(&*disk)?.unwrap();
    let plan = plan(&disk, &directory, &mut |_| ())?;
    if !plan.is_empty() {
        carry_out(&disk, &directory, &plan)?;
    }
    Ok(plan.lost())
}

fn counts(disk: &SimulatedDisk) -> Result<Counts, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let Recovered { core, .. } = recover(&disk, &settings(), &ENTROPY)?;
    Ok(core.view().counts())
}

fn bytes_of(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    disk.edit(name, |file| bytes.clone_from(file));
    bytes
}

/// The directory with damage in one file.
fn damaged(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> SimulatedDisk {
    let disk = directory_of_today();
    disk.edit(name, damage);
    disk
}

fn flip(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
}

#[test]
fn a_power_cut_in_every_operation_of_a_repair_changes_nothing_of_its_end() {
    let names = directory_of_today().list().unwrap();
    let records = names.iter().filter(|n| n.starts_with("journal-") || n.starts_with("records-"));
    let closed = names.iter().find(|name| name.starts_with("journal-")).unwrap();
    let cut = damaged(closed, |bytes| bytes.truncate(bytes.len() / 2));
    let flipped = records.map(|name| (name, damaged(name, |bytes| flip(bytes))));
    for (name, disk) in flipped.chain([(closed, cut)]) {
        let (bad, before) = (bytes_of(&disk, name), counts(&disk.copy()).ok());
        let whole = disk.copy();
        let lost = repair(&whole).unwrap();
        let expected = counts(&whole).unwrap();
        let mut crashes = 0;
        for at in 1.. {
            let disk = disk.copy();
            disk.set_faults(Faults { crash_at_operation: Some(at), ..Faults::default() });
            let ended = repair(&disk).is_ok();
            for seed in 0..3 {
                let after = if seed == 0 { disk.kill() } else { disk.crash(seed) };
                // It opens as it did before or as it will, and not in between.
                if let Ok(counts) = counts(&after.copy()) {
                    let known = Some(counts) == before || counts == expected;
                    assert!(known, "{name}, operation {at}: {counts:?}");
                }
                assert!(repair(&after).unwrap() <= lost, "{name}, operation {at}");
                assert_eq!(counts(&after).unwrap(), expected, "{name}, operation {at}");
                let copies = after.list().unwrap();
                let mut copies = copies.iter().filter(|name| name.contains(".damaged"));
                assert!(copies.any(|copy| bytes_of(&after, copy) == bad), "{name}: no copy");
            }
            if ended {
                break;
            }
            crashes = at;
        }
        assert!(crashes > 20, "{name}: a repair has more than {crashes} operations");
    }
}
