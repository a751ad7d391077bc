//! Promise: a crash leaves a prefix with everything promised: with `always` what was acknowledged,
//! with `interval` and `none` what was synced, or what was acknowledged if only the process died.
//! Method: seeded lives of the core, each with settings of its own. A failing seed is printed;
//! `seed_replays` runs it alone.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearprint_machine::document::Sequence;
use nearprint_storage::frame::mutant::IGNORE_CHECKSUMS;
use nearprint_storage::simulated::{Dice, Faults};
use nearprint_storage::{Disk, SimulatedDisk};

use super::draw::{created, settings};
use super::rig::{ENTROPY, History, Rig, options, variable};
use crate::api::options::{Durability, Options};
use crate::directories::recovery::recover;

/// Seeds per commit; `make torture` runs 1,000,000.
const SEEDS: u64 = 100;
/// Seeds per commit for each policy that promises less; `make torture` runs 100,000.
const SEEDS_OF_WINDOWS: u64 = 20;
const COMMANDS: u64 = 200;
const WINDOW: Durability = Durability::Interval { ms: 100 };
const ALWAYS: &[Durability] = &[Durability::Always];
/// Windows, no windows, and a directory that is started with one policy after the other.
const POLICIES: [&[Durability]; 3] =
    [&[WINDOW], &[Durability::None], &[Durability::Always, WINDOW, Durability::None]];

/// The rules of a run.
#[derive(Debug, Clone)]
struct Rules {
    /// The policies of the core; each life has one of them.
    policies: &'static [Durability],
    /// The policy whose promise the core must keep instead of that of its own: it is a mutant.
    promised: Option<Durability>,
    /// The lies of the disk.
    lies: Faults,
    /// After one crash in this many, a bit of a copy is flipped.
    rot_one_in: usize,
}

impl Rules {
    fn healthy(policies: &'static [Durability]) -> Self {
        Self { policies, promised: None, lies: Faults::default(), rot_one_in: 4 }
    }

    /// The last change that must survive the death of the process, or a power cut.
    fn promise(&self, history: &History, durability: Durability, power_cut: bool) -> Sequence {
        match self.promised.unwrap_or(durability) {
            Durability::Interval { .. } | Durability::None if power_cut => history.synced,
            Durability::Always | Durability::Interval { .. } | Durability::None => history.answered,
        }
    }
}

/// Runs one seed: lives on one disk, each ended by a crash, until all commands are sent.
fn run(seed: u64, rules: &Rules) -> Result<History, String> {
    let mut dice = Dice::new(seed);
    let mut disk = SimulatedDisk::new();
    let mut history = History::new();
    let mut promised = Sequence::ZERO;
    let created = created(&mut dice, options(Durability::Always));
    // Of the life before.
    let mut durability = rules.policies[0];
    while history.commands < COMMANDS {
        disk.set_faults(rules.lies.clone());
        let options = settings(&mut dice, &created, rules.policies);
        if dice.below(4) == 0 {
            // A crash during recovery: what was promised before is still promised.
            let crash_at_operation = Some(1 + dice.roll() % 8);
            disk.set_faults(Faults { crash_at_operation, ..rules.lies.clone() });
            let interrupted: Arc<dyn Disk> = Arc::new(disk.clone());
            drop(recover(&interrupted, &options, &ENTROPY));
            disk = disk.crash(dice.roll());
            promised = rules.promise(&history, durability, true).min(promised);
        }
        let mut rig = Rig::recover_with(&disk, &options, history, promised)?;
        let crash_at_operation = Some(1 + dice.roll() % 300);
        disk.set_faults(Faults { crash_at_operation, ..rules.lies.clone() });
        rig.live(&mut dice)?;
        (history, durability) = (rig.history, options.durability);
        let power_cut = dice.below(4) > 0;
        disk = if power_cut { disk.crash(dice.roll()) } else { disk.kill() };
        promised = rules.promise(&history, durability, power_cut);
        if dice.below(rules.rot_one_in) == 0 {
            rot(&disk, &options, &history, &mut dice)?;
        }
    }
    disk.set_faults(rules.lies.clone());
    let options = settings(&mut dice, &created, rules.policies);
    let history = Rig::recover_with(&disk, &options, history, promised)?.history;
    // The records alone lead to the same state.
    let without = disk.kill();
    for name in without.list().map_err(|error| error.to_string())? {
        if name.ends_with(".manifest") {
            without.remove(&name).map_err(|error| error.to_string())?;
        }
    }
    let promised = history.answered;
    Rig::recover_with(&without, &options, history, promised).map(|rig| rig.history)
}

/// Flips a bit of a copy. The copy may be refused, or cut off where it had no seal yet, but the bit
/// is never read.
fn rot(
    disk: &SimulatedDisk,
    options: &Options,
    history: &History,
    dice: &mut Dice,
) -> Result<(), String> {
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
    match Rig::recover_with(&rotten, options, history.clone(), Sequence::ZERO) {
        Err(broken) if !broken.starts_with("recovery: ") && !is_unreadable(&broken) => {
            Err(format!("after a flip: {broken}"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A damaged record in a file before the snapshot is refused when it is read.
pub(super) fn is_unreadable(broken: &str) -> bool {
    broken.ends_with("reads as Err(Unreadable)")
}

/// Runs seeds on all cores. In at least half of them space must be reclaimed, or the run proves
/// nothing about that.
fn campaign(seeds: u64, rules: &Rules) {
    let packed = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for core in 0..cores {
            let packed = &packed;
            scope.spawn(move || {
                for seed in (core..seeds).step_by(cores as usize) {
                    match run(seed, rules) {
                        Ok(history) => {
                            packed.fetch_add(u64::from(history.packs > 0), Ordering::Relaxed);
                        }
                        Err(broken) => panic!("seed {seed}, {rules:?}: {broken}"),
                    }
                }
            });
        }
    });
    let packed = packed.into_inner();
    println!("space was reclaimed in {packed} of {seeds} seeds");
    assert!(packed * 2 >= seeds, "only {packed} of {seeds} seeds have reclaimed space");
}

#[test]
fn every_crash_leaves_a_prefix_with_everything_answered() {
    campaign(variable("NEARPRINT_SIMULATION_SEEDS", SEEDS), &Rules::healthy(ALWAYS));
}

#[test]
fn a_window_loses_what_was_not_synced_at_most_and_leaves_a_prefix() {
    for policies in POLICIES {
        campaign(
            variable("NEARPRINT_SIMULATION_SEEDS", SEEDS_OF_WINDOWS),
            &Rules::healthy(policies),
        );
    }
}

/// For one failing seed at a time:
/// `NEARPRINT_SIMULATION_SEED=17 cargo test -p nearprint-engine seed_replays`.
#[test]
fn seed_replays() {
    let seed = variable("NEARPRINT_SIMULATION_SEED", 0);
    for policies in [ALWAYS].into_iter().chain(POLICIES) {
        let rules = Rules::healthy(policies);
        let lived = || run(seed, &rules).map(|history| (history.commands, history.packs));
        let first = lived();
        assert!(first.is_ok(), "seed {seed}: {first:?}");
        assert_eq!(lived(), first, "the same seed gives the same life");
    }
}

/// How many of a hundred seeds a mutant fails, and the first of them.
fn caught(rules: &Rules) -> (u64, u64) {
    // A mutant may also meet an assertion of the core.
    let fails = |seed: &u64| !matches!(catch_unwind(|| run(*seed, rules)), Ok(Ok(_)));
    let failing: Vec<u64> = (0..100).filter(fails).collect();
    (failing.len() as u64, failing.first().copied().unwrap_or(u64::MAX))
}

#[test]
fn each_mutant_is_caught_within_ten_seeds() {
    let healthy = Rules::healthy(ALWAYS);
    let lying = |lies: Faults| Rules { lies, ..healthy.clone() };
    let mutants = [
        (
            "no sync",
            Rules {
                policies: &[Durability::None],
                promised: Some(Durability::Always),
                ..healthy.clone()
            },
        ),
        ("lying sync", lying(Faults { lying_sync: true, ..Faults::default() })),
        ("no directory sync", lying(Faults { lying_directory_sync: true, ..Faults::default() })),
        ("no checksum check", Rules { rot_one_in: 1, ..healthy.clone() }),
        (
            "a window without its sync",
            Rules {
                lies: Faults { lying_sync: true, ..Faults::default() },
                ..Rules::healthy(POLICIES[0])
            },
        ),
    ];
    for (name, rules) in mutants {
        IGNORE_CHECKSUMS.set(name == "no checksum check");
        let (times, first) = caught(&rules);
        IGNORE_CHECKSUMS.set(false);
        println!("{name}: first by seed {first}, by {times} of 100");
        assert!(first < 10 && times >= 20, "{name}: only {times} of 100, the first by {first}");
    }
}
