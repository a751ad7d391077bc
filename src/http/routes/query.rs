//! `/v1/query`: finds the near-duplicates of a document; stores nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::Client;

use crate::http::batch::{self, Operation};
use crate::http::budget::WhenSpent;
use crate::http::description::{PackedBody, QueryLines, QueryReplyLines, RawBody};
use crate::http::problem::{Code, Problem};
use crate::http::reply::counts::count_hits;
use crate::http::reply::wire::QueryReply;
use crate::http::request::prepare::{self, Prepared};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::types::{
    GetQueryParameters, Parameters, QUERY, QueryBatchParameters, QueryParameters, QueryRequest,
};
use crate::http::service::Service;
use crate::http::shares::client_of;

/// Find the near-duplicates of a document.
///
/// Every stored fingerprint within the distance is a hit. If both documents came as text, the hit
/// is also verified. `"explain": true` adds the reasons. Stores nothing.
#[utoipa::path(post, path = "/v1/query", tag = "look up",
    params(QueryParameters),
    request_body(content(
        (QueryRequest = "application/json"), (RawBody = "text/plain"), (RawBody = "text/html"),
        (RawBody = "application/xhtml+xml"))),
    responses((status = 200, description = "The near-duplicates", body = QueryReply<'_>)))]
pub(crate) async fn post_query(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let client = client_of(request.extensions());
    let prepared = service.prepare(request, &QUERY).await?;
    answer(&service, &client, &reach, &prepared).await
}

/// Find the near-duplicates of a fingerprint.
#[utoipa::path(get, path = "/v1/query", tag = "look up",
    params(GetQueryParameters),
    responses((status = 200, description = "The near-duplicates", body = QueryReply<'_>)))]
pub(crate) async fn get_query(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let defaults = &service.options.defaults;
    let Parameters { named, options } = Parameters::of_get_query(request.uri().query())?;
    prepare::check_recipe(named.recipe.as_deref(), defaults)?;
    let Some(fingerprint) = named.fingerprint else {
        let detail =
            "The query parameter fingerprint is missing; text goes into the body of a POST.";
        return Err(Problem::new(Code::DocumentMissing, detail).of_field("fingerprint"));
    };
    let prepared = prepare::bare(fingerprint, named.id, options, &service.setting())?;
    let client = client_of(request.extensions());
    answer(&service, &client, &reach, &prepared).await
}

/// Find the near-duplicates of many documents.
///
/// NDJSON: one document with its options a line, one reply a line in the same order, streamed.
/// Packed 64-bit little-endian fingerprints: one byte each, the distance of the nearest hit or 255.
#[utoipa::path(post, path = "/v1/query/batch", tag = "batches",
    params(QueryBatchParameters),
    request_body(content(
        (QueryLines = "application/x-ndjson"), (PackedBody = "application/octet-stream"))),
    responses((status = 200, description = "A reply for each document, in their order", content(
        (QueryReplyLines = "application/x-ndjson"), (PackedBody = "application/octet-stream")))))]
pub(crate) async fn post_query_batch(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(service, Operation::Query, request).await
}

async fn answer(
    service: &Service,
    client: &Client,
    reach: &NamespaceAccess,
    prepared: &Prepared,
) -> Result<Response, Problem> {
    reach.check_document(&prepared.document)?;
    let engine = service.engine.on_behalf_of(client.clone());
    let found = engine.find(&prepared.document, prepared.options).await?;
    let (findings, share) = service.replies.hits(client, found, WhenSpent::Refuse).await?;
    count_hits(&findings);
    service.replies.answer(client, QueryReply::new(prepared, &findings), share)
}
