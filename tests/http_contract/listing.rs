//! Lists of documents: pages with cursors, streams, the documents of a fingerprint.

use std::time::Duration;

use nearprint::config::Config;
use nearprint::server::Settings;
use serde_json::{Value, json};

use crate::groups::found;
use crate::limits::poll;
use crate::support::{Connection, Reply, Server, hex, name, text, until};

/// Stores `count` documents with the ids `0`, `1`, ...
fn filled(count: u64) -> Server {
    let server = Server::start();
    server.insert_all((0..count).map(|i| json!({"id": i.to_string(), "fingerprint": hex(i << 8)})));
    server
}

fn listed(page: &Value) -> Vec<Value> {
    page["documents"].as_array().unwrap().clone()
}

fn ids(documents: &[Value]) -> Vec<String> {
    documents.iter().map(|document| document["id"].as_str().unwrap().to_owned()).collect()
}

fn by_pages(server: &Server, path: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}{after}")).json();
        all.extend(listed(&page));
        let Some(next) = page["next"].as_str() else { return all };
        after = format!("&after={next}");
    }
}

fn stream(server: &Server, path: &str) -> Reply {
    server.send(&format!("GET {path}"), &[("accept", "application/x-ndjson")], b"")
}

#[test]
fn a_page_lists_documents_oldest_first() {
    let server = Server::start();
    assert_eq!(server.get("/v1/documents").json(), json!({"documents": [], "next": null}));
    server.insert("a", &hex(1));
    let body = json!({"text": text(1, 30), "metadata": {"k": 1}, "expires_at": 4_000_000_000_u64});
    server.post("/v1/insert", &body).json();
    let mut page = listed(&server.get("/v1/documents").json());
    for document in &mut page {
        assert!(document["stored_at_ms"].take().as_u64().unwrap() > 1_700_000_000_000);
    }
    assert_eq!(
        page[0],
        json!({"namespace": null, "id": "a", "fingerprint": hex(1), "short": false,
            "verifiable": false, "sequence": 1, "stored_at_ms": null})
    );
    assert_eq!(
        page[1],
        json!({"namespace": null, "id": null, "fingerprint": page[1]["fingerprint"], "short": false,
            "verifiable": true, "sequence": 2, "stored_at_ms": null,
            "expires_at": 4_000_000_000_u64})
    );
}

#[test]
fn metadata_and_sketches_are_listed_if_they_are_wanted() {
    let server = Server::start();
    server.insert_all([
        json!({"text": text(1, 30), "metadata": {"k": 1}}),
        json!({"fingerprint": 1}),
    ]);
    let page =
        |include: &str| listed(&server.get(&format!("/v1/documents?include={include}")).json());
    let both = page("sketch,metadata");
    assert_eq!(both[0]["metadata"], json!({"k": 1}));
    let sketch = both[0]["sketch"].as_str().unwrap();
    assert!(sketch.len() == 312 && sketch.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!((&both[1]["metadata"], &both[1]["sketch"]), (&json!(null), &json!(null)));
    assert_eq!(page("metadata")[0]["sketch"], json!(null));
    assert_eq!(page("sketch")[0]["metadata"], json!(null));
}

#[test]
fn all_pages_together_list_everything_once_while_inserts_go_on() {
    let server = filled(500);
    let expected: Vec<_> = (0..500).map(|i| i.to_string()).collect();
    let found = std::thread::scope(|scope| {
        let inserts = scope.spawn(|| {
            (0..50_u64).for_each(|i| drop(server.insert(&format!("late-{i}"), &hex(i))));
        });
        let found = ids(&by_pages(&server, "/v1/documents?limit=7"));
        inserts.join().unwrap();
        found
    });
    assert_eq!(found[..500], expected);
    assert!(found[500..].iter().all(|id| id.starts_with("late-")));
    let page = server.get("/v1/documents").json();
    assert_eq!(listed(&page).len(), 100, "without a limit");
}

#[test]
fn a_page_ends_early_where_its_reply_would_be_too_long() {
    let server = Server::with(|config| {
        config.server.reply_bytes_max = 131_072;
        config.documents.metadata_bytes_max = 65_536;
    });
    let filling = "\u{1}".repeat(1_000);
    let id = |i: u64| format!("{i}{filling}");
    server.insert_all((0..200_u64).map(|i| json!({"id": id(i), "fingerprint": hex(i)})));
    let first = server.get("/v1/documents?limit=1000");
    assert!(first.body.len() <= 131_072, "{}", first.body.len());
    assert!(listed(&first.json()).len() > 10);
    let expected: Vec<_> = (0..200).map(id).collect();
    assert_eq!(ids(&by_pages(&server, "/v1/documents?limit=1000")), expected);
}

/// The longest replies that ids and metadata make: every listing counts them as they are sent.
#[test]
fn no_page_of_any_listing_is_longer_than_a_reply_may_be() {
    let server = Server::with(|config| {
        config.server.reply_bytes_max = 131_072;
        config.documents.metadata_bytes_max = 65_536;
    });
    let filling = "\u{1}\"".repeat(500);
    let namespace = "\u{1f}".repeat(256);
    let id = |i: usize| format!("{i}{filling}");
    let document = |i| {
        let metadata = json!({"of": "x".repeat(i * 10)});
        let namespace = &namespace;
        json!({"id": id(i), "fingerprint": hex(7), "namespace": namespace, "metadata": metadata})
    };
    server.insert_all((0..100).map(document));
    let job = found(&server, &json!({"all_namespaces": true}));
    let named = "%1F".repeat(256);
    for path in [
        "/v1/documents?all_namespaces=true".to_owned(),
        format!("/v1/fingerprints/{}?namespace={named}", hex(7)),
        format!("/v1/groups/{}/0?", name(&job)),
    ] {
        let path = format!("{path}&limit=1000&include=metadata").replace("?&", "?");
        let (mut listed_ids, mut after) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{path}{after}"));
            assert!(page.body.len() <= 131_072, "{path}: {}", page.body.len());
            let page = page.json();
            listed_ids.extend(ids(&listed(&page)));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(listed_ids, (0..100).map(id).collect::<Vec<_>>(), "{path}");
    }
}

#[test]
fn a_list_is_limited_to_a_namespace_and_to_a_prefix() {
    let server = Server::start();
    let document = |id: &str, namespace: &str| {
        let mut document = json!({"id": id, "fingerprint": hex(1)});
        if !namespace.is_empty() {
            document["namespace"] = json!(namespace);
        }
        document
    };
    server.insert_all([document("a/1", ""), document("a/1", "x"), document("b/1", "x")]);
    server.insert_all([document("a/2", "y"), json!({"fingerprint": hex(1), "namespace": "x"})]);
    let found = |query: &str| {
        let page = server.get(&format!("/v1/documents?{query}")).json();
        listed(&page).iter().map(|d| (d["namespace"].clone(), d["id"].clone())).collect::<Vec<_>>()
    };
    let is = |namespace: Value, id: Value| (namespace, id);
    assert_eq!(found(""), [is(json!(null), json!("a/1"))]);
    let of_x = [is(json!("x"), json!("a/1")), is(json!("x"), json!("b/1"))];
    assert_eq!(found("namespace=x")[..2], of_x);
    assert_eq!(found("namespace=x").len(), 3);
    assert_eq!(found("namespace=x&prefix=b%2F"), of_x[1..]);
    assert_eq!(found("namespace=none"), []);
    assert_eq!(found("all_namespaces=true").len(), 5);
    assert_eq!(found("all_namespaces=true&prefix=a/").len(), 3);
    assert_eq!(found("all_namespaces=false").len(), 1);
}

#[test]
fn a_stream_has_what_all_pages_have() {
    let server = filled(2_000);
    server.insert_all([json!({"text": text(1, 30), "metadata": {"k": 1}, "namespace": "x"})]);
    let next = |query: &str| {
        let page = server.get(&format!("/v1/documents?{query}")).json();
        page["next"].as_str().unwrap().to_owned()
    };
    let half = next("limit=1000");
    let rest = format!("after={}&include=metadata", next(&format!("limit=990&after={half}")));
    for query in [
        "all_namespaces=true&include=metadata,sketch",
        "all_namespaces=true&prefix=1&include=metadata",
        "namespace=x&include=sketch",
        &rest,
        "namespace=none&include=metadata",
    ] {
        let path = format!("/v1/documents?{query}");
        let reply = stream(&server, &path);
        assert_eq!(reply.status, 200, "{query}");
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
        let pages = if query.contains("after") {
            listed(&server.get(&path).json())
        } else {
            by_pages(&server, &path)
        };
        assert_eq!(reply.lines(), pages, "{query}");
    }
}

#[test]
fn a_stream_shows_one_moment() {
    let server = Server::start();
    // More than the queue of pieces and the operating system buffer.
    let id = |i: u64| format!("{i}/{}", "x".repeat(2_000));
    server.insert_all((0..8_000_u64).map(|i| json!({"id": id(i), "fingerprint": hex(i)})));
    let mut connection = server.connect();
    connection.begin("GET /v1/documents", &[("accept", "application/x-ndjson")], b"");
    let head = connection.reply_head();
    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    server.insert("late", &hex(1));
    assert_eq!(server.delete(&format!("/v1/fingerprints/{}", hex(7_999))).json()["removed"], 1);
    let mut body = Vec::new();
    while let Some(chunk) = connection.next_chunk() {
        body.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(body).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!((lines.len(), &last["id"]), (8_000, &json!(id(7_999))));
}

#[test]
fn few_streams_run_at_one_time_and_end_with_their_clients() {
    let never = |settings: &mut Settings| settings.http.export_stall = Duration::from_hours(1);
    let server = Server::tuned(|config| config.server.exports_max = 2, never);
    let id = |i: u64| format!("{i}/{}", "x".repeat(2_000));
    server.insert_all((0..8_000_u64).map(|i| json!({"id": id(i), "fingerprint": hex(i)})));
    let unread: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = server.connect();
            connection.begin("GET /v1/documents", &[("accept", "application/x-ndjson")], b"");
            assert_eq!(connection.reply_head().status, 200);
            connection
        })
        .collect();
    let refused = stream(&server, "/v1/documents");
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert!(refused.text().contains("server.exports_max"), "{}", refused.text());
    assert_eq!(server.get("/v1/snapshots/export").status, 503);
    assert_eq!(server.get("/v1/documents").status, 200, "a page");
    drop(unread);
    poll(|| Some(stream(&server, "/v1/documents")).filter(|reply| reply.status == 200));
}

/// A server with more documents than what the operating system and the service buffer of a stream.
fn with_long_stream(change: impl FnOnce(&mut Config), tune: impl FnOnce(&mut Settings)) -> Server {
    let server = Server::tuned(change, tune);
    let id = |i: u64| format!("{i}/{}", "x".repeat(2_000));
    server.insert_all((0..8_000_u64).map(|i| json!({"id": id(i), "fingerprint": hex(i)})));
    server
}

/// Begins a reply and reads nothing of its body.
fn unread(server: &Server, path: &str) -> Connection {
    let mut connection = server.connect();
    connection.begin(path, &[("accept", "application/x-ndjson")], b"");
    assert_eq!(connection.reply_head().status, 200);
    connection
}

#[test]
fn a_stream_that_nobody_reads_gives_its_place_to_a_new_one() {
    let soon = |settings: &mut Settings| settings.http.export_stall = Duration::from_millis(300);
    let server = with_long_stream(|config| config.server.exports_max = 2, soon);
    let mut abandoned = unread(&server, "GET /v1/documents");
    let export = unread(&server, "GET /v1/snapshots/export");
    poll(|| Some(stream(&server, "/v1/documents")).filter(|reply| reply.status == 200));
    // One of the two is gone; that of the other one is taken as well while the next is read.
    let _third = poll(|| {
        let mut third = server.connect();
        third.begin("GET /v1/documents", &[("accept", "application/x-ndjson")], b"");
        (third.reply_head().status == 200).then_some(third)
    });
    let _fourth = poll(|| {
        let mut fourth = server.connect();
        fourth.begin("GET /v1/documents", &[("accept", "application/x-ndjson")], b"");
        (fourth.reply_head().status == 200).then_some(fourth)
    });
    let mut body = Vec::new();
    while let Some(chunk) = abandoned.next_chunk() {
        body.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(body).unwrap();
    assert!(text.lines().count() < 8_000);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "overloaded");
    let detail = last["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("was read for 300 ms"), "{detail}");
    drop(export);
}

#[test]
fn a_hundred_abandoned_streams_keep_no_stream_out() {
    let server = with_long_stream(|_| {}, |_| {});
    let abandoned: Vec<_> = (0..100).map(|_| unread(&server, "GET /v1/documents")).collect();
    assert_eq!(stream(&server, "/v1/documents").lines().len(), 8_000);
    assert_eq!(server.get("/v1/snapshots/export").status, 200);
    let page = server.get("/metrics").text();
    assert!(page.contains("nearprint_exports_running"), "{page}");
    drop(abandoned);
}

/// The value of a metric that has no labels.
fn metric(server: &Server, name: &str) -> u64 {
    let page = server.get("/metrics").text();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {page}")).parse().unwrap()
}

#[test]
fn a_search_without_a_match_ends_soon_after_its_client_has_closed() {
    const STREAMS: u64 = 100;
    const DOCUMENTS: u64 = 20_000;
    // They take turns, so that none ends before its client has left.
    let in_turns = |settings: &mut Settings| settings.engine.list_threads = 1;
    let server = Server::tuned(|config| config.server.exports_max = STREAMS, in_turns);
    server.insert_all((0..DOCUMENTS).map(|i| json!({"id": i.to_string(), "fingerprint": hex(i)})));
    let items = || metric(&server, "nearprint_list_items_total");
    let before = items();
    // What was sent to a client is read, so that it closes with a FIN and without a reset.
    let searches = (0..STREAMS).map(|_| unread(&server, "GET /v1/documents?prefix=zzz"));
    drop(searches.collect::<Vec<_>>());
    until("all exports have ended", || metric(&server, "nearprint_exports_running") == 0);
    let (looked_at, all) = (items() - before, DOCUMENTS * STREAMS);
    assert!(looked_at < all, "{looked_at} documents were looked at for nobody");
}

#[test]
fn a_follower_that_has_closed_gives_its_place_back() {
    let server = Server::with(|config| config.server.exports_max = 1);
    let mut follower = unread(&server, "GET /v1/changes?after=0");
    assert!(follower.next_chunk().is_some(), "it has everything");
    assert_eq!(stream(&server, "/v1/documents").status, 503);
    drop(follower);
    until("there is room for another stream", || stream(&server, "/v1/documents").status == 200);
}

#[test]
fn a_page_with_a_prefix_looks_at_some_documents_and_says_where_it_ended() {
    let server = Server::tuned(|_| {}, |settings| settings.engine.list_scan_max = 1_000);
    server.insert_all((0..5_000).map(|i| json!({"id": format!("{i:04}"), "fingerprint": hex(i)})));
    let page = server.get("/v1/documents?prefix=zzz").json();
    assert_eq!(listed(&page).len(), 0);
    assert!(page["next"].is_string(), "{page}");
    assert_eq!(ids(&by_pages(&server, "/v1/documents?prefix=zzz")), Vec::<String>::new());
    let expected: Vec<_> = (4_990..5_000).map(|i| i.to_string()).collect();
    assert_eq!(ids(&by_pages(&server, "/v1/documents?prefix=499")), expected);
    assert_eq!(ids(&stream(&server, "/v1/documents?prefix=499").lines()), expected);
    assert_eq!(stream(&server, "/v1/documents?prefix=zzz").lines(), Vec::<Value>::new());
}

/// Lists of every kind, each with more than one item.
fn lists(server: &Server) -> Vec<String> {
    for namespace in [None, Some("a"), Some("b")] {
        server.insert_all((0..3).map(
            |i| json!({"id": format!("{i}x"), "fingerprint": hex(5), "namespace": namespace}),
        ));
        server.insert_all((0..3).map(
            |i| json!({"id": format!("{i}y"), "fingerprint": hex(255 << (8 * (i + 1))), "namespace": namespace}),
        ));
        for bits in [4, 254 << 16, 254 << 24] {
            let document = json!({"fingerprint": hex(bits), "namespace": namespace});
            let reply = server.post("/v1/check-and-insert", &document).json();
            assert_eq!(reply["outcome"], "duplicate", "{reply}");
        }
    }
    let jobs: Vec<String> = ["a", "b"]
        .iter()
        .map(|namespace| {
            server.insert_all((0..3).map(
                |i| json!({"fingerprint": hex(0xff_ffff << 32), "id": format!("g{i}"), "namespace": namespace}),
            ));
            name(&found(server, &json!({"namespace": namespace}))).to_owned()
        })
        .collect();
    let (one, other) = (&jobs[0], &jobs[1]);
    let fingerprint = |bits: u64| format!("/v1/fingerprints/{}?", hex(bits));
    let mut lists = vec![
        "/v1/namespaces?".to_owned(),
        "/v1/jobs?".to_owned(),
        fingerprint(5),
        fingerprint(5) + "namespace=a",
        fingerprint(0xff_ffff << 32) + "namespace=a",
        format!("/v1/groups/{one}?"),
        format!("/v1/groups/{other}?"),
        format!("/v1/groups/{one}/0?"),
        format!("/v1/groups/{one}/1?"),
        format!("/v1/groups/{other}/0?"),
    ];
    for list in ["documents", "originals"] {
        for of in ["", "namespace=a", "namespace=b", "all_namespaces=true"] {
            lists.push(format!("/v1/{list}?{of}"));
        }
    }
    lists.push("/v1/originals?order=recent".to_owned());
    lists.push("/v1/documents?prefix=0".to_owned());
    lists.push("/v1/documents?prefix=g&all_namespaces=true".to_owned());
    lists
}

#[test]
fn a_cursor_continues_the_list_that_it_came_from_alone() {
    let server = Server::start();
    let lists = lists(&server);
    let cursor = |list: &String| {
        let page = server.get(&format!("{list}&limit=1")).json();
        page["next"].as_str().unwrap_or_else(|| panic!("{list}: {page}")).to_owned()
    };
    for one in &lists {
        let next = cursor(one);
        for other in &lists {
            let reply = server.get(&format!("{other}&limit=2&after={next}"));
            if one == other {
                assert_eq!(reply.status, 200, "{one}: {}", reply.text());
                continue;
            }
            let refused = reply.problem_at();
            let expected = (400, "invalid_value".to_owned(), "after".to_owned());
            assert_eq!(refused, expected, "{one} and {other}");
            let detail = reply.problem_body()["detail"].to_string();
            assert!(detail.contains("another page of this list"), "{detail}");
        }
    }
    // After a restart they are still good, but for jobs that ended with it; in another directory
    // they are not.
    let kept: Vec<&String> = lists.iter().filter(|list| !list.contains("/groups")).collect();
    let kept: Vec<_> = kept.into_iter().filter(|list| !list.contains("/jobs")).collect();
    let cursors: Vec<_> = kept.iter().map(|list| (*list, cursor(list))).collect();
    let server = server.restarted();
    let elsewhere = Server::start();
    for (list, next) in cursors {
        let path = format!("{list}&after={next}");
        assert_eq!(server.get(&path).status, 200, "{list}");
        assert_eq!(elsewhere.get(&path).problem_at().2, "after", "{list}");
    }
}

/// What the manual says: a page is not of one moment, and a document that is replaced comes again.
#[test]
fn a_document_that_is_replaced_between_two_pages_comes_again_and_none_is_missing() {
    let server = filled(10);
    let first = server.get("/v1/documents?limit=5").json();
    server.insert("2", &hex(77 << 8));
    server.insert("7", &hex(78 << 8));
    let next = first["next"].as_str().unwrap();
    let rest = listed(&server.get(&format!("/v1/documents?after={next}")).json());
    let all: Vec<_> = ids(&listed(&first)).into_iter().chain(ids(&rest)).collect();
    let expected = ["0", "1", "2", "3", "4", "5", "6", "8", "9", "2", "7"];
    assert_eq!(all, expected);
    assert_eq!(rest.last().unwrap()["fingerprint"], hex(78 << 8));
}

#[test]
fn a_page_of_another_site_gets_no_stream() {
    let server = filled(1);
    let send = |accept: &str| {
        let headers = [("accept", accept), ("sec-fetch-site", "cross-site")];
        server.send("GET /v1/documents", &headers, b"").status
    };
    assert_eq!((send("application/json"), send("application/x-ndjson")), (200, 403));
}

#[test]
fn a_fingerprint_lists_all_its_documents_by_pages() {
    let server = Server::start();
    server.insert_all((0..25).map(|i| json!({"id": i.to_string(), "fingerprint": hex(5)})));
    server.insert_all([
        json!({"id": "near", "fingerprint": hex(4)}),
        json!({"id": "elsewhere", "fingerprint": hex(5), "namespace": "x", "metadata": {}}),
    ]);
    let path = format!("/v1/fingerprints/{}", hex(5));
    let page = server.get(&path).json();
    assert_eq!((&page["fingerprint"], &page["namespace"]), (&json!(hex(5)), &json!(null)));
    assert_eq!((listed(&page).len(), &page["next"]), (25, &json!(null)));
    let expected: Vec<_> = (0..25).map(|i| i.to_string()).collect();
    assert_eq!(ids(&by_pages(&server, &format!("{path}?limit=10"))), expected);
    let page = server.get(&format!("{path}?namespace=x&include=metadata")).json();
    assert_eq!(page["namespace"], "x");
    assert_eq!(listed(&page)[0]["metadata"], json!({}));
    let none = server.get(&format!("/v1/fingerprints/0x{}", hex(6))).json();
    assert_eq!((listed(&none), &none["next"]), (vec![], &json!(null)));
    assert_eq!(server.get("/v1/fingerprints/5").problem_at().2, "hex");
}

#[test]
fn a_wrong_parameter_of_a_list_is_refused() {
    let server = Server::start();
    let fingerprint = format!("fingerprints/{}", hex(1));
    for (path, field) in [
        ("documents?limit=0", "limit"),
        ("documents?limit=1001", "limit"),
        ("documents?limit=x", "limit"),
        ("documents?after=x", "after"),
        ("documents?after=-1", "after"),
        ("documents?prefix=", "prefix"),
        (&format!("documents?prefix={}", "x".repeat(2_049)), "prefix"),
        ("documents?include=text", "include"),
        ("documents?all_namespaces=1", "all_namespaces"),
        ("documents?all_namespaces=true&namespace=x", "all_namespaces"),
        ("namespaces?limit=0", "limit"),
        ("namespaces?after=x", "after"),
        (&format!("{fingerprint}?limit=1001"), "limit"),
        (&format!("{fingerprint}?after=x"), "after"),
        (&format!("{fingerprint}?include=x"), "include"),
    ] {
        let refused = server.get(&format!("/v1/{path}")).problem_at();
        assert_eq!(refused, (400, "invalid_value".to_owned(), field.to_owned()), "{path}");
    }
    let limited = stream(&server, "/v1/documents?limit=5").problem_at();
    assert_eq!(limited, (400, "invalid_value".to_owned(), "limit".to_owned()));
}
