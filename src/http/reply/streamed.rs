//! Replies that a thread of their own writes while their client reads: exports and lists of all
//! documents.
//!
//! Such a reply waits for its client most of the time. With a thread of its own, look-ups that read
//! records need not wait for it.

use std::io;
use std::thread;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::http::problem::Problem;

/// The maximum number of pieces that wait for a slow client; then the thread waits.
const PIECES_MAX: usize = 2;

/// Where a thread sends the pieces of its reply.
pub(crate) struct ReplyPieces(mpsc::Sender<io::Result<Bytes>>);

impl ReplyPieces {
    /// Sends a piece, once there is room for it. False when the client is gone.
    pub(crate) fn send(&self, piece: impl Into<Bytes>) -> bool {
        self.0.blocking_send(Ok(piece.into())).is_ok()
    }

    /// Cuts the reply off, which its client notices.
    pub(crate) fn cut(&self, error: io::Error) {
        drop(self.0.blocking_send(Err(error)));
    }
}

/// Replies with what a thread writes, which keeps the permit until it ends.
pub(crate) fn respond(
    permit: OwnedSemaphorePermit,
    content_type: &'static str,
    write: impl FnOnce(&ReplyPieces) + Send + 'static,
) -> Result<Response, Problem> {
    let (pieces, sent) = mpsc::channel(PIECES_MAX);
    let work = move || {
        write(&ReplyPieces(pieces));
        drop(permit);
    };
    let thread = thread::Builder::new().name("export".to_owned()).spawn(work);
    thread.map_err(|error| Problem::internal(format!("no thread for an export: {error}")))?;
    let stream = futures_util::stream::unfold(sent, async |mut sent| {
        let piece: io::Result<Bytes> = sent.recv().await?;
        Some((piece, sent))
    });
    let mut response = Response::new(Body::from_stream(stream));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}
