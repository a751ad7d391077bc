//! Requests and their replies.

use std::error::Error;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::{self, Runtime};
use tokio::time::{error::Elapsed, timeout};

use crate::trust::{self, RemoteError, Trust};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest reply that [`ServiceClient::ask`] reads.
const ASKED_BYTES_MAX: usize = 16 << 20;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of certificates cannot be used.
    #[error(transparent)]
    Credentials(#[from] RemoteError),
    /// The token cannot be sent.
    #[error("the token has characters that a header cannot have")]
    Token,
    /// No answer.
    #[error("{0}")]
    NoAnswer(String),
    /// The operating system has no thread for the client.
    #[error("no thread for a client: {0}")]
    Thread(io::Error),
}

/// A service at an address. Its methods block, so they are not for async threads; whatever status a
/// reply has, it is a reply.
#[derive(Debug)]
pub struct ServiceClient {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Arc<Runtime>,
    url: String,
    authorization: Option<HeaderValue>,
    silence_max: Duration,
}

impl ServiceClient {
    /// The service at an address such as `http://10.0.0.1:7878`, which may be silent for so long;
    /// connects with the first request.
    ///
    /// # Errors
    /// [`ClientError::Credentials`], [`ClientError::Token`], [`ClientError::Thread`].
    pub fn new(
        url: &str,
        token: Option<&str>,
        trust: Trust<'_>,
        silence_max: Duration,
    ) -> Result<Self, ClientError> {
        let url = url.trim_end_matches('/');
        let scheme = if url.contains("://") { "" } else { "http://" };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let tls = HttpsConnectorBuilder::new().with_tls_config(trust::tls(trust)?);
        let connector = tls.https_or_http().enable_http1().wrap_connector(connector);
        // One thread, so that a connection that the service closes is noticed between two requests.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let header = |token| HeaderValue::from_str(&format!("Bearer {token}"));
        let authorization = token.map(header).transpose();
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Arc::new(runtime.map_err(ClientError::Thread)?),
            url: format!("{scheme}{url}"),
            authorization: authorization.map_err(|_| ClientError::Token)?,
            silence_max,
        })
    }

    /// The address, with its scheme and without a `/` at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request once. The media type is that of the body, or without one that of the reply.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`].
    pub fn send(
        &self,
        method: &Method,
        (path, media_type): (&str, &str),
        body: Option<&Bytes>,
    ) -> Result<Response<ReplyBody>, ClientError> {
        let name = if body.is_some() { CONTENT_TYPE } else { ACCEPT };
        let body = body.cloned().unwrap_or_default();
        let request = self.request(method, path, (name, media_type), body)?;
        let sent = self.within(self.http.request(request));
        let reply = sent.map_err(|_| self.silent())?.map_err(|error| no_answer(&error))?;
        let (runtime, silence_max) = (Arc::clone(&self.runtime), self.silence_max);
        Ok(reply.map(|body| ReplyBody { body, runtime, silence_max, frame: Bytes::new() }))
    }

    /// Gets a path once; the status, and the whole body. All of it may take as long as the service
    /// may be silent.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`].
    pub fn ask(&self, path: &str) -> Result<(u16, Bytes), ClientError> {
        let request = self.request(&Method::GET, path, (ACCEPT, "*/*"), Bytes::new())?;
        let asked = async {
            let reply = self.http.request(request).await.map_err(|error| no_answer(&error))?;
            let (head, body) = reply.into_parts();
            let body = Limited::new(body, ASKED_BYTES_MAX).collect().await;
            let body = body.map_err(|error| ClientError::NoAnswer(error.to_string()))?;
            Ok((head.status.as_u16(), body.to_bytes()))
        };
        self.within(asked).map_err(|_| self.silent())?
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        header: (HeaderName, &str),
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.header(header.0, header.1).body(Full::new(body));
        request.map_err(|error| ClientError::NoAnswer(error.to_string()))
    }

    /// Waits for as long as the service may be silent.
    fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Elapsed> {
        self.runtime.block_on(async { timeout(self.silence_max, work).await })
    }

    fn silent(&self) -> ClientError {
        ClientError::NoAnswer(nothing_came(self.silence_max))
    }
}

/// The body of a reply.
#[derive(Debug)]
pub struct ReplyBody {
    body: Incoming,
    runtime: Arc<Runtime>,
    silence_max: Duration,
    frame: Bytes,
}

impl ReplyBody {
    /// From now on a read that finds nothing for this time fails as
    /// [`TimedOut`](io::ErrorKind::TimedOut). It can be repeated.
    pub fn set_silence_max(&mut self, silence_max: Duration) {
        self.silence_max = silence_max;
    }
}

impl Read for ReplyBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.is_empty() {
            let next = async { timeout(self.silence_max, self.body.frame()).await };
            let next = self.runtime.block_on(next);
            let next = next.map_err(|_| {
                io::Error::new(io::ErrorKind::TimedOut, nothing_came(self.silence_max))
            })?;
            let Some(frame) = next else { return Ok(0) };
            let frame = frame.map_err(|error| io::Error::other(why(&error)))?;
            self.frame = frame.into_data().unwrap_or_default();
        }
        let count = buffer.len().min(self.frame.len());
        buffer[..count].copy_from_slice(&self.frame.split_to(count));
        Ok(count)
    }
}

fn nothing_came(silence_max: Duration) -> String {
    format!("nothing came for {} ms", silence_max.as_millis())
}

fn no_answer(error: &dyn Error) -> ClientError {
    ClientError::NoAnswer(why(error))
}

/// The causes of an error of hyper, which itself says no more than that a request failed.
fn why(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// A service that answers the first request with these bytes, and then is silent.
    fn service(reply: &'static str) -> ServiceClient {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            stream.write_all(reply.as_bytes()).unwrap();
            // Until the client has left.
            drop(head.next());
        });
        ServiceClient::new(&address, Some("t"), Trust::Public, Duration::from_millis(200)).unwrap()
    }

    #[test]
    fn every_status_is_a_reply_whose_body_is_read_as_it_comes() {
        let client = service("HTTP/1.1 503 Busy\r\ncontent-length: 5\r\n\r\nagain");
        let reply = client.send(&Method::GET, ("/", "*/*"), None).unwrap();
        let (head, mut body) = reply.into_parts();
        assert_eq!(head.status, 503);
        let mut text = String::new();
        body.read_to_string(&mut text).unwrap();
        assert_eq!(text, "again");
    }

    #[test]
    fn a_service_that_falls_silent_is_given_up() {
        let client = service("");
        let error = client.send(&Method::GET, ("/", "*/*"), None).unwrap_err();
        assert_eq!(error.to_string(), "nothing came for 200 ms");
        let client = service("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nag");
        let mut body = client.send(&Method::GET, ("/", "*/*"), None).unwrap().into_body();
        let error = body.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let client = service("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nag");
        assert!(matches!(client.ask("/"), Err(ClientError::NoAnswer(_))));
    }

    #[test]
    fn a_service_that_is_not_there_is_named_with_the_cause() {
        let client = ServiceClient::new("127.0.0.1:1", None, Trust::Public, Duration::from_secs(5));
        let client = client.unwrap();
        assert_eq!(client.url(), "http://127.0.0.1:1");
        let error = client.ask("/").unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
    }
}
