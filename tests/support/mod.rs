//! What the tests of the service share: a real server, random numbers, pages that cost much.

pub(crate) mod hostile;
pub(crate) mod random;
pub(crate) mod server;
