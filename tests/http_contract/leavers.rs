//! Promise: a client that leaves does no harm, over HTTP: a write took effect as a whole or not at
//! all, a batch up to some line, and repeating the request shows which.
//! `crates/engine/tests/concurrency/abandoned.rs` tests the same in process, with the permits of
//! the queue.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::races::together;
use crate::random::Random;
use crate::support::{Server, hex};

const LEAVERS: usize = 32;
const ROUNDS: usize = 30;
const LINES: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    InTheHead,
    BeforeTheLastByte,
    WithoutReading,
    /// Halfway through its reply, if there is one already.
    WhileItReads,
}

const PLACES: [Leaves; 4] =
    [Leaves::InTheHead, Leaves::BeforeTheLastByte, Leaves::WithoutReading, Leaves::WhileItReads];

fn document(id: &str, number: usize) -> Value {
    json!({"id": id, "fingerprint": hex(Random(number as u64).next())})
}

/// Sends a request and leaves.
fn leave(server: &Server, place: Leaves, line: &str, kind: &str, body: &str) {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = match place {
        Leaves::InTheHead => 30,
        Leaves::BeforeTheLastByte => request.len() - 1,
        Leaves::WithoutReading | Leaves::WhileItReads => request.len(),
    };
    let mut connection = server.connect();
    connection.write(&request.as_bytes()[..sent]).unwrap();
    if place == Leaves::WhileItReads {
        connection.byte();
    }
}

#[test]
fn a_write_of_a_client_that_left_happened_wholly_or_not_at_all() {
    let server = Server::start();
    let number = |client: usize, round: usize| client * ROUNDS + round;
    together(LEAVERS, |client| {
        for round in 0..ROUNDS {
            let id = number(client, round).to_string();
            let body = document(&id, number(client, round)).to_string();
            let place = PLACES[round % PLACES.len()];
            leave(&server, place, "POST /v1/check-and-insert", "application/json", &body);
        }
        Value::Null
    });
    // A stop waits for accepted requests, so none is running from here on.
    let server = server.restarted();
    let mut stored = 0;
    for client in 0..LEAVERS {
        for round in 0..ROUNDS {
            let (place, number) = (PLACES[round % PLACES.len()], number(client, round));
            let there = server.get(&format!("/v1/documents/{number}")).status == 200;
            match place {
                Leaves::InTheHead | Leaves::BeforeTheLastByte => assert!(!there, "{place:?}"),
                Leaves::WhileItReads => assert!(there, "it was being answered"),
                Leaves::WithoutReading => {}
            }
            stored += usize::from(there);
            let body = document(&number.to_string(), number);
            let again = server.post("/v1/check-and-insert", &body).json();
            let expected = if there { "already_present" } else { "inserted" };
            assert_eq!(again["outcome"], expected, "{place:?}");
        }
    }
    assert!(stored >= LEAVERS * (ROUNDS / PLACES.len()), "{stored} were stored");
    assert_eq!(server.get("/v1/stats").json()["documents"], LEAVERS * ROUNDS);
}

#[test]
fn of_a_batch_whose_client_left_a_beginning_is_stored() {
    let server = Server::start();
    let id = |client: usize, line: usize| format!("{client}/{line}");
    together(LEAVERS, |client| {
        let mut lines = String::new();
        for line in 0..LINES {
            writeln!(lines, "{}", document(&id(client, line), client * LINES + line)).unwrap();
        }
        let place = PLACES[client % PLACES.len()];
        leave(&server, place, "POST /v1/insert/batch", "application/x-ndjson", &lines);
        Value::Null
    });
    let server = server.restarted();
    let mut stored = 0;
    for client in 0..LEAVERS {
        let there = |line: usize| {
            let path = format!("/v1/documents/{}", id(client, line).replace('/', "%2F"));
            server.get(&path).status == 200
        };
        let beginning = (0..LINES).take_while(|&line| there(line)).count();
        assert!((beginning..LINES).all(|line| !there(line)), "client {client}: a gap");
        stored += beginning;
    }
    assert!(stored > 0, "this proves nothing");
    assert_eq!(server.get("/v1/stats").json()["documents"], stored);
}
