//! Batches of commands that have opened the data directory themselves: records of files in,
//! outcomes out, without the JSON and the HTTP of the two ends.

use std::sync::Arc;
use std::thread;

use nearprint_engine::{Admission, Checked, Findings, Inserted, Pending, PreviousUnread, Written};
use nearprint_files::Entry;
use nearprint_wire::offer::OfferOptions;
use tokio::runtime::Handle;

use crate::http::batch::run::{Operation, parameters_of};
use crate::http::problem::{Code, Problem};
use crate::http::reply::wire::Subject;
use crate::http::request::prepare::{self, Prepared, Setting};
use crate::http::request::reach::NamespaceAccess;
use crate::http::service::Service;

/// What `each` makes of the documents, in their order; all cores work on them.
pub(super) fn on_all_cores<T: Send>(
    entries: &[&Entry],
    each: &(impl Fn(&&Entry) -> T + Sync),
) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let pieces = entries.chunks(entries.len().div_ceil(threads).max(1));
        let running: Vec<_> = pieces
            .map(|piece| scope.spawn(move || piece.iter().map(each).collect::<Vec<T>>()))
            .collect();
        let done = running.into_iter().map(thread::ScopedJoinHandle::join);
        done.flat_map(|piece| piece.expect("an analysis does not panic")).collect()
    })
}

/// A batch on a service in this process.
pub(crate) struct DirectBatch {
    service: Arc<Service>,
    operation: Operation,
    options: OfferOptions,
}

/// What became of a document.
pub(crate) struct DirectOutcome {
    pub(crate) subject: Subject,
    /// `None` for a look-up.
    pub(crate) written: Option<Written>,
    /// The document that its id had. Not read yet: only a caller who shows it reads it.
    pub(crate) previous: Option<Box<PreviousUnread>>,
    /// `None` for an insert.
    pub(crate) findings: Option<Findings>,
}

/// A write in the queue of the writer.
enum Begun {
    Insert(Pending<Inserted>),
    CheckAndInsert(Pending<Checked>),
}

type Document = Result<(Subject, Prepared), Problem>;

impl DirectBatch {
    /// A batch with these query parameters, the options of all its documents.
    ///
    /// # Errors
    /// An option that is wrong for every document, as in a batch over HTTP.
    pub(crate) fn new(
        service: Arc<Service>,
        operation: Operation,
        query: Option<&str>,
    ) -> Result<Self, Problem> {
        let options = parameters_of(&service, operation, query, &NamespaceAccess::ALL)?.options;
        Ok(Self { service, operation, options })
    }

    /// Analyses documents on all cores, and looks them up there or stores them in their order.
    pub(crate) fn run(
        &self,
        entries: &[&Entry],
        runtime: &Handle,
    ) -> Vec<Result<DirectOutcome, Problem>> {
        let begin = |entry: &&Entry, setting: &Setting| {
            let document = self.prepare(entry, setting)?;
            let subject = Subject::from(&document);
            Ok((subject, document))
        };
        if self.operation.writes() {
            let documents = self.on_all_cores(entries, &begin);
            return runtime.block_on(self.write(documents));
        }
        self.on_all_cores(entries, &|entry, setting| {
            let (subject, document) = begin(entry, setting)?;
            let found = self.service.engine.find(&document.document, document.options);
            let findings = runtime.block_on(async { found.await?.show(usize::MAX).await })?;
            let findings = Some(findings.into_findings());
            Ok(DirectOutcome { subject, written: None, previous: None, findings })
        })
    }

    fn on_all_cores<T: Send>(
        &self,
        entries: &[&Entry],
        each: &(impl Fn(&&Entry, &Setting) -> T + Sync),
    ) -> Vec<T> {
        let setting = self.service.setting();
        on_all_cores(entries, &|entry| each(entry, &setting))
    }

    fn prepare(&self, entry: &Entry, setting: &Setting) -> Result<Prepared, Problem> {
        let offer = entry.offer();
        let mut offer =
            offer.map_err(|fault| Problem::new(Code::InvalidValue, fault.to_string()))?;
        offer.options = offer.options.or_of_batch(&self.options);
        prepare::offer(offer, self.operation.request().needs, setting)
    }

    async fn write(&self, documents: Vec<Document>) -> Vec<Result<DirectOutcome, Problem>> {
        // All are in the queue of the writer before the first sync is waited for.
        let mut begun = Vec::with_capacity(documents.len());
        for document in documents {
            begun.push(match document {
                Ok((subject, document)) => self.begin(document).await.map(|one| (subject, one)),
                Err(problem) => Err(problem),
            });
        }
        let mut outcomes = Vec::with_capacity(begun.len());
        for write in begun {
            outcomes.push(match write {
                Ok((subject, begun)) => outcome(subject, begun).await,
                Err(problem) => Err(problem),
            });
        }
        outcomes
    }

    async fn begin(&self, document: Prepared) -> Result<Begun, Problem> {
        let (engine, wait) = (&self.service.engine, Admission::Wait);
        Ok(if self.operation == Operation::Insert {
            Begun::Insert(engine.begin_insert(document.into_insert(), wait).await?)
        } else {
            let Prepared { document, options, storing, .. } = document;
            let begun = engine.begin_check_and_insert(document, options, storing, wait);
            Begun::CheckAndInsert(begun.await?)
        })
    }
}

async fn outcome(subject: Subject, begun: Begun) -> Result<DirectOutcome, Problem> {
    let (written, previous, findings) = match begun {
        Begun::Insert(pending) => {
            let Inserted { written, previous } = pending.wait().await?;
            (written, previous, None)
        }
        Begun::CheckAndInsert(pending) => {
            let Checked { written, found, previous } = pending.wait().await?;
            (written, previous, Some(found.show(usize::MAX).await?.into_findings()))
        }
    };
    Ok(DirectOutcome { subject, written: Some(written), previous, findings })
}
