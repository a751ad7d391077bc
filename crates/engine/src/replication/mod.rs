//! How several nodes come to one content: one of them decides the writes, and its changes reach all
//! through a replicated [log] that exists already.
//!
//! ```text
//!   log       the log, as a trait
//!   message   the bytes in the log: records as in the journal, chained by digests
//!   chain     which messages count, who leads, and when to send, to repeat and to take over (pure)
//!   position  the file that says how far a node has read
//!   clocks    which of three clocks is wrong: the own, the leader's or the log's
//!   rejoin    where a node reads on whose position the log has discarded
//!   primary_reader  the changes of a primary as the log of a follower
//! ```
//!
//! The core of a node and its threads are in [`crate::threads::replica`], its data directory in
//! [`crate::directories`].
//!
//! Each message names the digest of the one that it was decided after, and counts only if that is
//! the last one that counted. All nodes read one order, so all of them count the same messages, and
//! each was decided on exactly the state after the one before it, whoever led: together they are
//! one sequential run of the machine. The log is trusted for its order only; it may lose, repeat
//! and reorder what is sent. No clock takes part in what counts.
//!
//! The core of a node is tested as a whole, three of them and a follower on simulated disks over a
//! simulated log, by `simulation/cluster`, which draws crashes, pauses and partitions, and must
//! catch mutants.

#[doc(hidden)]
pub mod chain;
pub(crate) mod clocks;
pub mod log;
pub mod message;
pub(crate) mod mutant;
pub mod position;
pub(crate) mod primary_reader;
pub(crate) mod rejoin;
