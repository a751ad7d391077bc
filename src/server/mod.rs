//! The life of the process as a server: one page, from the start to the exit code.
//!
//! [`run`] takes a listener and a future that says when to stop, so that tests run the real thing
//! on port 0; [`serve`] is what `nearprint serve` calls. Our own accept loop instead of
//! `axum::serve`, because that one never closes a connection that sends its request too slowly.

mod accept;
mod descriptors;
mod patience;
mod places;
mod tls;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

pub use tls::{TlsError, TlsSource};

use crate::access::{self, Access, AccessError};
use crate::config::Settings;
use crate::engine::{Engine, OpenError};
use crate::{http, metrics, telemetry};
use accept::Accepting;
use tls::Tls;

/// The backlog of connections that the operating system keeps before we accept them.
const BACKLOG: u32 = 1_024;

/// What the operating system keeps of replies for each connection (it takes twice as much). Left to
/// itself it grows to megabytes, all of them work for a client that never reads.
const SEND_BUFFER_BYTES: u32 = 256 * 1_024;

/// Threads for long texts and for reading records. More would only take the cores from each other
/// and from the async threads; work that finds none free waits.
const BLOCKING_THREADS_MAX: usize = 64;

/// How often recorded samples are folded into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Connections and their timeouts. Checked by [`crate::config`].
#[derive(Debug, Clone)]
pub struct Options {
    /// The head of a request must come within this.
    pub header_timeout: Duration,
    /// A connection may be idle for this long.
    pub idle_timeout: Duration,
    /// A client may take nothing of its reply for this long.
    pub reply_timeout: Duration,
    /// Open connections.
    pub connections_max: usize,
    /// How long accepted requests may take to finish.
    pub shutdown_grace: Duration,
    /// Where the tokens are named.
    pub access: access::TokenSource,
    /// The certificate; without one requests travel in the clear.
    pub tls: Option<TlsSource>,
}

impl Options {
    /// Reads the tokens and the certificate, and forgets them.
    ///
    /// # Errors
    /// [`ServeError::Access`], [`ServeError::Tls`].
    pub fn check(&self) -> Result<(), ServeError> {
        Edge::open(self).map(drop)
    }
}

/// Why the server did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime could not be built.
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The tokens could not be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The certificate could not be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The data directory could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A write, a sync or a thread of the engine failed; what was answered is on disk, and a restart
    /// recovers it.
    #[error("storage or the engine failed, so the service stopped; the log says why")]
    StorageFailed,
}

/// Runs the service until SIGTERM, Ctrl-C or a fault. Blocks.
///
/// Prints one line on standard output when requests are accepted: `listening on ADDRESS`.
///
/// # Errors
/// [`ServeError`] says what is wrong; the process should exit with a failure.
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
        // 1. Take the address, so that a second process is told at once; nobody gets in yet.
        let socket = bind(address).map_err(listen)?;
        // 2. Read tokens and certificate, before the work of recovery is done in vain.
        let edge = Edge::open(&settings.server)?;
        if edge.tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "tokens and documents travel in the clear: there is no TLS");
        }
        // 3. From here on a signal stops the process cleanly, also one that comes during recovery.
        let shutdown = signals().map_err(ServeError::Runtime)?;
        let reloads = reload_on_hangup(&edge).map_err(ServeError::Runtime)?;
        // 4. Recover. This blocks, and there is nothing else to do.
        let engine = Engine::open(settings.engine)?;
        // 5. Let requests in, and say so.
        let listener = socket.listen(BACKLOG).map_err(listen)?;
        announce(&listener).map_err(listen)?;
        let mut options = settings.server;
        options.connections_max = connections_max(options.connections_max);
        let outcome = edge.serve(listener, engine, (options, settings.http), shutdown).await;
        reloads.abort();
        outcome
    })
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart must not wait for old connections of the port to time out.
    socket.set_reuseaddr(true)?;
    // Connections that are accepted inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    Ok(socket)
}

fn announce(listener: &TcpListener) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    tracing::info!(%address, "listening");
    // Whoever started us may have closed our standard output; that is no reason to stop.
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "listening on {address}").and_then(|()| out.flush()));
    Ok(())
}

/// Resolves at the first SIGTERM or Ctrl-C.
fn signals() -> std::io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Reads tokens and certificate again at each SIGHUP.
fn reload_on_hangup(edge: &Edge) -> std::io::Result<JoinHandle<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())?;
    let edge = edge.clone();
    Ok(tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            edge.reload();
        }
    }))
}

/// As many connections as the limit of open files has room for.
fn connections_max(asked: usize) -> usize {
    let max = descriptors::connections_max(asked);
    if max < asked {
        tracing::warn!(
            asked,
            max,
            "fewer connections than server.connections_max: the limit of open files is low"
        );
    }
    max
}

/// Serves on `listener` until `shutdown` resolves or the engine fails, then stops in order.
///
/// # Errors
/// [`ServeError::Access`] and [`ServeError::Tls`] before anything is served;
/// [`ServeError::StorageFailed`] when the engine failed.
pub async fn run(
    listener: TcpListener,
    engine: Engine,
    (options, http): (Options, http::Options),
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let edge = Edge::open(&options)?;
    edge.serve(listener, engine, (options, http), shutdown).await
}

/// What keeps others out, and can be read again while the service runs.
#[derive(Debug, Clone)]
struct Edge {
    access: Arc<Access>,
    tls: Option<Arc<Tls>>,
}

impl Edge {
    fn open(options: &Options) -> Result<Self, ServeError> {
        let access = Arc::new(Access::open(options.access.clone())?);
        let tls = options.tls.clone().map(Tls::open).transpose()?.map(Arc::new);
        Ok(Self { access, tls })
    }

    /// Whatever cannot be read stays as it was.
    fn reload(&self) {
        match self.access.reload() {
            Ok(tokens) => tracing::info!(tokens, "tokens read again"),
            Err(error) => tracing::error!(%error, "the tokens stay as they were"),
        }
        match self.tls.as_ref().map(|tls| tls.reload()) {
            None => {}
            Some(Ok(())) => tracing::info!("certificate read again"),
            Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }

    async fn serve(
        self,
        listener: TcpListener,
        engine: Engine,
        (options, http): (Options, http::Options),
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let router = http::router(http::Service::new(engine.clone(), http, self.access));
        let upkeep = tokio::spawn(fold_metrics());
        let grace = options.shutdown_grace;
        let accepting = Accepting::start(listener, router, self.tls, options);
        let outcome = tokio::select! {
            () = shutdown => Ok(()),
            () = engine.failed() => Err(ServeError::StorageFailed),
        };
        tracing::info!(failed = outcome.is_err(), "stopping");
        // 1. No new connections; idle ones are closed, busy ones finish their request.
        if !accepting.stop(grace).await {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
        // 2. What is accepted is written; sync, snapshot, release the directory.
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

#[expect(clippy::infinite_loop, reason = "it is aborted when the server stops")]
async fn fold_metrics() {
    let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        ticks.tick().await;
        metrics::upkeep();
        metrics::log_lines_lost(telemetry::lines_lost());
    }
}

#[cfg(test)]
mod tests;
