//! What a look-up has found, before the documents of its hits are read.
//!
//! A hit shows its documents, whose ids and metadata are in the journal and may be 66 KiB each. So
//! the caller grants a number of bytes, and may grant more later ([`Found::show`]). Until then a
//! look-up keeps its matches (at most [`MATCHES_KEPT_MAX`]) and the state in which it found them.
//!
//! [`MATCHES_KEPT_MAX`]: nearprint_machine::search::MATCHES_KEPT_MAX

use nearprint_storage::Records;

use crate::api::blocking::off_async;
use crate::api::error::Refused;
use crate::api::replies::{Findings, Written};
use crate::read::previous::PreviousUnread;
use crate::read::reader;
use crate::read::reader::{HitLimits, RECORDS_READ_HERE_MAX, RecordLookup};
use crate::state::published::Published;

/// What a look-up has found.
#[derive(Debug)]
pub struct Found(State);

#[derive(Debug)]
enum State {
    /// All hits, with their documents.
    Read(Findings),
    /// The documents of the hits are not read yet.
    Unread(Box<Unread>),
}

/// The matches of a look-up, and the state in which it found them.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) published: Published,
    pub(crate) lookup: RecordLookup,
    /// The document that was looked up is short.
    pub(crate) short: bool,
    /// The maximum number of hits listed.
    pub(crate) limit: usize,
}

impl From<Unread> for Found {
    fn from(unread: Unread) -> Self {
        Self(State::Unread(Box::new(unread)))
    }
}

/// The reply of an insert.
#[derive(Debug)]
pub struct Inserted {
    /// What happened to the document.
    pub written: Written,
    /// The document that its id had; `None` if the id is new.
    pub previous: Option<Box<PreviousUnread>>,
}

/// The reply of a check-and-insert.
#[derive(Debug)]
pub struct Checked {
    /// What happened to the document.
    pub written: Written,
    /// Its near-duplicates, as of the verdict.
    pub found: Found,
    /// The document that its id had; `None` if the id is new.
    pub previous: Option<Box<PreviousUnread>>,
}

/// The hits that fit in the bytes granted.
#[derive(Debug)]
pub enum Shown {
    /// All hits of the look-up.
    All(Findings),
    /// The first of them. With more room, the second value shows more.
    Cut(Findings, Box<Found>),
}

impl Shown {
    /// The hits, whether they are all or not.
    pub fn into_findings(self) -> Findings {
        match self {
            Self::All(findings) | Self::Cut(findings, _) => findings,
        }
    }
}

impl Found {
    /// A query reads the documents of its hits at once if the hits take at most this many bytes of
    /// a reply.
    pub const READ_AT_ONCE_BYTES: usize = 16 << 10;

    /// All hits, with their documents.
    pub(crate) const fn read(findings: Findings) -> Self {
        Self(State::Read(findings))
    }

    /// Reads documents from these records from now on.
    pub(crate) fn pin(&mut self, records: &Records) {
        if let State::Unread(unread) = &mut self.0 {
            unread.published.records = records.clone();
        }
    }

    /// All hits, on a thread that may block.
    #[cfg(test)]
    pub(crate) fn read_now(self) -> Result<Findings, Refused> {
        match self.0 {
            State::Read(findings) => Ok(findings),
            State::Unread(unread) => unread.findings(&unread.published, usize::MAX),
        }
    }

    /// The matches whose documents are not read yet.
    #[cfg(test)]
    pub(crate) fn matches(&self) -> &[nearprint_machine::search::Match] {
        match &self.0 {
            State::Read(_) => &[],
            State::Unread(unread) => &unread.lookup.search.matches,
        }
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            State::Read(findings) => findings.hits.iter().map(reader::listed_bytes).sum(),
            State::Unread(unread) => unread.lookup.bytes(),
        }
    }

    /// The first hits, as many as fit in about `bytes_max` bytes of a reply. Reads the records of
    /// their documents off the async threads, unless they are few and in memory.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn show(self, bytes_max: usize) -> Result<Shown, Refused> {
        match self.0 {
            State::Read(findings) => Ok(Shown::All(findings)),
            State::Unread(unread) => {
                if !unread.published.view.is_in_files()
                    && unread.records_to_read() <= RECORDS_READ_HERE_MAX
                    && let Ok(findings) = unread.findings(&unread.published.in_memory(), bytes_max)
                {
                    return Ok(unread.show(findings));
                }
                let show = move || {
                    let findings = unread.findings(&unread.published, bytes_max)?;
                    Ok(unread.show(findings))
                };
                off_async(show).await
            }
        }
    }
}

impl Unread {
    fn records_to_read(&self) -> usize {
        self.lookup.documents_to_read(&self.published.view, (self.limit, self.short))
    }

    fn findings(&self, state: &Published, bytes_max: usize) -> Result<Findings, Refused> {
        let listing = HitLimits { short: self.short, limit: self.limit, bytes_max };
        self.lookup.show(state, listing)
    }

    fn show(self, findings: Findings) -> Shown {
        if findings.is_cut {
            Shown::Cut(findings, Box::new(self.into()))
        } else {
            Shown::All(findings)
        }
    }
}
