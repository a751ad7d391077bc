//! The door of the commands to a collection: a running service, or a data directory that no service
//! uses. The directory is opened in this process; its routes are those of a service, without a
//! socket.

mod directory;
mod service;
mod waiting;

use std::fmt::{self, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{self, Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use bytes::Bytes;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use nearprint_files::Entry;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error_report::ErrorReport;
use super::exit_code;
use super::printable::printable;
use super::reply::Reply;
use crate::http::problem::{Problem, ProblemBody};
pub(super) use directory::OpenedDirectory;
pub(super) use service::{ClientCredentials, RemoteService};

/// The address of a service without a configuration.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7878";
/// The variable with the address of the service.
pub(super) const URL_VARIABLE: &str = "NEARPRINT_URL";

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
/// All but the characters that every part of an address may contain.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const ANY: &str = "*/*";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// Which service a command speaks to.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ServiceArgs {
    /// Where the service listens
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        env = URL_VARIABLE,
        hide_env_values = true,
        default_value = DEFAULT_SERVER,
    )]
    server: String,
    #[command(flatten)]
    credentials: ClientCredentials,
}

impl ServiceArgs {
    /// The collection of the service, which is connected to with the first request.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(super) fn open(&self) -> Result<Collection> {
        Ok(Collection::Service(RemoteService::new(&self.server, &self.credentials)?))
    }
}

/// Which service or data directory a command speaks to.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct CollectionArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// A data directory that no service uses, instead of a service
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration file of the directory
    #[arg(long, value_name = "FILE", requires = "data")]
    config: Option<PathBuf>,
}

impl CollectionArgs {
    /// The service, or the directory, which must exist: a name that is mistyped must not become a
    /// new directory.
    ///
    /// # Errors
    /// As [`OpenedDirectory::open`] and [`ServiceArgs::open`].
    pub(super) fn open(&self) -> Result<Collection> {
        match &self.data {
            Some(data) => Collection::in_directory(data, self.config.as_deref()),
            None => self.service.open(),
        }
    }

    /// The same; a directory that does not exist is created.
    ///
    /// # Errors
    /// As [`OpenedDirectory::open`] and [`ServiceArgs::open`].
    pub(super) fn open_or_create(&self) -> Result<Collection> {
        let Some(data) = &self.data else { return self.service.open() };
        Ok(Collection::Directory(Box::new(OpenedDirectory::open(data, self.config.as_deref())?)))
    }

    /// The directory, if it is one.
    pub(super) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// What tells the collection from others.
    pub(super) fn address(&self) -> io::Result<String> {
        let Some(data) = &self.data else { return Ok(self.service.server.clone()) };
        Ok(path::absolute(data)?.display().to_string())
    }
}

/// Refuses a service together with a directory, two tokens, and the credentials of a service where
/// a command connects to none.
///
/// Clap's own `conflicts_with` and `requires` would also refuse the variables, which may be set for
/// other commands.
pub(super) fn check_collection(
    matches: &ArgMatches,
    command: &mut Command,
) -> Result<(), clap::Error> {
    let mut path = Vec::new();
    let mut innermost = matches;
    while let Some((name, below)) = innermost.subcommand() {
        path.push(name);
        innermost = below;
    }
    let source =
        |id: &str| innermost.try_contains_id(id).ok().and_then(|_| innermost.value_source(id));
    let is_given = |id: &str| source(id) == Some(ValueSource::CommandLine);
    if is_given("token") && is_given("token_file") {
        let message = "--token and --token-file each give a token: leave out one";
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    if let Some(other) = ["data", "config"].into_iter().find(|id| is_given(id))
        && is_given("server")
    {
        let message =
            format!("--server is for a service, and --{other} for a directory: leave out one");
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    let (is_sent, advice) = match path.as_slice() {
        ["import" | "export" | "groups"] => (!is_given("data"), "leave out --data"),
        ["dedup"] => (is_given("against"), "add --against URL"),
        ["snapshot", "export"] | ["health"] => {
            let is_local = is_given("data") || is_given("config");
            (source("server").is_some() && !is_local, "add --server URL")
        }
        _ => return Ok(()),
    };
    match ["token", "token_file", "ca_file"].into_iter().find(|id| !is_sent && is_given(id)) {
        Some(id) => {
            let option = id.replace('_', "-");
            let message = format!("--{option} is for a service, and none is named: {advice}");
            Err(command.error(ErrorKind::MissingRequiredArgument, message))
        }
        None => Ok(()),
    }
}

/// A collection of documents.
pub(super) enum Collection {
    Service(RemoteService),
    Directory(Box<OpenedDirectory>),
}

/// A reply whose body is read as it arrives.
type Incoming<'a> = Response<Box<dyn Read + 'a>>;

impl Collection {
    /// The collection of a directory that exists.
    ///
    /// # Errors
    /// As [`OpenedDirectory::open`].
    pub(super) fn in_directory(data: &Path, config: Option<&Path>) -> Result<Self> {
        if !data.is_dir() {
            let what = format!("there is no data directory {}", data.display());
            let next = format!("name a data directory, or a service by its URL: {DEFAULT_SERVER}");
            return Err(ErrorReport::new(what, next).into());
        }
        Ok(Self::Directory(Box::new(OpenedDirectory::open(data, config)?)))
    }

    /// The collection in messages.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Service(service) => service.address(),
            Self::Directory(_) => "the data directory",
        }
    }

    /// The same, which does not say for what it waits.
    pub(super) fn quiet(self) -> Self {
        match self {
            Self::Service(service) => Self::Service(service.quiet()),
            Self::Directory(directory) => Self::Directory(directory),
        }
    }

    /// An error unless it accepts requests.
    pub(super) fn check_ready(&self) -> Result<()> {
        self.copy("/readyz", &mut io::sink()).map(drop)
    }

    /// Gets a path and copies the body.
    pub(super) fn copy(&self, path: &str, sink: &mut dyn Write) -> Result<u64> {
        Ok(io::copy(&mut self.send(&Method::GET, path, ANY, None)?.1, sink)?)
    }

    /// Gets a path and reads the reply.
    pub(super) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(&Method::GET, path, None)
    }

    /// Deletes what a path names and reads the reply.
    pub(super) fn delete_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(&Method::DELETE, path, None)
    }

    /// Posts a JSON object and reads the reply.
    pub(super) fn post_json<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
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
    ) -> Result<Box<dyn Read + '_>> {
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
    pub(super) fn items<T: DeserializeOwned>(
        &self,
        listing: &str,
        name: &str,
        limit: u64,
    ) -> Result<Vec<T>> {
        self.listing(listing, name, limit).map(|(items, _)| items)
    }

    /// The same, with the other fields of the first page.
    pub(super) fn listing<T: DeserializeOwned>(
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
    pub(super) fn get_lines(&self, path: &str) -> Result<impl BufRead> {
        let body = self.expect(NDJSON, (&Method::GET, path, NDJSON), None)?;
        Ok(BufReader::with_capacity(STREAM_BUFFER_BYTES, body))
    }

    /// Sends documents to the route of a batch, and returns a reply for each.
    pub(super) fn batch(&self, path: &str, entries: &[&Entry]) -> Result<Vec<Reply>> {
        if let Self::Directory(directory) = self {
            return directory.batch(path, entries);
        }
        let cut_off = || {
            let what = format!("{} stopped in the middle of a batch", self.name());
            let next = "look at its log, start it again, and repeat the command: documents with an id \
                        that are already there are not stored twice";
            ErrorReport::new(what, next)
        };
        let lines: Vec<String> = entries.iter().map(|entry| entry.to_json()).collect();
        let body = Bytes::from(lines.join("\n"));
        let body = self.expect(NDJSON, (&Method::POST, path, NDJSON), Some(&body))?;
        let mut replies = Vec::with_capacity(lines.len());
        for line in BufReader::new(body).lines() {
            let line = line.map_err(|error| cut_off().because(error))?;
            let reply: Reply = serde_json::from_str(&line).map_err(foreign)?;
            if reply.is_blank() {
                return Err(foreign(anyhow!("a line says nothing about its document")).into());
            }
            replies.push(reply);
        }
        if replies.len() == lines.len() { Ok(replies) } else { Err(cut_off().into()) }
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
    ) -> Result<(String, Box<dyn Read + '_>)> {
        for attempt in 1.. {
            let reply: Incoming<'_> = match self {
                Self::Service(service) => service.send(method, path, media_type, body)?,
                Self::Directory(directory) => directory.send(method, path, media_type, body)?,
            };
            let (head, reply) = reply.into_parts();
            let status = head.status.as_u16();
            if head.status.is_success() && head.status != StatusCode::NO_CONTENT {
                let found = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                return Ok((found.unwrap_or_default().to_owned(), reply));
            }
            let problem = serde_json::from_reader(reply.take(REPLY_BYTES_MAX)).unwrap_or_default();
            let problem = ProblemReply { status, ..problem };
            if let Self::Service(service) = self
                && problem.is_temporary()
                && attempt < ATTEMPTS_MAX
            {
                let pause = retry_after(&head.headers);
                service.say(&format!("{}: {problem}; {}", self.name(), again(pause, attempt)));
                wait(pause);
                continue;
            }
            if problem.is_foreign() {
                return Err(foreign(problem).into());
            }
            let refused = format!("{} refused {path}: {problem}", self.name());
            let next = match (status, problem.code.as_str()) {
                (401 | 403, _) => {
                    "send a token that allows it: NEARPRINT_TOKEN=TOKEN, --token TOKEN or --token-file \
                     FILE"
                }
                (_, "distance_above_max") => {
                    "to raise the maximum of a stopped directory: nearprint reindex --data DIR --distance N"
                }
                (_, "follower") => "name its primary: --server URL",
                (_, "outcome_unknown") => {
                    "look whether it was done; documents with ids may be sent again in any case"
                }
                (_, "job_not_found") => "`nearprint jobs` lists the jobs",
                _ => return Err(Error::new(problem).context(refused)),
            };
            return Err(ErrorReport::new(refused, next).because(problem).into());
        }
        unreachable!("the last attempt returns")
    }
}

/// A reply that a nearprint service of this version does not give. The address that was named may
/// be that of another service.
pub(super) fn foreign(why: impl Into<Error>) -> ErrorReport {
    let what = "the reply is not from a nearprint service of this version";
    let next = "name the address of one: --server URL, or the variable NEARPRINT_URL";
    ErrorReport::new(what, next).because(why).with_code(exit_code::USAGE)
}

/// When a request that was refused for now is sent again, for people.
fn again(pause: Duration, attempt: u32) -> String {
    let of = ATTEMPTS_MAX.saturating_sub(1);
    format!("trying again in {} s ({attempt} of {of})", pause.as_secs())
}

/// The shown fields of a problem document.
#[derive(Debug, Default, Deserialize, thiserror::Error)]
#[serde(default)]
pub(super) struct ProblemReply {
    /// The stable code, such as `empty_document`.
    pub(super) code: String,
    /// What exactly is wrong.
    pub(super) detail: String,
    /// The HTTP status.
    pub(super) status: u16,
}

impl From<&Problem> for ProblemReply {
    fn from(problem: &Problem) -> Self {
        let ProblemBody { code, detail, status, .. } = problem.body();
        Self { code: code.to_owned(), detail: detail.to_owned(), status }
    }
}

impl ProblemReply {
    /// The service was busy, and the same request may succeed later. A follower takes writes only
    /// once somebody has made it a primary, and what may have been done is not done again.
    pub(super) fn is_temporary(&self) -> bool {
        let is_lasting = matches!(self.code.as_str(), "follower" | "outcome_unknown");
        matches!(self.status, 429 | 503) && !is_lasting
    }

    /// Nothing of a nearprint service is there: it refuses with a code, and never redirects.
    /// Proxies before it refuse for other reasons.
    fn is_foreign(&self) -> bool {
        self.code.is_empty() && (self.status < 400 || matches!(self.status, 404 | 405))
    }
}

impl fmt::Display for ProblemReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*printable(&self.detail), &*printable(&self.code)) {
            ("", "") => write!(f, "status {}", self.status),
            ("", code) => f.write_str(code),
            (detail, "") => f.write_str(detail),
            (detail, code) => write!(f, "{detail} ({code})"),
        }
    }
}

/// The code of the problem with which a collection refused a request.
pub(super) fn code_of(error: &Error) -> Option<&str> {
    let problem = error.chain().find_map(|cause| cause.downcast_ref::<ProblemReply>());
    problem.map(|problem| problem.code.as_str())
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

/// The path of the item with a name. A segment of dots alone would be part of the way to it.
pub(super) fn item(route: &str, name: &str) -> String {
    let encoded = if matches!(name, "." | "..") { NON_ALPHANUMERIC } else { &RESERVED };
    format!("{route}/{}", utf8_percent_encode(name, encoded))
}

/// The seconds of a `Retry-After` header; 1 without one.
fn retry_after(headers: &HeaderMap) -> Duration {
    let header = headers.get("retry-after");
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
    fn values_of_parameters_are_escaped() {
        let parameters =
            [("a", Some("x/y z&\u{e4}".to_owned())), ("b", None), ("c", Some("1.5".to_owned()))];
        assert_eq!(path("/v1/p", &parameters), "/v1/p?a=x%2Fy%20z%26%C3%A4&c=1.5");
        for (name, written) in [
            ("https://a/?b#c", "https%3A%2F%2Fa%2F%3Fb%23c"),
            ("100 %\u{e4}", "100%20%25%C3%A4"),
            ("..", "%2E%2E"),
            (".", "%2E"),
            ("a/..", "a%2F.."),
            ("...", "..."),
        ] {
            assert_eq!(item("/v1/p", name), format!("/v1/p/{written}"));
        }
        assert_eq!(path("/v1/p", &[]), "/v1/p");
    }
}
