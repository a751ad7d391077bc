//! `/healthz`, `/readyz`, `/readyz/reads` and `/readyz/writes`: probes for supervisors and load
//! balancers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use nearprint_engine::replica::{NodeState, NodeStatus};
use nearprint_engine::{Readiness, Refused};
use nearprint_service::AllowedNamespaces;
use nearprint_wire::answer::HealthReply;
use nearprint_wire::fields;
use nearprint_wire::offer::FieldKind;

use crate::http::forward::FORWARDED;
use crate::http::problem::{Code, Problem};
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::schema::describe;
use crate::http::role::{self, Copies, Decider};
use crate::http::service::HttpService;

/// A leader or a primary that was not heard for so long may be gone: it sends something every
/// second.
const SILENT_MS: u64 = 5_000;

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
    match http.replica() {
        None => accepts_writes(&http, &caller.namespaces),
        Some((replica, status)) => {
            runs(&http)?;
            fit_for_lookups(&replica.copies, &status, &caller.namespaces)
        }
    }
}

fields! {
    /// What `/readyz/reads` takes in its query string.
    pub(crate) struct ReadinessParameters {
        /// How far a copy may be behind, in milliseconds; as far as it is without it.
        max_lag_ms: u64 [FieldKind::Whole(0, u64::MAX)],
    }
}

describe! { parameters ReadinessParameters }

/// The service answers look-ups, from what it has: also a copy that has halted or whose log is
/// away, as long as it is not further behind than `max_lag_ms`.
#[utoipa::path(get, path = "/readyz/reads", tag = "operations",
    params(ReadinessParameters),
    responses((status = 200, body = HealthReply,
        description = "The service answers look-ups, and is at most `max_lag_ms` behind")))]
pub(crate) async fn get_readyz_reads(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    RawQuery(query): RawQuery,
) -> Result<Json<HealthReply>, Problem> {
    let ReadinessParameters { max_lag_ms } = parameters::read(query.as_deref())?;
    runs(&http)?;
    match http.replica() {
        None => Ok(Json(HealthReply { status: "ready", lag_ms: None })),
        Some((_, status)) => answers_lookups(&status, max_lag_ms, &caller.namespaces),
    }
}

/// The service takes writes, itself or by passing them on; 503 with the reason otherwise. The
/// service that decides is asked, at most once a second.
#[utoipa::path(get, path = "/readyz/writes", tag = "operations",
    responses((status = 200, body = HealthReply,
        description = "The service takes writes, itself or by passing them on")))]
pub(crate) async fn get_readyz_writes(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    headers: HeaderMap,
) -> Result<Json<HealthReply>, Problem> {
    if headers.contains_key(FORWARDED)
        && let Decider::There(_, to) = http.decider()
    {
        return Err(to.again());
    }
    takes_writes(&http, &caller.namespaces).await
}

/// Whether the service takes writes, itself or by passing them on.
pub(crate) async fn takes_writes(
    http: &HttpService,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    match http.decider() {
        Decider::Here => accepts_writes(http, reach),
        Decider::Nobody(problem) => Err(problem),
        Decider::There(forwarder, to) => {
            runs(http)?;
            let Some((replica, status)) = http.replica() else { return Err(role::no_leader()) };
            let ready = passes_writes_on(&replica.copies, &status, reach)?;
            forwarder.probe(&to).await.map_err(|why| to.away(&why))?;
            Ok(ready)
        }
    }
}

/// A probe looks at the status alone: not ready is 503, whatever the status of a write would be.
fn accepts_writes(
    http: &HttpService,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    http.service.accepts_writes(reach).map_err(|why| Problem::from(why).unavailable())?;
    let replica = http.replica();
    let status = replica.map_or("ready", |(_, status)| role::state_name(&status.state));
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

/// A copy is ready for look-ups once it has caught up, until it halts.
fn fit_for_lookups(
    copies: &Copies,
    status: &NodeStatus,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    match (&status.state, copies) {
        (NodeState::Following | NodeState::Leading, _) => {
            let lag_ms = lag(reach, status.lag_ms);
            Ok(Json(HealthReply { status: role::state_name(&status.state), lag_ms }))
        }
        (NodeState::CatchingUp, Copies::Primary) => {
            let detail = "This follower has not caught up with its primary since it was started.";
            Err(Problem::new(Code::Behind, detail))
        }
        (NodeState::CatchingUp, Copies::Cluster { .. }) => {
            let detail = "This node has not caught up with the cluster's log since it was started.";
            Err(Problem::new(Code::Behind, detail))
        }
        (NodeState::Halted(why), _) => {
            let code = match copies {
                Copies::Primary => Code::FollowerHalted,
                Copies::Cluster { .. } => Code::NodeHalted,
            };
            let why = if reach.is_limited() { "the log says why" } else { why };
            Err(Problem::new(code, format!("{why}. Look-ups continue on this copy.")))
        }
    }
}

/// Whether a copy answers look-ups from something that is new enough. One that catches up is not,
/// unless there is nothing that it could read.
fn answers_lookups(
    status: &NodeStatus,
    max_lag_ms: Option<u64>,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    if status.state == NodeState::CatchingUp && status.log_fault.is_none() {
        let detail = "This copy has not caught up since it was started.";
        return Err(Problem::new(Code::Behind, detail));
    }
    if max_lag_ms.is_some_and(|max| status.lag_ms > max) {
        let detail = "This copy is further behind than max_lag_ms.";
        return Err(Problem::new(Code::Behind, detail).of_field("max_lag_ms"));
    }
    let lag_ms = lag(reach, status.lag_ms);
    Ok(Json(HealthReply { status: role::state_name(&status.state), lag_ms }))
}

/// Writes are passed on while whoever decides them is heard. Who leads a cluster is known for sure
/// at the end of the log only.
fn passes_writes_on(
    copies: &Copies,
    status: &NodeStatus,
    reach: &AllowedNamespaces,
) -> Result<Json<HealthReply>, Problem> {
    let ready = fit_for_lookups(copies, status, reach)?;
    if status.is_connected && status.heard_ms < SILENT_MS {
        return Ok(ready);
    }
    if let (Copies::Primary, Some(primary)) = (copies, &status.leader) {
        let why = status.log_fault.as_deref().unwrap_or("it has not answered yet");
        let detail = format!("This service follows {primary}, which does not answer: {why}.");
        return Err(Problem::new(Code::PrimaryUnreachable, detail));
    }
    let detail = format!("The leader was not heard for {} ms.", status.heard_ms);
    Err(Problem::new(Code::NoLeader, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "http://10.0.0.2:7878";

    fn status(state: NodeState, heard_ms: u64) -> NodeStatus {
        NodeStatus {
            state,
            leader: Some(OTHER.into()),
            is_connected: true,
            is_outdated: false,
            heard_ms,
            lag_ms: 3,
            read: 7,
            ignored: 0,
            ..NodeStatus::default()
        }
    }

    #[test]
    fn a_copy_answers_lookups_while_it_has_halted_or_its_log_is_away() {
        let reach = AllowedNamespaces::ALL;
        let ready = |status: &NodeStatus, max| shown(answers_lookups(status, max, &reach));
        assert_eq!(ready(&status(halted(), 60_000), None), "halted");
        let far = NodeStatus { lag_ms: 60_000, ..status(halted(), 60_000) };
        assert_eq!([ready(&far, Some(60_000)), ready(&far, Some(59_999))], ["halted", "behind"]);
        let catching_up = status(NodeState::CatchingUp, 0);
        assert_eq!(ready(&catching_up, None), "behind");
        let cut_off = NodeStatus { log_fault: Some("away".to_owned()), ..catching_up };
        assert_eq!(ready(&cut_off, None), "catching_up");
        assert_eq!(ready(&status(NodeState::Following, 60_000), Some(3)), "following");
    }

    fn halted() -> NodeState {
        NodeState::Halted("the log is another".to_owned())
    }

    /// Each kind of copy, with its codes when it has halted and when it hears nothing.
    fn kinds() -> [(Copies, &'static str, &'static str); 2] {
        let cluster = Copies::Cluster { address: "http://10.0.0.1:7878".into() };
        [
            (Copies::Primary, "follower_halted", "primary_unreachable"),
            (cluster, "node_halted", "no_leader"),
        ]
    }

    /// The status of a copy, or the code of its error.
    fn shown(reply: Result<Json<HealthReply>, Problem>) -> &'static str {
        reply.map_or_else(|problem| problem.logged().code, |Json(reply)| reply.status)
    }

    #[test]
    fn a_copy_is_ready_for_lookups_once_it_has_caught_up_until_it_halts() {
        let reach = AllowedNamespaces::ALL;
        for (copies, halted_code, _) in kinds() {
            let ready =
                |state, heard_ms| shown(fit_for_lookups(&copies, &status(state, heard_ms), &reach));
            for heard_ms in [0, 60_000] {
                assert_eq!(ready(NodeState::Following, heard_ms), "following");
                assert_eq!(ready(NodeState::Leading, heard_ms), "leading");
                assert_eq!(ready(NodeState::CatchingUp, heard_ms), "behind");
                assert_eq!(ready(halted(), heard_ms), halted_code);
            }
            let problem = fit_for_lookups(&copies, &status(halted(), 0), &reach).unwrap_err();
            assert!(problem.body().detail.starts_with("the log is another. "), "{problem:?}");
        }
    }

    #[test]
    fn writes_are_passed_on_while_whoever_decides_them_is_heard() {
        let reach = AllowedNamespaces::ALL;
        for (copies, halted_code, silent_code) in kinds() {
            let ready = |status: NodeStatus| shown(passes_writes_on(&copies, &status, &reach));
            assert_eq!(ready(status(NodeState::Following, SILENT_MS - 1)), "following");
            assert_eq!(ready(status(NodeState::Following, SILENT_MS)), silent_code);
            let cut = NodeStatus { is_connected: false, ..status(NodeState::Following, 0) };
            assert_eq!(ready(cut), silent_code);
            assert_eq!(ready(status(NodeState::CatchingUp, 0)), "behind");
            assert_eq!(ready(status(halted(), 0)), halted_code);
        }
    }
}
