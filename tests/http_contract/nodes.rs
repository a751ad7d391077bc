//! What a service tells of itself and of the others that it knows.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::support::{Server, hex, started, until};

#[test]
fn a_service_alone_is_its_only_node() {
    let server = Server::start();
    server.insert("a", &hex(1));
    let expected = json!({"nodes": [{
        "address": null, "is_self": true, "role": "alone", "state": "alone", "leads": true,
        "connected": true, "lag_ms": null, "position": 1, "documents": 1,
        "version": env!("CARGO_PKG_VERSION"), "fault": null, "next": null, "error": null,
    }]});
    assert_eq!(server.get("/v1/nodes").json(), expected);
}

#[test]
fn a_service_that_takes_no_writes_tells_why_and_what_helps() {
    let server = Server::with(|config| config.engine.disk_free_bytes_min = 1 << 60);
    let node = server.get("/v1/nodes").json()["nodes"][0].clone();
    let text = |field: &str| node[field].as_str().unwrap_or_default().to_owned();
    assert!(text("fault").starts_with("takes no writes: "), "{node}");
    assert!(text("next").contains("nearprint purge"), "{node}");
}

#[test]
fn a_follower_shows_itself_and_its_primary() {
    let directory = tempfile::tempdir().unwrap();
    let data = |name: &str| directory.path().join(name);
    let primary = started(&data("primary"), None);
    primary.client().post("/v1/insert", &json!({"id": "a", "fingerprint": hex(1)})).unwrap();
    let follower = started(&data("follower"), Some((primary.url(), false)));
    let client = follower.client();
    until("it has everything", || {
        let (_, stats) = client.get("/v1/stats").unwrap();
        stats["following"]["connected"] == true && stats["following"]["state"] == "following"
    });
    // Of a moment ago, when it was not connected yet.
    let mut nodes = Value::Null;
    until("the answer is new", || {
        nodes = client.get("/v1/nodes").unwrap().1["nodes"].clone();
        nodes[0]["connected"] == true
    });
    let lag_ms = nodes[0]["lag_ms"].clone();
    assert!(lag_ms.is_u64(), "{nodes}");
    let version = env!("CARGO_PKG_VERSION");
    let own = json!({
        "address": null, "is_self": true, "role": "follower", "state": "following", "leads": false,
        "connected": true, "lag_ms": lag_ms, "position": 1, "documents": 1, "version": version,
        "fault": null, "next": null, "error": null,
    });
    let other = json!({
        "address": primary.url(), "is_self": false, "role": "primary", "state": "leading",
        "leads": true, "connected": true, "lag_ms": null, "position": 1, "documents": 1,
        "version": version, "fault": null, "next": null, "error": null,
    });
    assert_eq!(nodes, json!([own, other]));

    primary.kill();
    until("the primary is gone", || {
        nodes = client.get("/v1/nodes").unwrap().1["nodes"].clone();
        nodes[1]["state"] == "no_answer" && nodes[0]["connected"] == false
    });
    let text = |at: usize, field: &str| nodes[at][field].as_str().unwrap_or_default().to_owned();
    assert!(text(1, "error").contains(primary.url()) && text(1, "next").contains("serve"));
    assert!(!text(0, "fault").is_empty() && text(0, "next").contains("primary"), "{nodes}");
    assert_eq!((&nodes[1]["role"], &nodes[1]["fault"]), (&json!(null), &json!(null)));
}

/// A primary that accepts and is silent is asked once for each answer, whoever gets that. Answers
/// differ in how far the follower is behind.
#[test]
fn many_consoles_cost_the_others_one_question() {
    let directory = tempfile::tempdir().unwrap();
    let primary = started(&directory.path().join("primary"), None);
    let follower = started(&directory.path().join("follower"), Some((primary.url(), false)));
    primary.kill();
    let silent = TcpListener::bind(&primary.address).unwrap();
    let (sender, questions) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in silent.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            if line.starts_with("GET /v1/stats ") {
                sender.send(line).unwrap();
            }
            kept.push(stream);
        }
    });
    let answers: Vec<Value> = thread::scope(|scope| {
        let ask = || scope.spawn(|| follower.client().get("/v1/nodes").unwrap().1);
        let asking: Vec<_> = (0..20).map(|_| ask()).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let different: HashSet<_> = answers.iter().map(ToString::to_string).collect();
    for answer in &answers {
        assert_eq!(answer["nodes"][1]["state"], "no_answer", "{answer}");
    }
    assert_eq!(questions.try_iter().count(), different.len());
    assert!(different.len() < answers.len());
}
