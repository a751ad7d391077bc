//! `/v1/namespaces`: lists the namespaces that have documents, and removes one with all of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use nearprint_engine::document::Namespace;
use nearprint_engine::{NamespaceFilter, Purge};
use nearprint_service::{answers, budget};
use nearprint_wire::answer::{JobReply, NamespacesReply};

use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters::{self, NoParameters};
use crate::http::request::selection::{
    NamespaceInPath, PageParameters, last_of_path, page_request,
};
use crate::http::service::HttpService;

/// List the namespaces that have documents.
///
/// In the order in which they began; only those that the token reaches.
#[utoipa::path(get, path = "/v1/namespaces", tag = "namespaces",
    params(PageParameters),
    responses((status = 200, description = "A page of the namespaces",
        body = NamespacesReply<'_>)))]
pub(crate) async fn get_namespaces(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let PageParameters { after, limit } = parameters::read(request.uri().query())?;
    let page = page_request(after.as_ref(), limit)?;
    let (listed, default_documents) = http.service.namespaces(&caller, page).await?;
    let reply = answers::namespaces(&listed.page, listed.next, default_documents);
    Ok(reply::json(budget::page(&reply, listed.share)))
}

/// Remove a namespace with all its documents.
///
/// Begins a job, which removes the documents that are stored now.
#[utoipa::path(delete, path = "/v1/namespaces/{name}", tag = "namespaces",
    params(NamespaceInPath),
    responses((status = 202, description = "The job", body = JobReply)))]
pub(crate) async fn delete_namespace(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<(StatusCode, Json<JobReply>), Problem> {
    let NoParameters {} = parameters::read(request.uri().query())?;
    let namespace = Namespace::new(last_of_path(request.uri(), "namespace")?)?;
    caller.namespaces.check(Some(namespace.as_str()))?;
    let removed = NamespaceFilter::Namespace(Some(namespace));
    let purge = Purge { reach: removed, prefix: None, stored_before_ms: None, dry_run: false };
    Ok((StatusCode::ACCEPTED, Json(http.service.begin_purge(&caller, purge).await?)))
}
