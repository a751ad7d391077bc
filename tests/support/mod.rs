//! What the tests of the service share: a real server, waits, random numbers, pages that cost much.

pub(crate) mod hostile;
pub(crate) mod random;
pub(crate) mod server;
pub(crate) mod wait;
