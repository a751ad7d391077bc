//! The write path: deciding commands and journaling their changes, as the one thread that writes
//! does it ([`threads::writer`](crate::threads::writer)).
//!
//! [`command`] decides each kind of command; [`core`] journals its change and makes it durable,
//! without a thread or a clock, so that the simulation can crash it at every point; [`queued`]
//! pairs commands with their callers; [`outbox`] sends several at a time; [`waiting`] has those
//! that wait.

pub(crate) mod command;
pub(crate) mod core;
pub(crate) mod outbox;
pub(crate) mod queued;
pub(crate) mod waiting;
