//! nearprint: a networked near-duplicate lookup service.
//!
//! Send it the text of a page or a fingerprint; it tells whether nearly the same was there before.
//! It is not a full-text search, not a cluster, and keeps no text.
//!
//! The map, in reading order:
//!
//! ```text
//!   values    fingerprint, sketch, document, recipe; access: tokens and their scopes
//!   floor 1   kernel     SIMD: lines compared, text hashed
//!             pages      memory that goes back part by part; here and in the kernel alone is `unsafe`
//!             text       text -> features -> fingerprint, HTML, charsets
//!             index      exact look-ups within a Hamming distance: tables, segments, deltas
//!   floor 2   machine    commands decided as a pure function of the changes before them
//!             storage    journal and sealed files: checksummed bytes under sequences
//!   floor 3   engine     one writer, many readers, group commit, recovery, snapshots
//!   floor 4   http       the contract of proto-free-api.md; server: sockets and shutdown
//!             cli, bulk  the command line, and the readers of files
//!   beside    config, metrics, telemetry
//! ```
//!
//! No arrow points up; `tests/tidy.rs` holds the table of allowed imports against the code. The way
//! of a write and of a read, step by step, is in `ARCHITECTURE.md`.

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
