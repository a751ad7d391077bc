//! Speaking to a running service: requests, their retries, and refusals in words.

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::trouble::Trouble;

/// Where a service listens that was started without a configuration.
pub(super) const DEFAULT_SERVER: &str = "http://127.0.0.1:7878";

/// How often a request is repeated that the service was too busy for.
const ATTEMPTS_MAX: u32 = 60;
/// The longest single wait, whatever the service asks for.
const WAIT_SECONDS_MAX: u64 = 30;

/// A connection to one service.
pub(super) struct Client {
    agent: Agent,
    server: String,
}

/// What of a problem document is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    /// The stable code, such as `empty_document`.
    pub(super) code: String,
    /// What exactly is wrong.
    pub(super) detail: String,
    /// The HTTP status.
    pub(super) status: u16,
}

impl Problem {
    /// The service was busy, and the same request may succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 503)
    }

    /// It is the service that has a problem, not the document: the next one will meet it too.
    pub(super) fn is_of_the_service(&self) -> bool {
        self.status >= 500
    }
}

impl std::fmt::Display for Problem {
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
    pub(super) fn new(server: &str) -> Self {
        let server = server.trim_end_matches('/');
        let server =
            if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_per_read(Some(Duration::from_mins(2)))
            .timeout_per_write(Some(Duration::from_mins(2)))
            .build();
        Self { agent: config.into(), server }
    }

    /// The address it speaks to.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Gets a path; any status but 200 is an error.
    pub(super) fn get(&self, path: &str) -> Result<String> {
        let mut response = self.until_admitted(|url| self.agent.get(url).call(), path)?;
        Ok(response.body_mut().read_to_string()?)
    }

    /// Gets a path once, without waiting for a busy service; its status.
    pub(super) fn probe(&self, path: &str, timeout: Duration) -> Result<u16> {
        let url = format!("{}{path}", self.server);
        let request = self.agent.get(&url).config();
        let response = request.timeout_global(Some(timeout)).build().call();
        Ok(response.map_err(|error| self.unreachable(error))?.status().as_u16())
    }

    /// Posts a JSON object and reads the reply.
    pub(super) fn post_json(&self, path: &str, body: &Value) -> Result<Value> {
        let mut response = self.until_admitted(|url| self.agent.post(url).send_json(body), path)?;
        Ok(response.body_mut().read_json()?)
    }

    /// Posts lines of JSON; the lines of the reply, as they come.
    pub(super) fn post_ndjson(&self, path: &str, body: &[u8]) -> Result<impl BufRead + use<>> {
        let send = |url: &str| {
            let request = self.agent.post(url);
            request.content_type("application/x-ndjson").send(body)
        };
        let response = self.until_admitted(send, path)?;
        let body = response.into_body().into_with_config().limit(u64::MAX);
        Ok(BufReader::new(body.reader()))
    }

    /// Repeats a request while the service says that it is busy.
    fn until_admitted(
        &self,
        send: impl Fn(&str) -> Result<Response<Body>, ureq::Error>,
        path: &str,
    ) -> Result<Response<Body>> {
        let url = format!("{}{path}", self.server);
        for attempt in 1.. {
            let mut response = send(&url).map_err(|error| self.unreachable(error))?;
            let status = response.status().as_u16();
            if status == 200 {
                return Ok(response);
            }
            if matches!(status, 429 | 503) && attempt < ATTEMPTS_MAX {
                wait(retry_after(&response));
                continue;
            }
            let text = response.body_mut().read_to_string().unwrap_or_default();
            let mut problem: Problem = serde_json::from_str(&text).unwrap_or_default();
            problem.status = status;
            bail!("{} refused {path}: {problem}", self.server);
        }
        unreachable!("the last attempt returns")
    }

    fn unreachable(&self, error: ureq::Error) -> Trouble {
        Trouble::new(
            format!("no answer from a nearprint service at {}", self.server),
            "start one with `nearprint serve`, or name another with --server URL",
        )
        .because(error)
    }
}

/// The seconds of a `Retry-After` header; 1 without one.
fn retry_after(response: &Response<Body>) -> Duration {
    let header = response.headers().get("retry-after");
    let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(1).min(WAIT_SECONDS_MAX))
}

/// Waits as long as the service asked for.
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
            assert_eq!(Client::new(written).server(), "http://127.0.0.1:1");
        }
    }
}
