//! `GET /v1/documents`: lists documents by pages, or all of them as one stream.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::Client;

use crate::http::budget;
use crate::http::description::DocumentLines;
use crate::http::problem::Problem;
use crate::http::reply::documents::{DocumentsReply, Showing};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{ListParameters, page_limit};
use crate::http::request::{body, parameters};
use crate::http::routes::documents::stream;
use crate::http::service::Service;
use crate::http::shares::client_of;

/// List documents, oldest first.
///
/// With `Accept: application/x-ndjson`: all of them from `after` on as one stream, as of now, one
/// document a line, and a blank line after each second in which it finds none. If the stream fails,
/// its last line is an error. At most `server.exports_max` streams and exports run at one time; a
/// further one takes the place of one whose client has read nothing for `server.export_stall_ms`,
/// or of one of the client that has most, or gets 503.
///
/// A page ends when it has looked at `engine.list_scan_max` documents: with a prefix it may have
/// few documents, or none, although `next` is given.
#[utoipa::path(get, path = "/v1/documents", tag = "documents",
    params(ListParameters),
    responses((status = 200, description = "A page, or a stream", content(
        (DocumentsReply<'_> = "application/json"), (DocumentLines = "application/x-ndjson")))))]
pub(crate) async fn get_documents(
    State(service): State<Arc<Service>>,
    reach: NamespaceAccess,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: ListParameters = parameters::read(request.uri().query())?;
    if body::accepts_ndjson(request.headers()) {
        return stream::respond(&service, &parameters, &reach, client_of(request.extensions()));
    }
    page(&service, &client_of(request.extensions()), &parameters, &reach).await
}

async fn page(
    service: &Service,
    client: &Client,
    parameters: &ListParameters,
    reach: &NamespaceAccess,
) -> Result<Response, Problem> {
    let (limit, query) = (page_limit(parameters.limit)?, parameters.query(reach, &service.cipher)?);
    let parts = parameters.include.unwrap_or_default();
    let is_searched = query.prefix.is_some();
    let (bytes_max, share) = if is_searched {
        service.replies.searched_page(client)
    } else {
        service.replies.page(client)
    };
    let engine = service.engine.on_behalf_of(client.clone());
    let list = ListParameters::list(&query.reach, query.prefix.as_deref());
    let page = engine.list(query, parts.page(limit, bytes_max)).await?;
    let recipe = service.options.defaults.recipe;
    let showing = Showing { parts, recipe, reach: reach.clone() };
    let next = page.next.map(|next| service.cipher.encrypt(&list, next));
    Ok(budget::page(&DocumentsReply::new(&page, &showing, next), share))
}
