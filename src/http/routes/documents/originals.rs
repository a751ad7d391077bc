//! `GET /v1/originals`: the documents with the most duplicates.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::OriginalsOrder;
use nearprint_service::{answers, budget};
use nearprint_wire::answer::OriginalsReply;

use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::parameters;
use crate::http::request::selection::{OriginalsParameters, ShownParts, namespaces, page_request};
use crate::http::service::HttpService;

/// List the documents with the most duplicates.
///
/// Those that a check-and-insert named as the original of a duplicate. The counts are approximate
/// after a crash, which loses what was counted since the last snapshot.
#[utoipa::path(get, path = "/v1/originals", tag = "documents",
    params(OriginalsParameters),
    responses((status = 200, description = "A page", body = OriginalsReply<'_>)))]
pub(crate) async fn get_originals(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: OriginalsParameters = parameters::read(request.uri().query())?;
    let OriginalsParameters { order, namespace, all_namespaces, after, limit, include } =
        parameters;
    let page = page_request(after.as_ref(), limit)?;
    let order = order.unwrap_or(OriginalsOrder::Duplicates);
    let chosen = namespaces(namespace, all_namespaces, &caller.namespaces)?;
    let parts = ShownParts::from(include).0;
    let listed = http.service.originals(&caller, (chosen, order), (page, parts)).await?;
    let showing = http.service.showing(&caller, parts);
    let reply = answers::originals(&listed.page, listed.next, &showing);
    Ok(reply::json(budget::page(&reply, listed.share)))
}
