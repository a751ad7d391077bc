//! All documents of a selection as one stream of lines, as of one moment, in constant memory.

use axum::response::Response;
use nearprint_engine::DocumentStream;

use crate::http::batch::replies::last_line;
use crate::http::problem::Problem;
use crate::http::reply::documents::DocumentReply;
use crate::http::reply::streamed::{self, ReplyPieces};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::{ListParameters, SelectionParts};
use crate::http::service::Service;

/// Lines are sent once they fill this.
const PIECE_BYTES: usize = 128 << 10;

/// Documents that are read at one time. With ids and metadata of the largest size they take a
/// megabyte.
const DOCUMENTS_READ: usize = 16;

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
    let permit = service.export_permit()?;
    let documents = service.engine.stream(query);
    streamed::respond(permit, "application/x-ndjson", move |pieces| send(documents, parts, pieces))
}

/// Sends the lines until the end, or until the client is gone.
fn send(mut documents: DocumentStream, parts: SelectionParts, pieces: &ReplyPieces) {
    let mut lines = Vec::with_capacity(PIECE_BYTES);
    loop {
        let read = match documents.next_documents(DOCUMENTS_READ) {
            Ok(read) => read,
            Err(refused) => {
                lines.extend(last_line(&refused.into()));
                break;
            }
        };
        if read.is_empty() {
            break;
        }
        for stored in &read {
            let line = DocumentReply::listed(stored, parts);
            serde_json::to_writer(&mut lines, &line).expect("replies are JSON");
            lines.push(b'\n');
        }
        if lines.len() >= PIECE_BYTES {
            let full = std::mem::replace(&mut lines, Vec::with_capacity(PIECE_BYTES));
            if !pieces.send(full) {
                return;
            }
        }
    }
    if !lines.is_empty() {
        pieces.send(lines);
    }
}
