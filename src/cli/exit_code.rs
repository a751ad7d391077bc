//! The exit codes of all commands, besides 0 for success.

/// The command failed, or did only a part of its work.
pub(crate) const FAILED: u8 = 1;
/// The arguments are invalid.
pub(crate) const USAGE: u8 = 2;
/// What was looked up is not stored.
pub(crate) const NOT_FOUND: u8 = 1;
/// A look-up failed, so that nobody knows whether something is stored.
pub(crate) const LOOK_UP_FAILED: u8 = 2;
/// The inputs contain no document.
pub(crate) const NOTHING_READ: u8 = 3;
/// A node of a cluster has halted.
pub(crate) const NODE_HALTED: u8 = 3;
/// A node of a cluster does not answer.
pub(crate) const NODE_SILENT: u8 = 4;
/// A node of a cluster has a fault, and the cluster takes writes.
pub(crate) const NODE_FAULTY: u8 = 5;
/// Nodes of a cluster have other content.
pub(crate) const NODES_DIFFER: u8 = 3;
/// SIGINT ended the command; shells report 128 plus the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;
