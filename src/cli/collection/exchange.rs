//! A request to a running service, and its reply, with all attempts.

use std::fmt::Display;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;
use nearprint_client::{ClientError, RemoteError, ReplyBody, ServiceClient, Trust, read_token};
use nearprint_wire::answer::ProblemReply;
use nearprint_wire::code::Code;

use super::attempts::{Attempts, FailedAttempt, FailureKind, retry_after};
use super::waiting::{NoticedBody, WaitNotice};
use super::{foreign, replies, wait};
use crate::cli::error_report::ErrorReport;
use crate::cli::measure::arguments::timeout;
use crate::cli::printable::printable;

/// The longest reply that is read as a whole.
const REPLY_BYTES_MAX: u64 = 256 << 20;

pub(super) const ANY: &str = "*/*";
pub(super) const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson";
pub(super) const BYTES: &str = "application/octet-stream";

/// How long a reply may take, with all attempts.
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
    /// How long to wait for a whole reply, with all attempts while the service is busy or away, and
    /// for a stream of documents to begin and to go on [default: 120; 5 for nodes of a cluster, 3
    /// for health]
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
        read_token(path).map(Some).map_err(|error| credentials(&error).into())
    }
}

/// Adds advice to the error of a file with a token or with certificates.
fn credentials(error: &RemoteError) -> ErrorReport {
    let next = match error {
        RemoteError::Unreadable { .. } => {
            "name a file that is there and that this user may read: --token-file FILE, --ca-file FILE"
        }
        RemoteError::NotAToken(_) => {
            "put the token there that `nearprint token` showed, not its line"
        }
        RemoteError::NotPem { .. } | RemoteError::NoCertificate(_) => {
            "name a PEM file of the certificates to trust: --ca-file FILE"
        }
    };
    ErrorReport::new(error.to_string(), next)
}

/// Adds advice to the error of a client that cannot be made.
fn no_client(error: ClientError) -> ErrorReport {
    match error {
        ClientError::Credentials(error) => credentials(&error),
        ClientError::Address { .. } => ErrorReport::usage(
            error.to_string(),
            "write it as http://HOST:PORT or https://HOST:PORT",
        ),
        ClientError::Token => {
            ErrorReport::usage(error.to_string(), "pass the token that `nearprint token` showed")
        }
        ClientError::Unconnected(_)
        | ClientError::Lost(_)
        | ClientError::NoAnswer(_)
        | ClientError::Thread(_) => {
            ErrorReport::new(error.to_string(), "look at the limits of this process: ulimit -a")
        }
    }
}

/// A reply whose body is read as it arrives.
type Incoming = Response<NoticedBody<ReplyBody>>;

/// A request.
#[derive(Clone, Copy)]
pub(super) struct ServiceRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    /// That of the body, or without one that of the reply.
    pub(super) media_type: &'a str,
    pub(super) body: Option<&'a Bytes>,
    /// To do it twice is the same as to do it once.
    pub(super) is_repeatable: bool,
}

impl<'a> ServiceRequest<'a> {
    pub(super) const fn get(path: &'a str, media_type: &'a str) -> Self {
        Self { method: &Method::GET, path, media_type, body: None, is_repeatable: true }
    }

    pub(super) const fn post(path: &'a str, media_type: &'a str, body: &'a Bytes) -> Self {
        let request = Self::get(path, media_type);
        Self { method: &Method::POST, body: Some(body), ..request }
    }
}

/// A service, with what it asks of its clients.
pub(crate) struct RemoteService {
    pub(super) client: ServiceClient,
    /// How long a reply may take.
    reply_max: Duration,
    /// How long a request may take in all, with every attempt.
    call_max: Duration,
    /// It has replied.
    was_there: AtomicBool,
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
        let client =
            ServiceClient::new(address, token.as_deref(), trust, reply_max).map_err(no_client)?;
        let call_max = args.timeout.unwrap_or(TIMEOUT);
        Ok(Self { client, reply_max, call_max, was_there: false.into(), is_quiet: false })
    }

    /// For a probe, which sends no secret, and so may ask anybody.
    ///
    /// # Errors
    /// The operating system has no thread for it.
    pub(crate) fn for_probe(address: &str, reply_max: Duration) -> Result<Self> {
        let client =
            ServiceClient::new(address, None, Trust::Anybody, reply_max).map_err(no_client)?;
        let call_max = reply_max;
        Ok(Self { client, reply_max, call_max, was_there: false.into(), is_quiet: false })
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

    /// The body of a reply of the media type of its request, which is read as it arrives, and may
    /// take any time in all.
    pub(super) fn streamed(&self, request: ServiceRequest<'_>) -> Result<NoticedBody<ReplyBody>> {
        self.again(|attempts| self.expect(request.media_type, request, attempts))
    }

    /// The body of a reply in JSON, which is read as a whole.
    pub(super) fn whole(
        &self,
        request: ServiceRequest<'_>,
        attempts: &Attempts,
    ) -> Result<Vec<u8>, FailedAttempt> {
        let (body, end) = read(self.expect(JSON, request, attempts)?);
        end.map_err(|error| self.broken(request, error))?;
        Ok(body)
    }

    /// Makes an attempt, and others until one succeeds, or fails for good.
    pub(super) fn again<T>(
        &self,
        mut attempt: impl FnMut(&Attempts) -> Result<T, FailedAttempt>,
    ) -> Result<T> {
        let mut attempts = Attempts::within(self.call_max);
        loop {
            let FailedAttempt { kind, error } = match attempt(&attempts) {
                Ok(result) => return Ok(result),
                Err(failure) => failure,
            };
            let Some(pause) = attempts.pause(kind, self.was_there.load(Ordering::Relaxed)) else {
                return Err(error);
            };
            let (why, again) = (error.root_cause().to_string(), again(pause));
            self.say(&format!("{}: {}; {again}", self.client.url(), printable(&why)));
            wait(pause);
        }
    }

    /// Sends a request once; the body of a reply that succeeds, and has this media type.
    pub(super) fn expect(
        &self,
        expected: &str,
        request: ServiceRequest<'_>,
        attempts: &Attempts,
    ) -> Result<NoticedBody<ReplyBody>, FailedAttempt> {
        let (head, reply) = self.send(request, attempts.left().min(self.reply_max))?.into_parts();
        self.was_there.store(true, Ordering::Relaxed);
        if head.status.is_success() {
            let found = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            self.check_media_type(found.unwrap_or_default(), expected)?;
            return Ok(reply);
        }
        let status = head.status.as_u16();
        if matches!(head.status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) {
            return Err(self.lost_or_done(request, anyhow!("a proxy replied {status}")));
        }
        let (json, end) = read(reply);
        let problem = replies::object(&json).unwrap_or_default();
        let problem: ProblemReply<'static> = ProblemReply { status, ..problem };
        let told = retry_after(&head.headers);
        let kind = FailureKind::of(&problem, told, request.is_repeatable);
        match end.map_err(|error| self.broken(request, error)) {
            Err(broken) if kind == FailureKind::Final => Err(broken),
            _ => Err(FailedAttempt { kind, error: self.refused(request.path, problem, told) }),
        }
    }

    fn check_media_type(&self, found: &str, expected: &str) -> Result<(), ErrorReport> {
        let essence = found.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        Err(self.foreign(match essence {
            "" => "it has no Content-Type".to_owned(),
            other => format!("its Content-Type is {other}"),
        }))
    }

    /// A reply broke off, or did not come in time.
    pub(super) fn broken(&self, request: ServiceRequest<'_>, error: io::Error) -> FailedAttempt {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.lost_or_done(request, error);
        }
        self.cut_off(error).into()
    }

    /// There is no reply to a request that may have been carried out.
    fn lost_or_done(&self, request: ServiceRequest<'_>, why: impl Into<Error>) -> FailedAttempt {
        if request.is_repeatable {
            return self.lost(why);
        }
        let what = format!("{} was lost before it replied", self.client.url());
        let next = "look whether it was done: it was not repeated, because its documents have no ids \
                    (--id, --id-from)";
        ErrorReport::new(what, next).because(why).into()
    }

    /// There is no reply to a request that may be sent again.
    pub(super) fn lost(&self, why: impl Into<Error>) -> FailedAttempt {
        FailedAttempt { kind: FailureKind::Lost, error: self.unreachable(why).into() }
    }

    /// The failure of a document of a batch that was refused for now.
    pub(super) fn refused_for_now(
        &self,
        problem: &ProblemReply<'static>,
        is_repeatable: bool,
    ) -> Option<FailedAttempt> {
        let kind = FailureKind::of(problem, None, is_repeatable);
        (kind != FailureKind::Final).then(|| {
            let what = format!("{} stays too busy for all documents", self.client.url());
            let report = ErrorReport::new(what, try_again(None)).because(problem.clone());
            FailedAttempt { kind, error: report.into() }
        })
    }

    /// The error of a reply with another status than that of success. A service that is busy may
    /// say for how long.
    fn refused(&self, path: &str, problem: ProblemReply<'static>, told: Option<Duration>) -> Error {
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
                return ErrorReport::new(refused, try_again(told)).because(problem).into();
            }
            _ => return Error::new(problem).context(refused),
        };
        ErrorReport::new(refused, next).because(problem).into()
    }

    /// Sends a request once; its reply, whatever its status, begins within a time.
    fn send(
        &self,
        request: ServiceRequest<'_>,
        within: Duration,
    ) -> Result<Incoming, FailedAttempt> {
        let ServiceRequest { method, path, media_type, body, .. } = request;
        let send = || self.client.send(method, (path, media_type), body, within);
        let waiting = || WaitNotice::new(format!("waiting for {} to answer", self.client.url()));
        let notice = (!self.is_quiet).then(waiting);
        let sent = match &notice {
            Some(notice) => notice.during(send),
            None => send(),
        };
        match sent {
            Ok(reply) => {
                let address = self.client.url().to_owned();
                Ok(reply.map(|body| NoticedBody { body, notice, address }))
            }
            Err(error @ ClientError::Lost(_)) => Err(self.lost_or_done(request, error)),
            Err(error @ ClientError::Unconnected(_)) => Err(FailedAttempt {
                kind: FailureKind::Unsent,
                error: self.unreachable(error).into(),
            }),
            Err(error) => Err(self.unreachable(error).into()),
        }
    }

    pub(super) fn unreachable(&self, why: impl Into<Error>) -> ErrorReport {
        ErrorReport::new(
            format!("no answer from a nearprint service at {}", self.client.url()),
            "start one with `nearprint serve`, or name another: --server URL, for dedup --against URL; \
             without a service, `nearprint export --data DIR` reads the directory of a stopped one, \
             and `nearprint dedup --against DIR` compares files with it",
        )
        .because(why)
    }
}

/// When a request is sent again, for people.
fn again(pause: Duration) -> String {
    if pause.is_zero() {
        return "trying again".to_owned();
    }
    format!("trying again in {:.1} s", pause.as_secs_f64())
}

/// What to do about a service that is busy, and may say for how long.
fn try_again(told: Option<Duration>) -> String {
    let told = told.filter(|told| !told.is_zero());
    let when = told.map_or_else(|| "later".to_owned(), |told| format!("in {} s", told.as_secs()));
    format!("try again {when}, or wait longer: --timeout SECONDS")
}

/// All bytes of a reply that come, and why there are no more if it is not whole.
pub(super) fn read(reply: NoticedBody<ReplyBody>) -> (Vec<u8>, io::Result<()>) {
    let mut bytes = Vec::new();
    let mut whole = NoticedBody { body: reply.body.whole(REPLY_BYTES_MAX), ..reply };
    let end = whole.read_to_end(&mut bytes).map(drop);
    (bytes, end)
}
