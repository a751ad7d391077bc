//! What single nodes do with single entries of a log.

use std::sync::Arc;

use futures_util::FutureExt as _;
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::document::Document;
use nearprint_storage::simulated::Faults;
use nearprint_storage::{Disk, Records, SimulatedDisk, StorageError};

use super::asked::{Asked, Reply, Waiting};
use super::member::identity;
use crate::api::error::{OpenError, Refused};
use crate::api::options::{Durability, Options};
use crate::directories::recovery::recover;
use crate::replication::chain::{Due, Fitness, Halt};
use crate::replication::log::LogEntry;
use crate::replication::message::LeaderId;
use crate::replication::position::ClusterFile;
use crate::simulation::rig::{ENTROPY, options};
use crate::state::touches::Touches;
use crate::threads::replica::node::{Clocks, Decided, Node, NodeSettings, Taken};
use crate::write::command::Bounds;
use crate::write::core::{CommandGroup, Core};
use crate::write::queued::QueuedWrite;

const CLOCKS: Clocks = Clocks { clock_ms: 1_700_000_000_000, now_ms: 5_000 };

fn open(disk: &SimulatedDisk, distance_max: u8) -> Node {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let core = recover(&disk, &options(Durability::Always), &ENTROPY).unwrap().core;
    let position = ClusterFile::new(1, 1).position;
    let settings = NodeSettings { identity: identity(), address: "here".into(), distance_max };
    Node::open(core, position, settings, Arc::new(Touches::new(0, [])), 0)
}

/// A write that stores a fingerprint, and where the answer arrives.
fn insert(node: &Node, fingerprint: u64) -> (Box<dyn QueuedWrite>, Waiting) {
    let document = Document::bare(Fingerprint::new(fingerprint));
    let asked = Asked::Insert { document, renews: false };
    let touches = Arc::new(Touches::new(0, []));
    let secret = std::array::from_fn(|at| ENTROPY[16 + at]);
    asked.queue(&node.published(), (&secret, &touches), CLOCKS.clock_ms)
}

/// Decides to store a fingerprint. Returns the message, and where the answer arrives.
fn decide(node: &mut Node, fingerprint: u64) -> (Arc<[u8]>, Waiting) {
    let (write, waiting) = insert(node, fingerprint);
    match node.decide(vec![write], CLOCKS, 0, &mut || true).unwrap() {
        Decided::Send(bytes, _) => (bytes, waiting),
        Decided::Refused(refused, _) => panic!("{refused}"),
    }
}

fn read(node: &mut Node, entries: &[Arc<[u8]>]) -> Vec<Taken> {
    let read = |bytes: &Arc<[u8]>| {
        let at = node.chain().position().at + 1;
        node.read(&LogEntry { at, bytes: Arc::clone(bytes), at_ms: None }, CLOCKS.now_ms).unwrap()
    };
    entries.iter().map(read).collect()
}

/// A log in which a node leads and has stored this.
fn log(fingerprint: u64) -> [Arc<[u8]>; 2] {
    let mut node = open(&SimulatedDisk::new(), 3);
    let leads = node.lead(LeaderId(fingerprint), CLOCKS).unwrap();
    assert_eq!(read(&mut node, &[Arc::clone(&leads)]), [Taken::Counts]);
    let (stores, waiting) = decide(&mut node, fingerprint);
    assert!(waiting.now_or_never().is_none(), "it has not counted");
    [leads, stores]
}

#[test]
fn a_journal_of_another_history_halts_its_node() {
    let disk = SimulatedDisk::new();
    let mut node = open(&disk, 3);
    assert_eq!(read(&mut node, &log(1)), [Taken::Counts, Taken::Counts]);
    node.sync().unwrap();
    drop(node);
    // The file with its position is as old as can be.
    let mut same = open(&disk, 3);
    assert_eq!(read(&mut same, &log(1)), [Taken::Counts, Taken::Counts]);
    assert_eq!(same.published().view.documents(), 1);
    let mut other = open(&disk, 3);
    let halt = Halt::Rewritten { sequence: 1 };
    assert_eq!(read(&mut other, &log(2)), [Taken::Counts, Taken::Halts(halt)]);
    assert_eq!(other.due(Fitness::Fit, Some(0), 99_999), Due::Nothing);
    // The log ends before what the journal has.
    let mut short = open(&disk, 3);
    read(&mut short, &log(1)[..1]);
    assert_eq!(short.due(Fitness::Fit, Some(0), 99_999), Due::Nothing);
    assert_eq!(short.halted(), Some(&Halt::Lost { next: 1, last: 1 }));
}

#[test]
fn the_directory_of_a_node_does_not_start_alone() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    let alone = options(Durability::Always);
    recover(&disk, &alone, &ENTROPY).unwrap();
    ClusterFile::new(1, 1).write(&disk, identity()).unwrap();
    let refused = recover(&disk, &alone, &ENTROPY).map(drop);
    assert!(matches!(refused, Err(OpenError::NodeOfCluster)), "{refused:?}");
    let node = Options { is_node: true, ..alone };
    assert!(recover(&disk, &node, &ENTROPY).is_ok());
}

/// A write that meets a record which cannot be read.
#[derive(Debug)]
struct MeetsUnreadable;

impl QueuedWrite for MeetsUnreadable {
    fn bounds(&self) -> Bounds {
        Bounds { payload_bytes: 0, changes: 1, records: 1, adds: true }
    }

    fn decide(&mut self, _: &mut Core, _: &CommandGroup) -> Result<(), StorageError> {
        Ok(())
    }

    fn met_unreadable(&self) -> bool {
        true
    }

    fn pin(&mut self, _: &Records) {}

    fn acknowledge(self: Box<Self>) {}

    fn refuse(self: Box<Self>, _: Refused) {}
}

/// Another node may be able to read it.
#[test]
fn a_leader_that_cannot_read_a_record_resigns_and_leads_no_more() {
    let mut node = open(&SimulatedDisk::new(), 3);
    let leads = node.lead(LeaderId(1), CLOCKS).unwrap();
    read(&mut node, &[leads]);
    assert_eq!(node.due(Fitness::Fit, None, CLOCKS.now_ms), Due::Nothing);
    let write: Box<dyn QueuedWrite> = Box::new(MeetsUnreadable);
    let Decided::Send(bytes, _) = node.decide(vec![write], CLOCKS, 0, &mut || true).unwrap() else {
        panic!("there is space");
    };
    read(&mut node, &[bytes]);
    assert_eq!(node.due(Fitness::Fit, None, CLOCKS.now_ms), Due::Resign);
    let resigns = node.resign(CLOCKS).unwrap();
    read(&mut node, &[resigns]);
    assert_eq!(node.due(Fitness::Fit, Some(0), 99_999), Due::Nothing);
}

#[test]
fn what_there_is_no_time_for_is_left_to_the_next_group() {
    let mut node = open(&SimulatedDisk::new(), 3);
    let leads = node.lead(LeaderId(1), CLOCKS).unwrap();
    read(&mut node, &[leads]);
    let mut writes = [1, 2, 3].map(|fingerprint| insert(&node, fingerprint).0).into();
    for (has_time, left_of_it) in [(false, 2), (true, 0)] {
        let decided = node.decide(writes, CLOCKS, 0, &mut || has_time).unwrap();
        let Decided::Send(bytes, left) = decided else { panic!("there is space") };
        assert_eq!(left.len(), left_of_it);
        assert_eq!(read(&mut node, &[bytes]), [Taken::Counts]);
        writes = left;
    }
    assert_eq!(node.sync().unwrap().published.view.documents(), 3);
}

#[test]
fn a_settled_node_has_a_seal_that_no_power_cut_takes() {
    let disk = SimulatedDisk::new();
    let mut node = open(&disk, 3);
    read(&mut node, &log(1));
    node.sync().unwrap();
    let durable_bytes = || {
        let mut length = 0;
        disk.durable().edit("journal-00000000000000000001.log", |bytes| length = bytes.len());
        length
    };
    let synced = durable_bytes();
    node.settle().unwrap();
    assert!(durable_bytes() > synced, "{synced}");
}

#[test]
fn on_a_full_disk_a_follower_waits() {
    let disk = SimulatedDisk::new();
    let mut node = open(&disk, 3);
    let [leads, stores] = log(1);
    disk.set_faults(Faults { capacity_bytes: Some(1), ..Faults::default() });
    assert_eq!(read(&mut node, &[leads]), [Taken::Counts], "it needs no space");
    let stores = [stores];
    assert_eq!(read(&mut node, &stores), [Taken::DiskFull]);
    assert_eq!(node.published().view.documents(), 0);
    disk.set_faults(Faults::default());
    assert_eq!(read(&mut node, &stores), [Taken::Counts]);
    assert_eq!(node.sync().unwrap().published.view.documents(), 1);
}

#[test]
fn who_searches_less_far_than_the_leader_does_not_try_to_lead() {
    for (distance_max, due) in [(2, Due::Nothing), (3, Due::Lead), (4, Due::Lead)] {
        let mut node = open(&SimulatedDisk::new(), distance_max);
        read(&mut node, &log(1));
        assert_eq!(node.due(Fitness::Fit, Some(3_000), 99_999), due, "{distance_max}");
    }
}

#[test]
fn a_halt_leaves_open_what_is_under_way() {
    let mut node = open(&SimulatedDisk::new(), 3);
    let leads = node.lead(LeaderId(1), CLOCKS).unwrap();
    read(&mut node, &[leads]);
    let (counted, answered) = decide(&mut node, 1);
    read(&mut node, &[counted]);
    let (_, open) = decide(&mut node, 2);
    // The log acknowledges below what was read.
    node.acknowledged(1, 2);
    assert_eq!(open.now_or_never(), Some(Err(Refused::OutcomeUnknown)));
    assert!(!node.accepts(CLOCKS.now_ms) && node.halted().is_some());
    // What has counted is answered all the same.
    let synced = node.sync().unwrap();
    assert_eq!(synced.published.view.documents(), 1);
    synced.writes.into_iter().for_each(QueuedWrite::acknowledge);
    let answer = answered.now_or_never().unwrap();
    assert!(matches!(answer, Ok(Reply::Stored(_))), "{answer:?}");
}
