//! Requests of a follower to its primary, on threads that may block.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use nearprint_engine::following::{FollowerPosition, follower};
use serde::Deserialize;
use ureq::{Agent, Body};

use super::FollowOptions;
use crate::remote::{self, RemoteError};

/// The primary takes a snapshot before it begins to send an export.
const EXPORT_BEGINS: Duration = Duration::from_mins(10);

/// The longest error document that is read.
const PROBLEM_BYTES_MAX: u64 = 64 << 10;

/// Why the primary cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum PrimaryError {
    /// The file of the token, or that of the certificates, cannot be used.
    #[error(transparent)]
    Credentials(#[from] RemoteError),
    /// No answer.
    #[error("no answer from the primary at {url}: {source}")]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        source: Box<ureq::Error>,
    },
    /// The primary refuses.
    #[error("the primary at {url} answers {status}: {detail}")]
    Refused {
        /// The address.
        url: String,
        /// The status of the reply.
        status: u16,
        /// The code of the error; empty if the reply is not that of a nearprint service.
        code: String,
        /// What the primary says.
        detail: String,
    },
}

/// The part of an error document that counts here.
#[derive(Debug, Default, Deserialize)]
struct Problem {
    code: String,
    detail: String,
}

/// A primary.
#[derive(Debug)]
pub(super) struct Primary {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Primary {
    pub(super) fn new(
        options: &FollowOptions,
        silence_max: Duration,
    ) -> Result<Self, PrimaryError> {
        let tls = remote::trusting(options.ca_file.as_deref())?;
        let token = options.token_file.as_deref().map(remote::read_token).transpose()?;
        Ok(Self {
            agent: remote::agent(tls, silence_max),
            url: options.url.clone(),
            authorization: token.map(|token| format!("Bearer {token}")),
        })
    }

    /// The changes after a position, as a stream that does not end.
    pub(super) fn changes(
        &self,
        position: &FollowerPosition,
    ) -> Result<impl Read + use<>, PrimaryError> {
        let path = match position.record {
            None => format!("/v1/changes?after={}", position.sequence),
            Some(record) => format!("/v1/changes?after={}&record={record:016x}", position.sequence),
        };
        self.get(&path)
    }

    fn get(&self, path: &str) -> Result<impl Read + use<>, PrimaryError> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let unreachable =
            |source| PrimaryError::Unreachable { url: self.url.clone(), source: Box::new(source) };
        let reply = request.call().map_err(unreachable)?;
        let (head, body) = reply.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body.into_with_config().limit(u64::MAX).reader());
        }
        let Problem { code, detail } = problem(body);
        Err(PrimaryError::Refused {
            url: self.url.clone(),
            status: head.status.as_u16(),
            code,
            detail,
        })
    }
}

fn problem(body: Body) -> Problem {
    let text = body.into_with_config().limit(PROBLEM_BYTES_MAX).read_to_vec().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_else(|_| Problem {
        code: String::new(),
        detail: "the reply is not that of a nearprint service".to_owned(),
    })
}

/// Fills a directory from the export of the primary. Blocks for as long as that takes.
///
/// # Errors
/// [`super::FollowError`].
pub(crate) fn seed(options: &FollowOptions, data: &Path) -> Result<(), super::FollowError> {
    let primary = Primary::new(options, EXPORT_BEGINS)?;
    tracing::info!(primary = options.url, directory = %data.display(), "copying the primary");
    let mut export = Counted { inner: primary.get("/v1/snapshots/export")?, bytes: 0, told: 0 };
    let copied = follower::seed(&mut export, data, &options.url)?;
    tracing::info!(files = copied.files, bytes = copied.bytes, "copied the primary");
    Ok(())
}

/// Tells how far a copy has come.
struct Counted<R> {
    inner: R,
    bytes: u64,
    told: u64,
}

/// Bytes between two lines of the log.
const TELL_EVERY: u64 = 1 << 30;

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes = self.bytes.saturating_add(read as u64);
        if self.bytes.saturating_sub(self.told) >= TELL_EVERY {
            self.told = self.bytes;
            tracing::info!(bytes = self.bytes, "copying the primary");
        }
        Ok(read)
    }
}
