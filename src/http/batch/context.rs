//! What all parts of a batch share: its operation, its options, and the steps of its lines.

use std::sync::Arc;

use nearprint_engine::document::Namespace;
use nearprint_files::offer::OfferOptions;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::http::budget::{ByteBudget, ByteShare, OWN_BYTES};
use crate::http::problem::{Problem, ProblemBody};
use crate::http::request::lifetime::Lifetime;
use crate::http::request::prepare::Prepared;
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
}

impl Batch {
    /// Refuses a document of a namespace that the batch does not reach. A fingerprint is made
    /// without any stored document, so it concerns no namespace.
    pub(crate) fn check_namespace(&self, namespace: Option<&Namespace>) -> Result<(), Problem> {
        match self.operation {
            Operation::Fingerprint => Ok(()),
            Operation::Query | Operation::Insert | Operation::CheckAndInsert => {
                self.reach.check(namespace.map(Namespace::as_str))
            }
        }
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

/// The steps that are left for a piece of the body, and the share of its finished replies.
pub(crate) struct BatchSteps {
    pub(crate) steps: Vec<BatchStep>,
    pub(crate) share: Option<ByteShare>,
}

/// What is left to do for a document, or for several.
pub(crate) enum BatchStep {
    /// Nothing: these are their replies.
    Done(Vec<u8>),
    /// The operation, in the order of the lines: this is the document and the number of its line.
    Run(u64, Box<Prepared>),
}

/// Sends a value; false when the receiver is gone.
pub(crate) async fn send<T>(to: &mpsc::Sender<T>, value: T) -> bool {
    to.send(value).await.is_ok()
}

/// A line of a batch that went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorLine<'a> {
    error: ProblemBody<'a>,
}

/// The reply to the line with this number, which went wrong.
pub(crate) fn error_line(problem: Problem, line: u64) -> Vec<u8> {
    last_line(&problem.at_line(line))
}

/// The last line of a stream that cannot go on.
pub(crate) fn last_line(problem: &Problem) -> Vec<u8> {
    if let Some(cause) = problem.logged().cause {
        tracing::error!(cause, "a line of a reply failed");
    }
    line_of(&ErrorLine { error: problem.body() })
}

pub(crate) fn line_of(reply: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(reply).expect("replies are JSON");
    line.push(b'\n');
    line
}
