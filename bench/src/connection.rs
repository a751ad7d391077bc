//! One keep-alive connection to a service, used by one blocking thread.

use anyhow::{Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};

/// A request with its whole body. A copy shares the body.
pub(super) type Request = hyper::Request<Full<Bytes>>;

pub(super) fn get(path: &str) -> Request {
    request(Method::GET, path, "text/plain", Bytes::new())
}

pub(super) fn post(path: &str, content_type: &str, body: impl Into<Bytes>) -> Request {
    request(Method::POST, path, content_type, body.into())
}

pub(super) fn request(method: Method, path: &str, content_type: &str, body: Bytes) -> Request {
    hyper::Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, content_type)
        .body(Full::new(body))
        .expect("paths and types are valid")
}

/// A connection that is kept alive.
#[derive(Debug)]
pub(super) struct Connection {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to `host:port`.
    pub(super) fn open(address: &str) -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let sender = runtime.block_on(async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            // An error of the connection shows in the request that it cuts off.
            drop(tokio::spawn(connection));
            anyhow::Ok(sender)
        })?;
        Ok(Self { runtime, sender })
    }

    /// Sends a request and waits for the body of its reply; any status but 200 is an error.
    pub(super) fn send(&mut self, request: Request) -> Result<Bytes> {
        self.runtime.block_on(async {
            self.sender.ready().await?;
            let reply = self.sender.send_request(request).await?;
            let status = reply.status();
            let body = reply.into_body().collect().await?.to_bytes();
            if status != StatusCode::OK {
                bail!("{status} {}", String::from_utf8_lossy(&body));
            }
            Ok(body)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_refusal_is_an_error_with_its_body() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 1_024]).unwrap();
            stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 5\r\n\r\nwait!").unwrap();
            read
        });
        let error = Connection::open(&address).unwrap().send(get("/")).unwrap_err().to_string();
        assert_eq!(error, "503 Service Unavailable wait!");
        assert!(server.join().unwrap() > 0);
    }
}
