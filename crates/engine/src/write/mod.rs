//! The write path: one thread decides commands, journals their changes and publishes the result.
//!
//! [`command`] decides each kind of command; [`core`] journals its change and makes it durable,
//! without a thread or a clock, so that the simulation can crash it at every point; [`queued`]
//! pairs commands with their callers; [`waiting`] has those that wait; [`writer`] is the thread.

pub(crate) mod command;
pub(crate) mod core;
pub(crate) mod enact;
pub(crate) mod queued;
pub(crate) mod waiting;
pub(crate) mod writer;
