//! Another nearprint service that this one is a copy of: its changes and its exports. Blocks, so it
//! is not for async threads.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::Value;
use ureq::{Agent, Body};

use crate::client::remote::{self, RemoteError};

/// A service takes a snapshot before it begins to send an export.
pub(crate) const EXPORT_BEGINS: Duration = Duration::from_mins(10);

/// The longest error document that is read.
const PROBLEM_BYTES_MAX: u64 = 64 << 10;
/// The longest statistics that are read.
const STATS_BYTES_MAX: u64 = 1 << 20;
/// Bytes of an export between two lines of the log.
const TELL_EVERY: u64 = 1 << 30;

/// Why another service cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The file of the token, or that of the certificates, cannot be used.
    #[error(transparent)]
    Credentials(#[from] RemoteError),
    /// No answer.
    #[error("no answer from {url}: {source}")]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        source: Box<ureq::Error>,
    },
    /// It refuses.
    #[error("{url} answers {status}: {detail}")]
    Refused {
        /// The address.
        url: String,
        /// The status of the reply.
        status: u16,
        /// The code of the error; empty if the reply is not that of a nearprint service.
        code: String,
        /// What the service says.
        detail: String,
    },
}

/// The part of an error document that counts here.
#[derive(Debug, Default, Deserialize)]
struct Problem {
    code: String,
    detail: String,
}

/// Another service.
#[derive(Debug)]
pub(crate) struct Peer {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Peer {
    /// The service at an address such as `http://10.0.0.1:7878`, which may be silent for so long.
    ///
    /// # Errors
    /// [`PeerError::Credentials`].
    pub(crate) fn new(
        url: &str,
        (token_file, ca_file): (Option<&Path>, Option<&Path>),
        silence_max: Duration,
    ) -> Result<Self, PeerError> {
        let tls = remote::trusting(ca_file)?;
        let token = token_file.map(remote::read_token).transpose()?;
        Ok(Self {
            agent: remote::agent(tls, silence_max),
            url: url.to_owned(),
            authorization: token.map(|token| format!("Bearer {token}")),
        })
    }

    /// The body of the reply to a request, which must succeed.
    ///
    /// # Errors
    /// [`PeerError`].
    pub(crate) fn get(&self, path: &str) -> Result<impl Read + use<>, PeerError> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let unreachable =
            |source| PeerError::Unreachable { url: self.url.clone(), source: Box::new(source) };
        let reply = request.call().map_err(unreachable)?;
        let (head, body) = reply.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body.into_with_config().limit(u64::MAX).reader());
        }
        let Problem { code, detail } = problem(body);
        Err(PeerError::Refused {
            url: self.url.clone(),
            status: head.status.as_u16(),
            code,
            detail,
        })
    }

    /// The statistics of the service; null if what answers is none.
    ///
    /// # Errors
    /// [`PeerError`].
    pub(crate) fn stats(&self) -> Result<Value, PeerError> {
        let reply = self.get("/v1/stats")?.take(STATS_BYTES_MAX);
        Ok(serde_json::from_reader(reply).unwrap_or_default())
    }

    /// An export, as it comes. The log tells how much of it has come.
    ///
    /// # Errors
    /// [`PeerError`].
    pub(crate) fn export(&self) -> Result<impl Read + use<>, PeerError> {
        let inner = self.get("/v1/snapshots/export")?;
        Ok(Counted { inner, url: self.url.clone(), bytes: 0, told: 0 })
    }
}

fn problem(body: Body) -> Problem {
    let text = body.into_with_config().limit(PROBLEM_BYTES_MAX).read_to_vec().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_else(|_| Problem {
        code: String::new(),
        detail: "the reply is not that of a nearprint service".to_owned(),
    })
}

struct Counted<R> {
    inner: R,
    url: String,
    bytes: u64,
    told: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes = self.bytes.saturating_add(read as u64);
        if self.bytes.saturating_sub(self.told) >= TELL_EVERY {
            self.told = self.bytes;
            tracing::info!(from = self.url, bytes = self.bytes, "copying");
        }
        Ok(read)
    }
}
