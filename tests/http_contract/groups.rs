//! Groups: jobs that find connected near-duplicates.

use std::process::Command;

use serde_json::{Value, json};

use crate::access::limited;
use crate::limits::poll;
use crate::support::{Server, hex, name, text};

/// Begins a job, and waits until it has ended.
pub(crate) fn found(server: &Server, request: &Value) -> Value {
    let job = server.post("/v1/groups", request).accepted();
    let path = format!("/v1/groups/{}", name(&job));
    poll(|| {
        Some(server.get(&path).json())
            .filter(|job| !["waiting", "running"].contains(&job["state"].as_str().unwrap()))
    })
}

/// The ids of each group.
fn ids(server: &Server, job: &Value) -> Vec<Vec<String>> {
    let groups = job["found"].as_array().unwrap();
    let members = |group: &Value| {
        let page = server.get(&format!("/v1/groups/{}/{}", name(job), group["group"])).json();
        let documents = page["documents"].as_array().unwrap();
        documents.iter().map(|d| d["id"].as_str().unwrap_or("-").to_owned()).collect()
    };
    groups.iter().map(members).collect()
}

/// `a`, `b` and `c` are a chain, `d` and `e` are equal, `f` is alone.
fn filled() -> Server {
    let server = Server::start();
    let bits = [("a", 0), ("b", 7), ("c", 0x3f), ("d", 0xff00), ("f", 0xfff << 48), ("e", 0xff00)];
    server.insert_all(bits.map(|(id, bits)| json!({"id": id, "fingerprint": hex(bits)})));
    let of_x = [("x1", 0), ("x2", 1)];
    server.insert_all(
        of_x.map(|(id, bits)| json!({"id": id, "fingerprint": hex(bits), "namespace": "x"})),
    );
    server
}

#[test]
fn a_job_finds_chains_of_near_duplicates_by_size() {
    let server = filled();
    let mut job = found(&server, &json!({}));
    assert_eq!(ids(&server, &job), [vec!["a", "b", "c"], vec!["d", "e"]]);
    assert_eq!(job["job"].take().as_str().unwrap().len(), 32);
    let times = ["begun_at_ms", "ended_at_ms"].map(|name| job[name].take().as_u64().unwrap());
    assert!(times[0] <= times[1]);
    let stored = job["found"][0]["oldest"]["stored_at_ms"].take();
    assert!(stored.as_u64().unwrap() <= times[1]);
    assert_eq!(
        job["found"][0],
        json!({"group": 0, "size": 3, "namespace": null, "oldest": {"sequence": 1,
            "fingerprint": hex(0), "id": "a", "stored_at_ms": null}})
    );
    job["found"].take();
    assert_eq!(
        job,
        json!({"job": null, "kind": "groups", "state": "done", "namespace": null, "distance": 3, "verified": true,
            "min_size": 2, "progress": 1.0, "sequence": 8, "groups": 2, "documents": 5,
            "begun_at_ms": null, "ended_at_ms": null, "found": null, "next": null})
    );
}

/// A sketch with all of its bins, unlike those of other numbers.
fn sketch(number: u64) -> String {
    let mut state = number;
    let mut word = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let low: Vec<u64> = (0..8).map(|_| word()).collect();
    let high: Vec<u64> = low.iter().map(|low| !low | word()).collect();
    let planes: String = low.iter().chain(&high).map(|word| hex(*word)).collect();
    // Labels and numbers of nothing.
    planes + &"0".repeat(56)
}

#[test]
fn fingerprints_whose_sketches_are_not_all_compared_are_counted() {
    // One of so many is left.
    const CROWD: u64 = 257;
    let server = Server::start();
    let document =
        |bits, number| json!({"fingerprint": hex(bits), "sketch": sketch(number), "recipe": "np2"});
    server.insert_all((1..CROWD).map(|number| document(0, number)));
    server.insert_all([document(1, CROWD)]);
    assert_eq!(found(&server, &json!({}))["partly_compared"], json!(null), "all are compared");
    server.insert_all([document(0, CROWD)]);
    let job = found(&server, &json!({}));
    assert_eq!([&job["groups"], &job["partly_compared"]], [1, 1], "{job}");

    // The command prints it even if it lists no group.
    let address = server.address.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    command.args(["groups", "--size-min", "1000", "--server", &address]);
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(printed.contains("no groups") && printed.contains("1 fingerprints"), "{printed}");
}

#[test]
fn distance_namespace_and_size_choose_the_groups() {
    let server = filled();
    let of = |request| ids(&server, &found(&server, &request));
    assert_eq!(of(json!({"distance": 0})), [["d", "e"]]);
    assert_eq!(of(json!({"min_size": 3})), [["a", "b", "c"]]);
    assert_eq!(of(json!({"min_size": 1})).len(), 3);
    assert_eq!(of(json!({"namespace": "x"})), [["x1", "x2"]]);
    assert!(of(json!({"namespace": "none"})).is_empty());
    let all = found(&server, &json!({"all_namespaces": true}));
    assert_eq!(ids(&server, &all), [vec!["a", "b", "c"], vec!["d", "e"], vec!["x1", "x2"]]);
    assert_eq!(all["found"][2]["namespace"], "x");
    assert_eq!((&all["all_namespaces"], all.get("namespace")), (&json!(true), None));
}

#[test]
fn pairs_that_sketches_refute_do_not_count() {
    let server = Server::start();
    // The fingerprints are near, and the texts are not the same at all.
    let [one, other] = [1, 2].map(|seed| text(seed, 300));
    server.insert_all([json!({"id": "one", "text": one}), json!({"id": "other", "text": other})]);
    let fingerprint = |id: &str| {
        let shown = server.get(&format!("/v1/documents/{id}")).json();
        u64::from_str_radix(shown["fingerprint"].as_str().unwrap(), 16).unwrap()
    };
    let apart = (fingerprint("one") ^ fingerprint("other")).count_ones();
    assert!(apart > 3, "the texts differ");
    // A bare fingerprint near one of them has nothing to compare, so the distance decides.
    server.insert("bare", &hex(fingerprint("one") ^ 1));
    assert_eq!(ids(&server, &found(&server, &json!({}))), [["one", "bare"]]);
    let unverified = found(&server, &json!({"verified": false}));
    assert_eq!((&unverified["verified"], ids(&server, &unverified).len()), (&json!(false), 1));
    let contradictory = json!({"verified": false, "min_similarity": 0.5});
    let refused = server.post("/v1/groups", &contradictory).problem_at();
    assert_eq!(refused, (400, "invalid_value".to_owned(), "verified".to_owned()));
}

#[test]
fn two_sketches_refute_a_pair_within_the_distance() {
    let server = Server::start();
    let one = text(1, 300);
    server.insert_all([json!({"id": "one", "text": one})]);
    let fingerprint = |text: &str| {
        let reply = server.post("/v1/fingerprint", &json!({"text": text})).json();
        u64::from_str_radix(reply["fingerprint"].as_str().unwrap(), 16).unwrap()
    };
    let first = fingerprint(&one);
    // Some words of the other text in place of the last ones.
    let words: Vec<&str> = one.split(' ').collect();
    let edited = (1..40).rev().find_map(|count| {
        let kept = words[..words.len() - count].join(" ");
        let edited = format!("{kept} {}", text(2, count));
        let apart = (fingerprint(&edited) ^ first).count_ones();
        (1..=3).contains(&apart).then_some(edited)
    });
    server.insert_all([json!({"id": "other", "text": edited.unwrap()})]);
    let of = |request| ids(&server, &found(&server, &request)).len();
    assert_eq!(of(json!({"min_similarity": 0.5})), 1);
    assert_eq!(of(json!({"min_similarity": 1.0})), 0);
    assert_eq!(of(json!({"verified": false})), 1);
}

#[test]
fn groups_and_documents_come_by_pages() {
    let server = Server::start();
    for group in 0..5_u64 {
        let documents = (0..4).map(|i| {
            let id = format!("{group}/{i}");
            json!({"id": id, "fingerprint": hex(group << 40 | 0xf00 << (group * 2)), "metadata": {"i": i}})
        });
        server.insert_all(documents);
    }
    let job = found(&server, &json!({}));
    let path = format!("/v1/groups/{}", name(&job));
    let (mut numbers, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}?limit=2{after}")).json();
        numbers.extend(page["found"].as_array().unwrap().iter().map(|g| g["group"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let expected: Vec<Value> = (0..job["groups"].as_u64().unwrap()).map(Value::from).collect();
    assert_eq!(numbers, expected);
    let page = server.get(&format!("{path}/0?limit=3&include=metadata")).json();
    assert_eq!(page["documents"].as_array().unwrap().len(), 3);
    assert_eq!(page["documents"][1]["metadata"], json!({"i": 1}));
    let next = page["next"].as_str().unwrap();
    let last = server.get(&format!("{path}/0?after={next}")).json();
    let left = page["size"].as_u64().unwrap() - 3;
    assert_eq!(
        (last["documents"].as_array().unwrap().len() as u64, &last["next"]),
        (left, &json!(null))
    );
    assert_eq!(server.get(&format!("{path}?limit=0")).problem_at().2, "limit");
    assert_eq!(server.get(&format!("{path}/0?limit=1001")).problem_at().2, "limit");
}

#[test]
fn what_was_removed_since_is_gone() {
    let server = filled();
    let job = found(&server, &json!({}));
    server.delete("/v1/documents/a").json();
    let path = format!("/v1/groups/{}", name(&job));
    let page = server.get(&format!("{path}/0")).json();
    assert_eq!((&page["size"], &page["documents"][0]["gone"]), (&json!(3), &json!(true)));
    assert_eq!(page["documents"][0]["id"], json!(null));
    assert_eq!(page["documents"][1]["id"], "b");
    assert_eq!(server.get(&path).json()["found"][0]["oldest"]["gone"], true);
}

#[test]
fn a_removed_job_is_gone_and_so_are_all_jobs_after_a_restart() {
    let server = filled();
    let first = found(&server, &json!({}));
    let path = format!("/v1/groups/{}", name(&first));
    let removed = server.delete(&format!("/v1/jobs/{}", name(&first))).json();
    assert_eq!((&removed["job"], &removed["state"]), (&first["job"], &json!("done")));
    let missing = (404, "groups_not_found".to_owned());
    for reply in [server.get(&path), server.get(&format!("{path}/0"))] {
        assert_eq!(reply.problem(), missing);
    }
    let second = found(&server, &json!({}));
    let path = format!("/v1/groups/{}", name(&second));
    assert_eq!(server.get(&format!("{path}/2")).problem(), missing, "it has two groups");
    assert_eq!(server.get("/v1/jobs").json()["jobs"].as_array().unwrap().len(), 1);
    let server = server.restarted();
    let reply = server.get(&path);
    assert_eq!(reply.problem(), missing);
    let detail = reply.problem_body()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("a restart ends them"), "{detail}");
    assert_eq!(server.get("/v1/jobs").json(), json!({"jobs": [], "next": null}));
}

#[test]
fn the_oldest_ended_job_makes_room_and_the_memory_is_limited() {
    let server = Server::tuned(
        |config| config.groups.memory_bytes_max = 1 << 20,
        |settings| settings.engine.groups_kept_max = 2,
    );
    let jobs = [(); 3].map(|()| found(&server, &json!({})));
    let kept = server.get("/v1/jobs").json();
    let kept: Vec<&Value> =
        kept["jobs"].as_array().unwrap().iter().map(|job| &job["job"]).collect();
    assert_eq!(kept, [&jobs[1]["job"], &jobs[2]["job"]]);
    // 64 bytes for each document.
    server.insert_all((0..17_000).map(|i| json!({"fingerprint": hex(i << 20)})));
    let job = found(&server, &json!({}));
    assert_eq!(job["state"], "failed");
    let error = job["error"].as_str().unwrap();
    assert_eq!(server.get(&format!("/v1/jobs/{}", name(&job))).json()["error"], error);
    assert!(error.contains("1088000") && error.contains("groups.memory_bytes_max"), "{error}");
    let not_ready = server.get(&format!("/v1/groups/{}/0", name(&job))).problem();
    assert_eq!(not_ready, (409, "groups_not_ready".to_owned()));
}

#[test]
fn a_request_that_makes_no_sense_is_refused() {
    let server = Server::start();
    for (request, code, field) in [
        (json!({"distance": 4}), "distance_above_max", "distance"),
        (json!({"min_similarity": 1.5}), "invalid_value", "min_similarity"),
        (json!({"min_size": 0}), "invalid_value", "min_size"),
        (json!({"min_size": 1_u64 << 32}), "invalid_value", "min_size"),
        (json!({"namespace": "a", "all_namespaces": true}), "invalid_value", "all_namespaces"),
        (json!({"size": 2}), "unknown_field", "size"),
    ] {
        let refused = server.post("/v1/groups", &request).problem_at();
        assert_eq!(refused, (400, code.to_owned(), field.to_owned()), "{request}");
    }
    for unknown in ["x", "1"] {
        let refused = server.get(&format!("/v1/groups/{unknown}")).problem();
        assert_eq!(refused, (404, "groups_not_found".to_owned()), "{unknown}");
    }
    let job = found(&server, &json!({}));
    let wrong = server.get(&format!("/v1/groups/{}/x", name(&job)));
    assert_eq!(wrong.problem_at().2, "group");
    server.delete(&format!("/v1/jobs/{}", name(&job))).json();
    assert_eq!(server.get("/v1/jobs").json(), json!({"jobs": [], "next": null}));
}

#[test]
fn a_limited_token_sees_the_groups_of_its_namespaces() {
    let (server, bearer) = limited();
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let send = |line: &str, body: &str| server.send(line, &headers, body.as_bytes());
    let job = send("POST /v1/groups", r#"{"namespace":"news/a"}"#).accepted();
    assert_eq!(send(&format!("GET /v1/groups/{}", name(&job)), "").json()["job"], job["job"]);
    let refused = (403, "namespace_not_allowed".to_owned());
    for body in ["{}", r#"{"namespace":"other"}"#, r#"{"all_namespaces":true}"#] {
        assert_eq!(send("POST /v1/groups", body).problem(), refused, "{body}");
    }
    assert_eq!(send("GET /v1/jobs", "").json()["jobs"].as_array().unwrap().len(), 1);
}
