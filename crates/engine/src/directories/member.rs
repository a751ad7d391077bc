//! Where a node or a follower begins to read.

use std::sync::Arc;

use nearprint_storage::{Disk, Identity};

use crate::api::error::OpenError;
use crate::replication::chain::{Leader, Position};
use crate::replication::message::{Digest, LeaderId};
use crate::replication::position::ClusterFile;
use crate::replication::primary_reader::{FollowerPosition, OpenChanges};
use crate::state::replica::{Membership, NodeOptions, ReplicaOptions};
use crate::write::core::Core;

/// A node or a follower that is about to start.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) options: ReplicaOptions,
    /// Where it begins to read.
    pub(crate) position: Position,
    pub(crate) source: ChangeSource,
}

/// What a node or a follower reads.
#[derive(Debug, Clone)]
pub(crate) enum ChangeSource {
    /// The log of a cluster, from the position in the file on.
    Log { options: NodeOptions, file: ClusterFile },
    /// The changes of a primary after a position.
    Primary { changes: Arc<dyn OpenChanges>, after: FollowerPosition },
}

impl Member {
    /// Finds out where the directory is in the log, which is not beyond its journal. A follower is
    /// where its journal ends.
    ///
    /// # Errors
    /// [`OpenError::NotANode`], [`OpenError::BehindItsPosition`], those of the disk.
    pub(crate) fn open(
        options: ReplicaOptions,
        disk: &dyn Disk,
        identity: Identity,
        core: &Core,
    ) -> Result<Self, OpenError> {
        let next = core.next_in_journal();
        let (position, source) = match &options {
            ReplicaOptions::Node(options) => {
                let file = ClusterFile::read(disk, &identity)?.ok_or(OpenError::NotANode)?;
                let position = file.position.clone();
                if next < position.next {
                    let (journal, position) = (next - 1, position.next - 1);
                    return Err(OpenError::BehindItsPosition { journal, position });
                }
                (position, ChangeSource::Log { options: options.clone(), file })
            }
            ReplicaOptions::Follower(options) => {
                let after = FollowerPosition::at(core.view().sequence(), core.records())?;
                let address = Arc::clone(&options.primary);
                let position = Position {
                    at: 0,
                    digest: Digest(0),
                    at_ms: core.machine().now_ms(),
                    changed: Digest(0),
                    next,
                    leader: Some(Leader { id: LeaderId::PRIMARY, address }),
                };
                let changes = Arc::clone(&options.changes);
                (position, ChangeSource::Primary { changes, after })
            }
        };
        Ok(Self { options, position, source })
    }

    pub(crate) fn membership(&self) -> Membership {
        Membership::new(self.options.clone(), &self.position)
    }
}
