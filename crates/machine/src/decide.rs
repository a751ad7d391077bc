//! The machine: decides commands and enacts their changes.

use std::sync::Arc;

use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::{Located, Put, View};
use nearprint_index::visibility::Visibility;

use crate::change::{Change, Record};
use crate::commands::{
    Applied, BeginPurge, CheckAndInsert, CheckAndInsertPacked, DecidedWrite, EndJob, Insert,
    InsertPacked, NoteTime, Reason, Remove, RemoveMany, Reset, Verdict,
};
use crate::document::{Document, DocumentId, Expiry, Namespace, Packed, Sequence};
use crate::jobs::{Job, Jobs, Progress, PurgeWork, RUNNING_MAX};
use crate::search::{NO_HIT, PackedSearch, Search};

/// How many fingerprints' newer changes, or documents, are prefetched together.
const PREFETCHED: usize = 16;

/// The state that commands are decided in.
#[derive(Debug)]
pub struct Machine {
    view: View,
    jobs: Arc<Jobs>,
    id_secret: [u8; 16],
}

impl Machine {
    /// A machine that continues from a view.
    pub fn new(view: View, jobs: Arc<Jobs>, id_secret: [u8; 16]) -> Self {
        Self { view, jobs, id_secret }
    }

    /// The state after the last command.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The same for background work on the levels of the index, which changes no reply.
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// The secret of the keys of ids and namespaces.
    pub fn id_secret(&self) -> [u8; 16] {
        self.id_secret
    }

    /// Sets the time to that of the next command, in milliseconds since 1970.
    pub fn set_time(&mut self, at_ms: u64) {
        self.view.set_time(at_ms);
    }

    /// The time of the last command.
    pub fn now_ms(&self) -> u64 {
        self.view.times().now_ms()
    }

    pub fn key(&self, namespace: Option<&Namespace>, id: &DocumentId) -> IdKey {
        IdKey::of(id.as_str(), namespace, &self.id_secret)
    }

    pub fn namespace_key(&self, namespace: Option<&Namespace>) -> Option<NamespaceKey> {
        namespace.map(|namespace| NamespaceKey::of(namespace, &self.id_secret))
    }

    /// What is visible now, of any age.
    fn visibility(&self, namespace: Option<&Namespace>) -> Visibility {
        self.view.visibility(self.namespace_key(namespace), self.now_ms(), None)
    }

    pub fn insert(&mut self, command: Insert) -> Applied<DecidedWrite> {
        let Insert { mut document, renews } = command;
        let visibility = self.visibility(document.namespace.as_ref());
        let own = document
            .id
            .as_ref()
            .and_then(|id| self.view.find_id(self.key(document.namespace.as_ref(), id)));
        let own = own.filter(|own| !visibility.has_expired(own.posting));
        let verdict = match own {
            Some(own) if own.masked == visibility.masked(document.fingerprint) => {
                if refreshes(&document, renews) {
                    Verdict::Refreshed
                } else {
                    Verdict::AlreadyPresent
                }
            }
            Some(_) => Verdict::Replaced,
            None => Verdict::Inserted,
        };
        let is_new = verdict != Verdict::AlreadyPresent;
        document.expiry = self.not_before_now(document.expiry);
        let decided = DecidedWrite { verdict, previous: own.map(|own| own.posting.sequence) };
        self.applied(decided, is_new.then_some(Change::Put { document }))
    }

    /// Stores a document, or removes the one with its id, or does nothing, depending on its
    /// matches.
    ///
    /// # Panics
    /// If the search has not seen every change: bring it up to date first ([`Search::update`]).
    pub fn check_and_insert(
        &mut self,
        command: CheckAndInsert,
        search: &Search,
    ) -> Applied<DecidedWrite> {
        assert_eq!(search.since, self.view.sequence(), "the search is up to date");
        let CheckAndInsert { mut document, store_duplicates, renews, .. } = command;
        let visibility = search.visibility;
        let own = search.own.filter(|own| !visibility.has_expired(own.posting));
        let is_same = own.is_some_and(|own| own.masked == visibility.masked(document.fingerprint));
        // A document that is too old to count is stored again, as if it were another.
        let is_retry = is_same && own.is_some_and(|own| own.posting.sequence >= visibility.since);
        let verdict = if is_retry {
            if refreshes(&document, renews) { Verdict::Refreshed } else { Verdict::AlreadyPresent }
        } else if search.is_duplicate(document.short) {
            Verdict::Duplicate { stored: store_duplicates }
        } else if is_same {
            Verdict::Refreshed
        } else if own.is_some() {
            Verdict::Replaced
        } else {
            Verdict::Inserted
        };
        document.expiry = self.not_before_now(document.expiry);
        let change = match verdict {
            Verdict::AlreadyPresent => None,
            // The document under this id, if any, is outdated, and its successor is not stored.
            Verdict::Duplicate { stored: false } => {
                let outdated = own.filter(|_| !is_same).and(document.id);
                outdated.map(|id| Change::Remove { namespace: document.namespace, id })
            }
            Verdict::Inserted
            | Verdict::Replaced
            | Verdict::Refreshed
            | Verdict::Duplicate { stored: true } => Some(Change::Put { document }),
        };
        let decided = DecidedWrite { verdict, previous: own.map(|own| own.posting.sequence) };
        self.applied(decided, change)
    }

    pub fn insert_packed(&mut self, command: InsertPacked) -> Applied<()> {
        let InsertPacked { mut packed } = command;
        packed.expiry = self.not_before_now(packed.expiry);
        self.applied((), put_packed(packed))
    }

    /// Stores each bare fingerprint with nothing near it. The search may be old, as long as it is
    /// not stale ([`PackedSearch::is_stale`]): what is newer is added to it here.
    ///
    /// # Panics
    /// If the search is stale.
    pub fn check_and_insert_packed(
        &mut self,
        command: CheckAndInsertPacked,
        search: PackedSearch,
    ) -> Applied<Vec<u8>> {
        let CheckAndInsertPacked { packed, criteria } = command;
        let Packed { namespace, expiry, fingerprints } = packed;
        let expiry = self.not_before_now(expiry);
        let key = self.namespace_key(namespace.as_ref());
        let PackedSearch { since, mut visibility, mut nearest } = search;
        let distance = criteria.distance;
        // Otherwise whatever is near is visible.
        let mut needs_check = self.view.needs_check(&visibility);
        let mut stored = Vec::new();
        // Each fingerprint meets those before it in the batch, so each is stored before the next is
        // decided.
        for (at, (&fingerprint, nearest)) in fingerprints.iter().zip(&mut nearest).enumerate() {
            if at % PREFETCHED == 0 {
                let next = &fingerprints[at..fingerprints.len().min(at + PREFETCHED)];
                self.view.prefetch_changes(since, next, distance, &visibility);
            }
            let newer = self
                .view
                .near_changed_since(since, fingerprint, distance, &visibility)
                .expect("the search is not stale, and storing makes it no staler");
            let seen = newer
                .iter()
                .filter(|near| !needs_check || self.view.is_stored(near.fingerprint, &visibility));
            let newest = seen.map(|near| near.distance.get()).min();
            *nearest = newest.unwrap_or(NO_HIT).min(*nearest);
            if *nearest == NO_HIT {
                self.view.put(fingerprint, Put { namespace: key, expiry, ..Put::default() });
                stored.push(fingerprint);
                if stored.len() == 1 {
                    // The first document of a namespace has given it a number.
                    let since = visibility.since;
                    let now_ms = self.now_ms();
                    visibility = Visibility { since, ..self.view.visibility(key, now_ms, None) };
                    needs_check = self.view.needs_check(&visibility);
                }
            }
        }
        let change = put_packed(Packed { namespace, expiry, fingerprints: stored });
        Applied { reply: nearest, change, sequence: self.view.sequence() }
    }

    /// Removes the document with an id.
    pub fn remove(&mut self, command: Remove) -> Applied<u64> {
        let Remove { namespace, id } = command;
        let visibility = self.visibility(namespace.as_ref());
        let own = self.view.find_id(self.key(namespace.as_ref(), &id));
        let is_stored = own.is_some_and(|own| !visibility.has_expired(own.posting));
        let change = is_stored.then_some(Change::Remove { namespace, id });
        self.applied(u64::from(is_stored), change)
    }

    /// Removes a fingerprint with all its documents in a namespace.
    pub fn reset(&mut self, command: Reset) -> Applied<u64> {
        let Reset { namespace, fingerprint } = command;
        let visibility = self.visibility(namespace.as_ref());
        let documents = self.view.exact_count(fingerprint, &visibility);
        let change = (documents > 0).then_some(Change::Reset { namespace, fingerprint });
        self.applied(documents, change)
    }

    /// Removes documents as far as they are still stored.
    pub fn remove_many(&mut self, command: RemoveMany) -> Applied<u64> {
        let RemoveMany { namespace, mut documents, reason } = command;
        let now_ms = self.now_ms();
        let job = match reason {
            Reason::Expiry => None,
            Reason::Purge(step) => match self.jobs.get(step.job).filter(|job| !job.has_ended()) {
                Some(Job { work, .. }) => Some((step, work.matched, work.removed)),
                None => return self.applied(0, None),
            },
        };
        let mut located = self.view.documents_at(&documents);
        located.retain(|located| match reason {
            Reason::Expiry => {
                located.posting.expiry.is_some_and(|expiry| expiry.has_passed(now_ms))
            }
            Reason::Purge(_) => true,
        });
        documents.clear();
        documents.extend(located.iter().map(|l| (l.posting.sequence, l.masked)));
        let removed = documents.len() as u64;
        let progress = job.map(|(step, matched_before, removed_before)| Progress {
            job: step.job,
            through: step.through,
            matched: matched_before + step.matched,
            removed: removed_before + removed,
        });
        if removed == 0 && progress.is_none() {
            return self.applied(removed, None);
        }
        self.enact_removal(&located, namespace, progress);
        let change = Some(Change::RemoveMany { namespace, documents, progress });
        Applied { reply: removed, change, sequence: self.view.sequence() }
    }

    fn enact_removal(
        &mut self,
        located: &[Located],
        namespace: Option<IdKey>,
        progress: Option<Progress>,
    ) {
        self.view.remove_many(located, namespace);
        self.view.advance();
        if let Some(progress) = progress {
            let step = self.view.sequence();
            Arc::make_mut(&mut self.jobs).note(progress, step);
        }
    }

    /// Begins a purge; `None` if too many jobs run.
    pub fn begin_purge(&mut self, command: BeginPurge) -> Applied<Option<Job<PurgeWork>>> {
        let BeginPurge { purge } = command;
        let begins = self.jobs.running() < RUNNING_MAX;
        let applied = self.applied((), begins.then_some(Change::PurgeBegun { purge }));
        let begun = if begins { self.jobs.all().last().cloned() } else { None };
        applied.map(|(), _| begun)
    }

    /// Ends a job that runs. The reply is whether it did.
    pub fn end_job(&mut self, command: EndJob) -> Applied<bool> {
        let EndJob { job, state } = command;
        let runs = self.jobs.get(job).is_some_and(|job| !job.has_ended());
        self.applied(runs, runs.then_some(Change::JobEnded { job, state }))
    }

    /// Notes the time in a change of its own.
    pub fn note_time(&mut self, _: NoteTime) -> Applied<()> {
        let (namespace, documents, progress) = (None, Vec::new(), None);
        self.applied((), Some(Change::RemoveMany { namespace, documents, progress }))
    }

    /// Counts the changes before `next`, which left no document.
    pub fn skip_to(&mut self, next: Sequence) {
        self.view.skip_to(next);
    }

    /// Enacts a record of the journal, the next one.
    pub fn replay(&mut self, record: &Record) {
        self.set_time(record.at_ms);
        self.enact(&record.change);
    }

    fn enact(&mut self, change: &Change) {
        match change {
            Change::Put { document } => {
                let namespace = document.namespace.as_ref();
                let key = document.id.as_ref().map(|id| self.key(namespace, id));
                let namespace = self.namespace_key(namespace);
                if let Some(own) = key.and_then(|key| self.view.find_id(key)) {
                    self.view.remove(own, namespace.map(|namespace| namespace.key));
                }
                let put = Put {
                    id: key,
                    sketch: document.sketch.clone(),
                    namespace,
                    expiry: document.expiry,
                    is_listed: document.id.is_some() || document.metadata.is_some(),
                };
                self.view.put(document.fingerprint, put);
            }
            Change::PutPacked { packed } => {
                let key = self.namespace_key(packed.namespace.as_ref());
                self.view.put_bare(&packed.fingerprints, key, packed.expiry);
            }
            Change::PutSparse { namespace, expiry, fingerprints } => {
                let key = self.namespace_key(namespace.as_ref());
                let first = self.view.sequence().next();
                for (behind, fingerprint) in fingerprints {
                    self.skip_to(Sequence::new(first.get() + u64::from(*behind)));
                    self.view.put_bare(&[*fingerprint], key, *expiry);
                }
            }
            Change::Remove { namespace, id } => {
                if let Some(own) = self.view.find_id(self.key(namespace.as_ref(), id)) {
                    let namespace = self.namespace_key(namespace.as_ref());
                    self.view.remove(own, namespace.map(|namespace| namespace.key));
                }
                self.view.advance();
            }
            Change::Reset { namespace, fingerprint } => {
                self.view.reset(*fingerprint, self.namespace_key(namespace.as_ref()));
                self.view.advance();
            }
            Change::RemoveMany { namespace, documents, progress } => {
                let located = self.view.documents_at(documents);
                self.enact_removal(&located, *namespace, *progress);
            }
            Change::PurgeBegun { purge } => {
                self.view.advance();
                let (number, now_ms) = (self.view.sequence(), self.now_ms());
                Arc::make_mut(&mut self.jobs).begin(number, purge.clone(), now_ms);
            }
            Change::JobEnded { job, state } => {
                self.view.advance();
                let now_ms = self.now_ms();
                Arc::make_mut(&mut self.jobs).end(*job, *state, now_ms);
            }
            // The name is all that is left of it.
            Change::Named { .. } => self.view.advance(),
        }
    }

    /// What expires now or earlier expires in the next second: so, unless the clock is set back,
    /// all that is stored later expires later, and the search for expired documents need not look
    /// back.
    fn not_before_now(&self, expiry: Option<Expiry>) -> Option<Expiry> {
        let next = Expiry::at(self.now_ms() / 1_000 + 1).unwrap_or(Expiry::MAX);
        expiry.map(|expiry| expiry.max(next))
    }

    fn applied<R>(&mut self, reply: R, change: Option<Change>) -> Applied<R> {
        if let Some(change) = &change {
            self.enact(change);
        }
        Applied { reply, change, sequence: self.view.sequence() }
    }
}

/// Whether a document changes one with its id and its fingerprint.
fn refreshes(document: &Document, renews: bool) -> bool {
    renews || document.expiry.is_some() || document.metadata.is_some()
}

fn put_packed(packed: Packed) -> Option<Change> {
    (!packed.fingerprints.is_empty()).then_some(Change::PutPacked { packed })
}
