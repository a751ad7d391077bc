//! A node's directory without a service: how a cluster begins, and how a node leaves it.

use std::path::Path;
use std::sync::Arc;

use nearprint_storage::{DirectoryLock, Disk, ReadingDisk, RealDisk};

use crate::api::error::OpenError;
use crate::api::options::Options;
use crate::api::random;
use crate::directories::recovery::{Recovered, recover};
use crate::directory_file::DirectoryFile;
use crate::replication::chain::Position;
use crate::replication::message::{Digest, LeaderId, Message, SenderRole};
use crate::replication::position::{self, ClusterFile};

/// What a directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryContent {
    /// Its last change.
    pub sequence: u64,
    /// Its documents.
    pub documents: u64,
}

/// Whether a directory is that of a node.
///
/// # Errors
/// [`OpenError::Storage`].
pub fn is_node(path: &Path) -> Result<bool, OpenError> {
    Ok(ClusterFile::is_there(&ReadingDisk::open(path)?)?)
}

/// Where the node in a directory is in its log; `None` if it is not that of a node.
///
/// # Errors
/// [`OpenError`].
pub fn read(path: &Path) -> Result<Option<ClusterFile>, OpenError> {
    let disk = ReadingDisk::open(path)?;
    if !ClusterFile::is_there(&disk)? {
        return Ok(None);
    }
    let directory = DirectoryFile::read(&disk)?.ok_or(OpenError::NoDirectoryFile)?;
    Ok(ClusterFile::read(&disk, &directory.identity)?)
}

/// Makes a directory, which is created if it is missing, the first node of a cluster with an empty
/// log of this identity.
///
/// # Errors
/// [`OpenError`]; [`OpenError::NodeOfCluster`] if it is a node already.
pub fn found(options: &Options, log: u64) -> Result<DirectoryContent, OpenError> {
    let (disk, _lock) = open(options)?;
    let Recovered { core, snapshots, .. } = recover(&disk, options, &random::bytes()?)?;
    ClusterFile::new(log, core.next_in_journal()).write(&disk, snapshots.identity())?;
    let view = core.view();
    Ok(DirectoryContent { sequence: view.sequence().get(), documents: view.documents() })
}

/// Makes a node the one at which an empty log of this identity continues: `append` has to append an
/// entry to it, its first one. Nodes with the same content go on with that log; others are filled
/// from one of them.
///
/// # Errors
/// [`OpenError`]; [`OpenError::NotANode`]; what `append` returns.
pub fn refound<E: From<OpenError>>(
    options: &Options,
    log: u64,
    append: impl FnOnce(Arc<[u8]>) -> Result<(), E>,
) -> Result<DirectoryContent, E> {
    let options = Options { is_node: true, ..options.clone() };
    let (disk, _lock) = open(&options)?;
    let Recovered { core, snapshots, .. } = recover(&disk, &options, &random::bytes()?)?;
    let identity = snapshots.identity();
    let read = ClusterFile::read(&*disk, &identity).map_err(OpenError::from)?;
    let ClusterFile { position, .. } = read.ok_or(OpenError::NotANode)?;
    let next = core.next_in_journal();
    // After a crash the journal may be further. Then no other node can be known to have the same.
    let digest = if position.next == next {
        position.changed
    } else {
        Digest(u128::from_le_bytes(random::bytes()?))
    };
    let at_ms = core.machine().now_ms();
    let view = core.view();
    let message = Message {
        role: SenderRole::Resign,
        prev: digest,
        leader: LeaderId(u64::from_le_bytes(random::bytes()?)),
        first: next,
        at_ms,
        documents: view.documents(),
        distance_max: options.distance_max.get(),
        records: Vec::new(),
        touches: Vec::new(),
    };
    append(message.encode(&identity).0.into())?;
    let position = Position { at: 0, digest, at_ms, changed: digest, next, leader: None };
    ClusterFile { log, position }.write(&disk, identity).map_err(OpenError::from)?;
    Ok(DirectoryContent { sequence: view.sequence().get(), documents: view.documents() })
}

/// Makes a node's directory one that starts alone.
///
/// # Errors
/// [`OpenError::NotANode`]; those of the disk.
pub fn leave(path: &Path) -> Result<(), OpenError> {
    let disk = RealDisk::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    if !ClusterFile::is_there(&disk)? {
        return Err(OpenError::NotANode);
    }
    disk.remove(position::NAME)?;
    Ok(disk.sync_directory()?)
}

fn open(options: &Options) -> Result<(Arc<dyn Disk>, DirectoryLock), OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&options.data)?);
    let lock = DirectoryLock::acquire(&options.data)?;
    Ok((disk, lock))
}
