//! Purges, a deleted namespace, expiry and replaced ids, while leaders come and go: each job counts
//! exactly what it removed, whoever finished it, and all nodes end with the same.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::nodes::{Cluster, NODES, fingerprint};

/// Documents of each kind.
const COUNT: usize = 4_000;
const CHANGES: usize = 4;

/// Posts to whoever takes it.
fn post(cluster: &Cluster, path: &str, body: &Value) -> Value {
    let mut answer = None;
    cluster.until(&format!("{path} is taken"), |cluster| {
        let asked = cluster.running().map(|at| cluster.client(at).post(path, body));
        answer = asked.flatten().find(|(status, _)| (200..300).contains(status));
        answer.is_some()
    });
    answer.unwrap().1
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
    let leader = cluster.leader();
    for (prefix, more) in [
        ("kept/", json!({})),
        // The same ids again.
        ("kept/", json!({"metadata": {"version": 2}})),
        ("old/", json!({})),
        ("gone/", json!({"namespace": "gone"})),
        ("short/", json!({"expires_in": 8})),
    ] {
        let answers = cluster.client(leader).post_lines("/v1/insert/batch", &lines(prefix, &more));
        assert!(answers.iter().all(|answer| answer["stored"] == true), "{prefix}");
    }
    let purge = post(&cluster, "/v1/purge", &json!({"prefix": "old/"}));
    let follower = cluster.follower();
    let deletion = cluster.client(follower).delete("/v1/namespaces/gone");
    let (status, deletion) = deletion.unwrap();
    assert_eq!(status, 202, "{deletion}");
    for _ in 0..CHANGES {
        let leader = cluster.leader();
        assert!(cluster.terminate(leader).success(), "{}", cluster.log(leader));
        cluster.begin(leader);
        // Not a wait for something: the next leader works for a moment.
        thread::sleep(Duration::from_millis(300));
    }
    for job in [purge, deletion] {
        let path = format!("/v1/jobs/{}", job["job"].as_str().unwrap());
        let shown = |cluster: &Cluster, at| cluster.client(at).get(&path).ok().map(|(_, job)| job);
        cluster.until("all have seen the end of the job", |cluster| {
            (0..NODES).all(|at| shown(cluster, at).is_some_and(|job| job["state"] == "done"))
        });
        let shown = |at| shown(&cluster, at).unwrap();
        assert_eq!(shown(0)["removed"], COUNT, "{}", shown(0));
        assert!((1..NODES).all(|at| shown(at) == shown(0)), "all tell the same");
    }
    cluster.until("what expires is gone", |cluster| {
        (0..NODES).all(|at| cluster.documents(at).len() == COUNT)
    });
    cluster.until_equal();
    let kept = |at: usize| {
        let (_, found) = cluster.client(at).get("/v1/documents?id=kept/7").unwrap();
        found["metadata"]["version"].clone()
    };
    assert_eq!([0, 1, 2].map(kept), [2, 2, 2], "the newest of each id is kept");
}
