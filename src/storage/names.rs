//! The names of files: no other module makes or parses one.

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

/// The first sequence of a journal file; `None` for every other file.
pub(crate) fn journal_first(name: &str) -> Option<u64> {
    file_number(name.strip_prefix("journal-")?.strip_suffix(".log")?)
}

/// The name of the pack of the sequences from `first` to before `next`.
pub(crate) fn pack_name(first: u64, next: u64) -> String {
    format!("records-{first:020}-{next:020}.pack")
}

/// The range of a pack; `None` for every other file.
pub(crate) fn pack_range(name: &str) -> Option<(u64, u64)> {
    let (first, next) = name.strip_prefix("records-")?.strip_suffix(".pack")?.split_once('-')?;
    let (first, next) = (file_number(first)?, file_number(next)?);
    (first < next).then_some((first, next))
}

/// Whether the file is a record file: a journal file or a pack.
pub fn holds_records(name: &str) -> bool {
    journal_first(name).is_some() || pack_range(name).is_some()
}

const TEMPORARY_SUFFIX: &str = ".tmp";

/// The name of a file that is still being written.
pub(crate) fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(TEMPORARY_SUFFIX)
}

/// The record files among some names, each list ordered by sequence.
#[derive(Debug, Default)]
pub(crate) struct RecordFiles {
    pub(crate) packs: Vec<String>,
    /// Journal files with their first sequences.
    pub(crate) journals: Vec<(u64, String)>,
    /// Files that a pack has replaced; a crash came before their removal.
    pub(crate) replaced: Vec<String>,
}

impl RecordFiles {
    pub(crate) fn among(names: Vec<String>) -> Self {
        let mut files = Self::default();
        let range = |name: &str| pack_range(name).or_else(|| Some((journal_first(name)?, 0)));
        let names = names.into_iter();
        let mut ranges: Vec<_> = names.filter_map(|name| Some((range(&name)?, name))).collect();
        // Of those with one first sequence, the one that ends last is the newest.
        ranges.sort_unstable_by_key(|((first, next), _)| (*first, u64::MAX - next));
        let mut covered = 0;
        for ((first, next), name) in ranges {
            if first < covered {
                files.replaced.push(name);
            } else if next > 0 {
                covered = next;
                files.packs.push(name);
            } else {
                files.journals.push((first, name));
            }
        }
        files
    }
}
