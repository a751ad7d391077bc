//! A server in this process, and a client that shows every byte.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use nearprint::config::Config;
use nearprint::server::{self, ServeError, Settings};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::declared::assert_declared;
use crate::process;
pub(crate) use crate::wait::{now, until};

/// The longest wait for a byte.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// A running server, with its directory; both go away on drop.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    directory: Option<tempfile::TempDir>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// A server whose configuration differs from the default.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::tuned(change, |_| {})
    }

    /// The same, which also changes settings that have no key in the configuration.
    pub(crate) fn tuned(
        change: impl FnOnce(&mut Config),
        tune: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::over(tempfile::tempdir().unwrap(), change, tune)
    }

    fn over(
        directory: tempfile::TempDir,
        change: impl FnOnce(&mut Config),
        tune: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut config = Config::default();
        config.data.directory = directory.path().join("data");
        config.engine.disk_free_bytes_min = 0;
        change(&mut config);
        let mut settings = config.validated().unwrap();
        tune(&mut settings);
        nearprint::metrics::install();
        let (stop, stopped) = oneshot::channel();
        let (sender, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let engine = server::open_engine(settings.engine).unwrap();
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let stopped = async { drop(stopped.await) };
                server::run(listener, engine, settings.server, settings.http, stopped).await
            })
        });
        let address = address.recv().unwrap();
        Self { address, stop: Some(stop), thread: Some(thread), directory: Some(directory) }
    }

    /// Stops the server as SIGTERM does and starts another over the same directory.
    pub(crate) fn restarted(mut self) -> Self {
        self.stop().unwrap();
        Self::over(self.directory.take().unwrap(), |_| {}, |_| {})
    }

    /// Asks the server to stop, without waiting.
    pub(crate) fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Stops the server and returns the result of `server::run`.
    pub(crate) fn stop(&mut self) -> Result<(), ServeError> {
        self.begin_stop();
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }

    /// A connection of its own.
    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream: BufReader::new(stream) }
    }

    /// One request on a new connection.
    pub(crate) fn send(&self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.connect().send(line, headers, body)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), &[], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send(&format!("DELETE {path}"), &[], b"")
    }

    pub(crate) fn post(&self, path: &str, json: &Value) -> Reply {
        self.post_text(path, &json.to_string())
    }

    /// A POST of JSON as it is written.
    pub(crate) fn post_text(&self, path: &str, json: &str) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send(&format!("POST {path}"), &headers, json.as_bytes())
    }

    /// A POST of NDJSON; the lines of the reply.
    pub(crate) fn post_lines(&self, path: &str, lines: &str) -> Vec<Value> {
        let headers = [("content-type", "application/x-ndjson")];
        let reply = self.send(&format!("POST {path}"), &headers, lines.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
        reply.lines()
    }

    /// A POST of packed fingerprints.
    pub(crate) fn post_packed(&self, path: &str, headers: &[(&str, &str)], bits: &[u64]) -> Reply {
        let body: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let mut all = vec![("content-type", "application/octet-stream")];
        all.extend_from_slice(headers);
        self.send(&format!("POST {path}"), &all, &body)
    }

    /// Stores documents, one for each line.
    pub(crate) fn insert_all(&self, documents: impl IntoIterator<Item = Value>) {
        let lines: Vec<_> = documents.into_iter().map(|document| document.to_string()).collect();
        for reply in self.post_lines("/v1/insert/batch", &lines.join("\n")) {
            assert_eq!(reply["stored"], true, "{reply}");
        }
    }

    /// Stores a fingerprint under an id.
    pub(crate) fn insert(&self, id: &str, fingerprint: &str) -> Value {
        let document = serde_json::json!({"id": id, "fingerprint": fingerprint});
        self.post("/v1/insert", &document).json()
    }

    /// The reply of a query for a fingerprint.
    pub(crate) fn query(&self, fingerprint: &str) -> Value {
        self.post("/v1/query", &serde_json::json!({"fingerprint": fingerprint})).json()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.stop());
        }
    }
}

/// A connection that is kept alive.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// One request with a body of known length, and its reply.
    pub(crate) fn send(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.send_if_open(line, headers, body).expect("the server answers")
    }

    /// The same; `None` when the server had closed the connection, as it may after a request whose
    /// body it did not read.
    pub(crate) fn send_if_open(
        &mut self,
        line: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Reply> {
        self.begin(line, headers, body);
        let is_open = self.stream.fill_buf().is_ok_and(|begun| !begun.is_empty());
        is_open.then(|| {
            let reply = self.reply();
            assert_declared(line, &reply);
            reply
        })
    }

    /// One request with a body of known length; its reply is not read.
    pub(crate) fn begin(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = head(line, headers);
        write!(head, "content-length: {}\r\n\r\n", body.len()).unwrap();
        // A refusal may come before the body is sent; what counts is the reply.
        drop(self.write(head.as_bytes()).and_then(|()| self.write(body)));
    }

    /// A HEAD request, whose reply has no body whatever its Content-Length is.
    pub(crate) fn send_head(&mut self, line: &str) -> Reply {
        self.write((head(line, &[]) + "\r\n").as_bytes()).unwrap();
        self.reply_head()
    }

    /// The head of a request whose body comes in chunks.
    pub(crate) fn begin_chunked(&mut self, line: &str, headers: &[(&str, &str)]) {
        let head = head(line, headers) + "transfer-encoding: chunked\r\n\r\n";
        self.write(head.as_bytes()).unwrap();
    }

    pub(crate) fn chunk(&mut self, data: &[u8]) -> std::io::Result<()> {
        self.write(format!("{:x}\r\n", data.len()).as_bytes())?;
        self.write(data)?;
        self.write(b"\r\n")
    }

    pub(crate) fn end_chunked(&mut self) {
        self.write(b"0\r\n\r\n").unwrap();
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// From now on a write fails that the server does not take within this time.
    pub(crate) fn give_up_writing_after(&self, time: Duration) {
        self.stream.get_ref().set_write_timeout(Some(time)).unwrap();
    }

    /// The whole of the next reply.
    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.reply_head();
        if let Some(length) = reply.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut body).unwrap();
            reply.body = body;
        } else if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.next_chunk() {
                reply.body.extend_from_slice(&chunk);
            }
        }
        reply
    }

    /// The head of the next reply alone.
    pub(crate) fn reply_head(&mut self) -> Reply {
        let status = self.line();
        let status = status.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {status:?}"));
        let mut reply =
            Reply { status: status.parse().unwrap(), headers: Vec::new(), body: Vec::new() };
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            reply.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        if reply.status == 100 { self.reply_head() } else { reply }
    }

    /// The next chunk of a streamed reply; `None` at its proper end.
    pub(crate) fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut chunk = vec![0; length];
        self.stream.read_exact(&mut chunk).unwrap();
        self.line();
        (length > 0).then_some(chunk)
    }

    /// The next byte of a reply.
    pub(crate) fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// Whether there is something to read (the end of the stream is) within this time.
    pub(crate) fn is_readable_within(&mut self, time: Duration) -> bool {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(time)).unwrap();
        let peeked = stream.peek(&mut [0; 1]);
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        let waiting = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
        !peeked.is_err_and(|error| waiting.contains(&error.kind()))
    }

    /// Whether the server closes the connection now.
    pub(crate) fn is_closed(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0; 1]), Ok(1..))
    }

    /// All that the server sends until it ends the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    /// The next line of a head.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

fn head(line: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{line} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head
}

/// A reply as it came.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all_headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let headers = self.headers.iter().filter(|(found, _)| found == name);
        headers.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of a success.
    pub(crate) fn json(&self) -> Value {
        self.json_of(200)
    }

    /// The body of a job that has begun.
    pub(crate) fn accepted(&self) -> Value {
        self.json_of(202)
    }

    fn json_of(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The lines of a batch, or of a stream, which has blank ones while it finds nothing.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Status and code of an error, which must be a complete problem document.
    pub(crate) fn problem(&self) -> (u16, String) {
        let body = self.problem_body();
        (self.status, body["code"].as_str().unwrap().to_owned())
    }

    /// Status, code and field of an error.
    pub(crate) fn problem_at(&self) -> (u16, String, String) {
        let body = self.problem_body();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        (self.status, text("code"), text("field"))
    }

    pub(crate) fn problem_body(&self) -> Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{} {}",
            self.status,
            self.text()
        );
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(body["status"], self.status);
        for name in ["type", "title", "detail", "code"] {
            assert!(body[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {body}");
        }
        body
    }
}

/// The ids of the documents of a hit.
pub(crate) fn ids(hit: &Value) -> Value {
    let documents = hit["documents"].as_array().unwrap_or_else(|| panic!("no hit: {hit}"));
    documents.iter().map(|document| document["id"].clone()).collect()
}

/// A server in a process of its own, which may follow another one, and pass writes on to it.
pub(crate) fn started(data: &Path, follows: Option<(&str, bool)>) -> process::Server {
    let mut command = process::Server::command(data);
    command.env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0");
    if let Some((primary, forward)) = follows {
        command.args(["--follow", primary]);
        command.env("NEARPRINT_FOLLOW__FORWARD", forward.to_string());
    }
    process::Server::of(command).expect("it starts")
}

/// The name of a job.
pub(crate) fn name(job: &Value) -> &str {
    job["job"].as_str().unwrap_or_else(|| panic!("no job: {job}"))
}

/// Sixteen hex digits.
pub(crate) fn hex(bits: u64) -> String {
    format!("{bits:016x}")
}

/// A text of `words` different words, the same for the same seed.
pub(crate) fn text(seed: u64, words: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let syllables = ["ka", "lo", "mi", "ten", "ra", "su", "vel", "no", "pri", "dor", "hes", "gu"];
    let mut word = || {
        let picks: Vec<_> = (0..3).map(|_| syllables[next() as usize % syllables.len()]).collect();
        picks.concat()
    };
    let words: Vec<_> = (0..words).map(|_| word()).collect();
    words.join(" ")
}
