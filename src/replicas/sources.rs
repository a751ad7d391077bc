//! What the engine of a copy reads.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use nearprint_client::PeerError;
use nearprint_engine::following::{ChangesError, FollowerPosition, OpenChanges};
use nearprint_engine::log::Log;
use nearprint_engine::replica::OpenLog;
use nearprint_wire::code::Code;
use tokio::runtime::Handle;

use super::nats::{NatsLog, NatsOptions};
use super::options::Peers;

/// How long a primary may take to answer.
const ANSWERS: Duration = Duration::from_secs(5);
/// A read of changes that finds nothing for this time says so.
const READ_WAIT: Duration = Duration::from_millis(50);

/// Opens a log on NATS for a thread of the engine.
#[derive(Debug)]
pub(super) struct NatsOpening {
    options: NatsOptions,
    /// Its threads work on the connection.
    runtime: Handle,
}

impl NatsOpening {
    pub(super) const fn new(options: NatsOptions, runtime: Handle) -> Self {
        Self { options, runtime }
    }
}

impl OpenLog for NatsOpening {
    /// Reads the files of the options each time, so that they can be replaced.
    fn open(&self) -> Result<Arc<dyn Log>, String> {
        match NatsLog::open(&self.options, &self.runtime) {
            Ok(log) => Ok(Arc::new(log)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Asks a primary for its changes.
#[derive(Debug)]
pub(super) struct PrimaryChanges {
    pub(super) url: String,
    pub(super) peers: Peers,
}

impl OpenChanges for PrimaryChanges {
    /// Reads the token each time, so that it can be replaced.
    fn open(&self, after: &FollowerPosition) -> Result<Box<dyn Read + Send>, ChangesError> {
        let path = match after.record {
            None => format!("/v1/changes?after={}", after.sequence),
            Some(record) => format!("/v1/changes?after={}&record={record:016x}", after.sequence),
        };
        let reply = self.peers.open(&self.url, ANSWERS).and_then(|peer| peer.get(&path));
        let mut changes = reply.map_err(|error| refusal(&error))?;
        changes.set_silence_max(READ_WAIT);
        Ok(Box::new(changes))
    }
}

fn refusal(error: &PeerError) -> ChangesError {
    let why = error.to_string();
    match error {
        PeerError::Refused { code: Some(Code::ChangesPacked), .. } => ChangesError::Packed(why),
        PeerError::Refused { code: Some(Code::Diverged), .. } => ChangesError::Diverged(why),
        PeerError::Refused { .. } | PeerError::Credentials(_) | PeerError::Unreachable { .. } => {
            ChangesError::Unreachable(why)
        }
    }
}
