//! A data directory, opened in this process: the service without HTTP.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Error, Result, anyhow};
use bytes::Bytes;
use nearprint_engine::document::Namespace;
use nearprint_engine::{Engine, NamespaceFilter, OpenError};
use nearprint_files::Entry;
use nearprint_service::answers::{self, SelectionParts};
use nearprint_service::{
    AllowedNamespaces, Caller, DocumentLines, OfferBatch, PageRequest, Refusal, Selected, Service,
};
use nearprint_wire::answer::{Answer, GroupReply, JobReply, MemberReply};
use nearprint_wire::code::Code;
use nearprint_wire::offer::Offer;
use tokio::runtime::{self, Runtime};

use super::{BatchRequest, GroupSearch, Which};
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::config::Sources;
use crate::model;

/// The items of one page.
const PAGE: u64 = 1_000;

/// An open data directory.
pub(crate) struct OpenedDirectory {
    service: Arc<Service>,
    runtime: Runtime,
}

impl OpenedDirectory {
    /// Opens (or creates) the directory.
    ///
    /// # Errors
    /// It is no data directory, or it is in use: a service that runs on it holds its lock.
    pub(crate) fn open(data: &Path, config: Option<&Path>) -> Result<Self> {
        let mut sources = Sources::of_process(config.map(Path::to_path_buf));
        sources.data = Some(data.to_path_buf());
        let (_, settings) = configuration::load(&sources)?;
        let engine = Engine::open_to_read_at_least(settings.engine).map_err(|error| {
            let what = format!("cannot open the data directory {}", data.display());
            let next = if matches!(error, OpenError::ClockBehind { .. }) {
                configuration::CLOCK_BEHIND_NEXT
            } else {
                "if a service runs on it, name the service instead: --server URL"
            };
            ErrorReport::new(what, next).because(error)
        })?;
        let service = model::service(engine, settings.http.service);
        let runtime = runtime::Builder::new_multi_thread().enable_time().build()?;
        Ok(Self { service, runtime })
    }

    /// An error unless it accepts documents.
    pub(super) fn check_ready(&self) -> Result<()> {
        self.service.accepts_writes(&AllowedNamespaces::ALL).map_err(|why| refused(&why))
    }

    /// The last change.
    pub(super) fn sequence(&self) -> u64 {
        self.service.engine().sequence().get()
    }

    /// Does something with documents, on all cores; an answer for each, in their order.
    pub(super) fn batch(&self, request: &BatchRequest, entries: &[&Entry]) -> Result<Vec<Answer>> {
        let takes_none = |why: String| anyhow!("the data directory takes no documents: {why}");
        let options = request.read().map_err(|fault| takes_none(fault.to_string()))?;
        let batch = OfferBatch::new(Arc::clone(&self.service), request.operation, options);
        let mut batch = batch.map_err(|why| takes_none(why.problem().to_string()))?;
        batch.shows_previous = request.shows_previous;
        Ok(batch.run(entries, |entry| offer(entry), self.runtime.handle()))
    }

    /// The documents of a selection as lines of JSON, with metadata and with sketches or without.
    pub(super) fn documents(
        &self,
        which: Which<'_>,
        [metadata, sketch]: [bool; 2],
    ) -> Result<impl BufRead + use<'_>> {
        let prefix = which.prefix.map(Into::into);
        let selected =
            Selected { namespaces: namespaces(which.namespace, which.all_namespaces)?, prefix };
        let parts = SelectionParts { metadata, sketch };
        let source = self.service.document_lines(&Caller::of_process(), (selected, None), parts);
        let source = source.map_err(|why| refused(&why))?;
        Ok(BufReader::new(Lines { runtime: &self.runtime, source, piece: Bytes::new() }))
    }

    /// Begins to find groups.
    pub(super) fn begin_groups(&self, search: &GroupSearch<'_>) -> Result<JobReply> {
        let _runtime = self.runtime.enter();
        let namespaces = namespaces(search.namespace, search.all_namespaces)?;
        let request =
            self.service.groups_request(&search.options, namespaces, Some(search.min_size));
        let begun =
            request.and_then(|request| self.service.begin_groups(&Caller::of_process(), request));
        begun.map_err(|why| refused(&why))
    }

    /// The job with this name.
    pub(super) fn job(&self, name: &str) -> Result<JobReply> {
        self.service.job(&Caller::of_process(), name).map_err(|why| refused(&why))
    }

    /// Cancels a job, or removes a search for groups that has ended, with its result.
    pub(super) fn end_job(&self, name: &str) -> Result<JobReply> {
        let ended = self.runtime.block_on(self.service.end_job(&Caller::of_process(), name));
        ended.map_err(|why| refused(&why))
    }

    /// The groups that a job has found, at most `limit`.
    pub(super) fn groups(&self, job: &str, limit: u64) -> Result<Vec<GroupReply<'static>>> {
        self.pages(limit, &async |page| {
            let caller = Caller::of_process();
            let (job, listed) = self.service.groups(&caller, job, (page, false)).await?;
            let listed = listed.ok_or_else(|| Refusal::new(Code::GroupsNotReady, ""))?;
            let reply = answers::groups(job, Some(&listed.page), None, &caller.namespaces);
            let found = reply.found.unwrap_or_default();
            Ok((found.into_iter().map(GroupReply::into_owned).collect(), listed.next))
        })
    }

    /// The documents of a group that a job has found, at most `limit`.
    pub(super) fn members(
        &self,
        job: &str,
        group: u64,
        limit: u64,
    ) -> Result<Vec<MemberReply<'static>>> {
        self.pages(limit, &async |page| {
            let caller = Caller::of_process();
            let listed = self.service.members(&caller, (job, group), (page, false)).await?;
            let reply = answers::members(group, &listed.page, None, &caller.namespaces);
            Ok((reply.documents.into_iter().map(MemberReply::into_owned).collect(), listed.next))
        })
    }

    /// The items of all pages, at most `limit`.
    fn pages<T>(
        &self,
        limit: u64,
        read: &impl AsyncFn(PageRequest<'_>) -> Result<(Vec<T>, Option<String>), Refusal>,
    ) -> Result<Vec<T>> {
        let (mut items, mut after) = (Vec::new(), None::<String>);
        while (items.len() as u64) < limit {
            let count = usize::try_from(PAGE.min(limit - items.len() as u64))?;
            let page = read(PageRequest { after: after.as_deref(), limit: count });
            let (listed, next) = self.runtime.block_on(page).map_err(|why| refused(&why))?;
            items.extend(listed);
            after = next;
            if after.is_none() {
                break;
            }
        }
        Ok(items)
    }
}

impl Drop for OpenedDirectory {
    fn drop(&mut self) {
        self.service.engine().close();
    }
}

/// A record of a file as the service takes it.
///
/// # Errors
/// A field has a value that it does not take.
pub(crate) fn offer(entry: &Entry) -> Result<Offer<'_>, Refusal> {
    entry.offer().map_err(|fault| Refusal::new(Code::InvalidValue, fault.to_string()))
}

/// An error with what the service says.
fn refused(why: &Refusal) -> Error {
    let problem = why.problem().into_owned();
    let refused = format!("the data directory refused: {problem}");
    Error::new(problem).context(refused)
}

fn namespaces(name: Option<&str>, all: bool) -> Result<NamespaceFilter> {
    if all {
        return Ok(NamespaceFilter::All);
    }
    let named = name.map(Namespace::new).transpose();
    let named = named.map_err(|bad| refused(&bad.into()))?;
    Ok(NamespaceFilter::Namespace(named))
}

/// Lines that are read as they are made.
struct Lines<'a> {
    runtime: &'a Runtime,
    source: DocumentLines,
    piece: Bytes,
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let next = self.runtime.block_on(self.source.next());
            self.piece = next.map_err(|why| io::Error::other(why.problem().to_string()))?;
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
