//! A client of a running service: requests, retries, and the text of refusals.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, RequestBuilder};

use super::error_report::ErrorReport;

/// The address of a service without a configuration.
pub(super) const DEFAULT_SERVER: &str = "http://127.0.0.1:7878";

/// How often a request is sent to a service that is too busy for it.
const ATTEMPTS_MAX: u32 = 60;
/// The longest reply that is read as a whole.
const REPLY_BYTES_MAX: u64 = 256 << 20;
/// The buffer of a long stream.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// All but the characters that every part of an address may contain.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The longest single wait, whatever `Retry-After` is.
const WAIT_SECONDS_MAX: u64 = 30;

/// Which service a command speaks to.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ServiceArgs {
    /// Where the service listens
    #[arg(long, visible_alias = "url", value_name = "URL", default_value = DEFAULT_SERVER)]
    server: String,
    #[command(flatten)]
    credentials: ClientCredentials,
}

impl ServiceArgs {
    /// A client of it.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(super) fn client(&self) -> Result<Client> {
        Client::new(&self.server, &self.credentials)
    }
}

/// The options that a service with tokens or TLS needs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ClientCredentials {
    /// The token to send, if the service requires one
    #[arg(long, value_name = "TOKEN", env = "NEARPRINT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Trust the certificates of this PEM file instead of those of public authorities
    #[arg(long, value_name = "FILE", env = "NEARPRINT_CA_FILE")]
    ca_file: Option<PathBuf>,
}

/// Refuses `--token` and `--ca-file` if a command connects to no service that could use them.
///
/// Clap's own `requires` would also refuse the variables, which may be set for other commands.
pub(super) fn check_credentials_are_sent(
    matches: &ArgMatches,
    command: &mut Command,
) -> Result<(), clap::Error> {
    let mut path = Vec::new();
    let mut innermost = matches;
    while let Some((name, below)) = innermost.subcommand() {
        path.push(name);
        innermost = below;
    }
    let is_given = |id: &str| {
        let source = innermost.try_contains_id(id).ok().and_then(|_| innermost.value_source(id));
        source == Some(ValueSource::CommandLine)
    };
    let (is_sent, advice) = match path.as_slice() {
        ["import"] => (!is_given("data"), "leave out --data"),
        ["dedup"] => (is_given("against"), "add --against URL"),
        ["snapshot", "export"] => (is_given("server"), "add --server URL"),
        ["health"] => (is_given("url"), "add --url URL"),
        _ => return Ok(()),
    };
    match ["token", "ca_file"].into_iter().find(|id| !is_sent && is_given(id)) {
        Some(id) => {
            let option = id.replace('_', "-");
            let message = format!("--{option} is for a service, and none is named: {advice}");
            Err(command.error(ErrorKind::MissingRequiredArgument, message))
        }
        None => Ok(()),
    }
}

/// A connection to one service.
pub(super) struct Client {
    agent: Agent,
    server: String,
    authorization: Option<String>,
}

/// The shown fields of a problem document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProblemReply {
    /// The stable code, such as `empty_document`.
    pub(super) code: String,
    /// What exactly is wrong.
    pub(super) detail: String,
    /// The HTTP status.
    pub(super) status: u16,
}

impl ProblemReply {
    /// The service was busy, and the same request may succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

impl std::fmt::Display for ProblemReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.detail.as_str(), self.code.as_str()) {
            ("", "") => write!(f, "status {}", self.status),
            ("", code) => f.write_str(code),
            (detail, "") => f.write_str(detail),
            (detail, code) => write!(f, "{detail} ({code})"),
        }
    }
}

impl Client {
    /// For the service at `server`, such as `http://127.0.0.1:7878`; connects with the first
    /// request.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(super) fn new(server: &str, credentials: &ClientCredentials) -> Result<Self> {
        let roots = credentials.ca_file.as_deref().map(roots).transpose()?;
        let tls = roots.map(|roots| TlsConfig::builder().root_certs(roots).build());
        let authorization = credentials.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self { authorization, ..Self::with_tls(server, tls.unwrap_or_default()) })
    }

    /// For a probe of a service on this machine. Its certificate is not verified: it is not for a
    /// loopback address, and the probe sends no secret.
    pub(super) fn of_this_machine(server: &str) -> Self {
        Self::with_tls(server, TlsConfig::builder().disable_verification(true).build())
    }

    fn with_tls(server: &str, tls: TlsConfig) -> Self {
        let server = server.trim_end_matches('/');
        let server =
            if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .tls_config(tls)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_per_read(Some(Duration::from_mins(2)))
            .timeout_per_write(Some(Duration::from_mins(2)))
            .build();
        Self { agent: config.into(), server, authorization: None }
    }

    /// Adds the token.
    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        }
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Gets a path and copies the body; any status but success is an error.
    pub(super) fn copy(&self, path: &str, sink: &mut dyn Write) -> Result<u64> {
        let response =
            self.until_admitted(|url| self.authorized(self.agent.get(url)).call(), path)?;
        let body = response.into_body().into_with_config().limit(u64::MAX);
        Ok(io::copy(&mut body.reader(), sink)?)
    }

    /// Gets a path and reads the reply.
    pub(super) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let send = |url: &str| self.authorized(self.agent.get(url)).call();
        read_json(self.until_admitted(send, path)?)
    }

    /// Deletes what a path names and reads the reply.
    pub(super) fn delete_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let send = |url: &str| self.authorized(self.agent.delete(url)).call();
        read_json(self.until_admitted(send, path)?)
    }

    /// Gets a path as lines of JSON, which can be read as they arrive.
    pub(super) fn get_ndjson(&self, path: &str) -> Result<impl BufRead + use<>> {
        let send = |url: &str| {
            self.authorized(self.agent.get(url)).header("accept", "application/x-ndjson").call()
        };
        let response = self.until_admitted(send, path)?;
        let body = response.into_body().into_with_config().limit(u64::MAX);
        Ok(BufReader::with_capacity(STREAM_BUFFER_BYTES, body.reader()))
    }

    /// Gets a path once, without waiting for a busy service; its status.
    pub(super) fn probe(&self, path: &str, timeout: Duration) -> Result<u16> {
        let url = format!("{}{path}", self.server);
        let request = self.agent.get(&url).config();
        let response = request.timeout_global(Some(timeout)).build().call();
        Ok(response.map_err(|error| self.unreachable(error))?.status().as_u16())
    }

    /// Posts a JSON object and reads the reply.
    pub(super) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        let send = |url: &str| self.authorized(self.agent.post(url)).send_json(body);
        read_json(self.until_admitted(send, path)?)
    }

    /// Posts lines of JSON; the lines of the reply, as they arrive.
    pub(super) fn post_ndjson(&self, path: &str, body: &[u8]) -> Result<impl BufRead + use<>> {
        let send = |url: &str| {
            let request = self.authorized(self.agent.post(url));
            request.content_type("application/x-ndjson").send(body)
        };
        let response = self.until_admitted(send, path)?;
        let body = response.into_body().into_with_config().limit(u64::MAX);
        Ok(BufReader::new(body.reader()))
    }

    /// Repeats a request while the service is busy.
    fn until_admitted(
        &self,
        send: impl Fn(&str) -> Result<Response<Body>, ureq::Error>,
        path: &str,
    ) -> Result<Response<Body>> {
        let url = format!("{}{path}", self.server);
        for attempt in 1.. {
            let mut response = send(&url).map_err(|error| self.unreachable(error))?;
            let status = response.status().as_u16();
            if response.status().is_success() {
                return Ok(response);
            }
            if matches!(status, 429 | 503) && attempt < ATTEMPTS_MAX {
                wait(retry_after(&response));
                continue;
            }
            let text = response.body_mut().read_to_string().unwrap_or_default();
            let mut problem: ProblemReply = serde_json::from_str(&text).unwrap_or_default();
            problem.status = status;
            let refused = format!("{} refused {path}: {problem}", self.server);
            if matches!(status, 401 | 403) {
                let next = "send a token that allows it: NEARPRINT_TOKEN=TOKEN or --token TOKEN";
                return Err(ErrorReport::new(refused, next).into());
            }
            if problem.code == "job_not_found" {
                return Err(ErrorReport::new(refused, "`nearprint jobs` lists the jobs").into());
            }
            bail!(refused);
        }
        unreachable!("the last attempt returns")
    }

    fn unreachable(&self, error: ureq::Error) -> ErrorReport {
        ErrorReport::new(
            format!("no answer from a nearprint service at {}", self.server),
            "start one with `nearprint serve`, or name another with --server URL",
        )
        .because(error)
    }
}

/// A path of the service with those query parameters that have a value.
pub(super) fn path(route: &str, parameters: &[(&str, Option<String>)]) -> String {
    let mut path = route.to_owned();
    for (name, value) in parameters {
        let Some(value) = value else { continue };
        let separator = if path.contains('?') { '&' } else { '?' };
        let value = utf8_percent_encode(value, &RESERVED);
        write!(path, "{separator}{name}={value}").expect("a string takes any text");
    }
    path
}

fn read_json<T: DeserializeOwned>(mut response: Response<Body>) -> Result<T> {
    let body = response.body_mut().with_config().limit(REPLY_BYTES_MAX);
    body.read_json().context("the reply is not one of a nearprint service of this version")
}

/// The certificates of a PEM file.
fn roots(path: &Path) -> Result<RootCerts> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the certificates of {}", path.display()))?;
    let mut roots = Vec::new();
    for item in parse_pem(text.as_bytes()) {
        let item = item.with_context(|| format!("{} is not PEM", path.display()))?;
        if let PemItem::Certificate(certificate) = item {
            roots.push(certificate);
        }
    }
    ensure!(!roots.is_empty(), "there is no certificate in {}", path.display());
    Ok(RootCerts::new_with_certs(&roots))
}

/// The seconds of a `Retry-After` header; 1 without one.
fn retry_after(response: &Response<Body>) -> Duration {
    let header = response.headers().get("retry-after");
    let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(1).min(WAIT_SECONDS_MAX))
}

/// Waits before a retry.
#[expect(
    clippy::disallowed_methods,
    reason = "Retry-After names a time; there is no event to wait for"
)]
pub(super) fn wait(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_come_with_or_without_its_scheme() {
        for written in ["127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:1/"] {
            let client = Client::new(written, &ClientCredentials::default()).unwrap();
            assert_eq!(client.server(), "http://127.0.0.1:1");
        }
    }

    #[test]
    fn values_of_parameters_are_escaped() {
        let parameters =
            [("a", Some("x/y z&\u{e4}".to_owned())), ("b", None), ("c", Some("1.5".to_owned()))];
        assert_eq!(path("/v1/p", &parameters), "/v1/p?a=x%2Fy%20z%26%C3%A4&c=1.5");
        assert_eq!(path("/v1/p", &[]), "/v1/p");
    }
}
