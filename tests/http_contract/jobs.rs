//! What is common to jobs of every kind: their list and its pages, their states, and how they are
//! cancelled.

use nearprint::access::Token;
use nearprint::server::Settings;
use serde_json::{Value, json};

use crate::limits::poll;
use crate::support::{Server, hex, name};

/// A server with one document, and a purge and a search for groups, begun in turns.
fn with_jobs(count: usize) -> (Server, Vec<Value>) {
    let server = Server::tuned(|_| {}, |settings| settings.engine.groups_kept_max = 100);
    server.insert("a", &hex(1));
    let begin = |_| {
        let purge = server.post("/v1/purge", &json!({"namespace": "x"})).accepted();
        [purge, server.post("/v1/groups", &json!({})).accepted()]
    };
    let jobs = (0..count).flat_map(begin).collect();
    (server, jobs)
}

fn ended(server: &Server, job: &Value) -> Value {
    let path = format!("/v1/jobs/{}", name(job));
    poll(|| Some(server.get(&path).json()).filter(|job| job["ended_at_ms"] != json!(null)))
}

fn names(page: &Value) -> Vec<&str> {
    page["jobs"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_job_of_every_kind_is_listed_and_shown() {
    let (server, begun) = with_jobs(1);
    let [purge, groups] = [0, 1].map(|at| ended(&server, &begun[at]));
    assert_eq!([&purge["kind"], &groups["kind"]], ["purge", "groups"]);
    for job in [&purge, &groups] {
        assert_eq!((&job["state"], &job["progress"]), (&json!("done"), &json!(1.0)));
    }
    assert_eq!(server.get("/v1/jobs").json(), json!({"jobs": [purge, groups], "next": null}));
    // The resource of groups has what the list has, and the groups.
    let mut with_groups = server.get(&format!("/v1/groups/{}", name(&groups))).json();
    let fields = with_groups.as_object_mut().unwrap();
    assert!(fields.remove("found").is_some() && fields.remove("next").is_some());
    assert_eq!(with_groups, groups);
    let no_groups = server.get(&format!("/v1/groups/{}", name(&purge)));
    assert_eq!(no_groups.problem(), (404, "groups_not_found".to_owned()));
}

#[test]
fn jobs_come_by_pages_removals_first_and_each_kind_in_its_order() {
    let (server, begun) = with_jobs(3);
    let of_kind = |kind| begun.iter().filter(move |job| job["kind"] == kind).map(name);
    let groups: Vec<&str> = of_kind("groups").collect();
    let all: Vec<&str> = of_kind("purge").chain(of_kind("groups")).collect();
    for limit in [1, 2, 4, 6, 1_000] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/v1/jobs?limit={limit}{after}")).json();
            let listed = names(&page);
            assert!((1..=limit).contains(&listed.len()), "{page}");
            seen.extend(listed.into_iter().map(str::to_owned));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen, all, "by {limit}");
    }
    assert_eq!(names(&server.get("/v1/jobs").json()), all);
    assert_eq!(server.get("/v1/jobs?limit=0").problem_at().2, "limit");
    assert_eq!(server.get("/v1/jobs?after=x").problem_at().2, "after");
    // A page begins where the one before ended, even if that job is forgotten.
    let before = server.get("/v1/jobs?limit=4").json();
    assert_eq!(names(&before)[3], groups[0]);
    ended(&server, &json!({"job": groups[0]}));
    server.delete(&format!("/v1/jobs/{}", groups[0])).json();
    let next = before["next"].as_str().unwrap();
    let page = server.get(&format!("/v1/jobs?after={next}")).json();
    assert_eq!(names(&page), groups[1..]);
}

#[test]
fn a_search_for_groups_is_cancelled_like_any_job_and_then_removed() {
    let (server, _) = with_jobs(0);
    // It waits for a moment, so it is hardly ever done before it is cancelled.
    let job = poll(|| {
        let begun = server.post("/v1/groups", &json!({})).accepted();
        let job = server.delete(&format!("/v1/jobs/{}", name(&begun))).json();
        (job["state"] == "cancelled").then_some(job)
    });
    assert!(job["ended_at_ms"].as_u64() >= job["begun_at_ms"].as_u64(), "{job}");
    let path = format!("/v1/groups/{}", name(&job));
    let shown = server.get(&path).json();
    assert_eq!((&shown["state"], shown.get("found")), (&json!("cancelled"), None));
    let not_ready = (409, "groups_not_ready".to_owned());
    assert_eq!(server.get(&format!("{path}/0")).problem(), not_ready);
    let of_jobs = format!("/v1/jobs/{}", name(&job));
    assert_eq!(server.get(&of_jobs).json(), job, "it stays listed");
    assert_eq!(server.delete(&of_jobs).json(), job);
    let missing = (404, "job_not_found".to_owned());
    assert_eq!(server.delete(&of_jobs).problem(), missing);
    assert_eq!(server.get(&of_jobs).problem(), missing);
}

#[test]
fn a_token_that_may_only_read_ends_searches_and_no_purges() {
    let [reader, writer] = [(); 2].map(|()| Token::generate().unwrap());
    let server = Server::with(|config| {
        config.access.tokens =
            format!("reader read {}\nwriter read,write {}", reader.digest(), writer.digest());
    });
    let send = |token: &Token, line: &str, body: &str| {
        let bearer = format!("Bearer {}", token.reveal());
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        server.send(line, &headers, body.as_bytes())
    };
    let search = send(&reader, "POST /v1/groups", "{}").accepted();
    let path = format!("/v1/jobs/{}", name(&search));
    poll(|| {
        let job = send(&reader, &format!("GET {path}"), "").json();
        (job["state"] == "done").then_some(())
    });
    assert_eq!(send(&reader, &format!("DELETE {path}"), "").json()["state"], "done");
    let purge = send(&writer, "POST /v1/purge", r#"{"namespace":"x"}"#).accepted();
    for gone_or_purge in [path, format!("/v1/jobs/{}", name(&purge))] {
        let refused = send(&reader, &format!("DELETE {gone_or_purge}"), "").problem();
        assert_eq!(refused, (403, "scope_missing".to_owned()));
    }
    send(&writer, &format!("DELETE /v1/jobs/{}", name(&purge)), "").json();
}

#[test]
fn a_limited_token_sees_and_cancels_no_job_of_other_namespaces() {
    let [all, few] = [(); 2].map(|()| Token::generate().unwrap());
    let server = Server::with(|config| {
        let (all, few) = (all.digest(), few.digest());
        config.access.tokens =
            format!("all read,write {all}\nfew read,write {few} namespaces=news/*");
    });
    let send = |token: &Token, line: &str, body: &str| {
        let bearer = format!("Bearer {}", token.reveal());
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        server.send(line, &headers, body.as_bytes())
    };
    for route in ["POST /v1/purge", "POST /v1/groups"] {
        let own = send(&few, route, r#"{"namespace":"news/a"}"#).accepted();
        for body in [r#"{"namespace":"other"}"#, r#"{"all_namespaces":true}"#] {
            let job = send(&all, route, body).accepted();
            for method in ["GET", "DELETE"] {
                let reply = send(&few, &format!("{method} /v1/jobs/{}", name(&job)), "");
                assert_eq!(reply.problem(), (404, "job_not_found".to_owned()), "{body}");
            }
        }
        let shown = send(&few, &format!("GET /v1/jobs/{}", name(&own)), "").json();
        assert_eq!((&shown["job"], &shown["namespace"]), (&own["job"], &json!("news/a")));
    }
    assert_eq!(names(&send(&few, "GET /v1/jobs", "").json()).len(), 2);
    assert_eq!(names(&send(&all, "GET /v1/jobs", "").json()).len(), 6);
}

#[test]
fn the_jobs_of_a_token_leave_room_for_those_of_others_and_never_take_their_place() {
    let [one, other] = [(); 2].map(|()| Token::generate().unwrap());
    let tokens = format!("one read,write {}\nother read,write {}", one.digest(), other.digest());
    let few = |settings: &mut Settings| settings.engine.groups_kept_max = 4;
    let server = Server::tuned(|config| config.access.tokens = tokens, few);
    let send = |token: &Token, line: &str, body: &str| {
        let bearer = format!("Bearer {}", token.reveal());
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        server.send(line, &headers, body.as_bytes())
    };
    let purge = |token: &Token| send(token, "POST /v1/purge", r#"{"namespace":"x"}"#);
    // Some end meanwhile.
    let refused = poll(|| (0..20).map(|_| purge(&one)).find(|reply| reply.status != 202));
    assert_eq!(refused.problem(), (409, "too_many_jobs".to_owned()));
    assert!(refused.text().contains("8 jobs of this client"), "{}", refused.text());
    purge(&other).accepted();

    let groups = |token: &Token| {
        let begun = send(token, "POST /v1/groups", "{}").accepted();
        let path = format!("GET /v1/jobs/{}", name(&begun));
        poll(|| {
            let job = send(token, &path, "").json();
            (job["ended_at_ms"] != json!(null)).then(|| path.clone())
        })
    };
    let [kept, also_kept] = [(); 2].map(|()| groups(&other));
    let own = [(); 6].map(|()| groups(&one));
    for path in [&kept, &also_kept, &own[4], &own[5]] {
        assert_eq!(send(&one, path, "").status, 200);
    }
    for path in &own[..4] {
        assert_eq!(send(&one, path, "").status, 404, "the own ones make room");
    }
}
