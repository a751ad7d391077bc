//! nearprint finds near-duplicate documents, exactly and fast: as a networked service, or embedded.
//!
//! Send it the text of a page or a fingerprint, and it tells you whether it has already stored nearly
//! the same. It is not a full-text search and not a cluster, and it keeps no text.
//!
//! # An engine on a directory
//!
//! An [`Engine`](engine::Engine) journals every change and recovers after a crash. With
//! [`Durability::Always`](engine::Durability::Always), a write is acknowledged only once it is on disk.
//!
//! ```
//! use nearprint::document::Document;
//! use nearprint::engine::{Admission, Criteria, Engine, Options, QueryOptions};
//! use nearprint_fingerprint::{Distance, Fingerprint};
//! use nearprint_text::Recipe;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let engine = Engine::open(Options::new(directory.path(), Recipe::Np2))?;
//! let document = Document::bare(Fingerprint::new(0b1011));
//! engine.begin_insert(document, Admission::Wait).await?.wait().await?;
//!
//! let distance = Distance::new(3).expect("at most 64");
//! let query = Document::bare(Fingerprint::new(0));
//! let criteria = Criteria::within(distance);
//! let options = QueryOptions { criteria, limit: 10, with_metadata: false };
//! let found = engine.query(&query, options).await?;
//! assert!(found.duplicate);
//! engine.close();
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The service itself, its benchmarks and its tests use further modules of the crate, which are not
//! part of its interface. `ARCHITECTURE.md` lists them in reading order.

pub mod document;
pub mod engine;

mod atomic_file;
mod lines;

// The program, its benchmarks and its tests use these. They are not part of the crate's interface and
// change without notice.
#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod allocator;
#[doc(hidden)]
pub mod bulk;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod dedup;
#[doc(hidden)]
pub mod http;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod server;
#[doc(hidden)]
pub mod storage;
#[doc(hidden)]
pub mod telemetry;
