//! `/v1/check-and-insert`: looks a document up and stores it if no hit counts, in one step.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::{Admission, Checked};

use crate::http::batch::{self, Operation};
use crate::http::budget::WhenSpent;
use crate::http::description::{
    CheckAndInsertLines, CheckAndInsertReplyLines, PackedBody, RawBody,
};
use crate::http::problem::Problem;
use crate::http::reply::counts::{count_hits, count_verdict};
use crate::http::reply::previous::PreviousReply;
use crate::http::reply::wire::{CheckAndInsertReply, Subject};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::types::{
    CHECK_AND_INSERT, CheckAndInsertBatchParameters, CheckAndInsertParameters,
    CheckAndInsertRequest,
};
use crate::http::service::Service;
use crate::http::shares::client_of;

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
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let client = client_of(request.extensions());
    let engine = service.engine.on_behalf_of(client.clone());
    let prepared = service.prepare(request, &CHECK_AND_INSERT).await?;
    reach.check_document(&prepared.document)?;
    let subject = Subject::from(&prepared);
    let pending = engine
        .begin_check_and_insert(
            prepared.document,
            prepared.options,
            prepared.storing,
            Admission::Shed,
        )
        .await?;
    let Checked { written, found, previous } = pending.wait().await?;
    count_verdict(written.verdict);
    let (findings, share) = service.replies.hits(&client, found, WhenSpent::Shorten).await?;
    count_hits(&findings);
    let written = (written, PreviousReply::read(previous).await);
    let reply = CheckAndInsertReply::new(&subject, written, &findings, &reach);
    Ok(service.replies.answer_shorter(&client, reply, share))
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
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(service, Operation::CheckAndInsert, request).await
}
