//! Requests and their replies.

use std::error::Error;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use hyper::http::uri::InvalidUri;
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use rustls::InvalidMessage;
use tokio::runtime::{self, Runtime};
use tokio::time::{Instant, timeout_at};

use crate::trust::{self, RemoteError, Trust};

/// How long a connection may take. The addresses of a name share it, so that one that is silent
/// does not keep the client from the next; those of IPv4 and IPv6 are tried side by side.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest reply that [`ServiceClient::ask`] reads.
const ASKED_BYTES_MAX: u64 = 16 << 20;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file of certificates cannot be used.
    #[error(transparent)]
    Credentials(#[from] RemoteError),
    /// The address is none of a service.
    #[error("{url} is not an address such as http://127.0.0.1:7878: {why}")]
    Address {
        /// The address, with its scheme.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The token cannot be sent.
    #[error("the token has characters that a header cannot have")]
    Token,
    /// No connection could be made, so nothing was sent.
    #[error("{0}")]
    Unconnected(String),
    /// The connection was lost before the reply began. What was sent may have been carried out.
    #[error("{0}")]
    Lost(String),
    /// No answer, nor one to expect from the same request: none came in time, the certificate is
    /// not trusted, or what answers does not speak HTTP.
    #[error("{0}")]
    NoAnswer(String),
    /// The operating system has no thread for the client.
    #[error("no thread for a client: {0}")]
    Thread(io::Error),
}

/// The thread that connections are on.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Background {
    fn new() -> io::Result<Self> {
        // One thread, so that a connection is read between two requests: one that the service
        // closes, or on which it sends what nobody asked for, is not used again.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.map(|runtime| Self(Some(runtime)))
    }

    /// What comes of this work until the deadline.
    fn by<T>(&self, deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(async { timeout_at(deadline, work).await.ok() })
    }
}

impl Drop for Background {
    /// Does not wait for a name server that is silent.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A service at an address. Its methods block, so they are not for async threads; whatever status a
/// reply has, it is a reply. No redirect is followed.
#[derive(Debug)]
pub struct ServiceClient {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Arc<Background>,
    url: String,
    authorization: Option<HeaderValue>,
    silence_max: Duration,
}

impl ServiceClient {
    /// The service at an address such as `http://10.0.0.1:7878`, which may be silent for so long
    /// while it sends a long reply; connects with the first request.
    ///
    /// # Errors
    /// [`ClientError::Address`], [`ClientError::Credentials`], [`ClientError::Token`],
    /// [`ClientError::Thread`].
    pub fn new(
        url: &str,
        token: Option<&str>,
        trust: Trust<'_>,
        silence_max: Duration,
    ) -> Result<Self, ClientError> {
        let url = url.trim_end_matches('/');
        let scheme = if url.contains("://") { "" } else { "http://" };
        let url = format!("{scheme}{url}");
        check_address(&url)?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT.min(silence_max)));
        let tls = HttpsConnectorBuilder::new().with_tls_config(trust::tls(trust)?);
        let connector = tls.https_or_http().enable_http1().wrap_connector(connector);
        let header = |token| HeaderValue::from_str(&format!("Bearer {token}"));
        let authorization = token.map(header).transpose();
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Arc::new(Background::new().map_err(ClientError::Thread)?),
            url,
            authorization: authorization.map_err(|_| ClientError::Token)?,
            silence_max,
        })
    }

    /// The address, with its scheme and without a `/` at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request once, whose reply begins within a time: that of a look-up of the name, of
    /// connecting to its addresses and of sending the request included. The media type is that of
    /// the body, or without one that of the reply.
    ///
    /// A reply that succeeds in a coding, which was not asked for, is an error.
    ///
    /// # Errors
    /// [`ClientError::Unconnected`], [`ClientError::Lost`], [`ClientError::NoAnswer`].
    pub fn send(
        &self,
        method: &Method,
        (path, media_type): (&str, &str),
        body: Option<&Bytes>,
        within: Duration,
    ) -> Result<Response<ReplyBody>, ClientError> {
        let name = if body.is_some() { CONTENT_TYPE } else { ACCEPT };
        let body = body.cloned().unwrap_or_default();
        let request = self.request(method, path, (name, media_type), body)?;
        let deadline = Instant::now() + within;
        let sent = self.runtime.by(deadline, self.http.request(request));
        let sent = sent.ok_or_else(|| ClientError::NoAnswer(nothing_came(within)))?;
        let reply = sent.map_err(|error| unanswered(&error))?;
        check_codings(&reply)?;
        let (head, body) = reply.into_parts();
        let body = ReplyBody {
            body,
            runtime: Arc::clone(&self.runtime),
            silence_max: self.silence_max,
            deadline,
            within,
            bytes_max: None,
            bytes: 0,
            frame: Bytes::new(),
        };
        Ok(Response::from_parts(head, body))
    }

    /// Gets a path once; the status, and the whole body. All of it may take as long as the service
    /// may be silent.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn ask(&self, path: &str) -> Result<(u16, Vec<u8>), ClientError> {
        let reply = self.send(&Method::GET, (path, "*/*"), None, self.silence_max)?;
        let (head, body) = reply.into_parts();
        let mut read = Vec::new();
        let whole = body.whole(ASKED_BYTES_MAX).read_to_end(&mut read);
        whole.map_err(|error| ClientError::NoAnswer(error.to_string()))?;
        Ok((head.status.as_u16(), read))
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
}

/// The body of a reply. A read fails as [`TimedOut`](io::ErrorKind::TimedOut) if nothing comes, and
/// as [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the reply breaks off.
#[derive(Debug)]
pub struct ReplyBody {
    body: Incoming,
    runtime: Arc<Background>,
    silence_max: Duration,
    /// When the reply had to begin, which was so long after its request.
    deadline: Instant,
    within: Duration,
    /// Of a body that is read as a whole, by the same deadline.
    bytes_max: Option<u64>,
    bytes: u64,
    frame: Bytes,
}

impl ReplyBody {
    /// From now on a read that finds nothing for this time fails as
    /// [`TimedOut`](io::ErrorKind::TimedOut). It can be repeated.
    pub fn set_silence_max(&mut self, silence_max: Duration) {
        self.silence_max = silence_max;
    }

    /// The body of a reply that is read as a whole. It has at most so many bytes, and all of them
    /// come within the time that the reply had to begin, however slowly: otherwise a read fails.
    #[must_use]
    pub fn whole(self, bytes_max: u64) -> Self {
        Self { bytes_max: Some(bytes_max), ..self }
    }

    /// The next bytes; `None` at the end.
    fn next_bytes(&mut self) -> io::Result<Option<Bytes>> {
        let (deadline, late) = match self.bytes_max {
            Some(_) => (self.deadline, format!("it was not whole after {}", ms(self.within))),
            None => (Instant::now() + self.silence_max, nothing_came(self.silence_max)),
        };
        // A wait alone would not end what always comes at once.
        let is_late = self.bytes_max.is_some() && Instant::now() >= deadline;
        let next = (!is_late).then(|| self.runtime.by(deadline, self.body.frame()));
        let next = next.flatten().ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, late))?;
        let Some(frame) = next else { return Ok(None) };
        let broke_off = |error| io::Error::new(io::ErrorKind::UnexpectedEof, why(&error));
        let frame = frame.map_err(broke_off)?.into_data().unwrap_or_default();
        self.bytes = self.bytes.saturating_add(frame.len() as u64);
        // With what is still to come, if the reply says how much.
        let bytes = self.bytes.saturating_add(self.body.size_hint().lower());
        match self.bytes_max {
            Some(max) if bytes > max => {
                Err(io::Error::other(format!("it is longer than {max} bytes")))
            }
            _ => Ok(Some(frame)),
        }
    }
}

impl Read for ReplyBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.is_empty() {
            let Some(frame) = self.next_bytes()? else { return Ok(0) };
            self.frame = frame;
        }
        let count = buffer.len().min(self.frame.len());
        buffer[..count].copy_from_slice(&self.frame.split_to(count));
        Ok(count)
    }
}

/// Refuses an address that hyper would take for another: one with a port that is none for the usual
/// port, one with a password for the same without it.
fn check_address(url: &str) -> Result<(), ClientError> {
    let wrong = |why: &str| ClientError::Address { url: url.to_owned(), why: why.to_owned() };
    let uri: Uri = url.parse().map_err(|error: InvalidUri| wrong(&error.to_string()))?;
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return Err(wrong("it has no host"));
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("it is neither http nor https"));
    }
    if authority.as_str().contains('@') {
        return Err(wrong("it has a user or a password; a service takes a token"));
    }
    let has_port = authority.as_str() != authority.host();
    if has_port && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(wrong("its port is not a number from 1 to 65535"));
    }
    Ok(())
}

fn nothing_came(silence_max: Duration) -> String {
    format!("nothing came for {}", ms(silence_max))
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1_000.0)
}

/// Why a request has no reply.
fn unanswered(error: &legacy::Error) -> ClientError {
    let tls = causes(error).find_map(of_tls);
    if let Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) = tls {
        return ClientError::NoAnswer("what answers does not speak TLS; is it http://?".to_owned());
    }
    let is_foreign =
        causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_parse));
    let is_final = is_foreign || tls.is_some();
    match why(error) {
        why if is_final => ClientError::NoAnswer(why),
        why if error.is_connect() => ClientError::Unconnected(why),
        why => ClientError::Lost(why),
    }
}

/// The error of TLS that a cause is, or that errors of input and output are wrapped around.
fn of_tls<'a>(mut cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    while let Some(error) = cause.downcast_ref::<io::Error>() {
        cause = error.get_ref()?;
    }
    cause.downcast_ref()
}

/// The causes of an error of hyper, which itself says no more than that a request failed.
fn why(error: &dyn Error) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    if causes.is_empty() { error.to_string() } else { causes.join(": ") }
}

fn causes<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// Refuses a reply that succeeds in a coding: no request offers to read one.
fn check_codings(reply: &Response<Incoming>) -> Result<(), ClientError> {
    for (name, plain) in [(CONTENT_ENCODING, "identity"), (TRANSFER_ENCODING, "chunked")] {
        let mut codings = reply.headers().get_all(&name).into_iter();
        let other =
            codings.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(plain.as_bytes()));
        if let (Some(coding), true) = (other, reply.status().is_success()) {
            return Err(ClientError::NoAnswer(format!("its reply has the {name} {coding:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_mins(1);

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
        ServiceClient::new(&address, Some("t"), Trust::Public, SHORT).unwrap()
    }

    #[test]
    fn every_status_is_a_reply_whose_body_is_read_as_it_comes() {
        let client = service("HTTP/1.1 503 Busy\r\ncontent-length: 5\r\n\r\nagain");
        let reply = client.send(&Method::GET, ("/", "*/*"), None, SHORT).unwrap();
        let (head, mut body) = reply.into_parts();
        assert_eq!(head.status, 503);
        let mut text = String::new();
        body.read_to_string(&mut text).unwrap();
        assert_eq!(text, "again");
    }

    #[test]
    fn an_address_that_would_be_taken_for_another_is_refused() {
        let client = |url| ServiceClient::new(url, None, Trust::Public, SHORT);
        for (url, why) in [
            ("http://127.0.0.1:65536", "its port is not a number from 1 to 65535"),
            ("http://[::1]:99999/np", "its port is not a number from 1 to 65535"),
            ("127.0.0.1:0", "its port is not a number from 1 to 65535"),
            ("http://host:", "its port is not a number from 1 to 65535"),
            ("http://me:secret@host:80", "it has a user or a password; a service takes a token"),
            ("ftp://host", "it is neither http nor https"),
            ("http://", ""),
            ("", ""),
        ] {
            let refused = client(url).unwrap_err().to_string();
            assert!(refused.contains("is not an address") && refused.ends_with(why), "{refused}");
        }
        for url in ["127.0.0.1:65535", "http://host", "https://[::1]:7878/np/", "localhost:7878"] {
            assert!(client(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_service_without_tls_is_told_from_one_that_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            drop(stream.read_to_end(&mut Vec::new()));
        });
        let client = ServiceClient::new(&url, None, Trust::Anybody, LONG).unwrap();
        let error = client.send(&Method::GET, ("/", "*/*"), None, LONG).unwrap_err();
        assert_eq!(error.to_string(), "what answers does not speak TLS; is it http://?");
        drop(client);
        server.join().unwrap();
    }

    #[test]
    fn a_service_that_falls_silent_is_given_up() {
        let client = service("");
        let error = client.send(&Method::GET, ("/", "*/*"), None, SHORT).unwrap_err();
        assert_eq!(error.to_string(), "nothing came for 200 ms");
        let client = service("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nag");
        let sent = client.send(&Method::GET, ("/", "*/*"), None, SHORT);
        let mut body = sent.unwrap().into_body();
        let error = body.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let client = service("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nag");
        assert!(matches!(client.ask("/"), Err(ClientError::NoAnswer(_))));
    }

    #[test]
    fn a_whole_reply_has_a_deadline_and_a_limit() {
        let whole = |reply, bytes_max, within| {
            let sent = service(reply).send(&Method::GET, ("/", "*/*"), None, within);
            let mut read = String::new();
            let whole = sent.unwrap().into_body().whole(bytes_max).read_to_string(&mut read);
            whole.map(|_| read).map_err(|error| error.to_string())
        };
        let reply = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nagain";
        assert_eq!(whole(reply, 5, LONG).as_deref(), Ok("again"));
        assert_eq!(whole(reply, 4, LONG), Err("it is longer than 4 bytes".to_owned()));
        let cut = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nag";
        assert_eq!(whole(cut, 5, SHORT), Err("it was not whole after 200 ms".to_owned()));
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nag";
        let told = whole(long, 5, LONG);
        assert_eq!(told, Err("it is longer than 5 bytes".to_owned()), "its rest is not awaited");
        // A reply to nothing cannot come after the end.
        let two = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(whole(two, 5, LONG).as_deref(), Ok("ok"));
    }

    #[test]
    fn a_reply_in_a_coding_is_refused_if_it_succeeds() {
        for coding in ["content-encoding: br", "transfer-encoding: gzip, chunked"] {
            let reply = |status| format!("HTTP/1.1 {status}\r\n{coding}\r\n\r\n0\r\n\r\n");
            let ask =
                |status| service(reply(status).leak()).send(&Method::GET, ("/", "*/*"), None, LONG);
            let error = ask("200 OK").unwrap_err().to_string();
            assert!(error.starts_with("its reply has the "), "{error}");
            assert_eq!(ask("404 Not Found").unwrap().status(), 404);
        }
    }

    #[test]
    fn what_was_not_sent_is_told_from_what_was_lost_and_from_what_is_final() {
        let gone = ServiceClient::new("127.0.0.1:1", None, Trust::Public, LONG).unwrap();
        assert!(matches!(gone.ask("/"), Err(ClientError::Unconnected(_))));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for (stream, reply) in listener.incoming().zip(["", "SSH-2.0-x\r\n"]) {
                let mut stream = stream.unwrap();
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
                while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
        let client = ServiceClient::new(&address, None, Trust::Public, LONG).unwrap();
        assert!(matches!(client.ask("/"), Err(ClientError::Lost(_))));
        assert!(matches!(client.ask("/"), Err(ClientError::NoAnswer(_))));
    }

    #[test]
    fn a_connection_on_which_something_unasked_came_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let reply =
            |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        let (now, told) = mpsc::channel();
        let (closed, was_closed) = mpsc::channel();
        thread::spawn(move || {
            let answer = |text: &str| {
                let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
                while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                stream.write_all(reply(text).as_bytes()).unwrap();
                stream
            };
            let mut first = answer("first");
            told.recv().unwrap();
            first.write_all(reply("unasked").as_bytes()).unwrap();
            // Until the client, whose thread may have to wait for a core, has closed it.
            first.set_read_timeout(Some(LONG)).unwrap();
            drop(first.read_to_end(&mut Vec::new()));
            closed.send(()).unwrap();
            drop(answer("second"));
        });
        let client = ServiceClient::new(&address, None, Trust::Public, LONG);
        let client = client.unwrap();
        assert_eq!(client.ask("/").unwrap(), (200, b"first".to_vec()));
        now.send(()).unwrap();
        was_closed.recv().unwrap();
        assert_eq!(client.ask("/").unwrap(), (200, b"second".to_vec()));
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
