//! The accept loop: connections within their number, each closed when it is too slow.
//!
//! A connection above `server.connections_max` takes the place of the oldest one that has not
//! completed a request yet ([`Places`]). Where there is none, it is read for a single request:
//! probes are answered, and everything else is refused with 503. There are few such connections,
//! whose places are given up in the same way; so a crowd never keeps a probe waiting.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::Options;
use super::patience::{Patient, Phase, Socket};
use super::places::{Place, Places};
use super::tls::Tls;
use crate::http::{self, Guarded};
use crate::metrics;

/// How long the loop rests when the operating system has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The most that a connection keeps of what it has read: a head must fit into it.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Connections above `server.connections_max` that are read for a probe.
const SURPLUS_MAX: usize = 64;

/// How long such a connection may take, from its start to its end.
const SURPLUS_TIME_MAX: Duration = Duration::from_secs(4);

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
    let mut regular = Places::new(door.options.connections_max);
    let mut surplus = Places::new(SURPLUS_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return connections,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the client is gone already: neither ends the service.
            tokio::time::sleep(EXHAUSTED_PAUSE).await;
            continue;
        };
        let (places, place, answers) = if let Some(place) = regular.take().await {
            (&mut regular, place, Answers::All)
        } else if let Some(place) = surplus.take().await {
            (&mut surplus, place, Answers::Probe)
        } else {
            metrics::connection_turned_away();
            continue;
        };
        let phase = place.phase().clone();
        let (door, stopping) = (Arc::clone(&door), stopped.clone());
        let visit = Visit { place, answers, watcher: connections.watcher() };
        let task = tokio::spawn(async move { door.serve(stream, visit, stopping).await });
        places.occupied(phase, task.abort_handle());
    }
}

/// One connection: its place, and what it may ask.
struct Visit {
    place: Place,
    answers: Answers,
    watcher: Watcher,
}

/// Which requests of a connection are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// All of them.
    All,
    /// One, if it is a probe.
    Probe,
}

/// What all connections share.
struct Door {
    router: Router,
    tls: Option<Arc<Tls>>,
    options: Options,
    protocol: http1::Builder,
    one_request: http1::Builder,
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
        let mut one_request = protocol.clone();
        one_request.keep_alive(false);
        Arc::new(Self { router, tls, options, protocol, one_request })
    }

    /// Serves a connection within its time.
    async fn serve(&self, stream: TcpStream, visit: Visit, stopping: watch::Receiver<()>) {
        let Visit { place, answers, watcher } = visit;
        let open = metrics::ConnectionOpen::new();
        let served = self.answer(stream, (place.phase(), answers), watcher, stopping);
        match answers {
            Answers::All => served.await,
            Answers::Probe => drop(timeout(SURPLUS_TIME_MAX, served).await),
        }
        drop((open, place));
    }

    /// Answers the requests of a connection until it ends. An error is the client's: it left, was
    /// too slow, or spoke no HTTP.
    async fn answer(
        &self,
        stream: TcpStream,
        (phase, answers): (&Phase, Answers),
        watcher: Watcher,
        stopping: watch::Receiver<()>,
    ) {
        let socket = socket(stream);
        let stream = Patient::new(socket.clone(), phase.clone(), &self.options);
        match &self.tls {
            None => {
                let connection = self.connection(stream, phase.clone(), answers);
                until_reset(watcher.watch(connection), &socket, phase).await;
            }
            Some(tls) => {
                if let Some(stream) = self.shake_hands(tls, stream, stopping).await {
                    let connection = self.connection(stream, phase.clone(), answers);
                    until_reset(watcher.watch(connection), &socket, phase).await;
                }
            }
        }
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
        answers: Answers,
    ) -> impl GracefulConnection<Error = hyper::Error> + use<S> {
        let (router, connections_max) = (self.router.clone(), self.options.connections_max);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let busy = phase.busy();
            let router = router.clone();
            async move {
                // Another connection has its place already.
                let busy = busy.ok_or(io::ErrorKind::ConnectionAborted)?;
                let answer = if answers == Answers::All || http::is_probe(request.uri().path()) {
                    let Ok(reply) = router.oneshot(request.map(Body::new)).await;
                    reply
                } else {
                    metrics::connection_turned_away();
                    http::too_many_connections(connections_max)
                };
                Ok::<_, io::Error>(answer.map(|body| Guarded::new(body, busy)))
            }
        });
        let protocol = match answers {
            Answers::All => &self.protocol,
            Answers::Probe => &self.one_request,
        };
        protocol.serve_connection(TokioIo::new(stream), service)
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
