//! What a service, and those that it copies or that copy it, tell of themselves: what each does,
//! what is wrong with it, and what helps. `cluster status` shows it, and `/v1/nodes`.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::Peers;

/// How long another service may take for each of its answers.
const ANSWERS: Duration = Duration::from_secs(1);
/// A clock that is further off than this from the log's is a fault.
const CLOCK_OFF_MS: u64 = 1_000;

/// A service, as it sees itself.
#[derive(Debug, Serialize)]
pub(crate) struct NodeRow {
    /// The address at which it was asked.
    pub(crate) server: String,
    /// `alone`, `follower` or `node`; `None` if it tells nothing.
    pub(crate) role: Option<&'static str>,
    /// `catching_up`, `following`, `leading`, `halted`, `alone` or `no_answer`.
    pub(crate) state: String,
    #[serde(flatten)]
    pub(crate) report: NodeReport,
    pub(crate) sequence: Option<u64>,
    pub(crate) documents: Option<u64>,
    pub(crate) version: Option<String>,
    /// How much the disk has left before additions are refused, and the memory.
    pub(crate) disk_left_bytes: Option<u64>,
    pub(crate) memory_left_bytes: Option<u64>,
    /// Why it takes no writes, although it is alone or knows a leader.
    pub(crate) writes_fault: Option<String>,
}

/// What a copy tells of its part among others.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeReport {
    pub(crate) address: Option<String>,
    #[serde(alias = "primary")]
    pub(crate) leader: Option<String>,
    pub(crate) connected: Option<bool>,
    pub(crate) lag_ms: Option<u64>,
    pub(crate) read: Option<u64>,
    pub(crate) halted: Option<String>,
    #[serde(alias = "fault")]
    pub(crate) log_fault: Option<String>,
    pub(crate) lead_fault: Option<String>,
    pub(crate) last_refused: Option<RefusedReport>,
    pub(crate) clock_ahead_ms: Option<i64>,
    pub(crate) seeds: Vec<String>,
    pub(crate) log: Option<LogReport>,
    /// Why the service tells nothing.
    pub(crate) error: Option<String>,
}

/// The last entry of a node that the log has refused.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RefusedReport {
    pub(crate) why: String,
    pub(crate) ago_ms: u64,
}

/// What a node tells of the log.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LogReport {
    pub(crate) leader: Option<String>,
    pub(crate) behind: Vec<String>,
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) bytes_left: u64,
}

/// Asks services at one time, in the given way.
pub(crate) fn ask<S: Sync>(services: &[S], one: impl Fn(&S) -> NodeRow + Sync) -> Vec<NodeRow> {
    thread::scope(|scope| {
        let asked: Vec<_> = services.iter().map(|service| scope.spawn(|| one(service))).collect();
        asked.into_iter().map(|node| node.join().expect("it does not panic")).collect()
    })
}

/// Asks services with the token that copies of them send. Blocks for two seconds at most.
pub(crate) fn ask_peers(peers: &Peers, urls: &[String]) -> Vec<NodeRow> {
    ask(urls, |url| match peers.open(url, ANSWERS) {
        Ok(peer) => {
            NodeRow::ask(url.clone(), |path| peer.json(path).map_err(|error| error.to_string()))
        }
        Err(error) => NodeRow::new(url.clone(), Err(error.to_string())),
    })
}

impl NodeRow {
    /// Asks a service by `get`, which gets a path as JSON once.
    pub(crate) fn ask(server: String, get: impl Fn(&str) -> Result<Value, String>) -> Self {
        let node = Self::new(server, get("/v1/stats"));
        if !node.should_take_writes() {
            return node;
        }
        Self { writes_fault: get("/readyz/writes").err(), ..node }
    }

    /// What its `/v1/stats` tells, or why it tells nothing.
    pub(crate) fn new(server: String, told: Result<Value, String>) -> Self {
        let (mut stats, error) = match told {
            Ok(stats) => (stats, None),
            Err(error) => (Value::Null, Some(error)),
        };
        let mut part = |name: &str| stats.get_mut(name).map(Value::take);
        let (role, report) = match (part("cluster"), part("following")) {
            _ if error.is_some() => (None, None),
            (Some(cluster), _) => (Some("node"), Some(cluster)),
            (None, Some(following)) => (Some("follower"), Some(following)),
            (None, None) => (Some("alone"), None),
        };
        let state = match &report {
            _ if error.is_some() => "no_answer",
            None => "alone",
            Some(report) => report["state"].as_str().unwrap_or("unknown"),
        };
        let state = state.to_owned();
        let report = report.and_then(|report| serde_json::from_value(report).ok());
        let left = |part: &Value, has: &str, of: &str| {
            Some(part[of].as_u64().filter(|max| *max > 0)?.saturating_sub(part[has].as_u64()?))
        };
        let disk = &stats["disk"];
        Self {
            server,
            role,
            state,
            report: NodeReport { error, ..report.unwrap_or_default() },
            sequence: stats["sequence"].as_u64(),
            documents: stats["documents"].as_u64(),
            version: stats["version"].as_str().map(str::to_owned),
            disk_left_bytes: left(disk, "needed_bytes", "free_bytes"),
            writes_fault: None,
            memory_left_bytes: left(&stats["memory"], "total_bytes", "max_bytes"),
        }
    }

    /// Whether it is a fault if it takes no writes: a follower need not, and who knows no leader
    /// tells that by itself.
    pub(crate) fn should_take_writes(&self) -> bool {
        let knows_leader = self.report.leader.is_some() && self.report.halted.is_none();
        self.role == Some("alone") || (self.role == Some("node") && knows_leader)
    }

    /// What is wrong with it, for people.
    pub(crate) fn faults(&self) -> Vec<String> {
        let NodeReport { halted, log_fault, lead_fault, error, log, .. } = &self.report;
        let told = [halted, log_fault, error].into_iter().flatten().cloned();
        let what = if self.state == "leading" { "leads all the same" } else { "does not lead" };
        let lead = lead_fault.iter().map(|why| format!("{what}: {why}"));
        let writes = self.writes_fault.iter().map(|why| format!("takes no writes: {why}"));
        let clock = self.clock_off_ms().map(|ms| format!("clock {ms} ms ahead"));
        let behind = log.iter().flat_map(|log| &log.behind);
        let behind = behind.map(|server| format!("{server} of the log is behind"));
        told.chain(lead).chain(writes).chain(clock).chain(behind).collect()
    }

    /// What helps against the first of its faults, for people; `None` without a fault.
    pub(crate) fn next(&self) -> Option<&str> {
        let NodeReport { halted, log_fault, lead_fault, error, log, .. } = &self.report;
        let is_follower = self.role == Some("follower");
        if error.is_some() {
            return Some(
                "look whether it runs there (nearprint serve), and takes the token of \
                 cluster.token_file or follow.token_file, which needs the scope read",
            );
        }
        if let Some(halted) = halted {
            let told = halted.split_once("; next: ").map(|(_, next)| next);
            return told.or(Some(if is_follower {
                "restart it with the right primary, let it take its place if it has more (nearprint \
                 promote), or empty its directory and start it (docs/cluster.md, When something is \
                 wrong)"
            } else {
                "if the log has lost something, begin a new one at the node that has read furthest \
                 (nearprint cluster refound); otherwise empty its directory and start it \
                 (docs/cluster.md, Losing the log)"
            }));
        }
        if log_fault.is_some() {
            return Some(if is_follower {
                "look at its primary, and at its own disk and memory"
            } else {
                "look at the servers of the log (nats stream info), and at its own disk and memory"
            });
        }
        if self.clock_off_ms().is_some() {
            return Some("run an NTP client on its machine");
        }
        if lead_fault.is_some() || self.writes_fault.is_some() {
            return Some(
                "look at its log; if its disk or memory is full, make room (nearprint purge)",
            );
        }
        let is_behind = log.as_ref().is_some_and(|log| !log.behind.is_empty());
        is_behind.then_some("look at that server of the log (nats stream info)")
    }

    /// By how much its clock is ahead of the log's, if that is too much.
    fn clock_off_ms(&self) -> Option<i64> {
        self.report.clock_ahead_ms.filter(|ms| ms.unsigned_abs() >= CLOCK_OFF_MS)
    }

    /// A node that has halted or catches up may know of one that is gone.
    pub(crate) fn knows_a_leader(&self) -> bool {
        // Its own address is left from the time when it led.
        let is_led = self.report.leader.as_ref().is_some_and(|leader| *leader != self.server);
        let knows = self.state == "leading" || (self.state == "following" && is_led);
        self.role == Some("node") && knows
    }

    /// Whether it is this one, by either of its addresses.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        let address = address.trim_end_matches('/');
        self.server == address || self.report.address.as_deref() == Some(address)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(cluster: &Value) -> NodeRow {
        NodeRow::new("http://a".to_owned(), Ok(json!({"documents": 1, "cluster": cluster})))
    }

    fn follower(following: &Value) -> NodeRow {
        NodeRow::new("http://a".to_owned(), Ok(json!({"following": following})))
    }

    #[test]
    fn only_who_leads_or_is_led_knows_a_leader() {
        let knows = |state: &str, leader: Option<&str>| {
            node(&json!({"state": state, "leader": leader})).knows_a_leader()
        };
        assert!(knows("leading", None) && knows("following", Some("http://b")));
        assert!(!knows("following", None) && !knows("halted", Some("http://b")));
        assert!(!knows("catching_up", Some("http://b")));
        assert!(!knows("following", Some("http://a")), "itself");
        assert!(!NodeRow::new(String::new(), Err(String::new())).knows_a_leader());
        let of_primary = json!({"state": "following", "primary": "http://b"});
        assert!(!follower(&of_primary).knows_a_leader(), "it is in no cluster");
    }

    #[test]
    fn each_fault_is_told() {
        let faults = |cluster: &Value| node(cluster).faults();
        assert!(faults(&json!({"state": "leading", "clock_ahead_ms": -900})).is_empty());
        assert_eq!(faults(&json!({"clock_ahead_ms": -2_000})), ["clock -2000 ms ahead"]);
        assert_eq!(faults(&json!({"lead_fault": "full"})), ["does not lead: full"]);
        let leads = json!({"state": "leading", "lead_fault": "full"});
        assert_eq!(faults(&leads), ["leads all the same: full"]);
        let log = json!({"leader": "log-1", "behind": ["log-2"], "bytes_left": 7});
        assert_eq!(faults(&json!({"log": log})), ["log-2 of the log is behind"]);
        assert_eq!(NodeRow::new(String::new(), Err("gone".to_owned())).faults(), ["gone"]);
    }

    #[test]
    fn a_follower_is_one_and_not_alone() {
        let halted =
            follower(&json!({"primary": "http://b", "state": "halted", "connected": false,
            "lag_ms": 7, "halted": "another history", "fault": "away"}));
        assert_eq!((halted.role, halted.state.as_str()), (Some("follower"), "halted"));
        assert_eq!(halted.report.leader.as_deref(), Some("http://b"));
        assert_eq!((halted.report.connected, halted.report.lag_ms), (Some(false), Some(7)));
        assert_eq!(halted.faults(), ["another history", "away"]);
        let alone = NodeRow::new(String::new(), Ok(json!({"documents": 1})));
        assert_eq!((alone.role, alone.state.as_str()), (Some("alone"), "alone"));
    }

    #[test]
    fn whatever_has_a_fault_has_something_that_helps() {
        let rows = [
            NodeRow::new(String::new(), Err("gone".to_owned())),
            node(&json!({"state": "halted", "halted": "the log has a gap"})),
            node(&json!({"log_fault": "away"})),
            node(&json!({"lead_fault": "full"})),
            node(&json!({"clock_ahead_ms": 2_000})),
            node(&json!({"log": {"behind": ["log-2"]}})),
            NodeRow { writes_fault: Some("full".to_owned()), ..node(&json!({})) },
            follower(&json!({"halted": "another history"})),
            follower(&json!({"fault": "away"})),
        ];
        for row in rows {
            assert!(!row.faults().is_empty() && row.next().is_some(), "{row:?}");
        }
        let well = node(&json!({"state": "leading", "clock_ahead_ms": 3, "log": {"behind": []}}));
        assert_eq!((well.faults().len(), well.next()), (0, None));
        let told = "the log was begun anew; next: begin it anew at this node";
        assert_eq!(node(&json!({"halted": told})).next(), Some("begin it anew at this node"));
    }

    #[test]
    fn only_who_should_take_writes_is_asked_whether_it_does() {
        let asked = |stats: Value| {
            let row = NodeRow::ask(String::new(), |path| match path {
                "/v1/stats" => Ok(stats.clone()),
                _ => Err("full".to_owned()),
            });
            row.writes_fault.is_some()
        };
        assert!(asked(json!({})));
        assert!(asked(json!({"cluster": {"state": "following", "leader": "http://b"}})));
        assert!(!asked(json!({"cluster": {"state": "following", "leader": null}})));
        let halted = json!({"state": "halted", "leader": "http://b", "halted": "a gap"});
        assert!(!asked(json!({"cluster": halted})));
        assert!(!asked(json!({"following": {"state": "following", "primary": "http://b"}})));
    }
}
