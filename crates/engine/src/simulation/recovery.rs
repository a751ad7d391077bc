//! Promise: a crash during a recovery loses nothing; the next recovery finds the same state.
//! Method: a power cut in each operation of a recovery in turn, and one in the recovery after it,
//! until a recovery completes. Also: a directory whose times are ahead of the clock is refused.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_machine::commands::Insert;
use nearprint_machine::document::{Document, Sequence};
use nearprint_storage::simulated::{Dice, Faults};
use nearprint_storage::{Disk, SimulatedDisk};

use super::rig::{ENTROPY, History, Rig, commit, options, queued, variable};
use crate::api::clock;
use crate::api::error::OpenError;
use crate::api::options::{Durability, Options};
use crate::directories::recovery::recover;
use crate::write::core::Core;

/// The number of seeds per commit; `make torture` runs more.
const CRASHES: u64 = 100;

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

/// Whether a directory opens, if its clock may be this far behind.
fn opens(disk: &SimulatedDisk, clock_behind_ms_max: Option<u64>) -> Result<(), OpenError> {
    let options = Options { clock_behind_ms_max, ..options(Durability::Always) };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    recover(&disk, &options, &ENTROPY).map(drop)
}

#[test]
fn a_directory_that_is_far_ahead_of_the_clock_opens_only_if_that_is_accepted() {
    const AHEAD_MS: u64 = 400_000;
    let disk = SimulatedDisk::new();
    let mut rig = Rig::recover(&disk, Durability::Always, History::new(), Sequence::ZERO).unwrap();
    let stored = |core: &mut Core, bits, at_ms| {
        let document = Document::bare(Fingerprint::new(bits));
        commit(core, vec![queued(Insert::from(document), at_ms).0]).unwrap();
    };
    stored(&mut rig.core, 1, clock::now_ms() - AHEAD_MS);
    assert!(opens(&disk.copy(), Some(1_000)).is_ok(), "it is behind the clock");
    let written_ms = clock::now_ms() + AHEAD_MS;
    stored(&mut rig.core, 2, written_ms);
    // The files of a snapshot know the time, too.
    for with_snapshot in [false, true] {
        if with_snapshot {
            rig.snapshot().unwrap();
        }
        let refused = opens(&disk.copy(), Some(300_000)).unwrap_err();
        assert!(
            matches!(refused, OpenError::ClockBehind { stored_ms, .. } if stored_ms == written_ms),
            "{refused}"
        );
        let said = refused.to_string();
        for word in [clock::utc(written_ms).as_str(), "--accept-time", "6 minutes", "5 minutes"] {
            assert!(said.contains(word), "{said}");
        }
        assert!(opens(&disk.copy(), Some(AHEAD_MS)).is_ok());
        assert!(opens(&disk.copy(), None).is_ok());
    }
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
