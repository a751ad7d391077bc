//! The metrics of the process, in the text format of Prometheus.
//!
//! The other modules pass plain numbers in, the engine through its [`Observer`]. [`install`] makes
//! the handles, so that recording is an atomic addition without a look-up or an allocation. Before
//! `install` (library use, unit tests) recording does nothing. Names end in their unit. The label
//! sets are fixed: routes, methods, status classes, distances 0 to 12, outcomes. What most services
//! never record has no series until it happens. `docs/operations.md` explains each metric.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use nearprint_engine::Observer;

/// The largest distance of a look-up; larger ones would be counted under it.
const DISTANCE_MAX: usize = 12;

/// The upper bounds of the latency buckets, in seconds: 100 us to 10 s.
const LATENCY_SECONDS: [f64; 12] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 10.0];

/// The upper bounds of the buckets of long work (snapshots, merges), in seconds.
const WORK_SECONDS: [f64; 10] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The upper bounds of the buckets of changes that share one sync.
const GROUP_CHANGES: [f64; 8] = [1.0, 2.0, 8.0, 32.0, 128.0, 1024.0, 8192.0, 65536.0];

const REQUESTS: &str = "nearprint_requests_total";
const REQUEST_SECONDS: &str = "nearprint_request_seconds";
const HITS: &str = "nearprint_hits_total";
const OUTCOMES: &str = "nearprint_write_outcomes_total";
const FORWARDED: &str = "nearprint_forwarded_requests_total";
const CLOCK_SET: &str = "nearprint_clock_set_total";

struct Installed {
    page: PrometheusHandle,
    hits: [Counter; DISTANCE_MAX + 1],
    outcomes: [Counter; 6],
    journal_sync: Histogram,
    /// Of a node of a cluster.
    append: OnceLock<Histogram>,
    /// Answered, failed; of a copy of others.
    forwarded: OnceLock<[Counter; 2]>,
    group_changes: Histogram,
    changes: Counter,
    snapshot: Histogram,
    merge: Histogram,
    merged_documents: Counter,
    held_up: Histogram,
    connections: Gauge,
    turned_away: Counter,
    log_lines_lost: Counter,
    reclaimed: Counter,
    list_items: Counter,
    list_passes: Counter,
    exports_displaced: Counter,
    /// Forward, back.
    clock_set: [Counter; 2],
}

static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();

fn installed() -> Option<&'static Installed> {
    INSTALLED.get().and_then(Option::as_ref)
}

/// Records something, after [`install`].
fn record(record: impl FnOnce(&Installed)) {
    installed().map(record).unwrap_or_default();
}

/// Starts recording for the whole process. A second call changes nothing.
pub fn install() {
    INSTALLED.get_or_init(|| {
        let buckets = [
            ("nearprint_journal_group_changes", &GROUP_CHANGES[..]),
            ("nearprint_snapshot_seconds", &WORK_SECONDS),
            ("nearprint_merge_seconds", &WORK_SECONDS),
        ];
        let builder = PrometheusBuilder::new().set_buckets(&LATENCY_SECONDS);
        let builder = buckets.into_iter().fold(builder, |builder, (name, bounds)| {
            builder?.set_buckets_for_metric(Matcher::Full(name.to_owned()), bounds)
        });
        let recorder = builder.expect("the buckets are not empty");
        // Another recorder of the process (an embedding program) keeps its place.
        Some(Installed::new(recorder.install_recorder().ok()?))
    });
}

/// Describes the metrics that have labels.
fn describe_labelled() {
    describe_counter!(REQUESTS, "Requests answered, by route, method and class of status.");
    describe_histogram!(
        REQUEST_SECONDS,
        "Time from the head of a request to the head of its reply, by route and method; batches to \
         their end."
    );
    describe_counter!(HITS, "Hits listed in replies, by Hamming distance.");
    describe_counter!(OUTCOMES, "Answered writes, by outcome.");
    describe_counter!(CLOCK_SET, "Times that the clock was set while the service ran.");
    describe_counter!(FORWARDED, "Requests passed on to the primary or the leader.");
}

impl Installed {
    /// Makes and describes every metric, except the gauges that [`set`] makes.
    fn new(page: PrometheusHandle) -> Self {
        describe_labelled();
        set_build_info();
        let group_changes = "nearprint_journal_group_changes";
        describe_histogram!(group_changes, "Changes that shared one commit.");
        Self::of(page, group_changes)
    }

    fn of(page: PrometheusHandle, group_changes: &'static str) -> Self {
        Self {
            page,
            hits: std::array::from_fn(|bits| counter!(HITS, "distance" => bits.to_string())),
            outcomes: WriteOutcome::ALL.map(|kind| counter!(OUTCOMES, "outcome" => kind.label())),
            journal_sync: seconds(
                "nearprint_journal_sync_seconds",
                "Time of one sync of the journal.",
            ),
            append: OnceLock::new(),
            forwarded: OnceLock::new(),
            group_changes: histogram!(group_changes),
            changes: count("nearprint_changes_total", "Changes committed to the journal."),
            snapshot: seconds("nearprint_snapshot_seconds", "Time taken to write one snapshot."),
            merge: seconds("nearprint_merge_seconds", "Time of one merge of index segments."),
            merged_documents: count(
                "nearprint_merged_documents_total",
                "Documents in segments written by merges.",
            ),
            held_up: seconds(
                "nearprint_writes_held_up_seconds",
                "Times for which a new index segment was delayed so that merges keep up with writes.",
            ),
            connections: gauge("nearprint_connections", "Open connections."),
            turned_away: count(
                "nearprint_connections_turned_away_total",
                "Connections refused because the service already had server.connections_max of them.",
            ),
            log_lines_lost: count(
                "nearprint_log_lines_lost_total",
                "Log lines dropped because their reader was too slow.",
            ),
            clock_set: ["forward", "back"].map(|way| counter!(CLOCK_SET, "direction" => way)),
            reclaimed: count(
                "nearprint_reclaimed_bytes_total",
                "Bytes of journal files freed since the start.",
            ),
            list_items: count(
                "nearprint_list_items_total",
                "Documents and namespaces that lists have looked at.",
            ),
            list_passes: count(
                "nearprint_list_passes_total",
                "Passes over the index that lists have taken.",
            ),
            exports_displaced: count(
                "nearprint_exports_displaced_total",
                "Exports and streams that nobody read and that ended for new ones.",
            ),
        }
    }

    fn append(&self) -> &Histogram {
        self.append.get_or_init(|| {
            seconds(
                "nearprint_cluster_append_seconds",
                "Time until the log acknowledged an entry of this node.",
            )
        })
    }

    fn forwarded(&self) -> &[Counter; 2] {
        let outcome = |how| counter!(FORWARDED, "outcome" => how);
        self.forwarded.get_or_init(|| ["answered", "failed"].map(outcome))
    }
}

/// The commit is what the variable `NEARPRINT_COMMIT` had when the program was built.
fn set_build_info() {
    let name = "nearprint_build_info";
    describe_gauge!(name, "1; the labels say which build this is.");
    let commit = option_env!("NEARPRINT_COMMIT").unwrap_or("unknown");
    gauge!(name, "version" => env!("CARGO_PKG_VERSION"), "commit" => commit).set(1.0);
}

fn count(name: &'static str, help: &'static str) -> Counter {
    describe_counter!(name, help);
    counter!(name)
}

fn seconds(name: &'static str, help: &'static str) -> Histogram {
    describe_histogram!(name, help);
    histogram!(name)
}

fn gauge(name: &'static str, help: &'static str) -> Gauge {
    describe_gauge!(name, help);
    gauge!(name)
}

/// What a write did, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Stored as new.
    Inserted,
    /// A near-duplicate.
    Duplicate,
    /// A retry.
    AlreadyPresent,
    /// Renewed the document with its id and its fingerprint.
    Refreshed,
    /// Took the place of an older document with its id.
    Replaced,
    Removed,
}

impl WriteOutcome {
    const ALL: [Self; 6] = [
        Self::Inserted,
        Self::Duplicate,
        Self::AlreadyPresent,
        Self::Refreshed,
        Self::Replaced,
        Self::Removed,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Duplicate => "duplicate",
            Self::AlreadyPresent => "already_present",
            Self::Refreshed => "refreshed",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
        }
    }
}

pub fn set(name: &'static str, help: &'static str, number: f64) {
    gauge(name, help).set(number);
}

/// Sets a count that is kept elsewhere.
pub fn set_count(name: &'static str, help: &'static str, number: u64) {
    count(name, help).absolute(number);
}

pub fn set_index_memory(part: &'static str, bytes: u64) {
    let name = "nearprint_index_memory_bytes";
    describe_gauge!(name, "Memory of the index, by part.");
    gauge!(name, "part" => part).set(float(bytes));
}

/// The page of metrics. `reclaimed_bytes` is counted by the engine.
pub fn render(reclaimed_bytes: u64) -> String {
    let Some(installed) = installed() else {
        return String::new();
    };
    installed.reclaimed.absolute(reclaimed_bytes);
    installed.page.render()
}

/// A count as a number of Prometheus.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has floating-point numbers alone")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// Adds recorded samples to their buckets. Must be called every few seconds, because the memory of
/// samples grows until then.
pub fn upkeep() {
    record(|installed| installed.page.run_upkeep());
}

/// The classes of a status, and which of them every route can give.
const CLASSES: [(&str, bool); 4] = [("2xx", true), ("3xx", false), ("4xx", true), ("5xx", true)];

/// The methods that are told apart, the most frequent first.
const METHODS: [&str; 6] = ["POST", "GET", "HEAD", "DELETE", "OPTIONS", "other"];

/// The metrics of one route: made when the service starts for what its requests usually are, and
/// otherwise by the first such request.
pub struct Route(&'static str, [MethodMetrics; METHODS.len()]);

/// The metrics of one method of a route.
#[derive(Default)]
struct MethodMetrics {
    classes: [OnceLock<Counter>; CLASSES.len()],
    /// Many series, so only of what was asked for.
    seconds: OnceLock<Histogram>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Route").field(&self.0).finish_non_exhaustive()
    }
}

impl Route {
    /// The metrics of the route with this name, which has these methods.
    pub fn new<'a>(route: &'static str, methods: impl IntoIterator<Item = &'a str>) -> Self {
        let metrics = Self(route, std::array::from_fn(|_| MethodMetrics::default()));
        for method in methods.into_iter().map(place_of) {
            for class in (0..CLASSES.len()).filter(|&class| CLASSES[class].1) {
                metrics.count(method, class);
            }
        }
        metrics
    }

    pub fn answered(&self, method: &str, status: u16, took: Duration) {
        let method = place_of(method);
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        self.count(method, class).increment(1);
        let seconds = &self.1[method].seconds;
        let labels = [("route", self.0), ("method", METHODS[method])];
        seconds.get_or_init(|| histogram!(REQUEST_SECONDS, &labels)).record(took);
    }

    fn count(&self, method: usize, class: usize) -> &Counter {
        let labels = [("route", self.0), ("method", METHODS[method]), ("status", CLASSES[class].0)];
        self.1[method].classes[class].get_or_init(|| counter!(REQUESTS, &labels))
    }
}

/// The place of a method in [`METHODS`].
fn place_of(method: &str) -> usize {
    METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1)
}

/// Counts one hit of a reply.
pub fn hit(distance: u8) {
    record(|installed| installed.hits[usize::from(distance).min(DISTANCE_MAX)].increment(1));
}

/// Counts `count` answered writes with this outcome.
pub fn written(outcome: WriteOutcome, count: u64) {
    record(|installed| installed.outcomes[outcome as usize].increment(count));
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
#[must_use = "the connection is counted until this is dropped"]
pub struct ConnectionOpen(());

impl ConnectionOpen {
    pub fn new() -> Self {
        record(|installed| installed.connections.increment(1.0));
        Self(())
    }
}

impl Default for ConnectionOpen {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ConnectionOpen {
    fn drop(&mut self) {
        record(|installed| installed.connections.decrement(1.0));
    }
}

/// Counts a connection above the limit.
pub fn connection_turned_away() {
    record(|installed| installed.turned_away.increment(1));
}

/// Counts a request that was passed on.
pub fn forwarded(is_answered: bool) {
    record(|installed| installed.forwarded()[usize::from(!is_answered)].increment(1));
}

/// Shows what only a copy of others counts, from 0 on.
pub fn show_forwarded() {
    record(|installed| {
        installed.forwarded();
    });
}

/// Shows what only a node of a cluster counts, from 0 on.
pub fn show_append() {
    record(|installed| {
        installed.append();
    });
}

/// Counts an export or stream that nobody read and that has ended for a new one.
pub fn export_displaced() {
    record(|installed| installed.exports_displaced.increment(1));
}

/// Sets how many log lines were lost since the process started.
pub fn log_lines_lost(count: u64) {
    record(|installed| installed.log_lines_lost.absolute(count));
}

/// Records what an engine reports.
#[derive(Debug)]
pub struct EngineMetrics;

impl Observer for EngineMetrics {
    fn journal_synced(&self, took: Duration) {
        record(|installed| installed.journal_sync.record(took));
    }

    fn entry_appended(&self, took: Duration) {
        record(|installed| installed.append().record(took));
    }

    fn group_committed(&self, changes: u64) {
        record(|installed| {
            installed.group_changes.record(float(changes));
            installed.changes.increment(changes);
        });
    }

    fn snapshot_taken(&self, took: Duration) {
        record(|installed| installed.snapshot.record(took));
    }

    fn merge_finished(&self, took: Duration, documents: u64) {
        record(|installed| {
            installed.merge.record(took);
            installed.merged_documents.increment(documents);
        });
    }

    fn list_looked_at(&self, items: u64) {
        record(|installed| installed.list_items.increment(items));
    }

    fn list_passed(&self) {
        record(|installed| installed.list_passes.increment(1));
    }

    fn clock_set(&self, by_ms: i64) {
        record(|installed| installed.clock_set[usize::from(by_ms < 0)].increment(1));
    }

    fn writes_held_up(&self, time: Duration) {
        record(|installed| installed.held_up.record(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_rendered_with_help_and_its_unit() {
        install();
        install();
        let route = Route::new("/v1/query", ["GET", "POST"]);
        route.answered("POST", 404, Duration::from_micros(70));
        route.answered("PROPFIND", 405, Duration::from_micros(70));
        hit(2);
        hit(200);
        written(WriteOutcome::Replaced, 3);
        EngineMetrics.journal_synced(Duration::from_millis(2));
        EngineMetrics.group_committed(5);
        EngineMetrics.snapshot_taken(Duration::from_secs(2));
        EngineMetrics.merge_finished(Duration::from_secs(1), 1_000);
        EngineMetrics.writes_held_up(Duration::from_millis(100));
        EngineMetrics.list_looked_at(6);
        EngineMetrics.list_passed();
        export_displaced();
        EngineMetrics.clock_set(-7_200_000);
        drop(ConnectionOpen::new());
        connection_turned_away();
        log_lines_lost(4);
        upkeep();
        set("nearprint_ready", "1 when writes are accepted, else 0.", 1.0);
        set_index_memory("ids", 3);
        let page = render(7);
        for line in [
            "# HELP nearprint_requests_total Requests answered, by route, method and class of status.",
            "nearprint_requests_total{route=\"/v1/query\",method=\"POST\",status=\"4xx\"} 1",
            "nearprint_requests_total{route=\"/v1/query\",method=\"other\",status=\"4xx\"} 1",
            "nearprint_requests_total{route=\"/v1/query\",method=\"GET\",status=\"5xx\"} 0",
            "nearprint_request_seconds_bucket{route=\"/v1/query\",method=\"POST\",le=\"0.0001\"} 1",
            "nearprint_hits_total{distance=\"2\"} 1",
            "nearprint_hits_total{distance=\"12\"} 1",
            "nearprint_write_outcomes_total{outcome=\"replaced\"} 3",
            "nearprint_journal_sync_seconds_count 1",
            "nearprint_journal_group_changes_bucket{le=\"8\"} 1",
            "nearprint_changes_total 5",
            "nearprint_snapshot_seconds_bucket{le=\"5\"} 1",
            "nearprint_merged_documents_total 1000",
            "nearprint_writes_held_up_seconds_sum 0.1",
            "nearprint_clock_set_total{direction=\"forward\"} 0",
            "nearprint_clock_set_total{direction=\"back\"} 1",
            "nearprint_index_memory_bytes{part=\"ids\"} 3",
            "nearprint_connections 0",
            "nearprint_connections_turned_away_total 1",
            "nearprint_log_lines_lost_total 4",
            "nearprint_reclaimed_bytes_total 7",
            "nearprint_list_items_total 6",
            "nearprint_list_passes_total 1",
            "nearprint_exports_displaced_total 1",
            "nearprint_ready 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
        }
        for nothing in [
            "route=\"/v1/query\",method=\"DELETE\"",
            "route=\"/v1/query\",method=\"GET\",le",
            "status=\"3xx\"",
        ] {
            assert!(!page.contains(nothing), "{nothing}\nis in\n{page}");
        }
        check_conventions(&page);
    }

    /// What `promtool check metrics` asks for: a help text and a type for every metric, and the
    /// ending `_total` for counters and for nothing else.
    fn check_conventions(page: &str) {
        let types: Vec<(&str, &str)> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        assert!(!types.is_empty(), "{page}");
        let manual = include_str!("../docs/operations.md");
        for &(name, kind) in &types {
            let help = format!("# HELP {name} ");
            assert!(page.lines().any(|line| line.starts_with(&help)), "{name} has no help text");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            let is_explained =
                manual.contains(&format!("`{name}`")) || manual.contains(&format!("`{name}{{"));
            assert!(is_explained, "docs/operations.md does not explain {name}");
        }
        for line in page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let series = line.split(['{', ' ']).next().unwrap();
            let is_typed = types.iter().any(|(name, kind)| match *kind {
                "histogram" => series
                    .strip_prefix(name)
                    .is_some_and(|part| ["_bucket", "_sum", "_count"].contains(&part)),
                _ => series == *name,
            });
            assert!(is_typed, "{series} has no type");
        }
    }
}
