//! The accept loop: a limited number of connections, each closed when it is too slow.
//!
//! A connection above `server.connections_max` takes the permit of the oldest one that has not
//! completed a request yet ([`Permits`]). If there is none, a surplus connection is read for a
//! single request: probes are answered, and everything else is refused with 503. The few surplus
//! permits are taken over in the same way, so a crowd never keeps a probe waiting.
//!
//! At a stop, a connection between requests closes at once, and so does one that has sent a part of
//! a head. Bodies that are being read have [`BODY_STOPPING`] to arrive; then their requests are
//! refused. What was read is answered.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use nearprint_engine::Client;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::connection::permits::{Permit, Permits};
use super::connection::phase::Phase;
use super::connection::request_body::RequestBody;
use super::connection::timeouts::{Socket, TimeoutStream};
use super::options::ServerOptions;
use super::tls::Tls;
use crate::http::{self, Guarded, PeerAddress};
use crate::metrics;

/// How long the loop pauses when the operating system has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The read buffer of a connection, into which the head of a request must fit.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Surplus connections, which are read for a probe.
const SURPLUS_MAX: usize = 64;

/// The lifetime of a surplus connection.
const SURPLUS_TIME_MAX: Duration = Duration::from_secs(4);

/// How long the rest of a body may take once the service stops: what has been sent arrives by then.
const BODY_STOPPING: Duration = Duration::from_millis(500);

/// What a client that begins with HTTP/2 is told, for whoever reads its log.
const HTTP2_REASON: &[u8] =
    b"nearprint speaks HTTP/1.1 only: set the client or proxy to HTTP/1.1 (no h2c)";

/// An empty SETTINGS frame, with which a server of HTTP/2 begins (RFC 9113, sections 3.4, 6.5).
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The type of a GOAWAY frame (RFC 9113, section 6.8).
const GOAWAY: u8 = 7;

/// The code of the error (RFC 9113, section 7).
const HTTP_1_1_REQUIRED: u8 = 13;

pub(super) struct AcceptLoop {
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl AcceptLoop {
    pub(super) fn start(
        listener: TcpListener,
        router: Router,
        tls: Option<Arc<Tls>>,
        options: ServerOptions,
    ) -> Self {
        let (stop, stopping) = watch::channel(());
        let task = tokio::spawn(accept(listener, Handler::new(router, tls, options), stopping));
        Self { stop, task }
    }

    /// Accepts nothing more and waits for the open connections; false if they took longer than
    /// `grace`.
    pub(super) async fn stop(self, grace: Duration) -> bool {
        let _nobody_is_connected = self.stop.send(());
        drop(self.task.await);
        // Each connection has a receiver.
        timeout(grace, self.stop.closed()).await.is_ok()
    }
}

async fn accept(listener: TcpListener, handler: Arc<Handler>, mut stopping: watch::Receiver<()>) {
    let mut regular = Permits::new(handler.options.connections_max);
    let mut surplus = Permits::new(SURPLUS_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.changed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors, or the client has left already: neither ends the service.
            sleep(EXHAUSTED_PAUSE).await;
            continue;
        };
        let client = Client::at(peer.ip());
        let (permits, permit, answers) = if let Some(permit) = regular.acquire(&client).await {
            (&mut regular, permit, Answers::All)
        } else if let Some(permit) = surplus.acquire(&client).await {
            (&mut surplus, permit, Answers::Probe)
        } else {
            metrics::connection_turned_away();
            continue;
        };
        let phase = permit.phase().clone();
        let peer = PeerAddress(peer.ip());
        let connection = Connection { permit, peer, answers, stopping: stopping.clone() };
        let handler = Arc::clone(&handler);
        let task = tokio::spawn(async move { handler.serve(stream, connection).await });
        permits.register(client, phase, task.abort_handle());
    }
}

struct Connection {
    permit: Permit,
    peer: PeerAddress,
    answers: Answers,
    stopping: watch::Receiver<()>,
}

/// Which requests of a connection are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    All,
    /// One, if it is a probe.
    Probe,
}

/// Serves connections; shared by all of them.
struct Handler {
    router: Router,
    tls: Option<Arc<Tls>>,
    options: ServerOptions,
    protocol: http1::Builder,
    one_request: http1::Builder,
}

impl Handler {
    fn new(router: Router, tls: Option<Arc<Tls>>, options: ServerOptions) -> Arc<Self> {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .max_buf_size(BUFFER_BYTES_MAX)
            // A client may close its half once it has sent its request. hyper then reads nothing
            // while the request is answered, so `until_reset` watches for clients that have left.
            .half_close(true)
            // `TimeoutStream` is stricter, but hyper polls idle connections only with this set.
            .header_read_timeout(options.header_timeout + options.idle_timeout);
        let mut one_request = protocol.clone();
        one_request.keep_alive(false);
        Arc::new(Self { router, tls, options, protocol, one_request })
    }

    async fn serve(&self, stream: TcpStream, connection: Connection) {
        let answers = connection.answers;
        let served = self.answer(stream, connection);
        match answers {
            Answers::All => served.await,
            Answers::Probe => drop(timeout(SURPLUS_TIME_MAX, served).await),
        }
    }

    /// Answers the requests of a connection until it ends. An error is the client's: it left, was
    /// too slow, or did not speak HTTP.
    async fn answer(&self, stream: TcpStream, connection: Connection) {
        let Connection { permit, peer, answers, mut stopping } = connection;
        // Dropped before the permit, so that the metric never shows more than the maximum.
        let _open = metrics::ConnectionOpen::new();
        let phase = permit.phase();
        let socket = socket(stream);
        let stream = TimeoutStream::new(socket.clone(), phase.clone(), &self.options);
        match &self.tls {
            None => {
                let connection = self.connection(stream, phase.clone(), (peer, answers));
                let end = drive(connection, &socket, phase, stopping).await;
                if end.is_err_and(|error| error.is_parse_version_h2()) {
                    let stream = TimeoutStream::new(socket, phase.clone(), &self.options);
                    refuse_http2(stream).await;
                }
            }
            // A client of TLS negotiates the protocol, and learns there that there is no HTTP/2.
            Some(tls) => {
                if let Some(stream) = self.shake_hands(tls, stream, &mut stopping).await {
                    let connection = self.connection(stream, phase.clone(), (peer, answers));
                    drop(drive(connection, &socket, phase, stopping).await);
                }
            }
        }
    }

    /// The stream inside TLS, unless the client is too slow or the service stops.
    async fn shake_hands(
        &self,
        tls: &Tls,
        stream: TimeoutStream,
        stopping: &mut watch::Receiver<()>,
    ) -> Option<tokio_rustls::server::TlsStream<TimeoutStream>> {
        let handshake = timeout(self.options.header_timeout, tls.acceptor().accept(stream));
        tokio::select! {
            stream = handshake => stream.ok()?.ok(),
            _ = stopping.changed() => None,
        }
    }

    fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        phase: Phase,
        (peer, answers): (PeerAddress, Answers),
    ) -> impl GracefulConnection<Error = hyper::Error> + use<S> {
        let (router, connections_max) = (self.router.clone(), self.options.connections_max);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let busy = phase.busy();
            let router = router.clone();
            let mut request = request.map(|body| body_of(body, &phase));
            request.extensions_mut().insert(peer);
            async move {
                // Another connection has taken the permit.
                let busy = busy.ok_or(io::ErrorKind::ConnectionAborted)?;
                let answer = if answers == Answers::All || http::is_probe(request.uri().path()) {
                    let Ok(reply) = router.oneshot(request).await;
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

/// The body of a request. Nearly every GET has none.
fn body_of(body: Incoming, phase: &Phase) -> Body {
    if body.is_end_stream() {
        Body::empty()
    } else {
        Body::new(RequestBody::new(body, phase.clone()))
    }
}

fn socket(stream: TcpStream) -> Socket {
    // Replies are written whole, so waiting to fill a packet would only delay them.
    drop(stream.set_nodelay(true));
    Socket::new(stream)
}

/// Drives a connection to its end, or to the end of the request in hand once the service stops.
async fn drive<C: GracefulConnection>(
    connection: C,
    socket: &Socket,
    phase: &Phase,
    mut stopping: watch::Receiver<()>,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    // The connection first: a request that has arrived before the signal is still answered.
    tokio::select! {
        biased;
        end = until_reset(connection.as_mut(), socket, phase) => return end,
        _ = stopping.changed() => {}
    }
    phase.stop();
    if phase.awaits_head() {
        return Ok(());
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        end = until_reset(connection.as_mut(), socket, phase) => return end,
        () = sleep(BODY_STOPPING) => phase.refuse_body(),
    }
    until_reset(connection, socket, phase).await
}

/// Resolves at the end of a connection. If its client resets it while a request is answered, this
/// resolves too; the caller then drops the connection, and the handler of the request with it.
async fn until_reset<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    socket: &Socket,
    phase: &Phase,
) -> Result<(), C::Error> {
    poll_fn(|cx| {
        let end = connection.as_mut().poll(cx);
        if end.is_ready() || !phase.is_busy() {
            return end;
        }
        socket.poll_reset(cx).map(Ok)
    })
    .await
}

/// Tells a client that begins with HTTP/2 to use HTTP/1.1, and ends the connection. It would not
/// understand a reply in HTTP/1.1, so it gets frames, which also say that no request was processed.
async fn refuse_http2(mut stream: impl AsyncWrite + Unpin) {
    tracing::info!(
        "a client that speaks HTTP/2 without negotiating it was refused: nearprint speaks HTTP/1.1 \
         only; set the client or proxy to HTTP/1.1"
    );
    // The client may have left.
    if stream.write_all(&http2_refusal()).await.is_ok() {
        drop(stream.shutdown().await);
    }
}

fn http2_refusal() -> Vec<u8> {
    let (last_stream, error) = ([0; 4], [0, 0, 0, HTTP_1_1_REQUIRED]);
    let payload = [&last_stream[..], &error, HTTP2_REASON].concat();
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&SETTINGS[..], &length, &[GOAWAY, 0, 0, 0, 0, 0], &payload].concat()
}
