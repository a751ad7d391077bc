//! The machine: decides what a command does, as a pure function of the changes before it.
//!
//! ```text
//!   reader    Search::begin, verify                  the matches of a document, as of a sequence
//!   writer    Search::update                         adds what changed since
//!             Machine::insert, check_and_insert ...  decides and enacts -> reply, change
//!   recovery  Machine::enact(change)                 enacts what was decided before
//! ```
//!
//! Time comes with the commands ([`Machine::set_time`](decide::Machine::set_time)), also backwards:
//! the order of changes is that of their sequences, not that of their times.
//!
//! It knows no file, socket, clock, thread or random number. The sketches of stored documents come
//! from a function of the caller, because they are in the journal. A verdict does not depend on the
//! age of the search that it rests on.
//!
//! Tested against [`model`], which keeps everything in a list.
#![allow(missing_docs, reason = "what is public for the engine, and said by its name")]
#![deny(clippy::iter_over_hash_type, clippy::float_arithmetic, reason = "replicas must agree")]

pub mod change;
pub mod commands;
pub mod decide;
pub mod document;
pub mod jobs;
pub mod model;
pub mod query;
pub mod search;

#[cfg(test)]
mod tests;
