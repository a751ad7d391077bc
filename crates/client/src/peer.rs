//! Another nearprint service that this one is a copy of: its changes and its exports. Blocks, so it
//! is not for async threads.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use hyper::Method;
use nearprint_wire::answer::ProblemReply;
use nearprint_wire::code::Code;
use serde_json::Value;

use crate::client::{ClientError, ReplyBody, ServiceClient};
use crate::trust::{RemoteError, read_token};

/// A service takes a snapshot before it begins to send an export.
pub const EXPORT_BEGINS: Duration = Duration::from_mins(10);

/// The longest error document that is read.
const PROBLEM_BYTES_MAX: u64 = 64 << 10;
/// The longest reply that is read as a whole.
const JSON_BYTES_MAX: u64 = 1 << 20;
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
        /// Why.
        source: ClientError,
    },
    /// It refuses.
    #[error("{url} answers {status}: {detail}")]
    Refused {
        /// The address.
        url: String,
        /// The status of the reply.
        status: u16,
        /// The code of the error; `None` if the reply is not that of a nearprint service.
        code: Option<Code>,
        /// What the service says.
        detail: String,
    },
}

/// Another service.
#[derive(Debug)]
pub struct Peer {
    client: ServiceClient,
    silence_max: Duration,
}

impl Peer {
    /// The service at an address such as `http://10.0.0.1:7878`, which may be silent for so long.
    ///
    /// # Errors
    /// [`PeerError::Credentials`].
    pub fn new(
        url: &str,
        (token_file, ca_file): (Option<&Path>, Option<&Path>),
        silence_max: Duration,
    ) -> Result<Self, PeerError> {
        let token = token_file.map(read_token).transpose()?;
        let client = ServiceClient::new(url, token.as_deref(), ca_file.into(), silence_max);
        client.map(|client| Self { client, silence_max }).map_err(|error| match error {
            ClientError::Credentials(error) => PeerError::Credentials(error),
            source @ (ClientError::Address { .. }
            | ClientError::Token
            | ClientError::Unconnected(_)
            | ClientError::Lost(_)
            | ClientError::NoAnswer(_)
            | ClientError::Thread(_)) => PeerError::Unreachable { url: url.to_owned(), source },
        })
    }

    /// The body of the reply to a request, which must succeed.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn get(&self, path: &str) -> Result<ReplyBody, PeerError> {
        let url = || self.client.url().to_owned();
        let reply = self.client.send(&Method::GET, (path, "*/*"), None, self.silence_max);
        let reply = reply.map_err(|source| PeerError::Unreachable { url: url(), source })?;
        let (head, body) = reply.into_parts();
        if head.status == 200 {
            return Ok(body);
        }
        let problem: ProblemReply<'static> =
            serde_json::from_reader(body.whole(PROBLEM_BYTES_MAX)).unwrap_or_default();
        let (status, code) = (head.status.as_u16(), problem.code());
        let detail = if problem.code.is_empty() && problem.detail.is_empty() {
            "the reply is not that of a nearprint service".to_owned()
        } else {
            problem.detail.into_owned()
        };
        Err(PeerError::Refused { url: url(), status, code, detail })
    }

    /// The statistics of the service; null if what answers is none.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn stats(&self) -> Result<Value, PeerError> {
        self.json("/v1/stats")
    }

    /// The reply to a request, which must succeed, as JSON; null if it is none, or does not come as
    /// a whole within the time for which the service may be silent.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn json(&self, path: &str) -> Result<Value, PeerError> {
        let reply = self.get(path)?.whole(JSON_BYTES_MAX);
        Ok(serde_json::from_reader(reply).unwrap_or_default())
    }

    /// An export, as it comes. Logs its progress.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn export(&self) -> Result<impl Read + use<>, PeerError> {
        let inner = self.get("/v1/snapshots/export")?;
        Ok(Counted { inner, url: self.client.url().to_owned(), bytes: 0, told: 0 })
    }
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
