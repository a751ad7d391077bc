//! The accept loop: connections within their number, each closed when it is too slow.
//!
//! A connection above the number is told so (503) and closed. There is a number of those as well;
//! above both, connections wait in the backlog of the operating system.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::Options;
use super::patience::{Patient, Phase, Socket};
use super::tls::Tls;
use crate::http::{self, Guarded};
use crate::metrics;

/// How long the loop rests when the operating system has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The most that a connection keeps of what it has read: a head must fit into it.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Connections that are being told that there are too many.
const TURNED_AWAY_MAX: usize = 64;

/// How long a connection that was turned away may take to read it and close.
const FAREWELL: Duration = Duration::from_secs(4);

/// The running accept loop.
pub(super) struct Accepting {
    stop: watch::Sender<()>,
    task: JoinHandle<GracefulShutdown>,
}

impl Accepting {
    pub(super) fn start(
        listener: TcpListener,
        router: Router,
        tls: Option<Arc<Tls>>,
        options: Options,
    ) -> Self {
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(accept(listener, Door::new(router, tls, options), stopped));
        Self { stop, task }
    }

    /// Accepts nothing more and waits for the connections there are; false if they took longer
    /// than `grace`.
    pub(super) async fn stop(self, grace: Duration) -> bool {
        // Dropping the sender is the signal.
        drop(self.stop);
        let Ok(connections) = self.task.await else {
            return false;
        };
        let finished = timeout(grace, connections.shutdown());
        finished.await.is_ok()
    }
}

async fn accept(
    listener: TcpListener,
    door: Arc<Door>,
    mut stopped: watch::Receiver<()>,
) -> GracefulShutdown {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(door.options.connections_max));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    loop {
        // Whoever comes is taken in or turned away, so there must be room for the latter.
        let accepted = async {
            let spare = Arc::clone(&turned_away).acquire_owned().await;
            (spare, listener.accept().await)
        };
        let (spare, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = stopped.changed() => return connections,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the client is gone already: neither ends the service.
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
            continue;
        };
        let (door, stopping) = (Arc::clone(&door), stopped.clone());
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let watcher = connections.watcher();
            drop(tokio::spawn(async move {
                let open = metrics::ConnectionOpen::new();
                door.serve(stream, watcher, stopping).await;
                drop((open, place));
            }));
        } else {
            metrics::connection_turned_away();
            drop(tokio::spawn(async move {
                door.turn_away(stream, stopping).await;
                drop(spare);
            }));
        }
    }
}

/// What all connections share.
struct Door {
    router: Router,
    tls: Option<Arc<Tls>>,
    options: Options,
    protocol: http1::Builder,
    farewell: Bytes,
}

impl Door {
    fn new(router: Router, tls: Option<Arc<Tls>>, options: Options) -> Arc<Self> {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .max_buf_size(BUFFER_BYTES_MAX)
            // A client that has sent its request may close its half. hyper then reads nothing while
            // a request is answered, so `until_reset` watches for clients that are gone.
            .half_close(true)
            // `Patient` is stricter; but only with this set does hyper poll idle connections.
            .header_read_timeout(options.header_timeout + options.idle_timeout);
        let farewell = http::too_many_connections(options.connections_max);
        Arc::new(Self { router, tls, options, protocol, farewell })
    }

    /// Answers the requests of a connection until it ends. An error is the client's: it left, was
    /// too slow, or spoke no HTTP.
    async fn serve(&self, stream: TcpStream, watcher: Watcher, stopping: watch::Receiver<()>) {
        let phase = Phase::new();
        let socket = socket(stream);
        let stream = self.patient(&socket, &phase);
        match &self.tls {
            None => {
                let connection = self.connection(stream, phase.clone());
                until_reset(watcher.watch(connection), &socket, &phase).await;
            }
            Some(tls) => {
                if let Some(stream) = self.shake_hands(tls, stream, stopping).await {
                    let connection = self.connection(stream, phase.clone());
                    until_reset(watcher.watch(connection), &socket, &phase).await;
                }
            }
        }
    }

    /// Says that there are too many connections.
    async fn turn_away(&self, stream: TcpStream, stopping: watch::Receiver<()>) {
        let stream = self.patient(&socket(stream), &Phase::new());
        match &self.tls {
            None => self.bid_farewell(stream).await,
            Some(tls) => {
                if let Some(stream) = self.shake_hands(tls, stream, stopping).await {
                    self.bid_farewell(stream).await;
                }
            }
        }
    }

    async fn bid_farewell(&self, mut stream: impl AsyncWrite + Unpin) {
        let said = async {
            stream.write_all(&self.farewell).await?;
            stream.shutdown().await
        };
        // A client that left, or does not read it, has not missed anything.
        drop(timeout(FAREWELL, said).await);
    }

    fn patient(&self, socket: &Socket, phase: &Phase) -> Patient {
        Patient::new(socket.clone(), phase.clone(), &self.options)
    }

    /// The stream inside TLS, unless the client is too slow or the service stops.
    async fn shake_hands(
        &self,
        tls: &Tls,
        stream: Patient,
        mut stopping: watch::Receiver<()>,
    ) -> Option<tokio_rustls::server::TlsStream<Patient>> {
        let shaken = timeout(self.options.header_timeout, tls.acceptor().accept(stream));
        tokio::select! {
            shaken = shaken => shaken.ok()?.ok(),
            _ = stopping.changed() => None,
        }
    }

    fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        phase: Phase,
    ) -> impl GracefulConnection<Error = hyper::Error> + use<S> {
        let router = self.router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let busy = phase.busy();
            let answer = router.clone().oneshot(request.map(Body::new));
            async move { Ok::<_, Infallible>(answer.await?.map(|body| Guarded::new(body, busy))) }
        });
        self.protocol.serve_connection(TokioIo::new(stream), service)
    }
}

fn socket(stream: TcpStream) -> Socket {
    // Replies are written whole; waiting to fill a packet only delays them.
    drop(stream.set_nodelay(true));
    Socket::new(stream)
}

/// Drives a connection to its end. When its client resets it while a request is answered, the
/// connection is dropped, and the handler with it: nobody waits for the reply.
async fn until_reset(connection: impl Future, socket: &Socket, phase: &Phase) {
    let mut connection = pin!(connection);
    poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if phase.is_busy() { socket.poll_reset(cx) } else { Poll::Pending }
    })
    .await;
}
