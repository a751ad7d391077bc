//! `/v1/check-and-insert`: looks a document up and stores it if no hit counts, in one step.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::{Admission, Checked};
use nearprint_service::budget::WhenSpent;
use nearprint_service::{Operation, answers, previous};
use nearprint_wire::answer::CheckAndInsertReply;

use crate::http::batch;
use crate::http::description::{
    CheckAndInsertLines, CheckAndInsertReplyLines, PackedBody, RawBody,
};
use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::reply::counts::{count_hits, count_verdict};
use crate::http::request::caller::CalledBy;
use crate::http::request::types::{
    CHECK_AND_INSERT, CheckAndInsertBatchParameters, CheckAndInsertParameters,
    CheckAndInsertRequest,
};
use crate::http::service::HttpService;

/// Store a document unless a near-duplicate of it is stored, as one atomic step.
///
/// If many clients send near-identical documents at one time, exactly one reply is `inserted`.
/// With `"on_duplicate": "insert"` duplicates are stored too.
#[utoipa::path(post, path = "/v1/check-and-insert", tag = "store",
    params(CheckAndInsertParameters),
    request_body(content((CheckAndInsertRequest = "application/json"),
        (RawBody = "text/plain"), (RawBody = "text/html"),
        (RawBody = "application/xhtml+xml"))),
    responses((status = 200, description = "What was found, and what became of the document",
        body = CheckAndInsertReply<'_>)))]
pub(crate) async fn post_check_and_insert(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let service = &http.service;
    let prepared = http.prepare(request, &CHECK_AND_INSERT).await?;
    let begun = service.begin_check_and_insert(&caller, prepared, Admission::Shed).await?;
    let (subject, Checked { written, found, previous: before }) = begun.done().await?;
    count_verdict(written.verdict);
    let hits = service.replies().hits(&caller.client, found, WhenSpent::Shorten).await?;
    let (findings, share) = hits;
    count_hits(&findings);
    let written = (written, previous(before).await);
    let reply = answers::check_and_insert(&subject, written, &findings, &caller.namespaces);
    Ok(reply::json(service.replies().answer_shorter(&caller.client, reply, share)))
}

/// Store the unique ones of many documents.
///
/// NDJSON: one document with its options a line, one reply a line. Packed 64-bit little-endian
/// fingerprints: one byte each, the distance of the nearest hit, or 255 for inserted. The order
/// within a batch is the order of effect.
#[utoipa::path(post, path = "/v1/check-and-insert/batch", tag = "batches",
    params(CheckAndInsertBatchParameters),
    request_body(content((CheckAndInsertLines = "application/x-ndjson"),
        (PackedBody = "application/octet-stream"))),
    responses((status = 200, description = "A reply for each document, in their order",
        content((CheckAndInsertReplyLines = "application/x-ndjson"),
        (PackedBody = "application/octet-stream")))))]
pub(crate) async fn post_check_and_insert_batch(
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(http, Operation::CheckAndInsert, request).await
}
