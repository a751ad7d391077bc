//! `/v1/snapshots`: takes a snapshot, lists those on disk, and exports everything as one stream.

use std::io::{self, Write};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::Export;
use nearprint_service::answers;
use nearprint_wire::answer::{SnapshotReply, SnapshotsReply};

use crate::http::description::PackedBody;
use crate::http::problem::Problem;
use crate::http::reply::streamed::{self, ReplyPieces};
use crate::http::request::caller::client_of;
use crate::http::request::parameters::NoParameters;
use crate::http::service::HttpService;

/// Take a snapshot now.
///
/// The reply comes once the snapshot is on disk and verified. The body of the request is not read.
#[utoipa::path(post, path = "/v1/snapshots", tag = "operations",
    responses((status = 200, description = "The new snapshot", body = SnapshotReply)))]
pub(crate) async fn post_snapshot(
    State(http): State<Arc<HttpService>>,
    _: NoParameters,
) -> Result<Json<SnapshotReply>, Problem> {
    Ok(Json(answers::snapshot(&http.service.engine().snapshot().await?)))
}

/// List the snapshots on disk.
#[utoipa::path(get, path = "/v1/snapshots", tag = "operations",
    responses((status = 200, description = "The snapshots on disk", body = SnapshotsReply)))]
pub(crate) async fn get_snapshots(
    State(http): State<Arc<HttpService>>,
    _: NoParameters,
) -> Json<SnapshotsReply> {
    let snapshots = http.service.engine().snapshots();
    Json(SnapshotsReply { snapshots: snapshots.iter().map(answers::snapshot).collect() })
}

/// Export everything as one checksummed stream.
///
/// For administrators only: it contains every id and the secrets of the directory. The service
/// takes a snapshot and sends it with all records up to now; writes continue meanwhile. The
/// checksums of a stream that was cut off do not match: `nearprint snapshot verify --export FILE`.
/// At most `server.exports_max` exports and streams of documents run at one time; a further one
/// takes the place of one whose client has read nothing for five seconds, or gets 503.
#[utoipa::path(get, path = "/v1/snapshots/export", tag = "operations",
    responses((status = 200, description = "The export", body = PackedBody,
        content_type = "application/octet-stream")))]
pub(crate) async fn get_export(
    State(http): State<Arc<HttpService>>,
    _: NoParameters,
    request: Request,
) -> Result<Response, Problem> {
    let place = http.exports.take(client_of(request.extensions()))?;
    let export = http.service.engine().export().await?;
    let pieces = streamed::written_by_thread(move |pieces| send(&export, pieces))?;
    // A cut is noticed; the format has no place for a reason.
    let cut = |_: Problem| Err(io::ErrorKind::TimedOut.into());
    Ok(place.respond("application/octet-stream", pieces, cut))
}

fn send(export: &Export, pieces: &ReplyPieces) {
    // A client that leaves is no failure. Any other error cuts the stream off, which its reader
    // notices.
    if let Err(error) = export.write(&mut Written(pieces))
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        tracing::error!(%error, "an export was cut");
        pieces.cut(error);
    }
}

/// Sends what is written to it.
struct Written<'a>(&'a ReplyPieces);

impl Write for Written<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.send(bytes.to_vec()) {
            Ok(bytes.len())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
