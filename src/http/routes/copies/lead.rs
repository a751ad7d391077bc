//! `/v1/cluster/stand-back`: a node leaves the lead to others for a while, so that the one that an
//! operator has chosen takes it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use nearprint_wire::answer::StandsBackReply;
use nearprint_wire::fields;
use nearprint_wire::offer::FieldKind;

use crate::http::problem::{Code, Problem};
use crate::http::request::parameters;
use crate::http::request::schema;
use crate::http::service::HttpService;

/// The longest time for which a node stands back.
const FOR_MS_MAX: u64 = 600_000;

fields! {
    /// How long a node stands back.
    pub(crate) struct StandBackParameters {
        /// For so many milliseconds [default: 10000]; 0 ends it.
        for_ms: u64 [FieldKind::Whole(0, FOR_MS_MAX)],
    }
}

/// Leave the lead of the cluster to other nodes for a while.
///
/// For `nearprint cluster transfer`. A leader resigns, and the node does not try to lead until the
/// time is over. Another node takes over in milliseconds, if one can.
#[utoipa::path(post, path = "/v1/cluster/stand-back", tag = "operations",
    params(StandBackParameters),
    responses((status = 200, description = "The node stands back", body = StandsBackReply)))]
pub(crate) async fn post_stand_back(
    State(http): State<Arc<HttpService>>,
    RawQuery(query): RawQuery,
) -> Result<Json<StandsBackReply>, Problem> {
    let StandBackParameters { for_ms } = parameters::read(query.as_deref())?;
    if !http.is_node() {
        let detail = "Only nodes have a lead to leave; nothing was changed.";
        return Err(Problem::new(Code::NotANode, detail));
    }
    let for_ms = for_ms.unwrap_or(10_000);
    http.service.engine().stand_back(Duration::from_millis(for_ms));
    Ok(Json(StandsBackReply { for_ms }))
}

schema::describe! { parameters StandBackParameters }
