//! The log of a running node.

use std::sync::Arc;

use nearprint_engine::cluster::member::OpenLog;
use nearprint_engine::log::Log;
use tokio::runtime::Handle;

use super::nats::{NatsLog, NatsOptions};

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
