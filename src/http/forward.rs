//! Passes requests on to the service that decides: request and reply as streams, with the token.
//!
//! That is the primary of a follower, or the leader of a cluster. Nothing is added to what it
//! answers, and what is passed on is not decompressed. A request is passed on once: whoever gets it
//! and does not decide either refuses it. At most half of the requests in flight are passed on at
//! one time, so that look-ups go on while the other accepts and is silent.

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CONNECTION, EXPECT, HOST, HeaderName, ORIGIN, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use futures_util::future::BoxFuture;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self as client, Client};
use hyper_util::rt::TokioExecutor;
use nearprint_client::{RemoteError, trust};
use nearprint_service::shares::{ShareSpent, SharedPlaces};
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

use crate::http::middleware::guard::Guarded;
use crate::http::middleware::head::SEC_FETCH_SITE;
use crate::http::problem::{Code, Problem};
use crate::http::request::caller::client_of;
use crate::metrics;

/// Marks a request that was passed on.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("nearprint-forwarded");

/// Headers that are about one connection (RFC 9110, section 7.6.1).
const OF_CONNECTION: [HeaderName; 6] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Headers about the way to this service, which has checked them.
const OF_WAY: [HeaderName; 4] = [HOST, EXPECT, ORIGIN, SEC_FETCH_SITE];

/// A probe of the service that decides has no answer after this time, and one that was answered is
/// good for this time.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const PROBED_FOR: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A service whose machine is gone is noticed after about this time.
const GONE_AFTER: Duration = Duration::from_secs(20);
const PROBES_AFTER: Duration = Duration::from_secs(10);
const PROBES_EVERY: Duration = Duration::from_secs(5);
/// Shorter than a service keeps idle connections by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Where requests are passed on to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ForwardTarget {
    /// The primary of this follower, at this address.
    Primary(Arc<str>),
    /// The leader of the cluster, at this address.
    Leader(Arc<str>),
}

impl ForwardTarget {
    fn url(&self) -> &str {
        match self {
            Self::Primary(url) | Self::Leader(url) => url,
        }
    }

    /// The code of an error that time may mend, and whom it is about.
    fn unreachable(&self) -> (Code, String) {
        match self {
            Self::Primary(url) => (Code::PrimaryUnreachable, format!("the primary {url}")),
            Self::Leader(url) => (Code::LeaderUnreachable, format!("the leader {url}")),
        }
    }

    /// The problem of a probe that has found this.
    pub(crate) fn away(&self, why: &str) -> Problem {
        let (code, whom) = self.unreachable();
        Problem::new(code, format!("Writes are passed on to {whom}: {why}."))
    }

    /// The reply to a request that was passed on once already.
    pub(crate) fn again(&self) -> Problem {
        match self {
            Self::Primary(url) => {
                let detail = format!(
                    "This service follows {url}, and the request was passed on once already; nothing \
                     was changed. Name the primary itself in follow.url of the service that passed it \
                     on."
                );
                Problem::new(Code::Follower, detail)
            }
            Self::Leader(url) => {
                let detail = format!(
                    "This node does not lead, {url} does, and the request was passed on once already; \
                     nothing was changed."
                );
                Problem::new(Code::NoLeader, detail)
            }
        }
    }
}

/// The way to the service that decides.
#[derive(Debug)]
pub(crate) struct Forwarder {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    places: Arc<SharedPlaces>,
    /// What the newest probe has found, whom it asked, and when.
    probed: Mutex<Option<Probed>>,
}

#[derive(Debug)]
struct Probed {
    whom: ForwardTarget,
    at: Instant,
    found: Result<(), String>,
}

/// How long a request that was passed on is waited for.
pub(crate) struct ForwardLimits<'a> {
    /// For the beginning of the reply, from the end of the body on; without it, as long as the
    /// connection lasts.
    pub(crate) reply: Option<Duration>,
    /// Resolves when somebody else decides.
    pub(crate) moved: BoxFuture<'a, ()>,
}

/// Why a request that was passed on has no reply.
enum NoReply {
    Failed(client::Error),
    Late(Duration),
    Moved,
}

impl Forwarder {
    /// For a service that works on this many requests at one time. It trusts the certificates of
    /// the file, or those of public authorities without one.
    ///
    /// # Errors
    /// [`RemoteError`]: the file cannot be used.
    pub(crate) fn new(ca_file: Option<&Path>, in_flight_max: usize) -> Result<Self, RemoteError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(PROBES_AFTER));
        connector.set_keepalive_interval(Some(PROBES_EVERY));
        connector.set_keepalive_retries(Some(2));
        // Also while bytes that were sent are not acknowledged, when there are no probes.
        connector.set_tcp_user_timeout(Some(GONE_AFTER));
        let tls = trust::tls(ca_file.into())?;
        let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let client =
            Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(connector);
        let places = SharedPlaces::new(in_flight_max.div_ceil(2));
        Ok(Self { client, places, probed: Mutex::default() })
    }

    /// Whether the service that decides takes writes from here; an error says why not. However many
    /// ask, it is asked once a second.
    pub(crate) async fn probe(&self, to: &ForwardTarget) -> Result<(), String> {
        let mut probed = self.probed.lock().await;
        let is_known = |probed: &&Probed| probed.whom == *to && probed.at.elapsed() < PROBED_FOR;
        if let Some(known) = probed.as_ref().filter(is_known) {
            return known.found.clone();
        }
        let asked = tokio::time::timeout(PROBE_TIMEOUT, self.ask(to)).await;
        let late = || Err(format!("it has not answered for {} s", PROBE_TIMEOUT.as_secs()));
        let found = asked.unwrap_or_else(|_| late());
        *probed = Some(Probed { whom: to.clone(), at: Instant::now(), found: found.clone() });
        found
    }

    async fn ask(&self, to: &ForwardTarget) -> Result<(), String> {
        let request = Request::get(format!("{}/readyz/writes", to.url()));
        let request = request.header(FORWARDED, "1").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let reply = self.client.request(request).await.map_err(|error| chain_of(&error))?;
        match reply.status() {
            StatusCode::OK => Ok(()),
            status => Err(format!("it answers {status} to /readyz/writes")),
        }
    }

    /// Passes a request on, and the reply back. `writes`: it may change what is stored. Who is
    /// silent after the whole body was sent is given up as the limits say.
    ///
    /// # Errors
    /// [`Problem`]: there is no reply.
    pub(crate) async fn forward(
        &self,
        request: Request,
        to: &ForwardTarget,
        writes: bool,
        limits: ForwardLimits<'_>,
    ) -> Result<Response, Problem> {
        if request.headers().contains_key(FORWARDED) {
            return Err(to.again());
        }
        let place = self.places.take(&client_of(request.extensions())).map_err(full)?;
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("{}{path}", to.url())
            .parse::<Uri>()
            .map_err(|error| Problem::internal(format!("the address {}: {error}", to.url())))?;
        strip(&mut head.headers);
        for name in &OF_WAY {
            head.headers.remove(name);
        }
        head.headers.insert(FORWARDED, HeaderValue::from_static("1"));
        head.extensions.clear();
        let (body, sent) = told_when_sent(body);
        let late = async {
            let Some(limit) = limits.reply else { return std::future::pending().await };
            drop(sent.await);
            tokio::time::sleep(limit).await;
            NoReply::Late(limit)
        };
        let reply = tokio::select! {
            reply = self.client.request(Request::from_parts(head, body)) => {
                reply.map_err(NoReply::Failed)
            }
            late = late => Err(late),
            () = limits.moved => Err(NoReply::Moved),
        };
        metrics::forwarded(reply.is_ok());
        let (mut head, body) = reply.map_err(|why| failed(&why, to, writes))?.into_parts();
        strip(&mut head.headers);
        Ok(Response::from_parts(head, Body::new(Guarded::new(body, place))))
    }
}

fn full(spent: ShareSpent) -> Problem {
    spent.refuse("half of server.requests_in_flight_max", "requests that are passed on").into()
}

/// The same body, and a receiver that resolves when the whole body was read to be sent.
fn told_when_sent(body: Body) -> (Body, oneshot::Receiver<()>) {
    let (guard, sent) = oneshot::channel::<()>();
    // The sender is dropped with the body: at its end, or at once if it is empty.
    (Body::new(Guarded::new(body, guard)), sent)
}

fn failed(why: &NoReply, to: &ForwardTarget, writes: bool) -> Problem {
    if let NoReply::Failed(error) = why
        && is_of_body(error)
    {
        let detail = "The body broke off before it was passed on as a whole.";
        return Problem::new(Code::BodyIncomplete, detail);
    }
    let (code, whom) = to.unreachable();
    let what = match why {
        NoReply::Failed(error) => {
            let error = chain_of(error);
            tracing::warn!(error, to = to.url(), "a request that was passed on was not answered");
            format!("The connection to {whom} broke off before its reply.")
        }
        NoReply::Late(limit) => format!("No reply from {whom} for {} ms.", limit.as_millis()),
        NoReply::Moved => format!("Another node leads now, and no longer {whom}."),
    };
    if !writes || matches!(why, NoReply::Failed(error) if error.is_connect()) {
        let detail = format!("No answer from {whom}; nothing was changed. Look-ups go on here.");
        return Problem::new(code, detail);
    }
    let detail = format!(
        "{what} Whether it has done what was asked is not known; a document with an id may be sent again."
    );
    Problem::new(Code::OutcomeUnknown, detail)
}

/// An error with what has caused it.
fn chain_of(error: &client::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Whether the body of the client failed, and not the primary.
fn is_of_body(error: &client::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    source.is_some_and(hyper::Error::is_user)
}

/// Removes the headers of the connection, and those that it names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in OF_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::http::header::CONTENT_TYPE;
    use futures_util::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn at(listener: &TcpListener) -> Arc<str> {
        format!("http://{}", listener.local_addr().unwrap()).into()
    }

    fn write(body: Body) -> Request {
        let request = Request::post("http://follower/v1/insert?id=1").header(HOST, "follower");
        request
            .header(EXPECT, "100-continue")
            .header(ORIGIN, "http://follower")
            .header(SEC_FETCH_SITE, "same-origin")
            .header(CONTENT_TYPE, "text/plain")
            .body(body)
            .unwrap()
    }

    fn unlimited() -> ForwardLimits<'static> {
        ForwardLimits { reply: None, moved: Box::pin(std::future::pending()) }
    }

    /// The code of the error of a request that writes.
    async fn code(forwarder: &Forwarder, to: &ForwardTarget, body: Body) -> &'static str {
        let problem =
            forwarder.forward(write(body), to, true, unlimited()).await.expect_err("a problem");
        problem.logged().code
    }

    #[tokio::test]
    async fn who_is_at_fault_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = Forwarder::new(None, 4).unwrap();
        let primary = ForwardTarget::Primary(at(&listener));
        let breaking = futures_util::stream::iter([Ok("a"), Err(io::Error::other("gone"))]);
        let breaking = Body::from_stream(breaking.then(async |piece| {
            tokio::task::yield_now().await;
            piece
        }));
        let (own, _held) = tokio::join!(code(&forwarder, &primary, breaking), listener.accept());
        assert_eq!(own, "body_incomplete");
        let closes = async || {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4_096];
            let read = stream.read(&mut head).await.unwrap();
            String::from_utf8_lossy(&head[..read]).to_lowercase()
        };
        let (unknown, head) =
            tokio::join!(code(&forwarder, &primary, Body::from("text")), closes());
        assert_eq!(unknown, "outcome_unknown");
        assert!(head.starts_with("post /v1/insert?id=1 http/1.1\r\n"), "{head}");
        assert!(head.contains("nearprint-forwarded: 1\r\n"), "{head}");
        for checked in ["expect:", "host: follower", "origin:", "sec-fetch-site:"] {
            assert!(!head.contains(checked), "{head}");
        }
        // A request that only reads may be sent again.
        let leader = ForwardTarget::Leader(at(&listener));
        let reads = forwarder.forward(write(Body::from("text")), &leader, false, unlimited());
        let (read, _) = tokio::join!(reads, closes());
        assert!(read.unwrap_err().is(Code::LeaderUnreachable));
        drop(listener);
        for (to, expected) in [(&primary, "primary_unreachable"), (&leader, "leader_unreachable")] {
            assert_eq!(code(&forwarder, to, Body::from("text")).await, expected);
        }
    }

    #[tokio::test]
    async fn a_request_is_passed_on_once() {
        let forwarder = Forwarder::new(None, 4).unwrap();
        // Nobody listens at port 0.
        let at: Arc<str> = "http://127.0.0.1:0".into();
        for (to, expected) in [
            (ForwardTarget::Primary(Arc::clone(&at)), Code::Follower),
            (ForwardTarget::Leader(at), Code::NoLeader),
        ] {
            let mut request = write(Body::from("text"));
            request.headers_mut().insert(FORWARDED, HeaderValue::from_static("1"));
            let problem = forwarder.forward(request, &to, true, unlimited()).await.unwrap_err();
            assert!(problem.is(expected) && problem.body().detail.contains("once already"));
        }
    }

    #[tokio::test]
    async fn who_is_silent_takes_half_of_the_requests_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = Forwarder::new(None, 2).unwrap();
        let to = ForwardTarget::Primary(at(&listener));
        let waits = forwarder.forward(write(Body::from("text")), &to, true, unlimited());
        tokio::pin!(waits);
        let (mut stream, _) = tokio::select! {
            _ = &mut waits => panic!("nobody has answered"),
            accepted = listener.accept() => accepted.unwrap(),
        };
        assert_eq!(code(&forwarder, &to, Body::from("more")).await, "overloaded");
        let mut request = [0; 4_096];
        let answers = async {
            let _head = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        };
        let (response, ()) = tokio::join!(waits, answers);
        assert_eq!(forwarder.places.taken(), 1, "its reply is not sent yet");
        drop(response);
        assert_eq!(forwarder.places.taken(), 0);
    }

    /// Somebody who accepts, and says nothing.
    #[tokio::test]
    async fn who_is_silent_is_given_up_after_the_time_of_a_write_or_when_another_leads() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = Forwarder::new(None, 4).unwrap();
        let to = ForwardTarget::Leader(at(&listener));
        let forward = |body, limits| {
            let forwarded = forwarder.forward(write(body), &to, true, limits);
            async move { forwarded.await.unwrap_err() }
        };
        let reply = Some(Duration::from_millis(50));
        let silent = ForwardLimits { reply, ..unlimited() };
        let late = forward(Body::from("text"), silent).await;
        assert!(late.is(Code::OutcomeUnknown) && late.body().detail.contains("for 50 ms"));
        let empty = forward(Body::empty(), ForwardLimits { reply, ..unlimited() }).await;
        assert!(empty.is(Code::OutcomeUnknown), "without a body the time begins at once");
        // The body does not end, so only the other leader does.
        let endless = Body::from_stream(futures_util::stream::pending::<Result<&str, io::Error>>());
        let moved = tokio::time::sleep(Duration::from_millis(100));
        let moves = forward(endless, ForwardLimits { reply, moved: Box::pin(moved) }).await;
        assert!(moves.is(Code::OutcomeUnknown), "{moves:?}");
        assert!(moves.body().detail.contains("Another node leads"), "{moves:?}");
    }

    #[tokio::test]
    async fn a_probe_asks_who_decides_once_a_second() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = Forwarder::new(None, 4).unwrap();
        let to = ForwardTarget::Leader(at(&listener));
        let answers = async |reply: &str| {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4_096];
            let read = stream.read(&mut head).await.unwrap();
            stream.write_all(reply.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        };
        let other = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (found, head) = tokio::join!(forwarder.probe(&to), answers(other));
        assert!(found.is_err_and(|why| why.contains("404")));
        assert!(head.starts_with("GET /readyz/writes ") && head.contains("nearprint-forwarded"));
        assert!(forwarder.probe(&to).await.is_err(), "nobody is asked again so soon");
        let elsewhere = ForwardTarget::Leader("http://127.0.0.1:0".into());
        let why = forwarder.probe(&elsewhere).await.unwrap_err();
        assert!(elsewhere.away(&why).is(Code::LeaderUnreachable), "{why}");
        *forwarder.probed.lock().await = None;
        let ok = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (found, _) = tokio::join!(forwarder.probe(&to), answers(ok));
        assert_eq!(found, Ok(()));
    }

    #[test]
    fn headers_of_the_connection_stay_on_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Of-Hop"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("upgrade", "h2c"),
            ("x-of-hop", "1"),
            ("authorization", "Bearer t"),
            ("content-type", "application/json"),
        ] {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "content-type"]);
    }
}
