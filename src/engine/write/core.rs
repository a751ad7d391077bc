//! The core: decides a group of commands, journals what they changed, makes it durable.
//!
//! Synchronous, without threads, clock or channels: the writer thread drives it in service, the
//! simulation tests drive it directly. The order is fixed: room on the disk is asked for first
//! (a full disk refuses the group and changes nothing), then commands are decided one by one, then
//! their records are written and synced together. When a write or sync fails, the state in memory
//! is ahead of the disk and the core must not be used again.

use crate::document::Sequence;
use crate::engine::error::Refused;
use crate::engine::options::Durability;
use crate::engine::published::Published;
use crate::engine::read::reader;
use crate::engine::read::reader::Ids;
use crate::index::compaction::built::Built;
use crate::index::view::View;
use crate::machine::apply::{Applied, Command, Machine, Outcome, PackedSearch};
use crate::machine::change::Record;
use crate::machine::search::{Probe, Search};
use crate::storage::{Journal, Reclaimer, Records, StorageError};

/// The state and its journal.
#[derive(Debug)]
pub struct Core {
    machine: Machine,
    journal: Journal,
    records: Records,
    durability: Durability,
    payload: Vec<u8>,
}

/// A decided command.
#[derive(Debug)]
pub struct Decided {
    /// What it did.
    pub outcome: Outcome,
    /// The last change after it.
    pub sequence: Sequence,
    /// The state that a check-and-insert was decided in: what its hits are shown from.
    pub before: Option<Published>,
}

impl Core {
    /// Continues from a recovered state; the journal ends where the machine stands.
    pub fn new(machine: Machine, journal: Journal, durability: Durability) -> Self {
        assert_eq!(
            machine.view().sequence().next().get(),
            journal.next_sequence(),
            "the journal continues the state"
        );
        let records = journal.records();
        let payload = Vec::new();
        Self { machine, journal, records, durability, payload }
    }

    /// The state, changes not yet durable included.
    pub fn view(&self) -> &View {
        self.machine.view()
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Gives back the space of records.
    pub fn reclaimer(&self) -> Reclaimer {
        self.journal.reclaimer()
    }

    /// The readers of the journal.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Decides a group in order. Each command is answered; none may be told its answer before
    /// [`Self::make_durable`] has succeeded.
    ///
    /// # Errors
    /// [`StorageError`]: the core must not be used again. A full disk is no error: the group is
    /// refused and nothing changed.
    pub fn decide_group(
        &mut self,
        group: &mut [Command],
        at_ms: u64,
    ) -> Result<Vec<Result<Decided, Refused>>, StorageError> {
        let bytes = group.iter().map(Command::payload_bytes_max).sum();
        match self.journal.reserve(group.len() as u64, bytes) {
            Err(error) if error.is_full() => {
                return Ok(group.iter().map(|_| Err(Refused::DiskFull)).collect());
            }
            reserved => reserved?,
        }
        // The records of the group will be in the file that is the last one now.
        let pinned = self.records.pin();
        let mut answers = Vec::with_capacity(group.len());
        for command in group {
            answers.push(self.decide(command, &pinned, at_ms)?);
        }
        Ok(answers)
    }

    /// Makes what was decided as durable as the policy promises.
    ///
    /// # Errors
    /// [`StorageError`]: a write or sync failed, and the core must not be used again.
    pub fn make_durable(&mut self) -> Result<(), StorageError> {
        match self.durability {
            Durability::Always => self.sync(),
            Durability::Interval { .. } | Durability::None => self.journal.flush(),
        }
    }

    /// Makes everything written durable.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub fn sync(&mut self) -> Result<(), StorageError> {
        self.journal.sync().map(drop)
    }

    /// Notes in the journal that everything is durable; for a moment without work.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub fn seal(&mut self) -> Result<(), StorageError> {
        self.journal.seal()
    }

    /// Closes the delta, with everything durable, so that a snapshot can cover the state.
    ///
    /// # Errors
    /// As [`Self::make_durable`].
    pub fn freeze(&mut self) -> Result<View, StorageError> {
        self.journal.cut()?;
        self.machine.view_mut().rotate();
        Ok(self.view().clone())
    }

    /// Takes in what was built from parts of the view.
    pub fn install(&mut self, built: &Built) {
        self.machine.view_mut().install(built);
    }

    fn decide(
        &mut self,
        command: &mut Command,
        pinned: &Records,
        at_ms: u64,
    ) -> Result<Result<Decided, Refused>, StorageError> {
        let before = matches!(command, Command::CheckAndInsert { .. })
            .then(|| Published { view: self.view().clone(), records: pinned.clone() });
        let applied = if let Ok(applied) = self.machine.apply(command) {
            applied
        } else {
            if let Err(refused) = self.search_again(command) {
                return Ok(Err(refused));
            }
            self.machine.apply(command).expect("a search of the newest state is not stale")
        };
        let Applied { outcome, change, sequence } = applied;
        if let Some(change) = change {
            let count = change.count();
            self.payload.clear();
            Record { at_ms, change }.encode(&mut self.payload);
            let first = self.journal.append(&self.payload, count)?;
            assert_eq!(
                first + u64::from(count) - 1,
                sequence.get(),
                "state and journal count the same changes"
            );
        }
        Ok(Ok(Decided { outcome, sequence, before }))
    }

    /// A search that waited so long that memory cannot bring it up to date is run again here.
    fn search_again(&self, command: &mut Command) -> Result<(), Refused> {
        match command {
            Command::CheckAndInsert { document, criteria, search, .. } => {
                let key = document.id.as_ref().map(|id| self.machine.key(id));
                let probe = Probe { document, key, criteria: *criteria };
                *search = Search::begin(self.view(), &probe);
                reader::verify(self.view(), &self.records, &probe, search, &mut Ids::default())
            }
            Command::CheckAndInsertPacked { fingerprints, distance, search } => {
                let nearest = reader::nearest(self.view(), fingerprints, *distance);
                let since = self.view().sequence();
                *search = PackedSearch { since, nearest };
                Ok(())
            }
            Command::Insert { .. }
            | Command::InsertPacked { .. }
            | Command::Remove { .. }
            | Command::Reset { .. } => unreachable!("these rest on no search"),
        }
    }
}
