//! `/healthz` and `/readyz`: probes for supervisors and load balancers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::http::problem::Problem;
use crate::http::reply::wire::HealthReply;
use crate::http::request::reach::NamespaceAccess;
use crate::http::service::Service;

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process is alive", body = HealthReply)))]
pub(crate) async fn get_healthz() -> Json<HealthReply> {
    Json(HealthReply { status: "alive" })
}

/// The service is recovered and accepts writes; 503 with the reason otherwise.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "The service accepts writes", body = HealthReply)))]
pub(crate) async fn get_readyz(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
) -> Result<Json<HealthReply>, Problem> {
    // A probe looks at the status alone: not ready is 503, whatever the status of a write would be.
    service.accepts_writes(&reach).map_err(Problem::unavailable)?;
    Ok(Json(HealthReply { status: "ready" }))
}
