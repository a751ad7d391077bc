//! What clients ask of a cluster, and what the model replies.

use std::pin::Pin;
use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint, Threshold};
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::{Expired, Selection};
use nearprint_machine::change::Change;
use nearprint_machine::commands::{
    BeginPurge, CheckAndInsert, CheckAndInsertPacked, EndJob, Insert, InsertPacked, NoteTime,
    Reason, Remove, RemoveMany, Reset, Verdict,
};
use nearprint_machine::document::{Document, DocumentId, Namespace, Packed, Sequence};
use nearprint_machine::jobs::{JobState, NamespaceFilter, Purge, RUNNING_MAX};
use nearprint_machine::model::Model;
use nearprint_machine::query::Criteria;
use nearprint_machine::search::{PackedSearch, Probe};
use nearprint_storage::simulated::Dice;

use crate::api::error::Refused;
use crate::read::reader::RecordLookup;
use crate::simulation::draw::{batch, document, fingerprint, id, namespace};
use crate::simulation::rig::queued;
use crate::state::published::Published;
use crate::state::touches::Touches;
use crate::write::command::{Command, SearchedCheckAndInsert, SearchedCheckAndInsertPacked};
use crate::write::queued::{Pending, QueuedWrite};

/// A command, before anything is known of the state in which it will be decided.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Insert { document: Document, renews: bool },
    Check { document: Document, criteria: Criteria, how: (bool, bool) },
    Packed { packed: Packed },
    CheckPacked { packed: Packed, criteria: Criteria },
    Remove { namespace: Option<Namespace>, id: DocumentId },
    Reset { namespace: Option<Namespace>, fingerprint: Fingerprint },
    Expire { name: Option<Namespace>, documents: Vec<(Sequence, Fingerprint)> },
    Purge { name: Option<Namespace> },
    EndJob { job: u64 },
    NoteTime,
}

/// What the caller receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Stored(Verdict),
    /// With the matches.
    Checked(Verdict, Vec<Fingerprint>),
    Nearest(Vec<u8>),
    Removed(u64),
    Ended(bool),
    Done,
}

/// The reply, once it is there.
pub(super) type Waiting = Pin<Box<dyn Future<Output = Result<Reply, Refused>>>>;

/// Draws a command of the time `now_ms` for a state that was published.
pub(super) fn draw(dice: &mut Dice, state: &Published, secret: &[u8; 16], now_ms: u64) -> Asked {
    let similarity = if dice.below(3) == 0 { 0.0 } else { 0.8 };
    let criteria = Criteria {
        distance: Distance::new(dice.below(4) as u8).unwrap(),
        threshold: Threshold::of_similarity(similarity),
        max_age_s: (dice.below(4) == 0).then(|| dice.below(5) as u32),
        ..Criteria::within(Distance::ZERO)
    };
    match dice.below(16) {
        0..3 => {
            Asked::Insert { document: document(dice, secret, now_ms), renews: dice.below(3) == 0 }
        }
        3..8 => Asked::Check {
            document: document(dice, secret, now_ms),
            criteria,
            how: (dice.below(2) == 0, dice.below(3) == 0),
        },
        8 => Asked::Packed { packed: batch(dice, secret, now_ms) },
        9..11 => Asked::CheckPacked { packed: batch(dice, secret, now_ms), criteria },
        11 => Asked::Remove { namespace: namespace(dice), id: id(dice) },
        12 => {
            let namespace = namespace(dice);
            let fingerprint = fingerprint(dice, namespace.as_ref(), secret);
            Asked::Reset { namespace, fingerprint }
        }
        13 => {
            let name = namespace(dice);
            let documents = expired(state, secret, name.as_ref(), now_ms);
            Asked::Expire { name, documents }
        }
        14 if state.jobs.running() + 8 < RUNNING_MAX => Asked::Purge { name: namespace(dice) },
        14 => Asked::EndJob { job: state.jobs.all()[0].number },
        _ => Asked::NoteTime,
    }
}

fn key(name: Option<&Namespace>, secret: &[u8; 16]) -> Option<NamespaceKey> {
    name.map(|name| NamespaceKey::of(name, secret))
}

/// The documents of a namespace that have expired.
fn expired(
    state: &Published,
    secret: &[u8; 16],
    name: Option<&Namespace>,
    now_ms: u64,
) -> Vec<(Sequence, Fingerprint)> {
    let view = &state.view;
    let namespace = Some(view.visibility(key(name, secret), 0, None).namespace);
    let expired = Expired::Between(0, (now_ms / 1_000) as u32);
    let (after, upto) = (Sequence::ZERO, view.sequence());
    let listed = view.list(Selection { namespace, after, upto, expired }, 20);
    listed.iter().map(|listed| (listed.posting.sequence, listed.masked)).collect()
}

impl Asked {
    /// Decides it.
    pub(super) fn run(&self, model: &mut Model) -> Reply {
        match self {
            Self::Insert { document, renews } => Reply::Stored(model.insert(document, *renews)),
            Self::Check { document, criteria, how } => {
                let matches = model.matches(document, *criteria);
                let verdict = model.check_and_insert(document, *criteria, *how);
                Reply::Checked(verdict, matches.iter().map(|found| found.3).collect())
            }
            Self::Packed { packed } => {
                for packed in each(packed) {
                    model.enact(&Change::PutPacked { packed });
                }
                Reply::Done
            }
            Self::CheckPacked { packed, criteria } => {
                let mut one = |packed: Packed| model.check_and_insert_packed(&packed, *criteria);
                Reply::Nearest(each(packed).flat_map(&mut one).collect())
            }
            Self::Remove { namespace, id } => {
                let is_stored = model.find(namespace.as_ref(), id).is_some();
                if is_stored {
                    let (namespace, id) = (namespace.clone(), id.clone());
                    model.enact(&Change::Remove { namespace, id });
                }
                Reply::Removed(u64::from(is_stored))
            }
            Self::Reset { namespace, fingerprint } => {
                let stored = model.documents().iter().map(|(_, document)| document);
                let stored = stored.filter(|document| {
                    let is_it =
                        document.fingerprint == *fingerprint && document.namespace == *namespace;
                    is_it && !model.has_expired(document)
                });
                let count = stored.count() as u64;
                if count > 0 {
                    let (namespace, fingerprint) = (namespace.clone(), *fingerprint);
                    model.enact(&Change::Reset { namespace, fingerprint });
                }
                Reply::Removed(count)
            }
            Self::Expire { name, documents } => {
                let before = model.documents().len();
                let sequences: Vec<_> = documents.iter().map(|(sequence, _)| *sequence).collect();
                model.expire(name.as_ref(), &sequences);
                Reply::Removed((before - model.documents().len()) as u64)
            }
            Self::Purge { name } => {
                let purge = purge(name.as_ref());
                model.enact(&Change::PurgeBegun { purge });
                Reply::Done
            }
            Self::EndJob { job } => {
                let runs = model.jobs().get(*job).is_some_and(|job| !job.has_ended());
                if runs {
                    let (job, state) = (*job, JobState::Cancelled);
                    model.enact(&Change::JobEnded { job, state });
                }
                Reply::Ended(runs)
            }
            Self::NoteTime => {
                let (namespace, documents, progress) = (None, Vec::new(), None);
                model.enact(&Change::RemoveMany { namespace, documents, progress });
                Reply::Done
            }
        }
    }

    /// Puts it in a queue, after a search in a state that was published.
    pub(super) fn queue(
        &self,
        state: &Published,
        (secret, touches): (&[u8; 16], &Arc<Touches>),
        at_ms: u64,
    ) -> (Box<dyn QueuedWrite>, Waiting) {
        match self.clone() {
            Self::Insert { document, renews } => {
                waiting(Insert { document, renews }, at_ms, |reply| {
                    Ok(Reply::Stored(reply.written.verdict))
                })
            }
            Self::Check { document, criteria, how: (store_duplicates, renews) } => {
                let probe = Probe::new(&document, criteria, at_ms, secret);
                let mut lookup = RecordLookup::begin(&state.view, &probe, false);
                lookup.verify(state, &probe).unwrap();
                let command = CheckAndInsert { document, criteria, store_duplicates, renews };
                let (limit, touches) = (usize::MAX, Some(Arc::clone(touches)));
                let command = SearchedCheckAndInsert { command, lookup, limit, touches };
                waiting(command, at_ms, |reply| {
                    let matches = reply.found.matches().iter().map(|found| found.fingerprint);
                    let matches = matches.collect();
                    // The records of all hits can be read.
                    reply.found.read_now()?;
                    Ok(Reply::Checked(reply.written.verdict, matches))
                })
            }
            Self::Packed { packed } => waiting(InsertPacked { packed }, at_ms, |_| Ok(Reply::Done)),
            Self::CheckPacked { packed, criteria } => {
                let namespace = key(packed.namespace.as_ref(), secret);
                let visibility = state.view.visibility(namespace, at_ms, criteria.max_age_s);
                let (fingerprints, distance) = (&packed.fingerprints, criteria.distance);
                let search = PackedSearch::new(&state.view, fingerprints, distance, visibility);
                let command = CheckAndInsertPacked { packed, criteria };
                let command = SearchedCheckAndInsertPacked { command, search };
                waiting(command, at_ms, |reply| Ok(Reply::Nearest(reply)))
            }
            Self::Remove { namespace, id } => waiting(Remove { namespace, id }, at_ms, |reply| {
                Ok(Reply::Removed(reply.documents))
            }),
            Self::Reset { namespace, fingerprint } => {
                waiting(Reset { namespace, fingerprint }, at_ms, |reply| {
                    Ok(Reply::Removed(reply.documents))
                })
            }
            Self::Expire { name, documents } => {
                let namespace: Option<IdKey> = key(name.as_ref(), secret).map(|key| key.key);
                let command = RemoveMany { namespace, documents, reason: Reason::Expiry };
                waiting(command, at_ms, |reply| Ok(Reply::Removed(reply.documents)))
            }
            Self::Purge { name } => {
                waiting(BeginPurge { purge: purge(name.as_ref()) }, at_ms, |_| Ok(Reply::Done))
            }
            Self::EndJob { job } => {
                let command = EndJob { job, state: JobState::Cancelled };
                waiting(command, at_ms, |ended| Ok(Reply::Ended(ended)))
            }
            Self::NoteTime => waiting(NoteTime, at_ms, |()| Ok(Reply::Done)),
        }
    }
}

/// Each fingerprint of a batch alone.
fn each(packed: &Packed) -> impl Iterator<Item = Packed> {
    let one =
        |fingerprint: &Fingerprint| Packed { fingerprints: vec![*fingerprint], ..packed.clone() };
    packed.fingerprints.iter().map(one)
}

fn purge(name: Option<&Namespace>) -> Purge {
    Purge {
        reach: NamespaceFilter::Namespace(name.cloned()),
        prefix: None,
        stored_before_ms: None,
        dry_run: false,
    }
}

fn waiting<C: Command>(
    command: C,
    at_ms: u64,
    reply_of: impl FnOnce(C::Reply) -> Result<Reply, Refused> + 'static,
) -> (Box<dyn QueuedWrite>, Waiting) {
    let (write, pending): (_, Pending<C::Reply>) = queued(command, at_ms);
    (write, Box::pin(async move { pending.wait().await.and_then(reply_of) }))
}
