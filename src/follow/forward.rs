//! Passes requests that write on to the primary: request and reply as streams, with the token.
//!
//! The follower adds nothing to what the primary answers. A request is passed on once: a follower of
//! a follower refuses it.

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

use super::FollowOptions;
use crate::http::{Code, Problem};
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
}

impl Forwarder {
    /// # Errors
    /// [`RemoteError`]: the file of certificates cannot be used.
    pub(crate) fn new(options: &FollowOptions) -> Result<Self, RemoteError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(GONE_AFTER / 2));
        connector.set_keepalive_interval(Some(GONE_AFTER / 4));
        connector.set_keepalive_retries(Some(2));
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
        Ok(Self { client, url: options.url.clone() })
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
            return Err(refused(&self.url));
        }
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
        Ok(Response::from_parts(head, Body::new(body)))
    }

    fn failed(&self, error: &hyper_util::client::legacy::Error) -> Problem {
        tracing::warn!(%error, primary = self.url, "a request was not passed on");
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
