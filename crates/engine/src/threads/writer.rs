//! The writer: the one thread that decides, journals, publishes and acknowledges.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nearprint_index::compaction::policy::FULL_DELTAS_MAX;
use nearprint_storage::StorageError;
use tokio::sync::mpsc;

use crate::api::clock;
use crate::api::error::Refused;
use crate::shared::{Life, Shared, ToWriter};
use crate::write::command::Bounds;
use crate::write::core::Core;
use crate::write::queued::{QueuedWrite, decide_group};
use crate::write::waiting::WaitingWrites;

/// A group is closed once its writes have taken this long to decide, so that one write of another
/// client does not wait for many that take long.
const DECIDED_FOR: Duration = Duration::from_millis(2);

/// The state of the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    core: Core,
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<ToWriter>,
    waiting: WaitingWrites,
    stopping: bool,
}

impl Writer {
    pub(crate) fn new(
        core: Core,
        shared: Arc<Shared>,
        inbox: mpsc::UnboundedReceiver<ToWriter>,
    ) -> Self {
        Self { core, shared, inbox, waiting: WaitingWrites::default(), stopping: false }
    }

    /// Runs until [`ToWriter::Stop`], or until storage or another thread fails.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.serve() {
            self.shared.fail_by(&error);
        }
        self.inbox.close();
        let refused = self.shared.end_refusal();
        while let Ok(message) = self.inbox.try_recv() {
            self.waiting.extend(message.into_writes());
        }
        refuse(self.waiting.take_all(), &refused);
    }

    fn serve(&mut self) -> Result<(), StorageError> {
        loop {
            self.take_all()?;
            if self.shared.life() == Life::Failed {
                return Ok(());
            }
            // Once the engine is stopping the flusher may have ended, so the writer does not wait
            // for it.
            let full_deltas = self.core.view().full_deltas().len();
            let blocked = full_deltas >= FULL_DELTAS_MAX && !self.stopping;
            if !self.waiting.is_empty() && !blocked {
                self.commit_group()?;
                continue;
            }
            if self.stopping && self.waiting.is_empty() {
                self.core.sync()?;
                return self.core.seal();
            }
            self.core.seal()?;
            match self.inbox.blocking_recv() {
                Some(message) => self.take(message)?,
                None => self.stopping = true,
            }
        }
    }

    /// Takes what has arrived, and what other threads send while this one lets them run.
    ///
    /// A message wakes this thread, which would preempt the sender on a busy core, and sync the
    /// disk for one write after the other. On an idle machine it costs less than a microsecond.
    fn take_all(&mut self) -> Result<(), StorageError> {
        loop {
            let before = self.waiting.len();
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message)?;
            }
            let waiting = self.waiting.len();
            if waiting == before || waiting >= self.shared.options.group_changes_max {
                return Ok(());
            }
            thread::yield_now();
        }
    }

    fn take(&mut self, message: ToWriter) -> Result<(), StorageError> {
        match message {
            ToWriter::Write(write) => self.waiting.push_back(write),
            ToWriter::WriteAll(writes) => self.waiting.extend(writes),
            // Whoever sent one of these may have stopped waiting, because the engine is closing.
            ToWriter::Install { built, installed } => {
                self.core.install(&built);
                self.publish();
                drop(installed.send(self.core.view().clone()));
            }
            ToWriter::Freeze { frozen } => {
                let view = self.core.freeze()?;
                self.publish();
                drop(frozen.send(view));
            }
            ToWriter::Sync { synced } => {
                let state = self.core.settle()?;
                // Lets go of the files that packs have replaced.
                self.publish();
                drop(synced.send(state));
            }
            // `serve` checks for a failure next. A lone engine has no log.
            ToWriter::Fail | ToWriter::Log | ToWriter::Halt(_) => {}
            ToWriter::Stop => self.stopping = true,
        }
        Ok(())
    }

    /// Decides what waits, at most a group and [`DECIDED_FOR`], and acknowledges it once it is
    /// durable.
    fn commit_group(&mut self) -> Result<(), StorageError> {
        let (mut changes, changes_max) = (0, self.shared.options.group_changes_max);
        let mut group = next_group(&self.shared, &mut self.waiting, |bounds| {
            let has_room = changes < changes_max;
            changes += bounds.changes;
            has_room
        });
        match self.decide_durably(&mut group) {
            Ok(Ok(decided)) => {
                self.waiting.put_back(group.split_off(decided));
                self.publish();
                for write in group {
                    write.acknowledge();
                }
                Ok(())
            }
            Ok(Err(refused)) => {
                refuse_additions(group, &refused, &mut self.waiting);
                Ok(())
            }
            Err(error) => {
                self.shared.enter(Life::Failed);
                refuse(group, &Refused::Failed);
                Err(error)
            }
        }
    }

    fn decide_durably(
        &mut self,
        group: &mut [Box<dyn QueuedWrite>],
    ) -> Result<Result<usize, Refused>, StorageError> {
        let before = self.core.view().sequence();
        let clock_ms = clock::now_ms();
        if clock_ms < self.core.machine().now_ms() {
            self.shared.times_set_back.fetch_add(1, Ordering::Release);
        }
        let free_bytes_min = self.shared.disk.needed.load(Ordering::Relaxed);
        let limits = (clock_ms, free_bytes_min);
        let decided = match decide_group(&mut self.core, group, limits, &mut time_to_decide())? {
            Ok(decided) => decided,
            Err(refused) => return Ok(Err(refused)),
        };
        let begun = clock::now();
        self.core.make_durable()?;
        // Duplicates and retries change nothing, and are not counted as changes.
        let changes = self.core.view().sequence().get() - before.get();
        if changes > 0 {
            self.shared.observer.journal_synced(begun.elapsed());
            self.shared.observer.group_committed(changes);
        }
        Ok(Ok(decided))
    }

    fn publish(&self) {
        self.shared.publish(self.core.published());
    }
}

/// Tells whether a group that begins now has time for another write.
pub(crate) fn time_to_decide() -> impl FnMut() -> bool {
    let begun = clock::now();
    move || begun.elapsed() < DECIDED_FOR
}

/// Takes a group from the queue, as long as it has room, and refuses what cannot be taken now.
pub(crate) fn next_group(
    shared: &Shared,
    waiting: &mut WaitingWrites,
    mut has_room: impl FnMut(&Bounds) -> bool,
) -> Vec<Box<dyn QueuedWrite>> {
    let mut group = Vec::new();
    while let Some(write) = waiting.pop_front_if(|write| has_room(&write.bounds())) {
        match shared.refusal(write.bounds()) {
            // What was queued before the stop is still done.
            None | Some(Refused::Stopping) => group.push(write),
            Some(refused) => write.refuse(refused),
        }
    }
    group
}

/// Refuses a group for which the disk has no space, except for what removes documents, which frees
/// space and takes little: that goes back to the queue.
pub(crate) fn refuse_additions(
    group: Vec<Box<dyn QueuedWrite>>,
    refused: &Refused,
    waiting: &mut WaitingWrites,
) {
    let (adds, others): (Vec<_>, Vec<_>) = group.into_iter().partition(|write| write.bounds().adds);
    if adds.is_empty() {
        refuse(others, refused);
    } else {
        refuse(adds, refused);
        waiting.put_back(others);
    }
}

pub(crate) fn refuse(writes: impl IntoIterator<Item = Box<dyn QueuedWrite>>, refused: &Refused) {
    for write in writes {
        write.refuse(refused.clone());
    }
}
