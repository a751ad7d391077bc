//! `min_sequence`: a request that reads waits until it sees a change, for clients that write to one
//! service and look up in its copy.

use std::time::Duration;

use axum::extract::Request;
use axum::http::Uri;
use nearprint_engine::document::Sequence;
use nearprint_files::fields;
use nearprint_files::offer::FieldKind;
use tokio::time::timeout;

use crate::http::problem::{Code, Problem};
use crate::http::request::parameters;
use crate::http::request::reach::NamespaceAccess;
use crate::http::service::Service;

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

fields! {
    /// What every request that reads takes in its query string.
    pub(crate) struct MinSequence {
        /// Waits, for a second at most, until this change is seen: the `sequence` of an earlier reply.
        /// For look-ups on a follower.
        min_sequence: u64 [FieldKind::Whole(0, u64::MAX)],
    }
}

/// Waits until the request may read what it wants to see, and takes the parameter off its query string.
pub(crate) async fn wait(service: &Service, request: &mut Request) -> Result<(), Problem> {
    let query = request.uri().query().unwrap_or_default();
    let is_ours =
        |pair: &&str| pair.split_once('=').is_some_and(|(name, _)| name == "min_sequence");
    if !query.split('&').any(|pair| is_ours(&pair)) {
        return Ok(());
    }
    if !NamespaceAccess::of(request.extensions()).is_unlimited() {
        // It would tell how much others do.
        let detail = "min_sequence needs a token that is not limited to namespaces.";
        return Err(Problem::new(Code::NamespaceNotAllowed, detail).of_field("min_sequence"));
    }
    let (ours, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(|pair| is_ours(pair));
    let MinSequence { min_sequence } = parameters::read(Some(&ours.join("&")))?;
    let others = others.join("&");
    *request.uri_mut() = without(request.uri(), &others)?;
    let Some(wanted) = min_sequence.map(Sequence::new) else { return Ok(()) };
    if timeout(WAIT_MAX, service.engine.reached(wanted)).await.is_ok() {
        return Ok(());
    }
    let detail = format!(
        "min_sequence is {wanted}, and this service has {} changes after a wait of {} ms.",
        service.engine.sequence(),
        WAIT_MAX.as_millis()
    );
    Err(Problem::new(Code::Behind, detail).of_field("min_sequence"))
}

/// The same address with another query string.
fn without(uri: &Uri, query: &str) -> Result<Uri, Problem> {
    let path = uri.path();
    let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let mut parts = uri.clone().into_parts();
    let malformed = |_| Problem::internal("a part of the URI is malformed");
    parts.path_and_query = Some(path.parse().map_err(malformed)?);
    Uri::from_parts(parts).map_err(|_| Problem::internal("the rest of the URI is malformed"))
}
