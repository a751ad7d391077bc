//! A log that nobody reads.

use std::time::Duration;

use nearprint::telemetry::LINES_WAITING_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::client::{Connection, REPLY_TIMEOUT};
use super::server::Server;
use crate::support::wait::until;

/// A pipe buffers 64 KiB; each line has more than 64 bytes.
const LINES_IN_PIPE_MAX: usize = 1_024;

/// Lines in the buffer of the writing thread.
const LINES_WRITTEN_MAX: usize = 256;

/// Log lines of requests fill the pipe and then the queue. Every request is answered nevertheless,
/// lost lines are counted, and the process ends on SIGTERM.
#[tokio::test]
async fn an_unread_log_delays_no_request() {
    let server = Server::with_unread_log();
    let capacity = LINES_WAITING_MAX + LINES_IN_PIPE_MAX + LINES_WRITTEN_MAX;
    let thousands = (capacity + 1_000).div_ceil(1_000);
    let mut crowd = TcpStream::connect(&server.address).await.unwrap();
    let mut received = Vec::new();
    // A thousand requests at a time, without a wait for the replies between them.
    for _ in 0..thousands {
        let request = "GET /v1/nothing HTTP/1.1\r\nhost: localhost\r\n\r\n";
        crowd.write_all(request.repeat(1_000).as_bytes()).await.unwrap();
        received.clear();
        let mut replies = 0;
        while replies < 1_000 {
            let read = timeout(REPLY_TIMEOUT, crowd.read_buf(&mut received)).await;
            assert_ne!(read.expect("no request waits").unwrap(), 0, "{replies} replies");
            replies = String::from_utf8_lossy(&received).matches("HTTP/1.1 404").count();
        }
    }
    let mut connection = Connection::open(&server.address).await.unwrap();
    let reply = connection.ask(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(reply.status, 200);
    let lost = || lines_lost(&server.address);
    until("all lines above the capacity are lost", || lost() >= 1_000);
    assert!(lost() < (1_000 * thousands - LINES_WAITING_MAX) as u64, "{} are lost", lost());
    server.signal("TERM");
    assert!(server.wait().success());
}

/// A process that ends waits for a reader of its log: more lines arrive than the pipe buffers.
#[tokio::test]
async fn the_end_of_the_process_writes_waiting_lines() {
    let server = Server::with_unread_log();
    let mut client = Connection::open(&server.address).await.unwrap();
    for _ in 0..LINES_IN_PIPE_MAX {
        client.ask(b"GET /v1/nothing HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    }
    drop(client);
    server.signal("TERM");
    while TcpStream::connect(&server.address).await.is_ok() {}
    // By now it would have ended without waiting.
    sleep(Duration::from_millis(100)).await;
    let log = server.rest_of_log();
    assert_eq!(log.matches("status=404").count(), LINES_IN_PIPE_MAX);
    assert!(log.trim_end().ends_with("stopped"), "{log}");
    assert!(server.wait().success());
}

fn lines_lost(address: &str) -> u64 {
    let page = ureq::get(format!("http://{address}/metrics")).call().unwrap();
    let page = page.into_body().read_to_string().unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix("nearprint_log_lines_lost_total "));
    line.unwrap().parse().unwrap()
}
