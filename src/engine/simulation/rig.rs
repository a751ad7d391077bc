//! A life of the core on a simulated disk, and the model of what it should be.
//!
//! Commands are drawn from few ids and few near fingerprints, so that most of them meet. Every
//! state of the model is kept, since recovery may stop at any of them behind what was promised.

use std::path::PathBuf;
use std::sync::Arc;

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::background::needed::Needed;
use crate::engine::background::reclaimer::keep_needed;
use crate::engine::background::snapshots::Snapshots;
use crate::engine::error::Refused;
use crate::engine::open::recovery::{Recovered, recover};
use crate::engine::options::{Durability, Options};
use crate::engine::read::reader;
use crate::engine::read::reader::Ids;
use crate::engine::write::core::{Core, Decided};
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::compaction::policy::Load;
use crate::index::view::View;
use crate::machine::apply::{Command, Outcome, PackedSearch, Verdict};
use crate::machine::change::Change;
use crate::machine::model::Model;
use crate::machine::query::Criteria;
use crate::machine::search::{Probe, Search};
use crate::recipe::Recipe;
use crate::sketch::{BINS, MinResemblance, Sketch};
use crate::storage::simulated::Dice;
use crate::storage::{Disk, Records, SimulatedDisk, StorageError, Sweep, SweepRange};

/// Many lives end before, by a crash.
const GROUPS_A_LIFE: usize = 30;
pub(super) const ENTROPY: [u8; 40] = [0x5e; 40];

/// A number of the environment that makes a campaign longer, or repeats a part of it.
#[expect(clippy::disallowed_methods, reason = "tests are no configuration")]
pub(super) fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

pub(super) fn options(durability: Durability) -> Options {
    Options {
        data: PathBuf::new(),
        recipe: Recipe::Np1,
        distance_max: Distance::new(3).unwrap(),
        lookup_threads: 0,
        durability,
        delta_events: 10,
        small_segment_max: 24,
        queue_changes_max: 100,
        group_changes_max: 100,
        journal_file_bytes: 900,
        snapshot_interval_ms: 1,
        snapshot_changes: 1,
        memory_bytes_max: 0,
        disk_free_bytes_min: 0,
    }
}

/// What was accepted, answered and made durable in all lives so far.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// The model after each change, the empty one first.
    pub(super) states: Vec<Model>,
    pub(super) answered: Sequence,
    /// Up to here a sync was answered by the disk.
    pub(super) synced: Sequence,
    /// Commands sent to the core.
    pub(super) commands: u64,
    /// Packs that took the place of files.
    pub(super) packs: u64,
}

/// One life of the core.
pub(super) struct Rig {
    pub(super) core: Core,
    pub(super) snapshots: Snapshots,
    pub(super) history: History,
    durability: Durability,
    /// Somebody who began to read some groups ago.
    reader: Option<(View, Records, Model)>,
}

impl History {
    pub(super) fn new() -> Self {
        let states = vec![Model::default()];
        Self { states, answered: Sequence::ZERO, synced: Sequence::ZERO, commands: 0, packs: 0 }
    }

    fn model(&self) -> &Model {
        self.states.last().expect("the empty one is there")
    }
}

impl Rig {
    /// Recovers, and holds what was recovered against what was accepted. `promised` is the last
    /// change that must be there.
    pub(super) fn recover(
        disk: &SimulatedDisk,
        durability: Durability,
        mut history: History,
        promised: Sequence,
    ) -> Result<Self, String> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let Recovered { core, snapshots } = recover(&disk, &options(durability), &ENTROPY)
            .map_err(|error| format!("recovery: {error}"))?;
        let recovered = core.view().sequence();
        if recovered < promised {
            return Err(format!("promised {promised}, recovered {recovered}"));
        }
        let length = recovered.get() as usize + 1;
        if length > history.states.len() {
            return Err(format!("recovered {recovered}, which nobody sent"));
        }
        history.states.truncate(length);
        // Whoever looks now has been told, and opening has made it durable.
        (history.answered, history.synced) = (recovered, recovered);
        let rig = Self { core, snapshots, history, durability, reader: None };
        rig.check_state()?;
        Ok(rig)
    }

    fn model(&self) -> &Model {
        self.history.model()
    }

    /// Every stored document and nothing else, from memory and from the journal.
    pub(super) fn check_state(&self) -> Result<(), String> {
        let view = self.core.view();
        let documents = self.model().documents();
        if view.counts().documents != documents.len() as u64 {
            return Err(format!("{} documents, not {}", view.counts().documents, documents.len()));
        }
        for (sequence, document) in documents {
            if !view.documents_of(document.fingerprint).any(|p| p.sequence == *sequence) {
                return Err(format!("document {sequence} is not under its fingerprint"));
            }
            if document.id.is_some() || document.sketch.is_some() {
                let stored = reader::stored(self.core.records(), *sequence);
                if stored.as_ref().map(|stored| &stored.document) != Ok(document) {
                    return Err(format!("document {sequence} reads as {stored:?}"));
                }
            }
            if let Some(id) = &document.id {
                let located = view.find_id(self.core.machine().key(id));
                if located.map(|located| located.posting.sequence) != Some(*sequence) {
                    return Err(format!("document {sequence} is not under its id"));
                }
            }
        }
        Ok(())
    }

    /// Runs until the disk fails, as it will, or the life is over.
    pub(super) fn live(&mut self, dice: &mut Dice) -> Result<(), String> {
        for _ in 0..GROUPS_A_LIFE {
            if dice.below(4) == 0 {
                let (view, records) = (self.core.view().clone(), self.core.records().pin());
                self.reader = Some((view, records, self.model().clone()));
            }
            let ended = match dice.below(9) {
                0 => self.snapshot(),
                8 => self.reclaim(dice)?,
                1 => self.core.seal(),
                3 if self.durability != Durability::Always => self.sync(),
                2 => {
                    // What the background threads do, between two groups.
                    self.settle();
                    Ok(())
                }
                _ => self.commit(dice)?,
            };
            if ended.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The end of a window, or of a group under `always`.
    fn sync(&mut self) -> Result<(), StorageError> {
        self.core.sync()?;
        self.history.synced = self.core.view().sequence();
        Ok(())
    }

    pub(super) fn settle(&mut self) {
        while let Some(work) =
            self.core.view().next_flush().or_else(|| self.core.view().next_merge(Load::Writing))
        {
            work.steps().for_each(|built| self.core.install(&built));
        }
    }

    pub(super) fn snapshot(&mut self) -> Result<(), StorageError> {
        let frozen = self.core.freeze()?;
        self.history.synced = frozen.sequence();
        self.settle();
        self.snapshots.take(self.core.view().parts_of(&frozen), 0).map(drop)
    }

    /// A sweep as the reclaimer does it; a reader who began before it sees no difference.
    fn reclaim(&mut self, dice: &mut Dice) -> Result<Result<(), StorageError>, String> {
        if dice.below(2) == 0
            && let Err(error) = self.snapshot().and_then(|()| self.snapshots.repeat().map(drop))
        {
            return Ok(Err(error));
        }
        let swept = self.sync().and_then(|()| self.sweep(dice));
        if swept.is_ok() {
            self.check_state()?;
            if let Some((view, records, model)) = &self.reader {
                check_stored(view, records, model)?;
            }
        }
        Ok(swept)
    }

    fn sweep(&mut self, dice: &mut Dice) -> Result<(), StorageError> {
        let pack_bytes = 200 + dice.below(1_500) as u64;
        let packs = &mut self.history.packs;
        sweep(&self.core, &self.snapshots, pack_bytes, &mut |freed| *packs += u64::from(freed > 0))
    }

    /// Commits a random group; `Err` of the inner result is the disk, of the outer a broken promise.
    fn commit(&mut self, dice: &mut Dice) -> Result<Result<(), StorageError>, String> {
        let searched = self.core.view().clone();
        let mut commands = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..=dice.below(4) {
            let command = command(dice, &self.core, &searched);
            expected.push(self.expect(&command));
            commands.push(command);
        }
        self.history.commands += commands.len() as u64;
        let decided = self.core.decide_group(&mut commands, 0);
        match decided.and_then(|answers| self.core.make_durable().map(|()| answers)) {
            Err(error) => Ok(Err(error)),
            Ok(answers) => {
                for (answer, expected) in answers.iter().zip(expected) {
                    compare(answer, expected)?;
                }
                let answered = self.core.view().sequence();
                if answered != self.model().sequence() {
                    return Err(format!("at {answered}, not {}", self.model().sequence()));
                }
                self.history.answered = answered;
                if self.durability == Durability::Always {
                    self.history.synced = answered;
                }
                Ok(Ok(()))
            }
        }
    }

    /// What the model does, change by change.
    pub(super) fn expect(&mut self, command: &Command) -> Expected {
        let mut model = self.model().clone();
        let before = model.sequence();
        let expected = match command {
            Command::Insert { document } => Expected::Verdict(model.insert(document), Vec::new()),
            Command::CheckAndInsert { document, criteria, store_duplicates, .. } => {
                let matches = model.matches(document, *criteria);
                let shown = matches.into_iter().map(|(_, _, _, fingerprint)| fingerprint).collect();
                let verdict = model.check_and_insert(document, *criteria, *store_duplicates);
                Expected::Verdict(verdict, shown)
            }
            Command::InsertPacked { fingerprints } => {
                for &fingerprint in fingerprints {
                    model.enact(&Change::Put { document: Document::bare(fingerprint) });
                    self.history.states.push(model.clone());
                }
                return Expected::Nothing;
            }
            Command::CheckAndInsertPacked { fingerprints, distance, .. } => {
                let mut nearest = Vec::new();
                for fingerprint in fingerprints {
                    let before = model.sequence();
                    nearest.extend(model.check_and_insert_packed(&[*fingerprint], *distance));
                    if model.sequence() > before {
                        self.history.states.push(model.clone());
                    }
                }
                return Expected::Nearest(nearest);
            }
            Command::Remove { id } => {
                if model.find(id).is_some() {
                    model.enact(&Change::Remove { id: id.clone() });
                }
                Expected::Nothing
            }
            Command::Reset { fingerprint } => {
                if model.documents().iter().any(|(_, d)| d.fingerprint == *fingerprint) {
                    model.enact(&Change::Reset { fingerprint: *fingerprint });
                }
                Expected::Nothing
            }
        };
        if model.sequence() > before {
            self.history.states.push(model);
        }
        expected
    }
}

/// Every document with an id or a sketch reads as it was stored.
fn check_stored(view: &View, records: &Records, model: &Model) -> Result<(), String> {
    for (sequence, document) in model.documents() {
        let listed = view.documents_of(document.fingerprint).any(|p| p.sequence == *sequence);
        if listed && (document.id.is_some() || document.sketch.is_some()) {
            let stored = reader::stored(records, *sequence);
            if stored.as_ref().map(|stored| &stored.document) != Ok(document) {
                return Err(format!("document {sequence} reads as {stored:?}"));
            }
        }
    }
    Ok(())
}

pub(super) enum Expected {
    Verdict(Verdict, Vec<Fingerprint>),
    Nearest(Vec<u8>),
    Nothing,
}

fn compare(answer: &Result<Decided, Refused>, expected: Expected) -> Result<(), String> {
    let outcome = &answer.as_ref().map_err(|refused| format!("refused: {refused}"))?.outcome;
    let same = match (outcome, expected) {
        (Outcome::Written { verdict, search }, Expected::Verdict(expected, shown)) => {
            let matches = search.iter().flat_map(|search| &search.matches);
            *verdict == expected && matches.map(|m| m.fingerprint).eq(shown)
        }
        (Outcome::CheckedPacked(nearest), Expected::Nearest(expected)) => *nearest == expected,
        (Outcome::InsertedPacked | Outcome::Removed { .. }, Expected::Nothing) => true,
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("another verdict than the model's: {outcome:?}")) }
}

fn command(dice: &mut Dice, core: &Core, searched: &View) -> Command {
    let distance = Distance::new(dice.below(4) as u8).unwrap();
    let criteria = Criteria {
        distance,
        min_resemblance: MinResemblance::of_similarity(if dice.below(3) == 0 { 0.0 } else { 0.8 }),
    };
    match dice.below(10) {
        0..3 => Command::Insert { document: document(dice) },
        3..6 => {
            let document = document(dice);
            let key = document.id.as_ref().map(|id| core.machine().key(id));
            let probe = Probe { document: &document, key, criteria };
            let mut search = Search::begin(searched, &probe);
            let ids = &mut Ids::default();
            reader::verify(searched, core.records(), &probe, &mut search, ids).unwrap();
            let store_duplicates = dice.below(2) == 0;
            Command::CheckAndInsert { document, criteria, store_duplicates, search }
        }
        6 => Command::InsertPacked { fingerprints: batch(dice) },
        7 => {
            let fingerprints = batch(dice);
            let nearest = reader::nearest(searched, &fingerprints, distance);
            let search = PackedSearch { since: searched.sequence(), nearest };
            Command::CheckAndInsertPacked { fingerprints, distance, search }
        }
        8 => Command::Remove { id: id(dice) },
        _ => Command::Reset { fingerprint: fingerprint(dice) },
    }
}

fn batch(dice: &mut Dice) -> Vec<Fingerprint> {
    (0..=dice.below(6)).map(|_| fingerprint(dice)).collect()
}

fn fingerprint(dice: &mut Dice) -> Fingerprint {
    let flips = dice.below(5);
    Fingerprint::new((0..flips).fold(0, |bits, _| bits ^ 1 << dice.below(64)))
}

fn id(dice: &mut Dice) -> DocumentId {
    DocumentId::new(format!("id-{}", dice.below(7))).unwrap()
}

fn document(dice: &mut Dice) -> Document {
    let sketch = (dice.below(2) == 0).then(|| {
        let mut codes = [0; BINS];
        let changed = dice.below(20);
        for (bin, code) in codes.iter_mut().enumerate().take(50) {
            *code = if bin < changed { 2 } else { 1 };
        }
        Box::new(Sketch::from_codes(&codes))
    });
    Document {
        id: (dice.below(3) > 0).then(|| id(dice)),
        fingerprint: fingerprint(dice),
        sketch,
        short: dice.below(5) == 0,
    }
}

/// Gives back what both snapshots allow; `each` is told how much each pack has given.
pub(super) fn sweep(
    core: &Core,
    snapshots: &Snapshots,
    pack_bytes: u64,
    each: &mut dyn FnMut(u64),
) -> Result<(), StorageError> {
    let next = snapshots.covered_by_both().next().get();
    let mut range = SweepRange { from: 1, next, pack_bytes };
    let mut needed = Needed::new(core.view(), core.machine().id_secret());
    while let Sweep::UpTo { next, freed } = core.reclaimer().sweep(
        range,
        &mut |record, keep| {
            keep_needed(&mut needed, record, keep);
        },
        &mut |_| true,
    )? {
        range.from = next;
        each(freed);
    }
    Ok(())
}
