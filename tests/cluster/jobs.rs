//! Purges, a deleted namespace, expiry and replaced ids, while leaders come and go: each job counts
//! exactly what it removed, whoever finished it, and all nodes end with the same.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::nodes::{Cluster, NODES, fingerprint};
use crate::support::server::Reply;

/// Documents of each kind.
const COUNT: usize = 4_000;
const CHANGES: usize = 4;

/// Begins a job once somebody leads, and returns the reply.
fn begun(cluster: &Cluster, begin: impl Fn() -> Reply) -> Value {
    let mut job = None;
    cluster.until("the job is begun", |_| {
        job = begin().ok().filter(|(status, _)| *status == 202);
        job.is_some()
    });
    job.unwrap().1
}

fn lines(prefix: &str, more: &Value) -> Vec<Value> {
    let line = |number| {
        let id = format!("{prefix}{number}");
        let mut line = json!({"fingerprint": fingerprint(&format!("{id}{more}")), "id": id});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    (0..COUNT).map(line).collect()
}

#[test]
fn jobs_go_on_under_the_next_leader_and_count_exactly() {
    let Some(mut cluster) = Cluster::start_with(3, &["--max-bytes", "256m"]) else { return };
    for (prefix, more) in [
        ("kept/", json!({})),
        // The same ids again.
        ("kept/", json!({"metadata": {"version": 2}})),
        ("old/", json!({})),
        ("gone/", json!({"namespace": "gone"})),
        ("short/", json!({"expires_in": 8})),
    ] {
        cluster.store(&lines(prefix, &more));
    }
    let purge = json!({"prefix": "old/"});
    let purge = begun(&cluster, || cluster.client(cluster.leader()).post("/v1/purge", &purge));
    let gone = json!({"namespace": "gone"});
    let deletion = begun(&cluster, || cluster.client(cluster.follower()).post("/v1/purge", &gone));
    for _ in 0..CHANGES {
        let leader = cluster.leader();
        assert!(cluster.terminate(leader).success(), "{}", cluster.log(leader));
        cluster.begin(leader);
        // Not a wait for something: the next leader works for a moment.
        thread::sleep(Duration::from_millis(300));
    }
    for job in [purge, deletion] {
        let path = format!("/v1/jobs/{}", job["job"].as_str().unwrap());
        let shown = |at| cluster.answer(at, |client| client.get(&path)).1;
        cluster.until("all have seen the end of the job", |_| {
            (0..NODES).all(|at| shown(at)["state"] == "done")
        });
        assert_eq!(shown(0)["removed"], COUNT, "{}", shown(0));
        assert!((1..NODES).all(|at| shown(at) == shown(0)), "all tell the same");
    }
    cluster.until("what expires is gone", |cluster| {
        (0..NODES).all(|at| cluster.documents(at).len() == COUNT)
    });
    cluster.until_equal();
    let kept = |at: usize| cluster.get(at, "/v1/documents/kept%2F7")["metadata"]["version"].clone();
    assert_eq!([0, 1, 2].map(kept), [2, 2, 2], "the newest of each id is kept");
}
