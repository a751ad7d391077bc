//! `/v1/documents/{id}`: shows and removes the document with an id.
//!
//! An id is usually a URL, so it is percent-encoded in the path.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use nearprint_engine::document::{DocumentId, Namespace};
use nearprint_service::answers;
use nearprint_wire::answer::{DocumentReply, RemovedReply};

use crate::http::problem::Problem;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::selection::{IdInPath, NamespaceParameter, last_of_path};
use crate::http::service::HttpService;
use crate::metrics;

/// Show what is stored under an id.
#[utoipa::path(get, path = "/v1/documents/{id}", tag = "documents",
    params(IdInPath, NamespaceParameter),
    responses((status = 200, description = "The document", body = DocumentReply<'_>)))]
pub(crate) async fn get_document(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let (namespace, id) = of_path(&request)?;
    let (stored, touch) = http.service.document(&caller, (namespace.as_ref(), &id)).await?;
    let shown = (http.service.recipe(), &caller.namespaces);
    Ok(Json(answers::single(&stored, touch, shown)).into_response())
}

/// Remove the document with an id.
///
/// Succeeds with `"removed": 0` if there is none, so that it may be retried.
#[utoipa::path(delete, path = "/v1/documents/{id}", tag = "documents",
    params(IdInPath, NamespaceParameter),
    responses((status = 200, description = "How many documents were removed", body = RemovedReply)))]
pub(crate) async fn delete_document(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Json<RemovedReply>, Problem> {
    let removed = http.service.remove(&caller, of_path(&request)?).await?;
    metrics::written(metrics::WriteOutcome::Removed, removed.documents);
    Ok(Json(answers::removed(removed, &caller.namespaces)))
}

/// The document that a path with its query string names.
fn of_path(request: &Request) -> Result<(Option<Namespace>, DocumentId), Problem> {
    let parameters: NamespaceParameter = parameters::read(request.uri().query())?;
    let id = DocumentId::new(last_of_path(request.uri(), "id")?)?;
    Ok((parameters.namespace, id))
}
