//! NDJSON batches: order, errors by line, streaming both ways, bounded memory.

use serde_json::json;

use crate::limits::poll;
use crate::support::{Server, hex, ids, text};

const NDJSON: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

#[test]
fn replies_come_in_the_order_of_the_lines() {
    let server = Server::start();
    let lines: Vec<_> =
        (0..5_000_u64).map(|i| format!("{{\"id\":\"{i}\",\"fingerprint\":{i}}}\n")).collect();
    let replies = server.post_lines("/v1/insert/batch", &lines.concat());
    assert_eq!(replies.len(), 5_000);
    for (i, reply) in replies.iter().enumerate() {
        assert_eq!(reply["fingerprint"], hex(i as u64));
        assert_eq!(reply["sequence"], i + 1);
    }
    let queries: Vec<_> =
        (0..5_000_u64).map(|i| format!("{{\"fingerprint\":{i},\"distance\":0}}\n")).collect();
    for (i, reply) in server.post_lines("/v1/query/batch", &queries.concat()).iter().enumerate() {
        assert_eq!(ids(&reply["hits"][0]), json!([i.to_string()]));
    }
}

#[test]
fn the_order_within_a_batch_is_the_order_of_effect() {
    let server = Server::start();
    let lines = [
        json!({"id": "a", "fingerprint": hex(0)}),
        json!({"id": "b", "fingerprint": hex(1)}),
        json!({"id": "a", "fingerprint": hex(u64::MAX)}),
        json!({"id": "b", "fingerprint": hex(1)}),
        json!({"id": "b", "fingerprint": hex(1)}),
        json!({"id": "c", "fingerprint": hex(3), "on_duplicate": "insert"}),
    ];
    let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
    let replies = server.post_lines("/v1/check-and-insert/batch", &lines.concat());
    let outcomes: Vec<_> = replies.iter().map(|reply| reply["outcome"].as_str().unwrap()).collect();
    assert_eq!(
        outcomes,
        ["inserted", "duplicate", "replaced", "inserted", "already_present", "duplicate"]
    );
}

#[test]
fn a_bad_line_gets_its_error_and_the_others_go_on() {
    let server = Server::start();
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(4 << 20));
    let lines = [
        "{\"fingerprint\":1}",
        "",
        "   \r",
        "not json",
        "{\"fingerprint\":1.5}",
        "{\"text\":\"\"}",
        "{\"text\":\"a\",\"surprise\":1}",
        long.as_str(),
        "{\"fingerprint\":2}",
    ];
    for path in [
        "/v1/query/batch",
        "/v1/insert/batch",
        "/v1/check-and-insert/batch",
        "/v1/fingerprint/batch",
    ] {
        let replies = server.post_lines(path, &lines.join("\n"));
        let errors: Vec<_> = replies
            .iter()
            .map(|reply| &reply["error"])
            .filter(|error| error.is_object())
            .map(|e| {
                (
                    e["line"].as_u64().unwrap(),
                    e["code"].as_str().unwrap(),
                    e["status"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            errors,
            [
                (4, "malformed_json", 400),
                (5, "invalid_value", 400),
                (6, "empty_document", 422),
                (7, "unknown_field", 400),
                (8, "line_too_large", 413),
            ],
            "{path}"
        );
        assert_eq!(replies.len(), 7, "{path}");
        assert_eq!(replies[0]["fingerprint"], hex(1));
        assert_eq!(replies[6]["fingerprint"], hex(2));
    }
}

#[test]
fn early_replies_stream_while_the_request_is_still_being_sent() {
    let server = Server::start();
    for path in [
        "/v1/insert/batch",
        "/v1/query/batch",
        "/v1/check-and-insert/batch",
        "/v1/fingerprint/batch",
    ] {
        let mut connection = server.connect();
        connection.begin_chunked(&format!("POST {path}?early_reply=true"), &NDJSON);
        assert_eq!(connection.reply_head().status, 200, "{path}");
        for i in 0..3_u64 {
            connection.chunk(format!("{{\"fingerprint\":{i}}}\n").as_bytes()).unwrap();
            let reply = String::from_utf8(connection.next_chunk().unwrap()).unwrap();
            assert!(reply.contains(&hex(i)) && reply.ends_with("}\n"), "{path}: {reply}");
        }
        connection.end_chunked();
        assert_eq!(connection.next_chunk(), None, "{path}");
        // The connection serves the next request.
        assert_eq!(connection.send("GET /healthz", &[], b"").status, 200);
    }
}

#[test]
fn query_parameters_are_defaults_for_the_lines() {
    let server = Server::start();
    for bits in [0b1, 0b11, 0b111] {
        server.insert(&bits.to_string(), &hex(bits));
    }
    let lines = format!(
        "{{\"fingerprint\":\"{0}\"}}\n{{\"fingerprint\":\"{0}\",\"distance\":3}}\n",
        hex(0)
    );
    let replies = server.post_lines("/v1/query/batch?distance=1&limit=2", &lines);
    assert_eq!((&replies[0]["hit_count"], &replies[1]["hit_count"]), (&json!(1), &json!(3)));
    assert_eq!(replies[1]["hits"].as_array().unwrap().len(), 2);
    for bad in ["distance=4", "limit=0", "id=x", "extract=all", "nonsense=1"] {
        let reply = server.send(&format!("POST /v1/query/batch?{bad}"), &NDJSON, b"{}\n");
        assert_eq!(reply.problem().0, 400, "{bad}");
    }
}

#[test]
fn texts_and_pages_go_through_batches_with_their_charsets_decoded_by_json() {
    let server = Server::start();
    let lines: Vec<_> = (0..200)
        .map(|i| format!("{}\n", json!({"id": i.to_string(), "text": text(i, 200)})))
        .collect();
    for reply in server.post_lines("/v1/check-and-insert/batch", &lines.concat()) {
        assert_eq!(reply["outcome"], "inserted");
    }
    for (i, reply) in server.post_lines("/v1/query/batch", &lines.concat()).iter().enumerate() {
        assert_eq!(reply["duplicate"], false, "document {i} is left out by its id");
    }
    let prints = server.post_lines("/v1/fingerprint/batch?explain=true", "{\"text\":\"tea\"}\n");
    assert_eq!(prints[0]["explanation"]["sums"].as_array().unwrap().len(), 64);
}

#[test]
fn an_empty_batch_has_an_empty_reply() {
    let server = Server::start();
    for path in ["/v1/insert/batch", "/v1/query/batch"] {
        assert!(server.post_lines(path, "").is_empty());
        assert!(server.post_lines(path, "\n\n").is_empty());
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_a_prefix() {
    let server = Server::start();
    let mut connection = server.connect();
    connection.begin_chunked("POST /v1/insert/batch?early_reply=true", &NDJSON);
    connection.chunk(b"{\"fingerprint\":1}\n{\"fingerprint\":2}\n{\"finger").unwrap();
    assert_eq!(connection.reply_head().status, 200);
    let mut replies = Vec::new();
    while replies.split(|&byte| byte == b'\n').count() < 3 {
        replies.extend(connection.next_chunk().unwrap());
    }
    drop(connection);
    assert_eq!(server.get("/v1/stats").json()["documents"], 2);
}

#[test]
fn a_line_has_the_limit_and_not_one_byte_more() {
    let server = Server::with(|config| config.server.line_bytes_max = 1_024);
    let line = |bytes: usize| {
        let frame = "{\"text\":\"\"}".len();
        format!("{{\"text\":\"{}\"}}\n", "x".repeat(bytes - frame))
    };
    let replies = server.post_lines("/v1/fingerprint/batch", &(line(1_024) + &line(1_025)));
    assert_eq!(replies[0]["short"], true);
    assert_eq!(replies[1]["error"]["code"], "line_too_large");
    assert!(replies[1]["error"]["detail"].as_str().unwrap().contains("1024"));
}

/// More bytes of replies than the batches of all clients may keep, from look-ups whose replies are
/// short and from those whose replies have no room before their turn.
#[test]
fn short_and_long_replies_of_a_batch_stay_in_order() {
    let server = Server::with(|config| {
        config.server.reply_bytes_max = 131_072;
        config.server.replies_held_bytes_max = 262_144;
    });
    let near: Vec<_> = (0..64_u64)
        .flat_map(|bit| {
            let id = move |number: u64| format!("{bit}/{number}/{}", "x".repeat(1_000));
            (0..2).map(move |number| json!({"id": id(number), "fingerprint": hex(1 << bit)}))
        })
        .collect();
    server.insert_all(near);
    let limits = [1_u64, 5, 1_000, 20, 2];
    let lines = (0..500_usize).map(|line| {
        let (far, limit) = (line % 7 == 3, limits[line % 5]);
        let fingerprint = hex(if far { 0xffff_ffff } else { 0 });
        format!("{}\n", json!({"fingerprint": fingerprint, "limit": limit}))
    });
    let replies = server.post_lines("/v1/query/batch", &lines.collect::<String>());
    assert_eq!(replies.len(), 500);
    for (line, reply) in replies.iter().enumerate() {
        let far = line % 7 == 3;
        assert_eq!(reply["hit_count"], if far { 0 } else { 64 }, "line {line}");
        let hits = reply["hits"].as_array().unwrap().len() as u64;
        let listed = limits[line % 5].min(64);
        // The longest reply has no space for all.
        assert!(far || hits == listed || (listed == 64 && hits > 40), "line {line}: {hits}");
    }
    let bytes = || server.get("/v1/stats").json()["memory"]["replies_bytes"].clone();
    poll(|| (bytes() == 0).then_some(()));
}
