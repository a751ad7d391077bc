//! Promise: damage never silently makes a reply wrong or incomplete. With a damaged snapshot, the
//! older one and the journal lead to the same state, or the directory is refused. With any bit
//! flipped, a record is right or refused. Method: a directory with two snapshots and a journal
//! after them, every file of it damaged in every way; after each damage the whole state is
//! compared. And lives in which the disk acknowledges a write that it does not do, or does at
//! another place.

mod beyond_memory;

use std::panic::catch_unwind;
use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::compaction::policy::Load;
use nearprint_index::view::Counts;
use nearprint_machine::commands::{Insert, InsertPacked, Remove};
use nearprint_machine::document::{Document, DocumentId, Sequence};
use nearprint_storage::frame::mutant::IGNORE_CHECKSUMS;
use nearprint_storage::sealed::{BLOCK_BYTES, SEALED_HEADER_BYTES, TRAILER_BYTES};
use nearprint_storage::simulated::{Dice, Faults, Stray};
use nearprint_storage::{Disk, SimulatedDisk};

use crate::api::error::{OpenError, Refused};
use crate::api::options::{Durability, Options};
use crate::directories::recovery::{Recovered, recover};
use crate::read::reader;
use crate::simulation::crashes::is_unreadable;
use crate::simulation::golden::sweep;
use crate::simulation::rig::{
    ENTROPY, History, Rig, commit, commit_one, options, queued, variable,
};
use crate::snapshot::snapshots::Snapshots;
use crate::write::core::Core;

/// The number of random flips per commit; `make torture` runs more.
const FLIPS: u64 = 100;
/// The number of lives with a write that goes astray; `make torture` runs more.
const LIVES: u64 = 300;
/// Of so many writes of such a life one goes astray; then follow a few steps.
const WRITES: u64 = 40;
const PAGE_BYTES: usize = 4_096;
const BLOCK_ON_DISK: usize = BLOCK_BYTES + 8;
const BARE: u64 = 9_000;
const NAMED: u64 = 60;

fn settings() -> Options {
    Options {
        delta_events: 2_000,
        // Both forms, and tables of their own.
        small_segment_max: 3_000,
        journal_file_bytes: 40_000,
        queue_changes_max: 10_000,
        group_changes_max: 10_000,
        ..options(Durability::Always)
    }
}

/// The directory and its documents.
struct Truth {
    disk: SimulatedDisk,
    counts: Counts,
    documents: Vec<(Sequence, Document)>,
}

/// What happens to a damaged directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The state is unchanged.
    Whole,
    /// It does not open, or a record is refused, with the reason.
    Refused,
    /// What no later record tells of is missing.
    Shortened,
}

fn open(disk: &SimulatedDisk) -> Result<Recovered, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    recover(&disk, &settings(), &ENTROPY)
}

fn snapshot(core: &mut Core, snapshots: &mut Snapshots) {
    let frozen = core.freeze().unwrap();
    while let Some(work) =
        core.view().next_flush().or_else(|| core.view().next_merge(Load::Writing))
    {
        work.steps().for_each(|built| core.install(&built));
    }
    snapshots.take(core.view().parts_of(&frozen.view), &frozen.jobs, 0).unwrap();
}

impl Truth {
    /// A third of the documents in each snapshot, a third in the journal only. A document of the
    /// first third is removed, and the records of that third are in a pack.
    fn new() -> Self {
        let disk = SimulatedDisk::new();
        let Recovered { mut core, mut snapshots, .. } = open(&disk).unwrap();
        let mut documents = Vec::new();
        let mut dice = Dice::new(1);
        for third in 0..3 {
            let fingerprints: Vec<_> =
                (0..BARE / 3).map(|_| Fingerprint::new(dice.roll())).collect();
            let first = core.view().sequence().get() + 1;
            let mut stored = Vec::new();
            let mut group = Vec::new();
            for at in 0..NAMED / 3 {
                let id = DocumentId::new(format!("document {third} {at}")).ok();
                let document = Document { id, ..Document::bare(Fingerprint::new(dice.roll())) };
                stored.push(document.clone());
                group.push(queued(Insert::from(document), 0).0);
            }
            stored.extend(fingerprints.iter().copied().map(Document::bare));
            group.push(queued(InsertPacked { packed: fingerprints.into() }, 0).0);
            commit(&mut core, group).unwrap();
            documents.extend((first..).map(Sequence::new).zip(stored));
            core.seal().unwrap();
            if third < 2 {
                snapshot(&mut core, &mut snapshots);
            }
            if third == 0 {
                let (_, gone) = documents.remove(0);
                let command = Remove { namespace: None, id: gone.id.unwrap() };
                commit_one(&mut core, command).unwrap();
            }
        }
        sweep(&core, &snapshots).unwrap();
        let truth = Self { disk: disk.copy(), counts: core.view().counts(), documents };
        assert_eq!(truth.fate(&disk), Ok(Fate::Whole), "nothing is damaged yet");
        assert_eq!(truth.names(".pack").len(), 1);
        truth
    }

    fn names(&self, part: &str) -> Vec<String> {
        let mut names = self.disk.list().unwrap();
        names.retain(|name| name.contains(part));
        names
    }

    fn length(&self, name: &str) -> usize {
        let mut length = 0;
        self.disk.edit(name, |bytes| length = bytes.len());
        length
    }

    /// Opens a disk and compares everything; an error is a wrong reply.
    fn fate(&self, disk: &SimulatedDisk) -> Result<Fate, String> {
        let Ok(Recovered { core, .. }) = open(disk) else {
            return Ok(Fate::Refused);
        };
        let view = core.view();
        if view.counts() != self.counts {
            return Err(format!("{:?}, not {:?}", view.counts(), self.counts));
        }
        let mut fate = Fate::Whole;
        for (sequence, document) in &self.documents {
            if view.documents_at(&[(*sequence, document.fingerprint)]).is_empty() {
                return Err(format!("document {sequence} is missing"));
            }
            let Some(id) = &document.id else { continue };
            let located = view.find_id(core.machine().key(None, id));
            if located.map(|located| located.posting.sequence) != Some(*sequence) {
                return Err(format!("document {sequence} is not under its id"));
            }
            match reader::stored(core.records(), *sequence) {
                Ok(stored) if stored.document == *document => {}
                Err(Refused::Unreadable) => fate = Fate::Refused,
                other => return Err(format!("document {sequence} reads as {other:?}")),
            }
        }
        Ok(fate)
    }

    /// Damages a copy; the first wrong reply ends the test.
    fn damaged(&self, name: &str, what: &str, edit: impl FnOnce(&mut Vec<u8>)) -> Fate {
        let disk = self.disk.copy();
        disk.edit(name, edit);
        self.fate(&disk).unwrap_or_else(|wrong| panic!("{name}, {what}: {wrong}"))
    }
}

/// The bytes of a sealed file that are not its body.
fn edges(length: usize) -> impl Iterator<Item = usize> {
    (0..SEALED_HEADER_BYTES).chain(length - TRAILER_BYTES..length)
}

#[test]
fn a_damaged_snapshot_is_never_a_wrong_state() {
    let truth = Truth::new();
    let mut dice = Dice::new(2);
    let files = [truth.names(".manifest"), truth.names(".seg")].concat();
    assert!(files.len() >= 4, "two manifests, segments and tables: {files:?}");
    let mut trials = 0;
    let mut expect_whole = |fate: Fate| {
        // The journal goes back to the beginning, so nothing needs to be refused.
        assert_eq!(fate, Fate::Whole);
        trials += 1;
    };
    for name in &files {
        let length = truth.length(name);
        for at in edges(length) {
            for bit in [dice.below(8), dice.below(8)] {
                let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << bit;
                expect_whole(truth.damaged(name, &format!("byte {at}"), flip));
            }
        }
        for block in (0..length).step_by(BLOCK_ON_DISK) {
            let at = block + dice.below(BLOCK_ON_DISK.min(length - block));
            expect_whole(truth.damaged(name, "a flip in a block", |bytes| bytes[at] ^= 1));
        }
        for page in (0..length).step_by(PAGE_BYTES) {
            expect_whole(truth.damaged(name, "a cut", |bytes| bytes.truncate(page)));
            let zero = |bytes: &mut Vec<u8>| {
                let end = bytes.len().min(page + PAGE_BYTES);
                bytes[page..end].fill(0);
            };
            expect_whole(truth.damaged(name, "a page of zeros", zero));
        }
        let blocks = (length - SEALED_HEADER_BYTES - TRAILER_BYTES) / BLOCK_ON_DISK;
        for block in 1..blocks {
            let swap = |bytes: &mut Vec<u8>| {
                let first = SEALED_HEADER_BYTES + (block - 1) * BLOCK_ON_DISK;
                bytes[first..first + 2 * BLOCK_ON_DISK].rotate_left(BLOCK_ON_DISK);
            };
            expect_whole(truth.damaged(name, "swapped blocks", swap));
        }
        let removed = truth.disk.copy();
        removed.remove(name).unwrap();
        expect_whole(truth.fate(&removed).unwrap());
    }
    println!("{trials} damaged snapshots in {} files", files.len());
    assert!(trials > 1_000, "{trials}");
}

#[test]
fn no_flip_in_the_data_directory_is_a_wrong_answer_in_silence() {
    let truth = Truth::new();
    let names = truth.names("");
    let lengths: Vec<usize> = names.iter().map(|name| truth.length(name)).collect();
    let flips = variable("NEARPRINT_SIMULATION_SEEDS", FLIPS);
    let (mut refused, mut dice) = (0, Dice::new(3));
    for _ in 0..flips {
        // By bytes, so that the long files get most; by files, so that the short ones get some.
        let mut at = dice.below(lengths.iter().sum());
        let mut file = 0;
        while at >= lengths[file] {
            at -= lengths[file];
            file += 1;
        }
        if dice.below(2) == 0 {
            file = dice.below(names.len());
            at = dice.below(lengths[file]);
        }
        let bit = dice.below(8);
        let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << bit;
        let fate = truth.damaged(&names[file], &format!("byte {at}, bit {bit}"), flip);
        refused += u64::from(fate == Fate::Refused);
    }
    println!("{refused} refused");
    assert!(refused > 0, "the flips in the journal are refused");
}

#[test]
fn a_build_that_checks_no_checksums_is_caught_within_ten_flips() {
    let truth = Truth::new();
    let name = truth.names("journal-").pop().unwrap();
    let length = truth.length(&name);
    IGNORE_CHECKSUMS.set(true);
    let caught = (1..=10).any(|flip| {
        let disk = truth.disk.copy();
        disk.edit(&name, |bytes| bytes[length - flip * length / 16] ^= 1);
        truth.fate(&disk).is_err()
    });
    IGNORE_CHECKSUMS.set(false);
    assert!(caught, "the harness proves nothing");
}

/// A life in which a write goes astray, a power cut, and what opens then; an error is a wrong
/// state. Each group says that those before it were durable, so the last group alone may be
/// missing, or what a write at a wrong place after it has covered at the end of the journal.
fn fate_of_a_stray_write(seed: u64, stray: Stray) -> Result<Fate, String> {
    let mut dice = Dice::new(seed);
    let disk = SimulatedDisk::new();
    let mut rig = Rig::recover(&disk, Durability::Always, History::new(), Sequence::ZERO)?;
    let at = 1 + dice.roll() % WRITES;
    disk.set_faults(Faults { stray: Some((at, stray)), seed, ..Faults::default() });
    let mut promised = Sequence::ZERO;
    let mut steps_after = dice.below(6);
    while !disk.has_strayed() || steps_after > 0 {
        let (answered, has_strayed) = (rig.history.answered, disk.has_strayed());
        steps_after -= usize::from(has_strayed);
        rig.step(&mut dice)?.map_err(|error| format!("the disk failed: {error}"))?;
        if disk.has_strayed() && !has_strayed && stray != Stray::Nowhere {
            promised = Sequence::ZERO;
        } else if answered < rig.history.answered {
            promised = answered;
        }
    }
    let answered = rig.history.answered;
    let disk = disk.crash(dice.roll());
    match Rig::recover(&disk, Durability::Always, rig.history, promised) {
        Err(broken) if broken.starts_with("recovery: ") || is_unreadable(&broken) => {
            Ok(Fate::Refused)
        }
        Err(broken) => Err(broken),
        Ok(rig) if rig.history.answered < answered => Ok(Fate::Shortened),
        Ok(_) => Ok(Fate::Whole),
    }
}

const STRAYS: [Stray; 3] = [Stray::Nowhere, Stray::OtherSector, Stray::OtherFile];

#[test]
fn no_write_that_goes_astray_is_a_wrong_state_in_silence() {
    for stray in STRAYS {
        let mut fates = [0_u64; 3];
        for seed in 0..variable("NEARPRINT_SIMULATION_SEEDS", LIVES) / 3 {
            let fate = fate_of_a_stray_write(seed, stray);
            let fate = fate.unwrap_or_else(|wrong| panic!("{stray:?}, seed {seed}: {wrong}"));
            fates[fate as usize] += 1;
        }
        let [whole, refused, shortened] = fates;
        println!("{stray:?}: {whole} whole, {refused} refused, {shortened} without their end");
        assert!(whole > 0 && refused > 0 && shortened < whole + refused, "{stray:?}: {fates:?}");
    }
}

#[test]
fn a_build_that_checks_no_checksums_serves_what_went_astray() {
    IGNORE_CHECKSUMS.set(true);
    let fates = |seed| STRAYS.map(|stray| catch_unwind(|| fate_of_a_stray_write(seed, stray)));
    let caught = (0..100).flat_map(fates).filter(|fate| !matches!(fate, Ok(Ok(_)))).count();
    IGNORE_CHECKSUMS.set(false);
    assert!(caught > 0, "the harness proves nothing");
}
