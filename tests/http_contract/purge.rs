//! Purges: jobs that remove many documents.

use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Server, hex, name};

/// Documents `a/0`, `b/0`, `a/1`, ... in the default namespace and in `x`.
fn filled() -> Server {
    let server = Server::start();
    let document = |i: u64| {
        let id = format!("{}/{i}", if i.is_multiple_of(2) { "a" } else { "b" });
        json!({"id": id, "fingerprint": hex(i << 8)})
    };
    server.insert_all((0..20).map(document));
    server.insert_all((0..20).map(|i| {
        let mut document = document(i);
        document["namespace"] = json!("x");
        document
    }));
    server
}

/// Waits for a job, and returns it.
fn ended(server: &Server, job: &Value) -> Value {
    let path = format!("/v1/jobs/{}", name(job));
    poll(|| Some(server.get(&path).json()).filter(|job| job["state"] != "running"))
}

fn purged(server: &Server, purge: &Value) -> Value {
    let job = server.post("/v1/purge", purge).accepted();
    assert_eq!((&job["kind"], &job["state"]), (&json!("purge"), &json!("running")));
    ended(server, &job)
}

/// The number of documents in the default namespace and in `x`.
fn left(server: &Server) -> (u64, u64) {
    let namespaces = server.get("/v1/namespaces").json();
    let of_x = namespaces["namespaces"][0]["documents"].as_u64().unwrap_or_default();
    (namespaces["default_documents"].as_u64().unwrap(), of_x)
}

#[test]
fn a_purge_removes_a_namespace() {
    let server = filled();
    let mut job = purged(&server, &json!({"namespace": "x"}));
    assert_eq!(left(&server), (20, 0));
    let begun = job["begun_at_ms"].take().as_u64().unwrap();
    assert!(job["ended_at_ms"].take().as_u64().unwrap() >= begun);
    assert_eq!(
        job,
        json!({"job": name(&job), "kind": "purge", "state": "done", "namespace": "x", "dry_run": false,
            "matched": 20, "removed": 20, "progress": 1.0, "begun_at_ms": null,
            "ended_at_ms": null})
    );
}

#[test]
fn a_purge_removes_what_has_a_prefix() {
    let server = filled();
    let job = purged(&server, &json!({"prefix": "a/", "namespace": "x"}));
    assert_eq!((&job["removed"], &job["prefix"]), (&json!(10), &json!("a/")));
    assert_eq!(left(&server), (20, 10));
    // Without a namespace it concerns the default one.
    let job = purged(&server, &json!({"prefix": "b/1"}));
    assert_eq!((&job["removed"], &job["namespace"]), (&json!(6), &json!(null)));
    assert_eq!(left(&server), (14, 10));
}

#[test]
fn a_purge_removes_what_was_stored_before_a_time() {
    let server = filled();
    let job = purged(&server, &json!({"stored_before": 1_000_000_000}));
    assert_eq!((&job["removed"], &job["stored_before"]), (&json!(0), &json!(1_000_000_000)));
    assert_eq!(left(&server), (20, 20));
    let job = purged(&server, &json!({"stored_before": u32::MAX, "namespace": "x"}));
    assert_eq!(job["removed"], 20);
    let job = purged(&server, &json!({"stored_before": u32::MAX, "prefix": "a/0"}));
    assert_eq!(job["removed"], 1);
    assert_eq!(left(&server), (19, 0));
}

#[test]
fn a_purge_of_all_namespaces_removes_everything() {
    let server = filled();
    let job = purged(&server, &json!({"all_namespaces": true}));
    assert_eq!((&job["removed"], &job["all_namespaces"]), (&json!(40), &json!(true)));
    assert!(job.get("namespace").is_none(), "{job}");
    assert_eq!(left(&server), (0, 0));
}

#[test]
fn a_dry_run_counts_and_removes_nothing() {
    let server = filled();
    let job = purged(&server, &json!({"all_namespaces": true, "prefix": "a/", "dry_run": true}));
    assert_eq!((&job["matched"], &job["removed"]), (&json!(20), &json!(0)));
    assert_eq!((&job["dry_run"], &job["state"]), (&json!(true), &json!("done")));
    assert_eq!(left(&server), (20, 20));
}

#[test]
fn what_is_stored_after_a_purge_has_begun_stays() {
    let server = filled();
    let job = server.post("/v1/purge", &json!({"namespace": "x"})).accepted();
    let body = json!({"id": "late", "fingerprint": hex(1), "namespace": "x"});
    server.post("/v1/insert", &body).json();
    ended(&server, &job);
    assert_eq!(server.get("/v1/documents/late?namespace=x").status, 200);
}

#[test]
fn a_purge_that_names_nothing_is_refused() {
    let server = filled();
    for purge in [json!({}), json!({"dry_run": true}), json!({"all_namespaces": false})] {
        let refused = server.post("/v1/purge", &purge);
        assert_eq!(refused.problem(), (400, "invalid_value".to_owned()), "{purge}");
        let detail = refused.text();
        for name in ["namespace", "all_namespaces", "prefix", "stored_before"] {
            assert!(detail.contains(name), "{detail}");
        }
    }
    assert_eq!(server.get("/v1/jobs").json(), json!({"jobs": [], "next": null}));
}

#[test]
fn a_wrong_field_of_a_purge_is_refused() {
    let server = Server::start();
    for (purge, field) in [
        (json!({"namespace": ""}), "namespace"),
        (json!({"namespace": "x", "all_namespaces": true}), "all_namespaces"),
        (json!({"all_namespaces": "yes"}), "all_namespaces"),
        (json!({"prefix": ""}), "prefix"),
        (json!({"prefix": "x".repeat(2_049)}), "prefix"),
        (json!({"prefix": 1}), "prefix"),
        (json!({"stored_before": 0}), "stored_before"),
        (json!({"stored_before": 4_294_967_296_u64}), "stored_before"),
        (json!({"stored_before": "2026-01-01"}), "stored_before"),
        (json!({"namespace": "x", "dry_run": 1}), "dry_run"),
    ] {
        let refused = server.post("/v1/purge", &purge).problem_at();
        assert_eq!(refused, (400, "invalid_value".to_owned(), field.to_owned()), "{purge}");
    }
    let unknown = server.post("/v1/purge", &json!({"id": "a"}));
    assert_eq!(unknown.problem_at(), (400, "unknown_field".to_owned(), "id".to_owned()));
    let text = server.send("POST /v1/purge", &[("content-type", "text/plain")], b"{}");
    assert_eq!(text.problem(), (415, "unsupported_media_type".to_owned()));
    assert_eq!(server.post_text("/v1/purge", "[]").problem().0, 400);
}

#[test]
fn a_job_is_listed_and_can_be_cancelled() {
    let server = filled();
    // One after the other: at least the last one waits when it is cancelled, or is done already.
    let jobs: Vec<Value> = (0..5)
        .map(|_| server.post("/v1/purge", &json!({"namespace": "x", "prefix": "a"})).accepted())
        .collect();
    let last = jobs.last().unwrap();
    let cancelled = server.delete(&format!("/v1/jobs/{}", name(last))).json();
    assert_eq!(cancelled["job"], last["job"]);
    assert!(["cancelled", "done"].contains(&cancelled["state"].as_str().unwrap()), "{cancelled}");
    for job in &jobs {
        ended(&server, job);
    }
    let listed = server.get("/v1/jobs").json();
    let numbers: Vec<_> =
        listed["jobs"].as_array().unwrap().iter().map(|job| &job["job"]).collect();
    assert_eq!(numbers, jobs.iter().map(|job| &job["job"]).collect::<Vec<_>>());
    // Cancelling again changes nothing.
    assert_eq!(server.delete(&format!("/v1/jobs/{}", name(last))).json(), ended(&server, last));
}

#[test]
fn too_many_jobs_are_refused() {
    let server = filled();
    // Some end meanwhile.
    let post = |_| server.post("/v1/purge", &json!({"namespace": "x", "dry_run": true}));
    let refused = poll(|| (0..20).map(post).find(|reply| reply.status != 202));
    assert_eq!(refused.problem(), (409, "too_many_jobs".to_owned()));
}

#[test]
fn a_job_that_there_is_not_is_not_found() {
    let server = Server::start();
    let digits = ["0".repeat(32), "f".repeat(32), "F".repeat(32), "0".repeat(31), "0".repeat(33)];
    let others = ["x", "17", "-1", "+1", "%ff"].map(str::to_owned);
    for unknown in digits.iter().chain(&others) {
        let missing = (404, "job_not_found".to_owned());
        assert_eq!(server.get(&format!("/v1/jobs/{unknown}")).problem(), missing, "{unknown}");
        assert_eq!(server.delete(&format!("/v1/jobs/{unknown}")).problem(), missing, "{unknown}");
    }
}

#[test]
fn jobs_survive_a_restart() {
    let server = filled();
    let job = purged(&server, &json!({"namespace": "x"}));
    let server = server.restarted();
    assert_eq!(server.get("/v1/jobs").json(), json!({"jobs": [job], "next": null}));
}
