//! The syncer: the thread that has the journal synced at the end of each window (policy
//! `interval`).
//!
//! It is a thread of its own, so that a long snapshot or merge never makes a window longer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::shared::{Shared, ToWriter};

/// Requests a sync at the end of each window, until `stop` closes or the writer ends.
pub(crate) fn run(shared: &Arc<Shared>, window: Duration, stop: &Receiver<()>) {
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(window) {
        if shared.send_and_wait(|synced| ToWriter::Sync { synced }).is_none() {
            return;
        }
    }
}
