//! `/v1/delete/batch`: removes the documents with many ids.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use nearprint_engine::Admission;
use nearprint_engine::document::{DocumentId, Namespace};
use nearprint_service::{AllowedNamespaces, answers, budget};

use crate::http::batch::replies::last_line;
use crate::http::description::{RemovalLines, RemovedLines};
use crate::http::problem::{Code, Problem};
use crate::http::request::body::{self, ContentKind};
use crate::http::request::caller::CalledBy;
use crate::http::request::selection::{NamedDocument, NamespaceParameter};
use crate::http::request::{json, parameters};
use crate::http::service::HttpService;
use crate::lines::{LineCutter, StreamLine};
use crate::metrics;

/// The largest number of documents that a request names: all replies are in memory together.
const IDS_MAX: usize = 10_000;

const TAKES: &str = "application/x-ndjson";

type Named = (Option<Namespace>, DocumentId);

/// Remove the documents with many ids.
///
/// NDJSON: one document a line, at most 10,000, and one reply a line. Removing what is not stored
/// succeeds with `"removed": 0`, so that it may be retried.
#[utoipa::path(post, path = "/v1/delete/batch", tag = "batches",
    params(NamespaceParameter),
    request_body(content((RemovalLines = "application/x-ndjson"))),
    responses((status = 200, description = "A reply for each line, in their order", content(
        (RemovedLines = "application/x-ndjson")))))]
pub(crate) async fn post_delete_batch(
    State(http): State<Arc<HttpService>>,
    CalledBy(caller): CalledBy,
    request: Request,
) -> Result<Response, Problem> {
    let (head, stream) = request.into_parts();
    let NamespaceParameter { namespace } = parameters::read(head.uri.query())?;
    if body::kind(&head.headers, TAKES)? != ContentKind::Ndjson {
        return Err(body::unsupported(format!("This resource takes {TAKES}.")));
    }
    let body = body::read(&http.bodies, &caller.client, stream).await?;
    let lines = lines(&http, &body.bytes)?;
    let reach = &caller.namespaces;
    // All are in the queue of the writer before the first sync is waited for.
    let mut begun = Vec::with_capacity(lines.len());
    for line in lines {
        let removal = match named(&line, namespace.as_ref(), reach) {
            Ok((namespace, id)) => {
                http.service.engine().begin_remove(namespace, id, Admission::Wait).await
            }
            Err(problem) => {
                begun.push((line.number, Err(problem)));
                continue;
            }
        };
        begun.push((line.number, removal.map_err(Problem::from)));
    }
    let mut reply = Vec::new();
    for (number, removal) in begun {
        let removed = match removal {
            Ok(pending) => pending.wait().await.map_err(Problem::from),
            Err(problem) => Err(problem),
        };
        match removed {
            Ok(removed) => {
                metrics::written(metrics::WriteOutcome::Removed, removed.documents);
                let line = serde_json::to_vec(&answers::removed(removed, reach));
                reply.extend(line.expect("replies are JSON"));
                reply.push(b'\n');
            }
            Err(problem) => reply.extend(last_line(&problem.at_line(number))),
        }
    }
    let share = http.service.replies().ahead(reply.len());
    let mut response = Response::new(Body::from(budget::counted(reply, share)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TAKES));
    Ok(response)
}

/// The lines of the body, unless there are too many.
fn lines(http: &HttpService, body: &Bytes) -> Result<Vec<StreamLine>, Problem> {
    let mut cutter = LineCutter::new(http.options.line_bytes_max);
    let mut lines = cutter.push(body.clone());
    lines.extend(cutter.finish());
    if lines.len() <= IDS_MAX {
        return Ok(lines);
    }
    let detail = format!(
        "A request removes at most {IDS_MAX} documents by their ids; this one names {}. Nothing was \
         removed. By namespace, prefix or age there is POST /v1/purge.",
        lines.len()
    );
    Err(Problem::new(Code::BodyTooLarge, detail))
}

/// The document that a line names, if the request may reach it.
fn named(
    line: &StreamLine,
    default: Option<&Namespace>,
    reach: &AllowedNamespaces,
) -> Result<Named, Problem> {
    let too_large = || Problem::new(Code::LineTooLarge, "The line is above server.line_bytes_max.");
    let json = line.bytes.as_ref().ok_or_else(too_large)?;
    let NamedDocument { id, namespace } = json::read(json)?;
    let id =
        id.ok_or_else(|| Problem::invalid("id", "A line names the document: {\"id\": ...}."))?;
    let namespace = namespace.or_else(|| default.cloned());
    reach.check(namespace.as_ref().map(Namespace::as_str))?;
    Ok((namespace, id))
}
