//! Near-duplicates of files: which records stay, and their copies, without a service.
//!
//! ```text
//!   scan        reads every document: fingerprint, sketch, and what the choice needs    first pass
//!   grouping    the groups of connected near-duplicates, from an index in memory: of all
//!               documents, or of one part after the other
//!   choice      which document of each group stays
//!   copy        reads every record again, and writes those that stay               second pass
//! ```
//!
//! The files are read twice because the record that stays may come after those that go, and because
//! texts need not fit in memory: a document takes [`scan::DOCUMENT_BYTES`] while groups are
//! searched, and its sketch lies in a temporary file. A document without a fingerprint (no letter
//! or number in it) stays.
//!
//! [`matching`] is the other way round: a set of queries is scanned and indexed, and the records of
//! files of any size are looked up in it, once and in constant memory.
//!
//! Everything is written under another name and renamed once it is whole and on the disk, so after
//! a crash there is the whole of it or none.
//!
//! Tested by `tests/commands/dedup` against the comparison of all pairs.

pub mod choice;
mod columns;
pub mod copy;
pub mod grouping;
pub mod layout;
pub mod matching;
pub mod output;
pub mod outputs;
pub mod report;
pub mod revisit;
pub mod scan;
mod spill;
pub mod tables;
