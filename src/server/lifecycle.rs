//! The start and the stop of the service, each step numbered.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nearprint_engine::{Engine, OpenError, Options};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::accept::AcceptLoop;
use super::credentials::Credentials;
use super::descriptors;
use super::error::ServeError;
use super::options::{ServerOptions, Settings};
use crate::metrics::{self, EngineMetrics};
use crate::{http, telemetry};

/// Connections that the operating system queues until they are accepted.
const BACKLOG: u32 = 1_024;

/// The send buffer of each connection (the operating system doubles it). Left to itself it grows to
/// megabytes, which are wasted on a client that never reads.
const SEND_BUFFER_BYTES: u32 = 256 * 1_024;

/// Threads for long texts and for reading records. More would only compete with the async threads
/// for the cores; work that finds none free waits.
const BLOCKING_THREADS_MAX: usize = 64;

/// How often the metrics fold recorded samples into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the service until SIGTERM, Ctrl-C or a fault. Blocks.
///
/// Prints one line on standard output when requests are accepted: `listening on ADDRESS`.
///
/// # Errors
/// [`ServeError`]; the process should exit with a failure.
pub fn serve(settings: Settings) -> Result<(), ServeError> {
    let _log = telemetry::init(settings.log);
    metrics::install();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let address = settings.listen;
        let listen = |source| ServeError::Listen { address, source };
        // 1. Bind the address, so that a second process fails at once. Nobody can connect yet.
        let socket = bind(address).map_err(listen)?;
        // 2. Read tokens and certificate, so that an error in them shows before the long recovery.
        let credentials = Credentials::open(&settings.server)?;
        if credentials.tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "tokens and documents travel in the clear: there is no TLS");
        }
        // 3. Handle signals; from here on one stops the process cleanly, even during recovery.
        let shutdown = signals().map_err(ServeError::Runtime)?;
        let reloads = reload_on_hangup(&credentials).map_err(ServeError::Runtime)?;
        // 4. Recover. This blocks the runtime, which has nothing else to do.
        let engine = open_engine(settings.engine)?;
        // 5. Accept connections, and announce it.
        let listener = socket.listen(BACKLOG).map_err(listen)?;
        announce(&listener).map_err(listen)?;
        let mut options = settings.server;
        options.connections_max = connections_max(options.connections_max);
        let server = Server { listener, engine, options, http: settings.http, credentials };
        let outcome = server.run(shutdown).await;
        reloads.abort();
        outcome
    })
}

/// Opens the engine of the service, which reports its work to the metrics. Blocks.
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
    Server { listener, engine, options, http, credentials }.run(shutdown).await
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
    credentials: Credentials,
}

impl Server {
    async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let Self { listener, engine, options, http, credentials } = self;
        let router = http::router(http::Service::new(engine.clone(), http, credentials.access));
        let upkeep = tokio::spawn(fold_metrics());
        let grace = options.shutdown_grace;
        let accepting = AcceptLoop::start(listener, router, credentials.tls, options);
        let outcome = tokio::select! {
            () = shutdown => Ok(()),
            () = engine.failed() => Err(ServeError::StorageFailed),
        };
        tracing::info!(failed = outcome.is_err(), "stopping");
        // 1. Accept no more connections; close idle ones, and let busy ones finish their request.
        if !accepting.stop(grace).await {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
        // 2. Write what was accepted, sync, take a snapshot, release the directory.
        let closing = tokio::task::spawn_blocking(move || engine.close()).await;
        // 3. Only now may the process end.
        upkeep.abort();
        tracing::info!("stopped");
        match closing {
            Ok(()) => outcome,
            Err(_) => Err(ServeError::StorageFailed),
        }
    }
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

fn announce(listener: &TcpListener) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    // The parent process may have closed our standard output; that is not a reason to stop.
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "listening on {address}").and_then(|()| out.flush()));
    Ok(())
}

/// Resolves at the first SIGTERM or Ctrl-C.
fn signals() -> std::io::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn reload_on_hangup(credentials: &Credentials) -> std::io::Result<JoinHandle<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let credentials = credentials.clone();
    Ok(tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            credentials.reload();
        }
    }))
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
