//! What the log has of the requests, and how its values are written.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::server::{Client, Server, log};

/// Runs a server with these variables, and returns the lines of its JSON log.
fn lines(variables: &[(&str, &str)], send: impl FnOnce(&Server)) -> Vec<Map<String, Value>> {
    let root = tempfile::tempdir().expect("the disk has space");
    let data = root.path().join("data");
    let server = start(&data, variables);
    send(&server);
    assert!(server.terminate().success());
    // The second start reads what the first one has stored.
    assert!(start(&data, variables).terminate().success());
    log(&data).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn start(data: &Path, variables: &[(&str, &str)]) -> Server {
    let mut command = Server::command(data);
    command.env("NEARPRINT_LOG__FORMAT", "json").envs(variables.iter().copied());
    Server::of(command).unwrap_or_else(|| panic!("it does not start; it says:\n{}", log(data)))
}

/// The lines of requests.
fn requests(lines: &[Map<String, Value>]) -> Vec<&Map<String, Value>> {
    lines.iter().filter(|line| line["message"] == "request").collect()
}

fn insert_and_query(server: &Server) {
    let client = server.client();
    let document = json!({"id": "a", "text": "the quick brown fox jumps over the lazy dog"});
    Client::expect(client.post("/v1/check-and-insert", &document));
    Client::expect(client.post("/v1/snapshots", &json!({})));
    Client::expect(client.post("/v1/query", &json!({"fingerprint": 7})));
    assert_eq!(client.get("/v1/documents/b").expect("it answers").0, 404);
}

#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("the disk has space");
}

#[test]
fn numbers_are_numbers_in_json() {
    let lines = lines(&[], insert_and_query);
    for line in &lines {
        for (name, value) in line.iter().filter(|(name, _)| *name != "request_id") {
            let is_number = value.as_str().is_some_and(|text| text.parse::<f64>().is_ok());
            assert!(!is_number, "{name} in {line:?}");
        }
    }
    let named = |message: &str| lines.iter().rfind(|line| line["message"] == message).unwrap();
    assert_eq!(named("recovered")["distance_max"], 3);
    assert_eq!(named("snapshot taken")["sequence"], 1);
    let listening = named("listening");
    assert_eq!((&listening["documents"], &listening["tokens"]), (&json!(1), &json!(0)));
    let request = requests(&lines)[0];
    assert_eq!(
        (&request["route"], &request["status"]),
        (&json!("/v1/check-and-insert"), &json!(200))
    );
    assert!(!request.contains_key("token"), "{request:?}");
}

#[test]
fn errors_have_a_line_whatever_else_has_one() {
    let statuses = |access: &str| -> Vec<u64> {
        let lines = lines(&[("NEARPRINT_LOG__ACCESS", access)], |server| {
            for _ in 0..3 {
                insert_and_query(server);
            }
        });
        let status = |line: &Map<String, Value>| line["status"].as_u64().unwrap();
        requests(&lines).into_iter().map(status).collect()
    };
    assert_eq!(statuses("errors"), [404, 404, 404]);
    // Nine requests without an error: the first, the fifth and the ninth.
    assert_eq!(statuses("1 in 4"), [200, 404, 200, 404, 200, 404]);
    assert_eq!(statuses("all").len(), 12);
}

/// Also of a request whose token lacks the scope.
#[test]
fn a_line_names_the_token_of_its_request() {
    let root = tempfile::tempdir().unwrap();
    let tokens = root.path().join("tokens");
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["token", "reader", "--scopes", "read"])
        .output()
        .unwrap();
    write(&tokens, &made.stdout);
    let said = String::from_utf8(made.stderr).unwrap();
    let token = said.split_whitespace().find(|word| word.starts_with("nearprint_")).unwrap();
    let tokens = ("NEARPRINT_ACCESS__TOKENS_FILE", tokens.to_str().unwrap());
    let lines = lines(&[tokens], |server| {
        let get = |path: &str, token: Option<&str>| {
            let request = ureq::get(format!("{}{path}", server.url()));
            let config = request.config().http_status_as_error(false).build();
            let header = token.map(|token| ("authorization", format!("Bearer {token}")));
            let request =
                header.into_iter().fold(config, |it, (name, value)| it.header(name, value));
            request.call().unwrap().status().as_u16()
        };
        assert_eq!(get("/v1/stats", Some(token)), 200);
        assert_eq!(get("/v1/snapshots", Some(token)), 403);
        assert_eq!(get("/v1/stats", None), 401);
        assert_eq!(get("/healthz", Some(token)), 200);
    });
    let names: Vec<_> = requests(&lines).iter().map(|line| line.get("token").cloned()).collect();
    assert_eq!(names, [Some(json!("reader")), Some(json!("reader")), None, None]);
    assert!(!lines.iter().any(|line| json!(line).to_string().contains(token)));
}
