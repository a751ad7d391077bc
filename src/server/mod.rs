//! The life of the process as a server: from the first socket to the exit code.
//!
//! [`serve`] is what `nearprint serve` calls. [`run`] takes a listener and a future that decides
//! when to stop, so that tests run the real server on port 0. `lifecycle` has every step of both.
//! The accept loop is our own, because `axum::serve` never closes a connection that sends its
//! request too slowly.

mod accept;
mod credentials;
mod descriptors;
mod error;
mod lifecycle;
mod options;
mod permits;
mod phase;
mod request_body;
#[cfg(test)]
mod tests;
mod timeouts;
mod tls;

pub use error::ServeError;
pub use lifecycle::{Ended, check, open_engine, prepare, run, serve};
pub use options::{ServerOptions, Settings};
pub use tls::{TlsError, TlsSource};
