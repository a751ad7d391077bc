//! `/v1/snapshots`: takes a snapshot, lists those on disk, and exports everything as one stream.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use tokio::sync::mpsc;

use crate::engine::Export;
use crate::http::description::{self, Problems};
use crate::http::problem::{Code, Problem};
use crate::http::reply::wire::{SnapshotReply, SnapshotsReply};
use crate::http::request::parameters::NoParameters;
use crate::http::service::Service;

/// Take a snapshot now.
///
/// The reply comes once the snapshot is on disk and verified. The body of the request is not read.
#[utoipa::path(post, path = "/v1/snapshots", tag = "operations",
    responses((status = 200, description = "The new snapshot", body = SnapshotReply), Problems))]
pub(crate) async fn post_snapshot(
    State(service): State<Arc<Service>>,
    _: NoParameters,
) -> Result<Json<SnapshotReply>, Problem> {
    Ok(Json(service.engine.snapshot().await?.into()))
}

/// List the snapshots on disk.
#[utoipa::path(get, path = "/v1/snapshots", tag = "operations",
    responses((status = 200, description = "The snapshots on disk", body = SnapshotsReply),
        Problems))]
pub(crate) async fn get_snapshots(
    State(service): State<Arc<Service>>,
    _: NoParameters,
) -> Json<SnapshotsReply> {
    let snapshots = service.engine.snapshots();
    Json(SnapshotsReply { snapshots: snapshots.into_iter().map(SnapshotReply::from).collect() })
}

/// The maximum number of pieces of an export that wait for a slow client; then the export waits.
const PIECES_MAX: usize = 2;

/// Export everything as one checksummed stream.
///
/// For administrators only: it contains every id and the secrets of the directory. The service
/// takes a snapshot and sends it with all records up to now; writes continue meanwhile. The
/// checksums of a stream that was cut off do not match: `nearprint snapshot verify --export FILE`.
/// At most `server.exports_max` exports run at one time; further ones get 503.
#[utoipa::path(get, path = "/v1/snapshots/export", tag = "operations",
    responses((status = 200, description = "The export", body = description::Packed,
        content_type = "application/octet-stream"), Problems))]
pub(crate) async fn get_export(
    State(service): State<Arc<Service>>,
    _: NoParameters,
) -> Result<impl IntoResponse, Problem> {
    let Ok(permit) = Arc::clone(&service.exports).try_acquire_owned() else {
        let detail = format!(
            "{} exports are running already (server.exports_max). Try again when one is done.",
            service.options.exports_max
        );
        return Err(Problem::new(Code::Overloaded, detail));
    };
    let export = service.engine.export().await?;
    let (pieces, sent) = mpsc::channel(PIECES_MAX);
    // An export waits for its client most of the time. It has a thread of its own, so that look-ups
    // that read records need not wait for it.
    let send = move || {
        send(&export, &pieces);
        drop(permit);
    };
    let thread = thread::Builder::new().name("export".to_owned()).spawn(send);
    thread.map_err(|error| Problem::internal(format!("no thread for an export: {error}")))?;
    let stream = futures_util::stream::unfold(sent, async |mut sent| {
        let piece: io::Result<Bytes> = sent.recv().await?;
        Some((piece, sent))
    });
    Ok(([(CONTENT_TYPE, "application/octet-stream")], Body::from_stream(stream)))
}

fn send(export: &Export, pieces: &mpsc::Sender<io::Result<Bytes>>) {
    // A client that leaves is no failure. Any other error cuts the stream off, which its reader
    // notices.
    if let Err(error) = export.write(&mut Pieces(pieces))
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::error!(%error, "an export was cut");
        drop(pieces.blocking_send(Err(error)));
    }
}

/// Sends what is written to it.
struct Pieces<'a>(&'a mpsc::Sender<io::Result<Bytes>>);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Ok(Bytes::copy_from_slice(bytes));
        self.0.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
