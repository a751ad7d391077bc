//! Any node takes any request: what it does not decide is passed on, and what was passed on is
//! there.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::DEADLINE;
use crate::nodes::{Cluster, NODES, PASSING, document, fingerprint};
use crate::support::server::{Client, Reply, series};

fn code(reply: &Value) -> &str {
    reply["code"].as_str().unwrap_or_default()
}

/// The reply of a node to a request, which is sent again while nobody leads: a slow disk may depose
/// the leader.
fn answered(cluster: &Cluster, at: usize, send: impl Fn(&Client) -> Reply) -> Value {
    let began = Instant::now();
    loop {
        let (status, reply) = cluster.answer(at, &send);
        if status != 503 {
            assert!(status < 300, "{reply}");
            return reply;
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
        answered(&cluster, one, |client| client.post_until_here("/v1/insert", &insert));
        assert_eq!(found(one).0, 200, "{path}");
        answered(&cluster, two, |client| client.get(&format!("{path}?fresh=true")));
        let removed = answered(&cluster, two, |client| client.delete_until_here(&path));
        assert_eq!(found(two).0, 404, "{path}: {removed}");
    }
    // One client may have eight that run or wait.
    for number in 0..8 {
        let purge = json!({"prefix": format!("d{number}-")});
        let job = answered(&cluster, two, |client| client.post_until_here("/v1/purge", &purge));
        cluster.get(two, &format!("/v1/jobs/{}", job["job"].as_str().unwrap()));
    }
    // A search for groups is known where it was begun.
    let search = answered(&cluster, one, |client| client.post("/v1/groups", &json!({})));
    let path = format!("/v1/jobs/{}", search["job"].as_str().unwrap());
    Client::expect(Ok(cluster.answer(one, |client| client.delete(&path))));
}

#[test]
fn every_node_says_who_leads_and_that_it_takes_writes() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.until("each at rest has at most 420 series", |cluster| {
        (0..NODES).all(|at| {
            let Ok(series) = series(&cluster.url(at)) else { return false };
            assert!(series.len() <= 420, "{} series\n{}", series.len(), series.join("\n"));
            series.iter().any(|line| line.starts_with("nearprint_cluster_"))
        })
    });
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
            let metrics = series(&cluster.url(at)).unwrap_or_default();
            let leads = format!("nearprint_cluster_leads {}", u8::from(at == leader));
            is_ready("/readyz")
                && is_ready("/readyz/writes")
                && is_ready("/readyz/reads?max_lag_ms=5000")
                && shown == (&json!(cluster.url(at)), &json!(cluster.url(leader)))
                && fresh["cluster"]["address"] == cluster.url(leader)
                && metrics.contains(&leads)
        })
    });
}

#[test]
fn every_node_shows_all_nodes_and_which_one_is_gone() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let shown = |cluster: &Cluster, at: usize, of: usize| {
        let nodes = cluster.get(at, "/v1/nodes")["nodes"].as_array().unwrap().clone();
        assert_eq!(nodes.len(), NODES);
        assert_eq!(nodes[0]["address"], cluster.url(at), "itself first");
        nodes.into_iter().find(|node| node["address"] == cluster.url(of)).unwrap()
    };
    cluster.until("each shows all as they are", |cluster| {
        let leader = cluster.leader();
        let agree = |at: usize, of: usize| {
            let node = shown(cluster, at, of);
            let state = if of == leader { "leading" } else { "following" };
            node["role"] == "node"
                && node["is_self"] == (at == of)
                && node["state"] == state
                && node["leads"] == (of == leader)
                && node["connected"] == true
                && node["documents"] == 1
                && node["fault"].is_null()
        };
        (0..NODES).all(|at| (0..NODES).all(|of| agree(at, of)))
    });
    let (gone, asked) = (cluster.follower(), cluster.leader());
    cluster.kill(gone);
    cluster.until("it is shown as gone", |cluster| {
        let node = shown(cluster, asked, gone);
        let says = |field: &str, what: &str| node[field].as_str().unwrap_or("").contains(what);
        node["state"] == "no_answer"
            && says("error", &cluster.url(gone))
            && says("next", "nearprint serve")
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
        cluster.get(at, "/readyz/reads");
        let new = |client: &Client| client.get("/readyz/reads?max_lag_ms=1");
        cluster.until("it says that it is behind", |cluster| {
            let (status, reply) = cluster.answer(at, new);
            (status, code(&reply)) == (503, "behind")
        });
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

/// It is paused with the write, so it neither answers nor closes the connection.
#[test]
fn a_write_that_was_passed_on_to_a_paused_leader_ends_when_another_leads() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let (paused, asked) = (cluster.leader(), cluster.follower());
    cluster.signal(paused, "STOP");
    let client = cluster.client_within(asked, DEADLINE);
    let (status, reply) = client.post("/v1/insert", &document("second")).unwrap();
    cluster.signal(paused, "CONT");
    let detail = reply["detail"].as_str().unwrap();
    assert_eq!((status, code(&reply)), (503, "outcome_unknown"), "{reply}");
    assert!(detail.contains("Another node leads now"), "{reply}");
    cluster.until_equal();
}
