//! A running service, over HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use bytes::Bytes;
use nearprint_client::{ClientError, RemoteError, ServiceClient, Trust, read_token};
use nearprint_engine::SearchKind;
use nearprint_files::Entry;
use nearprint_wire::answer::{Answer, JobReply, ProblemReply};
use nearprint_wire::code::Code;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::waiting::{NoticedBody, WaitNotice};
use super::{GroupSearch, Which, foreign, item, path, wait, without_nulls};
use crate::cli::error_report::ErrorReport;
use crate::cli::printable::printable;

/// How often a request is sent to a service that is too busy for it.
const ATTEMPTS_MAX: u32 = 60;
/// The longest single wait, whatever `Retry-After` is.
const WAIT_SECONDS_MAX: u64 = 30;
/// The longest reply that is read as a whole.
const REPLY_BYTES_MAX: u64 = 256 << 20;
/// The buffer of a long stream.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// The items of one page.
const PAGE: u64 = 1_000;

const ANY: &str = "*/*";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

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
        read_token(path).map(Some).map_err(|error| {
            if let RemoteError::NotAToken(_) = error {
                let next = "put the token there that `nearprint token` showed, not its line";
                return ErrorReport::new(error.to_string(), next).into();
            }
            error.into()
        })
    }
}

/// A reply whose body is read as it arrives.
type Incoming = Response<Box<dyn Read>>;

/// A service, with what it asks of its clients.
pub(crate) struct RemoteService {
    client: ServiceClient,
    /// It does not say for what it waits.
    is_quiet: bool,
}

impl RemoteService {
    /// The service at an address such as `http://127.0.0.1:7878`; connects with the first request.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(crate) fn new(address: &str, credentials: &ClientCredentials) -> Result<Self> {
        Self::with_timeout(address, credentials, READ_TIMEOUT)
    }

    /// The same, which may be silent for so long.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(crate) fn with_timeout(
        address: &str,
        credentials: &ClientCredentials,
        silence_max: Duration,
    ) -> Result<Self> {
        let (token, trust) = (credentials.token()?, credentials.ca_file.as_deref().into());
        let client = ServiceClient::new(address, token.as_deref(), trust, silence_max)?;
        Ok(Self { client, is_quiet: false })
    }

    /// For a probe, which sends no secret, and so may ask anybody.
    ///
    /// # Errors
    /// The operating system has no thread for it.
    pub(crate) fn for_probe(address: &str, silence_max: Duration) -> Result<Self> {
        let client = ServiceClient::new(address, None, Trust::Anybody, silence_max)?;
        Ok(Self { client, is_quiet: false })
    }

    /// The same, which does not say for what it waits.
    pub(crate) fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// Says on standard error why a command takes so long.
    pub(crate) fn say(&self, message: &str) {
        if !self.is_quiet {
            say!("{message}");
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        self.client.url()
    }

    /// An error unless it accepts requests.
    pub(crate) fn check_ready(&self) -> Result<()> {
        self.copy("/readyz", &mut io::sink()).map(drop)
    }

    /// The last change; `None` if it does not say, or the token may not ask.
    pub(crate) fn sequence(&self) -> Option<u64> {
        let stats: Value = self.get_json("/v1/stats").ok()?;
        stats["sequence"].as_u64()
    }

    /// The documents of a selection as lines of JSON, as they arrive.
    pub(crate) fn documents(
        &self,
        which: Which<'_>,
        [metadata, sketch]: [bool; 2],
    ) -> Result<impl BufRead + use<>> {
        let include: Vec<&str> = [("metadata", metadata), ("sketch", sketch)]
            .into_iter()
            .filter_map(|(part, is_wanted)| is_wanted.then_some(part))
            .collect();
        self.get_lines(&path(
            "/v1/documents",
            &[
                ("namespace", which.namespace.map(str::to_owned)),
                ("all_namespaces", which.all_namespaces.then(|| "true".to_owned())),
                ("prefix", which.prefix.map(str::to_owned)),
                ("include", (!include.is_empty()).then(|| include.join(","))),
            ],
        ))
    }

    /// All documents with all that belongs to them, as of a moment when the service has this
    /// change.
    pub(crate) fn all_documents(&self, min_sequence: Option<u64>) -> Result<impl BufRead + use<>> {
        self.get_lines(&path(
            "/v1/documents",
            &[
                ("all_namespaces", Some("true".to_owned())),
                ("include", Some("metadata,sketch".to_owned())),
                ("min_sequence", min_sequence.map(|sequence| sequence.to_string())),
            ],
        ))
    }

    /// Begins to find groups.
    pub(crate) fn begin_groups(&self, search: &GroupSearch<'_>) -> Result<JobReply> {
        let options = &search.options;
        let request = without_nulls(json!({
            "distance": options.distance,
            "min_similarity": options.min_similarity,
            "min_numbers": options.min_numbers,
            "search": options.search.map(SearchKind::name),
            "namespace": search.namespace,
            "all_namespaces": search.all_namespaces.then_some(true),
            "min_size": search.min_size,
        }));
        self.post_json("/v1/groups", &request)
    }

    /// The job with this name.
    pub(crate) fn job(&self, name: &str) -> Result<JobReply> {
        self.get_json(&item("/v1/jobs", name))
    }

    /// Sends documents to the route of a batch, and returns an answer for each.
    pub(crate) fn batch(&self, path: &str, entries: &[&Entry]) -> Result<Vec<Answer>> {
        let cut_off = || {
            let what = format!("{} stopped in the middle of a batch", self.client.url());
            let next = "look at its log, start it again, and repeat the command: documents with an id \
                        that are already there are not stored twice";
            ErrorReport::new(what, next)
        };
        let lines: Vec<String> = entries.iter().map(|entry| entry.to_json()).collect();
        let body = Bytes::from(lines.join("\n"));
        let body = self.expect(NDJSON, (&Method::POST, path, NDJSON), Some(&body))?;
        let mut answers = Vec::with_capacity(lines.len());
        for line in BufReader::new(body).lines() {
            let line = line.map_err(|error| cut_off().because(error))?;
            let answer: Answer = serde_json::from_str(&line).map_err(foreign)?;
            if answer.is_blank() {
                return Err(foreign(anyhow!("a line says nothing about its document")).into());
            }
            answers.push(answer);
        }
        if answers.len() == lines.len() { Ok(answers) } else { Err(cut_off().into()) }
    }

    /// Gets a path and copies the body.
    pub(crate) fn copy(&self, path: &str, sink: &mut dyn Write) -> Result<u64> {
        Ok(io::copy(&mut self.send(&Method::GET, path, ANY, None)?.1, sink)?)
    }

    /// Gets a path and reads the reply.
    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(&Method::GET, path, None)
    }

    /// Deletes what a path names and reads the reply.
    pub(crate) fn delete_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(&Method::DELETE, path, None)
    }

    /// Posts a JSON object and reads the reply.
    pub(crate) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        self.json(&Method::POST, path, Some(body))
    }

    fn json<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let media_type = if body.is_some() { JSON } else { ANY };
        let mut json = Vec::new();
        self.expect(JSON, (method, path, media_type), body.as_ref())?
            .take(REPLY_BYTES_MAX)
            .read_to_end(&mut json)?;
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(foreign(anyhow!("it is not a JSON object")).into());
        }
        Ok(serde_json::from_slice(&json).map_err(foreign)?)
    }

    /// Sends a request whose reply has this media type.
    fn expect(
        &self,
        expected: &str,
        (method, path, media_type): (&Method, &str, &str),
        body: Option<&Bytes>,
    ) -> Result<Box<dyn Read>> {
        let (found, reply) = self.send(method, path, media_type, body)?;
        let essence = found.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(expected) {
            return Ok(reply);
        }
        Err(match essence {
            "" => foreign(anyhow!("it has no Content-Type")),
            other => foreign(anyhow!("its Content-Type is {other}")),
        }
        .into())
    }

    /// The items of a listing, at most `limit`; `name` is their field in a page.
    pub(crate) fn items<T: DeserializeOwned>(
        &self,
        listing: &str,
        name: &str,
        limit: u64,
    ) -> Result<Vec<T>> {
        self.listing(listing, name, limit).map(|(items, _)| items)
    }

    /// The same, with the other fields of the first page.
    pub(crate) fn listing<T: DeserializeOwned>(
        &self,
        listing: &str,
        name: &str,
        limit: u64,
    ) -> Result<(Vec<T>, Value)> {
        let (mut items, mut after, mut last, mut first) = (Vec::new(), None, None, None);
        while (items.len() as u64) < limit {
            let count = PAGE.min(limit - items.len() as u64).to_string();
            let parameters = [("limit", Some(count)), ("after", after)];
            let mut page: Value = self.get_json(&path(listing, &parameters))?;
            let mut field = |name| page.get_mut(name).map(Value::take).unwrap_or_default();
            let listed: Vec<T> = serde_json::from_value(field(name)).map_err(foreign)?;
            items.extend(listed);
            let next = field("next").as_str().map(str::to_owned);
            if next.is_some() && next == last {
                return Err(foreign(anyhow!("its pages have no end")).into());
            }
            (after, last) = (next.clone(), next);
            first.get_or_insert(page);
            if after.is_none() {
                break;
            }
        }
        Ok((items, first.unwrap_or_default()))
    }

    /// Gets a path as lines of JSON, which can be read as they arrive.
    fn get_lines(&self, path: &str) -> Result<impl BufRead + use<>> {
        let body = self.expect(NDJSON, (&Method::GET, path, NDJSON), None)?;
        Ok(BufReader::with_capacity(STREAM_BUFFER_BYTES, body))
    }

    /// Sends a request, again while a service is busy; the media type of the reply, and its body.
    /// Any status but success is an error. The media type is that of the body, or without one that
    /// of the reply.
    fn send(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: Option<&Bytes>,
    ) -> Result<(String, Box<dyn Read>)> {
        for attempt in 1.. {
            let (head, reply) = self.send_once(method, path, media_type, body)?.into_parts();
            let status = head.status.as_u16();
            if head.status.is_success() && head.status != StatusCode::NO_CONTENT {
                let found = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                return Ok((found.unwrap_or_default().to_owned(), reply));
            }
            let problem = serde_json::from_reader(reply.take(REPLY_BYTES_MAX)).unwrap_or_default();
            let problem: ProblemReply<'static> = ProblemReply { status, ..problem };
            if problem.is_temporary() && attempt < ATTEMPTS_MAX {
                let (pause, why) = (retry_after(&head.headers), problem.to_string());
                let again = again(pause, attempt);
                self.say(&format!("{}: {}; {again}", self.client.url(), printable(&why)));
                wait(pause);
                continue;
            }
            if problem.is_foreign() {
                return Err(foreign(problem).into());
            }
            let refused = format!("{} refused {path}: {problem}", self.client.url());
            let next = match (status, problem.code()) {
                (401 | 403, _) => {
                    "send a token that allows it: NEARPRINT_TOKEN=TOKEN, --token TOKEN or --token-file \
                     FILE"
                }
                (_, Some(Code::DistanceAboveMax)) => {
                    "to raise the maximum of a stopped directory: nearprint reindex --data DIR --distance N"
                }
                (_, Some(Code::Follower)) => "name its primary: --server URL",
                (_, Some(Code::OutcomeUnknown)) => {
                    "look whether it was done; documents with ids may be sent again in any case"
                }
                (_, Some(Code::JobNotFound)) => "`nearprint jobs` lists the jobs",
                _ => return Err(Error::new(problem).context(refused)),
            };
            return Err(ErrorReport::new(refused, next).because(problem).into());
        }
        unreachable!("the last attempt returns")
    }

    /// Sends a request once.
    fn send_once(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: Option<&Bytes>,
    ) -> Result<Incoming, ErrorReport> {
        let send = || self.client.send(method, (path, media_type), body);
        let waiting = || WaitNotice::new(format!("waiting for {} to answer", self.client.url()));
        let notice = (!self.is_quiet).then(waiting);
        let sent = match &notice {
            Some(notice) => notice.during(send),
            None => send(),
        };
        let reply = sent.map_err(|error| self.unreachable(error))?;
        Ok(reply.map(|body| Box::new(NoticedBody { body, notice }) as Box<dyn Read>))
    }

    /// Gets a path once, without waiting for a busy service; its status.
    pub(crate) fn probe(&self, path: &str) -> Result<u16> {
        let (status, _) = self.client.ask(path).map_err(|error| self.unreachable(error))?;
        Ok(status)
    }

    /// Gets a path once, without waiting for a busy service, and reads the reply, which must be
    /// JSON.
    pub(crate) fn get_once(&self, path: &str) -> Result<Value> {
        let (status, body) = self.client.ask(path)?;
        let body: Value = serde_json::from_slice(&body)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        Err(anyhow!("{status}: {}", body["detail"].as_str().unwrap_or_default()))
    }

    fn unreachable(&self, error: ClientError) -> ErrorReport {
        ErrorReport::new(
            format!("no answer from a nearprint service at {}", self.client.url()),
            "start one with `nearprint serve`, or name another with --server URL; without a service, \
             `nearprint export --data DIR` reads the directory of a stopped one, and `nearprint dedup \
             --against DIR` compares files with it",
        )
        .because(error)
    }
}

/// When a request that was refused for now is sent again, for people.
fn again(pause: Duration, attempt: u32) -> String {
    let of = ATTEMPTS_MAX.saturating_sub(1);
    format!("trying again in {} s ({attempt} of {of})", pause.as_secs())
}

/// The seconds of a `Retry-After` header; 1 without one.
fn retry_after(headers: &HeaderMap) -> Duration {
    let header = headers.get("retry-after");
    let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(1).min(WAIT_SECONDS_MAX))
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
