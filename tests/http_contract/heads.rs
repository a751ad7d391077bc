//! Heads: a request is for a name of this service, and a page of another site changes nothing.

use crate::access::guarded_with;
use crate::support::{Reply, Server};

/// Sends a head as it is written.
fn ask(server: &Server, head: &str) -> Reply {
    let mut connection = server.connect();
    connection.write(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    connection.reply()
}

fn ask_as(server: &Server, host: &str) -> Reply {
    ask(server, &format!("GET /v1/stats HTTP/1.1\r\nHost: {host}"))
}

#[test]
fn without_tokens_only_names_of_the_loopback_interface_are_answered() {
    let server = Server::start();
    let port = server.address.port();
    for host in ["localhost", "127.0.0.1", "[::1]", "near.localhost"] {
        assert_eq!(ask_as(&server, host).status, 200, "{host}");
        assert_eq!(ask_as(&server, &format!("{host}:{port}")).status, 200, "{host}");
    }
    for host in ["evil.example", "0.0.0.0", "192.168.0.1"] {
        let host = format!("{host}:{port}");
        let refused = ask_as(&server, &host);
        assert_eq!(refused.problem(), (421, "host_not_allowed".to_owned()), "{host}");
        let detail = refused.problem_body()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&host) && detail.contains("server.host_names"), "{detail}");
    }
}

#[test]
fn a_rebound_name_neither_reads_nor_writes_nor_exports() {
    let server = Server::start();
    for line in ["GET /", "GET /healthz", "GET /v1/stats", "GET /v1/snapshots/export"] {
        let refused = ask(&server, &format!("{line} HTTP/1.1\r\nHost: evil.example"));
        assert_eq!(refused.problem(), (421, "host_not_allowed".to_owned()), "{line}");
    }
    let body = r#"{"id":"a","fingerprint":1}"#;
    let refused = ask(
        &server,
        &format!(
            "POST /v1/insert HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    assert_eq!(refused.problem(), (421, "host_not_allowed".to_owned()));
    let refused = ask(&server, "DELETE /v1/documents/a HTTP/1.1\r\nHost: evil.example");
    assert_eq!(refused.problem(), (421, "host_not_allowed".to_owned()));
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
}

#[test]
fn a_name_of_the_configuration_is_answered() {
    let server = Server::with(|config| config.server.host_names = "near.example".to_owned());
    for (host, status) in [("near.example", 200), ("localhost", 200), ("other.example", 421)] {
        assert_eq!(ask_as(&server, host).status, status, "{host}");
    }
}

#[test]
fn with_tokens_any_host_is_answered_unless_names_are_listed() {
    let status = |server: &Server, host: &str| {
        ask(server, &format!("GET /healthz HTTP/1.1\r\nHost: {host}")).status
    };
    let (open, _) = guarded_with(|_| {});
    assert_eq!(status(&open, "near.example"), 200);
    let (named, _) = guarded_with(|config| config.server.host_names = "near.example".to_owned());
    assert_eq!(status(&named, "near.example"), 200);
    assert_eq!(status(&named, "127.0.0.1:7878"), 200, "the health check of the container");
    assert_eq!(status(&named, "other.example"), 421);
}

#[test]
fn an_absolute_target_names_the_host() {
    let server = Server::start();
    let status = |target: &str, host: &str| {
        ask(&server, &format!("GET {target} HTTP/1.1\r\nHost: {host}")).status
    };
    assert_eq!(status("http://localhost/healthz", "evil.example"), 200);
    assert_eq!(status("http://evil.example/healthz", "localhost"), 421);
}

#[test]
fn a_request_has_one_valid_host_or_is_of_http_1_0() {
    let server = Server::start();
    for headers in [
        "X: y",
        "Host: localhost\r\nHost: localhost",
        "Host: localhost\r\nHost: evil.example",
        "Host:",
        "Host: local host",
        "Host: localhost:port",
        "Host: user@localhost",
    ] {
        let refused = ask(&server, &format!("GET /healthz HTTP/1.1\r\n{headers}"));
        assert_eq!(refused.problem(), (400, "invalid_host".to_owned()), "{headers}");
        assert_eq!(refused.header("connection"), Some("close"), "{headers}");
    }
    // A bare health probe; no browser speaks HTTP/1.0.
    assert_eq!(ask(&server, "GET /healthz HTTP/1.0").status, 200);
    assert_eq!(ask(&server, "GET /healthz HTTP/1.0\r\nHost: localhost").status, 200);
    assert_eq!(ask(&server, "GET /healthz HTTP/1.0\r\nHost: evil.example").status, 421);
    assert_eq!(ask(&server, "GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b").status, 400);
}

#[test]
fn http_2_is_refused_in_its_own_frames() {
    let server = Server::start();
    let mut connection = server.connect();
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &empty_settings[..]].concat();
    connection.write(&preface).unwrap();
    let refusal = connection.rest();
    let (settings, goaway) = refusal.split_at(empty_settings.len());
    assert_eq!(settings, empty_settings);
    // Length, type, flags, stream; then the last stream and the code HTTP_1_1_REQUIRED.
    let (head, reason) = goaway.split_at(17);
    assert_eq!(head[..3], [0, 0, 8 + reason.len() as u8]);
    assert_eq!(head[3..], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13]);
    let reason = str::from_utf8(reason).unwrap();
    assert!(reason.contains("speaks HTTP/1.1 only: set the client or proxy"), "{reason}");
    // An offer to go on in HTTP/2 may be declined.
    let upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk";
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{upgrade}");
    assert_eq!(ask(&server, &head).status, 200);
}

#[test]
fn an_origin_that_is_not_the_host_is_refused() {
    let server = Server::start();
    let send = |line: &str, origin: &str| {
        let headers = [("content-type", "text/plain"), ("origin", origin)];
        server.send(line, &headers, b"some words to store here")
    };
    for origin in ["null", "http://evil.example", "http://localhost:3000", "https://localhost:1"] {
        for line in [
            "POST /v1/insert",
            "DELETE /v1/documents/x",
            "GET /v1/stats",
            "GET /v1/snapshots/export",
        ] {
            let refused = send(line, origin);
            assert_eq!(refused.problem(), (403, "cross_site".to_owned()), "{line} {origin}");
        }
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
    // The host of these requests is `localhost`.
    assert_eq!(send("POST /v1/insert", "http://localhost").status, 200);
    assert_eq!(send("POST /v1/query", "https://localhost").status, 200, "behind a proxy with TLS");
}

#[test]
fn a_page_of_another_site_may_follow_links_but_not_export() {
    let server = Server::start();
    let send = |line: &str, site: &str| server.send(line, &[("sec-fetch-site", site)], b"");
    for site in ["cross-site", "same-site"] {
        assert_eq!(send("GET /v1/stats", site).status, 200, "{site}");
        let refused = send("GET /v1/snapshots/export", site);
        assert_eq!(refused.problem(), (403, "cross_site".to_owned()), "{site}");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(send("GET /v1/snapshots/export", site).status, 200, "{site}");
    }
}

#[test]
fn a_transfer_coding_besides_chunked_is_refused_and_ends_the_connection() {
    let server = Server::start();
    let ask = |codings: &str| {
        let mut connection = server.connect();
        let head = "POST /v1/insert HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain";
        let body = "18\r\nsome words to store here\r\n0\r\n\r\n";
        connection.write(format!("{head}\r\n{codings}\r\n\r\n{body}").as_bytes()).unwrap();
        (connection.reply(), connection)
    };
    for codings in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
    ] {
        let (refused, mut connection) = ask(codings);
        assert_eq!(refused.problem(), (501, "unsupported_transfer_coding".to_owned()), "{codings}");
        assert_eq!(refused.header("connection"), Some("close"), "{codings}");
        assert!(connection.is_closed(), "{codings}");
    }
    assert_eq!(server.get("/v1/stats").json()["documents"], 0);
    assert_eq!(ask("Transfer-Encoding: Chunked").0.json()["outcome"], "inserted");
}
