//! A life of the core on a simulated disk, compared with the model.
//!
//! Commands are drawn from few ids and few near fingerprints, so that most of them meet. Every
//! state of the model is kept, because recovery may stop at any of them after what was promised.

use std::sync::Arc;

use futures_util::FutureExt as _;
use nearprint_fingerprint::recipe::Recipe;
use nearprint_fingerprint::{Distance, Fingerprint, Threshold};
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::{Expired, Selection, View};
use nearprint_machine::change::Change;
use nearprint_machine::commands::{
    CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, NoteTime, Remove, Reset,
};
use nearprint_machine::document::{Document, Namespace, Packed, Sequence};
use nearprint_machine::model::Model;
use nearprint_machine::query::Criteria;
use nearprint_machine::search::{PackedSearch, Probe};
use nearprint_storage::simulated::Dice;
use nearprint_storage::{Disk, Records, SimulatedDisk, StorageError};

use super::draw::{NAMESPACES, Pace, batch, document, fingerprint, id, namespace};
use super::sweep::{self, move_into_files};
use crate::api::error::Refused;
use crate::api::options::{Durability, Options};
use crate::directories::recovery::{Recovered, recover};
use crate::read::reader;
use crate::read::reader::RecordLookup;
use crate::snapshot::snapshots::Snapshots;
use crate::state::published::Published;
use crate::write::command::{Command, SearchedCheckAndInsert, SearchedCheckAndInsertPacked};
use crate::write::core::{Core, Durable};
use crate::write::queued::{Pending, Queued, QueuedWrite, decide_group};

/// The maximum number of groups in a life. Many lives end earlier, by a crash.
const GROUPS_A_LIFE: usize = 30;
pub(super) const ENTROPY: [u8; 40] = [0x5e; 40];
/// When the first life begins, in seconds since 1970.
const BEGIN_S: u64 = 1_700_000_000;

/// A variable of the environment that makes a campaign longer or repeats a part of it.
#[expect(clippy::disallowed_methods, reason = "the configuration of tests")]
pub(crate) fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

pub(super) fn options(durability: Durability) -> Options {
    Options {
        durability,
        delta_events: 10,
        small_segment_max: 24,
        queue_changes_max: 100,
        group_changes_max: 100,
        journal_file_bytes: 900,
        snapshot_interval_ms: 1,
        snapshot_changes: 1,
        disk_free_bytes_min: 0,
        clock_behind_ms_max: None,
        expired_kept_ms: 0,
        ..Options::new("", Recipe::Np2)
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
    /// The time of the last command, in milliseconds since 1970.
    pub(super) now_ms: u64,
    /// What the clock says, in milliseconds since 1970.
    pub(super) clock_ms: u64,
}

/// One life of the core.
pub(super) struct Rig {
    pub(super) core: Core,
    pub(super) snapshots: Snapshots,
    pub(super) history: History,
    durability: Durability,
    /// Whether segments and tables leave memory with each snapshot.
    in_files: bool,
    pace: Pace,
    /// A reader that began some groups ago.
    reader: Option<(View, Records, Model)>,
    pub(super) secret: [u8; 16],
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            states: vec![Model::default()],
            answered: Sequence::ZERO,
            synced: Sequence::ZERO,
            commands: 0,
            packs: 0,
            now_ms: BEGIN_S * 1_000,
            clock_ms: BEGIN_S * 1_000,
        }
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
        history: History,
        promised: Sequence,
    ) -> Result<Self, String> {
        // In every other life, more or less, large segments are in files.
        let index_memory_bytes_max = history.commands % 2;
        let options = Options { index_memory_bytes_max, ..options(durability) };
        Self::recover_with(disk, &options, history, promised)
    }

    /// As [`Self::recover`], with other options.
    pub(super) fn recover_with(
        disk: &SimulatedDisk,
        options: &Options,
        mut history: History,
        promised: Sequence,
    ) -> Result<Self, String> {
        let durability = options.durability;
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let Recovered { core, snapshots, .. } =
            recover(&disk, options, &ENTROPY).map_err(|error| format!("recovery: {error}"))?;
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
        history.now_ms = core.machine().now_ms();
        let secret = core.machine().id_secret();
        let pace = Pace { group: 5, steps: 10 };
        let (in_files, reader) = (options.index_memory_bytes_max > 0, None);
        let rig = Self { core, snapshots, history, durability, in_files, pace, reader, secret };
        rig.check_state()?;
        Ok(rig)
    }

    pub(super) fn model(&self) -> &Model {
        self.history.model()
    }

    /// Checks that exactly the model's documents are stored, in memory and in the journal.
    pub(super) fn check_state(&self) -> Result<(), String> {
        let records = self.core.records().clone();
        let published = Published::new(self.core.machine(), records);
        check_state(&published, self.model(), &self.secret)
    }

    /// Runs until the disk fails or the life is over.
    pub(super) fn live(&mut self, dice: &mut Dice) -> Result<(), String> {
        self.pace = Pace::draw(dice);
        for _ in 0..GROUPS_A_LIFE {
            if self.step(dice)?.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A group, or work of the background. The inner error is the disk's.
    pub(super) fn step(&mut self, dice: &mut Dice) -> Result<Result<(), StorageError>, String> {
        if dice.below(4) == 0 {
            let (view, records) = (self.core.view().clone(), self.core.records().pin());
            self.reader = Some((view, records, self.model().clone()));
        }
        match dice.below(self.pace.steps) {
            0 => Ok(self.snapshot()),
            9 => Ok(self.retake()),
            8 => self.reclaim(dice),
            1 => Ok(self.core.seal()),
            3 if self.durability != Durability::Always => Ok(self.sync()),
            2 => {
                // What the background threads do, between two groups.
                Ok(sweep::settle(&mut self.core))
            }
            _ => self.commit(dice),
        }
    }

    /// Ends a window; with `always`, a group.
    fn sync(&mut self) -> Result<(), StorageError> {
        self.core.sync()?;
        self.history.synced = self.core.view().sequence();
        Ok(())
    }

    pub(super) fn snapshot(&mut self) -> Result<(), StorageError> {
        self.write_snapshot(false)
    }

    /// Replaces the snapshots, as after merges that have dropped much.
    fn retake(&mut self) -> Result<(), StorageError> {
        if self.core.view().sequence() == Sequence::ZERO {
            return Ok(());
        }
        self.write_snapshot(true)
    }

    fn write_snapshot(&mut self, again: bool) -> Result<(), StorageError> {
        let Durable { view, jobs } = self.core.freeze()?;
        self.history.synced = view.sequence();
        sweep::settle(&mut self.core)?;
        let write = if again { Snapshots::retake } else { Snapshots::take };
        write(&mut self.snapshots, self.core.view().parts_of(&view), &jobs, 0)?;
        if self.in_files { move_into_files(&mut self.core, &mut self.snapshots) } else { Ok(()) }
    }

    /// Sweeps as the reclaimer does; a reader that began before sees no difference.
    fn reclaim(&mut self, dice: &mut Dice) -> Result<Result<(), StorageError>, String> {
        if dice.below(2) == 0
            && let Err(error) = self.snapshot().and_then(|()| self.snapshots.repeat().map(drop))
        {
            return Ok(Err(error));
        }
        let swept = self.core.settle().and_then(|_| {
            self.history.synced = self.core.view().sequence();
            self.sweep(dice)
        });
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
        sweep::sweep(&self.core, &self.snapshots, pack_bytes, &mut |freed| {
            *packs += u64::from(freed > 0);
        })
    }

    /// Commits a random group. The inner error is the disk's, the outer one a broken promise.
    fn commit(&mut self, dice: &mut Dice) -> Result<Result<(), StorageError>, String> {
        let (searched, searched_ms) = (self.core.view().clone(), self.history.clock_ms);
        let (mut group, mut checks) = (Vec::new(), Vec::new());
        for at_ms in self.accepted_ms(dice) {
            self.history.now_ms = at_ms.max(self.history.now_ms).min(self.history.clock_ms);
            let (write, check) = self.draw(dice, &searched, (searched_ms, at_ms));
            group.push(write);
            checks.push(check);
        }
        self.history.commands += group.len() as u64;
        if let Err(error) = commit_at(&mut self.core, group, self.history.clock_ms) {
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

    /// When the commands of a group were accepted: some waited for long, and the clock may have
    /// been set before them or between them. Reads the clock after them.
    fn accepted_ms(&mut self, dice: &mut Dice) -> Vec<u64> {
        let mut accepted = Vec::new();
        for _ in 0..=dice.below(self.pace.group) {
            let clock_ms = &mut self.history.clock_ms;
            *clock_ms += [0, 1, 400, 1_700][dice.below(4)];
            if dice.below(40) == 0 {
                *clock_ms = match dice.below(6) {
                    0 => *clock_ms + 3_000,
                    1 => *clock_ms + 7_200_000,
                    2 => clock_ms.saturating_sub(2_500),
                    3 => 3_000,
                    4 => (BEGIN_S + 600_000_000) * 1_000,
                    _ => BEGIN_S * 1_000 + dice.roll() % 90_000,
                };
            }
            accepted.push(clock_ms.saturating_sub([0, 0, 900][dice.below(3)]));
        }
        accepted
    }

    /// A random command on a search of a view, and the check of its reply against the model.
    #[expect(clippy::too_many_lines, reason = "one arm a command")]
    fn draw(
        &mut self,
        dice: &mut Dice,
        searched: &View,
        (searched_ms, at_ms): (u64, u64),
    ) -> (Box<dyn QueuedWrite>, Check) {
        let (now_ms, secret) = (self.history.now_ms, self.secret);
        let similarity = if dice.below(3) == 0 { 0.0 } else { 0.8 };
        let criteria = Criteria {
            distance: Distance::new(dice.below(4) as u8).unwrap(),
            threshold: Threshold::of_similarity(similarity),
            max_age_s: (dice.below(4) == 0).then(|| dice.below(5) as u32),
            ..Criteria::within(Distance::ZERO)
        };
        match dice.below(14) {
            0..3 => {
                let document = document(dice, &secret, now_ms);
                let renews = dice.below(3) == 0;
                let verdict = self.expect(|model| model.insert(&document, renews));
                checked(Insert { document, renews }, at_ms, move |reply| {
                    reply.written.verdict == verdict
                })
            }
            3..6 => {
                let document = document(dice, &secret, now_ms);
                let (store_duplicates, renews) = (dice.below(2) == 0, dice.below(3) == 0);
                let lookup = self.look_up(searched, searched_ms, &document, criteria);
                let (verdict, matches) = self.expect(|model| {
                    let matches = model.matches(&document, criteria);
                    let how = (store_duplicates, renews);
                    (model.check_and_insert(&document, criteria, how), matches)
                });
                let command = CheckAndInsert { document, criteria, store_duplicates, renews };
                let (limit, touches) = (usize::MAX, None);
                let command = SearchedCheckAndInsert { command, lookup, limit, touches };
                checked(command, at_ms, move |reply| {
                    let found = reply.found.matches().iter().map(|found| found.fingerprint);
                    reply.written.verdict == verdict && found.eq(matches.iter().map(|m| m.3))
                })
            }
            6 => {
                let packed = batch(dice, &secret, now_ms);
                self.expect_packed(&packed);
                checked(InsertPacked { packed }, at_ms, |_| true)
            }
            7 => {
                let packed = batch(dice, &secret, now_ms);
                let namespace = packed.namespace.as_ref();
                let namespace = namespace.map(|name| NamespaceKey::of(name, &secret));
                let visibility = searched.visibility(namespace, searched_ms, criteria.max_age_s);
                let fingerprints = &packed.fingerprints;
                let search =
                    PackedSearch::new(searched, fingerprints, criteria.distance, visibility);
                let one = |fingerprint: &Fingerprint| {
                    let packed = Packed { fingerprints: vec![*fingerprint], ..packed.clone() };
                    self.expect(|model| model.check_and_insert_packed(&packed, criteria))
                };
                let nearest = fingerprints.iter().flat_map(one).collect::<Vec<u8>>();
                let command = CheckAndInsertPacked { packed, criteria };
                let command = SearchedCheckAndInsertPacked { command, search };
                checked(command, at_ms, move |reply| *reply == nearest)
            }
            8 => {
                let (namespace, id) = (namespace(dice), id(dice));
                self.expect(|model| {
                    if model.find(namespace.as_ref(), &id).is_some() {
                        let (namespace, id) = (namespace.clone(), id.clone());
                        model.enact(&Change::Remove { namespace, id });
                    }
                });
                checked(Remove { namespace, id }, at_ms, |_| true)
            }
            9 => {
                let namespace = namespace(dice);
                let fingerprint = fingerprint(dice, namespace.as_ref(), &secret);
                self.expect(|model| {
                    let stored = model.documents().iter().map(|(_, d)| d);
                    let mut stored = stored.filter(|d| !model.has_expired(d));
                    if stored.any(|d| d.fingerprint == fingerprint && d.namespace == namespace) {
                        let namespace = namespace.clone();
                        model.enact(&Change::Reset { namespace, fingerprint });
                    }
                });
                checked(Reset { namespace, fingerprint }, at_ms, |_| true)
            }
            10 => self.expire(dice, (searched, at_ms)),
            11 => {
                let (namespace, documents, progress) = (None, Vec::new(), None);
                let noted = Change::RemoveMany { namespace, documents, progress };
                self.expect(|model| model.enact(&noted));
                checked(NoteTime, at_ms, |()| true)
            }
            _ => self.draw_job(dice, (searched, at_ms)),
        }
    }

    fn look_up(
        &self,
        view: &View,
        at_ms: u64,
        document: &Document,
        criteria: Criteria,
    ) -> RecordLookup {
        let probe = Probe::new(document, criteria, at_ms, &self.secret);
        let mut lookup = RecordLookup::begin(view, &probe, false);
        let records = self.core.records().clone();
        let state = Published { view: view.clone(), records, ..self.core.published() };
        lookup.verify(&state, &probe).unwrap();
        lookup
    }

    /// Lets the model decide, and keeps its state if that changed it.
    pub(super) fn expect<T>(&mut self, decide: impl FnOnce(&mut Model) -> T) -> T {
        let mut model = self.model().clone();
        model.set_time(self.history.now_ms);
        let reply = decide(&mut model);
        if model.sequence() > self.model().sequence() {
            self.history.states.push(model);
        }
        reply
    }

    /// Lets the model store bare fingerprints, change by change.
    pub(super) fn expect_packed(&mut self, packed: &Packed) {
        for &fingerprint in &packed.fingerprints {
            let packed = Packed { fingerprints: vec![fingerprint], ..packed.clone() };
            self.expect(|model| model.enact(&Change::PutPacked { packed }));
        }
    }
}

/// Compares the reply of a write with the model's, once it is acknowledged.
pub(super) type Check = Box<dyn FnOnce() -> Result<(), String>>;

/// A command in a queue, and the check of its reply.
pub(super) fn checked<C: Command>(
    command: C,
    at_ms: u64,
    is_expected: impl FnOnce(&C::Reply) -> bool + 'static,
) -> (Box<dyn QueuedWrite>, Check) {
    let (write, pending) = queued(command, at_ms);
    let check = move || {
        let reply = pending.wait().now_or_never().ok_or("a write was not acknowledged")?;
        let reply = reply.map_err(|refused| format!("refused: {refused}"))?;
        let same = is_expected(&reply);
        if same { Ok(()) } else { Err(format!("another reply than the model's: {reply:?}")) }
    };
    (write, Box::new(check))
}

/// A command in a queue, and where its reply arrives.
pub(super) fn queued<C: Command>(
    command: C,
    at_ms: u64,
) -> (Box<dyn QueuedWrite>, Pending<C::Reply>) {
    let (queued, pending) = Queued::new(command, at_ms, (None, None), 0);
    (queued, pending)
}

/// Decides a group, makes it durable and acknowledges it; or refuses it if the disk is full.
pub(super) fn commit(
    core: &mut Core,
    group: Vec<Box<dyn QueuedWrite>>,
) -> Result<(), StorageError> {
    commit_at(core, group, u64::MAX)
}

/// The same when the clock says this.
fn commit_at(
    core: &mut Core,
    mut group: Vec<Box<dyn QueuedWrite>>,
    clock_ms: u64,
) -> Result<(), StorageError> {
    match decide_group(core, &mut group, (clock_ms, 0), &mut || true)? {
        Ok(_) => {
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
    let (write, pending) = queued(command, BEGIN_S * 1_000);
    commit(core, vec![write]).unwrap();
    pending.wait().now_or_never().expect("it is answered")
}

/// Checks that a state has exactly the model's documents, in memory and in the journal.
pub(super) fn check_state(
    published: &Published,
    model: &Model,
    secret: &[u8; 16],
) -> Result<(), String> {
    let Published { view, records, jobs } = published;
    let documents = model.documents();
    if view.counts().documents != documents.len() as u64 {
        return Err(format!("{} documents, not {}", view.counts().documents, documents.len()));
    }
    for (sequence, document) in documents {
        let namespace = document.namespace.as_ref();
        let mask = namespace.map_or(0, |name| NamespaceKey::of(name, secret).mask);
        let masked = Fingerprint::new(document.fingerprint.bits() ^ mask);
        if view.documents_at(&[(*sequence, masked)]).is_empty() {
            return Err(format!("document {sequence} is not under its fingerprint"));
        }
        if has_record(document) {
            let stored = reader::stored(records, *sequence);
            if stored.as_ref().map(|stored| &stored.document) != Ok(document) {
                return Err(format!("document {sequence} reads as {stored:?}"));
            }
        }
        if let Some(id) = &document.id {
            let located = view.find_id(IdKey::of(id.as_str(), namespace, secret));
            if located.map(|located| located.posting.sequence) != Some(*sequence) {
                return Err(format!("document {sequence} is not under its id"));
            }
        }
    }
    if **jobs != *model.jobs() {
        return Err(format!("other jobs: {jobs:?}"));
    }
    check_namespaces(published, model, secret)
}

/// Checks that the namespaces have their documents, and that their names can be read.
fn check_namespaces(published: &Published, model: &Model, secret: &[u8; 16]) -> Result<(), String> {
    let namespaces = published.view.namespaces();
    let mut documents = 0;
    for name in NAMESPACES {
        let namespace = Namespace::new(name).unwrap();
        let stored = model.documents().iter();
        let stored = stored.filter(|(_, d)| d.namespace.as_ref() == Some(&namespace)).count();
        let entry = namespaces.get(NamespaceKey::of(&namespace, secret).key);
        if entry.map_or(0, |entry| entry.documents) != stored as u64 {
            return Err(format!("{name} has {entry:?}, not {stored} documents"));
        }
        let read = entry.map(|entry| reader::name(&published.records, entry.named_by));
        if let Some(read) = read
            && read.as_ref() != Ok(&namespace)
        {
            return Err(format!("the name of {name} reads as {read:?}"));
        }
        documents += stored as u64;
    }
    let same = namespaces.documents() == documents;
    if same { Ok(()) } else { Err("documents of no known namespace".to_owned()) }
}

/// Checks that every document with a record of its own reads as it was stored.
fn check_stored(view: &View, records: &Records, model: &Model) -> Result<(), String> {
    let all = Selection {
        namespace: None,
        after: Sequence::ZERO,
        upto: view.sequence(),
        expired: Expired::Any,
    };
    let listed: Vec<_> = view.list(all, 1 << 20).iter().map(|l| l.posting.sequence).collect();
    for (sequence, document) in model.documents() {
        if listed.contains(sequence) && has_record(document) {
            let stored = reader::stored(records, *sequence);
            if stored.as_ref().map(|stored| &stored.document) != Ok(document) {
                return Err(format!("document {sequence} reads as {stored:?}"));
            }
        }
    }
    Ok(())
}

/// Whether a document is more than a fingerprint, so that its record shows something.
fn has_record(document: &Document) -> bool {
    document.id.is_some() || document.sketch.is_some() || document.metadata.is_some()
}
