//! The parts of `nearprint import`, which `commands/files/import.rs` puts together.

pub(super) mod changes;
pub(super) mod groups;
pub(super) mod interrupt;
pub(super) mod options;
pub(super) mod progress;
pub(super) mod sink;
pub(super) mod state;
pub(super) mod summary;
