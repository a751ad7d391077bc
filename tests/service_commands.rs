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
        Command::new(env!("CARGO_BIN_EXE_nearprint"))
            .args(arguments)
            .args(["--server", &self.address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    /// Runs a command on the service; its output, and all requests.
    fn run(self, arguments: &[&str]) -> (Output, Vec<String>) {
        let output = self.begin(arguments).wait_with_output().expect("it ends");
        (output, self.requests.join().expect("all replies were asked for"))
    }
}

/// The first line, the header `accept`, and the body.
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
        } else if lower.starts_with("accept: application") {
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

fn reply(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
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
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n\r\n";
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
            vec!["1", "groups,", "3", "documents", "in", "them"],
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
            "DELETE /v1/groups/7f",
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
fn interrupted_groups_are_removed() {
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
        if request == "DELETE /v1/groups/7f" {
            break;
        }
    }
    assert_eq!(groups.wait().unwrap().code(), Some(130));
    let mut message = String::new();
    groups.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("the job was removed"), "{message}");
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

    for (state, said) in [("cancelled", "is cancelled"), ("done", "had ended already")] {
        let service = Service::with(&[reply("200 OK", &groups_job(state, ""))]);
        let output = service.run(&["jobs", "cancel", "7f"]).0;
        assert_eq!(out(&output), format!("job 7f {said}\n"), "{}", err(&output));
    }
}

#[test]
fn query_asks_for_a_namespace_an_age_and_metadata() {
    let found = r#"{"fingerprint": "00000000000000ff", "hit_count": 1, "hits": [{"fingerprint": "00000000000000fe", "distance": 1,
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
    ]);
    assert_eq!(
        requests,
        [
            "POST /v1/query\n{\"fingerprint\":\"00000000000000ff\",\"namespace\":\"a\",\"max_age\":60,\
          \"include\":[\"metadata\"]}"
        ]
    );
    assert!(out(&output).contains("2026-03-01T12:00:00Z  a\n"), "{}", out(&output));
    assert!(out(&output).contains("{\"n\":1}"), "{}", out(&output));
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
