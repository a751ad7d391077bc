//! Other services over HTTP, for threads that may block.

pub(crate) mod peer;
pub(crate) mod remote;
