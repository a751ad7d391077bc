//! The beginning of every batch: what its lines share, and the head of its reply.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, CONTENT_TYPE, EXPECT};
use axum::response::Response;
use nearprint_engine::QueryOptions;
use nearprint_engine::document::Namespace;
use nearprint_service::budget::{ByteBudget, ByteShare, OWN_BYTES};
use nearprint_service::shares::RequestPlace;
use nearprint_service::{AllowedNamespaces, Caller, Lifetime, Operation, prepare};
use nearprint_wire::offer::OfferOptions;
use tokio::sync::{Semaphore, mpsc};

use crate::http::batch::documents::{self, BatchSource};
use crate::http::batch::flow::Flow;
use crate::http::batch::packed;
use crate::http::batch::replies::{self, Reply, Slot};
use crate::http::problem::Problem;
use crate::http::request::body::{self, ContentKind};
use crate::http::request::caller::caller_of;
use crate::http::request::types::{
    CHECK_AND_INSERT, FINGERPRINT, INSERT, Parameters, QUERY, RequestKind,
};
use crate::http::service::HttpService;

/// The requests that its lines are.
pub(super) const fn request_of(operation: Operation) -> &'static RequestKind {
    match operation {
        Operation::Fingerprint => &FINGERPRINT,
        Operation::Query => &QUERY,
        Operation::Insert => &INSERT,
        Operation::CheckAndInsert => &CHECK_AND_INSERT,
    }
}

/// The types of its body, in words for the client.
const fn takes(operation: Operation) -> &'static str {
    match operation {
        Operation::Fingerprint => "application/x-ndjson",
        Operation::Query | Operation::Insert | Operation::CheckAndInsert => {
            "application/x-ndjson or application/octet-stream"
        }
    }
}

/// What all lines of a batch share.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) http: Arc<HttpService>,
    /// Whose it is, and the namespaces that its documents may have.
    pub(crate) caller: Caller,
    pub(crate) operation: Operation,
    /// The query parameters: the defaults of the lines.
    pub(crate) options: OfferOptions,
    /// How long its documents are kept, unless their lines say so.
    pub(crate) lifetime: Lifetime,
    /// The bytes that the batch may keep when the budget of all connections is spent.
    pub(crate) own: ByteBudget,
    /// The permit of the look-up whose reply is finished next.
    pub(crate) turn: Arc<Semaphore>,
    /// When its reply may begin.
    pub(crate) flow: Arc<Flow>,
    /// Its place among the requests that are worked on.
    pub(crate) place: Arc<RequestPlace>,
}

impl Batch {
    /// Refuses a document of a namespace that the batch does not reach. A fingerprint is made
    /// without any stored document, so it concerns no namespace.
    pub(crate) fn check_namespace(&self, namespace: Option<&Namespace>) -> Result<(), Problem> {
        if self.operation == Operation::Fingerprint {
            return Ok(());
        }
        Ok(self.caller.namespaces.check(namespace.map(Namespace::as_str))?)
    }

    /// A share for what the batch keeps until its client has read everything before it. Waits for
    /// the client when both the budget of all connections and that of the batch are spent.
    pub(crate) async fn reserve(&self, bytes: usize) -> ByteShare {
        match self.http.service.replies().ahead(bytes) {
            Some(share) => share,
            None => self.own.take(bytes.min(OWN_BYTES)).await,
        }
    }
}

/// The query parameters of a batch.
struct BatchParameters {
    /// The options of all lines, as they are and as those of look-ups.
    options: OfferOptions,
    look_up: QueryOptions,
    /// How long documents are kept.
    lifetime: Lifetime,
    /// Whether the reply begins before the body has ended.
    early_reply: bool,
}

/// Reads the query parameters of a batch. One that is wrong for every line refuses the batch, as a
/// service does that takes no writes.
fn parameters_of(
    http: &HttpService,
    operation: Operation,
    query: Option<&str>,
    reach: &AllowedNamespaces,
) -> Result<BatchParameters, Problem> {
    let Parameters { named, options } = request_of(operation).batch_parameters(query)?;
    let setting = http.service.setting();
    let look_up = prepare::query_options(&options, true, &setting.defaults)?;
    let lifetime = Lifetime::of(&options, &setting.defaults, setting.now_ms)?;
    if operation.writes() {
        http.service.accepts_writes(reach)?;
    }
    let early_reply = named.early_reply.unwrap_or_default();
    Ok(BatchParameters { options, look_up, lifetime, early_reply })
}

/// Answers a batch of either type.
pub(crate) async fn run(
    http: Arc<HttpService>,
    operation: Operation,
    request: Request,
) -> Result<Response, Problem> {
    let (head, stream) = request.into_parts();
    let caller = caller_of(&head.extensions);
    let parameters = parameters_of(&http, operation, head.uri.query(), &caller.namespaces)?;
    let BatchParameters { options, look_up, lifetime, early_reply } = parameters;
    let kind = body::kind(&head.headers, takes(operation))?;
    let own = ByteBudget::new(OWN_BYTES);
    let turn = Arc::new(Semaphore::new(1));
    let flow = Flow::new(early_reply, head.headers.contains_key(EXPECT));
    let stream = flow.watch(stream);
    let place = head.extensions.get().cloned().expect("every request but a probe has a place");
    let batch =
        Arc::new(Batch { http, caller, operation, options, lifetime, own, turn, flow, place });
    if kind == ContentKind::Ndjson {
        Ok(in_lines(&batch, BatchSource::Lines(stream)).await)
    } else if kind == ContentKind::Packed && operation != Operation::Fingerprint {
        packed::run(batch, look_up, &head.headers, stream).await
    } else {
        Err(body::unsupported(format!("A batch comes as {}.", takes(operation))))
    }
}

/// The reply of a batch with one line for each document.
pub(super) async fn in_lines(batch: &Arc<Batch>, source: BatchSource) -> Response {
    let slots = documents::start(Arc::clone(batch), source);
    streamed(batch, "application/x-ndjson", slots).await
}

/// A reply whose body may be sent while the batch runs.
pub(super) async fn streamed(
    batch: &Batch,
    content_type: &'static str,
    slots: mpsc::Receiver<Slot<Reply>>,
) -> Response {
    let mut response = Response::new(replies::streamed(batch, slots).await);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if batch.flow.has_left() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
