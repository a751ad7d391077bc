//! What `dedup` and `match` share: how they scan the documents that they keep in memory.

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;
use nearprint_engine::SearchKind;
use nearprint_files::dedup::scan::{
    DIVIDED_DOCUMENT_BYTES, DOCUMENT_BYTES, FIXED_BYTES, ScanError, Scanned, Watcher, Wishes,
};
use nearprint_files::{BadEntry, Documents, Doubt, stream_named_twice};

use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::import::progress::{ImportProgress, input_bytes};
use crate::cli::measure::numbers::{bytes, count};
use crate::cli::printable::printable;
use crate::cli::standard_output::Closed;
use crate::memory;

/// The least limit of memory.
const MEMORY_MIN: u64 = FIXED_BYTES + (4 << 20);

/// Shows how far a pass has come.
pub(super) struct ScanDisplay<'a> {
    pub(super) progress: ImportProgress,
    pub(super) interrupt: &'a Interrupt,
    /// Tells whether nobody reads the output of the pass any more.
    pub(super) closed: Closed,
}

impl Watcher for ScanDisplay<'_> {
    fn at(&mut self, documents: u64) {
        self.progress.at(documents);
    }

    fn note(&mut self, note: &str) {
        self.progress.say(note);
    }

    fn goes_on(&self) -> bool {
        !self.interrupt.is_noted() && !self.closed.is_closed()
    }
}

/// Refuses a limit of memory with which nothing can be done.
pub(super) fn check_memory(max: Option<u64>) -> Result<(), ErrorReport> {
    if max.is_none_or(|bytes| bytes >= MEMORY_MIN) {
        return Ok(());
    }
    let what = format!("--max-memory must be {} or more", bytes(MEMORY_MIN));
    Err(ErrorReport::usage(what, "leave it out for what the machine has"))
}

/// Refuses a stream that is named twice, be it by two names.
pub(super) fn check_streams(paths: &[PathBuf]) -> Result<(), ErrorReport> {
    let Some(twice) = stream_named_twice(paths) else { return Ok(()) };
    let what = format!("{} is named twice, but a stream can be read only once", twice.display());
    Err(ErrorReport::usage(what, "save it to a file, and name that"))
}

/// The largest memory of the run, which it prints first, with the number of documents that it is
/// enough for; `document` names what takes [`DOCUMENT_BYTES`]. If the search can be divided, it is
/// enough for more.
pub(super) fn memory_max(given: Option<u64>, document: &str, divides: bool) -> u64 {
    let limit = given.or_else(memory::available).unwrap_or(u64::MAX);
    let enough_for = |each: u64| count(limit.saturating_sub(FIXED_BYTES) / each);
    let divided = format!(
        ", and for {} if they are searched in parts, which takes longer",
        enough_for(DIVIDED_DOCUMENT_BYTES)
    );
    say!(
        "memory: {FIXED} and {DOCUMENT_BYTES} bytes {document}; up to {limit}, which {source}, \
         are enough for {documents} documents{divided}",
        FIXED = bytes(FIXED_BYTES),
        limit = bytes(limit),
        source = if given.is_some() { "--max-memory allows" } else { "are free" },
        documents = enough_for(DOCUMENT_BYTES),
        divided = if divides { &divided } else { "" },
    );
    limit
}

/// How many threads there are: one for each core, unless a number is given.
pub(super) fn threads(given: Option<u16>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    given.map_or_else(cores, usize::from)
}

/// Scans documents, and shows how far that has come, and what is wrong with some.
///
/// # Errors
/// They need too much memory, the temporary file of sketches cannot be written, or there are none.
pub(super) fn scan(
    documents: &mut Documents,
    (paths, wishes): (&[impl AsRef<Path>], &Wishes),
    interrupt: &Interrupt,
) -> Result<Scanned> {
    let paths: Vec<_> = paths.iter().map(|path| path.as_ref().to_path_buf()).collect();
    let progress = ImportProgress::new(input_bytes(&paths)?, documents.records().bytes_read());
    let mut shown = ScanDisplay { progress, interrupt, closed: Closed::default() };
    let scanned = Scanned::of(documents, wishes, &mut shown);
    drop(shown);
    say_doubts(documents);
    let scanned = scanned.map_err(|error| {
        let next = match &error {
            ScanError::Memory(_) => {
                "raise --max-memory, leave out what needs ids, or look at docs/other-engines.md"
            }
            ScanError::Spill(_) => "look at the folder for temporary files (TMPDIR)",
        };
        ErrorReport::new("the files cannot be compared", next).because(error)
    })?;
    if !interrupt.is_noted() && scanned.is_empty() && scanned.bad_count == 0 {
        return Err(nothing_read().into());
    }
    Ok(scanned)
}

/// Says with which records something was wrong, although they were read.
pub(super) fn say_doubts(documents: &Documents) {
    for (what, Doubt { count: of, first }) in documents.records().doubts() {
        say!("read with a doubt: {} {what}; first: {}", count(of), printable(&first));
    }
}

/// Says which records could not be read.
pub(super) fn say_bad(bad: &[BadEntry]) {
    for bad in bad {
        say!("{}", printable(&bad.to_string()));
    }
}

/// There is no document.
pub(super) fn nothing_read() -> ErrorReport {
    ErrorReport::new("nothing was read", "name files with documents")
        .with_code(exit_code::NOTHING_READ)
}

/// The value of `--search`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SearchRule {
    Likely,
    Exact,
}

impl SearchRule {
    /// That of a directory with or without labels.
    pub(crate) const fn of(has_labels: bool) -> Self {
        if has_labels { Self::Likely } else { Self::Exact }
    }

    /// Its name in the API.
    pub(crate) fn name(self) -> &'static str {
        SearchKind::from(self).name()
    }
}

impl From<SearchRule> for SearchKind {
    fn from(rule: SearchRule) -> Self {
        match rule {
            SearchRule::Likely => Self::Likely,
            SearchRule::Exact => Self::Exact,
        }
    }
}
