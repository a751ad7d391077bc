//! `/v1/insert`: stores a document without looking for near-duplicates.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use nearprint_engine::{Admission, Inserted};

use crate::http::batch::{self, Operation};
use crate::http::description::{InsertLines, InsertReplyLines, PackedBody, RawBody};
use crate::http::problem::Problem;
use crate::http::reply::counts::count_verdict;
use crate::http::reply::previous::PreviousReply;
use crate::http::reply::wire::{InsertReply, PackedInsertReply, Subject};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::types::{INSERT, InsertBatchParameters, InsertParameters, InsertRequest};
use crate::http::service::Service;

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
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let prepared = service.prepare(request, &INSERT).await?;
    reach.check_document(&prepared.document)?;
    let subject = Subject::from(&prepared);
    let engine = &service.engine;
    let pending = engine.begin_insert(prepared.into_insert(), Admission::Shed).await?;
    let Inserted { written, previous } = pending.wait().await?;
    count_verdict(written.verdict);
    let previous = PreviousReply::read(previous).await;
    Ok(Json(InsertReply::new(&subject, (written, previous), &reach)).into_response())
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
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(service, Operation::Insert, request).await
}
