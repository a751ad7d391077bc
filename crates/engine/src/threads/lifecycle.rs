//! All threads of an engine: how they start, and in which order they stop.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nearprint_storage::{DirectoryLock, Disk};
use tokio::sync::mpsc;

use crate::api::clock;
use crate::api::error::OpenError;
use crate::api::options::Durability;
use crate::directories::member::{ChangeSource, Member};
use crate::shared::{Shared, ToWriter};
use crate::snapshot::snapshots::Snapshots;
use crate::threads::reclaimer::ReclaimerThread;
use crate::threads::replica::log_thread::{self, LogThread};
use crate::threads::replica::node::{Node, NodeSettings};
use crate::threads::replica::writer::NodeWriter;
use crate::threads::snapshotter::{SnapshotRequest, Snapshotter};
use crate::threads::spawn::{Stoppable, join, spawn};
use crate::threads::writer::Writer;
use crate::threads::{flusher, groups, merger, remover, syncer, watcher};
use crate::write::core::Core;

/// The running threads, and the lock of their directory.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The writer, and in a copy of others also the thread that reads for it, which ends after it.
    writing: Vec<JoinHandle<()>>,
    flusher: JoinHandle<()>,
    snapshots: JoinHandle<()>,
    pub(crate) snapshot_requests: Sender<SnapshotRequest>,
    merges: Stoppable,
    /// With the policy `interval` only.
    syncs: Option<Stoppable>,
    reclaim: Stoppable,
    /// Not in a follower: the primary decides what is removed.
    removals: Option<Stoppable>,
    groups: Stoppable,
    watch: Stoppable,
    _lock: DirectoryLock,
}

impl Threads {
    /// Starts the threads over a recovered state; `inbox` has the messages to the writer.
    ///
    /// # Errors
    /// [`OpenError::System`] if the operating system refuses a thread.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        disk: &Arc<dyn Disk>,
        (core, member, inbox): (Core, Option<Member>, mpsc::UnboundedReceiver<ToWriter>),
        snapshots: Snapshots,
        lock: DirectoryLock,
    ) -> Result<Self, OpenError> {
        let new_shared = || Arc::clone(shared);
        let (snapshot_requests, requests) = channel();
        let (settle, settle_requests) = channel();
        let snapshotter = Snapshotter {
            shared: new_shared(),
            snapshots,
            requests,
            settle,
            last: clock::now(),
            last_failed: None,
            move_after: clock::now(),
            kept_index_bytes: [shared.published.load().view.index_bytes(); 2],
        };
        let reclaimer = core.reclaimer();
        let writing = match member {
            None => {
                let writer = Writer::new(core, new_shared(), inbox);
                vec![spawn(shared, "writer", move || writer.run())?]
            }
            Some(member) => start_node(shared, disk, (core, member), inbox)?,
        };
        let (flushed, merged, synced) = (new_shared(), new_shared(), new_shared());
        let (grouped, watched) = (new_shared(), new_shared());
        let (watched_disk, records) = (Arc::clone(disk), reclaimer.records().clone());
        let syncs = match shared.options.durability {
            Durability::Interval { ms } => Some(Stoppable::spawn(shared, "syncs", |stopped| {
                move || syncer::run(&synced, Duration::from_millis(ms), &stopped)
            })?),
            Durability::Always | Durability::None => None,
        };
        let removals = if shared.options.follows {
            None
        } else {
            Some(Stoppable::spawn(shared, "removals", |stopped| {
                let remover = remover::Remover::new(new_shared(), stopped);
                move || remover.run()
            })?)
        };
        Ok(Self {
            writing,
            snapshots: spawn(shared, "snapshots", move || snapshotter.run())?,
            snapshot_requests,
            flusher: spawn(shared, "flusher", move || flusher::run(&flushed, &settle_requests))?,
            merges: Stoppable::spawn(shared, "merges", |stopped| {
                move || merger::run(&merged, &stopped)
            })?,
            syncs,
            reclaim: Stoppable::spawn(shared, "reclaim", |stopped| {
                let reclaimer = ReclaimerThread::new(new_shared(), reclaimer, stopped);
                move || reclaimer.run()
            })?,
            removals,
            groups: Stoppable::spawn(shared, "groups", |stopped| {
                move || groups::run(&grouped, &stopped)
            })?,
            watch: Stoppable::spawn(shared, "disk", |stopped| {
                move || watcher::run(&watched, &*watched_disk, &records, &stopped)
            })?,
            _lock: lock,
        })
    }

    /// Finishes what is queued, takes the last snapshot, and ends the threads. Blocks.
    pub(crate) fn stop(self, shared: &Shared) {
        // When the channel closes the snapshotter takes the last snapshot, for which it needs the
        // writer.
        drop(self.snapshot_requests);
        self.groups.stop();
        self.watch.stop();
        if let Some(removals) = self.removals {
            removals.stop();
        }
        self.reclaim.stop();
        join(self.snapshots);
        // The snapshotter had the flusher's only request channel.
        shared.wake_flusher();
        join(self.flusher);
        self.merges.stop();
        if let Some(syncs) = self.syncs {
            syncs.stop();
        }
        // A writer that failed has ended already.
        drop(shared.writer.send(ToWriter::Stop));
        self.writing.into_iter().for_each(join);
    }
}

/// Starts the writer of a node or a follower, and the thread that reads for it.
fn start_node(
    shared: &Arc<Shared>,
    disk: &Arc<dyn Disk>,
    (core, Member { position, source, .. }): (Core, Member),
    inbox: mpsc::UnboundedReceiver<ToWriter>,
) -> Result<Vec<JoinHandle<()>>, OpenError> {
    let settings = NodeSettings {
        identity: shared.identity,
        address: match &source {
            ChangeSource::Log { options, .. } => Arc::clone(&options.address),
            ChangeSource::Primary { .. } => "".into(),
        },
        distance_max: shared.options.distance_max.get(),
    };
    let touches = Arc::clone(&shared.touches);
    let node = Node::open(core, position, settings, touches, 0);
    let (told, news) = mpsc::channel(log_thread::NEWS_MAX);
    let (inputs, disk) = ((inbox, news), Arc::clone(disk));
    let writer = NodeWriter::new(node, Arc::clone(shared), inputs, (disk, &source));
    let reader = LogThread { shared: Arc::clone(shared), source, news: told };
    let reader = spawn(shared, "log", move || reader.run())?;
    let thread = reader.thread().clone();
    Ok(vec![spawn(shared, "writer", move || writer.run(thread))?, reader])
}
