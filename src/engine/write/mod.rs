//! The write path: one thread decides commands, journals their changes and publishes the result.
//!
//! [`writer`] is the thread and its queue; [`core`] decides a group and makes it durable, without a thread or a
//! clock, so that the simulation can crash it at every point.

pub mod core;
pub(crate) mod writer;
