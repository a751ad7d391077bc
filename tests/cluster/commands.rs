//! `nearprint cluster`, and what a service does with the directories that it makes.

use std::process::Output;

use serde_json::Value;

use crate::nodes::{Cluster, LOG_SIZE, NODES};
use crate::support::server::{self, Client, Server};

/// What a command has said, whichever way it ended.
fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(both).unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}

/// Why it was refused.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", said(output));
    said(output)
}

#[test]
fn a_cluster_that_is_made_once_is_made_by_the_first_node_and_not_again() {
    let Some(mut cluster) = Cluster::prepare(1) else { return };
    let once = [&["--once"], LOG_SIZE].concat();
    let why = done(&cluster.run(1, "create", &once));
    assert!(why.contains("not the first of cluster.seeds"), "{why}");
    let made = done(&cluster.run(0, "create", &once));
    assert!(made.contains("is the first node"), "{made}");
    let why = done(&cluster.run(0, "create", &once));
    assert!(why.contains("has its directory"), "{why}");

    // It has lost its directory: another one that answers has the documents.
    cluster.begin(0);
    cluster.begin(1);
    cluster.write("a");
    cluster.until_equal();
    cluster.kill(0);
    cluster.empty(0);
    let why = done(&cluster.run(0, "create", &once));
    assert!(why.contains(&format!("{} answers", cluster.url(1))), "{why}");
    cluster.kill(1);
    let why = refused(&cluster.run(0, "create", &once));
    assert!(why.contains("has entries"), "{why}");
}

#[test]
fn a_service_alone_becomes_the_first_node_and_a_node_a_service_alone() {
    let Some(mut cluster) = Cluster::prepare(1) else { return };
    let data = cluster.data(0);
    let alone = Server::start(&data);
    Client::expect(alone.client().post("/v1/insert", &crate::nodes::document("a")));
    // Before anything is made.
    let why = refused(&cluster.run(0, "create", &[]));
    assert!(why.contains("nothing was changed") && why.contains("in use"), "{why}");
    assert!(alone.terminate().success());
    cluster.begin(0);
    cluster
        .until("it says what it is", |cluster| cluster.log(0).contains("nearprint cluster create"));
    assert!(!cluster.terminate(0).success());

    let why = refused(&cluster.run(0, "create", &["--max-bytes", "255m"]));
    assert!(why.contains("less than 256 MiB") && why.contains("nothing was made"), "{why}");
    let made = done(&cluster.run(0, "create", &["--max-bytes", "256m"]));
    assert!(made.contains("stream NEARPRINT_test, 1 copy of each entry, up to 256 MiB"), "{made}");
    assert!(made.contains("is the first node, with 1 documents"), "{made}");
    let why = refused(&cluster.run(0, "create", &[]));
    assert!(why.contains("have a stream NEARPRINT_test already"), "{why}");
    let why = refused(&cluster.run(1, "create", &[]));
    assert!(why.contains("have a stream NEARPRINT_test already"), "{why}");
    assert!(!cluster.data(1).exists(), "nothing was changed");
    // It does not start alone.
    assert!(Server::of(Server::command(&data)).is_none());
    assert!(server::log(&data).contains("nearprint cluster leave"), "{}", server::log(&data));

    let servers = [cluster.url(0), cluster.url(1)];
    let status = ["--server", &servers[0], "--server", &servers[1]];
    let why = refused(&cluster.run(0, "status", &status));
    assert!(why.contains("no node leads") && why.contains("no answer"), "{why}");
    cluster.begin(0);
    cluster.begin(1);
    cluster.write("b");
    cluster.until_equal();
    let shown = done(&cluster.run(0, "status", &status));
    assert!(shown.contains("leading") && shown.contains("following"), "{shown}");
    let silent = cluster.run(1, "status", &["--json"]);
    assert_eq!(silent.status.code(), Some(4), "{}", said(&silent));
    let lines = String::from_utf8(silent.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<_> = lines.iter().map(|line| line["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "no_answer").count(), 1, "{states:?}");
    assert_eq!(lines[0]["server"], cluster.url(1), "its own address comes first");

    let why = refused(&cluster.run(1, "leave", &[]));
    assert!(why.contains("in use"), "{why}");
    assert!(cluster.terminate(1).success(), "{}", cluster.log(1));
    done(&cluster.run(1, "leave", &[]));
    let why = refused(&cluster.run(1, "leave", &[]));
    assert!(why.contains("is not that of a node"), "{why}");
    let alone = Server::start(&cluster.data(1));
    Client::expect(alone.client().post("/v1/insert", &crate::nodes::document("c")));
}

#[test]
fn an_empty_node_waits_for_a_seed_and_says_why_it_has_none() {
    let Some(mut cluster) = Cluster::prepare(1) else { return };
    cluster.begin(1);
    cluster.until("it waits", |cluster| cluster.log(1).contains("retrying"));
    // A service alone is not copied.
    let alone =
        Server::command_at(&[], cluster.url(0).trim_start_matches("http://"), &cluster.data(0));
    let alone = Server::of(alone).unwrap();
    cluster.until("it says so", |cluster| cluster.log(1).contains("is not a node of a cluster"));
    assert!(alone.terminate().success());
    assert!(!cluster.data(1).exists(), "nothing was filled");
    done(&cluster.run(0, "create", LOG_SIZE));
    cluster.begin(0);
    cluster.write("a");
    cluster.until_equal();
}

#[test]
fn a_cluster_that_has_lost_its_log_goes_on_with_a_new_one() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("before");
    cluster.until_equal();
    let why = refused(&cluster.run(0, "refound", &["--existing"]));
    assert!(why.contains("has entries"), "{why}");
    cluster.log_servers().kill(0);
    cluster.until("all notice it", |cluster| (0..NODES).all(|at| cluster.log_fault(at).is_some()));
    let furthest = (0..NODES).max_by_key(|at| cluster.read(*at)).unwrap();
    (0..NODES).for_each(|at| assert!(cluster.terminate(at).success(), "{}", cluster.log(at)));
    cluster.log_servers().begin(0);
    "other".clone_into(&mut cluster.name);
    let why = refused(&cluster.run(furthest, "refound", &["--existing"]));
    assert!(why.contains("no stream NEARPRINT_other"), "{why}");
    let made = done(&cluster.run(furthest, "refound", LOG_SIZE));
    assert!(made.contains("goes on with it at change 1, with 1 documents"), "{made}");
    (0..NODES).for_each(|at| cluster.begin(at));
    // Who had read less halts, and is filled once it is emptied.
    for at in 0..NODES {
        cluster.until("it goes on, or halts", |cluster| {
            matches!(cluster.state(at).as_deref(), Some("leading" | "following" | "halted"))
        });
        if at != furthest && cluster.state(at).as_deref() == Some("halted") {
            assert!(cluster.terminate(at).success(), "{}", cluster.log(at));
            cluster.empty(at);
            cluster.begin(at);
        }
    }
    cluster.write("after");
    cluster.until_equal();
    assert_eq!(cluster.documents(0), cluster.written());
}

#[test]
fn nodes_are_found_and_compared_and_another_leads_when_it_is_told_to() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    (0..20).for_each(|number| cluster.write(&format!("d{number}")));
    cluster.until_equal();
    let one = ["--server".to_owned(), cluster.url(1)];
    let one: Vec<&str> = one.iter().map(String::as_str).collect();
    let members = done(&cluster.run(0, "members", &one));
    for at in 0..NODES {
        assert_eq!(
            members.matches(&cluster.url(at)).count(),
            3,
            "itself, and two names: {members}"
        );
    }
    let verified = done(&cluster.run(0, "verify", &[]));
    assert_eq!(verified.matches("have the same 20 documents").count(), NODES - 1, "{verified}");

    for round in 0..3 {
        let leader = cluster.leader();
        let chosen = (leader + 1) % NODES;
        let told = done(&cluster.run(0, "transfer", &[&cluster.url(chosen)]));
        assert!(told.contains(&format!("{} leads", cluster.url(chosen))), "{told}");
        cluster.write(&format!("after {round}"));
        assert_eq!(cluster.leader(), chosen);
        let again = done(&cluster.run(0, "transfer", &[&cluster.url(chosen)]));
        assert!(again.contains("leads already"), "{again}");
    }
    let nobody = refused(&cluster.run(0, "transfer", &["http://127.0.0.1:1"]));
    assert!(nobody.contains("none of the nodes"), "{nobody}");
    cluster.until_equal();
}

#[test]
fn nodes_with_other_content_are_told_apart() {
    let Some(cluster) = Cluster::prepare(1) else { return };
    let stand_alone = |cluster: &Cluster, at: usize, id: &str| {
        let address = cluster.url(at).trim_start_matches("http://").to_owned();
        let server = Server::of(Server::command_at(&[], &address, &cluster.data(at))).unwrap();
        Client::expect(server.client().post("/v1/insert", &crate::nodes::document(id)));
        server
    };
    let _servers = [(0, "a"), (1, "b")].map(|(at, id)| stand_alone(&cluster, at, id));
    let servers = [cluster.url(0), cluster.url(1)];
    let compared = cluster.run(0, "verify", &["--server", &servers[0], "--server", &servers[1]]);
    assert_eq!(compared.status.code(), Some(3), "{}", said(&compared));
    let said = said(&compared);
    assert!(said.contains("differ in 2 documents") && said.contains("alone: {"), "{said}");
}

#[test]
fn a_backup_of_a_node_begins_another_cluster() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    cluster.write("kept");
    cluster.until_equal();
    (0..NODES).for_each(|at| assert!(cluster.terminate(at).success(), "{}", cluster.log(at)));
    "again".clone_into(&mut cluster.name);
    let made = done(&cluster.run(0, "create", LOG_SIZE));
    assert!(made.contains("is the first node, with 1 documents"), "{made}");
    (1..NODES).for_each(|at| cluster.empty(at));
    (0..NODES).for_each(|at| cluster.begin(at));
    cluster.write("after");
    cluster.until_equal();
    assert_eq!(cluster.documents(1), cluster.written());
}
