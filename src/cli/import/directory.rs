//! The import straight into a data directory, with the engine in this process.

use std::num::NonZero;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};
use tokio::runtime::{self, Runtime};

use super::options::{OnDuplicate, Options};
use super::sink::Sink;
use crate::bulk::Entry;
use crate::cli::configuration;
use crate::cli::document as local;
use crate::cli::error_report::ErrorReport;
use crate::cli::reply::{Hit, Reply};
use crate::config::Sources;
use crate::document::{Document, DocumentId};
use crate::engine::{
    Admission, Checked, Engine, Findings, Pending, QueryOptions, Refused, Verdict, Written,
};
use crate::fingerprint::{Distance, Fingerprint};
use crate::machine::query::{Criteria, Verification};
use crate::server::Settings;
use crate::sketch::MinResemblance;
use crate::text::Method;

/// An open data directory.
pub(crate) struct Directory {
    engine: Engine,
    runtime: Runtime,
    method: Method,
    query: QueryOptions,
    options: Options,
}

impl Directory {
    /// Opens (or creates) the directory; a service that runs on it holds its lock.
    pub(crate) fn open(data: &Path, config: Option<&Path>, options: Options) -> Result<Self> {
        let mut sources = Sources::of_process(config.map(Path::to_path_buf));
        sources.data = Some(data.to_path_buf());
        let (_, settings) = configuration::load(&sources)?;
        let query = query_options(&settings, &options)?;
        let defaults = &settings.http.defaults;
        let method = Method { recipe: defaults.recipe, extract: defaults.extract };
        let engine = Engine::open(settings.engine).map_err(|error| {
            let what = format!("cannot open the data directory {}", data.display());
            let next = "if a service runs on it, import through the service: --server URL";
            ErrorReport::new(what, next).because(error)
        })?;
        let runtime = runtime::Builder::new_current_thread().build()?;
        Ok(Self { engine, runtime, method, query, options })
    }

    async fn begin(&self, document: Document) -> Result<Begun, Refused> {
        if !self.options.check {
            let pending = self.engine.begin_insert(document, Admission::Wait).await?;
            return Ok(Begun::Insert(pending));
        }
        let store_duplicates = self.options.on_duplicate == OnDuplicate::Insert;
        let pending = self
            .engine
            .begin_check_and_insert(document, self.query, store_duplicates, Admission::Wait)
            .await?;
        Ok(Begun::Check(pending))
    }

    async fn store_all(
        &self,
        documents: Vec<Result<Document, String>>,
    ) -> Result<Vec<Result<Reply, String>>> {
        // All writes of a batch begin before the first is awaited, so that they share a sync.
        let mut begun = Vec::with_capacity(documents.len());
        for document in documents {
            begun.push(match document {
                Ok(document) => {
                    let (fingerprint, short) = (document.fingerprint, document.short);
                    Ok((fingerprint, short, self.begin(document).await?))
                }
                Err(why) => Err(why),
            });
        }
        let mut replies = Vec::with_capacity(begun.len());
        for pending in begun {
            replies.push(match pending {
                Ok((fingerprint, short, begun)) => {
                    let (written, findings) = begun.wait().await?;
                    Ok(reply((fingerprint, short), written, &findings))
                }
                Err(why) => Err(why),
            });
        }
        Ok(replies)
    }
}

/// A write in the engine's queue.
enum Begun {
    Insert(Pending<Written>),
    Check(Pending<Checked>),
}

impl Begun {
    async fn wait(self) -> Result<(Written, Findings), Refused> {
        match self {
            Self::Insert(pending) => Ok((pending.wait().await?, Findings::default())),
            Self::Check(pending) => {
                let Checked { written, found } = pending.wait().await?;
                Ok((written, found.show(usize::MAX).await?.into_findings()))
            }
        }
    }
}

impl Sink for Directory {
    fn store(&mut self, documents: &[Entry]) -> Result<Vec<Result<Reply, String>>> {
        let documents = analyse_all(documents, self.method);
        self.runtime
            .block_on(self.store_all(documents))
            .context("the data directory takes no more documents")
    }

    fn finish(self: Box<Self>) {
        self.engine.close();
    }
}

/// The options of the command line; the configuration has the defaults.
fn query_options(settings: &Settings, import: &Options) -> Result<QueryOptions> {
    let defaults = &settings.http.defaults;
    let distance = match import.distance {
        Some(bits) => match Distance::new(bits) {
            Some(distance) if distance <= defaults.distance_max => distance,
            _ => bail!("--distance {bits} is above {}", defaults.distance_max),
        },
        None => defaults.distance,
    };
    let part = import.min_similarity.unwrap_or(defaults.min_similarity);
    if !(0.0..=1.0).contains(&part) {
        bail!("--min-similarity {part} is not within 0 to 1");
    }
    Ok(QueryOptions {
        criteria: Criteria { distance, min_resemblance: MinResemblance::of_similarity(part) },
        limit: usize::from(import.limit),
    })
}

/// Makes the fingerprints of a batch on all cores, in order.
fn analyse_all(entries: &[Entry], method: Method) -> Vec<Result<Document, String>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = entries.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = entries
            .chunks(share)
            .map(|part| {
                scope.spawn(move || {
                    part.iter().map(|entry| analyse(entry, method)).collect::<Vec<_>>()
                })
            })
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().expect("an analysis does not panic"))
            .collect()
    })
}

fn analyse(entry: &Entry, method: Method) -> Result<Document, String> {
    let id = entry.id.as_deref().map(DocumentId::new).transpose();
    let id = id.map_err(|error| error.to_string())?;
    let analysis = local::analyse(&entry.body, method).map_err(|error| error.to_string())?;
    Ok(Document {
        id,
        fingerprint: analysis.fingerprint,
        sketch: analysis.sketch,
        short: analysis.short,
    })
}

fn reply((fingerprint, short): (Fingerprint, bool), written: Written, found: &Findings) -> Reply {
    let outcome = match written.verdict {
        Verdict::Inserted => "inserted",
        Verdict::Duplicate { .. } => "duplicate",
        Verdict::AlreadyPresent => "already_present",
        Verdict::Replaced => "replaced",
    };
    let hits = found.hits.iter().map(|hit| {
        let (similarity, confirmed) = match hit.verification {
            Verification::Unverifiable => (None, None),
            Verification::Compared { resemblance, confirmed } => {
                (Some(resemblance.similarity()), Some(confirmed))
            }
        };
        Hit {
            fingerprint: hit.fingerprint.to_string(),
            distance: hit.distance.get(),
            similarity,
            confirmed,
            ids: hit.ids.iter().map(ToString::to_string).collect(),
            id_count: hit.id_count,
        }
    });
    Reply {
        fingerprint: fingerprint.to_string(),
        short,
        outcome: outcome.to_owned(),
        stored: written.verdict.is_stored(),
        hits: hits.collect(),
        hit_count: found.hit_count as u64,
        error: None,
    }
}
