//! All documents of a selection as one stream of lines, as of one moment, in constant memory. A
//! search that finds nothing for a while sends blank lines.

use std::io;

use axum::body::Bytes;
use axum::response::Response;
use nearprint_service::{Caller, DocumentLines};

use crate::http::batch::replies::last_line;
use crate::http::problem::Problem;
use crate::http::reply::streamed::with_blank_lines;
use crate::http::request::selection::{Cursor, ListParameters};
use crate::http::service::HttpService;

/// Streams the documents that a request chooses.
pub(super) fn respond(
    http: &HttpService,
    parameters: &ListParameters,
    caller: &Caller,
) -> Result<Response, Problem> {
    if parameters.limit.is_some() {
        let detail = "A stream has no limit; without Accept: application/x-ndjson there are pages.";
        return Err(Problem::invalid("limit", detail));
    }
    let selected = parameters.selected(&caller.namespaces)?;
    let after = parameters.after.as_ref().map(Cursor::text);
    let parts = parameters.include.unwrap_or_default().0;
    let documents = http.service.document_lines(caller, (selected, after), parts)?;
    let place = http.exports.take(caller.client.clone())?;
    let lines = futures_util::stream::unfold(Some(documents), lines);
    let lines = with_blank_lines(Box::pin(lines));
    let last = |problem: Problem| Ok(Bytes::from(last_line(&problem)));
    Ok(place.respond("application/x-ndjson", lines, last))
}

/// The next lines of a stream; after an error the last one.
async fn lines(left: Option<DocumentLines>) -> Option<(io::Result<Bytes>, Option<DocumentLines>)> {
    let mut documents = left?;
    match documents.next().await {
        Ok(lines) if lines.is_empty() => None,
        Ok(lines) => Some((Ok(lines), Some(documents))),
        Err(refusal) => Some((Ok(last_line(&refusal.into()).into()), None)),
    }
}
