//! `/healthz` and `/readyz`: probes for supervisors and load balancers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use nearprint_engine::{Readiness, Refused};

use crate::follow::{FollowState, Following};
use crate::http::problem::{Code, Problem};
use crate::http::reply::wire::HealthReply;
use crate::http::request::reach::NamespaceAccess;
use crate::http::service::Service;

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process is alive", body = HealthReply)))]
pub(crate) async fn get_healthz() -> Json<HealthReply> {
    Json(HealthReply { status: "alive", lag_ms: None })
}

/// The service is recovered and accepts writes, or is a follower that is fit for look-ups; 503 with
/// the reason otherwise.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = HealthReply,
        description = "The service accepts writes, or is a follower fit for look-ups")))]
pub(crate) async fn get_readyz(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
) -> Result<Json<HealthReply>, Problem> {
    if let Some(following) = &service.following {
        return follower(&service, following, &reach);
    }
    // A probe looks at the status alone: not ready is 503, whatever the status of a write would be.
    service.accepts_writes(&reach).map_err(Problem::unavailable)?;
    Ok(Json(HealthReply { status: "ready", lag_ms: None }))
}

/// A follower is ready for look-ups once it has had everything, until it follows no longer.
fn follower(
    service: &Service,
    following: &Following,
    reach: &NamespaceAccess,
) -> Result<Json<HealthReply>, Problem> {
    match service.engine.readiness() {
        Readiness::Stopping => return Err(Refused::Stopping.into()),
        Readiness::Failed => return Err(Refused::Failed.into()),
        Readiness::Ready
        | Readiness::DiskFull
        | Readiness::MemoryFull
        | Readiness::DirectoryUnusable => {}
    }
    // How far it is behind tells how much others write.
    let lag_ms = reach.is_unlimited().then(|| following.lag_ms());
    match following.state() {
        FollowState::Following => Ok(Json(HealthReply { status: "following", lag_ms })),
        FollowState::CatchingUp => {
            let detail = "This follower has not caught up with its primary since it was started.";
            Err(Problem::new(Code::Behind, detail))
        }
        FollowState::Halted(why) => {
            let why = if reach.is_unlimited() { why } else { "the log says why".to_owned() };
            let detail = format!("{why}. Look-ups continue on this copy.");
            Err(Problem::new(Code::FollowerHalted, detail))
        }
    }
}
