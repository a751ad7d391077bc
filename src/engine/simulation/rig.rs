//! A life of the core on a simulated disk, compared with the model.
//!
//! Commands are drawn from few ids and few near fingerprints, so that most of them meet. Every
//! state of the model is kept, because recovery may stop at any of them after what was promised.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::background::needed::Needed;
use crate::engine::background::reclaimer::keep_needed;
use crate::engine::background::snapshots::Snapshots;
use crate::engine::error::Refused;
use crate::engine::open::recovery::{Recovered, recover};
use crate::engine::options::{Durability, Options};
use crate::engine::published::Published;
use crate::engine::read::reader;
use crate::engine::read::reader::Lookup;
use crate::engine::write::command::{
    Command, SearchedCheckAndInsert, SearchedCheckAndInsertPacked,
};
use crate::engine::write::core::Core;
use crate::engine::write::queued::{Pending, Queued, QueuedWrite, decide_group};
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::compaction::policy::Load;
use crate::index::view::View;
use crate::machine::change::Change;
use crate::machine::commands::{
    CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, Remove, Reset,
};
use crate::machine::model::Model;
use crate::machine::query::Criteria;
use crate::machine::search::{PackedSearch, Probe};
use crate::recipe::Recipe;
use crate::sketch::{BINS, MinResemblance, Sketch};
use crate::storage::simulated::Dice;
use crate::storage::{Disk, Records, SimulatedDisk, StorageError, Sweep, SweepRange};

/// The maximum number of groups in a life. Many lives end earlier, by a crash.
const GROUPS_A_LIFE: usize = 30;
pub(super) const ENTROPY: [u8; 40] = [0x5e; 40];

/// A variable of the environment that makes a campaign longer or repeats a part of it.
#[expect(clippy::disallowed_methods, reason = "the configuration of tests")]
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

/// What was accepted, acknowledged and made durable in all lives so far.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// The model after each change, the empty one first.
    pub(super) states: Vec<Model>,
    pub(super) answered: Sequence,
    /// The last change that the disk has synced.
    pub(super) synced: Sequence,
    /// Commands sent to the core.
    pub(super) commands: u64,
    /// Packs that have replaced files.
    pub(super) packs: u64,
}

/// One life of the core.
pub(super) struct Rig {
    pub(super) core: Core,
    pub(super) snapshots: Snapshots,
    pub(super) history: History,
    durability: Durability,
    /// A reader that began some groups ago.
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
    /// Recovers, and compares the state with what was accepted. `promised` is the last change that
    /// must not be lost.
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
        // From now on it is visible, and opening has made it durable.
        (history.answered, history.synced) = (recovered, recovered);
        let rig = Self { core, snapshots, history, durability, reader: None };
        rig.check_state()?;
        Ok(rig)
    }

    fn model(&self) -> &Model {
        self.history.model()
    }

    /// Checks that exactly the model's documents are stored, in memory and in the journal.
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

    /// Runs until the disk fails or the life is over.
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

    /// Ends a window; with `always`, a group.
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

    /// Sweeps as the reclaimer does; a reader that began before sees no difference.
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

    /// Commits a random group. The inner error is the disk's, the outer one a broken promise.
    fn commit(&mut self, dice: &mut Dice) -> Result<Result<(), StorageError>, String> {
        let searched = self.core.view().clone();
        let (mut group, mut checks) = (Vec::new(), Vec::new());
        for _ in 0..=dice.below(4) {
            let (write, check) = self.draw(dice, &searched);
            group.push(write);
            checks.push(check);
        }
        self.history.commands += group.len() as u64;
        if let Err(error) = commit(&mut self.core, group, 0) {
            return Ok(Err(error));
        }
        checks.into_iter().try_for_each(|check| check())?;
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

    /// A random command on a search of a view, and the check of its reply against the model.
    fn draw(&mut self, dice: &mut Dice, searched: &View) -> (Box<dyn QueuedWrite>, Check) {
        let distance = Distance::new(dice.below(4) as u8).unwrap();
        let similarity = if dice.below(3) == 0 { 0.0 } else { 0.8 };
        let min_resemblance = MinResemblance::of_similarity(similarity);
        let criteria = Criteria { distance, min_resemblance };
        match dice.below(10) {
            0..3 => {
                let document = document(dice);
                let verdict = self.expect(|model| model.insert(&document));
                checked(Insert { document }, move |reply| reply.verdict == verdict)
            }
            3..6 => {
                let (document, store_duplicates) = (document(dice), dice.below(2) == 0);
                let lookup = self.look_up(searched, &document, criteria);
                let matches = self.model().matches(&document, criteria);
                let verdict = self
                    .expect(|model| model.check_and_insert(&document, criteria, store_duplicates));
                let command = CheckAndInsert { document, criteria, store_duplicates };
                let command = SearchedCheckAndInsert { command, lookup, limit: usize::MAX };
                checked(command, move |reply| {
                    let found = reply.found.matches().iter().map(|found| found.fingerprint);
                    reply.written.verdict == verdict && found.eq(matches.iter().map(|m| m.3))
                })
            }
            6 => {
                let fingerprints = batch(dice);
                self.expect_packed(&fingerprints);
                checked(InsertPacked { fingerprints }, |_| true)
            }
            7 => {
                let fingerprints = batch(dice);
                let search = PackedSearch::new(searched, &fingerprints, distance);
                let one = |fingerprint: &Fingerprint| {
                    self.expect(|model| model.check_and_insert_packed(&[*fingerprint], distance))
                };
                let nearest = fingerprints.iter().flat_map(one).collect::<Vec<u8>>();
                let command = CheckAndInsertPacked { fingerprints, distance };
                let command = SearchedCheckAndInsertPacked { command, search };
                checked(command, move |reply| *reply == nearest)
            }
            8 => {
                let id = id(dice);
                self.expect(|model| {
                    if model.find(&id).is_some() {
                        model.enact(&Change::Remove { id: id.clone() });
                    }
                });
                checked(Remove { id }, |_| true)
            }
            _ => {
                let fingerprint = fingerprint(dice);
                self.expect(|model| {
                    if model.documents().iter().any(|(_, d)| d.fingerprint == fingerprint) {
                        model.enact(&Change::Reset { fingerprint });
                    }
                });
                checked(Reset { fingerprint }, |_| true)
            }
        }
    }

    fn look_up(&self, view: &View, document: &Document, criteria: Criteria) -> Lookup {
        let probe = Probe::new(document, criteria, &self.core.machine().id_secret());
        let mut lookup = Lookup::begin(view, &probe);
        let records = self.core.records().clone();
        lookup.verify(&Published { view: view.clone(), records }, &probe).unwrap();
        lookup
    }

    /// Lets the model decide, and keeps its state if that changed it.
    fn expect<T>(&mut self, decide: impl FnOnce(&mut Model) -> T) -> T {
        let mut model = self.model().clone();
        let reply = decide(&mut model);
        if model.sequence() > self.model().sequence() {
            self.history.states.push(model);
        }
        reply
    }

    /// Lets the model store bare fingerprints, change by change.
    pub(super) fn expect_packed(&mut self, fingerprints: &[Fingerprint]) {
        for &fingerprint in fingerprints {
            let document = Document::bare(fingerprint);
            self.expect(|model| model.enact(&Change::Put { document }));
        }
    }
}

/// Compares the reply of a write with the model's, once it is acknowledged.
type Check = Box<dyn FnOnce() -> Result<(), String>>;

/// A command in a queue, and the check of its reply.
fn checked<C: Command>(
    command: C,
    is_expected: impl FnOnce(&C::Reply) -> bool + 'static,
) -> (Box<dyn QueuedWrite>, Check) {
    let (write, pending) = queued(command);
    let check = move || {
        let reply = pending.wait().now_or_never().ok_or("a write was not acknowledged")?;
        let reply = reply.map_err(|refused| format!("refused: {refused}"))?;
        let same = is_expected(&reply);
        if same { Ok(()) } else { Err(format!("another reply than the model's: {reply:?}")) }
    };
    (write, Box::new(check))
}

/// A command in a queue, and where its reply arrives.
pub(super) fn queued<C: Command>(command: C) -> (Box<dyn QueuedWrite>, Pending<C::Reply>) {
    let permits = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("the only one");
    let (queued, pending) = Queued::new(command, permits, 0);
    (queued, pending)
}

/// Decides a group, makes it durable and acknowledges it; or refuses it if the disk is full.
pub(super) fn commit(
    core: &mut Core,
    mut group: Vec<Box<dyn QueuedWrite>>,
    at_ms: u64,
) -> Result<(), StorageError> {
    match decide_group(core, &mut group, at_ms)? {
        Ok(()) => {
            core.make_durable()?;
            for write in group {
                write.acknowledge();
            }
        }
        Err(refused) => group.into_iter().for_each(|write| write.refuse(refused.clone())),
    }
    Ok(())
}

/// Commits a command as a group of its own.
pub(super) fn commit_one<C: Command>(core: &mut Core, command: C) -> Result<C::Reply, Refused> {
    let (write, pending) = queued(command);
    commit(core, vec![write], 1_700_000_000_000).unwrap();
    pending.wait().now_or_never().expect("it is answered")
}

/// Checks that every document with an id or a sketch reads as it was stored.
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

/// Sweeps what both snapshots cover; `each` receives the bytes that each pack has reclaimed.
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
