//! Promise: whatever other clients do, each reply to a batch is right and in the order of its
//! lines, and the memory of waiting bodies and replies stays within its budgets. Method: clients
//! that send as fast as they can, that send a line at a time, that read a little at a time, that
//! never read, and that leave, all at one time; one line in five is wrong. Every reply that is read
//! is checked. The test is small and checks what is true at any speed; `make siege` runs the same
//! at full size.

#![expect(clippy::cast_precision_loss, clippy::print_stderr, reason = "for people")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::client::{Connection, REPLY_TIMEOUT, mixed, post};
use super::server::Server;
use super::unread;
use crate::support::wait::now;

/// Documents that are stored before the others come.
const STORED: u64 = 4_096;

/// The budgets of the server, smaller than the defaults, so that they are spent.
pub(crate) const BODIES_BYTES: u64 = 64 << 20;
pub(crate) const REPLIES_BYTES: u64 = 32 << 20;

/// The memory of the clients' connections and batches outside the budgets, and that of deltas.
const OUTSIDE_BYTES: u64 = 128 << 20;

/// How many clients of each sort there are.
pub(crate) struct Crowd {
    pub(crate) fast: u64,
    pub(crate) slow: u64,
    /// Of each request of [`unread::requests`].
    pub(crate) unread: usize,
    /// In each of their batches. A batch of writes is cut off only once its body has been read, and
    /// each line is a look-up among all near fingerprints.
    pub(crate) unread_lines: usize,
    pub(crate) leavers: u64,
    pub(crate) time: Duration,
}

/// What became of them.
#[derive(Default)]
pub(crate) struct Seen {
    /// The documents a second of the fast clients before the others came, and meanwhile.
    pub(crate) rates: [f64; 2],
    pub(crate) checked: u64,
    pub(crate) wrong: u64,
    /// The longest time that a client that never reads stayed connected.
    pub(crate) closed_after: Duration,
    /// The most that waited at one time.
    pub(crate) bodies_bytes: u64,
    pub(crate) replies_bytes: u64,
    /// By how much the memory of the process grew, apart from the index.
    pub(crate) grown_bytes: u64,
    /// The index at its largest. A write whose reply waits keeps the view in which its hits are
    /// read, so segments that merges have replaced may stay as long: the index once more.
    pub(crate) index_bytes: u64,
    /// When nothing waited any more after all clients had left.
    pub(crate) given_back_after: Duration,
}

impl Seen {
    pub(crate) fn is_bounded(&self) -> bool {
        self.bodies_bytes <= BODIES_BYTES
            && self.replies_bytes <= REPLIES_BYTES
            && self.grown_bytes <= BODIES_BYTES + REPLIES_BYTES + OUTSIDE_BYTES + self.index_bytes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_to_batches_are_right_in_order_and_bounded_among_clients_of_all_sorts() {
    let time = Duration::from_secs(3);
    let crowd = Crowd { fast: 2, slow: 8, unread: 4, unread_lines: 500, leavers: 4, time };
    let seen = besiege(&start(&[("SERVER__BODY_TIMEOUT_MS", "2000")]), &crowd).await;
    assert_eq!(seen.wrong, 0);
    assert!(seen.checked > 0, "nothing was checked");
    assert!(seen.is_bounded(), "{} {} {}", seen.bodies_bytes, seen.replies_bytes, seen.grown_bytes);
}

/// A server with small budgets.
pub(crate) fn start(variables: &[(&str, &str)]) -> Server {
    let (bodies, replies) = (BODIES_BYTES.to_string(), REPLIES_BYTES.to_string());
    let budgets = [
        ("LOG__LEVEL", "warn"),
        ("SERVER__BODIES_HELD_BYTES_MAX", bodies.as_str()),
        ("SERVER__REPLIES_HELD_BYTES_MAX", replies.as_str()),
    ];
    Server::with(&[&budgets, variables].concat())
}

pub(crate) async fn besiege(server: &Server, crowd: &Crowd) -> Seen {
    let mut first = Connection::open(&server.address).await.unwrap();
    let stored: Vec<u8> = (0..STORED).flat_map(|number| mixed(number).to_le_bytes()).collect();
    for (kind, body) in [(PACKED, stored), (NDJSON, unread::documents())] {
        let reply = first.ask(&post("/v1/insert/batch", kind, &body)).await;
        assert_eq!(reply.unwrap().status, 200);
    }
    let shared = Arc::new(Shared { address: server.address.clone(), ..Shared::default() });
    let mut clients = JoinSet::new();
    for client in 0..crowd.fast {
        clients.spawn(fast(Arc::clone(&shared), client));
    }
    let begun = now();
    sleep(crowd.time).await;
    let before = shared.rate(0, begun.elapsed());
    for client in 0..crowd.slow {
        clients.spawn(slow_sender(Arc::clone(&shared), client));
        clients.spawn(slow_reader(Arc::clone(&shared), client));
    }
    for client in 0..crowd.leavers {
        clients.spawn(leaver(Arc::clone(&shared), client));
    }
    let mut unread = JoinSet::new();
    // Without the export: one that stands still keeps segments that merges have replaced.
    let requests = unread::requests(crowd.unread_lines).into_iter().take(unread::KINDS - 1);
    for request in requests.map(Arc::new) {
        for _ in 0..crowd.unread {
            unread.spawn(closed_after(server.address.clone(), Arc::clone(&request)));
        }
    }
    let mut seen = watch(server, &shared, unread, crowd.time).await;
    seen.rates[0] = before;
    shared.stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    seen.checked = shared.checked.load(Ordering::Relaxed);
    seen.wrong = shared.wrong.load(Ordering::Relaxed);
    let left = now();
    while !matches!(Memory::of(server).await, Memory { bodies: 0, replies: 0, .. }) {
        assert!(left.elapsed() < Duration::from_mins(1), "clients that left still take memory");
        sleep(Duration::from_millis(20)).await;
    }
    seen.given_back_after = left.elapsed();
    seen
}

/// Watches the server until this time has passed and it has closed the clients that never read.
async fn watch(
    server: &Server,
    shared: &Shared,
    mut unread: JoinSet<Duration>,
    time: Duration,
) -> Seen {
    let outside = |memory: &Memory| server.memory_bytes().saturating_sub(memory.index);
    let memory_before = outside(&Memory::of(server).await);
    let (begun, from) = (now(), shared.documents.load(Ordering::Relaxed));
    let mut seen = Seen::default();
    while !unread.is_empty() || begun.elapsed() < time {
        let memory = Memory::of(server).await;
        seen.bodies_bytes = seen.bodies_bytes.max(memory.bodies);
        seen.replies_bytes = seen.replies_bytes.max(memory.replies);
        seen.index_bytes = seen.index_bytes.max(memory.index);
        seen.grown_bytes = seen.grown_bytes.max(outside(&memory).saturating_sub(memory_before));
        sleep(Duration::from_millis(100)).await;
        while let Some(closed) = unread.try_join_next() {
            seen.closed_after = seen.closed_after.max(closed.unwrap());
        }
    }
    seen.rates[1] = shared.rate(from, begun.elapsed());
    seen
}

/// Bytes as `/v1/stats` has them.
struct Memory {
    /// With what merges may take.
    index: u64,
    bodies: u64,
    replies: u64,
}

impl Memory {
    async fn of(server: &Server) -> Self {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        let request = b"GET /v1/stats HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.unwrap();
        let (body, _) = decoded(&reply).expect("statistics are never refused");
        let stats: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let bytes = |name: &str| stats["memory"][name].as_u64().unwrap();
        // While a merge builds its result, its inputs are still in memory.
        let index = bytes("total_bytes") + bytes("merging_bytes");
        Self { index, bodies: bytes("bodies_bytes"), replies: bytes("replies_bytes") }
    }
}

/// What all clients share.
#[derive(Default)]
struct Shared {
    address: String,
    stop: AtomicBool,
    /// Those of the fast clients that were answered.
    documents: AtomicU64,
    /// The replies of all clients that were read.
    checked: AtomicU64,
    wrong: AtomicU64,
    /// Numbers of documents that nobody has sent yet.
    fresh: AtomicU64,
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The documents of fast clients a second, since this many were answered.
    fn rate(&self, from: u64, took: Duration) -> f64 {
        (self.documents.load(Ordering::Relaxed) - from) as f64 / took.as_secs_f64()
    }

    fn batch(&self, kind: Kind, count: u64) -> Batch {
        let first = 1 << 40 | self.fresh.fetch_add(count, Ordering::Relaxed);
        Batch { kind, numbers: first..first + count }
    }

    /// Checks what was read of a reply; returns its number of documents.
    fn check(&self, batch: &Batch, reply: &[u8], whole: bool) -> u64 {
        let (checked, wrong) = batch.check(reply, whole);
        self.checked.fetch_add(checked, Ordering::Relaxed);
        if let Some(wrong) = wrong {
            eprintln!("{:?}: {wrong}", batch.kind);
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
        checked
    }
}

const NDJSON: &str = "application/x-ndjson";
const PACKED: &str = "application/octet-stream";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fingerprint,
    Query,
    Insert,
    CheckAndInsert,
    PackedQuery,
    PackedCheckAndInsert,
}

const KINDS: [Kind; 6] = [
    Kind::Fingerprint,
    Kind::Query,
    Kind::Insert,
    Kind::CheckAndInsert,
    Kind::PackedQuery,
    Kind::PackedCheckAndInsert,
];

/// A batch of numbered documents.
struct Batch {
    kind: Kind,
    numbers: Range<u64>,
}

impl Batch {
    const fn is_packed(&self) -> bool {
        matches!(self.kind, Kind::PackedQuery | Kind::PackedCheckAndInsert)
    }

    /// Look-ups find every second document.
    fn is_stored(&self, number: u64) -> bool {
        matches!(self.kind, Kind::Query | Kind::PackedQuery) && number.is_multiple_of(2)
    }

    fn fingerprint(&self, number: u64) -> u64 {
        mixed(if self.is_stored(number) { number % STORED } else { number })
    }

    /// One line in ten is not JSON, and one has a field that nobody knows.
    fn line(&self, number: u64) -> String {
        match number % 10 {
            3 => "oops\n".to_owned(),
            7 => "{\"fingerprint\":1,\"surprise\":1}\n".to_owned(),
            _ => format!("{{\"fingerprint\":\"{:016x}\"}}\n", self.fingerprint(number)),
        }
    }

    /// A request whose reply comes once all of it was sent.
    fn request(&self) -> Vec<u8> {
        self.request_with("")
    }

    /// A request whose reply comes meanwhile.
    fn early_request(&self) -> Vec<u8> {
        self.request_with("?early_reply=true")
    }

    fn request_with(&self, query: &str) -> Vec<u8> {
        let numbers = self.numbers.clone();
        let (kind, body) = if self.is_packed() {
            let words = numbers.flat_map(|number| self.fingerprint(number).to_le_bytes());
            (PACKED, words.collect::<Vec<u8>>())
        } else {
            (NDJSON, numbers.map(|number| self.line(number)).collect::<String>().into_bytes())
        };
        let path = match self.kind {
            Kind::Fingerprint => "/v1/fingerprint/batch",
            Kind::Query | Kind::PackedQuery => "/v1/query/batch",
            Kind::Insert => "/v1/insert/batch",
            Kind::CheckAndInsert | Kind::PackedCheckAndInsert => "/v1/check-and-insert/batch",
        };
        // The end of the connection is the end of the reply.
        let head =
            format!("POST {path}{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        let length = format!("content-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        [head.into_bytes(), length.into_bytes(), body].concat()
    }

    /// Two parts of the reply to a document.
    fn expected(&self, number: u64) -> [String; 2] {
        let line = format!("\"line\":{}}}", number - self.numbers.start + 1);
        let outcome = match (number % 10, self.kind) {
            (3, _) => return ["\"malformed_json\"".to_owned(), line],
            (7, _) => return ["\"unknown_field\"".to_owned(), line],
            (_, Kind::Insert | Kind::CheckAndInsert) => "\"outcome\":\"inserted\"".to_owned(),
            (_, Kind::Query) => format!("\"duplicate\":{}", self.is_stored(number)),
            (_, Kind::Fingerprint | Kind::PackedQuery | Kind::PackedCheckAndInsert) => {
                String::new()
            }
        };
        [outcome, format!("\"fingerprint\":\"{:016x}\"", self.fingerprint(number))]
    }

    /// The bytes of a reply that answer its documents.
    fn length_of_answers(&self, reply: &[u8]) -> usize {
        let documents = (self.numbers.end - self.numbers.start) as usize;
        if self.is_packed() {
            return documents.min(reply.len());
        }
        reply.split_inclusive(|&byte| byte == b'\n').take(documents).map(<[u8]>::len).sum()
    }

    /// How many documents a reply answers, and what is wrong with it.
    fn check(&self, reply: &[u8], whole: bool) -> (u64, Option<String>) {
        let mut numbers = self.numbers.clone();
        let mut checked = 0;
        let mut wrong = None;
        if self.is_packed() {
            for (number, &distance) in numbers.by_ref().zip(reply) {
                checked += 1;
                if distance != if self.is_stored(number) { 0 } else { 255 } {
                    wrong = Some(format!("document {number}: {distance}"));
                }
            }
            // The byte that ends `zip` takes a number along.
            numbers = self.numbers.start + checked..self.numbers.end;
        } else {
            for line in reply.split_inclusive(|&byte| byte == b'\n') {
                let line = String::from_utf8_lossy(line);
                if !line.ends_with('\n') {
                    break;
                }
                let expected = numbers.next().map(|number| self.expected(number));
                checked += 1;
                let fits = |parts: &[String; 2]| parts.iter().all(|part| line.contains(part));
                if !expected.as_ref().is_some_and(fits) {
                    wrong = Some(format!("{line:?} instead of {expected:?}"));
                }
            }
        }
        if whole && !numbers.is_empty() {
            wrong = Some(format!("{} documents are not answered", numbers.end - numbers.start));
        }
        (checked, wrong)
    }
}

/// The body of a reply, as far as it has come, and whether that is all; `None` without its head or
/// with a status other than 200.
fn decoded(reply: &[u8]) -> Option<(Vec<u8>, bool)> {
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&reply[..end]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 200 ") {
        return None;
    }
    let mut rest = &reply[end + 4..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if let Some(length) = length {
        return Some((rest.to_vec(), rest.len() == length.parse::<usize>().unwrap()));
    }
    let mut body = Vec::new();
    loop {
        let Some(digits) = rest.windows(2).position(|two| two == b"\r\n") else {
            return Some((body, false));
        };
        let size = std::str::from_utf8(&rest[..digits]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        rest = &rest[digits + 2..];
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        if size == 0 || rest.len() < size + 2 {
            return Some((body, size == 0));
        }
        rest = &rest[size + 2..];
    }
}

/// Sends batches of all kinds one after the other, and reads their replies meanwhile.
async fn fast(shared: Arc<Shared>, client: u64) {
    for kind in KINDS.into_iter().cycle().skip(client as usize) {
        if shared.stops() {
            return;
        }
        let batch = shared.batch(kind, 2_000);
        let request = batch.request();
        let stream = TcpStream::connect(&shared.address).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let mut reply = Vec::new();
        let (sent, received) =
            tokio::join!(write.write_all(&request), read.read_to_end(&mut reply));
        sent.and(received.map(drop)).unwrap();
        let (body, whole) = decoded(&reply).unwrap_or_default();
        let answered = shared.check(&batch, &body, true);
        assert!(whole, "the reply of a fast client is cut off");
        shared.documents.fetch_add(answered, Ordering::Relaxed);
    }
}

/// Sends a line or a word at a time, until the others stop; then each must be answered.
async fn slow_sender(shared: Arc<Shared>, client: u64) {
    let Batch { kind, numbers } = shared.batch(KINDS[client as usize % KINDS.len()], 20_000);
    let request = Batch { kind, numbers: numbers.clone() }.early_request();
    let head = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let mut stream = TcpStream::connect(&shared.address).await.unwrap();
    stream.write_all(&request[..head]).await.unwrap();
    let mut batch = Batch { kind, numbers: numbers.start..numbers.start };
    let (mut rest, mut reply) = (&request[head..], Vec::new());
    while !shared.stops() {
        let line = rest.iter().position(|&byte| byte == b'\n').filter(|_| !batch.is_packed());
        let (next, more) = rest.split_at(line.map_or(8, |end| end + 1));
        stream.write_all(next).await.unwrap();
        (rest, batch.numbers.end) = (more, batch.numbers.end + 1);
        sleep(Duration::from_millis(50)).await;
        while let Ok(1..) = stream.try_read_buf(&mut reply) {}
    }
    let sent = batch.numbers.end - batch.numbers.start;
    let body = |reply: &[u8]| decoded(reply).unwrap_or_default().0;
    while batch.check(&body(&reply), false).0 < sent {
        let more = timeout(REPLY_TIMEOUT, stream.read_buf(&mut reply)).await;
        assert!(matches!(more, Ok(Ok(1..))), "{kind:?}: {sent} were sent, and not all answered");
    }
    // It sends no more, so the service may have told it that the rest of its body is late.
    let body = body(&reply);
    let (answers, rest) = body.split_at(batch.length_of_answers(&body));
    shared.check(&batch, answers, true);
    let rest = String::from_utf8_lossy(rest);
    assert!(rest.is_empty() || rest.contains("\"request_timeout\""), "{kind:?}: {rest}");
}

/// Reads a little at a time through a small buffer.
async fn slow_reader(shared: Arc<Shared>, client: u64) {
    while !shared.stops() {
        let batch = shared.batch(KINDS[client as usize % KINDS.len()], 50_000);
        let request = batch.request();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let stream = socket.connect(shared.address.parse().unwrap()).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let writing = tokio::spawn(async move { write.write_all(&request).await });
        let (mut reply, mut piece) = (Vec::new(), [0; 8_192]);
        while !shared.stops()
            && let Ok(length @ 1..) = read.read(&mut piece).await
        {
            reply.extend_from_slice(&piece[..length]);
            sleep(Duration::from_millis(20)).await;
        }
        writing.abort();
        let (body, whole) = decoded(&reply).unwrap_or_default();
        shared.check(&batch, &body, whole);
    }
}

/// Leaves in the middle of its batches.
async fn leaver(shared: Arc<Shared>, client: u64) {
    for kind in KINDS.into_iter().cycle().skip(client as usize) {
        if shared.stops() {
            return;
        }
        let request = shared.batch(kind, 5_000).early_request();
        let mut stream = TcpStream::connect(&shared.address).await.unwrap();
        stream.write_all(&request[..request.len() / 2]).await.unwrap();
        let mut piece = [0; 1_024];
        let some = stream.read(&mut piece).await;
        assert!(some.unwrap() > 0, "{kind:?}: nothing came back");
        drop(stream);
        sleep(Duration::from_millis(20)).await;
    }
}

/// How long a client stays connected that sends a request again and again and never reads.
async fn closed_after(address: String, request: Arc<Vec<u8>>) -> Duration {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(64 << 10).unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let begun = now();
    let sending = async { while stream.write_all(&request).await.is_ok() {} };
    timeout(Duration::from_mins(4), sending).await.expect("it was never closed");
    begun.elapsed()
}
