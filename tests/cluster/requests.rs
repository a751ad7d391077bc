//! Any node takes any request: what it does not decide is passed on, and what was passed on is there.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::DEADLINE;
use crate::nodes::{Cluster, document, fingerprint};
use crate::server::{Client, Reply};

/// A node that has passed on a write waits no longer until it has it itself.
const WAIT_MAX: Duration = Duration::from_secs(1);

fn code(reply: &Value) -> &str {
    reply["code"].as_str().unwrap_or_default()
}

/// The reply to a request, which is sent again while nobody leads: a slow disk may depose the leader.
/// With it `Some` if it came so soon that the node that was asked has what was done.
fn answered(send: impl Fn() -> Reply) -> (Value, Option<()>) {
    let began = Instant::now();
    loop {
        let sent = Instant::now();
        let (status, reply) = send().unwrap();
        if status != 503 {
            assert!(status < 300, "{reply}");
            return (reply, (sent.elapsed() < WAIT_MAX).then_some(()));
        }
        assert!(code(&reply) == "no_leader" && began.elapsed() < DEADLINE, "{reply}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn whoever_is_asked_has_what_it_has_passed_on_and_fresh_answers_have_all() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let leader = cluster.leader();
    let [one, two] = [1, 2].map(|step| cluster.client((leader + step) % 3));
    for number in 0..30 {
        let path = format!("/v1/documents/d{number}");
        let insert = document(&format!("d{number}"));
        let (_, here) = answered(|| one.post("/v1/insert", &insert));
        if here.is_some() {
            assert_eq!(one.get(&path).unwrap().0, 200, "{path}");
        }
        answered(|| two.get(&format!("{path}?fresh=true")));
        let (removed, here) = answered(|| two.delete(&path));
        if here.is_some() {
            assert_eq!(two.get(&path).unwrap().0, 404, "{path}: {removed}");
        }
    }
    // At most 16 may run or wait.
    for number in 0..10 {
        let purge = json!({"prefix": format!("d{number}-")});
        let (job, here) = answered(|| two.post("/v1/purge", &purge));
        let path = format!("/v1/jobs/{}", job["job"].as_str().unwrap());
        if here.is_some() {
            assert_eq!(two.get(&path).unwrap().0, 200, "{path}");
        }
    }
    // A search for groups is known where it was begun.
    let (search, _) = answered(|| one.post("/v1/groups", &json!({})));
    let path = format!("/v1/jobs/{}", search["job"].as_str().unwrap());
    assert_eq!(one.delete(&path).unwrap().0, 200, "{path}");
}

#[test]
fn every_node_says_who_leads_and_that_it_takes_writes() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until("all agree", |cluster| {
        let leader = cluster.leader();
        cluster.clients().iter().enumerate().all(|(at, client)| {
            let state = if at == leader { "leading" } else { "following" };
            // One that has lost the lead is opened again, and does not listen meanwhile.
            let get = |path: &str| client.get(path).map_or(Value::Null, |(_, reply)| reply);
            let is_ready = |path| get(path)["status"] == state;
            let stats = get("/v1/stats");
            let shown = (&stats["cluster"]["address"], &stats["cluster"]["leader"]);
            let fresh = get("/v1/stats?fresh=true");
            let metrics = ureq::get(format!("{}/metrics", cluster.url(at))).call();
            let metrics = metrics.and_then(|reply| reply.into_body().read_to_string());
            let metrics = metrics.unwrap_or_default();
            let leads = format!("nearprint_cluster_leads {}", u8::from(at == leader));
            is_ready("/readyz")
                && is_ready("/readyz/writes")
                && shown == (&json!(cluster.url(at)), &json!(cluster.url(leader)))
                && fresh["cluster"]["address"] == cluster.url(leader)
                && metrics.lines().any(|line| line == leads)
        })
    });
}

#[test]
fn without_the_log_nobody_leads_and_look_ups_go_on() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    cluster.log_servers().kill(0);
    cluster.until("nobody takes writes", |cluster| {
        let asked = cluster.clients().into_iter().map(|client| client.get("/readyz/writes"));
        asked
            .map(Result::unwrap)
            .all(|(status, reply)| (status, code(&reply)) == (503, "no_leader"))
    });
    let near = format!("/v1/query?fingerprint={}", fingerprint("first"));
    for client in cluster.clients() {
        assert_eq!(client.get("/readyz").unwrap().0, 200);
        assert_eq!(Client::expect(client.get(&near))["duplicate"], true);
        for (status, reply) in [
            client.post("/v1/insert", &document("second")).unwrap(),
            client.delete("/v1/documents/first").unwrap(),
            client.post("/v1/purge", &json!({"prefix": "f"})).unwrap(),
            client.get(&format!("{near}&fresh=true")).unwrap(),
        ] {
            assert_eq!((status, code(&reply)), (503, "no_leader"), "{reply}");
        }
    }
    cluster.log_servers().begin(0);
    cluster.write("second");
    cluster.until_equal();
}
