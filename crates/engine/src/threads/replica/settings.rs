//! Looks at the settings of the log from time to time: what a node asked of it when it began may be
//! changed by somebody later.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::api::clock;
use crate::directories::member::ChangeSource;
use crate::replication::log::required::{Required, Unfit};
use crate::replication::log::{Log, LogError, LogSettings};

/// How often.
const EVERY: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_mins(1) };

/// A look at the settings, now and again.
pub(super) struct SettingsLook {
    log: Arc<dyn Log>,
    required: Option<Required>,
    looked_at: Instant,
    under_way: Option<Receiver<Result<Suitability, LogError>>>,
}

/// What a look has shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Suitability {
    Suitable,
    /// Why the log may lose what it is given, or does not take it.
    Unsuitable(String),
}

impl SettingsLook {
    pub(super) fn new(log: Arc<dyn Log>, source: &ChangeSource) -> Self {
        let required = match source {
            ChangeSource::Log { options, .. } => Some(options.required),
            ChangeSource::Primary { .. } => None,
        };
        Self { log, required, looked_at: clock::now(), under_way: None }
    }

    /// What a look has shown that is over; begins one if it is time. Never waits.
    pub(super) fn result(&mut self) -> Option<Suitability> {
        let required = self.required?;
        if let Some(answer) = &self.under_way {
            let answer = answer.try_recv();
            if answer == Err(TryRecvError::Empty) {
                return None;
            }
            (self.under_way, self.looked_at) = (None, clock::now());
            return match answer {
                Ok(Ok(shown)) => Some(shown),
                Ok(Err(LogError::Refused(why))) => Some(Suitability::Unsuitable(why)),
                // Readers tell that.
                Ok(Err(_)) | Err(_) => None,
            };
        }
        if self.looked_at.elapsed() >= EVERY {
            let (log, (sender, answer)) = (Arc::clone(&self.log), sync_channel(1));
            let look = move || {
                let unsuitable = |why: Unfit| Suitability::Unsuitable(why.to_string());
                let shown = |is: LogSettings| {
                    required.check(&is).map_or_else(unsuitable, |()| Suitability::Suitable)
                };
                drop(sender.send(log.settings().map(shown)));
            };
            let named = thread::Builder::new().name("log-settings".to_owned());
            // Without a thread it is tried again.
            self.looked_at = clock::now();
            self.under_way = named.spawn(look).is_ok().then_some(answer);
        }
        None
    }
}
