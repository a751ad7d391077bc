//! Many offers at one time, without a protocol: answers come in the order of the offers.

use std::sync::{Arc, OnceLock};
use std::thread;

use nearprint_engine::{Admission, Checked, Engine, Inserted, Outbox, PreviousUnread};
use nearprint_text::Recipe;
use nearprint_wire::answer::{Answer, PreviousReply};
use nearprint_wire::offer::{Content, Offer, OfferOptions};
use tokio::runtime::Handle;

use crate::answers;
use crate::callers::Caller;
use crate::documents::{Begun, previous};
use crate::lifetime::Lifetime;
use crate::options::RequestDefaults;
use crate::prepare::{self, Needs, Prepared, Setting};
use crate::refusal::Refusal;
use crate::service::Service;

/// What is done with each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Its fingerprint is shown.
    Fingerprint,
    /// It is looked up.
    Query,
    /// It is stored.
    Insert,
    /// It is looked up, and stored if nothing counts.
    CheckAndInsert,
}

impl Operation {
    /// What it needs of an analysis and of a look-up.
    pub const fn needs(self) -> Needs {
        match self {
            Self::Fingerprint => Needs::FINGERPRINT,
            Self::Query => Needs::QUERY,
            Self::Insert | Self::CheckAndInsert => Needs::WRITE,
        }
    }

    /// Whether it may change what is stored.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::CheckAndInsert)
    }
}

/// A batch of this process on a service in it.
#[derive(Debug)]
pub struct OfferBatch {
    service: Arc<Service>,
    operation: Operation,
    options: OfferOptions,
    /// Whether answers have the documents that ids had before, which costs a read each.
    pub shows_previous: bool,
}

/// A write in the queue of the writer.
enum Write {
    Insert(Begun<Inserted>),
    Check(Begun<Checked>),
}

/// An offer, or why there is none.
type Offered<'e> = Result<Offer<'e>, Refusal>;

impl OfferBatch {
    /// A batch whose documents have these options, unless they have their own.
    ///
    /// # Errors
    /// An option that is wrong for every document, as in a batch over HTTP; or the service takes no
    /// writes.
    pub fn new(
        service: Arc<Service>,
        operation: Operation,
        options: OfferOptions,
    ) -> Result<Self, Refusal> {
        let setting = service.setting();
        prepare::query_options(&options, true, &setting.defaults)?;
        Lifetime::of(&options, &setting.defaults, setting.now_ms)?;
        if operation.writes() {
            service.accepts_writes(&Caller::of_process().namespaces)?;
        }
        Ok(Self { service, operation, options, shows_previous: false })
    }

    /// Analyses what `offer` makes of the items on all cores, and looks them up there or stores
    /// them in their order. Refusals are answers, too.
    pub fn run<T: Sync>(
        &self,
        items: &[T],
        offer: impl for<'e> Fn(&'e T) -> Offered<'e> + Sync,
        runtime: &Handle,
    ) -> Vec<Answer> {
        let setting = self.service.setting();
        let prepare = |item: &T| self.prepare(offer(item)?, &setting);
        let answers = if self.operation.writes() {
            let documents = on_all_cores(items, &prepare);
            runtime.block_on(self.write(documents))
        } else {
            on_all_cores(items, &|item| runtime.block_on(self.find(&prepare(item)?)))
        };
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|refusal| refusal.problem().into()))
            .collect()
    }

    fn prepare(&self, mut offer: Offer<'_>, setting: &Setting) -> Result<Prepared, Refusal> {
        offer.options = offer.options.or_of_batch(&self.options);
        prepare::offer(offer, self.operation.needs(), setting)
    }

    async fn find(&self, document: &Prepared) -> Result<Answer, Refusal> {
        let found = self.service.find(&Caller::of_process(), document).await?;
        let findings = found.show(usize::MAX).await?.into_findings();
        Ok(answers::query(document, &findings).into())
    }

    async fn write(
        &self,
        documents: Vec<Result<Prepared, Refusal>>,
    ) -> Vec<Result<Answer, Refusal>> {
        // All are in the queue of the writer before the first sync is waited for.
        let outbox = self.service.engine().outbox();
        let mut begun = Vec::with_capacity(documents.len());
        for document in documents {
            begun.push(match document {
                Ok(document) => outbox.wait_for(self.begin(document, &outbox)).await,
                Err(refusal) => Err(refusal),
            });
        }
        drop(outbox);
        let mut answers = Vec::with_capacity(begun.len());
        for write in begun {
            answers.push(match write {
                Ok(write) => self.written(write).await,
                Err(refusal) => Err(refusal),
            });
        }
        answers
    }

    async fn begin(&self, document: Prepared, outbox: &Outbox) -> Result<Write, Refusal> {
        let (service, caller) = (&self.service, Caller::of_process());
        let admission = Admission::Collect(outbox);
        Ok(if self.operation == Operation::CheckAndInsert {
            Write::Check(service.begin_check_and_insert(&caller, document, admission).await?)
        } else {
            Write::Insert(service.begin_insert(&caller, document, admission).await?)
        })
    }

    async fn written(&self, write: Write) -> Result<Answer, Refusal> {
        let reach = &Caller::of_process().namespaces;
        Ok(match write {
            Write::Insert(begun) => {
                let (subject, Inserted { written, previous }) = begun.done().await?;
                let before = self.shown(previous).await;
                answers::insert(&subject, (written, before), reach).into()
            }
            Write::Check(begun) => {
                let (subject, Checked { written, found, previous }) = begun.done().await?;
                let findings = found.show(usize::MAX).await?.into_findings();
                let before = self.shown(previous).await;
                answers::check_and_insert(&subject, (written, before), &findings, reach).into()
            }
        })
    }

    /// The document that the id had before, if answers have it.
    async fn shown(&self, before: Option<Box<PreviousUnread>>) -> Option<PreviousReply> {
        if self.shows_previous { previous(before).await } else { None }
    }
}

/// A batch that stores nothing: each document goes through all that it would before the engine has
/// it, without a service.
#[derive(Debug)]
pub struct DryBatch {
    defaults: RequestDefaults,
    operation: Operation,
    options: OfferOptions,
    /// Of the first vector.
    dimensions: OnceLock<u16>,
}

impl DryBatch {
    /// A batch whose documents have these options, unless they have their own.
    pub const fn new(
        defaults: RequestDefaults,
        operation: Operation,
        options: OfferOptions,
    ) -> Self {
        Self { defaults, operation, options, dimensions: OnceLock::new() }
    }

    /// An answer for each item, of which only the error counts. Analyses them on all cores.
    pub fn run<T: Sync>(
        &self,
        items: &[T],
        offer: impl for<'e> Fn(&'e T) -> Offered<'e> + Sync,
    ) -> Vec<Answer> {
        // The first vector decides how many dimensions all have.
        for offered in items.iter().filter_map(|item| offer(item).ok()) {
            self.recipe(&offered.content);
        }
        let refusal = |item: &T| self.prepare(offer(item)?).err().map_or(Ok(()), Err);
        let answer =
            |item: &T| refusal(item).err().map_or_else(Answer::default, |why| why.problem().into());
        on_all_cores(items, &answer)
    }

    fn prepare(&self, mut offer: Offer<'_>) -> Result<Prepared, Refusal> {
        let recipe = self.recipe(&offer.content);
        let defaults = RequestDefaults { recipe, ..self.defaults };
        let setting = Setting { defaults, now_ms: Engine::now_ms() };
        offer.options = offer.options.or_of_batch(&self.options);
        prepare::offer(offer, self.operation.needs(), &setting)
    }

    /// The recipe of the configuration. For vectors and features, which services of other recipes
    /// take, the one of these: a model is in the directory of the service, so hyperplanes stand in.
    fn recipe(&self, content: &Content<'_>) -> Recipe {
        match (content, self.defaults.recipe) {
            (
                Content::Vector(_),
                Recipe::Hyperplanes { dimensions } | Recipe::Spectral { dimensions },
            ) => Recipe::Hyperplanes { dimensions },
            (Content::Vector(vector), _) => {
                let own = || u16::try_from(vector.len()).unwrap_or(u16::MAX);
                Recipe::Hyperplanes { dimensions: *self.dimensions.get_or_init(own) }
            }
            (Content::Features(_), _) => Recipe::Features,
            (Content::Text(_) | Content::Html(_) | Content::Fingerprint(_), own) => own,
        }
    }
}

/// What `each` makes of the items, in their order; all cores work on them.
fn on_all_cores<T: Sync, A: Send>(items: &[T], each: &(impl Fn(&T) -> A + Sync)) -> Vec<A> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let pieces = items.chunks(items.len().div_ceil(threads).max(1));
        let running: Vec<_> = pieces
            .map(|piece| scope.spawn(move || piece.iter().map(each).collect::<Vec<A>>()))
            .collect();
        let done = running.into_iter().map(thread::ScopedJoinHandle::join);
        done.flat_map(|piece| piece.expect("an analysis does not panic")).collect()
    })
}
