//! `/v1/documents/{id}`: shows and removes the document with an id.
//!
//! An id is usually a URL, so it is percent-encoded in the path.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use nearprint_engine::document::{DocumentId, Namespace};

use crate::http::problem::{Code, Problem};
use crate::http::reply::documents::{DocumentReply, RemovedReply};
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{IdInPath, NamespaceParameter, last_of_path};
use crate::http::service::Service;
use crate::metrics;

/// Show what is stored under an id.
#[utoipa::path(get, path = "/v1/documents/{id}", tag = "documents",
    params(IdInPath, NamespaceParameter),
    responses((status = 200, description = "The document", body = DocumentReply<'_>)))]
pub(crate) async fn get_document(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let (namespace, id) = of_path(&request)?;
    reach.check(namespace.as_ref().map(Namespace::as_str))?;
    let stored = service.engine.document(namespace.as_ref(), &id).await?;
    let missing = || Problem::new(Code::DocumentNotFound, "No document with this id is stored.");
    let stored = stored.ok_or_else(missing)?;
    let recipe = service.options.defaults.recipe;
    let touch = service.engine.touch(stored.sequence);
    Ok(Json(DocumentReply::single(&stored, recipe, reach).touched(touch)).into_response())
}

/// Remove the document with an id.
///
/// Succeeds with `"removed": 0` if there is none, so that it may be retried.
#[utoipa::path(delete, path = "/v1/documents/{id}", tag = "documents",
    params(IdInPath, NamespaceParameter),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply)))]
pub(crate) async fn delete_document(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Json<RemovedReply>, Problem> {
    let (namespace, id) = of_path(&request)?;
    reach.check(namespace.as_ref().map(Namespace::as_str))?;
    let removed = service.engine.remove(namespace, id).await?;
    metrics::written(metrics::WriteOutcome::Removed, removed.documents);
    Ok(Json(RemovedReply::new(removed, &reach)))
}

/// The document that a path with its query string names.
fn of_path(request: &Request) -> Result<(Option<Namespace>, DocumentId), Problem> {
    let parameters: NamespaceParameter = parameters::read(request.uri().query())?;
    let id = DocumentId::new(last_of_path(request.uri(), "id")?)?;
    Ok((parameters.namespace, id))
}
