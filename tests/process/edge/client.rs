//! Clients as tasks, so that many of them cost little.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// When a test gives up waiting for a reply: long enough for the last of twenty large texts on a
/// machine with many times more to do.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_mins(5);

/// A connection that is kept alive.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The parts of a reply that tests look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) retry_after: bool,
    pub(crate) closes: bool,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        Self::over(TcpStream::connect(address).await?)
    }

    /// From another address of this machine, which is another client to the service.
    pub(crate) async fn open_from_elsewhere(address: &str) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 2], 0).into())?;
        let address = address.parse().map_err(io::Error::other)?;
        Self::over(socket.connect(address).await?)
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends a request and reads its whole reply.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Reply> {
        let exchange = async {
            // A refusal may arrive, and the connection close, before everything is sent.
            let sent = self.stream.write_all(request).await;
            self.reply().await.map_err(|error| sent.err().unwrap_or(error))
        };
        timeout(REPLY_TIMEOUT, exchange).await?
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        self.received.clear();
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&self.received[..end]).to_ascii_lowercase();
            let field = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim_start_matches(':').trim().to_owned())
            };
            let length: usize = field("content-length").map_or(0, |value| value.parse().unwrap());
            let is_chunked = field("transfer-encoding").is_some();
            while self.received.len() < end + 4 + length
                || (is_chunked && !self.received.ends_with(b"\r\n0\r\n\r\n"))
            {
                if self.stream.read_buf(&mut self.received).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            return Ok(Reply {
                status: head.split(' ').nth(1).unwrap().parse().unwrap(),
                retry_after: field("retry-after").is_some(),
                closes: field("connection").is_some_and(|value| value == "close"),
            });
        }
    }
}

/// The bytes of a POST.
pub(crate) fn post(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

pub(crate) fn check_and_insert(fingerprint: u64) -> Vec<u8> {
    let body = format!("{{\"fingerprint\":\"{fingerprint:016x}\"}}");
    post("/v1/check-and-insert", "application/json", body.as_bytes())
}

/// Different numbers give numbers that look unrelated (`SplitMix64`).
pub(crate) fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
