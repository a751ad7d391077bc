//! nearprint finds near-duplicate documents, exactly and fast: as a networked service, or embedded.
//!
//! Send it the text of a page or a fingerprint, and it tells you whether it has already stored
//! nearly the same. It is not a full-text search and keeps no text.
//!
//! The service itself, its benchmarks and its tests use further modules of the crate, which are not
//! part of its interface. `ARCHITECTURE.md` lists them in reading order.

mod lines;
mod memory;
mod model;
mod process;

// The program, its benchmarks and its tests use these. They are not part of the crate's interface
// and change without notice.
#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod allocator;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod http;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod replicas;
#[doc(hidden)]
pub mod server;
#[doc(hidden)]
pub mod telemetry;
