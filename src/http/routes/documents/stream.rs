//! All documents of a selection as one stream of lines, as of one moment, in constant memory. A
//! search that finds nothing for a while sends blank lines.

use std::io;

use axum::body::Bytes;
use axum::response::Response;
use nearprint_engine::{Client, DocumentStream, PageOptions};

use crate::http::batch::replies::last_line;
use crate::http::problem::Problem;
use crate::http::reply::documents::{DocumentReply, Showing};
use crate::http::reply::streamed::with_blank_lines;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::ListParameters;
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
    client: Client,
) -> Result<Response, Problem> {
    if parameters.limit.is_some() {
        let detail = "A stream has no limit; without Accept: application/x-ndjson there are pages.";
        return Err(Problem::invalid("limit", detail));
    }
    let query = parameters.query(reach, &service.cipher)?;
    let parts = parameters.include.unwrap_or_default();
    let place = service.exports.take(client.clone())?;
    let documents = service.engine.on_behalf_of(client).stream(query);
    let recipe = service.options.defaults.recipe;
    let showing = Showing { parts, recipe, reach: reach.clone() };
    let lines = futures_util::stream::unfold(Some((documents, showing)), lines);
    let lines = with_blank_lines(Box::pin(lines));
    let last = |problem: Problem| Ok(Bytes::from(last_line(&problem)));
    Ok(place.respond("application/x-ndjson", lines, last))
}

/// The documents of a stream that are left, and how they are shown.
type Left = (DocumentStream, Showing);

/// The next lines of a stream; after an error the last one.
async fn lines(left: Option<Left>) -> Option<(io::Result<Bytes>, Option<Left>)> {
    let (mut documents, showing) = left?;
    let options: PageOptions = showing.parts.page(PIECE_DOCUMENTS, PIECE_BYTES);
    let read = match documents.next_piece(options).await {
        Ok(read) if read.is_empty() => return None,
        Ok(read) => read,
        Err(refused) => return Some((Ok(last_line(&refused.into()).into()), None)),
    };
    let mut lines = Vec::with_capacity(PIECE_BYTES);
    for stored in &read {
        let line = DocumentReply::listed(stored, &showing);
        serde_json::to_writer(&mut lines, &line).expect("replies are JSON");
        lines.push(b'\n');
    }
    Some((Ok(lines.into()), Some((documents, showing))))
}
