//! The life of the process as a server: from the first socket to the exit code.
//!
//! [`Process`] is what `nearprint serve` runs. [`run`] takes a listener and a future that decides
//! when to stop, so that tests run the real server on port 0. `lifecycle` has every step of both.
//! The accept loop is our own, because `axum::serve` never closes a connection that sends its
//! request too slowly.

mod accept;
mod connection;
mod credentials;
mod descriptors;
mod error;
pub(crate) mod filling;
mod lifecycle;
mod options;
mod start_message;
mod supervisor;
#[cfg(test)]
mod tests;
mod tls;

pub use error::ServeError;
pub use lifecycle::{Process, ServiceEnd, check, open_engine, run};
pub use options::{ServerOptions, Settings};
pub use tls::{TlsError, TlsSource};
