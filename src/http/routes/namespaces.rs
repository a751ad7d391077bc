//! `/v1/namespaces`: lists the namespaces that have documents.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_service::{answers, budget};
use nearprint_wire::answer::NamespacesReply;

use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::selection::{PageParameters, page_request};
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
