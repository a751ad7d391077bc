//! `/metrics`: the metrics of the process, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use nearprint_engine::replica::{LeadCounts, NodeState, NodeStatus};
use nearprint_engine::{DiskStats, MemoryStats, Readiness, Stats};

use crate::http::options::HttpOptions;
use crate::http::role::Copies;
use crate::http::routes::stats;
use crate::http::service::HttpService;
use crate::metrics::{self, float};
use crate::process;

/// The metrics, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "The metrics", body = String,
        content_type = "text/plain")))]
pub(crate) async fn get_metrics(State(http): State<Arc<HttpService>>) -> impl IntoResponse {
    let stats = http.service.engine().stats();
    set_gauges(&http, &stats);
    if let Some((replica, status)) = http.replica() {
        set_replica_metrics(&status);
        if matches!(replica.copies, Copies::Cluster { .. }) {
            set_cluster_metrics(&status);
        }
    }
    let page = metrics::render(stats.space.reclaimed_bytes) + &process::metrics();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
}

fn set_index_memory(memory: &MemoryStats) {
    for (part, bytes) in [
        ("tables", memory.tables),
        ("documents", memory.documents),
        ("ids", memory.ids),
        ("labels", memory.labels),
        ("removals", memory.removals),
        ("namespaces", memory.namespaces),
        ("deltas", memory.deltas),
    ] {
        metrics::set_index_memory(part, bytes);
    }
}

/// Sets the gauges, which are read now.
fn set_gauges(http: &HttpService, stats: &Stats) {
    set_index_memory(&stats.memory);
    let set = |name, number, help| metrics::set(name, help, float(number));
    set("nearprint_documents", stats.documents, "Stored documents.");
    set(
        "nearprint_namespaces",
        stats.namespaces,
        "Namespaces with documents, other than the default one.",
    );
    let running = http.service.engine().jobs().iter().filter(|job| !job.has_ended()).count();
    set("nearprint_jobs_running", running as u64, "Jobs that run or wait.");
    set(
        "nearprint_index_file_bytes",
        stats.index_file_bytes,
        "Bytes of the index that are in files and not in memory.",
    );
    set(
        "nearprint_merging_memory_bytes",
        stats.memory.merging,
        "Memory reserved for merges of the index.",
    );
    set(
        "nearprint_exports_running",
        http.exports.taken() as u64,
        "Exports and streams of documents that run.",
    );
    let (bodies, replies) =
        (http.bodies.bytes_in_memory(), http.service.replies().bytes_in_memory());
    set("nearprint_bodies_memory_bytes", bodies as u64, "Memory of bodies of requests.");
    set(
        "nearprint_replies_memory_bytes",
        replies as u64,
        "Memory of replies that wait for their clients.",
    );
    set_memory_limits(&http.options);
    let in_flight = http.in_flight.taken() as u64;
    set("nearprint_requests_in_flight", in_flight, "Requests being worked on.");
    set("nearprint_journal_bytes", stats.journal_bytes, "Size of all journal files.");
    set(
        "nearprint_journal_live_bytes",
        stats.space.live_bytes,
        "Records of stored documents in the journal files, at least.",
    );
    set_disk(&stats.disk);
    let is_ready = http.service.engine().readiness() == Readiness::Ready;
    set("nearprint_ready", is_ready.into(), "1 when writes are accepted, else 0.");
    metrics::set(
        "nearprint_clock_behind_seconds",
        "By how much the newest change is later than the clock says.",
        float(stats.clock_behind_ms) / 1_000.0,
    );
    metrics::set(
        "nearprint_snapshot_age_seconds",
        "Age of the newest snapshot; NaN before the first one.",
        stats::age_ms(stats.last_snapshot.as_ref()).map_or(f64::NAN, |ms| float(ms) / 1_000.0),
    );
}

/// Sets the limits of memory. Without one there is nothing that a share of it could be compared
/// with, so there is no series.
fn set_memory_limits(options: &HttpOptions) {
    for (name, bytes, help) in [
        (
            "nearprint_memory_max_bytes",
            options.memory_bytes_max,
            "The limit of index, merges, bodies and replies together, if there is one.",
        ),
        (
            "nearprint_index_memory_max_bytes",
            options.index_memory_bytes_max,
            "What index and merges may take of nearprint_memory_max_bytes, if there is a limit.",
        ),
    ] {
        if bytes > 0 {
            metrics::set(name, help, float(bytes));
        }
    }
}

fn set_disk(disk: &DiskStats) {
    metrics::set(
        "nearprint_disk_free_bytes",
        "Free space of the disk of the data directory, for users other than root; NaN where the \
         operating system does not tell.",
        if disk.free_bytes == u64::MAX { f64::NAN } else { float(disk.free_bytes) },
    );
    metrics::set(
        "nearprint_disk_needed_bytes",
        "Free space below which writes that add documents are refused.",
        float(disk.needed_bytes),
    );
}

/// Sets the metrics of a copy of others.
fn set_replica_metrics(status: &NodeStatus) {
    metrics::show_forwarded();
    metrics::set(
        "nearprint_replica_lag_seconds",
        "How far this follower or node is behind its primary or the log; 0 while it has everything.",
        float(status.lag_ms) / 1_000.0,
    );
    flag(
        "nearprint_replica_connected",
        status.is_connected,
        "1 while this follower or node hears its primary or the log, else 0.",
    );
    flag(
        "nearprint_replica_halted",
        matches!(status.state, NodeState::Halted(_)),
        "1 when this follower or node has halted and needs an operator, else 0.",
    );
}

/// Sets the metrics of a node of a cluster.
fn set_cluster_metrics(status: &NodeStatus) {
    metrics::show_append();
    metrics::set(
        "nearprint_cluster_position",
        "The last entry of the log that this node has read.",
        float(status.read),
    );
    flag(
        "nearprint_cluster_leads",
        status.state == NodeState::Leading,
        "1 while this node leads the cluster, else 0.",
    );
    metrics::set_count(
        "nearprint_cluster_ignored_messages_total",
        "Entries of the log that did not count, since the start.",
        status.ignored,
    );
    set_lead_counts(status.counts);
    flag(
        "nearprint_cluster_fit_to_lead",
        status.lead_fault.is_none(),
        "1 while this node would lead, else 0: lead_fault in /v1/stats says why not.",
    );
    metrics::set(
        "nearprint_cluster_clock_ahead_seconds",
        "How far the clock is ahead of the log's; NaN while it is not known.",
        status.clock_ahead_ms.map_or(f64::NAN, |ms| {
            let seconds = float(ms.unsigned_abs()) / 1_000.0;
            if ms < 0 { -seconds } else { seconds }
        }),
    );
    let left = status.log.as_ref().map(|log| log.bytes_left(status.read));
    metrics::set(
        "nearprint_cluster_log_left_bytes",
        "Bytes that may be appended before this node has to be filled anew, if it reads nothing; NaN \
         while they are not known.",
        left.map_or(f64::NAN, float),
    );
}

/// Sets the metrics of what a node has sent to the log.
fn set_lead_counts(counts: LeadCounts) {
    let LeadCounts { takeovers, appended, changes, refused, unanswered } = counts;
    for (name, help, number) in [
        (
            "nearprint_cluster_takeovers_total",
            "How often this node has begun to lead, since the start.",
            takeovers,
        ),
        (
            "nearprint_cluster_appended_entries_total",
            "Entries that this node has appended to the log, repeated ones too, since the start.",
            appended,
        ),
        (
            "nearprint_cluster_appended_changes_total",
            "Changes in the entries that this node has appended, since the start.",
            changes,
        ),
        (
            "nearprint_cluster_refused_entries_total",
            "Entries that the log has refused, since the start.",
            refused,
        ),
        (
            "nearprint_cluster_unanswered_entries_total",
            "Entries that the log has not acknowledged in time, since the start.",
            unanswered,
        ),
    ] {
        metrics::set_count(name, help, number);
    }
}

fn flag(name: &'static str, is: bool, help: &'static str) {
    metrics::set(name, help, float(is.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_copy_are_rendered() {
        metrics::install();
        let state = NodeState::Halted("the log is another".to_owned());
        let status = NodeStatus {
            state,
            leader: None,
            is_connected: true,
            is_outdated: false,
            heard_ms: 0,
            lag_ms: 1_500,
            read: 7,
            ignored: 3,
            lead_fault: Some("its clock is off".to_owned()),
            clock_ahead_ms: Some(-1_500),
            counts: LeadCounts { takeovers: 2, refused: 5, ..LeadCounts::default() },
            ..NodeStatus::default()
        };
        set_replica_metrics(&status);
        set_cluster_metrics(&status);
        let page = metrics::render(0);
        for line in [
            "# TYPE nearprint_cluster_ignored_messages_total counter",
            "nearprint_replica_lag_seconds 1.5",
            "nearprint_replica_connected 1",
            "nearprint_cluster_position 7",
            "nearprint_cluster_leads 0",
            "nearprint_cluster_ignored_messages_total 3",
            "nearprint_replica_halted 1",
            "nearprint_cluster_takeovers_total 2",
            "nearprint_cluster_refused_entries_total 5",
            "nearprint_cluster_fit_to_lead 0",
            "nearprint_cluster_clock_ahead_seconds -1.5",
            "nearprint_cluster_log_left_bytes NaN",
            "nearprint_cluster_append_seconds_count 0",
            "nearprint_forwarded_requests_total{outcome=\"failed\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
        }
    }
}
