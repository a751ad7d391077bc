//! `GET /v1/documents`: lists documents by pages, or all of them as one stream.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_service::{Caller, answers, budget};
use nearprint_wire::answer::DocumentsReply;

use crate::http::description::DocumentLines;
use crate::http::problem::Problem;
use crate::http::reply;
use crate::http::request::caller::CalledBy;
use crate::http::request::selection::ListParameters;
use crate::http::request::{body, parameters};
use crate::http::routes::documents::stream;
use crate::http::service::HttpService;

/// List documents, oldest first.
///
/// With `Accept: application/x-ndjson`: all of them from `after` on as one stream, as of now, one
/// document a line, and a blank line after each second in which it finds none. If the stream fails,
/// its last line is an error. At most `server.exports_max` streams and exports run at one time; a
/// further one takes the place of one whose client has read nothing for five seconds,
/// or of one of the client that has most, or gets 503.
///
/// A page ends when it has looked at 20,000 documents: with a prefix it may have
/// few documents, or none, although `next` is given.
#[utoipa::path(get, path = "/v1/documents", tag = "documents",
    params(ListParameters),
    responses((status = 200, description = "A page, or a stream", content(
        (DocumentsReply<'_> = "application/json"), (DocumentLines = "application/x-ndjson")))))]
pub(crate) async fn get_documents(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: ListParameters = parameters::read(request.uri().query())?;
    if body::accepts_ndjson(request.headers()) {
        return stream::respond(&http, &parameters, &caller);
    }
    page(&http, &parameters, &caller).await
}

async fn page(
    http: &HttpService,
    parameters: &ListParameters,
    caller: &Caller,
) -> Result<Response, Problem> {
    let service = &http.service;
    let (page, parts) = (parameters.page()?, parameters.include.unwrap_or_default().0);
    let selected = parameters.selected(&caller.namespaces)?;
    let listed = service.documents(caller, selected, (page, parts)).await?;
    let showing = service.showing(caller, parts);
    let reply = answers::documents(&listed.page, listed.next, &showing);
    Ok(reply::json(budget::page(&reply, listed.share)))
}
