//! A service that is a copy of another one fills its data directory before it starts: a follower
//! from its primary, a node of a cluster from another node.
//!
//! [`nearprint_client::Peer`] speaks to the other service; `follow` and `cluster` say what is asked
//! of it.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::time::Duration;

use nearprint_engine::cluster::seeding;
use nearprint_engine::following::follower;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::cluster::{self, ClusterOptions, SeedError};
use crate::follow::{self, FollowOptions};
use crate::server::{ServeError, Settings};

/// How long it waits before it tries once more.
const AGAIN: Duration = Duration::from_secs(5);

/// Where the content of a directory comes from, and the directory.
#[derive(Debug, Clone)]
pub(crate) enum FillSource {
    Primary(FollowOptions, PathBuf),
    Nodes(ClusterOptions, PathBuf),
}

impl FillSource {
    /// `None` for a service that begins with nothing.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let data = settings.engine.data.clone();
        if let Some(cluster) = &settings.cluster {
            return Some(Self::Nodes(cluster.clone(), data));
        }
        settings.follow.as_ref().map(|follow| Self::Primary(follow.clone(), data))
    }

    /// Whether the directory has nothing yet.
    ///
    /// # Errors
    /// [`ServeError::Open`]: it has something else.
    pub(crate) fn is_needed(&self) -> Result<bool, ServeError> {
        Ok(match self {
            Self::Primary(_, data) => follower::needs_seed(data)?,
            Self::Nodes(_, data) => seeding::needs_seed(data)?,
        })
    }

    /// Fills the directory. A service that has served before tries until it succeeds; a new one
    /// says at once what is wrong, unless it is that no node has started yet.
    ///
    /// # Errors
    /// [`ServeError::Follow`], [`ServeError::Seed`].
    pub(crate) async fn fill(&self, has_served: bool) -> Result<(), ServeError> {
        loop {
            let source = self.clone();
            let copying = spawn_blocking(move || source.copy()).await;
            match copying.unwrap_or_else(|fault| resume_unwind(fault.into_panic())) {
                Err(error) if has_served && has_source(&error) || may_pass(&error) => {
                    tracing::warn!(%error, "the data directory is not filled; retrying");
                    sleep(AGAIN).await;
                }
                filled => return filled,
            }
        }
    }

    fn copy(&self) -> Result<(), ServeError> {
        match self {
            Self::Primary(options, data) => Ok(follow::seed(options, data)?),
            Self::Nodes(options, data) => Ok(cluster::seed(options, data)?),
        }
    }
}

const fn has_source(error: &ServeError) -> bool {
    !matches!(error, ServeError::Seed(SeedError::NoSeeds))
}

fn may_pass(error: &ServeError) -> bool {
    matches!(error, ServeError::Seed(error) if error.may_pass())
}
