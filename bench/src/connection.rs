//! A small client that costs little: one keep-alive connection, whole requests as bytes.
//!
//! It knows as much of HTTP as the replies of this service need: a status, and a body with a
//! Content-Length.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;

/// Bodies from this size on are written while the reply is read already: the service answers while
/// it reads, and neither side may wait for the other for ever.
const BOTH_WAYS_FROM_BYTES: usize = 64 << 10;

/// A request as it goes over the wire.
#[derive(Debug, Clone)]
pub(super) struct Request(Vec<u8>);

impl Request {
    /// A GET.
    pub(super) fn get(path: &str) -> Self {
        Self(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes())
    }

    /// A POST.
    pub(super) fn post(path: &str, kind: &str, body: &[u8]) -> Self {
        Self::of("POST", path, kind, body)
    }

    /// A GET with a body, which nobody wants.
    pub(super) fn get_with(path: &str, kind: &str, body: &[u8]) -> Self {
        Self::of("GET", path, kind, body)
    }

    fn of(method: &str, path: &str, kind: &str, body: &[u8]) -> Self {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Self(request)
    }
}

/// A connection that is kept alive.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects to `host:port`.
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends a request and waits for its reply, whose body it gives; any status but 200 is an
    /// error.
    pub(super) fn ask(&mut self, request: &Request) -> io::Result<&[u8]> {
        if request.0.len() < BOTH_WAYS_FROM_BYTES {
            self.stream.write_all(&request.0)?;
            return self.reply();
        }
        let mut writing = self.stream.try_clone()?;
        thread::scope(|scope| {
            let written = scope.spawn(move || writing.write_all(&request.0));
            let reply = self.reply();
            written.join().expect("a write does not panic")?;
            reply
        })
    }

    fn reply(&mut self) -> io::Result<&[u8]> {
        self.received.clear();
        let (head, length) = loop {
            self.receive(4 << 10)?;
            if let Some(head) = find(&self.received, b"\r\n\r\n") {
                break (head + 4, content_length(&self.received[..head])?);
            }
        };
        let end = head + length;
        while self.received.len() < end {
            self.receive((end - self.received.len()).max(4 << 10))?;
        }
        let body = &self.received[head..end];
        if !self.received.starts_with(b"HTTP/1.1 200 ") {
            let status = String::from_utf8_lossy(&self.received[..head.min(64)]).into_owned();
            let body = String::from_utf8_lossy(body);
            return Err(bad(format!("{} {body}", status.lines().next().unwrap_or_default())));
        }
        Ok(body)
    }

    /// Reads what has come, at most `room` bytes.
    fn receive(&mut self, room: usize) -> io::Result<()> {
        let before = self.received.len();
        self.received.resize(before + room, 0);
        let read = self.stream.read(&mut self.received[before..])?;
        self.received.truncate(before + read);
        if read == 0 { Err(bad("the service closed the connection".to_owned())) } else { Ok(()) }
    }
}

fn content_length(head: &[u8]) -> io::Result<usize> {
    let lines = head.split(|&byte| byte == b'\n');
    let mut fields = lines.filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let is_length = line[..colon].eq_ignore_ascii_case(b"content-length");
        is_length.then(|| str::from_utf8(&line[colon + 1..]).ok()?.trim().parse().ok())?
    });
    fields.next().ok_or_else(|| bad("a reply without its length".to_owned()))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn bad(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection to somebody who reads `asked` bytes and then sends these pieces.
    fn answered_with(asked: usize, pieces: &'static [&'static str]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut vec![0; asked]).unwrap();
            for piece in pieces {
                stream.write_all(piece.as_bytes()).unwrap();
                stream.flush().unwrap();
            }
        }));
        Connection::open(&address).unwrap()
    }

    #[test]
    fn a_reply_may_come_in_pieces() {
        let request = Request::post("/", "text/plain", b"hello");
        let pieces = &["HTTP/1.1 200 OK\r\nConte", "nt-Length: 6\r\n\r", "\nhe", "llo!"];
        let mut connection = answered_with(request.0.len(), pieces);
        assert_eq!(connection.ask(&request).unwrap(), b"hello!");
        assert!(connection.ask(&request).is_err(), "closed");
    }

    #[test]
    fn a_refusal_is_an_error_with_its_words() {
        let request = Request::get("/");
        let pieces = &["HTTP/1.1 503 Busy\r\ncontent-length: 5\r\n\r\nwait!"];
        let error = answered_with(request.0.len(), pieces).ask(&request).unwrap_err().to_string();
        assert_eq!(error, "HTTP/1.1 503 Busy wait!");
        let pieces = &["HTTP/1.1 200 OK\r\n\r\n"];
        let error = answered_with(request.0.len(), pieces).ask(&request).unwrap_err().to_string();
        assert!(error.contains("length"), "{error}");
    }

    #[test]
    fn a_long_request_is_written_while_its_reply_is_read() {
        let request = Request::post("/", "text/plain", &vec![b'x'; 8 << 20]);
        let pieces = &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"];
        assert_eq!(answered_with(request.0.len(), pieces).ask(&request).unwrap(), b"ok");
    }
}
