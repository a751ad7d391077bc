//! The metrics of the process, in the text format of Prometheus.
//!
//! Names nothing of the house: rooms hand in plain numbers. Handles are made once by [`install`],
//! so that recording is an atomic addition with no look-up and no allocation; before `install`
//! (library use, unit tests) recording does nothing. Names end in their unit, label sets are fixed:
//! routes, status classes, distances 0 to 64, outcomes. `docs/operations.md` explains each.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Distances above this one are counted under it: an index serves at most this distance.
const DISTANCE_MAX: usize = 8;

/// The upper bounds of the latency buckets, in seconds: 50 us to 10 s.
const LATENCY_SECONDS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 10.0,
];

/// The upper bounds of the buckets of long work (snapshots, merges), in seconds.
const WORK_SECONDS: [f64; 10] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The upper bounds of the buckets of changes that share one sync.
const GROUP_CHANGES: [f64; 8] = [1.0, 2.0, 8.0, 32.0, 128.0, 1024.0, 8192.0, 65536.0];

struct Installed {
    page: PrometheusHandle,
    hits: [Counter; DISTANCE_MAX + 1],
    outcomes: [Counter; 5],
    journal_sync: Histogram,
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
    state: StateGauges,
}

struct StateGauges {
    documents: Gauge,
    fingerprints: Gauge,
    memory: [Gauge; 5],
    merging: Gauge,
    bodies: Gauge,
    replies: Gauge,
    resident: Gauge,
    memory_max: Gauge,
    in_flight: Gauge,
    journal: Gauge,
    journal_live: Gauge,
    snapshot_age: Gauge,
    ready: Gauge,
}

static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();

fn installed() -> Option<&'static Installed> {
    INSTALLED.get().and_then(Option::as_ref)
}

/// Starts recording for the whole process. A second call changes nothing.
pub fn install() {
    INSTALLED.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(
                Matcher::Full("nearprint_journal_group_changes".to_owned()),
                &GROUP_CHANGES,
            )
            .and_then(|builder| {
                builder.set_buckets_for_metric(
                    Matcher::Full("nearprint_snapshot_seconds".to_owned()),
                    &WORK_SECONDS,
                )
            })
            .and_then(|builder| {
                builder.set_buckets_for_metric(
                    Matcher::Full("nearprint_merge_seconds".to_owned()),
                    &WORK_SECONDS,
                )
            })
            .and_then(|builder| builder.set_buckets(&LATENCY_SECONDS))
            .expect("the buckets are not empty");
        // Another recorder of the process (an embedding program) keeps its place.
        let page = recorder.install_recorder().ok()?;
        describe();
        Some(handles(page))
    });
}

fn handles(page: PrometheusHandle) -> Installed {
    let outcome = |outcome: WriteOutcome| counter!("nearprint_write_outcomes_total", "outcome" => outcome.label());
    let part = |part| gauge!("nearprint_index_memory_bytes", "part" => part);
    Installed {
        page,
        hits: std::array::from_fn(
            |distance| counter!("nearprint_hits_total", "distance" => distance.to_string()),
        ),
        outcomes: WriteOutcome::ALL.map(outcome),
        journal_sync: histogram!("nearprint_journal_sync_seconds"),
        group_changes: histogram!("nearprint_journal_group_changes"),
        changes: counter!("nearprint_changes_total"),
        snapshot: histogram!("nearprint_snapshot_seconds"),
        merge: histogram!("nearprint_merge_seconds"),
        merged_documents: counter!("nearprint_merged_documents_total"),
        held_up: histogram!("nearprint_writes_held_up_seconds"),
        connections: gauge!("nearprint_connections"),
        turned_away: counter!("nearprint_connections_turned_away_total"),
        log_lines_lost: counter!("nearprint_log_lines_lost_total"),
        reclaimed: counter!("nearprint_reclaimed_bytes_total"),
        state: StateGauges {
            documents: gauge!("nearprint_documents"),
            fingerprints: gauge!("nearprint_fingerprints"),
            memory: ["tables", "documents", "ids", "removals", "deltas"].map(part),
            merging: gauge!("nearprint_merging_memory_bytes"),
            bodies: gauge!("nearprint_bodies_memory_bytes"),
            replies: gauge!("nearprint_replies_memory_bytes"),
            resident: gauge!("nearprint_resident_memory_bytes"),
            memory_max: gauge!("nearprint_memory_max_bytes"),
            in_flight: gauge!("nearprint_requests_in_flight"),
            journal: gauge!("nearprint_journal_bytes"),
            journal_live: gauge!("nearprint_journal_live_bytes"),
            snapshot_age: gauge!("nearprint_snapshot_age_seconds"),
            ready: gauge!("nearprint_ready"),
        },
    }
}

fn describe() {
    describe_counter!(
        "nearprint_requests_total",
        "Requests answered, by route and class of status."
    );
    describe_histogram!(
        "nearprint_request_seconds",
        Unit::Seconds,
        "Time from the head of a request to the head of its reply, by route; batches to their end."
    );
    describe_counter!("nearprint_hits_total", "Hits listed in replies, by Hamming distance.");
    describe_counter!("nearprint_write_outcomes_total", "Answered writes, by outcome.");
    describe_histogram!(
        "nearprint_journal_sync_seconds",
        Unit::Seconds,
        "Time of one sync of the journal."
    );
    describe_histogram!("nearprint_journal_group_changes", "Changes that shared one commit.");
    describe_counter!("nearprint_changes_total", "Changes committed to the journal.");
    describe_histogram!(
        "nearprint_snapshot_seconds",
        Unit::Seconds,
        "Time taken to write one snapshot."
    );
    describe_histogram!(
        "nearprint_merge_seconds",
        Unit::Seconds,
        "Time of one merge of index segments."
    );
    describe_counter!(
        "nearprint_merged_documents_total",
        "Documents in segments written by merges."
    );
    describe_histogram!(
        "nearprint_writes_held_up_seconds",
        Unit::Seconds,
        "Times for which a new index segment was held up so that merges keep up with writes."
    );
    describe_gauge!("nearprint_documents", "Stored documents.");
    describe_gauge!(
        "nearprint_fingerprints",
        "Distinct stored fingerprints; while millions arrive, those counted so far."
    );
    describe_gauge!("nearprint_index_memory_bytes", Unit::Bytes, "Memory of the index, by part.");
    describe_gauge!(
        "nearprint_merging_memory_bytes",
        Unit::Bytes,
        "Memory set apart for merges of the index."
    );
    describe_gauge!("nearprint_bodies_memory_bytes", Unit::Bytes, "Memory of bodies of requests.");
    describe_gauge!(
        "nearprint_replies_memory_bytes",
        Unit::Bytes,
        "Memory of replies that wait for their clients."
    );
    describe_gauge!(
        "nearprint_resident_memory_bytes",
        Unit::Bytes,
        "Memory of the process, as the operating system counts it; NaN where it does not."
    );
    describe_gauge!(
        "nearprint_memory_max_bytes",
        Unit::Bytes,
        "The limit of index, merges, bodies and replies together; 0 without one."
    );
    describe_gauge!("nearprint_requests_in_flight", "Requests being worked on.");
    describe_outside();
    describe_disk();
    describe_gauge!("nearprint_ready", "1 when writes are accepted, else 0.");
}

fn describe_outside() {
    describe_gauge!("nearprint_connections", "Open connections.");
    describe_counter!(
        "nearprint_connections_turned_away_total",
        "Connections refused because the service already had server.connections_max of them."
    );
    describe_counter!(
        "nearprint_log_lines_lost_total",
        "Log lines dropped because their reader was too slow."
    );
}

fn describe_disk() {
    describe_gauge!("nearprint_journal_bytes", Unit::Bytes, "Size of all journal files.");
    describe_gauge!(
        "nearprint_journal_live_bytes",
        Unit::Bytes,
        "Records of stored documents in the journal files, at least."
    );
    describe_counter!(
        "nearprint_reclaimed_bytes_total",
        Unit::Bytes,
        "Bytes of journal files freed since the start."
    );
    describe_gauge!(
        "nearprint_snapshot_age_seconds",
        Unit::Seconds,
        "Age of the newest snapshot; NaN before the first one."
    );
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
    /// Took the place of an older document with its id.
    Replaced,
    /// Forgotten.
    Removed,
}

impl WriteOutcome {
    const ALL: [Self; 5] =
        [Self::Inserted, Self::Duplicate, Self::AlreadyPresent, Self::Replaced, Self::Removed];

    const fn label(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Duplicate => "duplicate",
            Self::AlreadyPresent => "already_present",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
        }
    }
}

/// The numbers of the engine that are gauges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// Stored documents.
    pub documents: u64,
    /// Distinct fingerprints.
    pub fingerprints: u64,
    /// Bytes of memory: tables, documents, ids, removals, deltas.
    pub memory_bytes: [u64; 5],
    /// Bytes set apart for merges.
    pub merging_bytes: u64,
    /// Bytes of bodies in memory.
    pub bodies_bytes: u64,
    /// Bytes of replies that wait for their clients.
    pub replies_bytes: u64,
    /// Bytes of the process.
    pub resident_bytes: Option<u64>,
    /// The limit of memory in bytes; 0 without one.
    pub memory_bytes_max: u64,
    /// Requests being worked on.
    pub requests_in_flight: u64,
    /// Bytes of all journal files.
    pub journal_bytes: u64,
    /// Bytes of the records of stored documents, at least.
    pub journal_live_bytes: u64,
    /// Space of old records given back since the start.
    pub reclaimed_bytes: u64,
    /// Age of the newest snapshot.
    pub snapshot_age: Option<Duration>,
    /// Whether writes are accepted.
    pub ready: bool,
}

/// The page of metrics, with the gauges set from `state`.
pub fn render(state: &State) -> String {
    let Some(installed) = installed() else {
        return String::new();
    };
    #[expect(clippy::cast_precision_loss, reason = "Prometheus speaks floats")]
    let set = |gauge: &Gauge, number: u64| gauge.set(number as f64);
    let gauges = &installed.state;
    set(&gauges.documents, state.documents);
    set(&gauges.fingerprints, state.fingerprints);
    set(&gauges.journal, state.journal_bytes);
    set(&gauges.merging, state.merging_bytes);
    set(&gauges.bodies, state.bodies_bytes);
    set(&gauges.replies, state.replies_bytes);
    set(&gauges.memory_max, state.memory_bytes_max);
    set(&gauges.in_flight, state.requests_in_flight);
    installed.reclaimed.absolute(state.reclaimed_bytes);
    set(&gauges.journal_live, state.journal_live_bytes);
    set(&gauges.ready, u64::from(state.ready));
    for (gauge, bytes) in gauges.memory.iter().zip(state.memory_bytes) {
        set(gauge, bytes);
    }
    match state.resident_bytes {
        Some(bytes) => set(&gauges.resident, bytes),
        None => gauges.resident.set(f64::NAN),
    }
    gauges.snapshot_age.set(state.snapshot_age.map_or(f64::NAN, |age| age.as_secs_f64()));
    installed.page.render()
}

/// Folds recorded samples into their buckets; to be called every few seconds, for the memory of
/// samples grows until then.
pub fn upkeep() {
    if let Some(installed) = installed() {
        installed.page.run_upkeep();
    }
}

/// The metrics of one route.
pub struct Route {
    classes: [Counter; 5],
    seconds: Histogram,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Route")
    }
}

impl Route {
    /// The metrics of the route with this name, made once.
    pub fn new(route: &'static str) -> Self {
        let class =
            |class| counter!("nearprint_requests_total", "route" => route, "status" => class);
        Self {
            classes: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(class),
            seconds: histogram!("nearprint_request_seconds", "route" => route),
        }
    }

    /// Counts one answered request.
    pub fn answered(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        if let Some(counter) = self.classes.get(class) {
            counter.increment(1);
        }
        self.seconds.record(took);
    }
}

/// Counts one hit of a reply.
pub fn hit(distance: u8) {
    if let Some(installed) = installed()
        && let Some(counter) = installed.hits.get(usize::from(distance).min(DISTANCE_MAX))
    {
        counter.increment(1);
    }
}

/// Counts `count` answered writes with this outcome.
pub fn written(outcome: WriteOutcome, count: u64) {
    if let Some(installed) = installed() {
        let [inserted, duplicate, already_present, replaced, removed] = &installed.outcomes;
        let counter = match outcome {
            WriteOutcome::Inserted => inserted,
            WriteOutcome::Duplicate => duplicate,
            WriteOutcome::AlreadyPresent => already_present,
            WriteOutcome::Replaced => replaced,
            WriteOutcome::Removed => removed,
        };
        counter.increment(count);
    }
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
#[must_use = "it is counted as long as it is held"]
pub struct ConnectionOpen(());

impl ConnectionOpen {
    /// A connection was opened.
    pub fn new() -> Self {
        if let Some(installed) = installed() {
            installed.connections.increment(1.0);
        }
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
        if let Some(installed) = installed() {
            installed.connections.decrement(1.0);
        }
    }
}

/// A connection was one too many.
pub fn connection_turned_away() {
    if let Some(installed) = installed() {
        installed.turned_away.increment(1);
    }
}

/// So many lines of the log were lost since the process started.
pub fn log_lines_lost(count: u64) {
    if let Some(installed) = installed() {
        installed.log_lines_lost.absolute(count);
    }
}

/// The journal was synced.
pub fn journal_synced(took: Duration) {
    if let Some(installed) = installed() {
        installed.journal_sync.record(took);
    }
}

/// A group of changes was committed.
pub fn group_committed(changes: u64) {
    if let Some(installed) = installed() {
        #[expect(clippy::cast_precision_loss, reason = "a group has far fewer than 2^53 changes")]
        installed.group_changes.record(changes as f64);
        installed.changes.increment(changes);
    }
}

/// A snapshot was written.
pub fn snapshot_taken(took: Duration) {
    if let Some(installed) = installed() {
        installed.snapshot.record(took);
    }
}

/// Segments were merged into one of `documents` documents.
pub fn merge_finished(took: Duration, documents: u64) {
    if let Some(installed) = installed() {
        installed.merge.record(took);
        installed.merged_documents.increment(documents);
    }
}

/// A new segment was held up, so that merges keep up with writes.
pub fn writes_held_up(time: Duration) {
    if let Some(installed) = installed() {
        installed.held_up.record(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_rendered_with_help_and_its_unit() {
        install();
        install();
        Route::new("/v1/query").answered(404, Duration::from_micros(70));
        hit(2);
        hit(200);
        written(WriteOutcome::Replaced, 3);
        journal_synced(Duration::from_millis(2));
        group_committed(5);
        snapshot_taken(Duration::from_secs(2));
        merge_finished(Duration::from_secs(1), 1_000);
        writes_held_up(Duration::from_millis(100));
        drop(ConnectionOpen::new());
        connection_turned_away();
        log_lines_lost(4);
        upkeep();
        let page = render(&State {
            documents: 12,
            fingerprints: 11,
            memory_bytes: [1, 2, 3, 4, 5],
            merging_bytes: 6,
            bodies_bytes: 7,
            replies_bytes: 8,
            resident_bytes: Some(8),
            memory_bytes_max: 9,
            requests_in_flight: 10,
            journal_bytes: 99,
            journal_live_bytes: 50,
            reclaimed_bytes: 7,
            snapshot_age: Some(Duration::from_millis(1_500)),
            ready: true,
        });
        for line in [
            "# HELP nearprint_requests_total Requests answered, by route and class of status.",
            "nearprint_requests_total{route=\"/v1/query\",status=\"4xx\"} 1",
            "nearprint_request_seconds_bucket{route=\"/v1/query\",le=\"0.0001\"} 1",
            "nearprint_hits_total{distance=\"2\"} 1",
            "nearprint_hits_total{distance=\"8\"} 1",
            "nearprint_write_outcomes_total{outcome=\"replaced\"} 3",
            "nearprint_journal_sync_seconds_count 1",
            "nearprint_journal_group_changes_bucket{le=\"8\"} 1",
            "nearprint_changes_total 5",
            "nearprint_snapshot_seconds_bucket{le=\"5\"} 1",
            "nearprint_merged_documents_total 1000",
            "nearprint_writes_held_up_seconds_sum 0.1",
            "nearprint_documents 12",
            "nearprint_fingerprints 11",
            "nearprint_index_memory_bytes{part=\"ids\"} 3",
            "nearprint_merging_memory_bytes 6",
            "nearprint_bodies_memory_bytes 7",
            "nearprint_replies_memory_bytes 8",
            "nearprint_resident_memory_bytes 8",
            "nearprint_memory_max_bytes 9",
            "nearprint_requests_in_flight 10",
            "nearprint_connections 0",
            "nearprint_connections_turned_away_total 1",
            "nearprint_log_lines_lost_total 4",
            "nearprint_journal_bytes 99",
            "nearprint_journal_live_bytes 50",
            "nearprint_reclaimed_bytes_total 7",
            "nearprint_snapshot_age_seconds 1.5",
            "nearprint_ready 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
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
