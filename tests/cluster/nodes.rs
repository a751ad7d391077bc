//! Three nodes, as processes, and their log.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::DEADLINE;
use crate::network::Network;
use crate::servers::Servers;
use crate::support::server::{self, Client, Reply, Server};

pub(crate) const NODES: usize = 3;
/// The default is more than the disk of a test may have.
pub(crate) const LOG_SIZE: &[&str] = &["--max-bytes", "256m"];
/// The errors of writes while the leader is lost. A slow disk is enough for that.
pub(crate) const PASSING: [&str; 2] = ["no_leader", "outcome_unknown"];
/// A node that is paused does not answer.
const ANSWERS: Duration = Duration::from_secs(2);

/// Tells the threads of a test to end when it is dropped: a test that fails would wait for them.
pub(crate) struct OverAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for OverAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct Cluster {
    folder: TempDir,
    log: Servers,
    /// How many servers it has.
    replicas: usize,
    /// Its name.
    pub(crate) name: String,
    nodes: Vec<Node>,
    written: BTreeSet<String>,
}

struct Node {
    address: String,
    /// Between it and the servers of the log.
    network: Network,
    process: Option<Server>,
}

impl Cluster {
    /// Starts three nodes from empty directories; `None` if there is no program for the log.
    pub(crate) fn start(log_servers: usize) -> Option<Self> {
        Self::start_with(log_servers, LOG_SIZE)
    }

    /// The same; the log is made with these flags.
    pub(crate) fn start_with(log_servers: usize, flags: &[&str]) -> Option<Self> {
        Some(Self::prepare(log_servers)?.create(flags))
    }

    /// The same as `start`, with three servers of the log on hosts of their own if this user can
    /// make hosts.
    pub(crate) fn start_on_hosts() -> Option<Self> {
        Some(Self::prepare_with(Servers::start_on_hosts(3)?, 3).create(LOG_SIZE))
    }

    fn create(mut self, flags: &[&str]) -> Self {
        let made = self.run(0, "create", flags);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (0..NODES).for_each(|at| self.begin(at));
        self
    }

    /// The log servers and the addresses of nodes; nothing is created yet.
    pub(crate) fn prepare(log_servers: usize) -> Option<Self> {
        Some(Self::prepare_with(Servers::start(log_servers)?, log_servers))
    }

    fn prepare_with(log: Servers, replicas: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<_> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |port: &TcpListener| port.local_addr().unwrap().to_string();
        let nodes = ports.iter().map(|port| Node {
            address: address(port),
            network: Network::to(&log.options().servers),
            process: None,
        });
        let (nodes, name) = (nodes.collect(), "test".to_owned());
        Self { folder, log, replicas, name, nodes, written: BTreeSet::new() }
    }

    pub(crate) fn data(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("node-{at}"))
    }

    fn configure(&self, at: usize, command: &mut Command) {
        let url = |node: &Node| format!("http://{}", node.address);
        let options = self.log.options();
        let seeds: Vec<_> = self.nodes.iter().map(url).collect();
        command
            .env("NEARPRINT_CLUSTER__NAME", &self.name)
            .env("NEARPRINT_CLUSTER__ADDRESS", url(&self.nodes[at]))
            .env("NEARPRINT_CLUSTER__SEEDS", seeds.join(","))
            .env(
                "NEARPRINT_CLUSTER__SERVERS",
                self.nodes[at].network.urls().collect::<Vec<_>>().join(","),
            )
            .env("NEARPRINT_CLUSTER__MONITORS", options.monitors.join(","))
            .env("NEARPRINT_CLUSTER__REPLICAS", self.replicas.to_string())
            .env("NEARPRINT_CLUSTER__TAKEOVER_MS", "3000")
            .env("NEARPRINT_ENGINE__EXPIRED_KEPT_MS", "0");
    }

    /// Runs `nearprint cluster ACTION` with the configuration of a node.
    pub(crate) fn run(&self, at: usize, action: &str, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        self.configure(at, &mut command);
        command.env("NEARPRINT_DATA__DIRECTORY", self.data(at));
        command.args(["cluster", action]).args(flags).output().unwrap()
    }

    /// Starts a node, and does not wait until it listens.
    pub(crate) fn begin(&mut self, at: usize) {
        self.begin_with(at, &[]);
    }

    /// The same, with more variables.
    pub(crate) fn begin_with(&mut self, at: usize, variables: &[(&str, &str)]) {
        let mut command = Server::command_at(&[], &self.nodes[at].address, &self.data(at));
        self.configure(at, &mut command);
        command.envs(variables.iter().copied());
        // Where an empty node waits for its seeds it does not listen yet.
        let address = self.nodes[at].address.clone();
        self.nodes[at].process = Some(Server::begin(command, address));
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].process.take().unwrap().kill();
    }

    pub(crate) fn terminate(&mut self, at: usize) -> ExitStatus {
        self.nodes[at].process.take().unwrap().terminate()
    }

    pub(crate) fn signal(&self, at: usize, name: &str) {
        self.nodes[at].process.as_ref().unwrap().signal(name);
    }

    pub(crate) fn runs(&self, at: usize) -> bool {
        self.nodes[at].process.as_ref().unwrap().ended().is_none()
    }

    pub(crate) fn empty(&self, at: usize) {
        fs::remove_dir_all(self.data(at)).unwrap();
    }

    pub(crate) fn log(&self, at: usize) -> String {
        server::log(&self.data(at))
    }

    pub(crate) fn url(&self, at: usize) -> String {
        format!("http://{}", self.nodes[at].address)
    }

    pub(crate) fn client(&self, at: usize) -> Client {
        self.nodes[at].process.as_ref().unwrap().client()
    }

    /// One that gives up after this time.
    pub(crate) fn client_within(&self, at: usize, time: Duration) -> Client {
        self.nodes[at].process.as_ref().unwrap().client_within(time)
    }

    /// The network between a node and the servers of the log.
    pub(crate) fn network(&self, at: usize) -> &Network {
        &self.nodes[at].network
    }

    pub(crate) fn log_servers(&mut self) -> &mut Servers {
        &mut self.log
    }

    pub(crate) fn clients(&self) -> Vec<Client> {
        (0..NODES).map(|at| self.client(at)).collect()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(|at| self.nodes[*at].process.is_some())
    }

    /// Its statistics, if it answers.
    fn stats(&self, at: usize) -> Option<Value> {
        let (status, stats) =
            self.nodes[at].process.as_ref()?.client_within(ANSWERS).get("/v1/stats").ok()?;
        (status == 200).then_some(stats)
    }

    pub(crate) fn state(&self, at: usize) -> Option<String> {
        self.stats(at)?["cluster"]["state"].as_str().map(str::to_owned)
    }

    /// The last entry of the log that it has read.
    pub(crate) fn read(&self, at: usize) -> Option<u64> {
        self.stats(at)?["cluster"]["read"].as_u64()
    }

    /// Why it cannot read the log, if so.
    pub(crate) fn log_fault(&self, at: usize) -> Option<String> {
        self.stats(at)?["cluster"]["log_fault"].as_str().map(str::to_owned)
    }

    pub(crate) fn sequence(&self, at: usize) -> Option<u64> {
        self.stats(at)?["sequence"].as_u64()
    }

    /// Why it does not try to lead, if so.
    pub(crate) fn lead_fault(&self, at: usize) -> Option<String> {
        self.stats(at)?["cluster"]["lead_fault"].as_str().map(str::to_owned)
    }

    /// Why the log has refused the last of its entries that it refused, if so.
    pub(crate) fn last_refused(&self, at: usize) -> Option<String> {
        self.stats(at)?["cluster"]["last_refused"]["why"].as_str().map(str::to_owned)
    }

    /// Why it has halted, or cannot read the log.
    pub(crate) fn fault(&self, at: usize) -> Option<String> {
        let cluster = &self.stats(at)?["cluster"];
        let fault = ["halted", "log_fault"].iter().find_map(|name| cluster[*name].as_str());
        fault.map(str::to_owned)
    }

    pub(crate) fn has_leader(&self) -> bool {
        self.running().any(|at| self.state(at).as_deref() == Some("leading"))
    }

    /// Waits until one leads.
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        self.until("a node leads", |this| {
            leader = this.running().find(|at| this.state(*at).as_deref() == Some("leading"));
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Waits until one follows.
    pub(crate) fn follower(&self) -> usize {
        let mut follower = None;
        self.until("a node follows", |this| {
            follower = this.running().find(|at| this.state(*at).as_deref() == Some("following"));
            follower.is_some()
        });
        follower.unwrap()
    }

    /// Stores a document, whoever leads.
    pub(crate) fn write(&mut self, id: &str) {
        self.until(&format!("{id:?} is stored"), |this| {
            let store = |at| this.client(at).post("/v1/insert", &document(id));
            this.running().any(|at| matches!(store(at), Ok((200, _))))
        });
        self.written.insert(id.to_owned());
    }

    /// Stores a document a line, whoever leads; all are sent again if the leader is lost meanwhile.
    pub(crate) fn store(&self, lines: &[Value]) {
        self.until("all lines are stored", |this| {
            let answers = this.client(this.leader()).post_lines("/v1/insert/batch", lines);
            let is_stored = |answer: &Value| {
                let code = answer["error"]["code"].as_str().or(answer["code"].as_str());
                let is_stored = answer["stored"] == true;
                assert!(is_stored || code.is_some_and(|code| PASSING.contains(&code)), "{answer}");
                is_stored
            };
            answers.iter().all(is_stored) && answers.len() == lines.len()
        });
    }

    pub(crate) fn written(&self) -> BTreeSet<String> {
        self.written.clone()
    }

    /// The answer of a node, which is asked again until it listens.
    pub(crate) fn answer(&self, at: usize, ask: impl Fn(&Client) -> Reply) -> (u16, Value) {
        let mut answer = None;
        self.until(&format!("node {at} answers"), |this| {
            answer = ask(&this.client(at)).ok();
            answer.is_some()
        });
        answer.unwrap()
    }

    /// The reply of a node to a request that must succeed.
    pub(crate) fn get(&self, at: usize, path: &str) -> Value {
        Client::expect(Ok(self.answer(at, |client| client.get(path))))
    }

    /// The ids of a node.
    pub(crate) fn documents(&self, at: usize) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        let mut after = String::new();
        loop {
            let page = self.get(at, &format!("/v1/documents?limit=1000{after}"));
            let listed = page["documents"].as_array().unwrap().iter();
            ids.extend(listed.map(|one| one["id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { return ids };
            after = format!("&after={next}");
        }
    }

    /// Waits until all that run have read the same.
    pub(crate) fn until_level(&self) {
        self.until("all have the same", |this| {
            let stats: Vec<_> = this.running().map(|at| this.stats(at)).collect();
            let is_well = |stats: &Option<Value>| {
                let state = stats.as_ref().map(|stats| stats["cluster"]["state"].clone());
                matches!(state.as_ref().and_then(Value::as_str), Some("leading" | "following"))
            };
            let sequence =
                |stats: &Option<Value>| stats.as_ref().map(|stats| stats["sequence"].clone());
            stats.iter().all(is_well)
                && stats.iter().all(|one| sequence(one) == sequence(&stats[0]))
        });
    }

    /// Waits until all that run have read the same, and compares what they have.
    pub(crate) fn until_equal(&self) {
        self.until_level();
        let first = self.running().next().unwrap();
        for at in self.running().skip(1) {
            assert_eq!(self.documents(at), self.documents(first), "node {at} and node {first}");
        }
    }

    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > DEADLINE {
                let logs = (0..NODES).map(|at| format!("node {at}:\n{}", self.log(at)));
                panic!("waiting until {what}\n{}", logs.collect::<String>());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A document that is near no other one.
pub(crate) fn document(id: &str) -> Value {
    json!({"id": id, "fingerprint": fingerprint(id)})
}

pub(crate) fn fingerprint(id: &str) -> String {
    format!("{:016x}", BuildHasherDefault::<DefaultHasher>::default().hash_one(id))
}
