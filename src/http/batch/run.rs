//! The beginning of every batch: what its lines share, and the head of its reply.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use nearprint_engine::QueryOptions;
use nearprint_engine::document::Namespace;
use nearprint_files::offer::OfferOptions;
use tokio::sync::{Semaphore, mpsc};

use crate::http::batch::documents::{self, Source};
use crate::http::batch::packed;
use crate::http::batch::replies::{self, Reply, Slot};
use crate::http::budget::{ByteBudget, ByteShare, OWN_BYTES};
use crate::http::problem::Problem;
use crate::http::request::body::{self, ContentKind};
use crate::http::request::lifetime::Lifetime;
use crate::http::request::prepare;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::types::{CHECK_AND_INSERT, FINGERPRINT, INSERT, QUERY, RequestKind};
use crate::http::service::Service;

/// What is done with each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Fingerprint,
    Query,
    Insert,
    CheckAndInsert,
}

impl Operation {
    pub(crate) const fn request(self) -> &'static RequestKind {
        match self {
            Self::Fingerprint => &FINGERPRINT,
            Self::Query => &QUERY,
            Self::Insert => &INSERT,
            Self::CheckAndInsert => &CHECK_AND_INSERT,
        }
    }

    /// The types of its body, in words for the client.
    pub(crate) const fn takes(self) -> &'static str {
        match self {
            Self::Fingerprint => "application/x-ndjson",
            Self::Query | Self::Insert | Self::CheckAndInsert => {
                "application/x-ndjson or application/octet-stream"
            }
        }
    }

    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::CheckAndInsert)
    }
}

/// What all lines of a batch share.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) service: Arc<Service>,
    pub(crate) operation: Operation,
    /// The query parameters: the defaults of the lines.
    pub(crate) options: OfferOptions,
    /// How long its documents are kept, unless their lines say so.
    pub(crate) lifetime: Lifetime,
    /// The namespaces that its documents may have.
    pub(crate) reach: NamespaceAccess,
    /// The bytes that the batch may keep when the budget of all connections is spent.
    pub(crate) own: ByteBudget,
    /// The permit of the look-up whose reply is sent next.
    pub(crate) turn: Arc<Semaphore>,
}

impl Batch {
    /// Refuses a document of a namespace that the batch does not reach. A fingerprint is made
    /// without any stored document, so it concerns no namespace.
    pub(crate) fn check_namespace(&self, namespace: Option<&Namespace>) -> Result<(), Problem> {
        if self.operation == Operation::Fingerprint {
            return Ok(());
        }
        self.reach.check(namespace.map(Namespace::as_str))
    }

    /// A share for what the batch keeps until its client has read everything before it. Waits for
    /// the client when both the budget of all connections and that of the batch are spent.
    pub(crate) async fn reserve(&self, bytes: usize) -> ByteShare {
        match self.service.replies.ahead(bytes) {
            Some(share) => share,
            None => self.own.take(bytes.min(OWN_BYTES)).await,
        }
    }
}

/// The options of all lines of a batch from its query parameters: as they are, as those of look-ups,
/// and how long documents are kept. One that is wrong for every line refuses the batch, as a service
/// does that takes no writes.
pub(super) fn options_of(
    service: &Service,
    operation: Operation,
    query: Option<&str>,
) -> Result<(OfferOptions, QueryOptions, Lifetime), Problem> {
    let options = operation.request().batch_parameters(query)?;
    let setting = service.setting();
    let look_up = prepare::query_options(&options, true, &setting.defaults)?;
    let lifetime = Lifetime::of(&options, &setting.defaults, setting.now_ms)?;
    if operation.writes() {
        service.accepts_writes()?;
    }
    Ok((options, look_up, lifetime))
}

/// Answers a batch of either type.
pub(crate) async fn run(
    service: Arc<Service>,
    operation: Operation,
    request: Request,
) -> Result<Response, Problem> {
    let (head, stream) = request.into_parts();
    let (options, query, lifetime) = options_of(&service, operation, head.uri.query())?;
    let kind = body::kind(&head.headers, operation.takes())?;
    let reach = NamespaceAccess::of(&head.extensions);
    let own = ByteBudget::new(OWN_BYTES);
    let turn = Arc::new(Semaphore::new(1));
    let batch = Arc::new(Batch { service, operation, options, lifetime, reach, own, turn });
    if kind == ContentKind::Ndjson {
        Ok(in_lines(documents::start(batch, Source::Lines(stream))))
    } else if kind == ContentKind::Packed && operation != Operation::Fingerprint {
        packed::run(batch, query, &head.headers, stream).await
    } else {
        Err(body::unsupported(format!("A batch comes as {}.", operation.takes())))
    }
}

/// The reply of a batch with one line for each document.
pub(super) fn in_lines(slots: mpsc::Receiver<Slot<Reply>>) -> Response {
    streamed("application/x-ndjson", slots)
}

/// The head of a reply whose body is sent while the batch runs.
pub(super) fn streamed(content_type: &'static str, slots: mpsc::Receiver<Slot<Reply>>) -> Response {
    let mut response = Response::new(replies::body(slots));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
