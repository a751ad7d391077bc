//! Several nodes with one content: one of them decides the writes, and its changes reach all
//! through a replicated [log](crate::log) that exists already.
//!
//! ```text
//!   message   the bytes in the log: records as in the journal, chained by digests
//!   chain     which messages count, who leads, and when to send, to repeat and to take over (pure)
//!   node      the core of a node: decides, journals what counts, answers (no threads, no log)
//!   position  the file that says how far a node has read
//!   seeding   filling the directory of a node from another node
//! ```
//!
//! Each message names the digest of the one that it was decided after, and counts only if that is
//! the last one that counted. All nodes read one order, so all of them count the same messages, and
//! each was decided on exactly the state after the one before it, whoever led: together they are
//! one sequential run of the machine. The log is trusted for its order only; it may lose, repeat
//! and reorder what is sent. No clock takes part in what counts.
//!
//! The core of a node is tested as a whole, three of them on simulated disks over a simulated log,
//! by `simulation/cluster`. The rule alone is tested without the engine (`tests`). Both draw
//! crashes, pauses and partitions, and must catch mutants.

pub mod chain;
pub(crate) mod log_thread;
pub mod member;
pub mod message;
pub(crate) mod mutant;
pub(crate) mod node;
pub mod offline;
pub mod position;
pub mod seeding;
mod touched;
pub(crate) mod writer;

#[cfg(test)]
mod tests;
