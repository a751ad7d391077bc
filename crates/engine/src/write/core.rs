//! The core: decides a group of commands, journals their changes, makes them durable.
//!
//! Synchronous, without threads, clock or channels: the writer thread drives it in service, the
//! simulation tests drive it directly. The order is fixed: first it reserves space on the disk (a
//! full disk refuses the group and changes nothing), then it decides the commands one by one, then
//! it writes and syncs their records together. If a write or sync fails, the state in memory is
//! ahead of the disk, and the core must not be used again.

use std::sync::Arc;

use nearprint_index::compaction::built::Built;
use nearprint_index::memory::file::catch_unreadable;
use nearprint_index::view::View;
use nearprint_machine::change::Record;
use nearprint_machine::commands::Applied;
use nearprint_machine::decide::Machine;
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::Jobs;
use nearprint_storage::{Journal, Reclaimer, RecordRef, Records, StorageError, StoredRecord};

use crate::api::error::{Refused, storage_error};
use crate::api::options::Durability;
use crate::state::published::Published;
use crate::state::survey::Survey;
use crate::write::command::Command;

/// The state and its journal.
#[derive(Debug)]
pub(crate) struct Core {
    machine: Machine,
    journal: Journal,
    records: Records,
    durability: Durability,
    payload: Vec<u8>,
    kept: Option<Kept>,
}

/// Records that are decided and not journaled, because they may not count.
#[derive(Debug, Default)]
struct Kept {
    /// Those that nobody has taken yet.
    records: Vec<StoredRecord>,
    /// The number of all of them and the bytes of their payloads, for which the disk keeps space.
    size: (u64, u64),
}

/// What the commands of a group share.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    /// The records of the state before each of them.
    records: Records,
    /// What the clock said when the group began, in milliseconds since 1970.
    clock_ms: u64,
}

/// A state that no crash takes back.
#[derive(Debug, Clone)]
pub(crate) struct Durable {
    /// The index.
    pub(crate) view: View,
    pub(crate) jobs: Arc<Jobs>,
}

impl Core {
    /// Continues from a recovered state, at which the journal ends.
    pub(crate) fn new(machine: Machine, journal: Journal, durability: Durability) -> Self {
        assert_eq!(
            machine.view().sequence().next().get(),
            journal.next_sequence(),
            "the journal ends at the state"
        );
        let records = journal.records();
        Self { machine, journal, records, durability, payload: Vec::new(), kept: None }
    }

    /// From now on the records of what is decided are kept and not journaled.
    pub(crate) fn keep_records(&mut self) {
        self.kept = Some(Kept::default());
    }

    /// Forgets what was decided and kept, and goes on from the state before it.
    pub(crate) fn roll_back(&mut self, before: &Durable) {
        self.go_back_to(before);
        self.kept = Some(Kept::default());
    }

    fn go_back_to(&mut self, before: &Durable) {
        let secret = self.machine.id_secret();
        self.machine = Machine::new(before.view.fork(), Arc::clone(&before.jobs), secret);
    }

    /// The records that were decided and kept since the last call.
    pub(crate) fn take_kept(&mut self) -> Vec<StoredRecord> {
        self.kept.as_mut().map(|kept| std::mem::take(&mut kept.records)).unwrap_or_default()
    }

    /// The state, including changes that are not durable yet.
    pub(crate) fn view(&self) -> &View {
        self.machine.view()
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// A handle that reclaims the space of records.
    pub(crate) fn reclaimer(&self) -> Reclaimer {
        self.journal.reclaimer()
    }

    /// What is known of the garbage in the journal, by the snapshot that was loaded.
    pub(crate) fn survey(&self, known: Option<Survey>) -> Survey {
        let changes = self.records.extent().changes;
        known.unwrap_or_else(|| Survey::of_no_file(self.view(), changes))
    }

    /// The state with its records, for readers.
    pub(crate) fn published(&self) -> Published {
        Published::new(&self.machine, self.records.pin())
    }

    /// The readers of the journal.
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// Begins a group at this time: reserves space on the disk for this many commands, before any
    /// is decided, and leaves `free_bytes_min` bytes free.
    ///
    /// # Errors
    /// [`StorageError`]. If the disk [is full](StorageError::is_full), nothing changed; after any
    /// other error the core must not be used again.
    pub(crate) fn begin_group(
        &mut self,
        (commands, payload_bytes): (u64, u64),
        free_bytes_min: u64,
        clock_ms: u64,
    ) -> Result<CommandGroup, StorageError> {
        let (kept, kept_bytes) = self.kept.as_ref().map_or((0, 0), |kept| kept.size);
        self.journal.reserve(commands + kept, payload_bytes + kept_bytes, free_bytes_min)?;
        // The records of the group go to the file that is the last one now.
        Ok(CommandGroup { records: self.records.pin(), clock_ms })
    }

    /// Decides the next command of a group, which was accepted at this time. Its caller must not
    /// learn of it before [`Self::make_durable`] has succeeded.
    ///
    /// Commands that waited for different times are decided in the order of the queue, so time is
    /// held for one that was accepted before the last one. It is never held beyond the clock: when
    /// the clock has been set back, so is the time.
    ///
    /// # Errors
    /// [`StorageError`]: the core must not be used again.
    pub(crate) fn decide<C: Command>(
        &mut self,
        command: C,
        at_ms: u64,
        group: &CommandGroup,
    ) -> Result<Result<C::Reply, Refused>, StorageError> {
        let at_ms = at_ms.max(self.machine.now_ms()).min(group.clock_ms);
        self.machine.set_time(at_ms);
        let before = self.machine.view().is_in_files().then(|| self.state());
        let decided = catch_unreadable(|| command.decide(&mut self.machine, &group.records));
        let Applied { reply, change, sequence } = match decided {
            Ok(Ok(applied)) => applied,
            Ok(Err(refused)) => return Ok(Err(refused)),
            Err(error) => {
                let error = storage_error(error);
                let Some(before) = before else { return Err(error) };
                tracing::error!(%error, "a file of the index could not be read");
                if self.machine.view().sequence() != before.view.sequence() {
                    // Some of a batch is enacted and in no journal.
                    self.go_back_to(&before);
                    self.machine.set_time(at_ms);
                }
                return Ok(Err(Refused::UnreadableIndex));
            }
        };
        if let Some(change) = change {
            self.append(&Record { at_ms, change }, sequence)?;
        }
        Ok(Ok(reply))
    }

    /// Appends the record of a change; `sequence` is the last one after it.
    fn append(&mut self, record: &Record, sequence: Sequence) -> Result<(), StorageError> {
        let count = record.change.count();
        self.payload.clear();
        record.encode(&mut self.payload);
        if let Some(kept) = &mut self.kept {
            let (first, payload) = (sequence.get() + 1 - u64::from(count), self.payload.clone());
            kept.size = (kept.size.0 + 1, kept.size.1 + payload.len() as u64);
            kept.records.push(StoredRecord { first, count, payload });
            return Ok(());
        }
        let first = self.journal.append(&self.payload, count)?;
        assert_eq!(
            first + u64::from(count) - 1,
            sequence.get(),
            "state and journal count the same changes"
        );
        Ok(())
    }

    /// Enacts a record that another has decided, the next one, and appends it as it is.
    ///
    /// # Errors
    /// As [`Self::append_decided`].
    pub(crate) fn enact(
        &mut self,
        record: &Record,
        stored: RecordRef<'_>,
    ) -> Result<(), StorageError> {
        self.machine.replay(record);
        self.append_decided(stored)
    }

    /// Appends a record that is decided and enacted, as it is.
    ///
    /// # Errors
    /// [`StorageError`]: the core must not be used again.
    ///
    /// # Panics
    /// If it is not the next one.
    pub(crate) fn append_decided(&mut self, stored: RecordRef<'_>) -> Result<(), StorageError> {
        let first = self.journal.append(stored.payload, stored.count)?;
        assert_eq!(first, stored.first, "records are enacted in their order");
        if let Some(Kept { size: (records, bytes), .. }) = &mut self.kept {
            *records = records.saturating_sub(1);
            *bytes = bytes.saturating_sub(stored.payload.len() as u64);
        }
        Ok(())
    }

    /// The sequence of the next change in the journal.
    pub(crate) fn next_in_journal(&self) -> u64 {
        self.journal.next_sequence()
    }

    /// Sets the time of what is decided next, in milliseconds since 1970.
    pub(crate) fn set_time(&mut self, at_ms: u64) {
        self.machine.set_time(at_ms);
    }

    /// Makes what was decided as durable as the policy promises.
    ///
    /// # Errors
    /// [`StorageError`]: a write or sync failed, and the core must not be used again.
    pub(crate) fn make_durable(&mut self) -> Result<(), StorageError> {
        match self.durability {
            Durability::Always => self.sync(),
            Durability::Interval { .. } | Durability::None => self.journal.flush(),
        }
    }

    /// Syncs the journal, whatever the policy.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub(crate) fn sync(&mut self) -> Result<(), StorageError> {
        self.journal.sync().map(drop)
    }

    /// Syncs everything, then writes and syncs a seal that records it. A sweep decides from this
    /// state what to remove, so the disk must not lose the state unnoticed.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub(crate) fn settle(&mut self) -> Result<Durable, StorageError> {
        self.journal.sync_sealed()?;
        Ok(self.state())
    }

    /// Marks in the journal that everything is durable. For a moment without work.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub(crate) fn seal(&mut self) -> Result<(), StorageError> {
        self.journal.seal()
    }

    /// Closes the delta and makes everything durable, so that a snapshot can contain the state.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub(crate) fn freeze(&mut self) -> Result<Durable, StorageError> {
        self.journal.cut()?;
        self.machine.view_mut().rotate();
        Ok(self.state())
    }

    /// The state without its records. It is durable once everything is synced.
    pub(crate) fn state(&self) -> Durable {
        Durable { view: self.view().clone(), jobs: Arc::clone(self.machine.jobs()) }
    }

    /// Installs what was built from parts of the view.
    pub(crate) fn install(&mut self, built: &Built) {
        self.machine.view_mut().install(built);
    }
}
