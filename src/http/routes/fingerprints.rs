//! `/v1/fingerprints/{hex}`: removes a fingerprint with all its documents.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;

use crate::fingerprint::Fingerprint;
use crate::http::description::Problems;
use crate::http::problem::Problem;
use crate::http::reply::wire::RemovedReply;
use crate::http::request::parameters::NoParameters;
use crate::http::request::reach::Reach;
use crate::http::service::Service;
use crate::metrics;

/// Remove a fingerprint with all its documents.
///
/// Succeeds with `"removed": 0` if there is none, so that it may be retried.
#[utoipa::path(delete, path = "/v1/fingerprints/{hex}", tag = "documents",
    params(("hex" = String, Path, description = "16 hex digits, with or without 0x")),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply),
        Problems))]
pub(crate) async fn delete_fingerprint(
    State(service): State<Arc<Service>>,
    reach: Reach,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<RemovedReply>, Problem> {
    let hex = uri.path().rsplit('/').next().unwrap_or_default();
    let fingerprint: Fingerprint = hex.parse().map_err(|_| {
        Problem::invalid("hex", "A fingerprint has 16 hex digits, with or without 0x.")
    })?;
    reach.check(None)?;
    let removed = service.engine.remove_fingerprint(fingerprint).await?;
    metrics::written(metrics::WriteOutcome::Removed, removed.documents);
    Ok(Json(removed.into()))
}
