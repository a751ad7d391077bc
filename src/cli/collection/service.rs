//! A running service, over HTTP.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, Request};
use bytes::Bytes;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::Incoming;
use super::waiting::{NoticedBody, WaitNotice};
use crate::cli::error_report::ErrorReport;
use crate::client::remote::{self, RemoteError};

/// How long the service may send nothing.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// The options that a service with tokens or TLS needs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ClientCredentials {
    /// The token to send, if the service requires one
    #[arg(long, value_name = "TOKEN", env = "NEARPRINT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the token to send, and nothing else
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the certificates of this PEM file instead of those of public authorities
    #[arg(long, value_name = "FILE", env = "NEARPRINT_CA_FILE", hide_env_values = true)]
    ca_file: Option<PathBuf>,
}

impl ClientCredentials {
    /// The same, with these files where nothing was given.
    pub(crate) fn or(self, token_file: Option<PathBuf>, ca_file: Option<PathBuf>) -> Self {
        let has_token = self.token.is_some() || self.token_file.is_some();
        Self {
            token_file: if has_token { self.token_file } else { token_file },
            ca_file: self.ca_file.or(ca_file),
            token: self.token,
        }
    }

    /// The token; a file that is named comes before the variable, which is set for all commands.
    fn token(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(self.token.clone()) };
        remote::read_token(path).map(Some).map_err(|error| {
            if let RemoteError::NotAToken(_) = error {
                let next = "put the token there that `nearprint token` showed, not its line";
                return ErrorReport::new(error.to_string(), next).into();
            }
            error.into()
        })
    }
}

/// A service, with what it asks of its clients.
pub(crate) struct RemoteService {
    agent: Agent,
    address: String,
    authorization: Option<String>,
    /// It does not say for what it waits.
    is_quiet: bool,
}

impl RemoteService {
    /// The service at an address such as `http://127.0.0.1:7878`; connects with the first request.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(crate) fn new(address: &str, credentials: &ClientCredentials) -> Result<Self> {
        let tls = remote::trusting(credentials.ca_file.as_deref())?;
        let authorization = credentials.token()?.map(|token| format!("Bearer {token}"));
        Ok(Self { authorization, ..Self::with_tls(address, tls) })
    }

    /// For a probe of a service on this machine. Its certificate is not verified: it is not for a
    /// loopback address, and the probe sends no secret.
    pub(crate) fn of_this_machine(address: &str) -> Self {
        Self::with_tls(address, TlsConfig::builder().disable_verification(true).build())
    }

    fn with_tls(address: &str, tls: TlsConfig) -> Self {
        let address = address.trim_end_matches('/');
        let scheme = if address.contains("://") { "" } else { "http://" };
        let address = format!("{scheme}{address}");
        let agent = remote::agent(tls, READ_TIMEOUT);
        Self { agent, address, authorization: None, is_quiet: false }
    }

    /// The same, which does not say for what it waits.
    pub(super) fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// Says on standard error why a command takes so long.
    pub(super) fn say(&self, message: &str) {
        if !self.is_quiet {
            say!("{message}");
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request once.
    pub(super) fn send(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: Option<&Bytes>,
    ) -> Result<Incoming<'static>, ErrorReport> {
        let uri = format!("{}{path}", self.address);
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let run = || {
            if let Some(body) = body {
                let request = request.header(CONTENT_TYPE, media_type).body(&body[..]);
                request.map_err(ureq::Error::from).and_then(|request| self.agent.run(request))
            } else {
                let request = request.header(ACCEPT, media_type).body(());
                request.map_err(ureq::Error::from).and_then(|request| self.agent.run(request))
            }
        };
        let waiting = || WaitNotice::new(format!("waiting for {} to answer", self.address));
        let notice = (!self.is_quiet).then(waiting);
        let sent = match &notice {
            Some(notice) => notice.during(run),
            None => run(),
        };
        let reply = sent.map_err(|error| self.unreachable(error))?;
        Ok(reply.map(|body| {
            let body = body.into_with_config().limit(u64::MAX).reader();
            Box::new(NoticedBody { body, notice }) as Box<dyn std::io::Read>
        }))
    }

    /// Gets a path once, without waiting for a busy service; its status.
    pub(crate) fn probe(&self, path: &str, timeout: Duration) -> Result<u16> {
        let url = format!("{}{path}", self.address);
        let request = self.agent.get(&url).config();
        let response = request.timeout_global(Some(timeout)).build().call();
        Ok(response.map_err(|error| self.unreachable(error))?.status().as_u16())
    }

    /// Gets a path once, without waiting for a busy service, and reads the reply, which must be
    /// JSON.
    pub(crate) fn get_once(&self, path: &str, timeout: Duration) -> Result<Value> {
        let mut request = self.agent.get(format!("{}{path}", self.address));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut reply = request.config().timeout_global(Some(timeout)).build().call()?;
        let body: Value = reply.body_mut().read_json()?;
        if reply.status().is_success() {
            return Ok(body);
        }
        Err(anyhow!("{}: {}", reply.status().as_u16(), body["detail"].as_str().unwrap_or_default()))
    }

    fn unreachable(&self, error: ureq::Error) -> ErrorReport {
        ErrorReport::new(
            format!("no answer from a nearprint service at {}", self.address),
            "start one with `nearprint serve`, or name another with --server URL; without a service, \
             `nearprint export --data DIR` reads the directory of a stopped one, and `nearprint dedup \
             --against DIR` compares files with it",
        )
        .because(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_come_with_or_without_its_scheme() {
        for written in ["127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:1/"] {
            let service = RemoteService::new(written, &ClientCredentials::default()).unwrap();
            assert_eq!(service.address(), "http://127.0.0.1:1");
        }
    }
}
