//! nearprint: a networked service that finds near-duplicate documents.
//!
//! Send it the text of a page or a fingerprint, and it tells you whether it has already stored nearly
//! the same. It is not a full-text search and not a cluster, and it keeps no text.
//!
//! The modules in reading order:
//!
//! ```text
//!   values    fingerprint, sketch, document, recipe; access: tokens and their scopes
//!   floor 1   kernel     SIMD: lines compared, text hashed
//!             text       text -> features -> fingerprint, HTML, charsets
//!             index      exact look-ups within a Hamming distance: tables, segments, deltas
//!   floor 2   machine    commands decided as a pure function of the changes before them
//!             storage    journal and sealed files: checksummed bytes by sequence
//!   floor 3   engine     one writer, many readers, group commit, recovery, snapshots
//!   floor 4   http       the API of proto-free-api.md; server: sockets and shutdown
//!             cli, bulk  the command line, and the readers of files
//!   others    config, metrics, telemetry, allocator
//! ```
//!
//! Imports go down only; `tests/tidy` checks the table of allowed imports against the code. The path of
//! a write and of a read, step by step, is in `ARCHITECTURE.md`.

pub mod access;
pub mod allocator;
pub mod bulk;
pub mod cli;
pub mod config;
pub mod document;
pub mod engine;
pub mod fingerprint;
pub mod http;
pub mod index;
pub mod kernel;
pub mod machine;
pub mod metrics;
pub mod recipe;
pub mod server;
pub mod sketch;
pub mod storage;
pub mod telemetry;
pub mod text;
