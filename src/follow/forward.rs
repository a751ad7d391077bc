//! Passes requests that write on to the primary: request and reply as streams, with the token.
//!
//! The follower adds nothing to what the primary answers, and does not decompress what it passes on. A
//! request is passed on once: a follower of a follower refuses it. At most half of the requests in
//! flight are passed on at one time, so that look-ups go on while a primary accepts and is silent.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CONNECTION, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use tokio::sync::Semaphore;

use super::FollowOptions;
use crate::http::{Code, Guarded, Problem};
use crate::remote::{self, RemoteError};

/// Marks a request that was passed on.
const FORWARDED: HeaderName = HeaderName::from_static("nearprint-forwarded");

/// Headers that are about one connection (RFC 9110, section 7.6.1).
const OF_CONNECTION: [HeaderName; 6] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A primary whose machine is gone is noticed after about this time.
const GONE_AFTER: Duration = Duration::from_secs(20);
/// Shorter than a service keeps idle connections by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The way to the primary.
#[derive(Debug)]
pub(crate) struct Forwarder {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    url: String,
    permits: Arc<Semaphore>,
    permits_max: usize,
}

impl Forwarder {
    /// For a service that works on this many requests at one time.
    ///
    /// # Errors
    /// [`RemoteError`]: the file of certificates cannot be used.
    pub(crate) fn new(options: &FollowOptions, in_flight_max: usize) -> Result<Self, RemoteError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(GONE_AFTER / 2));
        connector.set_keepalive_interval(Some(GONE_AFTER / 4));
        connector.set_keepalive_retries(Some(2));
        // Also while bytes that were sent are not acknowledged, when there are no probes.
        connector.set_tcp_user_timeout(Some(GONE_AFTER));
        let builder = hyper_rustls::HttpsConnectorBuilder::new();
        let builder = match options.ca_file.as_deref() {
            None => builder.with_webpki_roots(),
            Some(file) => {
                let roots = remote::root_store(file)?;
                let config = ClientConfig::builder().with_root_certificates(roots);
                builder.with_tls_config(config.with_no_client_auth())
            }
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let client =
            Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(connector);
        let permits_max = in_flight_max.div_ceil(2);
        let permits = Arc::new(Semaphore::new(permits_max));
        Ok(Self { client, url: options.url.clone(), permits, permits_max })
    }

    /// Passes a request on, and the reply back.
    pub(crate) async fn forward(&self, request: Request) -> Response {
        match self.send(request).await {
            Ok(response) => response,
            Err(problem) => problem.into_response(),
        }
    }

    async fn send(&self, request: Request) -> Result<Response, Problem> {
        if request.headers().contains_key(FORWARDED) {
            let detail = format!(
                "This service follows {}, and the request was passed on once already; nothing was \
                 changed. Name the primary itself in follow.url of the service that passed it on.",
                self.url
            );
            return Err(Problem::new(Code::Follower, detail));
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| self.full())?;
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = format!("{}{path}", self.url)
            .parse::<Uri>()
            .map_err(|error| Problem::internal(format!("the address of the primary: {error}")))?;
        strip(&mut head.headers);
        head.headers.remove(HOST);
        head.headers.remove(EXPECT);
        head.headers.insert(FORWARDED, HeaderValue::from_static("1"));
        head.extensions.clear();
        let reply = self.client.request(Request::from_parts(head, body)).await;
        let (mut head, body) = reply.map_err(|error| self.failed(&error))?.into_parts();
        strip(&mut head.headers);
        Ok(Response::from_parts(head, Body::new(Guarded::new(body, permit))))
    }

    fn full(&self) -> Problem {
        let detail = format!(
            "{} writes are being passed on to the primary already, half of \
             server.requests_in_flight_max; nothing was changed.",
            self.permits_max
        );
        Problem::new(Code::Overloaded, detail)
    }

    fn failed(&self, error: &hyper_util::client::legacy::Error) -> Problem {
        if is_of_body(error) {
            let detail = "The body broke off before it was passed on to the primary as a whole.";
            return Problem::new(Code::BodyIncomplete, detail);
        }
        tracing::warn!(%error, primary = self.url, "a request was not answered by the primary");
        if error.is_connect() {
            let detail = format!(
                "This service follows {}, which does not answer; nothing was changed. Look-ups go on.",
                self.url
            );
            return Problem::new(Code::PrimaryUnreachable, detail);
        }
        let detail = format!(
            "The connection to the primary {} broke off before its reply. Whether it has done what was \
             asked is not known; a document with an id may be sent again.",
            self.url
        );
        Problem::new(Code::OutcomeUnknown, detail)
    }
}

/// Whether the body of the client failed, and not the primary.
fn is_of_body(error: &hyper_util::client::legacy::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    source.is_some_and(hyper::Error::is_user)
}

/// The reply to a request that writes.
pub(crate) fn refused(primary: &str) -> Problem {
    let detail = format!(
        "This service is a copy that follows {primary} and answers look-ups; nothing was changed. Send \
         this request there, or start the follower with follow.forward = true."
    );
    Problem::new(Code::Follower, detail)
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
    use axum::http::header::CONTENT_TYPE;
    use futures_util::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn to(listener: &TcpListener, in_flight_max: usize) -> Forwarder {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options = FollowOptions { url, token_file: None, ca_file: None, forward: true };
        Forwarder::new(&options, in_flight_max).unwrap()
    }

    fn write(body: Body) -> Request {
        let request = Request::post("http://follower/v1/insert?id=1").header(HOST, "follower");
        request
            .header(EXPECT, "100-continue")
            .header(CONTENT_TYPE, "text/plain")
            .body(body)
            .unwrap()
    }

    async fn code(forwarder: &Forwarder, request: Request) -> &'static str {
        let response = forwarder.forward(request).await;
        response.extensions().get::<crate::http::problem::Failure>().expect("a problem").code
    }

    #[tokio::test]
    async fn who_is_at_fault_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = to(&listener, 4);
        let breaking = futures_util::stream::iter([Ok("a"), Err(std::io::Error::other("gone"))]);
        let breaking = write(Body::from_stream(breaking.then(async |piece| {
            tokio::task::yield_now().await;
            piece
        })));
        let (own, _held) = tokio::join!(code(&forwarder, breaking), listener.accept());
        assert_eq!(own, "body_incomplete");
        let closes = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4_096];
            let read = stream.read(&mut head).await.unwrap();
            String::from_utf8_lossy(&head[..read]).to_lowercase()
        };
        let (unknown, head) = tokio::join!(code(&forwarder, write(Body::from("text"))), closes);
        assert_eq!(unknown, "outcome_unknown");
        assert!(head.starts_with("post /v1/insert?id=1 http/1.1\r\n"), "{head}");
        assert!(head.contains("nearprint-forwarded: 1\r\n"), "{head}");
        assert!(!head.contains("expect:") && !head.contains("host: follower"), "{head}");
        drop(listener);
        assert_eq!(code(&forwarder, write(Body::from("text"))).await, "primary_unreachable");
    }

    #[tokio::test]
    async fn a_silent_primary_takes_half_of_the_requests_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forwarder = to(&listener, 2);
        let waits = forwarder.forward(write(Body::from("text")));
        tokio::pin!(waits);
        let (mut stream, _) = tokio::select! {
            _ = &mut waits => panic!("nobody has answered"),
            accepted = listener.accept() => accepted.unwrap(),
        };
        assert_eq!(code(&forwarder, write(Body::from("more"))).await, "overloaded");
        let mut request = [0; 4_096];
        let answers = async {
            let _head = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        };
        let (response, ()) = tokio::join!(waits, answers);
        assert_eq!(forwarder.permits.available_permits(), 0, "its reply is not sent yet");
        drop(response);
        assert_eq!(forwarder.permits.available_permits(), 1);
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
