//! A running service, over HTTP.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use bytes::Bytes;
use nearprint_client::{ClientError, RemoteError, ReplyBody, ServiceClient, Trust, read_token};
use nearprint_engine::SearchKind;
use nearprint_files::Entry;
use nearprint_wire::answer::{Answer, JobReply, ProblemReply};
use nearprint_wire::code::Code;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::waiting::{NoticedBody, WaitNotice};
use super::{GroupSearch, Which, foreign, item, path, wait, without_nulls};
use crate::cli::error_report::ErrorReport;
use crate::cli::measure::arguments::timeout;
use crate::cli::printable::printable;

/// How often a request is sent to a service that is too busy for it.
const ATTEMPTS_MAX: u32 = 60;
/// The longest reply that is read as a whole.
const REPLY_BYTES_MAX: u64 = 256 << 20;
/// The longest line of a reply that is read as it arrives.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The buffer of a long stream.
const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// The items of one page.
const PAGE: u64 = 1_000;

const ANY: &str = "*/*";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// How long a reply may take, and a request that is sent again while the service is busy.
const TIMEOUT: Duration = Duration::from_mins(2);

/// What a service with tokens or TLS needs, and how long it is waited for.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ClientArgs {
    /// The token to send, if the service requires one
    #[arg(long, value_name = "TOKEN", env = "NEARPRINT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the token to send, and nothing else
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the certificates of this PEM file instead of those of public authorities
    #[arg(long, value_name = "FILE", env = "NEARPRINT_CA_FILE", hide_env_values = true)]
    ca_file: Option<PathBuf>,
    /// How long to wait for a whole reply, with all attempts while the service is busy, and for a
    /// stream of documents to begin and to go on [default: 120; 5 for nodes of a cluster, 3 for
    /// health]
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    timeout: Option<Duration>,
}

impl ClientArgs {
    /// The same, with these files where nothing was given.
    pub(crate) fn or(self, token_file: Option<PathBuf>, ca_file: Option<PathBuf>) -> Self {
        let has_token = self.token.is_some() || self.token_file.is_some();
        Self {
            token_file: if has_token { self.token_file } else { token_file },
            ca_file: self.ca_file.or(ca_file),
            ..self
        }
    }

    /// How long a reply may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
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
type Incoming = Response<NoticedBody<ReplyBody>>;

/// A request.
#[derive(Clone, Copy)]
struct Request<'a> {
    method: &'a Method,
    path: &'a str,
    /// That of the body, or without one that of the reply.
    media_type: &'a str,
    body: Option<&'a Bytes>,
    /// The reply is read as it arrives, and may take any time in all.
    is_streamed: bool,
}

impl<'a> Request<'a> {
    const fn get(path: &'a str, media_type: &'a str) -> Self {
        Self { method: &Method::GET, path, media_type, body: None, is_streamed: false }
    }
}

/// A service, with what it asks of its clients.
pub(crate) struct RemoteService {
    client: ServiceClient,
    /// How long a reply may take.
    reply_max: Duration,
    /// How long a request may take in all, with every attempt.
    call_max: Duration,
    /// It does not say for what it waits.
    is_quiet: bool,
}

impl RemoteService {
    /// The service at an address such as `http://127.0.0.1:7878`; connects with the first request.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(crate) fn new(address: &str, args: &ClientArgs) -> Result<Self> {
        Self::with_timeout(address, args, TIMEOUT)
    }

    /// The same, where a reply may take so long unless the command line says otherwise.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(crate) fn with_timeout(
        address: &str,
        args: &ClientArgs,
        reply_max: Duration,
    ) -> Result<Self> {
        let (token, trust) = (args.token()?, args.ca_file.as_deref().into());
        let reply_max = args.timeout.unwrap_or(reply_max);
        let client = ServiceClient::new(address, token.as_deref(), trust, reply_max)?;
        let call_max = args.timeout.unwrap_or(TIMEOUT);
        Ok(Self { client, reply_max, call_max, is_quiet: false })
    }

    /// For a probe, which sends no secret, and so may ask anybody.
    ///
    /// # Errors
    /// The operating system has no thread for it.
    pub(crate) fn for_probe(address: &str, reply_max: Duration) -> Result<Self> {
        let client = ServiceClient::new(address, None, Trust::Anybody, reply_max)?;
        Ok(Self { client, reply_max, call_max: reply_max, is_quiet: false })
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
        let (_, mut body) = self.send(Request::get("/readyz", ANY))?;
        io::copy(&mut body, &mut io::sink()).map_err(|error| self.cut_off(error))?;
        Ok(())
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
        let body = Some(&body);
        let request = Request { method: &Method::POST, body, ..Request::get(path, NDJSON) };
        let body = self.expect(NDJSON, request)?;
        let mut answers = Vec::with_capacity(lines.len());
        for line in BufReader::new(body).lines() {
            let line = line.map_err(|error| cut_off().because(error))?;
            let answer: Answer = serde_json::from_str(&line).map_err(|why| self.foreign(why))?;
            if answer.is_blank() {
                return Err(self.foreign("a line says nothing about its document").into());
            }
            answers.push(answer);
        }
        if answers.len() == lines.len() { Ok(answers) } else { Err(cut_off().into()) }
    }

    /// Gets a path and copies the body.
    pub(crate) fn copy(&self, path: &str, sink: &mut dyn Write) -> Result<u64> {
        let request = Request { is_streamed: true, ..Request::get(path, ANY) };
        Ok(io::copy(&mut self.send(request)?.1, sink)?)
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
        let request = Request { method, body: body.as_ref(), ..Request::get(path, media_type) };
        let mut json = Vec::new();
        let read = self.expect(JSON, request)?.read_to_end(&mut json);
        read.map_err(|error| self.cut_off(error))?;
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(self.foreign("it is not a JSON object").into());
        }
        Ok(serde_json::from_slice(&json).map_err(|why| self.foreign(why))?)
    }

    /// Sends a request whose reply has this media type.
    fn expect(&self, expected: &str, request: Request<'_>) -> Result<Box<dyn Read>> {
        let (found, reply) = self.send(request)?;
        let essence = found.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(expected) {
            return Ok(Box::new(reply));
        }
        let why = match essence {
            "" => "it has no Content-Type".to_owned(),
            other => format!("its Content-Type is {other}"),
        };
        Err(self.foreign(why).into())
    }

    /// A reply of this address that a nearprint service of this version does not give.
    pub(crate) fn foreign(&self, why: impl Display) -> ErrorReport {
        foreign(anyhow!("{}: {why}", self.client.url()))
    }

    /// A reply that began and was not whole in time.
    fn cut_off(&self, error: io::Error) -> ErrorReport {
        ErrorReport::new(
            format!("the reply of {} cannot be read", self.client.url()),
            "look at the log of the service; --timeout SECONDS waits longer, and ask for less if it \
             is too long, as with --limit",
        )
        .because(error)
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
            let listed: Result<Vec<T>, _> = serde_json::from_value(field(name));
            let listed = listed.map_err(|why| self.foreign(why))?;
            items.extend(listed);
            let next = field("next").as_str().map(str::to_owned);
            if next.is_some() && next == last {
                return Err(self.foreign("its pages have no end").into());
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
        let request = Request { is_streamed: true, ..Request::get(path, NDJSON) };
        let body = BoundedLines { body: self.expect(NDJSON, request)?, line_bytes: 0 };
        Ok(BufReader::with_capacity(STREAM_BUFFER_BYTES, body))
    }

    /// Sends a request, again while a service is busy; the media type of the reply, and its body.
    /// Any status but success is an error.
    fn send(&self, request: Request<'_>) -> Result<(String, NoticedBody<ReplyBody>)> {
        let end = Instant::now() + self.call_max;
        let left = || end.saturating_duration_since(Instant::now());
        for attempt in 1.. {
            let (head, reply) = self.send_once(request, left().min(self.reply_max))?.into_parts();
            let status = head.status.as_u16();
            if head.status.is_success() && head.status != StatusCode::NO_CONTENT {
                let found = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let reply = if request.is_streamed { reply } else { whole(reply) };
                return Ok((found.unwrap_or_default().to_owned(), reply));
            }
            let problem = serde_json::from_reader(whole(reply)).unwrap_or_default();
            let problem: ProblemReply<'static> = ProblemReply { status, ..problem };
            let pause = retry_after(&head.headers);
            if problem.is_temporary() && attempt < ATTEMPTS_MAX && pause < left() {
                let (why, again) = (problem.to_string(), again(pause, attempt));
                self.say(&format!("{}: {}; {again}", self.client.url(), printable(&why)));
                wait(pause);
                continue;
            }
            return Err(self.refused(request.path, problem, pause));
        }
        unreachable!("the last attempt returns")
    }

    /// The error of a reply with another status than that of success, which may be sent again after
    /// a pause if it is temporary.
    fn refused(&self, path: &str, problem: ProblemReply<'static>, pause: Duration) -> Error {
        if problem.is_foreign() {
            return self.foreign(problem).into();
        }
        let refused = format!("{} refused {path}: {problem}", self.client.url());
        let next = match (problem.status, problem.code()) {
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
            _ if problem.is_temporary() => {
                let pause = pause.as_secs();
                let next = format!("try again in {pause} s, or wait longer: --timeout SECONDS");
                return ErrorReport::new(refused, next).because(problem).into();
            }
            _ => return Error::new(problem).context(refused),
        };
        ErrorReport::new(refused, next).because(problem).into()
    }

    /// Sends a request once; its reply begins within a time.
    fn send_once(&self, request: Request<'_>, within: Duration) -> Result<Incoming, ErrorReport> {
        let Request { method, path, media_type, body, .. } = request;
        let send = || self.client.send(method, (path, media_type), body, within);
        let waiting = || WaitNotice::new(format!("waiting for {} to answer", self.client.url()));
        let notice = (!self.is_quiet).then(waiting);
        let sent = match &notice {
            Some(notice) => notice.during(send),
            None => send(),
        };
        let reply = sent.map_err(|error| self.unreachable(error))?;
        Ok(reply.map(|body| NoticedBody { body, notice, address: self.client.url().to_owned() }))
    }

    /// Gets a path once, without waiting for a busy service; its status.
    pub(crate) fn probe(&self, path: &str) -> Result<u16> {
        let (status, _) = self.client.ask(path).map_err(|error| self.unreachable(error))?;
        Ok(status)
    }

    /// Gets a path once, without waiting for a busy service, and reads the reply, which must be
    /// JSON.
    pub(crate) fn get_once(&self, path: &str) -> Result<Value> {
        let asked = self.client.ask(path);
        let (status, body) =
            asked.map_err(|error| anyhow!("no answer from {}: {error}", self.client.url()))?;
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

/// The seconds of a `Retry-After` header; 1 without one, and for a date.
fn retry_after(headers: &HeaderMap) -> Duration {
    let header = headers.get("retry-after");
    let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

/// The body of a reply that is read as a whole.
fn whole(reply: NoticedBody<ReplyBody>) -> NoticedBody<ReplyBody> {
    NoticedBody { body: reply.body.whole(REPLY_BYTES_MAX), ..reply }
}

/// Lines of a bounded length.
struct BoundedLines<R> {
    body: R,
    /// How long the line is that has not ended.
    line_bytes: usize,
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(buffer)?;
        let after = buffer[..count].iter().rev().position(|&byte| byte == b'\n');
        self.line_bytes = after.unwrap_or(self.line_bytes.saturating_add(count));
        if self.line_bytes > LINE_BYTES_MAX {
            return Err(io::Error::other(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_longest_one() {
        let read = |pieces: &[usize]| {
            let lines: Vec<u8> =
                pieces.iter().flat_map(|&n| [&b"x".repeat(n)[..], b"\n"].concat()).collect();
            let mut lines = BoundedLines { body: &lines[..], line_bytes: 0 };
            lines.read_to_end(&mut Vec::new()).map_err(|error| error.to_string())
        };
        let (most, half) = (LINE_BYTES_MAX, LINE_BYTES_MAX / 2);
        assert_eq!(read(&[half, half, half]), Ok(3 * half + 3));
        assert_eq!(read(&[1, most]), Ok(most + 3));
        let message = "a line is longer than 16777216 bytes";
        assert_eq!(read(&[1, 2 * most]), Err(message.to_owned()));
    }

    #[test]
    fn an_address_may_come_with_or_without_its_scheme() {
        for written in ["127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:1/"] {
            let service = RemoteService::new(written, &ClientArgs::default()).unwrap();
            assert_eq!(service.address(), "http://127.0.0.1:1");
        }
    }
}
