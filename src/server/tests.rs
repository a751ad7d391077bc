//! Connections over real sockets; the handler of a request waits until the test lets it answer.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::accept::AcceptLoop;
use super::options::ServerOptions;
use crate::access;

/// No test waits longer than this; no timeout of the server is as short.
const DEADLINE: Duration = Duration::from_secs(30);

const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A request whose body was read and which waits for its reply.
struct Waiting {
    answer: oneshot::Sender<()>,
    /// Fails as soon as the handler is gone.
    dropped: oneshot::Receiver<()>,
}

struct Server {
    address: std::net::SocketAddr,
    waiting: mpsc::UnboundedReceiver<Waiting>,
    accepting: AcceptLoop,
}

impl Server {
    async fn start() -> Self {
        let options = ServerOptions {
            header_timeout: 2 * DEADLINE,
            idle_timeout: 2 * DEADLINE,
            reply_timeout: 2 * DEADLINE,
            connections_max: 10,
            shutdown_grace: DEADLINE,
            access: access::TokenSource::default(),
            tls: None,
        };
        let (arrived, waiting) = mpsc::unbounded_channel();
        let router = Router::new().fallback(async move |body: Body| {
            if body.collect().await.is_err() {
                return StatusCode::BAD_REQUEST;
            }
            let ((answer, answered), (_here, dropped)) = (oneshot::channel(), oneshot::channel());
            arrived.send(Waiting { answer, dropped }).unwrap();
            answered.await.unwrap();
            StatusCode::NO_CONTENT
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = AcceptLoop::start(listener, router, None, options);
        Self { address, waiting, accepting }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn waiting(&mut self) -> Waiting {
        timeout(DEADLINE, self.waiting.recv()).await.unwrap().unwrap()
    }

    /// A complete request: once it is answered, the server has processed what came before it.
    async fn one_request(&mut self) {
        let mut other = self.connect().await;
        other.write_all(GET.as_bytes()).await.unwrap();
        self.waiting().await.answer.send(()).unwrap();
        assert!(head(&mut other).await.starts_with("HTTP/1.1 204"));
    }
}

async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(DEADLINE, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// What comes until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut rest = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut rest)).await.unwrap().unwrap();
    rest
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_its_reply() {
    let mut server = Server::start().await;
    let chunks = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for request in [
        GET.to_owned(),
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc".to_owned(),
        format!("POST / HTTP/1.1\r\nhost: localhost\r\n{chunks}"),
    ] {
        let mut client = server.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let waiting = server.waiting().await;
        server.one_request().await;
        waiting.answer.send(()).expect("the handler waits on");
        let reply = rest(&mut client).await;
        assert!(reply.starts_with("HTTP/1.1 204"), "{request}{reply}");
    }
}

#[tokio::test]
async fn a_body_that_is_cut_short_is_an_error_at_once() {
    let server = Server::start().await;
    for body in [
        "content-length: 4\r\n\r\nabc",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "content-length: 4\r\n\r\n",
    ] {
        let mut client = server.connect().await;
        let request = format!("POST / HTTP/1.1\r\nhost: localhost\r\n{body}");
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let reply = rest(&mut client).await;
        assert!(reply.starts_with("HTTP/1.1 400"), "{body}{reply}");
    }
}

#[tokio::test]
async fn a_reset_drops_the_handler() {
    let mut server = Server::start().await;
    let post = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc";
    for request in [GET, post] {
        let mut client = server.connect().await;
        // The second request of a connection is watched as well as the first.
        client.write_all(GET.as_bytes()).await.unwrap();
        server.waiting().await.answer.send(()).unwrap();
        head(&mut client).await;
        client.write_all(request.as_bytes()).await.unwrap();
        let waiting = server.waiting().await;
        client.set_zero_linger().unwrap();
        drop(client);
        let dropped = timeout(DEADLINE, waiting.dropped).await;
        assert!(dropped.expect("the handler goes on for nobody").is_err());
    }
}

/// A connection whose client waits for the reply to a request in hand, and one between requests.
async fn in_hand_and_idle(server: &mut Server) -> (TcpStream, Waiting, TcpStream) {
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    idle.write_all(GET.as_bytes()).await.unwrap();
    server.waiting().await.answer.send(()).unwrap();
    head(&mut idle).await;
    busy.write_all(GET.as_bytes()).await.unwrap();
    (busy, server.waiting().await, idle)
}

#[tokio::test]
async fn a_stop_waits_for_the_request_in_hand_and_closes_what_is_idle() {
    let mut server = Server::start().await;
    let (mut busy, waiting, mut idle) = in_hand_and_idle(&mut server).await;
    let (mut silent, mut partial) = (server.connect().await, server.connect().await);
    partial.write_all(&GET.as_bytes()[..20]).await.unwrap();
    server.one_request().await;
    let stopping = tokio::spawn(server.accepting.stop(DEADLINE));
    // They are closed although their clients keep them open.
    for closed in [&mut idle, &mut silent, &mut partial] {
        let end = timeout(DEADLINE, closed.read_u8()).await.unwrap();
        assert!(end.is_err());
    }
    waiting.answer.send(()).expect("the handler goes on");
    let reply = rest(&mut busy).await;
    assert!(reply.starts_with("HTTP/1.1 204") && reply.contains("connection: close"), "{reply}");
    assert!(stopping.await.unwrap(), "all were done in time");
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_than_its_grace() {
    let mut server = Server::start().await;
    let (_busy, _waiting, _idle) = in_hand_and_idle(&mut server).await;
    assert!(!server.accepting.stop(Duration::from_millis(10)).await);
}

#[tokio::test]
async fn a_body_that_has_not_arrived_is_refused_at_a_stop() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let request = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nabc";
    client.write_all(request.as_bytes()).await.unwrap();
    let stopping = tokio::spawn(server.accepting.stop(DEADLINE));
    let reply = rest(&mut client).await;
    let is_answered = reply.starts_with("HTTP/1.1 400") && reply.contains("connection: close");
    // The signal may have come before the head.
    assert!(is_answered || reply.is_empty(), "{reply}");
    assert!(stopping.await.unwrap());
}
