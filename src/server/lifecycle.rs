//! The start and the stop of the service, each step numbered.

use std::cell::Cell;
use std::io::Write as _;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use nearprint_engine::{Engine, OpenError, Options};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use super::accept::AcceptLoop;
use super::credentials::Credentials;
use super::descriptors;
use super::error::ServeError;
use super::options::{ServerOptions, Settings};
use super::start_message::{Listening, StartMessage};
use super::supervisor::Supervisor;
use crate::http::{ReplicaRole, Role};
use crate::metrics::{self, EngineMetrics};
use crate::replicas::{Replica, SeedError};
use crate::server::filling;
use crate::{http, replicas, telemetry};

/// Connections that the operating system queues until they are accepted.
const BACKLOG: u32 = 1_024;

/// The send buffer of each connection (the operating system doubles it). Left to itself it grows to
/// megabytes, which are wasted on a client that never reads.
const SEND_BUFFER_BYTES: u32 = 256 * 1_024;

/// Threads for long texts and for reading records. More would only compete with the async threads
/// for the cores; work that finds none free waits.
const BLOCKING_THREADS_MAX: usize = 64;

/// How long the engine may take to close, if the requests have left it no more of the grace.
const CLOSING_MIN: Duration = Duration::from_secs(2);

/// How often the metrics fold recorded samples into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// How a service has ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceEnd {
    /// Somebody has stopped it.
    Stopped,
    /// It has to be started again.
    Again {
        /// First it fills its directory anew from another service, whatever it has.
        copies: bool,
    },
}

/// The process that serves: its log, its metrics, its threads, and the signals that stop it. They
/// outlive a service that is started again, so that no signal is lost in between.
#[derive(Debug)]
pub struct Process {
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
    signals: Signals,
    supervisor: Supervisor,
    /// Writes the last lines when everything else is gone.
    _log: telemetry::Log,
}

impl Process {
    /// Begins the log, and handles signals from here on.
    ///
    /// # Errors
    /// [`ServeError::Runtime`].
    pub fn begin(log: telemetry::LogOptions) -> Result<Self, ServeError> {
        let log = telemetry::init(log);
        metrics::install();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .build()
            .map_err(ServeError::Runtime)?;
        let signals = runtime.block_on(async { Signals::new() }).map_err(ServeError::Runtime)?;
        let supervisor = Supervisor::of_process();
        runtime.spawn(supervisor.clone().keep_alive());
        Ok(Self { runtime: Some(runtime), signals, supervisor, _log: log })
    }

    /// Runs the service until SIGTERM, Ctrl-C or a fault. A second signal ends it at once. Blocks.
    /// `copies` says that it fills its directory from another service, whatever it has.
    ///
    /// Prints `listening on ADDRESS` on standard output when requests are accepted; in the text
    /// format of the log also some lines for people ([`StartMessage`]).
    ///
    /// # Errors
    /// [`ServeError`]; the process should exit with a failure.
    pub fn serve(&mut self, settings: Settings, copies: bool) -> Result<ServiceEnd, ServeError> {
        let runtime = self.runtime.as_ref().expect("it is there until the drop");
        runtime.block_on(start(settings, copies, &mut self.signals, &self.supervisor))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Work that nobody waits for any more may still run; everything acknowledged is on disk.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn start(
    settings: Settings,
    copies: bool,
    signals: &mut Signals,
    supervisor: &Supervisor,
) -> Result<ServiceEnd, ServeError> {
    let address = settings.listen;
    let listen = |source| ServeError::Listen { address, source };
    // 1. Bind the address, so that a second process fails at once. Nobody can connect yet.
    let socket = bind(address).map_err(listen)?;
    // 2. Read tokens and certificate, so that an error in them shows before the long recovery.
    let credentials = Credentials::open(&settings.server)?;
    if credentials.tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "tokens and documents travel in the clear: there is no TLS");
    }
    log_memory(&settings);
    // 3. Signals stop the process cleanly, even during recovery.
    let _reloads = reload_on_hangup(&credentials, supervisor).map_err(ServeError::Runtime)?;
    // 4. A copy of another service that has nothing yet is filled, and begins again with what came.
    if let Some(replica) = &settings.replica
        && (copies || replicas::needs_seed(replica, &settings.engine.data)?)
    {
        let filled = filling::fill(replica.clone(), settings.engine.data.clone(), copies);
        return filled_or_stopped(filled, signals).await;
    }
    // 5. Recover. Whatever ends a recovery, the next start begins it again.
    let role = role(&settings)?;
    let message = StartMessage::of(&settings);
    let of_engine = settings.replica.as_ref().map(|it| it.of_engine(&Handle::current()));
    let recovery = spawn_blocking(move || match of_engine {
        Some(replica) => Engine::open_replica(settings.engine, replica, Arc::new(EngineMetrics)),
        None => open_engine(settings.engine),
    });
    let engine = tokio::select! {
        recovered = recovery => recovered.unwrap_or_else(|fault| resume_unwind(fault.into_panic()))?,
        () = signals.next() => {
            tracing::info!("stopped before the data directory was recovered; nothing was served");
            return Ok(ServiceEnd::Stopped);
        }
    };
    // 6. Accept connections, and announce it.
    let listener = socket.listen(BACKLOG).map_err(listen)?;
    announce(&listener, supervisor, &message, &engine, &credentials).map_err(listen)?;
    let mut options = settings.server;
    options.connections_max = connections_max(options.connections_max);
    let (http, replica) = (settings.http, settings.replica);
    let supervisor = supervisor.clone();
    let server = Server { listener, engine, options, http, role, replica, credentials, supervisor };
    // 7. Serve until a signal, and stop in order, or at once when there is a second one.
    let (stop, stopped) = oneshot::channel::<()>();
    let signalled = Cell::new(false);
    let twice = async {
        signals.next().await;
        signalled.set(true);
        drop(stop);
        signals.next().await;
        tracing::warn!("ending at once: a second signal came before the stop was done");
    };
    let outcome = tokio::select! {
        outcome = server.run(async { drop(stopped.await) }) => outcome,
        () = twice => Err(ServeError::SignalledTwice),
    };
    // Who has stopped it does not want it to begin again.
    outcome.map(|ended| if signalled.get() { ServiceEnd::Stopped } else { ended })
}

async fn filled_or_stopped(
    filled: impl Future<Output = Result<(), SeedError>>,
    signals: &mut Signals,
) -> Result<ServiceEnd, ServeError> {
    tokio::select! {
        filled = filled => Ok(filled.map(|()| ServiceEnd::Again { copies: false })?),
        () = signals.next() => {
            tracing::info!("stopped before the data directory was filled; nothing was served");
            Ok(ServiceEnd::Stopped)
        }
    }
}

/// Logs how much memory each part may take.
fn log_memory(settings: &Settings) {
    tracing::info!(
        max_bytes = settings.http.memory_bytes_max,
        index_bytes = settings.engine.memory_bytes_max,
        bodies_bytes = settings.http.bodies_held_bytes_max,
        replies_bytes = settings.http.service.replies_held_bytes_max,
        groups_bytes = settings.engine.groups_memory_bytes_max,
        "the memory limit (engine.memory_bytes_max; 0 is none)"
    );
}

/// What the service is among others.
fn role(settings: &Settings) -> Result<Role, ServeError> {
    let Some(replica) = &settings.replica else { return Ok(Role::Alone) };
    let role = ReplicaRole::new(replica, settings.http.requests_in_flight_max)?;
    Ok(Role::Replica(Box::new(role)))
}

/// Opens the engine of a service alone, which reports its work to the metrics. Blocks.
///
/// # Errors
/// As [`Engine::open`].
pub fn open_engine(options: Options) -> Result<Engine, OpenError> {
    Engine::open_observed(options, Arc::new(EngineMetrics))
}

/// Serves on `listener` until `shutdown` resolves or the engine fails, then stops in order.
///
/// # Errors
/// [`ServeError::Access`] and [`ServeError::Tls`] before anything is served;
/// [`ServeError::StorageFailed`] when the engine failed.
pub async fn run(
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    http: http::HttpOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let credentials = Credentials::open(&options)?;
    let (role, replica) = (Role::Alone, None);
    let supervisor = Supervisor::default();
    let server = Server { listener, engine, options, http, role, replica, credentials, supervisor };
    server.run(shutdown).await.map(drop)
}

/// Reads the tokens and the certificate to see whether they can be used.
///
/// # Errors
/// [`ServeError::Access`], [`ServeError::Tls`].
pub fn check(options: &ServerOptions) -> Result<(), ServeError> {
    Credentials::open(options).map(drop)
}

/// A service whose engine is open and whose address is bound.
struct Server {
    listener: TcpListener,
    engine: Engine,
    options: ServerOptions,
    http: http::HttpOptions,
    role: Role,
    replica: Option<Replica>,
    credentials: Credentials,
    supervisor: Supervisor,
}

impl Server {
    async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<ServiceEnd, ServeError> {
        let Self { listener, engine, options, http, role, replica, credentials, supervisor } = self;
        let service = http::HttpService::with_role(engine.clone(), http, credentials.access, role);
        let router = http::router(Arc::clone(&service));
        let upkeep = tokio::spawn(fold_metrics());
        // Ends when the service stops.
        drop(tokio::spawn(http::record_history(Arc::clone(&service))));
        let grace = options.shutdown_grace;
        let accepting = AcceptLoop::start(listener, router, credentials.tls, options);
        replica.as_ref().map(check_own_address);
        let outcome = tokio::select! {
            () = shutdown => Ok(ServiceEnd::Stopped),
            () = engine.failed() => Err(ServeError::StorageFailed),
            () = can_be_copied(replica.as_ref(), &engine) => Ok(ServiceEnd::Again { copies: true }),
        };
        // To the supervisor, a service that is filled and begins again goes on.
        if !matches!(outcome, Ok(ServiceEnd::Again { .. })) {
            supervisor.stopping();
        }
        // A leader gives the lead away while requests finish.
        engine.step_down();
        service.stop();
        drop(service);
        tracing::info!(failed = outcome.is_err(), "stopping");
        let begun = Instant::now();
        // 1. Accept no more connections; close idle ones, and let busy ones finish their request.
        if !accepting.stop(grace_of_requests(grace)).await {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
        // 2. Write what was accepted, sync, take a snapshot, release the directory.
        let left = grace.saturating_sub(begun.elapsed()).max(CLOSING_MIN);
        let closing = spawn_blocking(move || engine.close());
        let closing = match outcome {
            // The next start needs the directory.
            Ok(ServiceEnd::Again { .. }) => Ok(closing.await),
            Ok(ServiceEnd::Stopped) | Err(_) => timeout(left, closing).await,
        };
        // 3. Only now may the process end.
        upkeep.abort();
        match closing {
            Ok(Ok(())) => {
                tracing::info!("stopped");
                outcome
            }
            Ok(Err(_)) => Err(ServeError::StorageFailed),
            Err(_) => {
                tracing::warn!(
                    "stopped without the last snapshot, which took longer than \
                     server.shutdown_grace_ms; the next start reads the journal instead"
                );
                outcome
            }
        }
    }
}

/// Resolves when a copy can no longer read what it lacks, and another service has it.
async fn can_be_copied(replica: Option<&Replica>, engine: &Engine) {
    match replica {
        Some(replica) => filling::wait_for_seed(replica, engine).await,
        None => std::future::pending().await,
    }
}

/// The time that requests have of the grace; the rest is for the last snapshot.
fn grace_of_requests(grace: Duration) -> Duration {
    grace.mul_f64(0.75)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart must not wait for old connections of the port to time out.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Warns if a node is not where others look for it. Does not wait.
fn check_own_address(replica: &Replica) {
    let replica = replica.clone();
    drop(spawn_blocking(move || replica.check_own_address()));
}

fn announce(
    listener: &TcpListener,
    supervisor: &Supervisor,
    message: &StartMessage,
    engine: &Engine,
    credentials: &Credentials,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let listening = Listening {
        address,
        has_tls: credentials.tls.is_some(),
        tokens: credentials.access.tokens(),
        documents: engine.stats().documents,
    };
    message.log(&listening);
    supervisor.ready(&format!("listening on {address}"));
    // The parent process may have closed our standard output; that is not a reason to stop.
    let mut out = std::io::stdout().lock();
    drop(out.write_all(message.text(&listening).as_bytes()).and_then(|()| out.flush()));
    Ok(())
}

/// SIGTERM and Ctrl-C.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for the next of them.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reads tokens and certificate again on SIGHUP, until the returned value is dropped.
fn reload_on_hangup(
    credentials: &Credentials,
    supervisor: &Supervisor,
) -> std::io::Result<AbortOnDrop> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (credentials, supervisor) = (credentials.clone(), supervisor.clone());
    Ok(AbortOnDrop(tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let (credentials, supervisor) = (credentials.clone(), supervisor.clone());
            let reload = move || supervisor.while_reloading(|| credentials.reload());
            // The files may be on a disk that does not answer.
            drop(spawn_blocking(reload).await);
        }
    })))
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// `wanted` connections, or as many as the limit of open files has room for.
fn connections_max(wanted: usize) -> usize {
    let max = descriptors::connections_max(wanted);
    if max < wanted {
        tracing::warn!(
            wanted,
            max,
            "fewer connections than server.connections_max: the limit of open files is low"
        );
    }
    max
}

#[expect(clippy::infinite_loop, reason = "it is aborted when the server stops")]
async fn fold_metrics() {
    let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        ticks.tick().await;
        metrics::upkeep();
        metrics::log_lines_lost(telemetry::lines_lost());
    }
}
