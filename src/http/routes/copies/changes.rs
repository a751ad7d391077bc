//! `/v1/changes`: what has changed since, for followers.

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use nearprint_engine::document::Sequence;
use nearprint_engine::following::{Changes, ChangesEnd, FollowerPosition};
use nearprint_wire::fields;
use nearprint_wire::offer::FieldKind;

use crate::http::description::PackedBody;
use crate::http::problem::{Code, Problem};
use crate::http::request::caller::client_of;
use crate::http::request::{parameters, schema};
use crate::http::service::HttpService;

fields! {
    /// Where a follower is.
    pub(crate) struct ChangesParameters {
        /// The last change that the follower has.
        after: u64 [FieldKind::Whole(0, u64::MAX >> 1)],
        /// The checksum of the record of this change, 16 hex digits: a primary with another one has
        /// another history (409).
        record: Box<str> [FieldKind::Form("^[0-9a-f]{16}$")],
    }
}

/// Send what has changed since, for a follower.
///
/// For administrators only: it contains every id. The messages have the form that
/// docs/disk-format.md describes, each after its length in four bytes. The reply does not end: it
/// waits for the next change, and says every second that there is none. It has a place among
/// `server.exports_max`.
#[utoipa::path(get, path = "/v1/changes", tag = "operations",
    params(ChangesParameters),
    responses((status = 200, description = "The changes", body = PackedBody,
        content_type = "application/octet-stream")))]
pub(crate) async fn get_changes(
    State(http): State<Arc<HttpService>>,
    request: Request,
) -> Result<Response, Problem> {
    let parameters: ChangesParameters = parameters::read(request.uri().query())?;
    let position = position(&parameters)?;
    let place = http.exports.take(client_of(request.extensions()))?;
    let engine = http.service.engine().clone();
    let begun = tokio::task::spawn_blocking(move || engine.changes(&position)).await;
    let begun =
        begun.map_err(|fault| Problem::internal(format!("reading the journal: {fault}")))?;
    let changes = begun.map_err(ended)?;
    let pieces = futures_util::stream::unfold((changes, http), async |(mut changes, http)| {
        let message = next(&mut changes, &http).await.transpose()?;
        Some((message, (changes, http)))
    });
    // A cut is noticed; the follower asks again.
    let cut = |_: Problem| Err(io::ErrorKind::TimedOut.into());
    Ok(place.respond("application/octet-stream", Box::pin(pieces), cut))
}

/// The next message; `None` when the service stops.
async fn next(changes: &mut Changes, http: &HttpService) -> io::Result<Option<axum::body::Bytes>> {
    let message = tokio::select! {
        message = changes.next() => message,
        () = http.stopped() => return Ok(None),
    };
    message.map(|message| Some(message.into())).map_err(io::Error::other)
}

fn position(parameters: &ChangesParameters) -> Result<FollowerPosition, Problem> {
    let Some(after) = parameters.after else {
        return Err(Problem::invalid("after", "after is missing: the last change that is there."));
    };
    let record = parameters.record.as_deref().map(|digits| {
        let is_form = digits.len() == 16 && !digits.contains('+');
        let read = if is_form { u64::from_str_radix(digits, 16).ok() } else { None };
        read.ok_or_else(|| Problem::invalid("record", "record must have 16 hex digits."))
    });
    Ok(FollowerPosition { sequence: Sequence::new(after), record: record.transpose()? })
}

fn ended(end: ChangesEnd) -> Problem {
    match end {
        ChangesEnd::Diverged(why) => Problem::new(Code::Diverged, format!("{why}.")),
        ChangesEnd::Packed(after) => Problem::new(
            Code::ChangesPacked,
            format!(
                "The files with the changes after {after} are packed: what was removed is no longer \
                 in them. Begin again with an export."
            ),
        ),
        ChangesEnd::Refused(refused) => refused.into(),
    }
}

schema::describe! { parameters ChangesParameters }
