//! What a caller is told about itself: its token, and the service that it has reached.

use nearprint::access::Token;
use serde_json::{Value, json};

use crate::support::{Reply, Server, started};

/// A server with the tokens of these lines, whose digest is missing; and the headers that send
/// them.
fn with_tokens<const N: usize>(lines: [(&str, &str); N]) -> (Server, [String; N]) {
    let tokens = lines.map(|_| Token::generate().unwrap());
    let made = lines.iter().zip(&tokens);
    let made = made.map(|((before, after), token)| format!("{before} {} {after}", token.digest()));
    let made: Vec<String> = made.collect();
    let server = Server::with(|config| config.access.tokens = made.join(";"));
    (server, tokens.map(|token| format!("Bearer {}", token.reveal())))
}

fn me(server: &Server, authorization: &str) -> Reply {
    server.send("GET /v1/me", &[("authorization", authorization)], b"")
}

/// What a reply tells of the token.
fn of_token(reply: &Value) -> Value {
    json!([reply["name"], reply["scopes"], reply["namespaces"], reply["rate"]])
}

#[test]
fn without_tokens_everything_is_allowed() {
    let server = Server::with(|config| {
        config.data.distance_max = 5;
        config.server.body_bytes_max = 70_000;
    });
    let expected = json!({
        "name": null,
        "scopes": ["read", "write", "admin"],
        "namespaces": null,
        "rate": null,
        "role": {"kind": "alone", "decides": true, "decider": null, "forwards": false},
        "version": env!("CARGO_PKG_VERSION"),
        "limits": {"distance_max": 5, "body_bytes_max": 70_000, "id_bytes_max": 2_048},
    });
    assert_eq!(server.get("/v1/me").json(), expected);
    // Nobody asks for the token, so nobody looks at it.
    assert_eq!(me(&server, "Bearer guess").json(), expected);
}

#[test]
fn every_token_is_told_its_scopes_its_namespaces_and_its_rate() {
    let (server, [all, read, limited, none]) = with_tokens([
        ("all write,admin,read", ""),
        ("reader read", "rate=900"),
        ("news write", "namespaces=news/*,a%2Cb,*"),
        ("admin admin", "rate=7 namespaces=shop"),
    ]);
    for (token, expected) in [
        (all, json!(["all", ["read", "write", "admin"], null, null])),
        (read, json!(["reader", ["read"], null, {"requests_per_second": 900}])),
        (limited, json!(["news", ["write"], ["news/*", "a%2Cb", "*"], null])),
        (none, json!(["admin", ["admin"], ["shop"], {"requests_per_second": 7}])),
    ] {
        assert_eq!(of_token(&me(&server, &token).json()), expected);
    }
}

#[test]
fn a_rate_of_the_configuration_is_told_as_well() {
    let token = Token::generate().unwrap();
    let server = Server::with(|config| {
        config.access.tokens = format!("some read {}", token.digest());
        config.access.requests_per_second = 90;
    });
    let told = me(&server, &format!("Bearer {}", token.reveal())).json();
    assert_eq!(told["rate"], json!({"requests_per_second": 90}));
}

#[test]
fn a_missing_and_a_wrong_token_are_told_apart_and_bring_no_password_box() {
    let (server, [_]) = with_tokens([("some read", "")]);
    for (headers, code) in [
        (vec![], "token_missing"),
        (vec![("authorization", "Bearer nearprint_guess")], "token_unknown"),
        (vec![("authorization", "Basic bWU6Z3Vlc3M=")], "token_unknown"),
    ] {
        // As the script of a page sends it. Browsers ask for a password where the scheme is Basic.
        let of_script = [("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")];
        let headers = [headers, of_script.into()].concat();
        let refused = server.send("GET /v1/me", &headers, b"");
        assert_eq!(refused.problem(), (401, code.to_owned()));
        let challenges = refused.headers("www-authenticate");
        assert!(matches!(challenges[..], [one] if one.starts_with("Bearer ")), "{challenges:?}");
    }
}

#[test]
fn a_follower_names_the_primary_and_whether_it_passes_writes_on() {
    let directory = tempfile::tempdir().unwrap();
    let primary = started(&directory.path().join("primary"), None);
    for forward in [false, true] {
        let data = directory.path().join(format!("forwards-{forward}"));
        let follower = started(&data, Some((primary.url(), forward)));
        let (_, told) = follower.client().get("/v1/me").unwrap();
        let expected = json!({
            "kind": "follower", "decides": false, "decider": primary.url(), "forwards": forward,
        });
        assert_eq!(told["role"], expected);
    }
}
