//! `/v1/nodes`: this service, and the others that it knows, as each sees itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use nearprint_service::AllowedNamespaces;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::http::problem::Problem;
use crate::http::request::parameters::NoParameters;
use crate::http::role::Copies;
use crate::http::routes::health;
use crate::http::routes::stats::StatsReply;
use crate::http::service::HttpService;
use crate::replicas::nodes::{self, NodeRow};

/// However many ask, the others are asked once in this time.
const KNOWN_FOR: Duration = Duration::from_secs(1);

/// The newest answer, and when it was found. Whoever asks meanwhile waits for it.
#[derive(Debug, Default)]
pub(crate) struct FoundNodes(Mutex<Option<(Instant, Vec<NodeReply>)>>);

/// This service, and the others that it knows: the primary of a follower, or the seeds and the
/// leader of a node.
///
/// They are asked at one time, each for two seconds at most, and once a second at most.
#[utoipa::path(get, path = "/v1/nodes", tag = "operations",
    responses((status = 200, description = "This service first, then the others", body = NodesReply)))]
pub(crate) async fn get_nodes(
    State(http): State<Arc<HttpService>>,
    _: NoParameters,
) -> Result<Json<NodesReply>, Problem> {
    // A task of its own, so that the answer is there for the next one if this client leaves.
    let nodes = tokio::spawn(async move { found(&http).await }).await;
    let nodes = nodes.map_err(|fault| Problem::internal(fault.to_string()))?;
    Ok(Json(NodesReply { nodes }))
}

async fn found(http: &HttpService) -> Vec<NodeReply> {
    let mut known = http.nodes.0.lock().await;
    if let Some((at, nodes)) = known.as_ref()
        && at.elapsed() < KNOWN_FOR
    {
        return nodes.clone();
    }
    let (own, others) = tokio::join!(own(http), others(http));
    let is_other =
        |other: &NodeRow| !own.report.address.as_ref().is_some_and(|own| other.is_at(own));
    let has_primary = http.replica().is_some_and(|(role, _)| role.copies == Copies::Primary);
    let others = others.into_iter().filter(is_other);
    let others: Vec<_> = others.map(|other| NodeReply::of_other(other, has_primary)).collect();
    let nodes = [vec![NodeReply::of_self(own)], others].concat();
    *known = Some((Instant::now(), nodes.clone()));
    nodes
}

/// This service, as the others would see it.
async fn own(http: &HttpService) -> NodeRow {
    let stats = StatsReply::new(http.service.engine().stats(), http);
    let stats = serde_json::to_value(stats).map_err(|error| error.to_string());
    let node = NodeRow::new(String::new(), stats);
    if !node.should_take_writes() {
        return node;
    }
    let refused = health::takes_writes(http, &AllowedNamespaces::ALL).await.err();
    let writes_fault = refused.map(|problem| problem.body().detail.into_owned());
    NodeRow { writes_fault, ..node }
}

/// The others that it knows.
async fn others(http: &HttpService) -> Vec<NodeRow> {
    let Some((role, status)) = http.replica() else { return Vec::new() };
    let own = match &role.copies {
        Copies::Primary => None,
        Copies::Cluster { address } => Some(address),
    };
    let leader = role.other_decider(&status).map(ToString::to_string);
    let mut urls: Vec<String> = role.peers.urls.iter().cloned().chain(leader).collect();
    urls.retain(|url| own.is_none_or(|own| **own != **url));
    urls.sort_unstable();
    urls.dedup();
    let peers = role.peers.clone();
    let asked = spawn_blocking(move || nodes::ask_peers(&peers, &urls));
    asked.await.expect("asking does not panic")
}

/// This service, and the others that it knows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodesReply {
    nodes: Vec<NodeReply>,
}

/// A service, as it sees itself.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct NodeReply {
    /// Where it is reached; null if this service does not know its own.
    #[schema(example = "http://10.0.0.1:7878")]
    address: Option<String>,
    /// Whether it is the service that answers.
    is_self: bool,
    /// `alone`, `primary` (of this follower), `follower` or `node`; null if it does not answer.
    role: Option<&'static str>,
    /// `alone`; `leading`, as a primary always is; `following`, `catching_up` since it was started,
    /// `halted`, or `no_answer`.
    state: String,
    /// Whether it decides writes.
    leads: bool,
    /// Whether it hears the log or its primary; without either, whether it answers.
    connected: bool,
    /// How far it is behind the log or its primary.
    lag_ms: Option<u64>,
    /// The last entry of the log that a node has read; the last change that another service has.
    position: Option<u64>,
    documents: Option<u64>,
    #[schema(example = "0.1.0")]
    version: Option<String>,
    /// What is wrong with it; null if nothing is.
    fault: Option<String>,
    /// What helps, where there is a fault or an error.
    next: Option<String>,
    /// Why it tells nothing.
    error: Option<String>,
}

impl NodeReply {
    fn of_self(row: NodeRow) -> Self {
        let address = row.report.address.clone();
        Self { address, is_self: true, ..Self::of(row) }
    }

    /// Another one, which a follower asks because that is its primary.
    fn of_other(row: NodeRow, has_primary: bool) -> Self {
        let address = Some(row.server.clone());
        let node = Self { address, ..Self::of(row) };
        if has_primary && node.role == Some("alone") {
            return Self { role: Some("primary"), state: "leading".to_owned(), ..node };
        }
        node
    }

    fn of(row: NodeRow) -> Self {
        let decides = row.role == Some("alone");
        let faults = if row.report.error.is_some() { Vec::new() } else { row.faults() };
        let next = row.next().map(str::to_owned);
        Self {
            address: None,
            is_self: false,
            role: row.role,
            leads: decides || row.state == "leading",
            state: row.state,
            connected: decides || row.report.connected == Some(true),
            lag_ms: row.report.lag_ms,
            position: row.report.read.or(row.sequence),
            documents: row.documents,
            version: row.version,
            fault: (!faults.is_empty()).then(|| faults.join("; ")),
            next,
            error: row.report.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const A: &str = "http://10.0.0.1:7878";

    fn row(stats: Value) -> NodeRow {
        NodeRow::new(A.to_owned(), Ok(stats))
    }

    fn shown(node: NodeReply) -> Value {
        serde_json::to_value(node).unwrap()
    }

    #[test]
    fn a_node_is_shown_as_it_sees_itself() {
        let cluster = json!({"address": A, "state": "leading", "connected": true, "lag_ms": 0,
            "leader": A, "read": 9, "lead_fault": "the disk is full"});
        let stats = json!({"documents": 2, "sequence": 4, "version": "0.1.0", "cluster": cluster});
        let fault = "leads all the same: the disk is full";
        let next = row(stats.clone()).next().map(str::to_owned);
        let expected = json!({
            "address": A, "is_self": true, "role": "node", "state": "leading", "leads": true,
            "connected": true, "lag_ms": 0, "position": 9, "documents": 2, "version": "0.1.0",
            "fault": fault, "next": next, "error": null,
        });
        assert_eq!(shown(NodeReply::of_self(row(stats))), expected);
        let halted = json!({"cluster": {"state": "halted", "connected": false, "halted": "a gap"}});
        let halted = shown(NodeReply::of_other(row(halted), false));
        assert_eq!([&halted["state"], &halted["leads"]], [&json!("halted"), &json!(false)]);
        assert_eq!([&halted["connected"], &halted["fault"]], [&json!(false), &json!("a gap")]);
    }

    #[test]
    fn who_does_not_answer_is_shown_with_the_reason_alone() {
        for has_primary in [false, true] {
            let silent = NodeRow::new(A.to_owned(), Err("no answer".to_owned()));
            let next = silent.next().map(str::to_owned);
            let expected = json!({
                "address": A, "is_self": false, "role": null, "state": "no_answer",
                "leads": false, "connected": false, "lag_ms": null, "position": null,
                "documents": null, "version": null, "fault": null, "next": next,
                "error": "no answer",
            });
            assert_eq!(shown(NodeReply::of_other(silent, has_primary)), expected);
        }
    }

    #[test]
    fn only_whom_a_follower_follows_is_a_primary() {
        let role = |stats: Value, has_primary| {
            let node = shown(NodeReply::of_other(row(stats), has_primary));
            json!([node["role"], node["state"], node["leads"]])
        };
        assert_eq!(role(json!({"sequence": 3}), true), json!(["primary", "leading", true]));
        assert_eq!(role(json!({"sequence": 3}), false), json!(["alone", "alone", true]));
        let follower = json!({"following": {"state": "following"}});
        assert_eq!(role(follower, true), json!(["follower", "following", false]));
    }
}
