//! `/v1/insert`: stores a document without looking for near-duplicates.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use nearprint_engine::{Admission, Inserted};
use nearprint_service::{Operation, answers, previous};
use nearprint_wire::answer::{InsertReply, PackedInsertReply};

use crate::http::batch;
use crate::http::description::{InsertLines, InsertReplyLines, PackedBody, RawBody};
use crate::http::problem::Problem;
use crate::http::reply::counts::count_verdict;
use crate::http::request::caller::CalledBy;
use crate::http::request::types::{INSERT, InsertBatchParameters, InsertParameters, InsertRequest};
use crate::http::service::HttpService;

/// Store a document without looking for near-duplicates.
///
/// Replaces a document with the same id. The reply comes once the write is as durable as
/// configured.
#[utoipa::path(post, path = "/v1/insert", tag = "store",
    params(InsertParameters),
    request_body(content(
        (InsertRequest = "application/json"), (RawBody = "text/plain"), (RawBody = "text/html"),
        (RawBody = "application/xhtml+xml"))),
    responses((status = 200, description = "What became of the document", body = InsertReply)))]
pub(crate) async fn post_insert(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let prepared = http.prepare(request, &INSERT).await?;
    let begun = http.service.begin_insert(&caller, prepared, Admission::Shed).await?;
    let (subject, Inserted { written, previous: before }) = begun.done().await?;
    count_verdict(written.verdict);
    let written = (written, previous(before).await);
    Ok(Json(answers::insert(&subject, written, &caller.namespaces)).into_response())
}

/// Store many documents.
///
/// NDJSON: one document a line, one reply a line. Packed 64-bit little-endian fingerprints: counts.
#[utoipa::path(post, path = "/v1/insert/batch", tag = "batches",
    params(InsertBatchParameters),
    request_body(content(
        (InsertLines = "application/x-ndjson"), (PackedBody = "application/octet-stream"))),
    responses((status = 200, description = "A reply for each document, in their order; for packed\
        fingerprints one reply for all", content(
        (InsertReplyLines = "application/x-ndjson"), (PackedInsertReply = "application/json")))))]
pub(crate) async fn post_insert_batch(
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(http, Operation::Insert, request).await
}
