//! Clients of all nodes during faults of every kind: whatever was answered is explained by one run
//! of the machine (`checker`), and all nodes end with the same.
//!
//! `NEARPRINT_TEST_FAULTS` sets the number of faults, `NEARPRINT_TEST_SEED` their order, and
//! `NEARPRINT_TEST_CLIENTS` the number of clients.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::checker::{Operation, Outcome, check};
use crate::nodes::{Cluster, NODES, OverAtEnd, fingerprint};
use crate::support::server::Client;

/// Each kind once.
const FAULTS: usize = KINDS.len();
const CLIENTS: u64 = 32;
/// About so many clients ask about the same document.
const FAMILY: u64 = 8;
/// A client gives up after this time, and does not know what was done.
const GIVES_UP_AFTER: Duration = Duration::from_secs(20);

/// What fails.
#[derive(Debug, Clone, Copy)]
enum Fault {
    NodeKilled,
    NodeStopped,
    NodePaused,
    NodeCutOff,
    ServerKilled,
    ServerPaused,
    BothKilled,
    /// A server of the log reaches nodes, but no other server.
    ServerIsolated,
}

const KINDS: [Fault; 8] = [
    Fault::NodeKilled,
    Fault::NodeStopped,
    Fault::NodePaused,
    Fault::NodeCutOff,
    Fault::ServerKilled,
    Fault::ServerPaused,
    Fault::BothKilled,
    Fault::ServerIsolated,
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pause(&mut self, at_most_ms: u64) {
        // Not a wait for something: the length of a fault.
        thread::sleep(Duration::from_millis(self.below(at_most_ms)));
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn during_faults_of_every_kind_one_of_each_family_is_stored() {
    let Some(mut cluster) = Cluster::start_on_hosts() else { return };
    let seed = number("NEARPRINT_TEST_SEED", 1);
    let faults = number("NEARPRINT_TEST_FAULTS", FAULTS as u64);
    let (is_over, next, answered) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let clients: Vec<_> = (0..number("NEARPRINT_TEST_CLIENTS", CLIENTS))
        .map(|at| cluster.client_within(at as usize % NODES, GIVES_UP_AFTER))
        .collect();
    let operations = thread::scope(|scope| {
        let counts = (&next, &answered);
        let is_over = &is_over;
        let asks = clients.iter().map(|it| scope.spawn(move || ask(it, counts, began, is_over)));
        let asks: Vec<_> = asks.collect();
        let over = OverAtEnd(is_over);
        let mut dice = Dice(seed);
        for number in 0..faults {
            let before = answered.load(Ordering::Relaxed);
            // In turn, so that each kind occurs.
            let kind = KINDS[number as usize % KINDS.len()];
            inject(&mut cluster, kind, &mut dice);
            cluster.until("a node leads, and writes go on", |cluster| {
                cluster.has_leader() && answered.load(Ordering::Relaxed) > before + 150
            });
        }
        drop(over);
        asks.into_iter().flat_map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
    });
    cluster.until_equal();
    let stored = check(&operations).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let documents = cluster.documents(0);
    let winners: BTreeSet<_> = stored.winners.iter().cloned().collect();
    println!("{faults} faults, {} families stored, one document of each", winners.len());
    assert!(winners.len() > 100, "the clients were answered");
    let lost: Vec<_> = winners.difference(&documents).collect();
    assert!(lost.is_empty(), "seed {seed}: answered, and not stored: {lost:?}");
    let others: BTreeSet<_> = documents.difference(&winners).cloned().collect();
    let known = stored.open.iter().filter(|open| open.iter().any(|id| others.contains(id))).count();
    assert_eq!(known, others.len(), "seed {seed}: stored, and nobody knows of them: {others:?}");
}

/// Asks about one document after the other, at the same time as others.
fn ask(
    client: &Client,
    (next, answered): (&AtomicU64, &AtomicU64),
    start: Instant,
    is_over: &AtomicBool,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (id, family) = (format!("{number}"), number / FAMILY);
        let bits = u64::from_str_radix(&fingerprint(&format!("family {family}")), 16).unwrap();
        // Two of them differ in two bits at most.
        let near = bits ^ (1 << (number % FAMILY));
        let body = json!({"id": id, "fingerprint": format!("{near:016x}")});
        let began = start.elapsed();
        let reply = client.post("/v1/check-and-insert", &body);
        let outcome = outcome(reply.map_err(|error| error.to_string()));
        if matches!(outcome, Outcome::Refused | Outcome::Unknown) {
            thread::sleep(Duration::from_millis(20));
        } else {
            answered.fetch_add(1, Ordering::Relaxed);
        }
        operations.push(Operation { id, family, began, ended: start.elapsed(), outcome });
    }
    operations
}

fn outcome(reply: Result<(u16, Value), String>) -> Outcome {
    let Ok((status, reply)) = reply else { return Outcome::Unknown };
    let sequence = || reply["sequence"].as_u64().unwrap();
    match (status, reply["code"].as_str()) {
        (200, _) if reply["stored"] == true => Outcome::Stored(sequence()),
        (200, _) => {
            let of = reply["hits"][0]["documents"][0]["id"].as_str();
            Outcome::Duplicate(sequence(), of.unwrap().to_owned())
        }
        (503, Some("no_leader" | "behind" | "overloaded" | "stopping")) => Outcome::Refused,
        (502..=504, _) => Outcome::Unknown,
        _ => panic!("no such answer is due: {status} {reply}"),
    }
}

fn inject(cluster: &mut Cluster, kind: Fault, dice: &mut Dice) {
    let any = dice.below(NODES as u64) as usize;
    let at = if dice.below(2) == 0 { any } else { cluster.leader() };
    let server = dice.below(3) as usize;
    match kind {
        Fault::NodeKilled => {
            cluster.kill(at);
            dice.pause(4_000);
            cluster.begin(at);
        }
        Fault::NodeStopped => {
            // One that has just begun does not handle signals yet.
            cluster.answer(at, |client| client.get("/healthz"));
            assert!(cluster.terminate(at).success(), "{}", cluster.log(at));
            dice.pause(1_000);
            cluster.begin(at);
        }
        Fault::NodePaused => {
            cluster.signal(at, "STOP");
            dice.pause(10_000);
            cluster.signal(at, "CONT");
        }
        Fault::NodeCutOff => {
            cluster.network(at).cut(true);
            dice.pause(10_000);
            cluster.network(at).cut(false);
        }
        Fault::ServerKilled => {
            cluster.log_servers().kill(server);
            dice.pause(4_000);
            cluster.log_servers().begin(server);
        }
        Fault::ServerPaused => {
            let time = Duration::from_millis(dice.below(5_000));
            cluster.log_servers().pause(server, time);
        }
        Fault::ServerIsolated => {
            // More often the one that leads the log.
            let server = if dice.below(2) == 0 { server } else { cluster.log_servers().leader() };
            cluster.log_servers().isolate(server, true);
            dice.pause(15_000);
            cluster.log_servers().isolate(server, false);
        }
        Fault::BothKilled => {
            let leader = cluster.log_servers().leader();
            cluster.log_servers().kill(leader);
            cluster.kill(at);
            dice.pause(2_000);
            cluster.begin(at);
            cluster.log_servers().begin(leader);
        }
    }
}
