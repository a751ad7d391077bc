//! Commands, and the one function that decides them.

use crate::document::{Document, DocumentId, Sequence};
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::levels::ids::IdKey;
use crate::index::view::{Put, View};
use crate::machine::change::Change;
use crate::machine::query::Criteria;
use crate::machine::search::{Probe, Search, Stale};
use crate::sketch::Sketch;

/// How many fingerprints' newer changes are loaded together.
const CHANGES_AHEAD: usize = 16;

/// What a caller wants done.
#[derive(Debug, Clone)]
pub enum Command {
    /// Store a document whatever is there.
    Insert {
        /// The document.
        document: Document,
    },
    /// Store a document if nothing near it is there.
    CheckAndInsert {
        /// The document.
        document: Document,
        /// What counts as near.
        criteria: Criteria,
        /// Store it even if something is.
        store_duplicates: bool,
        /// What a reader found.
        search: Search,
    },
    /// Store bare fingerprints.
    InsertPacked {
        /// In order of effect, at most [`crate::machine::change::PACKED_MAX`].
        fingerprints: Vec<Fingerprint>,
    },
    /// Store each bare fingerprint that has nothing near it.
    CheckAndInsertPacked {
        /// In order of effect, at most [`crate::machine::change::PACKED_MAX`].
        fingerprints: Vec<Fingerprint>,
        /// What counts as near.
        distance: Distance,
        /// What a reader found.
        search: PackedSearch,
    },
    /// Forget the document with an id.
    Remove {
        /// The id.
        id: DocumentId,
    },
    /// Forget a fingerprint with all its documents.
    Reset {
        /// The fingerprint.
        fingerprint: Fingerprint,
    },
}

impl Command {
    /// At most this many bytes go to the journal for it.
    pub fn payload_bytes_max(&self) -> u64 {
        let id_bytes = |id: Option<&DocumentId>| id.map_or(0, |id| id.as_str().len());
        let variable = match self {
            Self::Insert { document } | Self::CheckAndInsert { document, .. } => {
                Sketch::BYTES + id_bytes(document.id.as_ref())
            }
            Self::InsertPacked { fingerprints }
            | Self::CheckAndInsertPacked { fingerprints, .. } => 8 * fingerprints.len(),
            Self::Remove { id } => id_bytes(Some(id)),
            Self::Reset { .. } => 0,
        };
        32 + variable as u64
    }

    /// How many changes it may make.
    pub fn changes_max(&self) -> usize {
        match self {
            Self::InsertPacked { fingerprints }
            | Self::CheckAndInsertPacked { fingerprints, .. } => fingerprints.len(),
            Self::Insert { .. }
            | Self::CheckAndInsert { .. }
            | Self::Remove { .. }
            | Self::Reset { .. } => 1,
        }
    }

    /// Whether it may add documents, so that it is refused when there is no room for more.
    pub fn adds(&self) -> bool {
        match self {
            Self::Insert { .. }
            | Self::CheckAndInsert { .. }
            | Self::InsertPacked { .. }
            | Self::CheckAndInsertPacked { .. } => true,
            Self::Remove { .. } | Self::Reset { .. } => false,
        }
    }
}

/// What a reader found for a packed check-and-insert.
#[derive(Debug, Clone)]
pub struct PackedSearch {
    /// The last change that it has seen.
    pub since: Sequence,
    /// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
    pub nearest: Vec<u8>,
}

/// In packed answers: nothing within the distance.
pub const NO_HIT: u8 = 255;

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Of an insert or check-and-insert.
    Written {
        /// What happened.
        verdict: Verdict,
        /// What was found near it, brought up to the moment of the verdict; `None` for an insert.
        search: Option<Search>,
    },
    /// Of a packed insert: all were stored.
    InsertedPacked,
    /// Of a packed check-and-insert: for each fingerprint the distance of the nearest hit, or
    /// [`NO_HIT`], and it was stored.
    CheckedPacked(Vec<u8>),
    /// Of a removal.
    Removed {
        /// How many documents are gone.
        documents: u64,
    },
}

/// What happened to a document that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Stored.
    Inserted,
    /// Its id had another fingerprint; this one took its place.
    Replaced,
    /// Its id has this fingerprint already: a retry.
    AlreadyPresent,
    /// Near another document.
    Duplicate {
        /// Stored all the same.
        stored: bool,
    },
}

/// An applied command: its outcome, and what the journal has to keep of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What it did.
    pub outcome: Outcome,
    /// What changed, if anything.
    pub change: Option<Change>,
    /// The last change after it.
    pub sequence: Sequence,
}

/// The state that commands are decided in.
#[derive(Debug)]
pub struct Machine {
    view: View,
    id_secret: [u8; 16],
}

impl Machine {
    /// A machine that continues from a view.
    pub fn new(view: View, id_secret: [u8; 16]) -> Self {
        Self { view, id_secret }
    }

    /// The state after the last command.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// For the background work on levels, which changes no answer.
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// The secret of the id keys.
    pub fn id_secret(&self) -> [u8; 16] {
        self.id_secret
    }

    /// The key of an id.
    pub fn key(&self, id: &DocumentId) -> IdKey {
        IdKey::of(id.as_str(), &self.id_secret)
    }

    /// Decides a command and enacts what it changes.
    ///
    /// # Errors
    /// [`Stale`], and nothing was changed: the search is too old, run it again on this view.
    pub fn apply(&mut self, command: &Command) -> Result<Applied, Stale> {
        let (outcome, change) = match command {
            Command::CheckAndInsertPacked { fingerprints, distance, search } => {
                self.check_and_insert_packed(fingerprints, *distance, search)?
            }
            Command::Insert { .. }
            | Command::CheckAndInsert { .. }
            | Command::InsertPacked { .. }
            | Command::Remove { .. }
            | Command::Reset { .. } => {
                let (outcome, change) = self.decide(command)?;
                if let Some(change) = &change {
                    self.enact(change);
                }
                (outcome, change)
            }
        };
        Ok(Applied { outcome, change, sequence: self.view.sequence() })
    }

    /// Enacts a recorded change, which is the one after the last.
    pub fn replay(&mut self, change: &Change) {
        self.enact(change);
    }

    /// Counts the changes before `next` that left nothing behind.
    pub fn skip_to(&mut self, next: Sequence) {
        while self.view.sequence().next() < next {
            self.view.advance();
        }
    }

    fn decide(&self, command: &Command) -> Result<(Outcome, Option<Change>), Stale> {
        Ok(match command {
            Command::Insert { document } => self.decide_insert(document),
            Command::CheckAndInsert { document, criteria, store_duplicates, search } => {
                let key = document.id.as_ref().map(|id| self.key(id));
                let probe = Probe { document, key, criteria: *criteria };
                let search = search.clone().update(&self.view, &probe)?;
                decide_check_and_insert(document, search, *store_duplicates)
            }
            Command::InsertPacked { fingerprints } => {
                (Outcome::InsertedPacked, packed(fingerprints.clone()))
            }
            Command::CheckAndInsertPacked { .. } => unreachable!("decided and enacted one by one"),
            Command::Remove { id } => {
                let documents = u64::from(self.view.find_id(self.key(id)).is_some());
                let change = (documents > 0).then(|| Change::Remove { id: id.clone() });
                (Outcome::Removed { documents }, change)
            }
            Command::Reset { fingerprint } => {
                let documents = self.view.document_counts(*fingerprint).documents;
                let change = (documents > 0).then_some(Change::Reset { fingerprint: *fingerprint });
                (Outcome::Removed { documents }, change)
            }
        })
    }

    fn decide_insert(&self, document: &Document) -> (Outcome, Option<Change>) {
        let own = document.id.as_ref().and_then(|id| self.view.find_id(self.key(id)));
        let verdict = match own {
            Some(own) if own.fingerprint == document.fingerprint => Verdict::AlreadyPresent,
            Some(_) => Verdict::Replaced,
            None => Verdict::Inserted,
        };
        let change = (verdict != Verdict::AlreadyPresent)
            .then(|| Change::Put { document: document.clone() });
        (Outcome::Written { verdict, search: None }, change)
    }

    /// Each fingerprint meets those before it in the batch, so they are decided and enacted one by
    /// one: what the reader found holds, unless something nearer came since.
    fn check_and_insert_packed(
        &mut self,
        fingerprints: &[Fingerprint],
        distance: Distance,
        search: &PackedSearch,
    ) -> Result<(Outcome, Option<Change>), Stale> {
        if self.view.may_have_lost_since(search.since) {
            return Err(Stale);
        }
        let mut nearest = search.nearest.clone();
        let mut stored = Vec::new();
        for (at, (&fingerprint, nearest)) in fingerprints.iter().zip(&mut nearest).enumerate() {
            if at % CHANGES_AHEAD == 0 {
                let some = &fingerprints[at..fingerprints.len().min(at + CHANGES_AHEAD)];
                self.view.prefetch_changes(search.since, some, distance);
            }
            let newer = self
                .view
                .near_changed_since(search.since, fingerprint, distance)
                .expect("the deltas since the search are there, and putting removes none");
            let newest = newer.iter().map(|near| near.distance.get()).min();
            *nearest = newest.unwrap_or(NO_HIT).min(*nearest);
            if *nearest == NO_HIT {
                self.view.put(fingerprint, Put { is_new: true, ..Put::default() });
                stored.push(fingerprint);
            }
        }
        Ok((Outcome::CheckedPacked(nearest), packed(stored)))
    }

    fn enact(&mut self, change: &Change) {
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
}

fn decide_check_and_insert(
    document: &Document,
    search: Search,
    store_duplicates: bool,
) -> (Outcome, Option<Change>) {
    let duplicate = search.is_duplicate(document.short);
    let put = || Some(Change::Put { document: document.clone() });
    let (verdict, change) = match search.own {
        Some(own) if own.fingerprint == document.fingerprint => (Verdict::AlreadyPresent, None),
        // The page under this id is no longer what was stored, and need not be stored again.
        Some(_) if duplicate && !store_duplicates => (
            Verdict::Duplicate { stored: false },
            document.id.clone().map(|id| Change::Remove { id }),
        ),
        None if duplicate && !store_duplicates => (Verdict::Duplicate { stored: false }, None),
        _ if duplicate => (Verdict::Duplicate { stored: true }, put()),
        Some(_) => (Verdict::Replaced, put()),
        None => (Verdict::Inserted, put()),
    };
    (Outcome::Written { verdict, search: Some(search) }, change)
}

fn packed(fingerprints: Vec<Fingerprint>) -> Option<Change> {
    (!fingerprints.is_empty()).then_some(Change::PutPacked { fingerprints })
}
