//! The exit codes of all commands. 0 is success.

/// The command failed, or did only a part of its work.
pub(crate) const FAILED: u8 = 1;
/// The arguments are invalid.
pub(crate) const USAGE: u8 = 2;
/// The inputs have nothing to work on.
pub(crate) const NOTHING_READ: u8 = 3;
/// A signal ended the command, as shells count it: 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
