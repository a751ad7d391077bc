//! The machine: decides commands and enacts their changes.

use crate::document::{DocumentId, Sequence};
use crate::fingerprint::Fingerprint;
use crate::index::levels::ids::IdKey;
use crate::index::view::{Put, View};
use crate::machine::change::Change;
use crate::machine::commands::{
    Applied, CheckAndInsert, CheckAndInsertPacked, Insert, InsertPacked, Remove, Reset, Verdict,
};
use crate::machine::search::{NO_HIT, PackedSearch, Search};

/// How many fingerprints' newer changes are prefetched together.
const PREFETCHED: usize = 16;

/// The state that commands are decided in.
#[derive(Debug)]
pub(crate) struct Machine {
    view: View,
    id_secret: [u8; 16],
}

impl Machine {
    /// A machine that continues from a view.
    pub(crate) fn new(view: View, id_secret: [u8; 16]) -> Self {
        Self { view, id_secret }
    }

    /// The state after the last command.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// The same for background work on the levels of the index, which changes no reply.
    pub(crate) fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// The secret of the id keys.
    pub(crate) fn id_secret(&self) -> [u8; 16] {
        self.id_secret
    }

    /// The key of an id.
    pub(crate) fn key(&self, id: &DocumentId) -> IdKey {
        IdKey::of(id.as_str(), &self.id_secret)
    }

    /// Stores a document.
    pub(crate) fn insert(&mut self, command: Insert) -> Applied<Verdict> {
        let Insert { document } = command;
        let own = document.id.as_ref().and_then(|id| self.view.find_id(self.key(id)));
        let verdict = match own {
            Some(own) if own.fingerprint == document.fingerprint => Verdict::AlreadyPresent,
            Some(_) => Verdict::Replaced,
            None => Verdict::Inserted,
        };
        let is_new = verdict != Verdict::AlreadyPresent;
        self.applied(verdict, is_new.then_some(Change::Put { document }))
    }

    /// Stores a document, or removes the one with its id, or does nothing, depending on its
    /// matches.
    ///
    /// # Panics
    /// If the search has not seen every change: bring it up to date first ([`Search::update`]).
    pub(crate) fn check_and_insert(
        &mut self,
        command: CheckAndInsert,
        search: &Search,
    ) -> Applied<Verdict> {
        assert_eq!(search.since, self.view.sequence(), "the search is up to date");
        let CheckAndInsert { document, store_duplicates, .. } = command;
        let is_duplicate = search.is_duplicate(document.short);
        let verdict = match search.own {
            Some(own) if own.fingerprint == document.fingerprint => Verdict::AlreadyPresent,
            _ if is_duplicate => Verdict::Duplicate { stored: store_duplicates },
            Some(_) => Verdict::Replaced,
            None => Verdict::Inserted,
        };
        let change = match verdict {
            Verdict::AlreadyPresent => None,
            // The document under this id, if any, is outdated, and its successor is not stored.
            Verdict::Duplicate { stored: false } => {
                search.own.and(document.id).map(|id| Change::Remove { id })
            }
            Verdict::Inserted | Verdict::Replaced | Verdict::Duplicate { stored: true } => {
                Some(Change::Put { document })
            }
        };
        self.applied(verdict, change)
    }

    /// Stores bare fingerprints.
    pub(crate) fn insert_packed(&mut self, command: InsertPacked) -> Applied<()> {
        self.applied((), put_packed(command.fingerprints))
    }

    /// Stores each bare fingerprint with nothing near it. The search may be old, as long as it is
    /// not stale ([`PackedSearch::is_stale`]): what is newer is added to it here.
    ///
    /// # Panics
    /// If the search is stale.
    pub(crate) fn check_and_insert_packed(
        &mut self,
        command: CheckAndInsertPacked,
        search: PackedSearch,
    ) -> Applied<Vec<u8>> {
        let CheckAndInsertPacked { fingerprints, distance } = command;
        let PackedSearch { since, mut nearest } = search;
        let mut stored = Vec::new();
        // Each fingerprint meets those before it in the batch, so each is stored before the next is
        // decided.
        for (at, (&fingerprint, nearest)) in fingerprints.iter().zip(&mut nearest).enumerate() {
            if at % PREFETCHED == 0 {
                let next = &fingerprints[at..fingerprints.len().min(at + PREFETCHED)];
                self.view.prefetch_changes(since, next, distance);
            }
            let newer = self
                .view
                .near_changed_since(since, fingerprint, distance)
                .expect("the search is not stale, and storing makes it no staler");
            let newest = newer.iter().map(|near| near.distance.get()).min();
            *nearest = newest.unwrap_or(NO_HIT).min(*nearest);
            if *nearest == NO_HIT {
                self.view.put(fingerprint, Put { is_new: true, ..Put::default() });
                stored.push(fingerprint);
            }
        }
        Applied { reply: nearest, change: put_packed(stored), sequence: self.view.sequence() }
    }

    /// Removes the document with an id.
    pub(crate) fn remove(&mut self, command: Remove) -> Applied<u64> {
        let Remove { id } = command;
        let is_stored = self.view.find_id(self.key(&id)).is_some();
        self.applied(u64::from(is_stored), is_stored.then_some(Change::Remove { id }))
    }

    /// Removes a fingerprint with all its documents.
    pub(crate) fn reset(&mut self, command: Reset) -> Applied<u64> {
        let Reset { fingerprint } = command;
        let documents = self.view.document_counts(fingerprint).documents;
        self.applied(documents, (documents > 0).then_some(Change::Reset { fingerprint }))
    }

    /// Counts the changes before `next`, of which nothing is left.
    pub(crate) fn skip_to(&mut self, next: Sequence) {
        while self.view.sequence().next() < next {
            self.view.advance();
        }
    }

    /// Enacts a change: that of a command, or the next one of the journal.
    pub(crate) fn enact(&mut self, change: &Change) {
        match change {
            Change::Put { document } => {
                let key = document.id.as_ref().map(|id| self.key(id));
                if let Some(own) = key.and_then(|key| self.view.find_id(key)) {
                    self.view.remove(own);
                }
                self.view.put(
                    document.fingerprint,
                    Put { id: key, sketch: document.sketch.clone(), is_new: false },
                );
            }
            Change::PutPacked { fingerprints } => {
                self.view.put_bare(fingerprints);
            }
            Change::PutSparse { fingerprints } => {
                let first = self.view.sequence().next();
                for (behind, fingerprint) in fingerprints {
                    self.skip_to(Sequence::new(first.get() + u64::from(*behind)));
                    self.view.put_bare(&[*fingerprint]);
                }
            }
            Change::Remove { id } => {
                if let Some(own) = self.view.find_id(self.key(id)) {
                    self.view.remove(own);
                }
                self.view.advance();
            }
            Change::Reset { fingerprint } => {
                self.view.reset(*fingerprint);
                self.view.advance();
            }
        }
    }

    fn applied<R>(&mut self, reply: R, change: Option<Change>) -> Applied<R> {
        if let Some(change) = &change {
            self.enact(change);
        }
        Applied { reply, change, sequence: self.view.sequence() }
    }
}

fn put_packed(fingerprints: Vec<Fingerprint>) -> Option<Change> {
    (!fingerprints.is_empty()).then_some(Change::PutPacked { fingerprints })
}
