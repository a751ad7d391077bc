//! `/v1/snapshots`: taking one now, and the list of those on disk.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::openapi::Problems;
use super::problem::Problem;
use super::service::Service;
use super::wire::{SnapshotReply, SnapshotsReply};

/// Take a snapshot now.
///
/// Answered when it is on disk and verified. The body of the request is not read.
#[utoipa::path(post, path = "/v1/snapshots", tag = "operations",
    responses((status = 200, body = SnapshotReply), Problems))]
pub(super) async fn post_snapshot(
    State(service): State<Arc<Service>>,
) -> Result<Json<SnapshotReply>, Problem> {
    Ok(Json(service.engine.snapshot().await?.into()))
}

/// List the snapshots on disk.
#[utoipa::path(get, path = "/v1/snapshots", tag = "operations",
    responses((status = 200, body = SnapshotsReply), Problems))]
pub(super) async fn get_snapshots(State(service): State<Arc<Service>>) -> Json<SnapshotsReply> {
    let snapshots = service.engine.snapshots();
    Json(SnapshotsReply { snapshots: snapshots.into_iter().map(SnapshotReply::from).collect() })
}
