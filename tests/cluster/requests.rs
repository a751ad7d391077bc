//! Any node takes any request: what it does not decide is passed on, and what was passed on is
//! there.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::DEADLINE;
use crate::nodes::{Cluster, NODES, PASSING, document, fingerprint};
use crate::support::server::{Client, Reply};

/// A node that has passed on a write waits no longer until it has it itself.
const WAIT_MAX: Duration = Duration::from_secs(1);

fn code(reply: &Value) -> &str {
    reply["code"].as_str().unwrap_or_default()
}

/// The reply of a node to a request, which is sent again while nobody leads: a slow disk may depose
/// the leader. With it `Some` if it came so soon that the node has what was done.
fn answered(cluster: &Cluster, at: usize, send: impl Fn(&Client) -> Reply) -> (Value, Option<()>) {
    let began = Instant::now();
    loop {
        let sent = Instant::now();
        let (status, reply) = cluster.answer(at, &send);
        if status != 503 {
            assert!(status < 300, "{reply}");
            return (reply, (sent.elapsed() < WAIT_MAX).then_some(()));
        }
        assert!(PASSING.contains(&code(&reply)), "{reply}");
        assert!(began.elapsed() < DEADLINE, "{reply}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn whoever_is_asked_has_what_it_has_passed_on_and_fresh_answers_have_all() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let leader = cluster.leader();
    let [one, two] = [1, 2].map(|step| (leader + step) % NODES);
    for number in 0..30 {
        let path = format!("/v1/documents/d{number}");
        let insert = document(&format!("d{number}"));
        let found = |at| cluster.answer(at, |client| client.get(&path));
        let (_, here) = answered(&cluster, one, |client| client.post("/v1/insert", &insert));
        if here.is_some() {
            assert_eq!(found(one).0, 200, "{path}");
        }
        answered(&cluster, two, |client| client.get(&format!("{path}?fresh=true")));
        let (removed, here) = answered(&cluster, two, |client| client.delete(&path));
        if here.is_some() {
            assert_eq!(found(two).0, 404, "{path}: {removed}");
        }
    }
    // One client may have eight that run or wait.
    for number in 0..8 {
        let purge = json!({"prefix": format!("d{number}-")});
        let (job, here) = answered(&cluster, two, |client| client.post("/v1/purge", &purge));
        if here.is_some() {
            cluster.get(two, &format!("/v1/jobs/{}", job["job"].as_str().unwrap()));
        }
    }
    // A search for groups is known where it was begun.
    let (search, _) = answered(&cluster, one, |client| client.post("/v1/groups", &json!({})));
    let path = format!("/v1/jobs/{}", search["job"].as_str().unwrap());
    Client::expect(Ok(cluster.answer(one, |client| client.delete(&path))));
}

#[test]
fn every_node_says_who_leads_and_that_it_takes_writes() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until("all agree", |cluster| {
        let leader = cluster.leader();
        cluster.clients().iter().enumerate().all(|(at, client)| {
            let state = if at == leader { "leading" } else { "following" };
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
    let is_refused = |(status, reply): &(u16, Value)| (*status, code(reply)) == (503, "no_leader");
    cluster.until("nobody takes writes", |cluster| {
        (0..NODES).all(|at| is_refused(&cluster.answer(at, |client| client.get("/readyz/writes"))))
    });
    let near = format!("/v1/query?fingerprint={}", fingerprint("first"));
    for at in 0..NODES {
        cluster.get(at, "/readyz");
        assert_eq!(cluster.get(at, &near)["duplicate"], true);
        for answer in [
            cluster.answer(at, |client| client.post("/v1/insert", &document("second"))),
            cluster.answer(at, |client| client.delete("/v1/documents/first")),
            cluster.answer(at, |client| client.post("/v1/purge", &json!({"prefix": "f"}))),
            cluster.answer(at, |client| client.get(&format!("{near}&fresh=true"))),
        ] {
            assert!(is_refused(&answer), "{answer:?}");
        }
    }
    cluster.log_servers().begin(0);
    cluster.write("second");
    cluster.until_equal();
}
