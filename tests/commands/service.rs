//! Promise: the commands on a running service send what they were asked to, show what comes back,
//! and say what to do when something is wrong. Method: the binary as a person runs it, and a
//! service that gives prepared replies and keeps the requests. `tests/process/commands.rs` runs
//! them on the real service.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

/// A service that answers one request after the other with these replies.
struct Service {
    address: SocketAddr,
    requests: JoinHandle<Vec<String>>,
}

impl Service {
    fn with(replies: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let replies = replies.to_vec();
        let requests = thread::spawn(move || {
            let answer = |reply: &String| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let request = read_request(&mut stream);
                // The client may have read enough.
                drop(stream.write_all(reply.as_bytes()));
                request
            };
            replies.iter().map(answer).collect()
        });
        Self { address, requests }
    }

    /// Begins a command on the service.
    fn begin(&self, arguments: &[&str]) -> Child {
        begin_with(&[], &[arguments, &["--server", &self.address.to_string()]].concat())
    }

    /// Runs a command on the service; its output, and all requests.
    fn run(self, arguments: &[&str]) -> (Output, Vec<String>) {
        let output = self.begin(arguments).wait_with_output().expect("it ends");
        (output, self.requests.join().expect("all replies were asked for"))
    }
}

/// Begins a command in an environment with these variables.
fn begin_with(variables: &[(&str, &str)], arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// The first line, the headers `accept` and `authorization`, and the body.
fn read_request(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a whole head");
        let (line, lower) = (line.trim(), line.to_ascii_lowercase());
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if request.is_empty() {
            request.push_str(line.trim_end_matches(" HTTP/1.1"));
        } else if lower.starts_with("accept: application") || lower.starts_with("authorization:") {
            request.extend(["\n", line]);
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a whole body");
    if length > 0 {
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        request.extend(["\n", &body.to_string()]);
    }
    request
}

/// A reply in JSON, or in lines of it.
fn reply(status: &str, body: &str) -> String {
    let kind = if body.ends_with('\n') { "application/x-ndjson" } else { "application/json" };
    reply_of(&format!("{status}\r\ncontent-type: {kind}"), body)
}

/// A reply with a status and headers of its own.
fn reply_of(head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn job(state: &str, more: &str) -> String {
    format!(
        "{{\"job\": \"7f\", \"kind\": \"purge\", \"state\": \"{state}\", \"dry_run\": false, \
         \"matched\": 1200, \"removed\": 1200, \"progress\": 0.5, \"begun_at_ms\": 0, \
         \"ended_at_ms\": null{more}}}"
    )
}

fn out(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("UTF-8")
}

fn err(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

#[test]
fn list_copies_the_lines_of_the_service() {
    let lines = "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n";
    let (output, requests) = Service::with(&[reply("200 OK", lines)]).run(&[
        "list",
        "--namespace",
        "crawl 7",
        "--prefix",
        "https://",
        "--metadata",
        "--sketch",
    ]);
    assert_eq!((code(&output), out(&output)), (0, lines), "{}", err(&output));
    assert_eq!(
        requests,
        ["GET /v1/documents?namespace=crawl%207&prefix=https%3A%2F%2F&include=metadata%2Csketch\n\
          accept: application/x-ndjson"]
    );
    let two = Service::with(&[reply("200 OK", lines)]).run(&["list", "--limit", "2"]).0;
    assert_eq!((code(&two), out(&two)), (0, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n"));
}

#[test]
fn a_list_that_breaks_off_is_an_error() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: 99\r\n\
                connection: close\r\n\r\n";
    let service = Service::with(&[format!("{head}{{\"id\":\"a\"}}\n")]);
    let output = service.run(&["list"]).0;
    assert_eq!((code(&output), out(&output)), (1, "{\"id\":\"a\"}\n"));
    assert!(err(&output).contains("error: the list is not complete"), "{}", err(&output));
}

#[test]
fn a_list_ends_quietly_when_its_reader_does() {
    let lines = "{\"id\":\"a\"}\n".repeat(1 << 20);
    let service = Service::with(&[reply("200 OK", &lines)]);
    let mut list = service.begin(&["list"]);
    drop(list.stdout.take());
    let output = list.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (0, ""));
}

#[test]
fn namespaces_are_read_page_by_page() {
    let (output, requests) = Service::with(&[
        reply(
            "200 OK",
            r#"{"namespaces": [{"namespace": "a", "documents": 12345}], "default_documents": 3, "next": "x/1"}"#,
        ),
        reply(
            "200 OK",
            r#"{"namespaces": [{"namespace": "b\u001b", "documents": 1}], "default_documents": 3, "next": null}"#,
        ),
    ])
    .run(&["namespaces"]);
    assert_eq!(
        out(&output),
        "namespace  documents\n(default)          3\na             12,345\nb\\u{1b}            1\n"
    );
    assert_eq!(requests[1], "GET /v1/namespaces?limit=1000&after=x%2F1");
}

#[test]
fn a_purge_is_confirmed_and_followed_to_its_end() {
    let unconfirmed = Service::with(&[]).run(&["purge", "--namespace", "a"]).0;
    assert_eq!(code(&unconfirmed), 1);
    assert!(err(&unconfirmed).contains("error: nothing was removed"), "{}", err(&unconfirmed));
    assert!(err(&unconfirmed).contains("--yes removes them"), "{}", err(&unconfirmed));

    let (output, requests) = Service::with(&[
        reply("202 Accepted", &job("running", "")),
        reply("200 OK", &job("running", "")),
        reply("200 OK", &job("done", "")),
    ])
    .run(&["purge", "--yes", "--namespace", "a", "--stored-before", "2026-03-01T12:00:00Z"]);
    assert_eq!((code(&output), out(&output)), (0, "removed 1,200 documents\n"), "{}", err(&output));
    assert_eq!(
        requests,
        [
            "POST /v1/purge\n{\"namespace\":\"a\",\"stored_before\":1772366400}",
            "GET /v1/jobs/7f",
            "GET /v1/jobs/7f",
        ]
    );
}

#[test]
fn a_dry_run_needs_no_confirmation_and_a_detached_purge_no_end() {
    let done = job("done", "").replace("\"dry_run\": false", "\"dry_run\": true");
    let (output, requests) = Service::with(&[reply("202 Accepted", &done)]).run(&[
        "purge",
        "--dry-run",
        "--all-namespaces",
        "--prefix",
        "https://a.example/",
    ]);
    assert!(out(&output).starts_with("1,200 documents would be removed"), "{}", out(&output));
    assert_eq!(
        requests,
        [
            "POST /v1/purge\n{\"all_namespaces\":true,\"prefix\":\"https://a.example/\",\"dry_run\":true}"
        ]
    );

    let service = Service::with(&[reply("202 Accepted", &job("running", ""))]);
    let output = service.run(&["purge", "--yes", "--detach", "--namespace", "a"]).0;
    assert_eq!((code(&output), out(&output)), (0, "job 7f\n"));
    assert!(err(&output).contains("nearprint jobs cancel 7f"), "{}", err(&output));
}

#[test]
fn an_interrupted_purge_goes_on_and_says_so() {
    let running = reply("200 OK", &job("running", ""));
    let service = Service::with(&[reply("202 Accepted", &job("running", "")), running]);
    let purge = service.begin(&["purge", "--yes", "--namespace", "a"]);
    let requests = service.requests.join().unwrap();
    assert_eq!(requests.len(), 2, "it waits for the end of the job");
    let pid = Pid::from_child(&purge);
    kill_process(pid, Signal::INT).unwrap();
    let output = purge.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", err(&output));
    assert!(err(&output).contains("job 7f goes on"), "{}", err(&output));
    assert!(err(&output).contains("nearprint jobs cancel 7f"), "{}", err(&output));
}

#[test]
fn a_job_that_does_not_end_well_is_an_error() {
    for (state, part) in [("cancelled", "was cancelled; it removed 1,200"), ("failed", "failed")] {
        let service = Service::with(&[reply("202 Accepted", &job(state, ""))]);
        let output = service.run(&["purge", "--yes", "--namespace", "a"]).0;
        assert_eq!((code(&output), out(&output)), (1, ""), "{state}");
        assert!(err(&output).contains(part), "{}", err(&output));
    }
}

fn groups_job(state: &str, more: &str) -> String {
    format!(
        "{{\"job\": \"7f\", \"kind\": \"groups\", \"state\": \"{state}\", \"progress\": 0.5, \"groups\": 1, \
         \"documents\": 3, \"begun_at_ms\": 0, \"ended_at_ms\": null{more}}}"
    )
}

#[test]
fn groups_are_awaited_listed_and_removed() {
    let oldest =
        r#"{"sequence": 1, "fingerprint": "00000000000000ff", "id": "a", "stored_at_ms": 0}"#;
    let found = format!(
        r#", "found": [{{"group": 0, "size": 3, "namespace": "x", "oldest": {oldest}}}], "next": null"#
    );
    let documents = format!(
        r#"{{"documents": [{oldest}, {{"sequence": 2, "fingerprint": "00000000000000fe", "gone": true}}], "next": "2"}}"#
    );
    let replies = [
        reply("202 Accepted", &groups_job("waiting", "")),
        reply("200 OK", &groups_job("done", "")),
        reply("200 OK", &groups_job("done", &found)),
        reply("200 OK", &documents),
        reply("200 OK", &groups_job("done", "")),
    ];
    let arguments =
        ["groups", "--distance", "2", "--all-namespaces", "--limit", "5", "--members", "2"];
    let (output, requests) = Service::with(&replies).run(&arguments);
    let lines: Vec<Vec<&str>> =
        out(&output).lines().map(|line| line.split_whitespace().collect()).collect();
    let stored = "1970-01-01T00:00:00Z";
    assert_eq!(
        lines,
        [
            vec!["group", "documents", "namespace", "fingerprint", "stored", "oldest"],
            vec!["0", "3", "x", "00000000000000ff", stored, "a"],
            vec![],
            vec!["group", "0"],
            vec!["00000000000000ff", stored, "a"],
            vec!["00000000000000fe", "(gone)"],
            vec![],
            vec!["1", "group,", "3", "documents", "in", "total"],
        ],
        "{}",
        err(&output)
    );
    assert_eq!(
        requests,
        [
            "POST /v1/groups\n{\"distance\":2,\"all_namespaces\":true,\"min_size\":2}",
            "GET /v1/jobs/7f",
            "GET /v1/groups/7f?limit=5",
            "GET /v1/groups/7f/0?limit=2",
            "DELETE /v1/jobs/7f",
        ]
    );
}

#[test]
fn groups_that_fail_are_an_error() {
    let failed = groups_job("failed", ", \"error\": \"they need 9 GB\"");
    let output = Service::with(&[reply("202 Accepted", &failed)]).run(&["groups"]).0;
    assert_eq!((code(&output), out(&output)), (1, ""));
    assert!(err(&output).contains("they need 9 GB"), "{}", err(&output));
}

#[test]
fn interrupted_groups_are_cancelled() {
    let running = reply("200 OK", &groups_job("running", ""));
    let looks = [reply("202 Accepted", &groups_job("running", "")), running.clone()];
    let service = Service::with(&looks);
    let mut groups = service.begin(&["groups"]);
    // It has begun to look, so it listens for signals; it looks until it gets one.
    let address = service.address;
    service.requests.join().unwrap();
    let rest = TcpListener::bind(address).expect("the port is free again");
    kill_process(Pid::from_child(&groups), Signal::INT).unwrap();
    loop {
        let (mut stream, _) = rest.accept().expect("a connection");
        let request = read_request(&mut stream);
        drop(stream.write_all(running.as_bytes()));
        if request == "DELETE /v1/jobs/7f" {
            break;
        }
    }
    assert_eq!(groups.wait().unwrap().code(), Some(130));
    let mut message = String::new();
    groups.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("the job was cancelled"), "{message}");
}

#[test]
fn originals_are_read_page_by_page() {
    let page = |id: &str, next: &str| {
        let original = format!(
            r#"{{"id": "{id}", "fingerprint": "00000000000000ff", "short": false, "verifiable": true, "sequence": 1, "stored_at_ms": 0, "duplicates": 1200, "last_duplicate_at_ms": 0}}"#
        );
        reply("200 OK", &format!(r#"{{"originals": [{original}], "next": {next}}}"#))
    };
    let pages = [page("login", "\"x/1\""), page("\\u001b", "null")];
    let (output, requests) = Service::with(&pages).run(&["originals", "--recent"]);
    let lines: Vec<Vec<&str>> =
        out(&output).lines().map(|line| line.split_whitespace().collect()).collect();
    let time = "1970-01-01T00:00:00Z";
    assert_eq!(
        lines[1..],
        ["login", "\\u{1b}"].map(|id| vec!["1,200", time, time, "00000000000000ff", id])
    );
    assert_eq!(
        requests,
        [
            "GET /v1/originals?order=recent&limit=20",
            "GET /v1/originals?order=recent&limit=19&after=x%2F1",
        ]
    );
    let none = [reply("200 OK", r#"{"originals": [], "next": null}"#)];
    let output = Service::with(&none).run(&["originals"]).0;
    assert_eq!(out(&output), "no document was the original of a duplicate\n");
}

#[test]
fn jobs_are_listed_and_cancelled() {
    let all = job("running", ", \"all_namespaces\": true, \"prefix\": \"x\"");
    let jobs = format!("{{\"jobs\": [{all}]}}");
    let (output, requests) = Service::with(&[reply("200 OK", &jobs)]).run(&["jobs"]);
    assert!(out(&output).contains("purge of all namespaces, ids that begin with x"), "{output:?}");
    assert_eq!(requests, ["GET /v1/jobs"]);

    let cancelled = Service::with(&[reply("200 OK", &job("cancelled", ""))]);
    let (output, requests) = cancelled.run(&["jobs", "cancel", "7f"]);
    assert_eq!(out(&output), "job 7f is cancelled; it removed 1,200\n", "{}", err(&output));
    assert_eq!(requests, ["DELETE /v1/jobs/7f"]);

    for (state, said) in
        [("cancelled", "is cancelled"), ("done", "had ended already; its result was removed")]
    {
        let service = Service::with(&[reply("200 OK", &groups_job(state, ""))]);
        let output = service.run(&["jobs", "cancel", "7f"]).0;
        assert_eq!(out(&output), format!("job 7f {said}\n"), "{}", err(&output));
    }
}

#[test]
fn query_asks_for_a_namespace_an_age_and_metadata() {
    let found = r#"{"fingerprint": "00000000000000ff", "short": false, "duplicate": true, "hit_count": 1, "truncated": false,
        "hits": [{"fingerprint": "00000000000000fe", "distance": 1,
        "documents": [{"id": "a", "stored_at_ms": 1772366400000, "metadata": {"n": 1}}],
        "document_count": 1}]}"#;
    let (output, requests) = Service::with(&[reply("200 OK", found)]).run(&[
        "query",
        "00000000000000ff",
        "--namespace",
        "a",
        "--max-age",
        "60",
        "--metadata",
        "--search",
        "exact",
        "--timeout",
        "60",
    ]);
    assert_eq!(
        requests,
        ["POST /v1/query\n{\"fingerprint\":\"00000000000000ff\",\"namespace\":\"a\",\
          \"search\":\"exact\",\"max_age\":60,\"include\":[\"metadata\"]}"]
    );
    assert!(out(&output).contains("2026-03-01T12:00:00Z  a\n"), "{}", out(&output));
    assert!(out(&output).contains("{\"n\": 1}"), "{}", out(&output));
}

/// A reply to a query or a check-and-insert of a document with one hit.
fn hit(duplicate: bool, more: &str) -> String {
    format!(
        r#"{{"fingerprint": "00000000000000ff", "short": false, "duplicate": {duplicate}, "hit_count": 1, "truncated": false, "hits": [{{"fingerprint": "00000000000000fe", "distance": 1, "confirmed": {duplicate},
        "documents": [{{"id": "a", "stored_at_ms": 0}}], "document_count": 1}}]{more}}}"#
    )
}

#[test]
fn query_tells_by_its_exit_code_whether_a_near_duplicate_is_stored() {
    let ask = |reply: String, more: &[&str]| {
        Service::with(&[reply]).run(&[&["query", "00000000000000ff"], more].concat()).0
    };
    let found = ask(reply("200 OK", &hit(true, "")), &[]);
    assert_eq!(code(&found), 0, "{}", err(&found));
    assert!(out(&found).contains("yes"), "{}", out(&found));
    // A hit that the sketches refute is shown, and is no near-duplicate.
    let refuted = ask(reply("200 OK", &hit(false, "")), &[]);
    assert_eq!(code(&refuted), 1);
    assert!(out(&refuted).contains("no  1970"), "{}", out(&refuted));
    for (duplicate, expected) in [(true, 0), (false, 1)] {
        let quiet = ask(reply("200 OK", &hit(duplicate, "")), &["--quiet"]);
        assert_eq!((code(&quiet), out(&quiet), err(&quiet)), (expected, "", ""));
        let json = ask(reply("200 OK", &hit(duplicate, "")), &["--json"]);
        let printed: serde_json::Value = serde_json::from_str(out(&json)).unwrap();
        assert_eq!((code(&json), &printed["duplicate"]), (expected, &duplicate.into()));
    }
    let problem = r#"{"code": "distance_above_max", "detail": "distance is 9."}"#;
    let refused = ask(reply("400 Bad Request", problem), &["--distance", "9"]);
    assert_eq!((code(&refused), out(&refused)), (2, ""));
    assert!(err(&refused).contains("distance is 9. (distance_above_max)"), "{}", err(&refused));
}

#[test]
fn check_stores_unless_a_near_duplicate_is_stored() {
    let stored = r#"{"outcome": "inserted", "stored": true, "fingerprint": "00000000000000ff", "short": false, "duplicate": false, "hits": [], "hit_count": 0, "truncated": false}"#;
    let (output, requests) = Service::with(&[reply("200 OK", stored)]).run(&[
        "check",
        "a text of words",
        "--id",
        "a",
        "--namespace",
        "n",
        "--metadata",
        r#"{"n": 1}"#,
        "--expires-in",
        "60",
        "--distance",
        "2",
        "--min-similarity",
        "0.5",
        "--on-duplicate",
        "insert",
    ]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert_eq!(
        requests,
        ["POST /v1/check-and-insert\n{\"text\":\"a text of words\",\"namespace\":\"n\",\
          \"id\":\"a\",\"metadata\":{\"n\":1},\"expires_in\":60,\"distance\":2,\
          \"min_similarity\":0.5,\"on_duplicate\":\"insert\"}"]
    );
    assert!(out(&output).starts_with("inserted; the document is stored\n"), "{}", out(&output));
    let duplicate = hit(true, r#", "outcome": "duplicate", "stored": false"#);
    let output = Service::with(&[reply("200 OK", &duplicate)]).run(&["check", "a text"]).0;
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).starts_with("duplicate; the document is not stored\n"), "{output:?}");
    assert!(out(&output).contains("1970-01-01T00:00:00Z  a\n"), "{}", out(&output));
}

#[test]
fn a_document_is_inserted_shown_and_removed() {
    let written = r#"{"outcome": "already_present", "stored": true, "fingerprint": "00000000000000ff", "short": false}"#;
    let (output, requests) = Service::with(&[reply("200 OK", written)]).run(&[
        "insert",
        "00000000000000ff",
        "--id-from",
        "fingerprint",
        "--expires-in",
        "never",
    ]);
    assert_eq!(
        (code(&output), out(&output)),
        (0, "already present; the document is stored\nfingerprint 00000000000000ff\n"),
        "{}",
        err(&output)
    );
    assert_eq!(
        requests,
        [
            "POST /v1/insert\n{\"fingerprint\":\"00000000000000ff\",\"id\":{\"from\":\"fingerprint\"},\
          \"expires_in\":\"never\"}"
        ]
    );

    let stored = r#"{"namespace": "n", "id": "a/\u001b", "fingerprint": "00000000000000ff", "recipe": "np2", "short": false, "verifiable": true, "sequence": 1, "stored_at_ms": 0, "expires_at": 60, "metadata": {"n": 1.50}, "duplicates": 1200, "last_duplicate_at_ms": 0}"#;
    let get = ["get", "a/\u{1b}", "--namespace", "n"];
    let (output, requests) = Service::with(&[reply("200 OK", stored)]).run(&get);
    assert_eq!(requests, ["GET /v1/documents/a%2F%1B?namespace=n"]);
    assert_eq!(
        (code(&output), out(&output)),
        (
            0,
            "id          a/\\u{1b}\nnamespace   n\nfingerprint 00000000000000ff\nrecipe      np2\n\
             document    a text, so hits on it are verified\nstored      1970-01-01T00:00:00Z\n\
             expires     1970-01-01T00:01:00Z\n\
             duplicates  1,200, the last at 1970-01-01T00:00:00Z\nmetadata    {\"n\": 1.50}\n"
        ),
        "{}",
        err(&output)
    );
    let missing =
        r#"{"code": "document_not_found", "detail": "No document with this id is stored."}"#;
    let output = Service::with(&[reply("404 Not Found", missing)]).run(&get).0;
    let said = "no document with this id is stored\n";
    assert_eq!((code(&output), out(&output), err(&output)), (1, "", said));
    let unknown = r#"{"code": "invalid_value", "detail": "Too long."}"#;
    let output = Service::with(&[reply("400 Bad Request", unknown)]).run(&get).0;
    assert_eq!(code(&output), 2, "{}", err(&output));

    for (removed, said) in
        [(1, "removed\n"), (0, "nothing to remove: no document with this id is stored\n")]
    {
        let removal = format!(r#"{{"removed": {removed}, "stored": false}}"#);
        let (output, requests) =
            Service::with(&[reply("200 OK", &removal)]).run(&["delete", "a/b"]);
        assert_eq!((code(&output), out(&output)), (0, said), "{}", err(&output));
        assert_eq!(requests, ["DELETE /v1/documents/a%2Fb"]);
    }
}

#[test]
fn the_service_and_the_token_may_come_from_the_environment_and_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| {
        let mut file = std::fs::File::create_new(folder.path().join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        path(name)
    };
    let empty = [reply("200 OK", r#"{"namespaces": [], "default_documents": null, "next": null}"#)];
    let token = write("token", "nearprint_secret\n");
    let service = Service::with(&empty);
    let url = format!("http://{}", service.address);
    let variables = [("NEARPRINT_URL", &*url), ("NEARPRINT_TOKEN", "another")];
    let namespaces = ["namespaces", "--token-file", &token];
    let output = begin_with(&variables, &namespaces).wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let requests = service.requests.join().unwrap();
    assert!(requests[0].contains("authorization: Bearer nearprint_secret"), "{requests:?}");

    // The option comes before the variable, and a directory before both.
    let service = Service::with(&empty);
    let address = service.address.to_string();
    let far = [("NEARPRINT_URL", "http://127.0.0.1:9")];
    let output = begin_with(&far, &["namespaces", "--server", &address]);
    assert_eq!(code(&output.wait_with_output().unwrap()), 0);
    let here = ["import", "--data", &path("data"), &write("a.hex", "00000000000000ff\ta\n")];
    let output = begin_with(&far, &here).wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let export = ["export", "-o", "-", "--data", &path("data")];
    let output = begin_with(&far, &export).wait_with_output().unwrap();
    assert!(out(&output).contains("\"id\":\"a\""), "{}", err(&output));
    let snapshot = ["snapshot", "export", &path("backup.np"), "--data", &path("data")];
    let output = begin_with(&far, &snapshot).wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));

    let line = write("line", "crawler read sha256:0\n");
    let output = Service::with(&[]).run(&["namespaces", "--token-file", &line]).0;
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("does not contain one token"), "{}", err(&output));
}

#[test]
fn lists_are_printed_as_lines_of_json() {
    let page = r#"{"namespaces": [{"namespace": "a", "documents": 2}], "default_documents": 1, "next": null}"#;
    let output = Service::with(&[reply("200 OK", page)]).run(&["namespaces", "--json"]).0;
    assert_eq!(
        out(&output),
        "{\"namespace\":null,\"documents\":1}\n{\"namespace\":\"a\",\"documents\":2}\n",
        "{}",
        err(&output)
    );
    let jobs = format!("{{\"jobs\": [{}, {}]}}", job("done", ""), job("running", ""));
    let output = Service::with(&[reply("200 OK", &jobs)]).run(&["jobs", "--json"]).0;
    let states: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!([&states[0]["state"], &states[1]["state"]], [&"done", &"running"]);
    let lines = "{\"id\":\"a\"}\n";
    let output = Service::with(&[reply("200 OK", lines)]).run(&["list", "--json"]).0;
    assert_eq!(out(&output), lines);
}

#[test]
fn stats_shows_the_figures_that_the_service_gives() {
    let all = r#"{"documents": 1234, "recipe": "np2", "memory": {"total_bytes": 20971520}, "last_snapshot": {"taken_at_ms": 0}, "uptime_seconds": 5}"#;
    let (output, requests) = Service::with(&[reply("200 OK", all)]).run(&["stats"]);
    let words: Vec<Vec<&str>> =
        out(&output).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words,
        [
            vec!["documents", "1,234"],
            vec!["recipe", "np2"],
            vec!["memory", "of", "the", "index", "20", "MiB"],
            vec!["last", "snapshot", "1970-01-01T00:00:00Z"],
            vec!["running", "for", "5", "s"],
        ],
        "{}",
        err(&output)
    );
    assert_eq!(requests, ["GET /v1/stats"]);
    let one = r#"{"namespace": "a", "documents": 7}"#;
    let (output, requests) =
        Service::with(&[reply("200 OK", one)]).run(&["stats", "--namespace", "a"]);
    assert_eq!(out(&output).split_whitespace().collect::<Vec<_>>(), ["documents", "7"]);
    assert_eq!(requests, ["GET /v1/stats?namespace=a"]);
}

/// The commands that read one reply, and a list of documents as lines.
const COMMANDS: [&[&str]; 14] = [
    &["list"],
    &["export", "-o", "-"],
    &["stats"],
    &["stats", "--json"],
    &["namespaces"],
    &["jobs"],
    &["jobs", "--json"],
    &["jobs", "cancel", "7f"],
    &["originals"],
    &["query", "00000000000000ff"],
    &["check", "--json", "00000000000000ff"],
    &["insert", "00000000000000ff"],
    &["get", "a"],
    &["delete", "a"],
];

#[test]
fn the_reply_of_another_server_is_an_error_of_every_command() {
    let deep = "[".repeat(1_000) + &"]".repeat(1_000);
    for command in COMMANDS {
        let is_lines = matches!(command[0], "list" | "export");
        let kind = if is_lines { "application/x-ndjson" } else { "application/json" };
        let mut replies = vec![
            reply_of("204 No Content", ""),
            reply_of("200 OK", ""),
            reply_of("200 OK\r\ncontent-type: text/html", "<html>Welcome</html>\n"),
            reply_of("404 Not Found\r\ncontent-type: text/html", "<html>Not here</html>"),
            reply_of("501 Unsupported method\r\ncontent-type: text/html", "<html>No</html>"),
            reply_of("302 Found\r\nlocation: /login", ""),
        ];
        for body in ["null\n", "5\n", "[]\n", "<html>\n", &format!("{deep}\n")] {
            replies.push(reply_of(&format!("200 OK\r\ncontent-type: {kind}"), body));
        }
        if !is_lines {
            replies.push(reply("200 OK", "{}"));
            replies.push(reply("200 OK", &format!("{{\"documents\": {deep}}}")));
        }
        for foreign in replies {
            let output = Service::with(std::slice::from_ref(&foreign)).run(command).0;
            let said = (code(&output), out(&output));
            assert_eq!(said, (2, ""), "{command:?} {foreign}: {}", err(&output));
            let what = "error: the reply is not from a nearprint service of this version\n  why: ";
            assert!(err(&output).starts_with(what), "{command:?} {foreign}: {}", err(&output));
            assert!(err(&output).contains("\n  next: name the address"), "{}", err(&output));
        }
    }
}

#[test]
fn pages_without_an_end_are_not_read_for_ever() {
    let page = r#"{"namespaces": [], "default_documents": 3, "next": "a"}"#;
    let output =
        Service::with(&[reply("200 OK", page), reply("200 OK", page)]).run(&["namespaces"]).0;
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("its pages have no end"), "{}", err(&output));
}

#[test]
fn a_command_says_what_a_busy_service_said_and_when_it_asks_again() {
    let busy = reply_of(
        "503 Service Unavailable\r\nretry-after: 0",
        r#"{"code": "overloaded", "detail": "Too many requests at once."}"#,
    );
    let stats = reply("200 OK", r#"{"documents": 1}"#);
    let output = Service::with(&[busy.clone(), busy.clone(), stats]).run(&["stats"]).0;
    assert_eq!(code(&output), 0, "{}", err(&output));
    let said = ": Too many requests at once. (overloaded); trying again in 0.";
    assert_eq!(err(&output).matches(said).count(), 2, "{}", err(&output));
    let found = reply("200 OK", &hit(true, ""));
    let quiet = ["query", "--quiet", "00000000000000ff"];
    let output = Service::with(&[busy, found]).run(&quiet).0;
    assert_eq!((code(&output), out(&output), err(&output)), (0, "", ""));
}

#[test]
fn a_document_that_may_be_stored_is_sent_again_if_it_has_an_id() {
    let lost = String::new;
    let present = reply(
        "200 OK",
        r#"{"outcome": "already_present", "stored": true, "fingerprint": "00000000000000ff", "short": false, "duplicate": false, "hits": [], "hit_count": 0, "truncated": false}"#,
    );
    let check = ["check", "--id", "a", "00000000000000ff"];
    let output = Service::with(std::slice::from_ref(&present)).run(&check).0;
    assert_eq!(code(&output), 0, "it was stored before: {}", err(&output));
    let (output, requests) = Service::with(&[lost(), present]).run(&check);
    assert_eq!(code(&output), 1, "the first attempt may have stored it: {}", err(&output));
    assert!(err(&output).ends_with("; trying again\n"), "{}", err(&output));
    assert_eq!(requests[0], requests[1]);

    for command in ["check", "insert"] {
        let output = Service::with(&[lost()]).run(&[command, "00000000000000ff"]).0;
        assert_eq!(out(&output), "", "{command}");
        assert!(err(&output).contains("was lost before it replied"), "{}", err(&output));
        assert!(err(&output).contains("\n  next: look whether it was done"), "{}", err(&output));
    }
}

#[test]
fn a_command_says_for_whom_it_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut stats = begin_with(&[], &["stats", "--server", &address]);
    let (mut stream, _) = listener.accept().unwrap();
    read_request(&mut stream);
    let mut errors = BufReader::new(stats.stderr.take().unwrap());
    let mut line = String::new();
    // The service answers once it has been said.
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, format!("waiting for http://{address} to answer\n"));
    let body = r#"{"documents": 1}"#;
    let head = reply("200 OK", body);
    let (head, _) = head.split_at(head.len() - body.len());
    stream.write_all(head.as_bytes()).unwrap();
    // The same while it waits for the rest of a reply.
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, format!("waiting for http://{address} to answer\n"));
    stream.write_all(body.as_bytes()).unwrap();
    let output = stats.wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert!(out(&output).contains("documents"), "{}", out(&output));
}

#[test]
fn text_of_others_cannot_command_the_terminal() {
    let evil = "\\u001b[2J\\u202ex\\n";
    let shown = "\\u{1b}[2J\\u{202e}x\\n";
    let problem = format!("{{\"code\": \"c{evil}\", \"detail\": \"d{evil}\"}}");
    let document = format!(
        "{{\"id\": \"i{evil}\", \"namespace\": \"n{evil}\", \"fingerprint\": \"00000000000000ff\", \
         \"short\": false, \"verifiable\": true, \"sequence\": 1, \"stored_at_ms\": 0, \
         \"duplicates\": 2, \"last_duplicate_at_ms\": 0}}"
    );
    let found = format!(
        "{{\"fingerprint\": \"00000000000000ff\", \"short\": false, \"outcome\": \"inserted\", \
         \"stored\": true, \"truncated\": false, \"duplicate\": true, \"hits\": [{{\"fingerprint\": \"00000000000000ff\", \"distance\": 0, \"document_count\": 1, \
         \"documents\": [{document}]}}], \"hit_count\": 1}}"
    );
    let more = format!(", \"namespace\": \"n{evil}\", \"error\": \"e{evil}\"");
    let job = job("failed", &more).replace("7f", evil);
    let jobs = format!("{{\"jobs\": [{job}]}}");
    let names = format!(
        "{{\"namespaces\": [{{\"namespace\": \"{evil}\", \"documents\": 1}}], \"next\": null}}"
    );
    let originals = format!("{{\"originals\": [{document}], \"next\": null}}");
    let figures = format!("{{\"documents\": 1, \"recipe\": \"{evil}\"}}");
    for (command, given) in [
        (&["stats"][..], reply("200 OK", &figures)),
        (&["stats"], reply("400 Bad Request", &problem)),
        (&["namespaces"], reply("200 OK", &names)),
        (&["originals"], reply("200 OK", &originals)),
        (&["jobs"], reply("200 OK", &jobs)),
        (&["purge", "--yes", "--detach", "--prefix", "a"], reply("200 OK", &job)),
        (&["purge", "--yes", "--prefix", "a"], reply("200 OK", &job)),
        (&["groups"], reply("200 OK", &job)),
        (&["get", "a"], reply("200 OK", &document)),
        (&["query", "00000000000000ff"], reply("200 OK", &found)),
        (&["check", "00000000000000ff"], reply("200 OK", &found)),
        (&["insert", "00000000000000ff"], reply("400 Bad Request", &problem)),
    ] {
        let output = Service::with(&[given]).run(command).0;
        let said = format!("{}{}", out(&output), err(&output));
        assert!(said.contains(shown.trim_end_matches("\\n")), "{command:?}: {said}");
        let is_bare = |c: char| matches!(c, '\u{1b}' | '\u{202e}');
        assert!(!said.contains(is_bare), "{command:?}: {said:?}");
    }
}

#[test]
fn why_an_import_waits_cannot_command_the_terminal() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let busy = r#"{"error": {"status": 503, "code": "overloaded", "detail": "d\u001b[2J"}}"#;
    let stored = r#"{"fingerprint": "00000000000000ff", "short": false, "outcome": "inserted", "stored": true}"#;
    let replies = [
        reply("200 OK", r#"{"status": "ready"}"#),
        reply("200 OK", &format!("{busy}\n")),
        reply("200 OK", &format!("{stored}\n")),
    ];
    let output = Service::with(&replies).run(&["import", page]).0;
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(err(&output).contains("d\\u{1b}[2J (overloaded); trying again"), "{}", err(&output));
}

#[test]
fn what_is_refused_comes_with_advice() {
    let problem = r#"{"code": "forbidden", "detail": "The token does not allow this."}"#;
    let output = Service::with(&[reply("403 Forbidden", problem)]).run(&["namespaces"]).0;
    assert_eq!(code(&output), 1);
    assert!(
        err(&output).contains("The token does not allow this. (forbidden)"),
        "{}",
        err(&output)
    );
    assert!(err(&output).contains("\n  next: send a token"), "{}", err(&output));
}
