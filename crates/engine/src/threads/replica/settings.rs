//! Looks at the settings of the log from time to time: what a node asked of it when it began may be
//! changed by somebody later.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::api::clock;
use crate::directories::member::ChangeSource;
use crate::replication::log::required::Required;
use crate::replication::log::{Log, LogError, LogSettings};
use crate::state::replica::LogHolding;

/// How often.
const EVERY: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_mins(1) };

/// A look at the settings, now and again.
pub(super) struct SettingsLook {
    log: Arc<dyn Log>,
    required: Option<Required>,
    /// `None` before the first look.
    looked_at: Option<Instant>,
    under_way: Option<Receiver<Result<LogShown, LogError>>>,
}

/// What a look has shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogShown {
    /// Why the log may lose what it is given, or does not take it.
    pub(crate) unsuitable: Option<String>,
    /// `None` if it tells nothing.
    pub(crate) holding: Option<LogHolding>,
}

impl SettingsLook {
    pub(super) fn new(log: Arc<dyn Log>, source: &ChangeSource) -> Self {
        let required = match source {
            ChangeSource::Log { options, .. } => Some(options.required),
            ChangeSource::Primary { .. } => None,
        };
        Self { log, required, looked_at: None, under_way: None }
    }

    /// What a look has shown that is over; begins one if it is time. Never waits.
    pub(super) fn result(&mut self) -> Option<LogShown> {
        let required = self.required?;
        if let Some(answer) = &self.under_way {
            let answer = answer.try_recv();
            if answer == Err(TryRecvError::Empty) {
                return None;
            }
            self.under_way = None;
            return match answer {
                Ok(Ok(shown)) => Some(shown),
                Ok(Err(LogError::Refused(why))) => {
                    Some(LogShown { unsuitable: Some(why), holding: None })
                }
                // Readers tell that.
                Ok(Err(_)) | Err(_) => None,
            };
        }
        if self.looked_at.is_none_or(|at| at.elapsed() >= EVERY) {
            let (log, (sender, answer)) = (Arc::clone(&self.log), sync_channel(1));
            let look = move || {
                drop(sender.send(look_at(&*log, required)));
            };
            let named = thread::Builder::new().name("log-settings".to_owned());
            // Without a thread it is tried again.
            self.looked_at = Some(clock::now());
            self.under_way = named.spawn(look).is_ok().then_some(answer);
        }
        None
    }
}

fn look_at(log: &dyn Log, required: Required) -> Result<LogShown, LogError> {
    let settings = log.settings()?;
    let bounds = log.bounds()?;
    let unsuitable = required.check(&settings).err().map(|why| why.to_string());
    let LogSettings { leader, behind, bytes, bytes_max, .. } = settings;
    let holding = Some(LogHolding { leader, behind, bytes, bytes_max, bounds });
    Ok(LogShown { unsuitable, holding })
}
