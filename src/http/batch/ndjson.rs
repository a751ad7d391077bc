//! A batch with one reply a line: its three tasks, and the stream that they write to.

use std::sync::{Arc, LazyLock};
use std::thread;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::http::batch::context::Batch;
use crate::http::batch::unordered::LineSource;
use crate::http::batch::{ordered, unordered};

/// Pieces of the body that each batch prepares at one time: one a core, and at least four.
static CHUNKS_AHEAD: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(0, usize::from).max(4));

/// Writes of one batch that wait for their sync at one time.
const PENDING_MAX: usize = 4_096;

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Starts the tasks and replies with the stream that they write to.
pub(crate) fn respond(batch: Batch, source: LineSource) -> Response {
    let batch = Arc::new(batch);
    let (to_run, chunks) = mpsc::channel(*CHUNKS_AHEAD);
    let (to_reply, slots) = mpsc::channel(PENDING_MAX);
    let (to_client, pieces) = mpsc::channel(2);
    // Each task ends when the one after it is gone, the last one when the client is gone.
    drop(tokio::spawn(unordered::read(Arc::clone(&batch), source, to_run)));
    drop(tokio::spawn(ordered::run(Arc::clone(&batch), chunks, to_reply)));
    drop(tokio::spawn(ordered::reply(batch, slots, to_client)));
    let pieces = stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece, pieces))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, NDJSON);
    response
}
