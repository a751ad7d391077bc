//! Recovery: from a data directory to the state that it contains.
//!
//! Loads the newest complete snapshot, then replays every journal record after it, in order, each
//! verified first. Nothing is changed until everything is read; then the torn tail is cut off.
//! Damage refuses to start, and the error names file, offset and sequence.

use std::sync::Arc;

use nearprint_index::compaction::policy::Load;
use nearprint_index::memory::file::catch_unreadable;
use nearprint_index::memory::placed::Placement;
use nearprint_index::permutation::Permutation;
use nearprint_index::view::{Shape, View};
use nearprint_machine::change::Record;
use nearprint_machine::decide::Machine;
use nearprint_machine::document::Sequence;
use nearprint_storage::journal::writer;
use nearprint_storage::{Disk, Journal, Tail, scan, sealed};

use crate::api::clock;
use crate::api::error::{OpenError, storage_error};
use crate::api::options::Options;
use crate::directories::{follower, model, repair};
use crate::directory_file::{DirectoryFile, Entropy, RESTORE_MARKER};
use crate::replication::position::ClusterFile;
use crate::snapshot::files::MergeFiles;
use crate::snapshot::manifest::is_of_snapshot;
use crate::snapshot::snapshots::{Loaded, Snapshots};
use crate::write::core::Core;

#[derive(Debug)]
pub(crate) struct Recovered {
    pub core: Core,
    pub snapshots: Snapshots,
    /// The model of the recipe, if it needs one.
    pub model: Option<Arc<[u8]>>,
}

/// Opens the directory on a disk. If it is empty, creates it from `entropy`.
///
/// # Errors
/// [`OpenError`]; nothing was changed.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    options: &Options,
    entropy: &Entropy,
) -> Result<Recovered, OpenError> {
    check_role(&**disk, options)?;
    let directory = open_directory(disk, options, entropy)?;
    let model = model::open(&**disk, &directory, options)?;
    let memory_bytes_max = options.index_memory_bytes_max;
    let load = |bytes_max| Snapshots::load(Arc::clone(disk), directory, bytes_max);
    let replay = |loaded| {
        catch_unreadable(|| replay(disk, &directory, (loaded, options), &mut |_| ()))
            .map_err(storage_error)
    };
    let (mut snapshots, loaded) = load(memory_bytes_max)?;
    let (machine, tail) = match replay(loaded) {
        Ok(replayed) => replayed?,
        Err(error) => {
            tracing::warn!(%error, "a part in its file cannot be read: reading all of the snapshot");
            let (again, loaded) = load(0)?;
            snapshots = again;
            replay(loaded)??
        }
    };
    check_clock(machine.now_ms(), clock::now_ms(), options)?;
    sealed::remove_leftovers(&**disk)?;
    let journal =
        Journal::open(Arc::clone(disk), directory.identity, tail, options.journal_file_bytes)?;
    let core = Core::new(machine, journal, options.durability);
    Ok(Recovered { core, snapshots, model })
}

/// Refuses a directory that follows a primary where writes are to be taken, and the other way
/// round; and that of a node of a cluster where it is to start alone.
fn check_role(disk: &dyn Disk, options: &Options) -> Result<(), OpenError> {
    if !options.is_node && ClusterFile::is_there(disk)? {
        return Err(OpenError::NodeOfCluster);
    }
    match (follower::primary_of(disk)?, options.follows) {
        (Some(primary), false) => Err(OpenError::Follower { primary }),
        (None, true) => Err(OpenError::NotAFollower),
        (Some(_), true) | (None, false) => Ok(()),
    }
}

/// Refuses a clock that is far behind the newest change: one of the two is wrong, and only the
/// operator knows which.
fn check_clock(stored_ms: u64, clock_ms: u64, options: &Options) -> Result<(), OpenError> {
    let behind_ms = stored_ms.saturating_sub(clock_ms);
    match options.clock_behind_ms_max {
        Some(max_ms) if behind_ms > max_ms => {
            Err(OpenError::ClockBehind { stored_ms, clock_ms, max_ms })
        }
        _ => Ok(()),
    }
}

/// Replays the records after a snapshot, each verified first; `progress` receives the bytes of
/// each. Changes nothing on the disk.
///
/// # Errors
/// [`OpenError`].
pub(super) fn replay(
    disk: &Arc<dyn Disk>,
    directory: &DirectoryFile,
    (loaded, options): (Loaded, &Options),
    progress: &mut dyn FnMut(u64),
) -> Result<(Machine, Tail), OpenError> {
    let mut machine = restore(disk, directory, loaded, options);
    let snapshot = machine.view().sequence();
    let mut unreadable = None;
    let tail = scan(&**disk, &directory.identity, snapshot.get(), &mut |record| {
        progress(record.payload.len() as u64);
        if unreadable.is_some() || record.first <= machine.view().sequence().get() {
            return;
        }
        // Packs have gaps where records were dropped.
        machine.skip_to(Sequence::new(record.first));
        match Record::decode(record.payload) {
            Ok(read) => machine.replay(&read),
            Err(source) => {
                unreadable = Some(OpenError::Record { sequence: record.first, source });
            }
        }
        settle(machine.view_mut());
    })?;
    if tail.has_no_files() {
        return Err(OpenError::NoRecords);
    }
    if let Some(error) = unreadable {
        return Err(error);
    }
    machine.skip_to(Sequence::new(tail.last + 1));
    if tail.last < snapshot.get() {
        return Err(OpenError::JournalTooShort { journal: tail.last, snapshot: snapshot.get() });
    }
    if let Some(torn) = &tail.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            bytes = torn.bytes,
            "cutting a torn tail off the journal"
        );
    }
    let replayed = machine.view().sequence().get() - snapshot.get();
    let (recipe, distance_max) = (directory.identity.recipe(), directory.distance_max.get());
    tracing::info!(snapshot = snapshot.get(), replayed, recipe, distance_max, "recovered");
    Ok((machine, tail))
}

/// Turns full deltas into segments and merges segments, on this thread.
pub(crate) fn settle(view: &mut View) {
    while let Some(work) = view.next_flush() {
        view.complete(work);
        while let Some(work) = view.next_merge(Load::Writing) {
            view.complete(work);
        }
    }
}

fn open_directory(
    disk: &Arc<dyn Disk>,
    options: &Options,
    entropy: &Entropy,
) -> Result<DirectoryFile, OpenError> {
    let Some(directory) = DirectoryFile::read(&**disk)? else {
        let belongs_to_another = |name: &String| is_of_snapshot(name) || name == RESTORE_MARKER;
        if disk.list()?.iter().any(belongs_to_another) || !writer::is_unwritten(&**disk)? {
            return Err(OpenError::NoDirectoryFile);
        }
        let directory =
            DirectoryFile::draw(&options.recipe.to_string(), options.searches(), entropy);
        model::create(disk, &directory, options)?;
        Journal::create_first(&**disk, directory.identity)?;
        directory.write(disk)?;
        return Ok(directory);
    };
    if repair::is_unfinished(&**disk)? {
        return Err(OpenError::RepairUnfinished);
    }
    let created = directory.identity.recipe();
    if created != options.recipe.to_string() {
        return Err(OpenError::Recipe { created, configured: options.recipe });
    }
    if directory.distance_max != options.distance_max {
        return Err(OpenError::DistanceMax {
            created: directory.distance_max.get(),
            configured: options.distance_max.get(),
        });
    }
    if directory.has_labels != options.has_labels {
        let [created, configured] =
            [directory.has_labels, options.has_labels].map(OpenError::name_of_search);
        return Err(OpenError::Search { created, configured });
    }
    Ok(directory)
}

fn restore(
    disk: &Arc<dyn Disk>,
    directory: &DirectoryFile,
    loaded: Loaded,
    options: &Options,
) -> Machine {
    let shape = Shape {
        distance_max: directory.distance_max,
        delta_events: options.delta_events,
        small_max: options.small_segment_max,
        permutation: Arc::new(Permutation::from_secret(directory.permutation_secret)),
        has_labels: directory.has_labels,
    };
    let Loaded { parts, jobs, .. } = loaded;
    let files = MergeFiles::new(Arc::clone(disk), directory.identity);
    let placement = Placement::Files(Arc::new(files));
    let view =
        View::restored(shape, parts).with_placement(placement, options.index_memory_bytes_max);
    Machine::new(view, jobs, directory.id_secret)
}
