//! A node on a simulated disk, as the threads of a service drive it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use nearprint_index::compaction::policy::Load;
use nearprint_storage::simulated::{Dice, Faults};
use nearprint_storage::{Disk, Identity, SimulatedDisk, StorageError};

use super::asked::{Waiting, draw};
use super::world::{Group, World};
use crate::api::options::{Durability, Options};
use crate::directories::recovery::{Recovered, recover};
use crate::replication::chain::{Due, Fitness, Halt, Position, Start};
use crate::replication::log::simulated::SimulatedLog;
use crate::replication::log::{Log, Reader};
use crate::replication::message::{LeaderId, Message};
use crate::replication::position::ClusterFile;
use crate::replication::rejoin::{Rejoin, Rejoined};
use crate::simulation::rig::{ENTROPY, options};
use crate::simulation::sweep::sweep;
use crate::snapshot::snapshots::Snapshots;
use crate::state::published::Published;
use crate::state::touches::Touches;
use crate::threads::replica::node::{Clocks, Decided, Node, NodeSettings, Synced, Taken};
use crate::write::queued::QueuedWrite;

/// When a schedule begins, in milliseconds since 1970.
pub(super) const BEGIN_MS: u64 = 1_700_000_000_000;

pub(super) struct Member {
    pub(super) log: SimulatedLog,
    disk: SimulatedDisk,
    options: Options,
    /// How far its clock is ahead of the earliest one.
    skew_ms: u64,
    pub(super) paused_until_ms: u64,
    /// The last entry that it need not read after a crash.
    pub(super) stored_at: u64,
    /// The last entry whose changes no crash takes.
    pub(super) journaled_at: u64,
    open: Option<Open>,
    /// Why it goes no further. It is not opened again.
    pub(super) halted: Option<Halt>,
    pub(super) needs_seed: bool,
    /// How often it was opened.
    pub(super) life: u64,
    /// Its counts of originals, which no crash takes.
    pub(super) touches: Arc<Touches>,
    waiting: Vec<(usize, Waiting)>,
}

/// What a crash takes.
struct Open {
    node: Node,
    snapshots: Snapshots,
    reader: Box<dyn Reader>,
    /// What readers see, now and some time ago.
    published: Published,
    earlier: Published,
    /// How many messages have counted.
    messages: usize,
    takeover_ms: u64,
    is_at_end: bool,
    /// How many messages had counted when it read on from where the log begins.
    rejoined: Option<usize>,
    /// It has found that it may decide a group. Anything may happen before it does.
    is_about_to_write: bool,
}

/// A broken promise, or the end of a life.
pub(super) enum End {
    Broken(String),
    Crashed,
}

impl From<StorageError> for End {
    fn from(_: StorageError) -> Self {
        Self::Crashed
    }
}

impl From<String> for End {
    fn from(broken: String) -> Self {
        Self::Broken(broken)
    }
}

pub(super) fn identity() -> Identity {
    let id = std::array::from_fn(|at| ENTROPY[at]);
    Identity::new(id, "np2")
}

impl Member {
    pub(super) fn new(log: SimulatedLog, skew_ms: u64) -> Self {
        let options = Options { is_node: true, ..options(Durability::Always) };
        let disk = SimulatedDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        drop(recover(&shared, &options, &ENTROPY).unwrap());
        let log_identity = log.settings().unwrap().identity;
        ClusterFile::new(log_identity, 1).write(&shared, identity()).unwrap();
        Self {
            log,
            disk,
            options,
            skew_ms,
            paused_until_ms: 0,
            stored_at: 0,
            journaled_at: 0,
            open: None,
            halted: None,
            needs_seed: false,
            life: 0,
            touches: Arc::new(Touches::new(1_000_000, [])),
            waiting: Vec::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// What its readers see.
    pub(super) fn published(&self) -> Option<&Published> {
        self.open.as_ref().map(|open| &open.published)
    }

    /// What an export of it has.
    pub(super) fn durable(&self) -> Option<SimulatedDisk> {
        self.open.as_ref().map(|_| self.disk.durable())
    }

    pub(super) fn leads(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.node.chain().leads())
    }

    pub(super) fn is_about_to_write(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_about_to_write)
    }

    pub(super) fn messages(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.messages)
    }

    /// Whether all that it was asked is answered.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn clocks(&self, now_ms: u64) -> Clocks {
        Clocks { clock_ms: BEGIN_MS + self.skew_ms + now_ms, now_ms }
    }

    /// Sets what fails until the next crash.
    pub(super) fn set_faults(&self, crash_at_operation: Option<u64>) {
        self.disk.set_faults(Faults { crash_at_operation, ..Faults::default() });
    }

    /// Opens the directory, from the position in its file.
    pub(super) fn start(
        &mut self,
        world: &mut World,
        takeover_ms: u64,
        now_ms: u64,
    ) -> Result<(), End> {
        let shared: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let recovered = recover(&shared, &self.options, &ENTROPY);
        let Recovered { core, snapshots, .. } = match recovered {
            Ok(recovered) => recovered,
            Err(_) if self.disk.list().is_err() => return Err(End::Crashed),
            Err(error) => return Err(End::Broken(format!("recovery: {error}"))),
        };
        let mut file = ClusterFile::read(&*shared, &identity())?.expect("it is that of a node");
        self.stored_at = file.position.at;
        let Ok(bounds) = self.log.bounds() else { return Ok(()) };
        let mut rejoined = false;
        match file.start(self.log.settings().unwrap().identity, bounds) {
            Start::Read => {}
            Start::Seed => {
                let Some(position) = self.rejoin(&file.position, core.next_in_journal()) else {
                    self.needs_seed = true;
                    return Ok(());
                };
                world.statistics.rejoined += 1;
                rejoined = true;
                file.position = position;
            }
            Start::Halt(halt) => {
                self.halt(halt, world);
                return Ok(());
            }
        }
        let position = file.position;
        if core.next_in_journal() < position.next {
            return Err(End::Broken("the position is ahead of the journal".to_owned()));
        }
        let reader = self.log.read(position.at + 1);
        let messages = world.messages_upto(position.digest);
        let settings =
            NodeSettings { identity: identity(), address: "here".into(), distance_max: 3 };
        let touches = Arc::clone(&self.touches);
        let node = Node::open(core, position, settings, touches, now_ms);
        let published = node.published();
        self.life += 1;
        self.open = Some(Open {
            earlier: published.clone(),
            published,
            node,
            snapshots,
            reader,
            messages,
            takeover_ms,
            is_at_end: false,
            rejoined: rejoined.then_some(messages),
            is_about_to_write: false,
        });
        self.check(world, true)
    }

    /// Where it reads on, if the log has discarded what comes after this position.
    fn rejoin(&self, stored: &Position, next_in_journal: u64) -> Option<Position> {
        let mut reader = self.log.read(self.log.bounds().ok()?.first);
        let mut rejoin = Rejoin::default();
        while let Ok(Some(entry)) = reader.next(Duration::ZERO) {
            match rejoin.read(&entry, &identity(), (stored, next_in_journal)) {
                Rejoined::NotYet => {}
                Rejoined::From(position) => return Some(position),
                Rejoined::Nowhere => return None,
            }
        }
        None
    }

    /// Loses its memory, and with a power cut what was not synced.
    pub(super) fn crash(&mut self, dice: &mut Dice, world: &mut World) -> Result<(), String> {
        world.statistics.crashed += 1;
        self.open = None;
        self.poll(world)?;
        let is_power_cut = dice.below(4) > 0;
        self.disk = if is_power_cut { self.disk.crash(dice.roll()) } else { self.disk.kill() };
        Ok(())
    }

    fn halt(&mut self, halt: Halt, world: &mut World) {
        world.statistics.halted += 1;
        self.halted = Some(halt);
    }

    /// Begins with the content of another node.
    pub(super) fn seed(&mut self, from: &Self, dice: &mut Dice, world: &mut World) {
        world.statistics.seeded += 1;
        self.open = None;
        // Every power cut leaves this.
        self.disk = from.disk.durable().crash(dice.roll());
        (self.needs_seed, self.journaled_at) = (false, from.journaled_at);
    }

    /// Reads so many entries.
    pub(super) fn read(
        &mut self,
        entries: usize,
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), End> {
        for _ in 0..entries {
            let Some(open) = &mut self.open else { return Ok(()) };
            open.is_at_end = false;
            let entry = match open.reader.next(Duration::ZERO) {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    open.is_at_end = true;
                    return Ok(());
                }
                Err(_) => {
                    let bounds = self.log.bounds();
                    let position = open.node.chain().position();
                    self.needs_seed =
                        bounds.is_ok_and(|bounds| position.start(bounds) == Start::Seed);
                    return Ok(());
                }
            };
            let depositions = open.node.depositions();
            let taken = open.node.read(&entry, now_ms)?;
            world.statistics.deposed += open.node.depositions() - depositions;
            match taken {
                Taken::Counts => {
                    let (message, digest) = Message::decode(&entry.bytes, &identity()).unwrap();
                    world.counts(open.messages, digest, &message)?;
                    open.messages += 1;
                }
                Taken::Ignored => world.statistics.ignored += 1,
                Taken::DiskFull => return Err(End::Broken("the disk is full".to_owned())),
                Taken::Halts(halt) => {
                    self.halt(halt, world);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Makes durable what counts, publishes and answers.
    pub(super) fn sync(&mut self, world: &mut World) -> Result<(), End> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Synced { published, writes } = open.node.sync()?;
        self.journaled_at = open.node.position().at;
        open.earlier = std::mem::replace(&mut open.published, published);
        writes.into_iter().for_each(QueuedWrite::acknowledge);
        self.poll(world)?;
        self.check(world, false)
    }

    /// Hears the answers that are there.
    fn poll(&mut self, world: &mut World) -> Result<(), String> {
        for (number, mut waiting) in std::mem::take(&mut self.waiting) {
            match (&mut waiting).now_or_never() {
                Some(answer) => world.answer(number, answer)?,
                None => self.waiting.push((number, waiting)),
            }
        }
        Ok(())
    }

    pub(super) fn check(&self, world: &mut World, is_whole: bool) -> Result<(), End> {
        let Some(open) = &self.open else { return Ok(()) };
        let next = open.node.chain().position().next;
        let is_ahead = open.node.core().next_in_journal() > next && open.node.halted().is_none();
        let messages = open.messages;
        // The time of the last message before is not known where the log begins.
        let knows_time = open.rejoined != Some(messages);
        Ok(world.check(messages, &open.published, (is_ahead, is_whole, knows_time))?)
    }

    /// Stores its position.
    pub(super) fn store(&mut self) -> Result<(), End> {
        let Some(open) = &self.open else { return Ok(()) };
        if self.halted.is_some() {
            return Ok(());
        }
        let position = open.node.position().clone();
        let at = position.at;
        let shared: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let file = ClusterFile::read(&*shared, &identity())?.expect("it is that of a node");
        ClusterFile { position, ..file }.write(&shared, identity())?;
        self.stored_at = at;
        Ok(())
    }

    /// What the background threads do: merges, and perhaps a snapshot and a sweep.
    pub(super) fn work(&mut self, dice: &mut Dice, world: &mut World) -> Result<(), End> {
        self.sync(world)?;
        let Some(open) = &mut self.open else { return Ok(()) };
        if !open.node.is_settled() || self.halted.is_some() {
            return Ok(());
        }
        let frozen = (dice.below(2) == 0).then(|| open.node.freeze()).transpose()?;
        while let Some(work) = {
            let view = open.node.core().view();
            view.next_flush().or_else(|| view.next_merge(Load::Writing))
        } {
            for built in work.steps() {
                open.node.install(&built);
            }
        }
        if let Some(frozen) = frozen {
            let parts = open.node.core().view().parts_of(&frozen.view);
            open.snapshots.take(parts, &frozen.jobs, 0)?;
            world.statistics.snapshots += 1;
            if dice.below(3) == 0 {
                open.node.settle()?;
                open.snapshots.repeat()?;
                let packs = &mut world.statistics.packs;
                let pack_bytes = 200 + dice.below(1_500) as u64;
                let count = &mut |freed| *packs += u64::from(freed > 0);
                sweep(open.node.core(), &open.snapshots, pack_bytes, count)?;
            }
            self.sync(world)?;
            self.store()?;
        }
        self.sync(world)?;
        if let Some(open) = &mut self.open {
            open.node.seal()?;
        }
        self.check(world, true)
    }

    /// Decides a group for clients, if it may.
    pub(super) fn write(
        &mut self,
        dice: &mut Dice,
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), End> {
        let clocks = self.clocks(now_ms);
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.halted.is_some() {
            return Ok(());
        }
        if !std::mem::take(&mut open.is_about_to_write) || !open.node.chain().leads() {
            open.is_about_to_write = open.node.accepts(now_ms);
            return Ok(());
        }
        let (mut writes, mut commands) = (Vec::new(), Vec::new());
        for _ in 0..=dice.below(3) {
            let state = if dice.below(3) == 0 { &open.earlier } else { &open.published };
            let at_ms = clocks.clock_ms - [0, 1, 900][dice.below(3)];
            let asked = draw(dice, state, &world.secret, at_ms);
            let (write, waiting) = asked.queue(state, (&world.secret, &self.touches), at_ms);
            let number = world.submit(asked, at_ms);
            writes.push(write);
            commands.push(number);
            self.waiting.push((number, waiting));
        }
        world.statistics.together += u64::from(!open.node.is_settled());
        let group = Group { clock_ms: clocks.clock_ms, commands };
        match open.node.decide(writes, clocks, 0, &mut || true)? {
            Decided::Send(bytes, _) => self.append(&bytes, Some(group), world),
            Decided::Refused(refused, writes) => {
                for write in writes {
                    write.refuse(refused.clone());
                }
            }
        }
        Ok(self.poll(world)?)
    }

    fn append(&mut self, bytes: &Arc<[u8]>, group: Option<Group>, world: &mut World) {
        let Some(open) = &mut self.open else { return };
        let (_, digest) = Message::decode(bytes, &identity()).unwrap();
        if let Some(group) = group {
            world.sent(digest, group);
        }
        let read = open.node.chain().position().at;
        if let Ok(Ok(at)) = self.log.append(Arc::clone(bytes)).try_recv() {
            open.node.acknowledged(at, read);
            if let Some(halt) = open.node.halted().cloned() {
                self.halt(halt, world);
            }
        }
    }

    /// Does what is due.
    pub(super) fn act(
        &mut self,
        is_stopping: bool,
        dice: &mut Dice,
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), End> {
        let clocks = self.clocks(now_ms);
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.halted.is_some() {
            return Ok(());
        }
        let takeover_ms = open.is_at_end.then_some(open.takeover_ms);
        let fitness = if is_stopping { Fitness::Unfit } else { Fitness::Fit };
        let bytes = match open.node.due(fitness, takeover_ms, now_ms) {
            Due::Nothing => {
                if let Some(halt) = open.node.halted().cloned() {
                    self.halt(halt, world);
                }
                return Ok(());
            }
            Due::Lead => {
                world.statistics.led += 1;
                open.takeover_ms = 3_000 + dice.below(1_000) as u64;
                open.node.lead(LeaderId(dice.roll()), clocks)?
            }
            Due::Beat => open.node.beat(clocks)?,
            Due::Resign => open.node.resign(clocks)?,
            Due::SendAgain => {
                let again: Vec<_> = open.node.chain().again().cloned().collect();
                for bytes in again {
                    self.append(&bytes, None, world);
                }
                return Ok(());
            }
        };
        open.is_about_to_write = false;
        self.append(&bytes, Some(Group::default()), world);
        Ok(())
    }
}
