//! Fingerprints in and out: 64 bits through every path, whatever the client's numbers can
//! represent.

use serde_json::json;

use crate::support::{Server, hex};

/// All bits, a value that no f64 represents, the top bit alone, a small one, none.
const BITS: [u64; 5] = [u64::MAX, (1 << 53) + 1, 1 << 63, 1, 0];

/// The ways to write a fingerprint into a JSON body.
fn spellings(bits: u64) -> [String; 5] {
    let hex = hex(bits);
    [
        format!("\"{hex}\""),
        format!("\"0x{hex}\""),
        format!("\"0X{}\"", hex.to_uppercase()),
        bits.to_string(),
        bits.cast_signed().to_string(),
    ]
}

#[test]
fn every_spelling_goes_through_every_single_route() {
    let server = Server::start();
    for bits in BITS {
        for spelling in spellings(bits) {
            let body = format!("{{\"fingerprint\":{spelling}}}");
            for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
                let reply = server.post_text(path, &body).json();
                assert_eq!(reply["fingerprint"], hex(bits), "{path} {spelling}");
            }
            let hits = server.post_text("/v1/query", &body).json();
            assert_eq!(hits["hits"][0]["fingerprint"], hex(bits), "{spelling}");
            let both = format!("{{\"a\":{body},\"b\":{{\"fingerprint\":\"{}\"}}}}", hex(bits ^ 1));
            let compared = server.post_text("/v1/compare", &both).json();
            assert_eq!(compared["a"]["fingerprint"], hex(bits), "{spelling}");
            assert_eq!(compared["distance"], 1);
        }
    }
}

#[test]
fn every_spelling_goes_through_ndjson() {
    let server = Server::start();
    for path in ["/v1/insert/batch", "/v1/check-and-insert/batch", "/v1/query/batch"] {
        for bits in BITS {
            let lines: Vec<_> =
                spellings(bits).iter().map(|s| format!("{{\"fingerprint\":{s}}}\n")).collect();
            for reply in server.post_lines(path, &lines.concat()) {
                assert_eq!(reply["fingerprint"], hex(bits), "{path}");
            }
        }
    }
}

#[test]
fn packed_words_are_little_endian() {
    let server = Server::start();
    let counts = server.post_packed("/v1/insert/batch", &[], &BITS).json();
    assert_eq!(counts["inserted"], 5);
    for bits in BITS {
        let reply = server.get(&format!("/v1/query?fingerprint={}&distance=0", hex(bits))).json();
        assert_eq!(reply["hits"][0]["fingerprint"], hex(bits));
    }
    let full = [("accept", "application/x-ndjson")];
    let lines = server.post_packed("/v1/query/batch", &full, &BITS).lines();
    let found: Vec<_> = lines.iter().map(|line| line["fingerprint"].as_str().unwrap()).collect();
    assert_eq!(found, BITS.map(hex));
}

#[test]
fn bits_go_out_as_strings_that_a_javascript_parser_keeps() {
    // A JavaScript client reads every number as an f64; none of ours may need more bits than it
    // has.
    fn numbers_fit(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Number(number) => {
                number.as_f64().is_some_and(|float| float.abs() <= 9_007_199_254_740_992.0)
            }
            serde_json::Value::Array(values) => values.iter().all(numbers_fit),
            serde_json::Value::Object(fields) => fields.values().all(numbers_fit),
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => {
                true
            }
        }
    }
    let server = Server::start();
    let all = format!("{{\"id\":\"all\",\"fingerprint\":{}}}", u64::MAX);
    let text = json!({"text": "a lamp and a lift and a loose wire in the cellar", "explain": true});
    for reply in [
        server.post_text("/v1/insert", &all).json(),
        server.post_text("/v1/query", &all).json(),
        server.post_text("/v1/check-and-insert", &all).json(),
        server.post("/v1/fingerprint", &text).json(),
        server.get("/v1/documents/all").json(),
        server.get("/v1/stats").json(),
    ] {
        assert!(numbers_fit(&reply), "{reply}");
    }
}

#[test]
fn leading_zeros_come_back() {
    let server = Server::start();
    server.insert("small", "0000000000000001");
    assert_eq!(server.query("0000000000000001")["hits"][0]["fingerprint"], "0000000000000001");
    assert_eq!(server.get("/v1/documents/small").json()["fingerprint"], "0000000000000001");
}

#[test]
fn anything_else_is_an_error_that_names_the_field() {
    let server = Server::start();
    for bad in [
        "1.0",
        "1e3",
        "18446744073709551616",
        "-9223372036854775809",
        "\"1\"",
        "\"\"",
        "true",
        "[1]",
        "{}",
        "\"00000000000000000\"",
        "\" 000000000000001\"",
        "1e999",
    ] {
        for path in ["/v1/fingerprint", "/v1/query", "/v1/insert", "/v1/check-and-insert"] {
            let reply = server.post_text(path, &format!("{{\"fingerprint\":{bad}}}"));
            let expected = (400, "invalid_value".to_owned(), "fingerprint".to_owned());
            assert_eq!(reply.problem_at(), expected, "{path} {bad}");
        }
        let reply =
            server.post_text("/v1/compare", &format!("{{\"a\":{{\"fingerprint\":{bad}}}}}"));
        assert_eq!(reply.problem_at().2, "a.fingerprint", "{bad}");
    }
    for bad in ["1", "", "zzzzzzzzzzzzzzzz", "-1"] {
        let reply = server.get(&format!("/v1/query?fingerprint={bad}"));
        assert_eq!(reply.problem_at().2, "fingerprint", "{bad}");
        if !bad.is_empty() {
            let reply = server.delete(&format!("/v1/fingerprints/{bad}"));
            assert_eq!(reply.problem_at().2, "hex", "{bad}");
        }
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}
