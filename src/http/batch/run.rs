//! The beginning of every batch: checks the head of the request and chooses how it is answered.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;

use crate::http::batch::context::{Batch, Operation};
use crate::http::batch::unordered::LineSource;
use crate::http::batch::{ndjson, packed};
use crate::http::budget::{ByteBudget, OWN_BYTES};
use crate::http::problem::Problem;
use crate::http::request::body::{self, ContentKind};
use crate::http::request::lifetime::Lifetime;
use crate::http::request::prepare;
use crate::http::request::reach::NamespaceAccess;
use crate::http::service::Service;

/// Answers a batch of either type.
pub(crate) async fn run(
    service: Arc<Service>,
    operation: Operation,
    request: Request,
) -> Result<Response, Problem> {
    let (head, stream) = request.into_parts();
    let defaults = operation.request().batch_parameters(head.uri.query())?;
    // A default that is wrong for every line refuses the batch.
    let setting = service.setting();
    let query = prepare::query_options(&defaults, true, &setting.defaults)?;
    let lifetime = Lifetime::of(&defaults, &setting.defaults, setting.now_ms)?;
    let kind = body::kind(&head.headers, operation.takes())?;
    if operation.writes() {
        service.accepts_writes()?;
    }
    let batch = Batch {
        service,
        operation,
        options: defaults,
        lifetime,
        reach: NamespaceAccess::of(&head.extensions),
        own: ByteBudget::new(OWN_BYTES),
    };
    match (kind, operation) {
        (ContentKind::Ndjson, _) => Ok(ndjson::respond(batch, LineSource::Lines(stream))),
        (ContentKind::Packed, Operation::Query | Operation::Insert | Operation::CheckAndInsert) => {
            packed::run(batch, query, &head.headers, stream).await
        }
        (
            ContentKind::Packed
            | ContentKind::Json
            | ContentKind::Text(_)
            | ContentKind::Html(_)
            | ContentKind::Xhtml(_),
            _,
        ) => Err(body::unsupported(format!("A batch comes as {}.", operation.takes()))),
    }
}
