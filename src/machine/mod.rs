//! The machine: decides what a command does, as a pure function of the changes before it.
//!
//! ```text
//!   reader   search(view, probe)            matches, verified, as of some sequence
//!   writer   Machine::apply(command)        checks what is newer, decides, enacts -> outcome, change
//!   recovery Machine::replay(change)        enacts again what was decided once
//! ```
//!
//! It knows no file, socket, clock, thread or random number. Sketches of stored documents come
//! through a function that the caller passes in: they are part of earlier commands, wherever those
//! are kept. A verdict is the same whether the search ran long before the writer's turn or in it.
//!
//! Tested against [`model`], which keeps everything in a list.
#![deny(clippy::iter_over_hash_type, clippy::float_arithmetic, reason = "replicas must agree")]

pub mod apply;
pub mod change;
pub mod commands;
pub mod model;
pub mod query;
pub mod search;

#[cfg(test)]
mod tests;
