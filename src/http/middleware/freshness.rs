//! How new the answer to a request that reads must be: `min_sequence` waits for one change, for
//! clients that write to one service and look up in its copy; `min_change` does so for clients with
//! limited tokens, who learn no sequence; `fresh` asks for all changes that were answered before.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use nearprint_engine::document::Sequence;
use nearprint_service::cipher::CursorKind;
use nearprint_wire::fields;
use nearprint_wire::offer::FieldKind;
use tokio::time::timeout;

use crate::http::problem::{Code, Problem};
use crate::http::request::caller::namespaces_of;
use crate::http::request::parameters;
use crate::http::service::HttpService;

/// The longest wait for a change.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// In a request that is passed on: a change that the copy has. In its reply: a change with which
/// the copy has all that the reply rests on. Both are encrypted with the secret that copies of a
/// directory share, so that a client can neither ask nor read: it would learn how much others
/// write.
const CHANGE: HeaderName = HeaderName::from_static("nearprint-change");

/// In the reply to a request that was passed on and is done: this copy does not have it yet. The
/// value is that of [`MIN_CHANGE`] with which a look-up waits for it.
const BEHIND: HeaderName = HeaderName::from_static("nearprint-behind");

fields! {
    /// What every request that reads takes in its query string.
    pub(crate) struct Freshness {
        /// Waits, for a second at most, until this change is seen: the `sequence` of an earlier
        /// reply. For look-ups on a follower or a node.
        min_sequence: u64 [FieldKind::Whole(0, u64::MAX)],
        /// Waits so for the change that the header `nearprint-behind` of an earlier reply names.
        min_change: Box<str> [FieldKind::Text(1, 32)],
        /// Sees every write that any node has answered before: the request is answered by the
        /// leader, or by the primary of a follower that passes requests on.
        fresh: bool [FieldKind::Boolean],
    }
}

impl Freshness {
    /// Reads what a request that reads asks for.
    pub(crate) fn of(request: &Request) -> Result<Self, Problem> {
        let query = request.uri().query().unwrap_or_default();
        let ours: Vec<&str> = query.split('&').filter(|pair| is_ours(pair)).collect();
        if ours.is_empty() {
            return Ok(Self::default());
        }
        let waits = ours.iter().any(|pair| name(pair) == MIN_SEQUENCE);
        if waits && namespaces_of(request.extensions()).is_limited() {
            // It would tell how much others do.
            let detail = "min_sequence needs a token that is not limited to namespaces.";
            return Err(Problem::new(Code::NamespaceNotAllowed, detail).of_field(MIN_SEQUENCE));
        }
        parameters::read(Some(&ours.join("&")))
    }

    /// Whether only the service that decides can answer.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh == Some(true)
    }

    /// Waits until this service sees what the request wants to see, and takes the parameters off
    /// its query string. A fresh answer is asked of the service that decides alone.
    pub(crate) async fn wait(
        self,
        http: &HttpService,
        request: &mut Request,
    ) -> Result<(), Problem> {
        let Self { min_sequence, min_change, fresh } = &self;
        if min_sequence.is_none() && min_change.is_none() && fresh.is_none() {
            return Ok(());
        }
        let change = min_change.as_deref().map(|change| {
            read_change(http, CursorKind::Awaited, change).ok_or_else(|| {
                let detail = "min_change is not the nearprint-behind header of a reply.";
                Problem::new(Code::InvalidValue, detail).of_field(MIN_CHANGE)
            })
        });
        let change = change.transpose()?;
        *request.uri_mut() = without_ours(request.uri())?;
        if self.is_fresh() && http.is_node() {
            http.service.engine().fresh().await.map_err(|refused| {
                let detail = format!("Only the leader can answer this, and {refused}.");
                Problem::new(Code::NoLeader, detail)
            })?;
        }
        if let Some(change) = change
            && timeout(WAIT_MAX, http.service.engine().reached(change)).await.is_err()
        {
            let detail = "The change of min_change has not arrived here within a second.";
            return Err(Problem::new(Code::Behind, detail).of_field(MIN_CHANGE));
        }
        let Some(wanted) = min_sequence.map(Sequence::new) else { return Ok(()) };
        if timeout(WAIT_MAX, http.service.engine().reached(wanted)).await.is_ok() {
            return Ok(());
        }
        let detail = format!(
            "min_sequence is {wanted}, and this service has {} changes after a wait of {} ms.",
            http.service.engine().sequence(),
            WAIT_MAX.as_millis()
        );
        Err(Problem::new(Code::Behind, detail).of_field(MIN_SEQUENCE))
    }
}

/// Tells another copy of this directory a change that this one has: in a request that is passed on,
/// and in the reply to one.
pub(crate) fn tell_change(http: &HttpService, headers: &mut HeaderMap) {
    let change = shown_change(http, CursorKind::Change, http.service.engine().sequence());
    headers.insert(CHANGE, change);
}

fn shown_change(http: &HttpService, kind: CursorKind, change: Sequence) -> HeaderValue {
    let change = http.service.cipher().encrypt(&kind.into(), change.get());
    HeaderValue::from_str(&change).expect("hex digits are visible ASCII")
}

/// Whether a copy of this directory has passed on the request with these headers.
pub(crate) fn comes_from_copy(http: &HttpService, headers: &HeaderMap) -> bool {
    headers.get(CHANGE).is_some_and(|change| told_change(http, change).is_some())
}

/// The change that another copy tells.
fn told_change(http: &HttpService, change: &HeaderValue) -> Option<Sequence> {
    read_change(http, CursorKind::Change, change.to_str().ok()?)
}

fn read_change(http: &HttpService, kind: CursorKind, change: &str) -> Option<Sequence> {
    let change = http.service.cipher().decrypt(&kind.into(), change)?;
    Some(Sequence::new(u64::try_from(change).ok()?))
}

/// Waits until this service has what the reply to a request rests on that it has passed on, so that
/// its client sees there what it has written. The reply says so if it does not have it: a copy that
/// is far behind does not wait, and one that falls behind not for long.
pub(crate) async fn catch_up(http: &HttpService, response: &mut Response) {
    let Some(change) = response.headers_mut().remove(CHANGE) else { return };
    let Some(change) = told_change(http, &change) else { return };
    let engine = http.service.engine();
    let waits = if http.is_level() { WAIT_MAX } else { Duration::ZERO };
    if timeout(waits, engine.reached(change)).await.is_err() {
        let awaited = shown_change(http, CursorKind::Awaited, change);
        response.headers_mut().insert(BEHIND, awaited);
    }
}

const MIN_SEQUENCE: &str = "min_sequence";
const MIN_CHANGE: &str = "min_change";

fn name(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

fn is_ours(pair: &str) -> bool {
    matches!(name(pair), MIN_SEQUENCE | MIN_CHANGE | "fresh")
}

/// The same address without these parameters.
fn without_ours(uri: &Uri) -> Result<Uri, Problem> {
    let (path, query) = (uri.path(), uri.query().unwrap_or_default());
    let others: Vec<&str> = query.split('&').filter(|pair| !is_ours(pair)).collect();
    let query = others.join("&");
    let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let mut parts = uri.clone().into_parts();
    let malformed = |_| Problem::internal("a part of the URI is malformed");
    parts.path_and_query = Some(path.parse().map_err(malformed)?);
    Uri::from_parts(parts).map_err(|_| Problem::internal("the rest of the URI is malformed"))
}
