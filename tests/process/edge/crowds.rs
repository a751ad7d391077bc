//! More clients than the limits allow, more journal files, and clients that are connected when the
//! service ends.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Connection, REPLY_TIMEOUT, check_and_insert, mixed};
use super::server::{Server, binary};
use crate::load::pause;
use crate::support::server::Client;

const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
const READY: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// The usual timeout of a health probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Raises the limit of descriptors of this process to at least this many.
fn raise_descriptors(count: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    assert!(maximum.is_none_or(|maximum| maximum >= count), "raise `ulimit -H -n` to {count}");
    setrlimit(Resource::Nofile, Rlimit { current: maximum.or(Some(count)), maximum }).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_256_descriptors_1000_connections_leave_room_for_the_journal() {
    // Small journal files and many snapshots: both want descriptors of their own.
    let server = Server::with_descriptors(
        256,
        &[("ENGINE__JOURNAL_FILE_BYTES", "65536"), ("ENGINE__SNAPSHOT_INTERVAL_MS", "1000")],
    );
    let mut first = Connection::open(&server.address).await.unwrap();
    assert_eq!(first.ask(GET).await.unwrap().status, 200);
    let mut crowd = Vec::new();
    for _ in 0..1_000 {
        crowd.extend(Connection::open(&server.address).await);
    }
    let mut served = 0;
    for connection in &mut crowd {
        // The connections that were displaced are closed.
        if let Ok(reply) = connection.ask(GET).await {
            assert_eq!(reply.status, 200);
            served += 1;
        }
    }
    assert!((100..=256).contains(&served), "{served} served");
    // 3,000 records fill several files.
    for number in 0..3_000 {
        let reply = first.ask(&check_and_insert(mixed(number))).await.unwrap();
        assert_eq!(reply.status, 200, "{}", server.log());
    }
    drop(crowd);
    assert!(!server.log().contains("writes have stopped"), "{}", server.log());
}

#[test]
fn a_journal_of_more_files_than_a_process_may_open_is_written_and_read() {
    let server = Server::with_descriptors(100, &[("ENGINE__JOURNAL_FILE_BYTES", "65536")]);
    let client = server.client();
    // Each batch fills a file.
    let insert = |client: &Client, batch: u64| {
        let document = |number: u64| {
            let number = batch * 100 + number;
            json!({ "id": format!("{number:0900}"), "fingerprint": format!("{:016x}", mixed(number)) })
        };
        let lines: Vec<Value> = (0..100).map(document).collect();
        assert_eq!(client.post_lines("/v1/insert/batch", &lines).len(), 100, "{}", server.log());
    };
    (0..200).for_each(|batch| insert(&client, batch));
    // The service looks at its files, and others connect.
    pause(2_000);
    (200..210).for_each(|batch| insert(&server.client(), batch));
    assert_eq!(server.client().get("/healthz").unwrap().0, 200);
    drop(client);
    assert!(server.terminate().success(), "{}", server.log());

    let data = server.directory().join("data");
    let names = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name());
    let journal = names.filter(|name| name.to_string_lossy().starts_with("journal-")).count();
    assert_eq!(journal, 50, "half of the descriptors");
    // The soft limit of a shell is often lower than the hard one.
    let export = |limit: &str| {
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &format!("ulimit {limit}; exec \"$0\" export --data \"$1\" --output -")]);
        limited.arg(binary()).arg(&data).output().unwrap()
    };
    let exported = export("-S -n 40");
    assert_eq!(exported.stdout.split(|byte| *byte == b'\n').count(), 21_001, "{exported:?}");
    let refused = String::from_utf8(export("-n 40").stderr).unwrap();
    assert!(refused.contains("next: raise the hard limit of open files"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_get_through_3000_silent_connections() {
    raise_descriptors(4_000);
    let server = Server::with(&[("SERVER__CONNECTIONS_MAX", "200")]);
    let mut working = Connection::open(&server.address).await.unwrap();
    assert_eq!(working.ask(&check_and_insert(1)).await.unwrap().status, 200);
    let mut crowd = Vec::new();
    for _ in 0..3_000 {
        crowd.push(Connection::open(&server.address).await.unwrap());
    }
    for probe in [GET, READY] {
        let mut connection = Connection::open(&server.address).await.unwrap();
        let reply = tokio::time::timeout(PROBE_TIMEOUT, connection.ask(probe)).await;
        assert_eq!(reply.expect("a probe gives up").unwrap().status, 200);
    }
    // A client that has made a request is not displaced.
    assert_eq!(working.ask(&check_and_insert(2)).await.unwrap().status, 200);
    drop(crowd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_limit_of_connections_probes_are_answered_and_the_rest_is_refused() {
    let server = Server::with(&[("SERVER__CONNECTIONS_MAX", "4")]);
    let mut connections = Vec::new();
    for number in 0..4 {
        let mut connection = Connection::open(&server.address).await.unwrap();
        assert_eq!(connection.ask(&check_and_insert(mixed(number))).await.unwrap().status, 200);
        connections.push(connection);
    }
    // More than the connections reserved for probes.
    let mut crowd = Vec::new();
    for _ in 0..200 {
        crowd.push(Connection::open(&server.address).await.unwrap());
    }
    for (request, expected) in [
        (GET.to_vec(), (200, false, true)),
        (READY.to_vec(), (200, false, true)),
        (check_and_insert(9), (503, true, true)),
    ] {
        let mut connection = Connection::open(&server.address).await.unwrap();
        let reply = connection.ask(&request).await.unwrap();
        assert_eq!((reply.status, reply.retry_after, reply.closes), expected);
    }
    for connection in &mut connections {
        assert_eq!(connection.ask(&check_and_insert(mixed(0))).await.unwrap().status, 200);
    }
    // The service accepts connections again once a client has left.
    drop((connections, crowd));
    let exchange = async {
        loop {
            let mut connection = Connection::open(&server.address).await.unwrap();
            let reply = connection.ask(&check_and_insert(9)).await;
            if reply.is_ok_and(|reply| reply.status == 200) {
                return;
            }
        }
    };
    tokio::time::timeout(REPLY_TIMEOUT, exchange).await.unwrap();
}

/// A warning for each refused request would add to the load.
#[tokio::test]
async fn requests_refused_by_overload_are_no_warnings_in_the_log() {
    let server = Server::with(&[("SERVER__REQUESTS_IN_FLIGHT_MAX", "1"), ("LOG__LEVEL", "warn")]);
    // The head of its reply shows that the request was admitted; the reply has no end.
    let mut changes = TcpStream::connect(&server.address).await.unwrap();
    changes
        .write_all(b"GET /v1/changes?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    changes.read_u8().await.unwrap();
    let mut other = Connection::open(&server.address).await.unwrap();
    for number in 0..3 {
        let reply = other.ask(&check_and_insert(mixed(number))).await.unwrap();
        assert_eq!((reply.status, reply.retry_after, reply.closes), (503, true, false));
    }
    assert!(!server.log().contains("overloaded"), "{}", server.log());
}

/// Every complete request gets a success or 503, or its connection is refused: none waits forever,
/// and none gets any other reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_answers_or_refuses_every_client() {
    for round in 0..3 {
        let server = Server::with(&[]);
        let stopped = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let clients: Vec<_> = (0..32_u64)
            .map(|client| {
                let (address, stopped, answered) =
                    (server.address.clone(), Arc::clone(&stopped), Arc::clone(&answered));
                tokio::spawn(async move {
                    for number in 0.. {
                        let fingerprint = mixed(client << 40 | number);
                        let Ok(mut connection) = Connection::open(&address).await else { return };
                        match connection.ask(&check_and_insert(fingerprint)).await {
                            Ok(reply) => assert!([200, 503].contains(&reply.status), "{reply:?}"),
                            // Refused; nobody is refused before the end.
                            Err(error) => {
                                assert!(stopped.load(Ordering::Relaxed), "{error}");
                                assert_ne!(error.kind(), std::io::ErrorKind::TimedOut);
                                return;
                            }
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        while answered.load(Ordering::Relaxed) < 200 {
            tokio::task::yield_now().await;
        }
        stopped.store(true, Ordering::Relaxed);
        server.signal("TERM");
        let ended = tokio::task::spawn_blocking(move || (server.wait(), server)).await.unwrap();
        assert!(ended.0.success(), "round {round}: {}", ended.1.log());
        for client in clients {
            client.await.unwrap();
        }
    }
}
