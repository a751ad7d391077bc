//! What a follower asks its primary for, on threads that may block.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use nearprint_client::{EXPORT_BEGINS, Peer, PeerError};
use nearprint_engine::following::{FollowerPosition, follower};

use super::{FollowError, FollowOptions};

/// The changes of the primary after a position, as a stream that does not end.
pub(super) fn changes(
    options: &FollowOptions,
    position: &FollowerPosition,
    silence_max: Duration,
) -> Result<impl Read + use<>, PeerError> {
    let path = match position.record {
        None => format!("/v1/changes?after={}", position.sequence),
        Some(record) => format!("/v1/changes?after={}&record={record:016x}", position.sequence),
    };
    open(options, silence_max)?.get(&path)
}

/// Fills a directory from the export of the primary. Blocks for as long as that takes.
///
/// # Errors
/// [`FollowError`].
pub(crate) fn seed(options: &FollowOptions, data: &Path) -> Result<(), FollowError> {
    let primary = open(options, EXPORT_BEGINS)?;
    tracing::info!(primary = options.url, directory = %data.display(), "copying the primary");
    let copied = follower::seed(&mut primary.export()?, data, &options.url)?;
    tracing::info!(files = copied.files, bytes = copied.bytes, "copied the primary");
    Ok(())
}

fn open(options: &FollowOptions, silence_max: Duration) -> Result<Peer, PeerError> {
    let files = (options.token_file.as_deref(), options.ca_file.as_deref());
    Peer::new(&options.url, files, silence_max)
}
