//! `/v1/me`: what the caller may do here, so that a client need not find out by being refused.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use nearprint_engine::document::DocumentId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::middleware::access;
use crate::http::problem::Problem;
use crate::http::request::parameters::NoParameters;
use crate::http::role::{Copies, Decider};
use crate::http::service::HttpService;

/// What the token of the request allows, and what this service is.
///
/// For every token, whatever its scopes and namespaces. Without tokens everything is allowed.
#[utoipa::path(get, path = "/v1/me", tag = "operations",
    responses((status = 200, description = "What the caller may do", body = MeReply)))]
pub(crate) async fn get_me(
    State(http): State<Arc<HttpService>>,
    headers: HeaderMap,
    _: NoParameters,
) -> Result<Json<MeReply>, Problem> {
    let rights = access::rights(&http, &headers)?;
    let patterns = rights.namespaces.patterns();
    Ok(Json(MeReply {
        name: rights.name.map(|name| name.to_string()),
        scopes: rights.permissions.names().collect(),
        namespaces: patterns.map(|patterns| patterns.iter().map(ToString::to_string).collect()),
        rate: rights.rate.map(|rate| RateReply { requests_per_second: rate.get() }),
        role: RoleReply::of(&http),
        version: env!("CARGO_PKG_VERSION"),
        limits: LimitsReply::of(&http),
    }))
}

/// What the caller may do, and what this service is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MeReply {
    /// The name in the line of the token; null if the service needs no token.
    #[schema(example = "crawler")]
    name: Option<String>,
    /// What the token allows: `read`, `write`, `admin`.
    scopes: Vec<&'static str>,
    /// The namespaces that the token reaches, as its line lists them; null for all.
    #[schema(example = json!(["news/*", "shop"]))]
    namespaces: Option<Vec<String>>,
    /// How often the token may be used; null if that is not limited.
    rate: Option<RateReply>,
    role: RoleReply,
    #[schema(example = "0.1.0")]
    version: &'static str,
    limits: LimitsReply,
}

/// How often a token may be used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RateReply {
    requests_per_second: u32,
}

/// What the service is among others, and who decides writes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RoleReply {
    /// `alone`, `follower` or `node`.
    kind: &'static str,
    /// Whether this service decides.
    decides: bool,
    /// The address of the primary or of the leader; null if this service decides, or knows of none.
    #[schema(example = "http://10.0.0.1:7878")]
    decider: Option<String>,
    /// Whether a write that is sent here is passed on there; otherwise it is refused.
    forwards: bool,
}

impl RoleReply {
    fn of(http: &HttpService) -> Self {
        let Some((replica, status)) = http.replica() else {
            return Self { kind: "alone", decides: true, decider: None, forwards: false };
        };
        let kind = match replica.copies {
            Copies::Primary => "follower",
            Copies::Cluster { .. } => "node",
        };
        Self {
            kind,
            decides: matches!(replica.decider(&status), Decider::Here),
            decider: replica.other_decider(&status).map(ToString::to_string),
            forwards: replica.forwards(),
        }
    }
}

/// The limits of a request that a client should know before it sends one.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "each is a maximum")]
pub(crate) struct LimitsReply {
    /// The largest distance of a look-up.
    distance_max: u8,
    /// The longest body of a single request, `server.body_bytes_max`.
    body_bytes_max: usize,
    /// The longest id.
    id_bytes_max: usize,
}

impl LimitsReply {
    fn of(http: &HttpService) -> Self {
        Self {
            distance_max: http.service.options().defaults.distance_max.get(),
            body_bytes_max: http.options.body_bytes_max,
            id_bytes_max: DocumentId::BYTES_MAX,
        }
    }
}
