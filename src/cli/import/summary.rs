//! The summary of an import: the outcomes in numbers, and the first reasons of failures.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use indicatif::HumanCount;
use nearprint_files::{DocumentBatch, Doubt, Place};
use nearprint_wire::answer::{Answer, Outcome, ProblemReply};
use nearprint_wire::code::Code;
use nearprint_wire::offer::IdSource;

use crate::cli::printable::printable;

/// The maximum number of different reasons; further ones count without their text.
const REASONS_MAX: usize = 20;
/// The number of reasons shown.
const REASONS_SHOWN_MAX: usize = 5;

/// The counts of an import.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    read: u64,
    stored: u64,
    duplicates: u64,
    already_present: u64,
    replaced: u64,
    refreshed: u64,
    failed: u64,
    without_id: u64,
    ids_are_made: bool,
    is_dry_run: bool,
    /// Where the first document is that replaced another one.
    first_replaced: Option<String>,
    /// What was not a document: its name in the plural, and how many there were.
    left_out: BTreeMap<&'static str, u64>,
    /// What is wrong with documents that were read nevertheless.
    doubts: BTreeMap<&'static str, Doubt>,
    reasons: Vec<Reason>,
    /// The paths that the command line names: what is there is meant to be a document.
    named: Vec<PathBuf>,
    /// Files of folders in which there is no text.
    without_text: u64,
}

#[derive(Debug)]
struct Reason {
    why: String,
    count: u64,
    first: String,
}

impl Summary {
    /// Of an import that leaves documents without an id to the service, or asks it to make one.
    pub(crate) fn new(id_from: Option<IdSource>) -> Self {
        Self { ids_are_made: id_from.is_some(), ..Self::default() }
    }

    /// The same, of an import that stores nothing.
    pub(crate) fn of_dry_run() -> Self {
        Self { is_dry_run: true, ..Self::default() }
    }

    /// Sets the paths that the command line names.
    pub(crate) fn of(self, named: Vec<PathBuf>) -> Self {
        Self { named, ..self }
    }

    /// Whether a document is a file that a folder has among others.
    fn is_of_folder(&self, place: &Place) -> bool {
        place.record.is_none() && !self.named.iter().any(|named| **named == *place.path)
    }

    /// Sets what was not a document.
    pub(crate) fn leave_out(&mut self, left_out: BTreeMap<&'static str, u64>) {
        self.left_out = left_out;
    }

    /// Sets what is wrong with documents that were read nevertheless.
    pub(crate) fn doubt(&mut self, doubts: BTreeMap<&'static str, Doubt>) {
        self.doubts = doubts;
    }

    /// The number of documents and bad entries.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Why most of the documents failed that did.
    pub(crate) fn commonest_reason(&self) -> Option<&str> {
        // The first of equally common ones, as the summary has them.
        let reasons = self.reasons.iter().rev();
        reasons.max_by_key(|reason| reason.count).map(|reason| reason.why.as_str())
    }

    /// Counts a batch and its replies.
    pub(crate) fn add(
        &mut self,
        batch: &DocumentBatch,
        replies: &[Result<Answer, ProblemReply<'static>>],
    ) {
        for bad in &batch.bad {
            self.fail(&bad.why, bad.place.to_string());
        }
        for (document, reply) in batch.documents.iter().zip(replies) {
            match reply {
                Ok(reply) => {
                    self.count(reply, document.has_id());
                    if reply.outcome == Some(Outcome::Replaced) && self.first_replaced.is_none() {
                        self.first_replaced = Some(document.place.to_string());
                    }
                }
                Err(why)
                    if why.code() == Some(Code::EmptyDocument)
                        && self.is_of_folder(&document.place) =>
                {
                    self.without_text += 1;
                }
                Err(why) => self.fail(&why.to_string(), document.place.to_string()),
            }
        }
    }

    fn count(&mut self, reply: &Answer, has_id: bool) {
        self.read += 1;
        match reply.outcome {
            Some(Outcome::AlreadyPresent) => self.already_present += 1,
            Some(Outcome::Refreshed) => self.refreshed += 1,
            outcome => {
                self.stored += u64::from(reply.stored);
                self.without_id += u64::from(reply.stored && !has_id && !self.ids_are_made);
                self.duplicates += u64::from(outcome == Some(Outcome::Duplicate));
                self.replaced += u64::from(outcome == Some(Outcome::Replaced));
            }
        }
    }

    fn fail(&mut self, why: &str, place: String) {
        self.read += 1;
        self.failed += 1;
        if let Some(reason) = self.reasons.iter_mut().find(|reason| reason.why == why) {
            reason.count += 1;
        } else if self.reasons.len() < REASONS_MAX {
            self.reasons.push(Reason { why: why.to_owned(), count: 1, first: place });
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, count: u64| -> fmt::Result {
            writeln!(f, "{name:<18}{:>12}", HumanCount(count).to_string())
        };
        row("documents read", self.read)?;
        if !self.is_dry_run {
            row("stored now", self.stored)?;
            row("near-duplicates", self.duplicates)?;
            row("already present", self.already_present)?;
            row("replaced", self.replaced)?;
            row("refreshed", self.refreshed)?;
        }
        row("failed", self.failed)?;
        let mut shown: Vec<&Reason> = self.reasons.iter().collect();
        shown.sort_by_key(|reason| std::cmp::Reverse(reason.count));
        for Reason { why, count, first } in shown.into_iter().take(REASONS_SHOWN_MAX) {
            let (why, first) = (printable(why), printable(first));
            writeln!(f, "{:>12} x {why}; first: {first}", HumanCount(*count).to_string())?;
        }
        let without_text =
            (self.without_text > 0).then_some((&"files without text", &self.without_text));
        for (what, count) in self.left_out.iter().chain(without_text) {
            writeln!(f, "{:>12} x left out: {what}", HumanCount(*count).to_string())?;
        }
        for (what, Doubt { count, first }) in &self.doubts {
            let (count, first) = (HumanCount(*count).to_string(), printable(first));
            writeln!(f, "{count:>12} x read with a doubt: {what}; first: {first}")?;
        }
        if let Some(first) = self.first_replaced.as_deref().map(printable) {
            writeln!(
                f,
                "{} of these documents have an id that was stored already with other content, and \
                 replaced it; first: {first}",
                HumanCount(self.replaced)
            )?;
        }
        if self.is_dry_run {
            writeln!(
                f,
                "a dry run: nothing was stored; the limits are those of `nearprint check-config`"
            )?;
        }
        if self.without_id > 0 {
            let (count, were) = match self.without_id {
                1 => ("a document".to_owned(), "was"),
                count => (format!("{} documents", HumanCount(count)), "were"),
            };
            writeln!(
                f,
                "{count} without an id {were} stored. Importing the same again stores it again, \
                 unless the service makes ids: --id-from fingerprint, or --id-from text-hash"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nearprint_files::{BadEntry, FilePosition, Raw};

    use super::*;

    fn reply(outcome: Outcome, stored: bool) -> Answer {
        Answer { outcome: Some(outcome), stored, ..Answer::default() }
    }

    #[test]
    fn documents_that_would_be_stored_twice_are_counted() {
        let said = |mut summary: Summary| {
            for (outcome, stored, has_id) in [
                (Outcome::Inserted, true, false),
                (Outcome::Duplicate, true, false),
                (Outcome::Duplicate, false, false),
                (Outcome::Inserted, true, true),
            ] {
                summary.count(&reply(outcome, stored), has_id);
            }
            summary.to_string()
        };
        let without = said(Summary::new(None));
        assert!(
            without.contains("\n2 documents without an id were stored. Importing"),
            "{without}"
        );
        let made = said(Summary::new(Some(IdSource::TextHash)));
        assert!(!made.contains("without an id"), "{made}");
    }

    #[test]
    fn every_entry_is_counted_once_and_equal_reasons_together() {
        let mut summary = Summary::default();
        let bad = |line| BadEntry {
            place: Place {
                path: Path::new("a.hex").into(),
                record: Some(FilePosition { unit: "line", number: line, offset: Some(34) }),
            },
            raw: Raw::None,
            why: "is no hex".to_owned(),
        };
        let batch = DocumentBatch {
            documents: Vec::new(),
            bad: vec![bad(3), bad(4)],
            ..DocumentBatch::default()
        };
        summary.add(&batch, &[]);
        for (outcome, stored) in [
            (Outcome::Inserted, true),
            (Outcome::Duplicate, false),
            (Outcome::AlreadyPresent, true),
            (Outcome::Refreshed, true),
        ] {
            summary.count(&reply(outcome, stored), true);
        }
        assert_eq!(
            summary.to_string(),
            concat!(
                "documents read               6\n",
                "stored now                   1\n",
                "near-duplicates              1\n",
                "already present              1\n",
                "replaced                     0\n",
                "refreshed                    1\n",
                "failed                       2\n",
                "           2 x is no hex; first: a.hex line 3 (byte 34)\n",
            )
        );
    }
}
