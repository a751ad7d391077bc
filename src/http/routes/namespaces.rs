//! `/v1/namespaces`: lists the namespaces that have documents, and removes one with all of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use nearprint_engine::Purge;
use nearprint_engine::document::Namespace;

use crate::http::budget;
use crate::http::cipher::Kind;
use crate::http::problem::Problem;
use crate::http::reply::documents::NamespacesReply;
use crate::http::reply::jobs::JobReply;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{
    Cursor, NamespaceInPath, PageParameters, last_of_path, page_limit,
};
use crate::http::service::Service;
use crate::http::shares::client_of;

/// List the namespaces that have documents.
///
/// In the order in which they began; only those that the token reaches.
#[utoipa::path(get, path = "/v1/namespaces", tag = "namespaces",
    params(PageParameters),
    responses((status = 200, description = "A page of the namespaces",
        body = NamespacesReply<'_>)))]
pub(crate) async fn get_namespaces(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: PageParameters = parameters::read(request.uri().query())?;
    let (bytes_max, share) = service.replies.page(&client_of(request.extensions()));
    let limit = page_limit(parameters.limit)?.min(bytes_max / NamespacesReply::BYTES_EACH).max(1);
    let list = Kind::Namespaces.into();
    let after = Cursor::decrypted(parameters.after.as_ref(), &list, &service.cipher)?;
    let default_documents = reach.admits(None).then(|| service.engine.documents_in(None));
    let admits = move |name: &str| reach.admits(Some(name));
    let engine = service.engine_for(request.extensions());
    let page = engine.namespaces(after, limit, admits).await?;
    let next = page.next.map(|next| service.cipher.encrypt(&list, next));
    Ok(budget::page(&NamespacesReply::new(&page, default_documents, next), share))
}

/// Remove a namespace with all its documents.
///
/// Begins a job, which removes the documents that are stored now.
#[utoipa::path(delete, path = "/v1/namespaces/{name}", tag = "namespaces",
    params(NamespaceInPath),
    responses((status = 202, description = "The job", body = JobReply)))]
pub(crate) async fn delete_namespace(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let NoParameters {} = parameters::read(request.uri().query())?;
    let namespace = Namespace::new(last_of_path(request.uri(), "namespace")?)?;
    reach.check(Some(namespace.as_str()))?;
    let removed = nearprint_engine::NamespaceFilter::Namespace(Some(namespace));
    let purge = Purge { reach: removed, prefix: None, stored_before_ms: None, dry_run: false };
    let job = service.engine_for(request.extensions()).begin_purge(purge).await?;
    Ok((StatusCode::ACCEPTED, Json(JobReply::new(job, &service.cipher, &reach))))
}
