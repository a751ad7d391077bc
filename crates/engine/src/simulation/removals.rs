//! What the remover does in a life: it removes what has expired, and runs purges.

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::{Expired, Selection, View};
use nearprint_machine::change::Change;
use nearprint_machine::commands::{BeginPurge, EndJob, Reason, RemoveMany, Step};
use nearprint_machine::document::{Namespace, Sequence};
use nearprint_machine::jobs::{Job, JobState, NamespaceFilter, Progress, Purge, RUNNING_MAX};
use nearprint_storage::simulated::Dice;

use super::draw::namespace;
use super::rig::{Check, Rig, checked};
use crate::write::queued::QueuedWrite;

impl Rig {
    /// What the remover does when documents have expired.
    pub(super) fn expire(
        &mut self,
        dice: &mut Dice,
        (searched, at_ms): (&View, u64),
    ) -> (Box<dyn QueuedWrite>, Check) {
        let now_ms = self.history.now_ms;
        let name = namespace(dice);
        let (namespace, documents) =
            self.listed(searched, name.as_ref(), Expired::Between(0, (now_ms / 1_000) as u32));
        let sequences: Vec<_> = documents.iter().map(|(sequence, _)| *sequence).collect();
        let removed = self.expect(|model| {
            let before = model.documents().len();
            model.expire(name.as_ref(), &sequences);
            (before - model.documents().len()) as u64
        });
        let command = RemoveMany { namespace, documents, reason: Reason::Expiry };
        checked(command, at_ms, move |reply| reply.documents == removed)
    }

    /// Begins a job, or continues or ends one that runs or has run.
    pub(super) fn draw_job(
        &mut self,
        dice: &mut Dice,
        (searched, at_ms): (&View, u64),
    ) -> (Box<dyn QueuedWrite>, Check) {
        let jobs = self.model().jobs().all();
        let has_room = self.model().jobs().running() < RUNNING_MAX;
        if jobs.is_empty() || dice.below(3) == 0 && has_room {
            let purge = Purge {
                reach: NamespaceFilter::Namespace(namespace(dice)),
                prefix: None,
                stored_before_ms: None,
                dry_run: false,
            };
            self.expect(|model| model.enact(&Change::PurgeBegun { purge: purge.clone() }));
            return checked(BeginPurge { purge }, at_ms, |_| true);
        }
        let Job { number, work, state, .. } = jobs[dice.below(jobs.len())].clone();
        let runs = state == JobState::Running;
        // Otherwise so many would run that the next one is refused.
        if dice.below(3) == 0 || jobs.len() > 8 {
            let state = if dice.below(2) == 0 { JobState::Cancelled } else { JobState::Done };
            if runs {
                self.expect(|model| model.enact(&Change::JobEnded { job: number, state }));
            }
            return checked(EndJob { job: number, state }, at_ms, move |ended| *ended == runs);
        }
        let NamespaceFilter::Namespace(name) = &work.purge.reach else {
            panic!("all are of a namespace")
        };
        let expired = Expired::Not((self.history.now_ms / 1_000) as u32);
        let (namespace, documents) = self.listed(searched, name.as_ref(), expired);
        let through = documents.last().map_or(work.through, |(sequence, _)| *sequence);
        let step = Step { job: number, through, matched: documents.len() as u64 };
        let removed = self.expect(|model| {
            let before = model.documents().len();
            let stored = |(sequence, _): &&(Sequence, Fingerprint)| {
                model.documents().iter().any(|(stored, _)| stored == sequence)
            };
            let documents: Vec<_> = documents.iter().filter(stored).copied().collect();
            if runs {
                let progress = Some(Progress {
                    job: number,
                    through,
                    matched: work.matched + step.matched,
                    removed: work.removed + documents.len() as u64,
                });
                model.enact(&Change::RemoveMany { namespace, documents, progress });
            }
            (before - model.documents().len()) as u64
        });
        let command = RemoveMany { namespace, documents, reason: Reason::Purge(step) };
        checked(command, at_ms, move |reply| reply.documents == removed)
    }

    /// The documents of a namespace in a view, as the remover lists them.
    fn listed(
        &self,
        view: &View,
        name: Option<&Namespace>,
        expired: Expired,
    ) -> (Option<IdKey>, Vec<(Sequence, Fingerprint)>) {
        let key = name.map(|name| NamespaceKey::of(name, &self.secret));
        let namespace = Some(view.visibility(key, 0, None).namespace);
        let (after, upto) = (Sequence::ZERO, view.sequence());
        let listed = view.list(Selection { namespace, after, upto, expired }, 20);
        let documents = listed.iter().map(|listed| (listed.posting.sequence, listed.masked));
        (key.map(|key| key.key), documents.collect())
    }
}
