//! What callers of the engine pass in and get back: its settings, the options and replies of each
//! operation, its errors, and what it reports of its work.
//!
//! It also has what all rooms take from the system: the time, random numbers, and threads for work
//! that blocks.

pub(crate) mod blocking;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod observer;
pub(crate) mod options;
pub(crate) mod random;
pub(crate) mod replies;
