//! What an operator sees: statistics, snapshots, health, metrics, the description and the page.

use serde_json::json;

use crate::process;
use crate::support::{Server, hex, text};

#[test]
fn statistics_say_what_the_contract_lists() {
    let server = Server::start();
    server.insert("a", &hex(1));
    let stats = server.get("/v1/stats").json();
    assert_eq!(stats["documents"], 1);
    assert_eq!(stats["sequence"], 1);
    assert_eq!(stats["recipe"], "np2");
    assert_eq!(stats["distance_max"], 3);
    assert_eq!(stats["durability"], json!({"policy": "always"}));
    assert_eq!(stats["version"], env!("CARGO_PKG_VERSION"));
    assert!(stats["journal"]["bytes"].as_u64().unwrap() > 0);
    assert!(stats["memory"]["total_bytes"].is_u64());
    assert!(stats["index"]["segments"].is_array());
    assert!(stats["uptime_seconds"].is_u64());
    assert_eq!((&stats["last_snapshot"], &stats["snapshot_age_ms"]), (&json!(null), &json!(null)));
}

#[test]
fn the_policy_shows_in_the_statistics() {
    let server = Server::with(|config| {
        config.data.durability = "interval".to_owned();
        config.data.durability_interval_ms = 50;
    });
    let stats = server.get("/v1/stats").json();
    assert_eq!(stats["durability"], json!({"policy": "interval", "interval_ms": 50}));
    let server = Server::with(|config| config.data.durability = "none".to_owned());
    assert_eq!(server.get("/v1/stats").json()["durability"], json!({"policy": "none"}));
    assert_eq!(server.insert("a", &hex(1))["stored"], true);
}

#[test]
fn a_snapshot_is_taken_on_request_and_listed() {
    let server = Server::start();
    server.insert("a", &hex(1));
    let taken = server.send("POST /v1/snapshots", &[], b"").json();
    assert_eq!((&taken["sequence"], &taken["documents"]), (&json!(1), &json!(1)));
    assert!(taken["bytes"].as_u64().unwrap() > 0 && taken["taken_at_ms"].is_u64());
    let listed = server.get("/v1/snapshots").json();
    assert_eq!(listed["snapshots"][0], taken);
    let stats = server.get("/v1/stats").json();
    assert_eq!(stats["last_snapshot"], taken);
    assert!(stats["snapshot_age_ms"].as_u64().unwrap() < 60_000);
}

#[test]
fn health_and_readiness_answer() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").json(), json!({"status": "alive"}));
    for path in ["/readyz", "/readyz/reads", "/readyz/writes"] {
        assert_eq!(server.get(path).json(), json!({"status": "ready"}), "{path}");
    }
    let head = server.connect().send_head("HEAD /healthz");
    assert_eq!(head.status, 200);
}

#[test]
fn metrics_count_what_happens() {
    let server = Server::start();
    server.post("/v1/check-and-insert", &json!({"id": "a", "text": text(1, 30)})).json();
    server.post("/v1/query", &json!({"text": text(1, 30)})).json();
    server.get("/nowhere");
    let reply = server.get("/metrics");
    assert!(reply.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let page = reply.text();
    for series in [
        "nearprint_build_info{version=\"",
        "nearprint_requests_total{route=\"/v1/query\",method=\"POST\",status=\"2xx\"}",
        "nearprint_requests_total{route=\"none\",method=\"GET\",status=\"4xx\"}",
        "nearprint_request_seconds_bucket{route=\"/v1/check-and-insert\",method=\"POST\",le=\"0.25\"}",
        "nearprint_write_outcomes_total{outcome=\"inserted\"}",
        "nearprint_hits_total{distance=\"0\"}",
        "nearprint_journal_sync_seconds_count",
        "nearprint_documents",
        "nearprint_index_memory_bytes{part=\"deltas\"}",
        "nearprint_ready 1",
        "nearprint_memory_max_bytes",
        "nearprint_index_memory_max_bytes",
        "nearprint_disk_free_bytes",
        "nearprint_disk_needed_bytes",
        "process_open_fds",
    ] {
        let line = page.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        assert!(value.is_some_and(|value| value != "0"), "{series}\n{page}");
    }
    // Labels are bounded: what a client puts into a path is in none.
    server.get("/v1/documents/secret-of-a-client");
    assert!(!server.get("/metrics").text().contains("secret-of-a-client"));
}

#[test]
fn the_manual_explains_every_metric() {
    let server = Server::start();
    let page = server.get("/metrics").text();
    let manual = include_str!("../../docs/operations.md");
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        let named = [format!("`{name}`"), format!("`{name}{{")];
        assert!(named.iter().any(|named| manual.contains(named)), "{name}");
    }
}

#[test]
fn a_service_at_rest_has_at_most_400_series() {
    let directory = tempfile::tempdir().unwrap();
    let server = process::Server::start(&directory.path().join("data"));
    let probe = || process::Client::expect(server.client().get("/readyz"));
    // The page itself is asked for again and again, and so are probes.
    for _ in 0..3 {
        probe();
        let series = process::series(server.url()).unwrap();
        assert!(series.len() <= 400, "{} series\n{}", series.len(), series.join("\n"));
    }
}

/// A usual alert divides by the limit: it must not fire where there is none.
#[test]
fn a_service_without_a_limit_of_memory_has_no_series_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = process::Server::command(&directory.path().join("data"));
    command.env("NEARPRINT_ENGINE__MEMORY_BYTES_MAX", "0");
    let server = process::Server::of(command).unwrap();
    let series = process::series(server.url()).unwrap();
    assert!(!series.iter().any(|line| line.contains("memory_max_bytes")), "{series:?}");
}

#[test]
fn the_description_is_openapi_3_1() {
    let server = Server::start();
    let document = server.get("/openapi.json").json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let path = path.replace("{id}", "x").replace("{hex}", &hex(1));
            let path = path.replace("{file}", "main.js");
            let reply = server.send(&format!("{} {path}", method.to_uppercase()), &[], b"");
            let is_unknown = reply.status == 404 && reply.problem().1 == "not_found";
            assert!(!is_unknown && reply.status != 405, "{method} {path}");
        }
    }
}

#[test]
fn the_console_needs_nothing_from_elsewhere() {
    let server = Server::start();
    let page = server.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let html = page.text();
    assert!(!html.contains("http://") && !html.contains("style=") && !html.contains("onclick"));
    let kind = |file: &str| match file.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "image/svg+xml",
    };
    let files: Vec<_> = html.split('"').filter(|part| part.starts_with('/')).collect();
    for needed in ["/console/main.js", "/console/style.css", "/favicon.ico"] {
        assert!(files.contains(&needed), "{files:?}");
    }
    for file in files {
        let reply = server.get(file);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some(kind(file))), "{file}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
    }
    for missing in ["page.js", "", "..%2Findex.html", "main.js/x"] {
        let reply = server.get(&format!("/console/{missing}"));
        assert_eq!(reply.problem(), (404, "not_found".to_owned()), "{missing}");
    }
}

#[test]
fn a_single_service_has_everything_that_a_fresh_answer_contains() {
    let server = Server::start();
    server.insert("a", &hex(1));
    let found = server.query(&hex(1));
    for fresh in ["fresh=true", "fresh=false", "fresh=true&min_sequence=1"] {
        let reply = server.post(&format!("/v1/query?{fresh}"), &json!({"fingerprint": hex(1)}));
        assert_eq!(reply.json(), found, "{fresh}");
        let stats = server.get(&format!("/v1/stats?{fresh}")).json();
        assert_eq!((&stats["sequence"], &stats["cluster"]), (&json!(1), &json!(null)));
    }
    let asked = |query: &str| server.get(&format!("/v1/stats?{query}")).problem_at();
    let refused = |code: &str| (400, code.to_owned(), "fresh".to_owned());
    assert_eq!(asked("fresh=1"), refused("invalid_value"));
    assert_eq!(asked("fresh"), refused("invalid_value"));
    assert_eq!(asked("fresh=true&fresh=true"), refused("repeated_field"));
    let write = server.post("/v1/insert?fresh=true", &json!({"fingerprint": hex(2)}));
    assert_eq!(write.problem_at(), refused("unknown_field"));
}

/// Each request that may be asked of a node says that it may be passed on in vain.
#[test]
fn whatever_reads_or_writes_may_find_no_leader() {
    let document = serde_json::to_value(nearprint::http::openapi()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = &operation["security"][0]["token"][0];
            let codes = operation["responses"]["503"]["description"].as_str().unwrap_or_default();
            let line = format!("{method} {path}: {codes}");
            let is_passed_on = *scope == "read" || *scope == "write" || path == "/readyz/writes";
            assert_eq!(codes.contains("`no_leader`"), is_passed_on, "{line}");
            assert_eq!(codes.contains("`outcome_unknown`"), *scope == "write", "{line}");
            let parameters = operation["parameters"].to_string();
            assert_eq!(parameters.contains("\"fresh\""), *scope == "read", "{line}");
        }
    }
}
