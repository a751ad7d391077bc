//! The names of files: no other module makes or parses one.

use std::cmp::Reverse;

/// The largest number in a file name. Numbers start at 1, and this limit makes sure that the number
/// after one is valid too. No service ever counts this far.
pub const FILE_NUMBER_MAX: u64 = i64::MAX as u64;

/// A sequence or file number in a file name: twenty digits, 1 to [`FILE_NUMBER_MAX`]. `None` for
/// anything else: the service did not write such a file and leaves it alone.
pub fn file_number(digits: &str) -> Option<u64> {
    let is_number = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number)?;
    (1..=FILE_NUMBER_MAX).contains(&number).then_some(number)
}

/// The name of the journal file whose first sequence is `first`.
pub(crate) fn journal_name(first: u64) -> String {
    format!("journal-{first:020}.log")
}

/// The name of the pack of the sequences from `first` to before `next`.
pub(crate) fn pack_name(first: u64, next: u64) -> String {
    format!("records-{first:020}-{next:020}.pack")
}

/// The first sequence of a record file and, of a pack, the sequence after its range; `None` for
/// every other file.
pub fn record_range(name: &str) -> Option<(u64, Option<u64>)> {
    if let Some(digits) = name.strip_prefix("journal-") {
        return Some((file_number(digits.strip_suffix(".log")?)?, None));
    }
    let (first, next) = name.strip_prefix("records-")?.strip_suffix(".pack")?.split_once('-')?;
    let (first, next) = (file_number(first)?, file_number(next)?);
    (first < next).then_some((first, Some(next)))
}

/// Whether the file is a record file: a journal file or a pack.
pub fn holds_records(name: &str) -> bool {
    record_range(name).is_some()
}

const INDEX_PREFIX: &str = "index-";

/// The name of the index file of a record file.
pub(crate) fn index_name(record_file: &str) -> String {
    format!("{INDEX_PREFIX}{record_file}")
}

/// The record file that an index file belongs to; `None` for every other file.
pub(crate) fn indexed_file(name: &str) -> Option<&str> {
    name.strip_prefix(INDEX_PREFIX).filter(|file| holds_records(file))
}

const TEMPORARY_SUFFIX: &str = ".tmp";

/// The name of a file that is still being written.
pub(crate) fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY_SUFFIX)
}

/// A journal file or a pack, as its name describes it.
#[derive(Debug)]
pub(crate) struct RecordFile {
    pub(crate) name: String,
    pub(crate) first: u64,
    /// The sequence after a pack's range; `None` for a journal file.
    pub(crate) next: Option<u64>,
}

/// The record files among some names.
#[derive(Debug, Default)]
pub(crate) struct RecordFiles {
    /// By first sequence.
    pub(crate) files: Vec<RecordFile>,
    /// Files that a pack has replaced; a crash came before their removal.
    pub(crate) replaced: Vec<String>,
}

impl RecordFiles {
    pub(crate) fn among(names: Vec<String>) -> Self {
        let record_file = |name: String| {
            let (first, next) = record_range(&name)?;
            Some(RecordFile { name, first, next })
        };
        let mut all: Vec<_> = names.into_iter().filter_map(record_file).collect();
        // If several begin at one sequence, the one that ends last is the newest.
        all.sort_unstable_by_key(|file| (file.first, Reverse(file.next)));
        let mut found = Self::default();
        let mut covered = 0;
        for file in all {
            if file.first < covered {
                found.replaced.push(file.name);
            } else {
                covered = file.next.unwrap_or(covered);
                found.files.push(file);
            }
        }
        found
    }

    /// The name of the newest journal file.
    pub(crate) fn newest_journal(&self) -> Option<&str> {
        let file = self.files.iter().rfind(|file| file.next.is_none())?;
        Some(&file.name)
    }
}
