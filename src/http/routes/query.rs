//! `/v1/query`: the near-duplicates of a document; stores nothing.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::http::batch;
use crate::http::batch::Operation;
use crate::http::description::{
    DocumentBody, Explain, Extraction, LookUp, Packed, Problems, QueryRequest,
};
use crate::http::problem::{Code, Problem};
use crate::http::reply::counts::count_hits;
use crate::http::reply::wire::QueryReply;
use crate::http::request::fields::Field;
use crate::http::request::parameters;
use crate::http::request::prepare;
use crate::http::request::prepare::Prepared;
use crate::http::service::Service;

/// What `GET /v1/query` takes.
const PARAMETERS: &[Field] = &[
    Field::Fingerprint,
    Field::Recipe,
    Field::Id,
    Field::Distance,
    Field::Limit,
    Field::MinSimilarity,
    Field::Explain,
];

/// Find the near-duplicates of a document.
///
/// Every stored fingerprint within the distance is a hit. Where both sides came as text, the hit
/// is verified too. `"explain": true` adds why. Stores nothing.
#[utoipa::path(post, path = "/v1/query", tag = "look up",
    params(DocumentBody, Extraction, LookUp, Explain),
    request_body(content(
        (QueryRequest = "application/json"), (String = "text/plain"), (String = "text/html"))),
    responses((status = 200, description = "The near-duplicates", body = QueryReply<'_>), Problems))]
pub(crate) async fn post_query(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = service.prepare(request, &prepare::QUERY).await?;
    answer(&service, &asked).await
}

/// Find the near-duplicates of a fingerprint.
#[utoipa::path(get, path = "/v1/query", tag = "look up",
    params(("fingerprint" = String, Query, description = "16 hex digits, with or without 0x"),
        ("recipe" = Option<String>, Query, description = "refused unless it is the service's"),
        DocumentBody, LookUp, Explain),
    responses((status = 200, description = "The near-duplicates", body = QueryReply<'_>), Problems))]
pub(crate) async fn get_query(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    let defaults = &service.options.defaults;
    let parameters = parameters::parse(request.uri().query(), PARAMETERS)?;
    prepare::check_recipe(parameters.recipe.as_deref(), defaults)?;
    let Some(fingerprint) = parameters.fingerprint else {
        let detail =
            "The query parameter fingerprint is missing; text goes into the body of a POST.";
        return Err(Problem::new(Code::DocumentMissing, detail).of_field("fingerprint"));
    };
    let asked = prepare::bare(fingerprint, parameters.id, parameters.asked, defaults)?;
    answer(&service, &asked).await
}

/// Find the near-duplicates of many documents.
///
/// NDJSON: one document with its options a line, one reply a line in the same order, streamed.
/// Packed 64-bit little-endian fingerprints: one byte each, the distance of the nearest hit or 255.
#[utoipa::path(post, path = "/v1/query/batch", tag = "batches",
    params(Extraction, LookUp, Explain),
    request_body(content(
        (QueryRequest = "application/x-ndjson"), (Packed = "application/octet-stream"))),
    responses((status = 200, description = "A reply for each document, in their order", content(
        (QueryReply<'_> = "application/x-ndjson"), (Packed = "application/octet-stream"))),
        Problems))]
pub(crate) async fn post_query_batch(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    batch::run(service, Operation::Query, request).await
}

async fn answer(service: &Service, asked: &Prepared) -> Result<Response, Problem> {
    let found = service.engine.find(&asked.document, asked.options).await?;
    let (findings, share) = service.replies.hits(found).await?;
    count_hits(&findings);
    service.replies.answer(QueryReply::new(asked, &findings), share)
}
