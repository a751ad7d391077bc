//! `GET /v1/originals`: the documents with the most duplicates.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::{OriginalsOrder, OriginalsQuery};

use crate::http::budget;
use crate::http::description::Problems;
use crate::http::problem::Problem;
use crate::http::reply::documents::OriginalsReply;
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{
    OriginalsCursor, OriginalsParameters, SelectionParts, namespaces, page_limit,
};
use crate::http::service::Service;

/// List the documents with the most duplicates.
///
/// Those that a check-and-insert named as the original of a duplicate. The counts are approximate
/// after a crash, which loses what was counted since the last snapshot.
#[utoipa::path(get, path = "/v1/originals", tag = "documents",
    params(OriginalsParameters),
    responses((status = 200, description = "A page", body = OriginalsReply<'_>), Problems))]
pub(crate) async fn get_originals(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: OriginalsParameters = parameters::read(request.uri().query())?;
    let limit = page_limit(parameters.limit)?;
    let order = parameters.order.unwrap_or(OriginalsOrder::Duplicates);
    let reach = namespaces(parameters.namespace, parameters.all_namespaces, &reach)?;
    let after = parameters.after.map(|OriginalsCursor(number, sequence)| (number, sequence));
    let parts = SelectionParts::from(parameters.include);
    let (bytes_max, share) = service.replies.page();
    let query = OriginalsQuery { reach, order, after };
    let page = service.engine.originals(query, parts.page(limit, bytes_max)).await?;
    let recipe = service.options.defaults.recipe;
    Ok(budget::page(&OriginalsReply::new(&page, parts, recipe), share))
}
