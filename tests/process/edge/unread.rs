//! Promise: clients that send and never read can neither fill the memory of the service nor delay
//! those that read. Method: a server in a control group of 512 MiB, which needs root; 200
//! connections of each kind (single look-ups, single writes, batches of both, packed ones, exports)
//! that send until the socket takes no more; and clients among them that read. If
//! `NEARPRINT_TEST_BINARY` names a release build, it prints the figures of docs/reliability.md.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::client::{Connection, check_and_insert, mixed, post};
use super::memory::{GROUP_BYTES, Group, joined};
use super::server::Server;
use crate::support::wait::now;

pub(crate) const KINDS: usize = 6;
/// The lines of a batch.
pub(crate) const LINES: usize = 10_000;
const CONNECTIONS: usize = 200;
/// A connection is full when it has taken nothing for this long.
const TAKEN_WITHIN: Duration = Duration::from_millis(500);
/// Requests of the clients that read, before and meanwhile.
const ASKED: u64 = 5_000;

/// Sixty-four fingerprints within one bit of 0 with ten ids of 2,000 bytes each: 1.3 MB to list.
pub(crate) fn documents() -> Vec<u8> {
    let line = |bit: u32, number: u32| {
        let id = format!("{bit}/{number}/{}", "x".repeat(2_000));
        format!("{{\"id\":\"{id}\",\"fingerprint\":\"{:016x}\"}}\n", 1_u64 << bit)
    };
    (0..64).flat_map(|bit| (0..10).map(move |n| line(bit, n))).collect::<String>().into_bytes()
}

/// One request of each kind whose reply is never read; batches of JSON have so many lines.
pub(crate) fn requests(lines: usize) -> [Vec<u8>; KINDS] {
    let long = "{\"fingerprint\":\"0000000000000000\",\"limit\":1000}";
    let (json, ndjson) = ("application/json", "application/x-ndjson");
    let lines = format!("{long}\n").repeat(lines);
    [
        post("/v1/query", json, long.as_bytes()).repeat(4),
        post("/v1/check-and-insert", json, long.as_bytes()).repeat(4),
        post("/v1/query/batch", ndjson, lines.as_bytes()),
        post("/v1/check-and-insert/batch", ndjson, lines.as_bytes()),
        packed(200_000),
        b"GET /v1/snapshots/export HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(4),
    ]
}

/// A packed batch of look-ups with full replies.
fn packed(fingerprints: usize) -> Vec<u8> {
    let bytes = fingerprints * size_of::<u64>();
    let head = "POST /v1/query/batch?limit=1000 HTTP/1.1\r\nhost: localhost\r\naccept: application/x-ndjson";
    let body = "content-type: application/octet-stream\r\ncontent-length:";
    let mut request = format!("{head}\r\n{body} {bytes}\r\n\r\n").into_bytes();
    request.resize(request.len() + bytes, 0);
    request
}

/// Sends until the socket takes no more, and keeps the connection.
async fn unread(address: String, request: Arc<Vec<u8>>, sent: Arc<Semaphore>) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let mut rest = request.as_slice();
    while let Ok(Ok(taken @ 1..)) = timeout(TAKEN_WITHIN, stream.write(rest)).await {
        rest = &rest[taken..];
    }
    sent.add_permits(1);
    std::future::pending::<()>().await;
}

/// The slowest of a hundred requests of a client that reads, in milliseconds.
async fn p99_ms(address: &str, first: u64) -> f64 {
    let mut connection = Connection::open_from_elsewhere(address).await.unwrap();
    let mut took = Vec::new();
    for number in first..first + ASKED {
        let begun = now();
        let reply = connection.ask(&check_and_insert(mixed(number))).await.unwrap();
        assert_eq!(reply.status, 200);
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 99 / 100].as_secs_f64() * 1e3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_that_never_read_neither_fill_memory_nor_delay_others() {
    let Some(group) = Group::new("unread", GROUP_BYTES) else { return };
    let server = Server::wrapped(
        |inner| joined(&group, inner),
        &[
            ("ENGINE__MEMORY_BYTES_MAX", "268435456"),
            ("SERVER__BODIES_HELD_BYTES_MAX", "67108864"),
            ("SERVER__REPLIES_HELD_BYTES_MAX", "33554432"),
        ],
    );
    let mut first = Connection::open(&server.address).await.unwrap();
    let inserted = first.ask(&post("/v1/insert/batch", "application/x-ndjson", &documents())).await;
    assert_eq!(inserted.unwrap().status, 200);
    let before = p99_ms(&server.address, 0).await;
    let sent = Arc::new(Semaphore::new(0));
    let mut crowd = tokio::task::JoinSet::new();
    for request in requests(LINES).map(Arc::new) {
        for _ in 0..CONNECTIONS {
            crowd.spawn(unread(server.address.clone(), Arc::clone(&request), Arc::clone(&sent)));
        }
    }
    let all = sent.acquire_many((KINDS * CONNECTIONS) as u32);
    // Some are closed before, because nothing of their replies was read for 30 s.
    drop(timeout(Duration::from_secs(20), all).await);
    let meanwhile = p99_ms(&server.address, ASKED).await;
    assert_eq!(group.kills(), 0);
    let peak = server.memory_peak_bytes();
    println!(
        "{} unread connections: peak {} MiB; p99 of a client that reads {before:.2} ms before, {meanwhile:.2} ms meanwhile",
        KINDS * CONNECTIONS,
        peak >> 20
    );
    assert!(peak < GROUP_BYTES, "{peak}");
}
