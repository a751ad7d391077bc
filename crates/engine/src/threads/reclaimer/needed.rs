//! Which records are still needed: those of stored documents.
//!
//! A record that stored a document is needed as long as the document is stored. A record of a
//! removal is not, because the record of the removed document is reclaimed before it or with it.
//! Fingerprints that were stored together stay in one record as long as they are stored. The change
//! that began a namespace keeps the name, as long as the namespace has documents. A job that is
//! remembered keeps its begin, its end and the progress of its last step.

use nearprint_fingerprint::Fingerprint;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::View;
use nearprint_machine::change::{Change, Record};
use nearprint_machine::document::{Expiry, Namespace, Packed, Sequence};
use nearprint_machine::jobs::Jobs;
use nearprint_storage::RecordRef;

use crate::write::core::Durable;

/// The part of a record that is needed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NeededPart {
    Nothing,
    All {
        documents: u64,
    },
    /// A part of it, as records of their own: the sequence of the first change of each.
    Some {
        records: Vec<(u64, Record)>,
        documents: u64,
    },
}

/// Decides which records a state needs.
#[derive(Debug)]
pub(crate) struct Needed<'a> {
    view: &'a View,
    jobs: &'a Jobs,
    id_secret: [u8; 16],
}

impl<'a> Needed<'a> {
    pub(crate) fn new(state: &'a Durable, id_secret: [u8; 16]) -> Self {
        let Durable { view, jobs } = state;
        Self { view, jobs, id_secret }
    }

    /// The part of a record that is needed. A record that cannot be decoded is kept.
    ///
    /// Cost: a look-up of the fingerprint for each document.
    pub(crate) fn of(&self, record: RecordRef<'_>) -> NeededPart {
        let Ok(Record { at_ms, change }) = Record::decode(record.payload) else {
            return NeededPart::All { documents: u64::from(record.count) };
        };
        let first = record.first;
        match change {
            Change::Put { document } => {
                let namespace = document.namespace.as_ref();
                let masked = self.masked(document.fingerprint, namespace);
                let stored = self.view.documents_at(&[(Sequence::new(first), masked)]);
                if !stored.is_empty() {
                    return NeededPart::All { documents: 1 };
                }
                let records = self.name_of(namespace, first, at_ms).into_iter().collect();
                part(records, 0)
            }
            Change::PutPacked { packed } => {
                let Packed { namespace, expiry, fingerprints } = packed;
                let all: Vec<_> = (0..).zip(fingerprints).collect();
                self.of_packed((first, at_ms), (namespace, expiry), &all)
            }
            Change::PutSparse { namespace, expiry, fingerprints } => {
                self.of_packed((first, at_ms), (namespace, expiry), &fingerprints)
            }
            Change::Named { namespace } => match self.name_of(Some(&namespace), first, at_ms) {
                Some(_) => NeededPart::All { documents: 0 },
                None => NeededPart::Nothing,
            },
            Change::PurgeBegun { .. } => self.of_job(first),
            Change::JobEnded { job, .. } => self.of_job(job),
            Change::RemoveMany { namespace: _, documents, progress: Some(progress) } => {
                let job = self.jobs.get(progress.job);
                if job.is_none_or(|job| job.work.last_step != Some(Sequence::new(first))) {
                    return NeededPart::Nothing;
                }
                if documents.is_empty() {
                    return NeededPart::All { documents: 0 };
                }
                let (documents, progress) = (Vec::new(), Some(progress));
                let change = Change::RemoveMany { namespace: None, documents, progress };
                part(vec![(first, Record { at_ms, change })], 0)
            }
            Change::Remove { .. } | Change::Reset { .. } | Change::RemoveMany { .. } => {
                NeededPart::Nothing
            }
        }
    }

    /// A record that began or ended a job.
    fn of_job(&self, job: u64) -> NeededPart {
        match self.jobs.get(job) {
            Some(_) => NeededPart::All { documents: 0 },
            None => NeededPart::Nothing,
        }
    }

    /// The name alone of a namespace that this change began, if the namespace has documents.
    fn name_of(
        &self,
        namespace: Option<&Namespace>,
        first: u64,
        at_ms: u64,
    ) -> Option<(u64, Record)> {
        let namespace = namespace?;
        let key = NamespaceKey::of(namespace, &self.id_secret).key;
        let began = self.view.namespaces().get(key)?.named_by.get() == first;
        let change = Change::Named { namespace: namespace.clone() };
        began.then_some((first, Record { at_ms, change }))
    }

    fn of_packed(
        &self,
        (first, at_ms): (u64, u64),
        (namespace, expiry): (Option<Namespace>, Option<Expiry>),
        all: &[(u16, Fingerprint)],
    ) -> NeededPart {
        let mask = self.masked(Fingerprint::default(), namespace.as_ref()).bits();
        let sequence = |behind: u16| Sequence::new(first + u64::from(behind));
        let documents: Vec<(Sequence, Fingerprint)> = all
            .iter()
            .map(|&(behind, fingerprint)| {
                (sequence(behind), Fingerprint::new(fingerprint.bits() ^ mask))
            })
            .collect();
        let located = self.view.documents_at(&documents);
        let mut left = located.iter().map(|located| located.posting.sequence).peekable();
        let mut stored = all.to_vec();
        stored.retain(|&(behind, _)| left.next_if_eq(&sequence(behind)).is_some());
        let documents = stored.len() as u64;
        if stored.len() == all.len() {
            return NeededPart::All { documents };
        }
        let mut records = Vec::new();
        if stored.first().is_none_or(|&(begin, _)| begin > 0) {
            records.extend(self.name_of(namespace.as_ref(), first, at_ms));
        }
        if let (Some(&(begin, _)), Some(&(end, _))) = (stored.first(), stored.last()) {
            let change = if u64::from(end - begin) + 1 == documents {
                let fingerprints = stored.into_iter().map(|(_, fingerprint)| fingerprint).collect();
                Change::PutPacked { packed: Packed { namespace, expiry, fingerprints } }
            } else {
                for (behind, _) in &mut stored {
                    *behind -= begin;
                }
                Change::PutSparse { namespace, expiry, fingerprints: stored }
            };
            records.push((first + u64::from(begin), Record { at_ms, change }));
        }
        part(records, documents)
    }

    fn masked(&self, fingerprint: Fingerprint, namespace: Option<&Namespace>) -> Fingerprint {
        let mask = namespace.map_or(0, |name| NamespaceKey::of(name, &self.id_secret).mask);
        Fingerprint::new(fingerprint.bits() ^ mask)
    }
}

fn part(records: Vec<(u64, Record)>, documents: u64) -> NeededPart {
    if records.is_empty() { NeededPart::Nothing } else { NeededPart::Some { records, documents } }
}
