//! What all clients share: the queue of long texts, bytes in memory, and places.

pub(crate) mod analyses;
pub mod budget;
pub mod shares;
