//! Promise: a purge continues where it was after a kill at any moment, removes what it was begun
//! for and nothing else, and its count is exact; what has expired stays away after a kill. Method:
//! a real server is killed again and again until the job has ended.

use serde_json::{Value, json};

use crate::load::pause;
use crate::random::Random;
use crate::support::server::{Client, Server};

const PURGED: u64 = 60_000;
const KEPT: u64 = 2_000;
/// A bound for a test that hangs, 20 ms each.
const LOOKS_MAX: usize = 3_000;

fn store(client: &Client, namespace: &str, numbers: std::ops::Range<u64>, expires_in: Option<u64>) {
    let line = |number: u64| {
        let fingerprint = format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut line = json!({
            "namespace": namespace, "id": number.to_string(), "fingerprint": fingerprint
        });
        if let Some(seconds) = expires_in {
            line["expires_in"] = json!(seconds);
        }
        line
    };
    let lines: Vec<Value> = numbers.map(line).collect();
    for lines in lines.chunks(10_000) {
        let replies = client.post_lines("/v1/insert/batch", lines);
        assert_eq!(replies.len(), lines.len());
        assert!(replies.iter().all(|reply| reply["stored"] == json!(true)));
    }
}

fn documents(client: &Client, namespace: &str) -> u64 {
    let stats = Client::expect(client.get(&format!("/v1/stats?namespace={namespace}")));
    stats["documents"].as_u64().expect("a number")
}

/// How many documents a purge says it has removed, and how many are left, at one moment: nothing is
/// removed between the two counts. `None` if it is done before there is such a moment.
fn removed_and_left(client: &Client, job: &str) -> Option<(u64, u64)> {
    let removed = || {
        let job = Client::expect(client.get(job));
        (job["state"] == "running").then(|| job["removed"].as_u64().expect("a count"))
    };
    let mut before = removed()?;
    loop {
        let left = documents(client, "gone");
        let after = removed()?;
        if after == before {
            return Some((before, left));
        }
        before = after;
    }
}

#[test]
fn a_purge_that_is_killed_at_any_moment_ends_with_an_exact_count() {
    let mut random = Random::of_run();
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let server = Server::start(data);
    store(&server.client(), "gone", 0..PURGED, None);
    store(&server.client(), "kept", 0..KEPT, None);
    let (status, job) =
        server.client().post("/v1/purge", &json!({"namespace": "gone"})).expect("it is up");
    assert_eq!(status, 202, "{job}");
    let route = format!("/v1/jobs/{}", job["job"].as_str().expect("a name"));
    pause(random.below(40));
    server.kill();
    let mut compared = 0;
    for kill in 0.. {
        assert!(kill < LOOKS_MAX, "the job ends");
        let server = Server::start(data);
        let job = Client::expect(server.client().get(&route));
        if job["state"] == "done" {
            assert_eq!((&job["matched"], &job["removed"]), (&json!(PURGED), &json!(PURGED)));
            break;
        }
        assert_eq!(job["state"], "running", "{job}");
        if let Some((removed, left)) = removed_and_left(&server.client(), &route) {
            assert_eq!(removed, PURGED - left, "count and documents are one change");
            compared += 1;
        }
        pause(random.below(60 + kill * 5));
        server.kill();
    }
    assert!(compared > 0, "count and documents were never compared");
    let server = Server::start(data);
    assert_eq!(documents(&server.client(), "gone"), 0);
    assert_eq!(documents(&server.client(), "kept"), KEPT);
    assert!(server.terminate().success());
}

#[test]
fn what_has_expired_stays_away_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let data = &data.path().join("data");
    let start = || {
        let mut command = Server::command(data);
        command.env("NEARPRINT_ENGINE__EXPIRED_KEPT_MS", "0");
        Server::of(command).expect("it starts")
    };
    let server = start();
    store(&server.client(), "soon", 0..5_000, Some(1));
    store(&server.client(), "late", 0..KEPT, Some(100_000));
    pause(2_500);
    server.kill();
    for look in 0.. {
        assert!(look < LOOKS_MAX, "what has expired is removed");
        let server = start();
        let query = json!({"namespace": "soon", "fingerprint": "9e3779b97f4a7c15", "distance": 0});
        let reply = Client::expect(server.client().post("/v1/query", &query));
        assert_eq!(reply["hit_count"], 0, "{reply}");
        pause(150);
        let left = documents(&server.client(), "soon");
        server.kill();
        if left == 0 {
            break;
        }
    }
    let server = Server::start(data);
    assert_eq!(documents(&server.client(), "late"), KEPT);
    assert!(server.terminate().success());
}
