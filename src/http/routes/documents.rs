//! `/v1/documents`: shows and removes the document with an id.
//!
//! An id is usually a URL, so it is percent-encoded in the path, or the query parameter `id`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use percent_encoding::percent_decode_str;

use crate::document::DocumentId;
use crate::http::description::Problems;
use crate::http::problem::{Code, Problem};
use crate::http::reply::wire::{DocumentReply, RemovedReply};
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::reach::Reach;
use crate::http::request::types::IdParameter;
use crate::http::service::Service;
use crate::metrics;

/// Show what is stored under an id.
#[utoipa::path(get, path = "/v1/documents/{id}", tag = "documents",
    params(("id" = String, Path, description = "the id, percent-encoded")),
    responses((status = 200, description = "The document", body = DocumentReply), Problems))]
pub(crate) async fn get_document(
    State(service): State<Arc<Service>>,
    reach: Reach,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<DocumentReply>, Problem> {
    show(&service, &reach, &id_of_path(&uri)?).await
}

/// Remove the document with an id.
///
/// Succeeds with `"removed": 0` if there is none, so that it may be retried.
#[utoipa::path(delete, path = "/v1/documents/{id}", tag = "documents",
    params(("id" = String, Path, description = "the id, percent-encoded")),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply),
        Problems))]
pub(crate) async fn delete_document(
    State(service): State<Arc<Service>>,
    reach: Reach,
    uri: Uri,
    _: NoParameters,
) -> Result<Json<RemovedReply>, Problem> {
    remove(&service, &reach, id_of_path(&uri)?).await
}

/// Show what is stored under an id, given as a query parameter.
#[utoipa::path(get, path = "/v1/documents", tag = "documents",
    params(IdParameter),
    responses((status = 200, description = "The document", body = DocumentReply), Problems))]
pub(crate) async fn get_document_by_parameter(
    State(service): State<Arc<Service>>,
    reach: Reach,
    request: Request,
) -> Result<Json<DocumentReply>, Problem> {
    show(&service, &reach, &id_of_query(&request)?).await
}

/// Remove the document with an id, given as a query parameter.
#[utoipa::path(delete, path = "/v1/documents", tag = "documents",
    params(IdParameter),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply),
        Problems))]
pub(crate) async fn delete_document_by_parameter(
    State(service): State<Arc<Service>>,
    reach: Reach,
    request: Request,
) -> Result<Json<RemovedReply>, Problem> {
    remove(&service, &reach, id_of_query(&request)?).await
}

async fn show(
    service: &Service,
    reach: &Reach,
    id: &DocumentId,
) -> Result<Json<DocumentReply>, Problem> {
    reach.check(None)?;
    let stored = service.engine.document(id).await?;
    let missing = || Problem::new(Code::DocumentNotFound, "No document with this id is stored.");
    let recipe = service.options.defaults.recipe;
    Ok(Json(DocumentReply::new(stored.ok_or_else(missing)?, recipe)))
}

async fn remove(
    service: &Service,
    reach: &Reach,
    id: DocumentId,
) -> Result<Json<RemovedReply>, Problem> {
    reach.check(None)?;
    let removed = service.engine.remove(id).await?;
    metrics::written(metrics::WriteOutcome::Removed, removed.documents);
    Ok(Json(removed.into()))
}

fn id_of_path(uri: &Uri) -> Result<DocumentId, Problem> {
    // Decoded here, because axum's extractors report bad UTF-8 in a format of their own.
    let encoded = uri.path().rsplit('/').next().unwrap_or_default();
    let id = percent_decode_str(encoded).decode_utf8();
    let id = id.map_err(|_| Problem::invalid("id", "id must be percent-encoded UTF-8."))?;
    Ok(DocumentId::new(id)?)
}

fn id_of_query(request: &Request) -> Result<DocumentId, Problem> {
    let parameters: IdParameter = parameters::read(request.uri().query())?;
    let detail = "Name the document: /v1/documents/{id}, percent-encoded, or ?id=.";
    parameters.id.map(|id| id.0).ok_or_else(|| Problem::invalid("id", detail))
}
