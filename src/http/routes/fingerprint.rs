//! `/v1/fingerprint`: makes the fingerprint of a document; stores nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_service::{Operation, answers};
use nearprint_wire::answer::FingerprintReply;

use crate::http::batch;
use crate::http::description::{FingerprintLines, FingerprintReplyLines, RawBody};
use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::types::{
    FINGERPRINT, FingerprintBatchParameters, FingerprintParameters, FingerprintRequest,
};
use crate::http::service::HttpService;

/// Make the fingerprint of a document.
///
/// Stores nothing. `"explain": true` adds the heaviest features and the 64 sums.
#[utoipa::path(post, path = "/v1/fingerprint", tag = "look up",
    params(FingerprintParameters),
    request_body(content((FingerprintRequest = "application/json"),
        (RawBody = "text/plain"), (RawBody = "text/html"),
        (RawBody = "application/xhtml+xml"))),
    responses((status = 200, description = "The fingerprint", body = FingerprintReply)))]
pub(crate) async fn post_fingerprint(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let prepared = http.prepare(request, &FINGERPRINT).await?;
    let reply = answers::fingerprint(&prepared, http.service.recipe());
    Ok(reply::json(http.service.replies().answer(&caller.client, reply, None)?))
}

/// Make the fingerprints of many documents.
///
/// NDJSON: one document a line, one reply a line.
#[utoipa::path(post, path = "/v1/fingerprint/batch", tag = "batches",
    params(FingerprintBatchParameters),
    request_body(content = FingerprintLines, content_type = "application/x-ndjson"),
    responses((status = 200, description = "A reply for each document, in their order",
        body = FingerprintReplyLines, content_type = "application/x-ndjson")))]
pub(crate) async fn post_fingerprint_batch(
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(http, Operation::Fingerprint, request).await
}
