//! A follower of a server, each in a process of its own: both are killed under load, and in the end
//! the follower has what was answered; it passes writes on, refuses them, waits, copies again,
//! halts and takes the place of its primary.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::load::{compare, pause, under_load, workers};
use crate::random::{self, Random};
use crate::support::server::{Client, Server, log};
use crate::support::wait::until;

/// How often the primary and the follower are killed.
const KILLS: u64 = 6;

/// An address where nobody listens.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

fn started(command: Command, data: &Path) -> Server {
    Server::of(command).unwrap_or_else(|| panic!("it does not start; it says:\n{}", log(data)))
}

/// The follower of the primary at an address; `forward` passes writes on.
fn follower(primary: &str, data: &Path, forward: bool) -> Command {
    let mut command = Server::command(data);
    command.args(["--follow", &format!("http://{primary}")]);
    command.env("NEARPRINT_FOLLOW__FORWARD", forward.to_string());
    command
}

/// Waits until the follower has had everything, has the last change of the primary, and hears it.
fn until_level(primary: &Client, follower: &Client) {
    let stats = |client: &Client| Client::expect(client.get("/v1/stats"));
    until("it has everything", || {
        // It does not listen while it copies.
        let Ok((status, reply)) = follower.get("/readyz") else { return false };
        assert!(reply["code"] != "follower_halted", "{reply}");
        // It may begin to copy between two requests.
        let Ok((200, copy)) = follower.get("/v1/stats") else { return false };
        // It has everything before it is connected again, if nothing was written meanwhile.
        status == 200
            && copy["sequence"] == stats(primary)["sequence"]
            && copy["following"]["connected"] == true
    });
}

fn insert(client: &Client, id: &str, fingerprint: u64) -> Value {
    let fingerprint = format!("{fingerprint:016x}");
    Client::expect(client.post("/v1/insert", &json!({"id": id, "fingerprint": fingerprint})))
}

#[test]
fn a_follower_has_what_was_answered_although_both_are_killed() {
    let mut random = Random::of_run();
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let address = free_address();
    let mut workers = workers(4, &mut random);
    let mut primary = started(Server::command_at(&[], &address, &one), &one);
    let mut copy = started(follower(&address, &two, true), &two);
    for _ in 0..random::variable("NEARPRINT_TEST_KILLS").unwrap_or(KILLS) {
        workers = under_load(workers, &primary, |primary| {
            pause(20 + random.below(300));
            copy.kill();
            copy = started(follower(&address, &two, true), &two);
            pause(random.below(300));
            primary.kill();
        });
        // Look-ups go on, and writes say that nothing was done.
        let body = json!({"id": "nobody", "fingerprint": "00000000000000ff"});
        let (status, reply) = copy.client().post("/v1/insert", &body).unwrap();
        assert_eq!((status, &reply["code"]), (503, &json!("primary_unreachable")), "{reply}");
        let near = json!({"text": "a text that nobody has stored, of a few words only"});
        Client::expect(copy.client().post("/v1/query", &near));
        primary = started(Server::command_at(&[], &address, &one), &one);
        until_level(&primary.client(), &copy.client());
        // What it reads is its own; what it writes goes to the primary.
        compare(&mut workers, &copy.client());
        until_level(&primary.client(), &copy.client());
    }
    // What is compressed is passed on as it is.
    let words: Vec<String> = (0..3_000).map(|word| format!("word-{}", word % 500)).collect();
    let text = words.join(" ");
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    let request = ureq::post(format!("{}/v1/insert?id=packed", copy.url()));
    let request = request.content_type("text/plain").header("content-encoding", "gzip");
    let mut reply = request.send(&packed.finish().unwrap()[..]).unwrap();
    // How much the primary has written is between the two services.
    assert!(!reply.headers().contains_key("nearprint-change"), "{reply:?}");
    let stored: Value = reply.body_mut().read_json().unwrap();
    let plain = copy.client().post("/v1/fingerprint", &json!({"text": text}));
    assert_eq!(stored["fingerprint"], Client::expect(plain)["fingerprint"]);
    // What was passed on is here once its reply is.
    for number in 0..50 {
        let document =
            json!({"id": format!("own{number}"), "fingerprint": format!("{:016x}", number << 8)});
        Client::expect(copy.client().post_until_here("/v1/insert", &document));
        assert_eq!(copy.client().get(&format!("/v1/documents/own{number}")).unwrap().0, 200);
    }
    // One client may have eight that run or wait.
    for number in 0..8 {
        let purge = json!({"prefix": format!("own{number}-")});
        let (status, job) = copy.client().post_until_here("/v1/purge", &purge).unwrap();
        assert_eq!(status, 202, "{job}");
        let path = format!("/v1/jobs/{}", job["job"].as_str().unwrap());
        assert_eq!(copy.client().get(&path).unwrap().0, 200, "{path}");
    }
    // Its searches for groups are its own, and a fresh answer is that of the primary.
    let (status, search) = copy.client().post("/v1/groups", &json!({})).unwrap();
    assert_eq!(status, 202, "{search}");
    let path = format!("/v1/jobs/{}", search["job"].as_str().unwrap());
    assert_eq!(copy.client().delete(&path).unwrap().0, 200);
    for fresh in [false, true] {
        let stats = Client::expect(copy.client().get(&format!("/v1/stats?fresh={fresh}")));
        assert_eq!(stats["following"].is_null(), fresh, "{stats}");
    }
    assert_eq!(copy.client().get("/readyz/writes").unwrap().0, 200);
    // A write is passed on once: a copy of the copy has nobody who takes it.
    let three = folder.path().join("third");
    let second = copy.url().trim_start_matches("http://").to_owned();
    let third = started(follower(&second, &three, true), &three);
    until_level(&copy.client(), &third.client());
    let body = json!({"id": "b", "fingerprint": "00000000000000ff"});
    assert_eq!(copy.client().post("/v1/insert", &body).unwrap().0, 200);
    let (status, reply) = third.client().post("/v1/insert", &body).unwrap();
    assert_eq!((status, &reply["code"]), (503, &json!("follower")), "{reply}");
    drop(third);
    // The stream of changes does not hold up the stop of its server.
    assert!(primary.terminate().success(), "{}", log(&one));
    assert!(!log(&one).contains("were cut off"), "{}", log(&one));
    assert!(copy.terminate().success(), "{}", log(&two));
}

#[test]
fn a_follower_refuses_writes_waits_for_changes_and_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let primary = Server::start(&one);
    let address = primary.url().trim_start_matches("http://").to_owned();
    insert(&primary.client(), "a", 1);
    let copy = started(follower(&address, &two, false), &two);
    until_level(&primary.client(), &copy.client());
    let body = json!({"id": "b", "fingerprint": "00000000000000ff"});
    for path in ["/v1/insert", "/v1/check-and-insert", "/v1/insert/batch", "/v1/purge"] {
        let (status, reply) = copy.client().post(path, &body).unwrap();
        assert_eq!((status, &reply["code"]), (503, &json!("follower")), "{path}: {reply}");
        assert!(reply["detail"].as_str().unwrap().contains(&address), "{reply}");
    }
    for path in ["/readyz/writes", "/v1/stats?fresh=true"] {
        let (status, reply) = copy.client().get(path).unwrap();
        assert_eq!((status, &reply["code"]), (503, &json!("follower")), "{path}: {reply}");
    }
    let (status, reply) = copy.client().delete("/v1/documents/a").unwrap();
    assert_eq!((status, &reply["code"]), (503, &json!("follower")), "{reply}");
    let command = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["delete", "a", "--server", copy.url()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&command.stderr).into_owned();
    assert!(!command.status.success() && said.contains("name its primary"), "{said}");
    assert!(!said.contains("trying again"), "{said}");
    // What was written is seen as soon as it is asked for.
    for number in 0..50 {
        let sequence =
            insert(&primary.client(), &format!("c{number}"), number << 8)["sequence"].clone();
        let path = format!("/v1/documents/c{number}?min_sequence={sequence}");
        assert_eq!(copy.client().get(&path).unwrap().0, 200, "{path}");
    }
    let path = "/v1/query?fingerprint=00000000000000ff&min_sequence=1000";
    let (status, reply) = copy.client().get(path).unwrap();
    assert_eq!((status, &reply["code"]), (503, &json!("behind")), "{reply}");
    for wrong in ["min_sequence=x", "min_sequence=1&min_sequence=2", "min_sequence=-1"] {
        let (status, reply) = copy.client().get(&format!("/v1/documents/a?{wrong}")).unwrap();
        assert_eq!((status, &reply["field"]), (400, &json!("min_sequence")), "{reply}");
    }
    // The directory of a follower does not take writes by mistake.
    assert!(copy.terminate().success());
    assert!(Server::of(Server::command(&two)).is_none());
    assert!(log(&two).contains("nearprint promote"), "{}", log(&two));
    primary.kill();
    let promoted = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["promote", "--yes", "--data"])
        .arg(&two)
        .output()
        .unwrap();
    assert!(promoted.status.success(), "{promoted:?}");
    let copy = Server::start(&two);
    insert(&copy.client(), "d", 77);
    assert_eq!(copy.client().get("/v1/documents/c49").unwrap().0, 200);
}

#[test]
fn a_follower_that_is_far_behind_copies_again_and_one_of_another_history_halts() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("primary"), folder.path().join("follower"));
    let address = free_address();
    let small_files = || {
        let mut command = Server::command_at(&[], &address, &one);
        command.env("NEARPRINT_ENGINE__JOURNAL_FILE_BYTES", "65536");
        command
    };
    let primary = started(small_files(), &one);
    insert(&primary.client(), "a", 1);
    let copy = started(follower(&address, &two, false), &two);
    until_level(&primary.client(), &copy.client());
    assert!(copy.terminate().success());
    let mut round = 0;
    until("its journal is packed", || {
        round += 1;
        let lines = (0..500).map(|n| {
            let fingerprint = format!("{:016x}", (n + 500 * round) << 8);
            json!({"id": format!("{n:0200}"), "fingerprint": fingerprint})
        });
        primary.client().post_lines("/v1/insert/batch", &lines.collect::<Vec<_>>());
        Client::expect(primary.client().post("/v1/snapshots", &json!({})));
        let stats = Client::expect(primary.client().get("/v1/stats"));
        stats["journal"]["packs"].as_u64() > Some(0)
    });
    let mut command = Server::command_at(&[], &free_address(), &two);
    command.args(["--follow", &format!("http://{address}")]);
    let copy = started(command, &two);
    until("it copies again", || log(&two).contains("begins again with an export"));
    until_level(&primary.client(), &copy.client());
    // The primary is set back to a day on which it had less.
    assert!(primary.terminate().success());
    let last = Client::expect(copy.client().get("/v1/stats"))["sequence"].as_u64().unwrap();
    std::fs::remove_dir_all(&one).unwrap();
    let primary = started(small_files(), &one);
    insert(&primary.client(), "another", 5);
    until("it halts", || {
        let (status, reply) = copy.client().get("/readyz").unwrap();
        status == 503 && reply["code"] == "follower_halted"
    });
    let stats = Client::expect(copy.client().get("/v1/stats"));
    assert_eq!(stats["sequence"], last);
    assert!(stats["following"]["halted"].as_str().unwrap().contains("lost"), "{stats}");
    assert_eq!(copy.client().get("/v1/documents?prefix=0").unwrap().0, 200, "look-ups go on");
    // Who reaches nothing or not everything does not learn how far it is.
    assert!(copy.terminate().success());
    let mut command = follower(&address, &two, false);
    let digest = "0".repeat(64);
    command.env("NEARPRINT_ACCESS__TOKENS", format!("a read sha256:{digest} namespaces=a"));
    let copy = started(command, &two);
    until("it halts again", || {
        copy.client().get("/readyz").unwrap().1["code"] == "follower_halted"
    });
    let reply = copy.client().get("/readyz").unwrap().1;
    let detail = reply["detail"].as_str().unwrap();
    assert!(detail.contains("the log says why") && !detail.contains("lost"), "{reply}");
}
