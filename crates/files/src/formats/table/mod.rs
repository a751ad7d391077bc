//! CSV and TSV, with a header that names the columns.
//!
//! `csv_core` finds the cells; this module holds the record that is being read, and no more of it
//! than the limit. A record with a quote that is not closed, or with another number of cells than
//! the header, ends at its first line end, so that the records that a stray quote would swallow are
//! read.

mod quoting;

use std::borrow::Cow;

use bytes::Bytes;
use csv_core::{ReadRecordResult, Reader};
use memchr::memchr;

use crate::context::{Budget, File, Quoting, too_long};
use crate::entry::{DOCUMENT_BYTES_MAX, FileRecord, Item, NUL, Place, Raw};
use crate::mapping::{Fields, RecordValue};
use crate::source::{Charset, Window};

pub(crate) use quoting::{Dialect, cells, write_cell};

/// What the first record of a table is.
pub const HEADERS: &str = "headers of tables";
/// The most columns of a table.
const COLUMNS_MAX: usize = 1 << 16;

/// How much of a table decides how its cells are quoted, from the first cell that begins with a
/// quote.
const SAMPLE_BYTES: usize = 1 << 20;
/// How much of a table that is not UTF-8 is looked at to guess its encoding.
const CHARSET_SAMPLE: usize = 64 << 10;

/// The records of a table.
pub(crate) struct TableRows {
    file: File,
    window: Window,
    dialect: Dialect,
    reader: Reader,
    header: Option<Vec<String>>,
    /// The cells of a record one after the other, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// The number of the next record, from 1; the header does not count.
    number: u64,
    /// The rest of a line has been reported, and is dropped.
    is_dropped: bool,
    is_over: bool,
    /// A cell had a character outside of ASCII, in UTF-8.
    is_utf8: bool,
    /// The source is damaged after what is in the window.
    damage: Option<std::io::Error>,
    budget: Budget,
    bytes_max: usize,
}

/// What was found at the start of the window.
enum Found {
    /// A record that ends with its line, and how many cells it has.
    Record {
        bytes: usize,
        cells: usize,
    },
    /// The source ends within quotes.
    Unclosed,
    TooLong,
    End,
}

impl TableRows {
    pub(crate) fn new(file: File, window: Window, delimiter: u8) -> Self {
        let is_tsv = delimiter == b'\t';
        let quoting = file.context.quoting.or((!is_tsv).then_some(Quoting::Double));
        let dialect = Dialect { delimiter, quoting };
        Self {
            file,
            window,
            dialect,
            reader: dialect.reader(),
            header: None,
            cells: vec![0; 4 << 10],
            ends: vec![0; 64],
            number: 1,
            is_dropped: false,
            is_over: false,
            is_utf8: false,
            damage: None,
            budget: Budget::default(),
            bytes_max: DOCUMENT_BYTES_MAX,
        }
    }

    fn place(&self) -> Place {
        self.file.place(self.number, Some(self.window.offset()))
    }

    /// The names of the columns and how cells are quoted, by a sample; `None` without a header. The
    /// records can be read afterwards.
    pub(crate) fn shape(&mut self) -> std::io::Result<Option<(Vec<String>, Dialect)>> {
        let found = self.find()?;
        let Found::Record { bytes, cells } = found else { return Ok(None) };
        self.header(bytes, cells);
        if self.dialect.quoting.is_none() {
            self.decide();
        }
        Ok(self.header.clone().map(|names| (names, self.dialect)))
    }

    /// Lets the window grow; damage of the source that was met before is an error now.
    fn grow(&mut self) -> std::io::Result<bool> {
        self.damage.take().map_or_else(|| self.window.grow(), Err)
    }

    /// Lets the window grow to this many bytes, if the source has them. What is in the window
    /// before damage has to be read first.
    fn look_ahead(&mut self, bytes: usize) {
        while self.damage.is_none() && self.window.bytes().len() < bytes {
            match self.window.grow() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.damage = Some(error),
            }
        }
    }

    /// Decides by a sample how cells are quoted.
    fn decide(&mut self) {
        self.look_ahead(SAMPLE_BYTES);
        let sample = self.window.bytes();
        // Up to the last line that is whole, unless the file ends before.
        let is_whole = sample.len() < SAMPLE_BYTES;
        let end = memchr::memrchr(b'\n', sample).filter(|_| !is_whole);
        let sample = &sample[..end.unwrap_or(sample.len())];
        let delimiter = self.dialect.delimiter;
        let first = || sample.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let cells = || first().split(|&byte| byte == delimiter).count();
        let columns = self.header.as_ref().map_or_else(cells, Vec::len);
        self.dialect.quoting = quoting::of_sample(sample, delimiter, columns);
        self.reader = self.dialect.reader();
    }

    /// Finds the record at the start of the window.
    fn find(&mut self) -> std::io::Result<Found> {
        let found = self.find_by_known_rule()?;
        let delimiter = self.dialect.delimiter;
        if self.dialect.quoting.is_none()
            && let Found::Record { bytes, .. } = found
            && quoting::has_leading_quote(&self.window.bytes()[..bytes], delimiter)
        {
            self.decide();
            return self.find_by_known_rule();
        }
        Ok(found)
    }

    fn find_by_known_rule(&mut self) -> std::io::Result<Found> {
        if self.header.is_none() {
            // `csv_core` would take a byte order mark that comes alone for the end of the file.
            self.look_ahead(SEPARATOR_LINE_BYTES + 3);
            if self.window.bytes().starts_with(b"\xef\xbb\xbf") {
                self.window.skip(3);
            }
            if let Some((_, line)) = separator_line(self.window.bytes()) {
                self.window.skip(line);
            }
        }
        self.skip_blank_lines()?;
        let (mut read, mut written, mut count) = (0, 0, 0);
        loop {
            let input = &self.window.bytes()[read..];
            let at_end = input.is_empty() && !self.grow()?;
            // An empty input would say that the file ends here. A line end instead completes the
            // record unless it lies within quotes.
            let input = if at_end { b"\n" } else { &self.window.bytes()[read..] };
            let (cells, ends) = (&mut self.cells[written..], &mut self.ends[count..]);
            let (result, more_read, more_written, more_ends) =
                self.reader.read_record(input, cells, ends);
            read += if at_end { 0 } else { more_read };
            written += more_written;
            count += more_ends;
            match result {
                ReadRecordResult::Record => return Ok(Found::Record { bytes: read, cells: count }),
                ReadRecordResult::End => return Ok(Found::End),
                ReadRecordResult::OutputFull => self.cells.resize(self.cells.len() * 2, 0),
                ReadRecordResult::OutputEndsFull if count < COLUMNS_MAX => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::OutputEndsFull => return Ok(Found::TooLong),
                ReadRecordResult::InputEmpty if at_end && self.window.bytes().is_empty() => {
                    return Ok(Found::End);
                }
                ReadRecordResult::InputEmpty if at_end => return Ok(Found::Unclosed),
                ReadRecordResult::InputEmpty => {}
            }
            if read > self.bytes_max {
                return Ok(Found::TooLong);
            }
        }
    }

    /// Skips line ends, including the `\n` of a `\r\n` whose `\r` has ended the last record.
    fn skip_blank_lines(&mut self) -> std::io::Result<()> {
        loop {
            let is_end = |byte: &&u8| matches!(**byte, b'\r' | b'\n');
            let blank = self.window.bytes().iter().take_while(is_end).count();
            self.window.skip(blank);
            if !self.window.bytes().is_empty() || !self.grow()? {
                return Ok(());
            }
        }
    }

    /// Takes the first line of the record at the start of the window, and continues after it.
    fn resume(&mut self, bytes: usize) -> Bytes {
        self.reader.reset();
        self.number += 1;
        let line =
            memchr(b'\n', &self.window.bytes()[..bytes]).filter(|_| self.budget.allows(bytes));
        if let Some(end) = line {
            return self.window.take(end + 1);
        }
        let ends_here = self.window.bytes()[..bytes].ends_with(b"\n");
        self.is_dropped = !ends_here;
        self.window.take(bytes)
    }

    /// Whether a record follows the first line of the bytes at the start of the window, which end
    /// within quotes. If none does, the file was cut off within a cell of several lines.
    fn has_record_within(&mut self, bytes: usize) -> bool {
        let Some(columns) = self.header.as_ref().map(Vec::len) else { return true };
        let Some(line) = memchr(b'\n', &self.window.bytes()[..bytes]) else { return true };
        if !self.budget.allows(bytes) {
            return true;
        }
        let mut lines = self.window.bytes()[line + 1..bytes].split(|&byte| byte == b'\n');
        let has_all = lines.any(|line| cells(&mut self.reader, line).len() == columns);
        self.reader.reset();
        has_all
    }

    /// Drops the rest of a line.
    fn drop_line(&mut self) -> std::io::Result<()> {
        loop {
            if let Some(end) = memchr(b'\n', self.window.bytes()) {
                self.window.skip(end + 1);
                break;
            }
            self.window.skip_all_but(0);
            if !self.window.grow()? {
                break;
            }
        }
        self.is_dropped = false;
        Ok(())
    }

    fn step(&mut self) -> std::io::Result<Option<Item>> {
        if self.is_dropped {
            self.drop_line()?;
        }
        let found = self.find()?;
        let place = self.place();
        match found {
            Found::End => {
                self.is_over = true;
                Ok(None)
            }
            Found::Record { bytes, cells } => Ok(Some(self.record(place, bytes, cells))),
            Found::Unclosed => {
                let bytes = self.window.bytes().len();
                let raw = if self.has_record_within(bytes) {
                    self.resume(bytes)
                } else {
                    self.is_over = true;
                    self.window.take(bytes)
                };
                Ok(Some(self.broken(place, raw, "has a quote that is not closed")))
            }
            Found::TooLong => {
                let bytes = self.window.bytes().len();
                let is_quoted = self.has_lines(bytes);
                self.resume(bytes);
                let why = if is_quoted { far_quote() } else { too_long() };
                Ok(Some(Err(place.bad(why))))
            }
        }
    }

    fn record(&mut self, place: Place, bytes: usize, count: usize) -> Item {
        let Some(header) = &self.header else { return Ok(self.header(bytes, count)) };
        if header.len() != count {
            let (header, cells) = (header.len(), if count == 1 { "cell" } else { "cells" });
            let why = format!("has {count} {cells}, and the header has {header}");
            let raw = self.skip_broken(bytes);
            return self.broken(place, raw, why);
        }
        if self.has_wrong_quotes(bytes) {
            let raw = self.skip_broken(bytes);
            return self.broken(
                place,
                raw,
                "has a quote within a cell, or one that is not closed; if quotes are plain \
                 characters in this file, pass --quote none",
            );
        }
        let mut raw = self.window.take(bytes);
        raw.truncate(without_line_end(&raw).len());
        self.budget.earn(bytes);
        self.number += 1;
        let end = self.ends[count - 1];
        let cells = str::from_utf8(&self.cells[..end]).ok();
        // A delimiter within a character leaves cells that are UTF-8 only together.
        let ends = &self.ends[..count];
        let whole = |cells: &&str| ends.iter().all(|&end| cells.is_char_boundary(end));
        let Some(cells) = cells.filter(whole) else {
            return self.not_utf8(place, raw);
        };
        if memchr(0, cells.as_bytes()).is_some() {
            return self.broken(place, raw, NUL);
        }
        self.is_utf8 |= !cells.is_ascii();
        let row = Row { header, cells, ends };
        let (item, is_over) = self.file.row((place, Raw::Bytes(raw)), header, &row);
        self.is_over |= is_over;
        item
    }

    /// A record that cannot be read, with its bytes.
    fn broken(&self, place: Place, mut raw: Bytes, why: impl std::fmt::Display) -> Item {
        raw.truncate(without_line_end(&raw).len());
        Err(self.file.bad((place, Raw::Bytes(raw)), why))
    }

    /// A record that is not UTF-8. If the file has been UTF-8 so far, or is so after it, only this
    /// record is broken. Otherwise the file probably has another encoding, and is not read any
    /// further, unless records that cannot be read are to be kept.
    fn not_utf8(&mut self, place: Place, raw: Bytes) -> Item {
        if self.is_utf8 {
            return self.broken(place, raw, "is not UTF-8");
        }
        self.look_ahead(CHARSET_SAMPLE);
        let window = self.window.bytes();
        let window = &window[..window.len().min(CHARSET_SAMPLE)];
        // The sample may end within a character.
        let is_alone = str::from_utf8(window).is_ok_and(|text| !text.is_empty())
            || str::from_utf8(window).is_err_and(|error| error.error_len().is_none());
        let sample = [&raw[..], window].concat();
        let charset = Charset::guessed(&sample).name();
        let advice = format!("is not UTF-8, probably {charset}: pass --charset {charset}");
        if self.file.context.is_lenient || is_alone {
            return self.broken(place, raw, advice);
        }
        self.is_over = true;
        self.broken(place, raw, format!("{advice}. The rest of the table is not read"))
    }

    /// Whether a record has a quote where none is allowed. Single lines of CSV are read as
    /// spreadsheets read them.
    fn has_wrong_quotes(&self, bytes: usize) -> bool {
        let Dialect { delimiter, quoting } = self.dialect;
        let is_checked = self.has_lines(bytes) || delimiter == b'\t';
        is_checked
            && quoting == Some(Quoting::Double)
            && !quoting::is_well_quoted(&self.window.bytes()[..bytes], delimiter)
    }

    /// Whether a record has a line end other than the one that completes it.
    fn has_lines(&self, bytes: usize) -> bool {
        memchr(b'\n', self.window.bytes()[..bytes].trim_ascii_end()).is_some()
    }

    /// Takes a broken record of one line, or the first line of one of several.
    fn skip_broken(&mut self, bytes: usize) -> Bytes {
        if self.has_lines(bytes) {
            return self.resume(bytes);
        }
        self.number += 1;
        self.window.take(bytes)
    }

    fn header(&mut self, bytes: usize, count: usize) -> FileRecord {
        let place = self.file.place(0, Some(self.window.offset()));
        let mut raw = self.window.take(bytes);
        raw.truncate(without_line_end(&raw).len());
        let names = names(&self.cells, &self.ends[..count]);
        self.header = Some(names);
        self.file.other(place, raw, HEADERS)
    }
}

/// Why a record of several lines above the limit is refused: a quote is searched no further.
fn far_quote() -> String {
    format!("{}, or has a quote that is not closed", too_long())
}

fn without_line_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

fn names(cells: &[u8], ends: &[usize]) -> Vec<String> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let cells = starts.zip(ends).map(|(start, &end)| String::from_utf8_lossy(&cells[start..end]));
    cells.map(|cell| cell.trim().to_owned()).collect()
}

impl Iterator for TableRows {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.is_over {
            return None;
        }
        self.step().unwrap_or_else(|error| {
            let place = self.place();
            self.number += 1;
            self.reader.reset();
            let length = self.window.bytes().len();
            if length == 0 {
                return Some(Err(place.bad(error)));
            }
            // Nobody knows whether the record is whole.
            let raw = self.window.take(length);
            Some(self.broken(place, raw, format!("{error}, and this record may be cut off there")))
        })
    }
}

/// The delimiter of a file that is named like CSV: the one that a first line `sep=;` names, as
/// Excel writes it, or else the comma, unless the first line has none.
pub fn delimiter(head: &[u8]) -> u8 {
    if let Some((delimiter, _)) = separator_line(head) {
        return delimiter;
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut likely = [b',', b';', b'\t', b'|'].into_iter();
    likely.find(|delimiter| line.contains(delimiter)).unwrap_or(b',')
}

/// The longest line that names the delimiter.
const SEPARATOR_LINE_BYTES: usize = b"\"sep=;\"\r\n".len();

/// The delimiter that the first line names, and the length of that line.
fn separator_line(head: &[u8]) -> Option<(u8, usize)> {
    let end = memchr(b'\n', &head[..head.len().min(SEPARATOR_LINE_BYTES)])?;
    let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] => Some((*delimiter, end + 1)),
        _ => None,
    }
}

/// A record and the names of its columns. An empty cell counts as missing.
struct Row<'a> {
    header: &'a [String],
    cells: &'a str,
    ends: &'a [usize],
}

impl Fields for Row<'_> {
    fn get(&self, path: &str) -> Result<Option<RecordValue<'_>>, String> {
        let mut found = (0..).zip(self.header).filter(|(_, name)| *name == path);
        let column: usize = match (found.next(), found.next()) {
            (None, _) => return Ok(None),
            (Some((column, _)), None) => column,
            (Some(_), Some(_)) => return Err(format!("has several columns `{path}`")),
        };
        let start = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        let cell = &self.cells[start..self.ends[column]];
        Ok((!cell.is_empty()).then_some(RecordValue::Cell(Cow::Borrowed(cell))))
    }

    fn names(&self) -> Vec<&str> {
        self.header.iter().map(String::as_str).collect()
    }

    fn spelt(&self, name: &str) -> Option<&str> {
        self.header.iter().map(String::as_str).find(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests;
