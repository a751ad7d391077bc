//! Any node takes any request: what it does not decide is passed on, and what was passed on is there.

use serde_json::{Value, json};

use crate::nodes::{Cluster, document, fingerprint};
use crate::server::Client;

fn code(reply: &Value) -> &str {
    reply["code"].as_str().unwrap_or_default()
}

fn insert(client: &Client, id: &str) -> Value {
    Client::expect(client.post("/v1/insert", &document(id)))
}

#[test]
fn whoever_is_asked_has_what_it_has_passed_on_and_fresh_answers_have_all() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("first");
    cluster.until_equal();
    let leader = cluster.leader();
    let [one, two] = [1, 2].map(|step| cluster.client((leader + step) % 3));
    for number in 0..30 {
        let id = format!("d{number}");
        let sequence = insert(&one, &id)["sequence"].clone();
        for (client, query) in [
            (&one, String::new()),
            (&two, format!("?min_sequence={sequence}")),
            (&two, "?fresh=true".to_owned()),
        ] {
            let (status, found) = client.get(&format!("/v1/documents/{id}{query}")).unwrap();
            assert_eq!(status, 200, "{id}{query}: {found}");
        }
        let (status, job) = two.post("/v1/purge", &json!({"prefix": format!("{id}-")})).unwrap();
        assert_eq!(status, 202, "{job}");
        let path = format!("/v1/jobs/{}", job["job"].as_str().unwrap());
        assert_eq!(two.get(&path).unwrap().0, 200, "{path}");
        let removed = Client::expect(two.delete(&format!("/v1/documents/{id}")));
        assert_eq!(removed["removed"], 1);
        assert_eq!(two.get(&format!("/v1/documents/{id}")).unwrap().0, 404);
    }
    let lines: Vec<_> = (0..500).map(|number| document(&format!("batch{number}"))).collect();
    let stored = one.post_lines("/v1/insert/batch", &lines);
    assert!(stored.iter().all(|line| line["stored"] == true), "{stored:?}");

    // A search for groups is known where it was begun.
    let (status, search) = one.post("/v1/groups", &json!({})).unwrap();
    assert_eq!(status, 202, "{search}");
    let path = format!("/v1/jobs/{}", search["job"].as_str().unwrap());
    assert_eq!(one.delete(&path).unwrap().0, 200, "{path}");

    for (at, client) in cluster.clients().iter().enumerate() {
        let state = if at == leader { "leading" } else { "following" };
        for path in ["/readyz", "/readyz/writes"] {
            let (status, ready) = client.get(path).unwrap();
            assert_eq!((status, &ready["status"]), (200, &json!(state)), "{path}: {ready}");
        }
        let stats = Client::expect(client.get("/v1/stats"));
        let shown = (&stats["cluster"]["address"], &stats["cluster"]["leader"]);
        assert_eq!(shown, (&json!(cluster.url(at)), &json!(cluster.url(leader))));
        // A fresh answer is that of the leader.
        let fresh = Client::expect(client.get("/v1/stats?fresh=true"));
        assert_eq!(fresh["cluster"]["state"], "leading");
        let metrics = ureq::get(format!("{}/metrics", cluster.url(at))).call().unwrap();
        let metrics = metrics.into_body().read_to_string().unwrap();
        let leads = format!("nearprint_cluster_leads {}", u8::from(at == leader));
        assert!(metrics.lines().any(|line| line == leads), "{metrics}");
    }
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
