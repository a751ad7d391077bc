//! What all parts of a batch share: its operation, its options, and the steps of its lines.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};

use crate::http::problem::{Problem, ProblemBody};
use crate::http::reply::replies::{OWN_BYTES, Share};
use crate::http::request::prepare::Prepared;
use crate::http::request::types::{
    CHECK_AND_INSERT, FINGERPRINT, INSERT, QUERY, RequestKind, RequestOptions,
};
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
    /// The query parameters: defaults for the lines.
    pub(crate) options: RequestOptions,
    /// What it may hold when the budget of all connections is spent.
    pub(crate) own: Arc<Semaphore>,
}

impl Batch {
    /// A share for what the batch keeps until its client has read everything before it. Waits for the
    /// client where the budget of all connections and its own are spent.
    pub(crate) async fn hold(&self, bytes: usize) -> Share {
        match self.service.replies.ahead(bytes) {
            Some(share) => share,
            None => Share::waited_for(&self.own, bytes.min(OWN_BYTES)).await,
        }
    }
}

/// What is left to do for the documents of a piece, and the share of the replies that are there.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    pub(crate) share: Option<Share>,
}

/// What is left to do for a document, or for several.
pub(crate) enum Step {
    /// Nothing: these are their replies.
    Done(Vec<u8>),
    /// It is to be looked up in its turn.
    LookUp(u64, Box<Prepared>),
    /// It is to be written.
    Write(u64, Box<Prepared>),
}

/// False when nobody listens any more.
pub(crate) async fn send<T>(to: &mpsc::Sender<T>, value: T) -> bool {
    to.send(value).await.is_ok()
}

/// A line of a batch that went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorLine<'a> {
    error: ProblemBody<'a>,
}

pub(crate) fn error_line(problem: &Problem) -> Vec<u8> {
    if let Some(cause) = problem.logged().cause {
        tracing::error!(cause, "a line of a batch failed");
    }
    line_of(&ErrorLine { error: problem.body() })
}

pub(crate) fn line_of(reply: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(reply).expect("replies are JSON");
    line.push(b'\n');
    line
}
