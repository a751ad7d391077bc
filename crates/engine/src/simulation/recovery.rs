//! Promise: a crash during a recovery loses nothing; the next recovery finds the same state.
//! Method: a power cut in each operation of a recovery in turn, and one in the recovery after it,
//! until a recovery completes.

use std::sync::Arc;

use super::rig::{ENTROPY, History, Rig, options, variable};
use crate::api::options::Durability;
use crate::document::Sequence;
use crate::open::recovery::recover;
use crate::storage::simulated::{Dice, Faults};
use crate::storage::{Disk, SimulatedDisk};

/// The number of seeds per commit; `make torture` runs more.
const CRASHES: u64 = 1_000;

/// A disk after a life that a power cut has ended, and the last change promised.
fn crashed(dice: &mut Dice) -> (SimulatedDisk, History) {
    let disk = SimulatedDisk::new();
    let mut rig = Rig::recover(&disk, Durability::Always, History::new(), Sequence::ZERO).unwrap();
    let crash_at_operation = Some(30 + dice.roll() % 90);
    disk.set_faults(Faults { crash_at_operation, ..Faults::default() });
    rig.live(dice).unwrap();
    (disk.crash(dice.roll()), rig.history)
}

/// Recovers with a power cut in operation `at`. Returns whether it completed before.
fn interrupted(disk: &SimulatedDisk, at: u64) -> bool {
    disk.set_faults(Faults { crash_at_operation: Some(at), ..Faults::default() });
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    recover(&disk, &options(Durability::Always), &ENTROPY).is_ok()
}

#[test]
fn a_recovery_that_crashes_anywhere_is_done_again() {
    let most = variable("NEARPRINT_SIMULATION_SEEDS", CRASHES);
    let (mut crashes, mut seed) = (0, 0);
    while crashes < most {
        let mut dice = Dice::new(seed);
        let (disk, history) = crashed(&mut dice);
        for at in 1.. {
            let mut disk = disk.copy();
            if interrupted(&disk, at) {
                break;
            }
            disk = disk.crash(dice.roll());
            if !interrupted(&disk, 1 + dice.roll() % at) {
                crashes += 1;
            }
            disk = disk.crash(dice.roll());
            let promised = history.answered;
            let rig = Rig::recover(&disk, Durability::Always, history.clone(), promised);
            crashes += 1;
            if let Err(broken) = rig {
                panic!("seed {seed}, power cut in operation {at}: {broken}");
            }
        }
        seed += 1;
    }
}
