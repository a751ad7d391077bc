//! `/v1/query`: finds the near-duplicates of a document; stores nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_service::budget::WhenSpent;
use nearprint_service::{Caller, Operation, Prepared, answers, prepare};
use nearprint_wire::answer::QueryReply;

use crate::http::batch;
use crate::http::description::{PackedBody, QueryLines, QueryReplyLines, RawBody};
use crate::http::problem::{Code, Problem};
use crate::http::reply;
use crate::http::reply::counts::count_hits;
use crate::http::request::caller::CalledBy;
use crate::http::request::types::{
    GetQueryParameters, Parameters, QUERY, QueryBatchParameters, QueryParameters, QueryRequest,
};
use crate::http::service::HttpService;

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
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let prepared = http.prepare(request, &QUERY).await?;
    answer(&http, &caller, &prepared).await
}

/// Find the near-duplicates of a fingerprint.
#[utoipa::path(get, path = "/v1/query", tag = "look up",
    params(GetQueryParameters),
    responses((status = 200, description = "The near-duplicates", body = QueryReply<'_>)))]
pub(crate) async fn get_query(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let setting = http.service.setting();
    let Parameters { named, options } = Parameters::of_get_query(request.uri().query())?;
    prepare::check_recipe(named.recipe.as_deref(), &setting.defaults)?;
    let Some(fingerprint) = named.fingerprint else {
        let detail =
            "The query parameter fingerprint is missing; text goes into the body of a POST.";
        return Err(Problem::new(Code::DocumentMissing, detail).of_field("fingerprint"));
    };
    let prepared = prepare::bare(fingerprint, named.id, options, &setting)?;
    answer(&http, &caller, &prepared).await
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
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(http, Operation::Query, request).await
}

async fn answer(
    http: &HttpService,
    caller: &Caller,
    prepared: &Prepared,
) -> Result<Response, Problem> {
    let replies = http.service.replies();
    let found = http.service.find(caller, prepared).await?;
    let (findings, share) = replies.hits(&caller.client, found, WhenSpent::Refuse).await?;
    count_hits(&findings);
    let reply = answers::query(prepared, &findings);
    Ok(reply::json(replies.answer(&caller.client, reply, share)?))
}
