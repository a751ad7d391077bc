//! `/healthz`, `/readyz` and `/readyz/writes`: probes for supervisors and load balancers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use nearprint_engine::cluster::member::{NodeState, NodeStatus};
use nearprint_engine::{Readiness, Refused};
use nearprint_service::AllowedNamespaces;
use nearprint_wire::answer::HealthReply;

use crate::follow::{FollowState, Following};
use crate::http::problem::{Code, Problem};
use crate::http::request::caller::CalledBy;
use crate::http::role::{self, Decider, FollowerRole, Role};
use crate::http::service::HttpService;

/// A leader that was not heard for so long may be gone: it sends something every second.
const LEADER_SILENT_MS: u64 = 5_000;

/// The process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process is alive", body = HealthReply)))]
pub(crate) async fn get_healthz() -> Json<HealthReply> {
    Json(HealthReply { status: "alive", lag_ms: None })
}

/// The service is recovered and accepts writes, or is a follower or a node that is fit for
/// look-ups; 503 with the reason otherwise.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = HealthReply,
        description = "The service accepts writes, or is a follower or a node fit for look-ups")))]
pub(crate) async fn get_readyz(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
) -> Result<Json<HealthReply>, Problem> {
    match (&http.role, http.node()) {
        (Role::Follower(FollowerRole { following, .. }), _) => {
            runs(&http)?;
            follower(following, &caller.namespaces)
        }
        (_, Some((_, status))) => {
            runs(&http)?;
            node(&status, &caller.namespaces)
        }
        (Role::Alone | Role::Node(_), None) => accepts_writes(&http, &caller.namespaces),
    }
}

/// The service takes writes, itself or by passing them on; 503 with the reason otherwise.
#[utoipa::path(get, path = "/readyz/writes", tag = "operations",
    responses((status = 200, body = HealthReply,
        description = "The service takes writes, itself or by passing them on")))]
pub(crate) async fn get_readyz_writes(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
) -> Result<Json<HealthReply>, Problem> {
    match http.decider() {
        Decider::Here => accepts_writes(&http, &caller.namespaces),
        Decider::Nobody(problem) => Err(problem),
        Decider::There(..) => {
            runs(&http)?;
            match (&http.role, http.node()) {
                (Role::Follower(FollowerRole { following, .. }), _) => {
                    passes_on_to_primary(following, &caller.namespaces)
                }
                (_, Some((_, status))) => passes_on_to_leader(&status, &caller.namespaces),
                (Role::Alone | Role::Node(_), None) => Err(role::no_leader()),
            }
        }
    }
}

/// A probe looks at the status alone: not ready is 503, whatever the status of a write would be.
fn accepts_writes(
    http: &HttpService,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    http.service.accepts_writes(reach).map_err(|why| Problem::from(why).unavailable())?;
    let node = http.node();
    let status = node.map_or("ready", |(_, status)| role::state_name(&status.state));
    Ok(Json(HealthReply { status, lag_ms: None }))
}

/// Whether look-ups are answered. They are while the disk or the memory is full.
fn runs(http: &HttpService) -> Result<(), Problem> {
    match http.service.engine().readiness() {
        Readiness::Stopping => Err(Refused::Stopping.into()),
        Readiness::Failed => Err(Refused::Failed.into()),
        Readiness::Ready
        | Readiness::DiskFull
        | Readiness::MemoryFull
        | Readiness::DirectoryUnusable => Ok(()),
    }
}

/// How far a copy is behind. It tells how much others write.
fn lag(reach: &AllowedNamespaces, lag_ms: u64) -> Option<u64> {
    (!reach.is_limited()).then_some(lag_ms)
}

/// Why a copy has halted, as far as the request may know it.
fn halted(code: Code, why: &str, reach: &AllowedNamespaces) -> Problem {
    let why = if reach.is_limited() { "the log says why" } else { why };
    Problem::new(code, format!("{why}. Look-ups continue on this copy."))
}

/// A follower is ready for look-ups once it has had everything, until it follows no longer.
fn follower(
    following: &Following,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    match following.state() {
        FollowState::Following => {
            let lag_ms = lag(reach, following.lag_ms());
            Ok(Json(HealthReply { status: "following", lag_ms }))
        }
        FollowState::CatchingUp => {
            let detail = "This follower has not caught up with its primary since it was started.";
            Err(Problem::new(Code::Behind, detail))
        }
        FollowState::Halted(why) => Err(halted(Code::FollowerHalted, &why, reach)),
    }
}

fn passes_on_to_primary(
    following: &Following,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    if following.is_connected() {
        let lag_ms = lag(reach, following.lag_ms());
        return Ok(Json(HealthReply { status: "following", lag_ms }));
    }
    let detail = format!("This service follows {}, which does not answer.", following.primary());
    Err(Problem::new(Code::PrimaryUnreachable, detail))
}

/// A node is ready for look-ups once it has caught up with the log, until it halts.
fn node(status: &NodeStatus, reach: &AllowedNamespaces) -> Result<Json<HealthReply>, Problem> {
    match &status.state {
        NodeState::Following | NodeState::Leading => {
            let lag_ms = lag(reach, status.lag_ms);
            Ok(Json(HealthReply { status: role::state_name(&status.state), lag_ms }))
        }
        NodeState::CatchingUp => {
            let detail = "This node has not caught up with the cluster's log since it was started.";
            Err(Problem::new(Code::Behind, detail))
        }
        NodeState::Halted(why) => Err(halted(Code::NodeHalted, why, reach)),
    }
}

/// Who leads is known for sure at the end of the log only.
fn passes_on_to_leader(
    status: &NodeStatus,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    let ready = node(status, reach)?;
    if status.heard_ms < LEADER_SILENT_MS {
        return Ok(ready);
    }
    let detail = format!("The leader was not heard for {} ms.", status.heard_ms);
    Err(Problem::new(Code::NoLeader, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: NodeState, heard_ms: u64) -> NodeStatus {
        NodeStatus {
            state,
            leader: Some("http://10.0.0.2:7878".into()),
            heard_ms,
            lag_ms: 3,
            read: 7,
            ignored: 0,
            log_fault: None,
        }
    }

    /// The status of a node, or the code of its error.
    fn shown(reply: Result<Json<HealthReply>, Problem>) -> &'static str {
        reply.map_or_else(|problem| problem.logged().code, |Json(reply)| reply.status)
    }

    #[test]
    fn a_node_is_ready_for_lookups_at_the_end_of_the_log_until_it_halts() {
        let reach = AllowedNamespaces::ALL;
        let ready = |state, heard_ms| shown(node(&status(state, heard_ms), &reach));
        let halted = NodeState::Halted("the log is another".to_owned());
        for heard_ms in [0, 60_000] {
            assert_eq!(ready(NodeState::Following, heard_ms), "following");
            assert_eq!(ready(NodeState::Leading, heard_ms), "leading");
            assert_eq!(ready(NodeState::CatchingUp, heard_ms), "behind");
            assert_eq!(ready(halted.clone(), heard_ms), "node_halted");
        }
        let problem = node(&status(halted, 0), &reach).unwrap_err();
        assert!(problem.body().detail.starts_with("the log is another. "), "{problem:?}");
    }

    #[test]
    fn writes_are_passed_on_while_the_leader_is_heard() {
        let reach = AllowedNamespaces::ALL;
        let ready = |state, heard_ms| shown(passes_on_to_leader(&status(state, heard_ms), &reach));
        assert_eq!(ready(NodeState::Following, LEADER_SILENT_MS - 1), "following");
        assert_eq!(ready(NodeState::Following, LEADER_SILENT_MS), "no_leader");
        assert_eq!(ready(NodeState::CatchingUp, 0), "behind");
    }
}
