//! `/metrics`: the metrics of the process as Prometheus reads them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::engine::Readiness;
use crate::http::description::Problems;
use crate::http::problem::Problem;
use crate::http::routes::stats;
use crate::http::service::Service;
use crate::metrics;

/// The metrics, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "The metrics", body = String,
        content_type = "text/plain"), Problems))]
pub(crate) async fn get_metrics(
    State(service): State<Arc<Service>>,
) -> Result<impl IntoResponse, Problem> {
    let stats = service.stats().await?;
    let memory = stats.memory;
    let page = metrics::render(&metrics::State {
        documents: stats.documents,
        fingerprints: stats.fingerprints,
        memory_bytes: [memory.tables, memory.documents, memory.ids, memory.removals, memory.deltas],
        merging_bytes: memory.merging,
        bodies_bytes: service.bodies.held_bytes() as u64,
        replies_bytes: service.replies.held_bytes() as u64,
        resident_bytes: stats::resident_bytes(),
        memory_bytes_max: service.options.memory_bytes_max,
        requests_in_flight: service.in_flight.now() as u64,
        journal_bytes: stats.journal_bytes,
        journal_live_bytes: stats.space.live_bytes,
        reclaimed_bytes: stats.space.reclaimed_bytes,
        snapshot_age: stats::age_ms(stats.last_snapshot.as_ref()).map(Duration::from_millis),
        ready: service.engine.readiness() == Readiness::Ready,
    });
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page))
}
