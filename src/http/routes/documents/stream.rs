//! All documents of a selection as one stream of lines, as of one moment, in constant memory.

use std::io;

use axum::body::Bytes;
use axum::response::Response;
use nearprint_engine::{DocumentStream, PageOptions};
use nearprint_text::Recipe;

use crate::http::batch::replies::last_line;
use crate::http::problem::Problem;
use crate::http::reply::documents::DocumentReply;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{ListParameters, SelectionParts};
use crate::http::service::Service;

/// The bytes of the lines that are made and sent at one time.
const PIECE_BYTES: usize = 64 << 10;

/// The most documents of a piece.
const PIECE_DOCUMENTS: usize = 1_000;

/// Streams the documents that a request chooses.
pub(super) fn respond(
    service: &Service,
    parameters: &ListParameters,
    reach: &NamespaceAccess,
) -> Result<Response, Problem> {
    if parameters.limit.is_some() {
        let detail = "A stream has no limit; without Accept: application/x-ndjson there are pages.";
        return Err(Problem::invalid("limit", detail));
    }
    let query = parameters.query(reach)?;
    let parts = parameters.include.unwrap_or_default();
    let place = service.exports.take()?;
    let documents = service.engine.stream(query);
    let recipe = service.options.defaults.recipe;
    let next = move |documents| lines(documents, parts, recipe);
    let lines = futures_util::stream::unfold(Some(documents), next);
    let last = |problem: Problem| Ok(Bytes::from(last_line(&problem)));
    Ok(place.respond("application/x-ndjson", Box::pin(lines), last))
}

/// The next lines of a stream; after an error the last one.
async fn lines(
    documents: Option<DocumentStream>,
    parts: SelectionParts,
    recipe: Recipe,
) -> Option<(io::Result<Bytes>, Option<DocumentStream>)> {
    let mut documents = documents?;
    let options: PageOptions = parts.page(PIECE_DOCUMENTS, PIECE_BYTES);
    let read = match documents.next_piece(options).await {
        Ok(read) if read.is_empty() => return None,
        Ok(read) => read,
        Err(refused) => return Some((Ok(last_line(&refused.into()).into()), None)),
    };
    let mut lines = Vec::with_capacity(PIECE_BYTES);
    for stored in &read {
        let line = DocumentReply::listed(stored, parts, recipe);
        serde_json::to_writer(&mut lines, &line).expect("replies are JSON");
        lines.push(b'\n');
    }
    Some((Ok(lines.into()), Some(documents)))
}
