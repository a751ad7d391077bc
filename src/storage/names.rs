//! The names of files, and the numbers in them.

use super::header::journal_first;
use crate::storage::journal::pack::pack_range;

/// File names carry sequences and file numbers from 1 to this, so that the number after one in a name is
/// always a valid one too. No service ever counts this far.
pub const FILE_NUMBER_MAX: u64 = i64::MAX as u64;

/// A number as file names carry it: twenty digits, 1 to [`FILE_NUMBER_MAX`]. `None` for anything else; such
/// a file is not one of the data directory's and is left alone.
pub fn file_number(digits: &str) -> Option<u64> {
    let is_written_so = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_written_so)?;
    (1..=FILE_NUMBER_MAX).contains(&number).then_some(number)
}

/// Whether a file of this name holds records: a journal file or a pack.
pub fn holds_records(name: &str) -> bool {
    journal_first(name).is_some() || pack_range(name).is_some()
}
