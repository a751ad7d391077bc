//! Follows a primary: seeds the data directory from its export, and then enacts its changes.
//!
//! [`primary`] asks the primary; [`thread`] is the thread that follows; [`state`] is what the rest
//! of the service sees of it. The engine verifies and enacts ([`nearprint_engine::following`]).

mod primary;
mod state;
mod thread;

use std::path::PathBuf;

use nearprint_engine::OpenError;

use nearprint_client::PeerError;
use nearprint_client::RemoteError;
pub(crate) use primary::seed;
pub(crate) use state::{FollowState, Following};
pub(crate) use thread::FollowThread;

/// Why a primary cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The primary does not answer, or refuses.
    #[error(transparent)]
    Primary(#[from] PeerError),
    /// A file of certificates cannot be used.
    #[error(transparent)]
    Credentials(#[from] RemoteError),
    /// The copy cannot be stored.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The operating system refuses a thread.
    #[error("no thread that follows: {0}")]
    Thread(std::io::Error),
}

/// Whom to follow, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOptions {
    /// The address of the primary, such as `http://10.0.0.1:7878`, without a `/` at its end.
    pub url: String,
    /// A file with the token to send to the primary, and nothing else.
    pub token_file: Option<PathBuf>,
    /// The certificates to trust instead of those of public authorities.
    pub ca_file: Option<PathBuf>,
    /// Whether requests that write are passed on to the primary; otherwise they are refused.
    pub forward: bool,
}
