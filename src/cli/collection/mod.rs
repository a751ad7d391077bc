//! The door of the commands to a collection: a running service, or a data directory that no service
//! uses, which is opened in this process.

mod attempts;
mod directory;
mod exchange;
mod replies;
mod service;
mod waiting;

use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::path::{self, Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Error, Result};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use nearprint_files::Entry;
use nearprint_service::Operation;
use nearprint_wire::answer::{Answer, GroupReply, JobReply, MemberReply, ProblemReply};
use nearprint_wire::code::Code;
use nearprint_wire::offer::{Fault, FieldSet as _, OfferOptions, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::error_report::ErrorReport;
use super::exit_code;
use super::import::interrupt::Interrupt;
pub(super) use directory::{OpenedDirectory, offer};
pub(super) use exchange::{ClientArgs, RemoteService};
pub(super) use service::Replied;

/// The address of a service without a configuration.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7878";
/// The variable with the address of the service.
pub(super) const URL_VARIABLE: &str = "NEARPRINT_URL";

/// All but the characters that every part of an address may contain.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

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
    client: ClientArgs,
}

impl ServiceArgs {
    /// The service, which is connected to with the first request.
    ///
    /// # Errors
    /// The file of certificates cannot be used.
    pub(super) fn open(&self) -> Result<RemoteService> {
        RemoteService::new(&self.server, &self.client)
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
            None => Ok(Collection::Service(self.service.open()?.into())),
        }
    }

    /// The same; a directory that does not exist is created.
    ///
    /// # Errors
    /// As [`OpenedDirectory::open`] and [`ServiceArgs::open`].
    pub(super) fn open_or_create(&self) -> Result<Collection> {
        let Some(data) = &self.data else { return self.open() };
        Ok(Collection::Directory(Box::new(OpenedDirectory::open(data, self.config.as_deref())?)))
    }

    /// Listens for signals. A directory ends what it is doing; a service may never answer.
    ///
    /// # Errors
    /// As [`Interrupt::listen`].
    pub(super) fn listen(&self, message: &'static str) -> io::Result<Interrupt> {
        match self.data {
            Some(_) => Interrupt::listen(message),
            None => Interrupt::listen_while_waiting(message),
        }
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
    // A probe of this machine has a time, too.
    let timeout = (path != ["health"]).then_some("timeout");
    let mut options = ["token", "token_file", "ca_file"].into_iter().chain(timeout);
    match options.find(|id| !is_sent && is_given(id)) {
        Some(id) => {
            let option = id.replace('_', "-");
            let message = format!("--{option} is for a service, and none is named: {advice}");
            Err(command.error(ErrorKind::MissingRequiredArgument, message))
        }
        None => Ok(()),
    }
}

/// A batch: what is done with its documents, and their options.
#[derive(Debug, Clone)]
pub(super) struct BatchRequest {
    pub(super) operation: Operation,
    /// By their names in the API, each with its value as a query parameter has it.
    pub(super) options: Vec<(&'static str, Option<String>)>,
    /// Whether the documents that ids had before are shown.
    pub(super) shows_previous: bool,
}

impl BatchRequest {
    /// The route with its query parameters.
    pub(super) fn path(&self) -> String {
        path(&format!("{}/batch", route(self.operation)), &self.options)
    }

    /// Whether to do it twice with these documents is the same as to do it once: each that is
    /// stored has an id.
    pub(super) fn is_repeatable(&self, entries: &[&Entry]) -> bool {
        let makes_ids =
            self.options.iter().any(|(name, value)| *name == "id_from" && value.is_some());
        !self.operation.writes() || makes_ids || entries.iter().all(|entry| entry.has_id())
    }

    /// The options, as the service reads them.
    ///
    /// # Errors
    /// One takes other values.
    pub(super) fn read(&self) -> Result<OfferOptions, Fault> {
        offer_options(&self.options)
    }
}

/// The route of an operation with one document.
pub(super) const fn route(operation: Operation) -> &'static str {
    match operation {
        Operation::Fingerprint => "/v1/fingerprint",
        Operation::Query => "/v1/query",
        Operation::Insert => "/v1/insert",
        Operation::CheckAndInsert => "/v1/check-and-insert",
    }
}

/// Options by their names.
fn offer_options(named: &[(&'static str, Option<String>)]) -> Result<OfferOptions, Fault> {
    let mut options = OfferOptions::default();
    for (name, value) in named {
        let Some(value) = value else { continue };
        let read = options.set_known(name, Value::Parameter(value));
        read.map_err(|fault| fault.of_field(name))?;
    }
    Ok(options)
}

/// Which documents: those of a namespace or of all, with ids that begin so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Which<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) all_namespaces: bool,
    pub(super) prefix: Option<&'a str>,
}

/// A search for groups.
#[derive(Debug)]
pub(super) struct GroupSearch<'a> {
    /// Only the thresholds and `search` of them count.
    pub(super) options: OfferOptions,
    pub(super) namespace: Option<&'a str>,
    pub(super) all_namespaces: bool,
    pub(super) min_size: u64,
}

/// A collection of documents.
pub(super) enum Collection {
    Service(Box<RemoteService>),
    Directory(Box<OpenedDirectory>),
}

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

    /// An error unless it accepts documents.
    pub(super) fn check_ready(&self) -> Result<()> {
        match self {
            Self::Service(service) => service.check_ready(),
            Self::Directory(directory) => directory.check_ready(),
        }
    }

    /// The last change; `None` if it does not say, or the token may not ask.
    pub(super) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Service(service) => service.sequence(),
            Self::Directory(directory) => Some(directory.sequence()),
        }
    }

    /// Does something with documents, and returns an answer for each, in their order.
    pub(super) fn batch(&self, request: &BatchRequest, entries: &[&Entry]) -> Result<Vec<Answer>> {
        match self {
            Self::Service(service) => service.batch(request, entries),
            Self::Directory(directory) => directory.batch(request, entries),
        }
    }

    /// The documents of a selection as lines of JSON, with metadata and with sketches or without.
    pub(super) fn documents(
        &self,
        which: Which<'_>,
        parts: [bool; 2],
    ) -> Result<Box<dyn BufRead + '_>> {
        Ok(match self {
            Self::Service(service) => Box::new(service.documents(which, parts)?),
            Self::Directory(directory) => Box::new(directory.documents(which, parts)?),
        })
    }

    /// Begins to find groups.
    pub(super) fn begin_groups(&self, search: &GroupSearch<'_>) -> Result<JobReply> {
        match self {
            Self::Service(service) => service.begin_groups(search),
            Self::Directory(directory) => directory.begin_groups(search),
        }
    }

    /// The job with this name.
    pub(super) fn job(&self, name: &str) -> Result<JobReply> {
        match self {
            Self::Service(service) => service.job(name),
            Self::Directory(directory) => directory.job(name),
        }
    }

    /// The groups that a job has found, at most `limit`.
    pub(super) fn groups(&self, job: &str, limit: u64) -> Result<Vec<GroupReply<'static>>> {
        match self {
            Self::Service(service) => service.items(&item("/v1/groups", job), "found", limit),
            Self::Directory(directory) => directory.groups(job, limit),
        }
    }

    /// The documents of a group that a job has found, at most `limit`.
    pub(super) fn members(
        &self,
        job: &str,
        group: u64,
        limit: u64,
    ) -> Result<Vec<MemberReply<'static>>> {
        match self {
            Self::Service(service) => {
                let listing = format!("{}/{group}", item("/v1/groups", job));
                service.items(&listing, "documents", limit)
            }
            Self::Directory(directory) => directory.members(job, group, limit),
        }
    }

    /// Cancels a job, or removes a search for groups that has ended, with its result.
    pub(super) fn end_job(&self, job: &str) -> Result<JobReply> {
        match self {
            Self::Service(service) => service.delete_json(&item("/v1/jobs", job)),
            Self::Directory(directory) => directory.end_job(job),
        }
    }
}

/// A reply that a nearprint service of this version does not give. The address that was named may
/// be that of another service.
pub(super) fn foreign(why: impl Into<Error>) -> ErrorReport {
    let what = "the reply is not from a nearprint service of this version";
    let next = "name the address of one: --server URL, or the variable NEARPRINT_URL";
    ErrorReport::new(what, next).because(why).with_code(exit_code::USAGE)
}

/// The code of the problem with which a collection refused something.
pub(super) fn code_of(error: &Error) -> Option<Code> {
    error.chain().find_map(|cause| cause.downcast_ref::<ProblemReply<'static>>())?.code()
}

/// The body of a request from those fields that have a value.
pub(super) fn without_nulls(mut fields: serde_json::Value) -> serde_json::Value {
    fields.as_object_mut().expect("it is an object").retain(|_, value| !value.is_null());
    fields
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

/// Waits before something is asked again.
#[expect(
    clippy::disallowed_methods,
    reason = "what answers is elsewhere; there is no event to wait for"
)]
pub(crate) fn wait(time: Duration) {
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
