//! A disk in memory that forgets what was not synced.
//!
//! For each file and for the directory it stores a durable image and the operations since the last
//! sync. [`SimulatedDisk::crash`] simulates a power cut: a seed decides which of those operations
//! of a file are kept, lost or torn; of the directory's operations it keeps a prefix. The same seed
//! gives the same disk. [`SimulatedDisk::kill`] simulates the death of the process: nothing is lost
//! and nothing becomes durable. [`Faults`] makes operations fail, cuts the power at the N-th of
//! them, lets a write go astray, limits the capacity, and contains the two mutants that a test
//! harness must catch.
//!
//! After a failed sync, the data can still be read but never becomes durable. Linux behaves like
//! this, which is why the service never retries a sync.

#![allow(clippy::indexing_slicing, reason = "its bytes are those of tests")]
#![allow(missing_docs, reason = "its users are the simulations")]

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

mod contents;
mod dice;

pub use dice::Dice;

use contents::{Change, Contents, CrashMode, SECTOR_BYTES};

/// The free space of a disk without a limit.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// The operations that change the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Create,
    Rename,
    Remove,
    SyncDirectory,
    Write,
    Sync,
    Truncate,
    Reserve,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// EIO. A write leaves a part of its bytes; a sync loses some of the unsynced data.
    Io,
    /// ENOSPC. A write leaves a part of its bytes.
    Full,
    /// EMFILE. The process may not open more files.
    OutOfFiles,
}

/// Where a write goes that the disk acknowledges and does not do: reads see it until a power cut,
/// as from the cache of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stray {
    /// Nowhere.
    Nowhere,
    /// To another sector of its file.
    OtherSector,
    /// To another file, at the same offset.
    OtherFile,
}

/// What fails from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The N-th operation of a kind fails (from 1, counted since the faults were set).
    pub fail: Vec<(Operation, u64, Failure)>,
    /// Decides what a failed sync loses, and where a write goes astray to.
    pub seed: u64,
    /// The power is cut in the N-th operation of any kind (from 1); all later ones fail.
    pub crash_at_operation: Option<u64>,
    /// The largest size of all files together.
    pub capacity_bytes: Option<u64>,
    /// How many record files there may be.
    pub record_files_max: Option<u64>,
    /// Reads of files whose names begin so fail with EIO.
    pub unreadable: Option<&'static str>,
    /// The N-th write (from 1, counted since the faults were set) goes astray.
    pub stray: Option<(u64, Stray)>,
    /// A mutant: `sync_data` succeeds and does nothing.
    pub lying_sync: bool,
    /// A mutant: `sync_directory` succeeds and does nothing.
    pub lying_directory_sync: bool,
}

/// The simulated disk; a cloneable handle.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    files: BTreeMap<u64, Contents>,
    next_file: u64,
    reads_in_memory: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// The operations on the directory since its last sync.
    unsynced: Vec<NameChange>,
    faults: Faults,
    counts: BTreeMap<Operation, u64>,
    power_is_off: bool,
}

#[derive(Clone)]
enum NameChange {
    Put(String, u64),
    Rename(String, String),
    Remove(String),
}

impl SimulatedDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what fails from now on, and resets the counts of operations.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        state.faults = faults;
        state.counts.clear();
    }

    /// How many operations were tried since the faults were set, without reads.
    pub fn operations(&self) -> u64 {
        self.state().counts.values().sum()
    }

    /// The disk after a power cut: `seed` decides which unsynced operations are kept, lost or torn.
    /// All handles on this disk fail from now on; the new one has the same capacity and mutants.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut state = self.state();
        state.power_is_off = true;
        let mut dice = Dice::new(seed);
        let mode = CrashMode::roll(&mut dice);
        let kept = mode.kept(state.unsynced.len(), &mut dice);
        let mut names = state.durable_names.clone();
        for change in &state.unsynced[..kept] {
            change.apply(&mut names);
        }
        let mut after = state.survivor();
        for (number, contents) in &state.files {
            if names.values().any(|named| named == number) {
                let bytes = contents.after_power_cut(mode, &mut dice);
                after.files.insert(
                    *number,
                    Contents { durable: bytes.clone(), bytes, ..Contents::default() },
                );
            }
        }
        after.names.clone_from(&names);
        after.durable_names = names;
        Self::from_state(after)
    }

    /// The disk after the process died: everything written is there, but still unsynced. All
    /// handles on this disk fail from now on.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        state.power_is_off = true;
        let after = State {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            unsynced: state.unsynced.clone(),
            ..state.survivor()
        };
        Self::from_state(after)
    }

    /// Whether the write that was to go astray has gone.
    pub fn has_strayed(&self) -> bool {
        let state = self.state();
        let writes = state.counts.get(&Operation::Write).copied().unwrap_or_default();
        state.faults.stray.is_some_and(|(at, _)| writes >= at)
    }

    /// An independent disk with the same bytes, all of them durable.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = self.state();
        let mut after = state.survivor();
        after.files = state.files.clone();
        for contents in after.files.values_mut() {
            contents.settle();
        }
        after.names.clone_from(&state.names);
        after.durable_names.clone_from(&state.names);
        Self::from_state(after)
    }

    /// An independent disk with only what is durable now, which every power cut leaves.
    #[must_use]
    pub fn durable(&self) -> Self {
        let state = self.state();
        let mut after = state.survivor();
        after.files = state.files.clone();
        for contents in after.files.values_mut() {
            contents.forget_unsynced();
        }
        after.names.clone_from(&state.durable_names);
        after.durable_names.clone_from(&state.durable_names);
        Self::from_state(after)
    }

    /// Changes the bytes of a file durably, as bit rot or an operator would. Creates the file if it
    /// does not exist.
    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let number = match state.names.get(name) {
            Some(number) => *number,
            None => state.put(name),
        };
        state.durable_names.insert(name.to_owned(), number);
        let contents = state.files.entry(number).or_default();
        edit(&mut contents.bytes);
        contents.settle();
    }

    fn from_state(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, name: &str, number: u64) -> Box<dyn DiskFile> {
        Box::new(SimulatedFile { disk: self.clone(), name: name.to_owned(), number })
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk").finish_non_exhaustive()
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        let mut state = self.state();
        state.begin(Operation::Create, name)?;
        if state.names.contains_key(name) {
            return Err(failed("create", name, io::ErrorKind::AlreadyExists.into()));
        }
        let number = state.put(name);
        state.unsynced.push(NameChange::Put(name.to_owned(), number));
        state.finish(name)?;
        Ok(self.handle(name, number))
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        let state = self.state();
        state.check_power(name)?;
        Ok(self.handle(name, state.number("open", name)?))
    }

    fn list(&self) -> Result<Vec<String>, StorageError> {
        let state = self.state();
        state.check_power("")?;
        Ok(state.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError> {
        let mut state = self.state();
        state.begin(Operation::Rename, from)?;
        state.number("rename", from)?;
        state.change_names(NameChange::Rename(from.to_owned(), to.to_owned()));
        state.finish(from)
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        let mut state = self.state();
        state.begin(Operation::Remove, name)?;
        state.number("remove", name)?;
        state.change_names(NameChange::Remove(name.to_owned()));
        state.finish(name)
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        let mut state = self.state();
        state.begin(Operation::SyncDirectory, "")?;
        state.finish("")?;
        if !state.faults.lying_directory_sync {
            state.durable_names = state.names.clone();
            state.unsynced.clear();
        }
        Ok(())
    }

    fn record_files_max(&self) -> u64 {
        self.state().faults.record_files_max.unwrap_or(u64::MAX)
    }

    fn free_bytes(&self) -> Result<u64, StorageError> {
        Ok(self.state().free_bytes())
    }
}

impl State {
    /// An empty disk with the capacity and the mutants of this one.
    fn survivor(&self) -> Self {
        Self {
            next_file: self.next_file,
            faults: Faults {
                fail: Vec::new(),
                crash_at_operation: None,
                stray: None,
                ..self.faults.clone()
            },
            ..Self::default()
        }
    }

    fn put(&mut self, name: &str) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        self.files.insert(number, Contents::default());
        self.names.insert(name.to_owned(), number);
        number
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }

    fn number(&self, operation: &'static str, name: &str) -> Result<u64, StorageError> {
        let number = self.names.get(name).copied();
        number.ok_or_else(|| failed(operation, name, io::ErrorKind::NotFound.into()))
    }

    fn check_power(&self, name: &str) -> Result<(), StorageError> {
        if self.power_is_off {
            return Err(failed("reach", name, io::Error::other("the power is off")));
        }
        Ok(())
    }

    /// Counts the operation, and fails it if that is planned.
    fn begin(&mut self, operation: Operation, name: &str) -> Result<(), StorageError> {
        self.check_power(name)?;
        let count = self.counts.entry(operation).or_default();
        *count += 1;
        let planned = self.faults.fail.iter();
        for (failing, nth, failure) in planned {
            if (*failing, *nth) == (operation, *count) {
                let error = match failure {
                    Failure::Io => io::ErrorKind::Other.into(),
                    Failure::Full => io::ErrorKind::StorageFull.into(),
                    Failure::OutOfFiles => Errno::MFILE.into(),
                };
                return Err(failed("simulate", name, error));
            }
        }
        Ok(())
    }

    /// Cuts the power in the operation that was just done, if that is planned.
    fn finish(&mut self, name: &str) -> Result<(), StorageError> {
        let tried: u64 = self.counts.values().sum();
        self.power_is_off = self.faults.crash_at_operation.is_some_and(|at| tried >= at);
        self.check_power(name)
    }

    /// Does what the disk does with a write that goes astray, of which the caches know nothing.
    fn stray(&mut self, stray: Stray, number: u64, offset: usize, bytes: &[u8]) {
        let mut dice = Dice::new(self.faults.seed);
        let others: Vec<u64> =
            self.names.values().copied().filter(|other| *other != number).collect();
        let (number, offset) = match stray {
            Stray::OtherFile if !others.is_empty() => (others[dice.below(others.len())], offset),
            Stray::OtherSector => {
                let sectors = self.files[&number].bytes.len() / SECTOR_BYTES + 2;
                (number, dice.below(sectors) * SECTOR_BYTES + offset % SECTOR_BYTES)
            }
            Stray::Nowhere | Stray::OtherFile => return,
        };
        let contents = self.files.get_mut(&number).expect("it has a name");
        Change::Write(offset, bytes.to_vec()).apply(&mut contents.durable);
    }

    fn free_bytes(&self) -> u64 {
        let Some(capacity) = self.faults.capacity_bytes else {
            return UNLIMITED_BYTES;
        };
        let used: u64 = self
            .names
            .values()
            .filter_map(|number| self.files.get(number))
            .map(Contents::occupied)
            .sum();
        capacity.saturating_sub(used)
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Put(name, number) => {
                names.insert(name.clone(), *number);
            }
            Self::Rename(from, to) => {
                if let Some(number) = names.remove(from) {
                    names.insert(to.clone(), number);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    name: String,
    number: u64,
}

impl SimulatedFile {
    /// The state, after the operation was counted.
    fn begin(&self, operation: Operation) -> Result<MutexGuard<'_, State>, StorageError> {
        let mut state = self.disk.state();
        state.begin(operation, &self.name)?;
        Ok(state)
    }

    fn contents<'s>(&self, state: &'s mut State) -> &'s mut Contents {
        state.files.entry(self.number).or_default()
    }

    fn full(&self) -> StorageError {
        failed("write", &self.name, io::ErrorKind::StorageFull.into())
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let mut state = self.disk.state();
        let begun = state.begin(Operation::Write, &self.name);
        let free = state.free_bytes();
        let contents = self.contents(&mut state);
        let offset = offset as usize;
        let space = contents.occupied().saturating_add(free) as usize;
        let fits = bytes.len().min(space.saturating_sub(offset));
        let written = match &begun {
            Ok(()) => fits,
            // Without power no write begins; any other failed one leaves a part.
            Err(_) if state.power_is_off => return begun,
            Err(_) => fits / 2,
        };
        let change = Change::Write(offset, bytes[..written].to_vec());
        let writes = state.counts.get(&Operation::Write).copied();
        match state.faults.stray {
            Some((at, stray)) if Some(at) == writes => {
                change.apply(&mut self.contents(&mut state).bytes);
                state.stray(stray, self.number, offset, &bytes[..written]);
            }
            Some(_) | None => self.contents(&mut state).change(change),
        }
        begun?;
        state.finish(&self.name)?;
        if written < bytes.len() {
            return Err(self.full());
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let mut state = self.disk.state();
        state.check_power(&self.name)?;
        if state.faults.unreadable.is_some_and(|prefix| self.name.starts_with(prefix)) {
            let source = io::Error::from_raw_os_error(5);
            return Err(StorageError::Io {
                operation: "read",
                path: PathBuf::from(&self.name),
                source,
            });
        }
        let bytes = &self.contents(&mut state).bytes;
        let start = (offset as usize).min(bytes.len());
        let read = buffer.len().min(bytes.len() - start);
        buffer[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }

    /// Every other read has to wait for the disk.
    fn read_in_memory(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        let mut state = self.disk.state();
        state.reads_in_memory += 1;
        let is_there = state.reads_in_memory.is_multiple_of(2);
        drop(state);
        is_there.then(|| self.read_at(offset, buffer).ok()).flatten()
    }

    fn sync_data(&self) -> Result<(), StorageError> {
        let mut state = self.disk.state();
        if let Err(error) = state.begin(Operation::Sync, &self.name) {
            let mut dice = Dice::new(state.faults.seed);
            let contents = self.contents(&mut state);
            for change in std::mem::take(&mut contents.unsynced) {
                if dice.below(2) == 0 {
                    change.apply(&mut contents.durable);
                }
            }
            return Err(error);
        }
        state.finish(&self.name)?;
        if !state.faults.lying_sync {
            self.contents(&mut state).settle_unsynced();
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<(), StorageError> {
        let mut state = self.begin(Operation::Truncate)?;
        let contents = self.contents(&mut state);
        contents.reserved = 0;
        contents.change(Change::Truncate(bytes as usize));
        state.finish(&self.name)
    }

    fn len(&self) -> Result<u64, StorageError> {
        let mut state = self.disk.state();
        state.check_power(&self.name)?;
        Ok(self.contents(&mut state).bytes.len() as u64)
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), StorageError> {
        let mut state = self.begin(Operation::Reserve)?;
        let free = state.free_bytes();
        let contents = self.contents(&mut state);
        let end = offset.saturating_add(bytes);
        if end.saturating_sub(contents.occupied()) > free {
            return Err(self.full());
        }
        contents.reserved = contents.reserved.max(end);
        state.finish(&self.name)
    }
}

fn failed(operation: &'static str, name: &str, source: io::Error) -> StorageError {
    StorageError::Io { operation, path: PathBuf::from(name), source }
}
