//! A follower of one of the nodes: a member that cannot lead, whose log is the stream of a primary,
//! and whose primary may have packed what it lacks.

use std::io::Read;
use std::sync::Arc;

use nearprint_machine::document::Sequence;
use nearprint_storage::simulated::{Dice, Faults};
use nearprint_storage::{Disk, SimulatedDisk};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::member::{BEGIN_MS, End, Member, identity};
use super::world::World;
use crate::api::options::{Durability, Options};
use crate::directories::follower;
use crate::directories::member::{self, ChangeSource};
use crate::directories::recovery::{Recovered, recover};
use crate::handle::changes::{ChangesCursor, ChangesEnd};
use crate::replication::log::LogEntry;
use crate::replication::message::DOCUMENTS_UNKNOWN;
use crate::replication::position;
use crate::replication::primary_reader::{ChangesError, FollowerPosition, OpenChanges};
use crate::simulation::rig::{ENTROPY, options};
use crate::state::replica::{FollowerOptions, ReplicaOptions};
use crate::state::touches::Touches;
use crate::threads::replica::node::{Node, NodeSettings, Synced, Taken};

/// The largest distance of all members.
const DISTANCE_MAX: u8 = 3;

pub(super) struct Follower {
    disk: SimulatedDisk,
    options: Options,
    /// What a crash takes.
    open: Option<Open>,
    needs_seed: bool,
}

struct Open {
    node: Node,
    /// Where the next connection begins.
    after: FollowerPosition,
    /// The number of entries that it has read.
    at: u64,
    connection: Option<Connection>,
}

/// A stream of one of the nodes, which ends when that crashes.
struct Connection {
    primary: usize,
    life: u64,
    cursor: ChangesCursor,
}

/// The schedule connects the follower, so that it asks nobody by itself.
#[derive(Debug)]
struct Nobody;

impl OpenChanges for Nobody {
    fn open(&self, _: &FollowerPosition) -> Result<Box<dyn Read + Send>, ChangesError> {
        Err(ChangesError::Unreachable("nobody".to_owned()))
    }
}

impl Follower {
    pub(super) fn new() -> Self {
        let options = Options { follows: true, ..options(Durability::Always) };
        Self { disk: SimulatedDisk::new(), options, open: None, needs_seed: true }
    }

    /// It connects, reads, syncs, or loses its memory.
    pub(super) fn step(
        &mut self,
        members: &[Member],
        dice: &mut Dice,
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), String> {
        let primary = dice.below(members.len());
        if self.needs_seed {
            self.seed(&members[primary], dice, world);
        }
        let done = match dice.below(20) {
            0 => Err(End::Crashed),
            1..4 => {
                self.connect(primary, members, world);
                Ok(())
            }
            4..10 => self.sync(world),
            _ => (0..dice.below(4)).try_for_each(|_| self.read(members, now_ms)),
        };
        self.end(done, dice)
    }

    /// Reads everything that a node has, without faults.
    pub(super) fn finish(
        &mut self,
        (primary, members): (usize, &[Member]),
        dice: &mut Dice,
        world: &mut World,
        now_ms: u64,
    ) -> Result<(), String> {
        let all = |it: &mut Self, world: &mut World| {
            it.disk.set_faults(Faults::default());
            it.start(None)?;
            it.connect(primary, members, world);
            // A message has records of one file of the journal.
            for _ in 0..100 {
                it.read(members, now_ms)?;
            }
            it.sync(world)
        };
        // It may crash once more, and find that it has to begin with an export.
        for _ in 0..3 {
            if self.needs_seed {
                self.seed(&members[primary], dice, world);
            }
            let done = all(self, world);
            self.end(done, dice)?;
        }
        let has = self.open.as_ref().map(|open| open.node.published().view.sequence());
        let wanted = members[primary].published().map(|published| published.view.sequence());
        if has == wanted {
            Ok(())
        } else {
            Err(format!("the follower has {has:?}, not {wanted:?}"))
        }
    }

    /// After an operation: opens the directory again, if it is not open.
    fn end(&mut self, done: Result<(), End>, dice: &mut Dice) -> Result<(), String> {
        let crash_at = 1 + dice.roll() % [40, 400, 4_000][dice.below(3)];
        let started =
            done.or_else(|end| self.crash(end, dice)).and_then(|()| self.start(Some(crash_at)));
        match started.or_else(|end| self.crash(end, dice)) {
            Ok(()) => Ok(()),
            Err(End::Broken(broken)) => Err(format!("the follower: {broken}")),
            Err(End::Crashed) => Err("the follower: a crash is survived".to_owned()),
        }
    }

    /// Loses its memory, and with a power cut what was not synced, if that is how it ended.
    fn crash(&mut self, end: End, dice: &mut Dice) -> Result<(), End> {
        let End::Crashed = end else { return Err(end) };
        self.open = None;
        let is_power_cut = dice.below(4) > 0;
        self.disk = if is_power_cut { self.disk.crash(dice.roll()) } else { self.disk.kill() };
        Ok(())
    }

    /// Begins with an export of a node.
    fn seed(&mut self, from: &Member, dice: &mut Dice, world: &mut World) {
        let Some(disk) = from.durable() else { return };
        self.disk = disk.crash(dice.roll());
        self.disk.remove_if_present(position::NAME).unwrap();
        follower::mark(&self.disk, "a node", false).unwrap();
        (self.open, self.needs_seed) = (None, false);
        world.statistics.copied += 1;
    }

    /// Opens the directory, if it is not open.
    fn start(&mut self, crash_at_operation: Option<u64>) -> Result<(), End> {
        if self.open.is_some() || self.needs_seed {
            return Ok(());
        }
        self.disk.set_faults(Faults { crash_at_operation, ..Faults::default() });
        let shared: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let core = match recover(&shared, &self.options, &ENTROPY) {
            Ok(Recovered { core, .. }) => core,
            Err(_) if self.disk.list().is_err() => return Err(End::Crashed),
            Err(error) => return Err(End::Broken(format!("recovery: {error}"))),
        };
        let follows = FollowerOptions { primary: "a node".into(), changes: Arc::new(Nobody) };
        let replica = ReplicaOptions::Follower(follows);
        let member = member::Member::open(replica, &self.disk, identity(), &core);
        let member = member.map_err(|error| End::Broken(error.to_string()))?;
        let ChangeSource::Primary { after, .. } = member.source else {
            return Err(End::Broken("it reads a log".to_owned()));
        };
        let settings =
            NodeSettings { identity: identity(), address: "".into(), distance_max: DISTANCE_MAX };
        let touches = Arc::new(Touches::new(1_000, []));
        let node = Node::open(core, member.position, settings, touches, 0);
        self.open = Some(Open { node, after, at: 0, connection: None });
        Ok(())
    }

    /// Asks a node for what comes next. One that was filled anew and is behind is not asked.
    fn connect(&mut self, primary: usize, members: &[Member], world: &mut World) {
        let (Some(open), Some(published)) = (&mut self.open, members[primary].published()) else {
            return;
        };
        if published.view.sequence() < open.after.sequence {
            return;
        }
        open.connection =
            match ChangesCursor::begin(published, &open.after, (identity(), DISTANCE_MAX)) {
                Ok(cursor) => Some(Connection { primary, life: members[primary].life, cursor }),
                Err(ChangesEnd::Packed(_)) => {
                    self.needs_seed = true;
                    None
                }
                Err(end) => panic!("{end}"),
            };
        world.statistics.followed += u64::from(!self.needs_seed);
    }

    /// Reads a message of its primary.
    fn read(&mut self, members: &[Member], now_ms: u64) -> Result<(), End> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some(Connection { primary, life, cursor }) = &mut open.connection else {
            return Ok(());
        };
        let member = &members[*primary];
        let Some(published) = member.published().filter(|_| member.life == *life) else {
            open.connection = None;
            return Ok(());
        };
        let (records, documents) = if cursor.is_level(published) {
            (Vec::new(), published.view.documents())
        } else {
            match cursor.read(&published.records, published.view.sequence()) {
                Ok(records) => (records, DOCUMENTS_UNKNOWN),
                Err(ChangesEnd::Packed(_)) => {
                    self.needs_seed = true;
                    return Ok(());
                }
                Err(end) => return Err(End::Broken(end.to_string())),
            }
        };
        let framed = cursor.message(&records, (documents, BEGIN_MS + now_ms), |_| Vec::new());
        open.at += 1;
        let entry = LogEntry { at: open.at, bytes: framed[size_of::<u32>()..].into(), at_ms: None };
        let taken = open.node.read(&entry, now_ms)?;
        if taken != Taken::Counts {
            return Err(End::Broken(format!("{taken:?}")));
        }
        if let Some(last) = records.last() {
            let record = Some(xxh3_64_with_seed(&last.payload, identity().seed().0));
            let sequence = Sequence::new(last.first + u64::from(last.count) - 1);
            open.after = FollowerPosition { sequence, record };
        }
        Ok(())
    }

    /// Makes durable what it has read.
    fn sync(&mut self, world: &mut World) -> Result<(), End> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Synced { published, writes } = open.node.sync()?;
        assert!(writes.is_empty(), "nobody asks a follower to write");
        Ok(world.check_follower(&published)?)
    }
}
