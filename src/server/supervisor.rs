//! Tells the supervisor that started the process what state the service is in, if it asks: the
//! protocol of `sd_notify(3)`, which systemd and others understand.
//!
//! A supervisor asks by `NOTIFY_SOCKET`, and for signs of life by `WATCHDOG_USEC`. A message that
//! it does not take is dropped: it must not hold up the service.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How often the supervisor hears from a service that starts or stops.
const BEAT: Duration = Duration::from_secs(5);

/// How long it then waits for the next message.
const EXTENSION: Duration = Duration::from_mins(1);

/// The supervisor of this process, if there is one.
#[derive(Debug, Clone, Default)]
pub(super) struct Supervisor(Option<Arc<Told>>);

#[derive(Debug)]
struct Told {
    socket: UnixDatagram,
    address: SocketAddr,
    /// How often it wants a sign of life.
    watchdog: Option<Duration>,
    /// The service accepts requests.
    ready: AtomicBool,
}

impl Supervisor {
    /// Whoever the environment names.
    pub(super) fn of_process() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Self::default() };
        match connect(&name) {
            Ok((socket, address)) => {
                let (watchdog, ready) = (watchdog(), AtomicBool::new(false));
                Self(Some(Arc::new(Told { socket, address, watchdog, ready })))
            }
            Err(error) => {
                tracing::warn!(%error, ?name, "the socket in NOTIFY_SOCKET cannot be used");
                Self::default()
            }
        }
    }

    /// Keeps the supervisor from giving up: more time while the service starts and stops, signs of
    /// life if it wants them. Never ends while there is a supervisor.
    pub(super) async fn keep_alive(self) {
        if let Some(told) = self.0 {
            told.keep_alive().await;
        }
    }

    /// The service accepts requests.
    pub(super) fn ready(&self, status: &str) {
        let Some(told) = &self.0 else { return };
        told.ready.store(true, Ordering::Relaxed);
        told.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Runs `reload`. The supervisor counts a service that has not been ready as starting all the
    /// same.
    pub(super) fn while_reloading(&self, reload: impl FnOnce()) {
        let told = self.0.as_ref().filter(|told| told.ready.load(Ordering::Relaxed));
        if let Some(told) = told {
            let now = clock_gettime(ClockId::Monotonic);
            let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
            told.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
        }
        reload();
        if let Some(told) = told {
            told.send("READY=1");
        }
    }

    /// The service accepts no more requests.
    pub(super) fn stopping(&self) {
        let Some(told) = &self.0 else { return };
        told.ready.store(false, Ordering::Relaxed);
        told.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros()));
    }
}

impl Told {
    async fn keep_alive(&self) -> ! {
        let half = self.watchdog.map(|interval| interval / 2);
        let mut ticks = tokio::time::interval(half.map_or(BEAT, |half| half.min(BEAT)));
        loop {
            ticks.tick().await;
            let mut message = String::new();
            if half.is_some() {
                message.push_str("WATCHDOG=1\n");
            }
            if !self.ready.load(Ordering::Relaxed) {
                _ = write!(message, "EXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros());
            }
            self.send(&message);
        }
    }

    fn send(&self, message: &str) {
        if !message.is_empty() {
            drop(self.socket.send_to_addr(message.as_bytes(), &self.address));
        }
    }
}

/// A path, or `@` and a name in the abstract namespace.
fn connect(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// The interval that is asked of this process; 0 and what is no number ask for nothing.
#[expect(clippy::disallowed_methods, reason = "what a supervisor says is no configuration")]
fn watchdog() -> Option<Duration> {
    let variable = |name| std::env::var(name).ok();
    if variable("WATCHDOG_PID").is_some_and(|pid| pid != std::process::id().to_string()) {
        return None;
    }
    let microseconds = variable("WATCHDOG_USEC")?.parse().ok()?;
    Some(Duration::from_micros(microseconds)).filter(|interval| !interval.is_zero())
}
