//! Why the server does not start, or stops by itself.

use std::net::SocketAddr;

use nearprint_client::RemoteError;
use nearprint_engine::OpenError;

use super::tls::TlsError;
use crate::access::AccessError;
use crate::replicas::SeedError;

/// Why the server does not start, or stops by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime cannot be built.
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The tokens cannot be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The certificate cannot be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file with the certificates of other services cannot be used.
    #[error("the certificates of other services: {0}")]
    Remote(#[from] RemoteError),
    /// The directory of a copy cannot be filled.
    #[error("cannot fill the data directory from another service: {0}")]
    Seed(#[from] SeedError),
    /// The operator would not wait for the end of the stop.
    #[error(
        "a second signal ended the stop before it was done; everything acknowledged is on disk, and \
         the next start recovers it"
    )]
    SignalledTwice,
    /// A write, a sync or a thread of the engine failed. Everything acknowledged is on disk, and a
    /// restart recovers it.
    #[error("storage or the engine failed, so the service stopped; the log says why")]
    StorageFailed,
}
