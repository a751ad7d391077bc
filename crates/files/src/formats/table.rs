//! CSV and TSV, with a header that names the columns.
//!
//! `csv_core` finds the cells; this module holds the record that is being read, and no more of it
//! than the limit. A record with a quote that is not closed, or with another number of cells than
//! the header, ends at its first line end, so that the records that a stray quote would swallow are
//! read.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr;

use crate::context::{Budget, File, too_long};
use crate::entry::{DOCUMENT_BYTES_MAX, FileRecord, Item, Place, Raw};
use crate::mapping::{Fields, RecordValue};
use crate::source::Window;

/// What the first record of a table is.
pub const HEADERS: &str = "headers of tables";
/// The most columns of a table.
const COLUMNS_MAX: usize = 1 << 16;

/// A cell of a table, in quotes if it needs them (RFC 4180).
pub fn quoted(cell: &str, delimiter: u8) -> Cow<'_, str> {
    let needs_quotes = |byte| byte == delimiter || b"\"\r\n".contains(&byte);
    if cell.bytes().any(needs_quotes) {
        format!("\"{}\"", cell.replace('"', "\"\"")).into()
    } else {
        cell.into()
    }
}

/// The records of a table.
pub(crate) struct TableRows {
    file: File,
    window: Window,
    delimiter: u8,
    reader: Reader,
    header: Option<Vec<String>>,
    /// The cells of a record one after the other, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// The number of the next record, from 1; the header is none.
    number: u64,
    /// The rest of a line has been reported, and is dropped.
    is_dropped: bool,
    is_over: bool,
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
        Self {
            file,
            window,
            delimiter,
            reader: reader(delimiter),
            header: None,
            cells: vec![0; 4 << 10],
            ends: vec![0; 64],
            number: 1,
            is_dropped: false,
            is_over: false,
            budget: Budget::default(),
            bytes_max: DOCUMENT_BYTES_MAX,
        }
    }

    fn place(&self) -> Place {
        self.file.place(self.number, Some(self.window.offset()))
    }

    /// Finds the record at the start of the window.
    fn find(&mut self) -> std::io::Result<Found> {
        if self.header.is_none() {
            // `csv_core` would take a byte order mark that comes alone for the end of the file.
            while self.window.bytes().len() < 3 && self.window.grow()? {}
            if self.window.bytes().starts_with(b"\xef\xbb\xbf") {
                self.window.skip(3);
            }
        }
        self.skip_blank_lines()?;
        let (mut read, mut written, mut count) = (0, 0, 0);
        loop {
            let input = &self.window.bytes()[read..];
            let at_end = input.is_empty() && !self.window.grow()?;
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

    /// Skips line ends, the second half of the one after the last record among them.
    fn skip_blank_lines(&mut self) -> std::io::Result<()> {
        loop {
            let is_end = |byte: &&u8| matches!(**byte, b'\r' | b'\n');
            let blank = self.window.bytes().iter().take_while(is_end).count();
            self.window.skip(blank);
            if !self.window.bytes().is_empty() || !self.window.grow()? {
                return Ok(());
            }
        }
    }

    /// Goes on after the first line end of the record at the start of the window.
    fn resume(&mut self, bytes: usize) {
        self.reader = reader(self.delimiter);
        self.number += 1;
        let line =
            memchr(b'\n', &self.window.bytes()[..bytes]).filter(|_| self.budget.allows(bytes));
        if let Some(end) = line {
            self.window.skip(end + 1);
        } else {
            let ends_here = self.window.bytes()[..bytes].ends_with(b"\n");
            self.window.skip(bytes);
            self.is_dropped = !ends_here;
        }
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
                self.resume(self.window.bytes().len());
                Ok(Some(Err(place.bad("has a quote that is not closed"))))
            }
            Found::TooLong => {
                self.resume(self.window.bytes().len());
                Ok(Some(Err(place.bad(too_long()))))
            }
        }
    }

    fn record(&mut self, place: Place, bytes: usize, count: usize) -> Item {
        let Some(header) = &self.header else { return Ok(self.header(bytes, count)) };
        if header.len() != count {
            let (header, cells) = (header.len(), if count == 1 { "cell" } else { "cells" });
            let why = format!("has {count} {cells}, and the header has {header}");
            self.skip_broken(bytes);
            return Err(place.bad(why));
        }
        if self.has_lines(bytes) && !is_well_quoted(&self.window.bytes()[..bytes], self.delimiter) {
            self.skip_broken(bytes);
            return Err(place.bad("has a quote within a cell, or one that is not closed"));
        }
        let mut raw = self.window.take(bytes);
        raw.truncate(without_line_end(&raw).len());
        self.number += 1;
        let end = self.ends[count - 1];
        let Ok(cells) = str::from_utf8(&self.cells[..end]) else {
            return Err(place.bad("is not UTF-8"));
        };
        let row = Row { header, cells, ends: &self.ends[..count] };
        let (item, is_over) = self.file.row((place, Raw::Bytes(raw)), header, &row);
        self.is_over |= is_over;
        item
    }

    /// Whether a record has a line end other than the one that completes it.
    fn has_lines(&self, bytes: usize) -> bool {
        memchr(b'\n', self.window.bytes()[..bytes].trim_ascii_end()).is_some()
    }

    /// Skips a broken record of one line, or the first line of one of several.
    fn skip_broken(&mut self, bytes: usize) {
        if self.has_lines(bytes) {
            self.resume(bytes);
        } else {
            self.window.skip(bytes);
            self.number += 1;
        }
    }

    fn header(&mut self, bytes: usize, count: usize) -> FileRecord {
        let place = self.file.place(0, Some(self.window.offset()));
        let mut raw = self.window.take(bytes);
        raw.truncate(without_line_end(&raw).len());
        let names = cells(&self.cells, &self.ends[..count]);
        self.header = Some(names);
        self.file.other(place, raw, HEADERS)
    }
}

fn reader(delimiter: u8) -> Reader {
    ReaderBuilder::new().delimiter(delimiter).build()
}

/// Whether each quoted cell ends with its second quote: `csv_core` takes what follows as part of the
/// cell.
fn is_well_quoted(record: &[u8], delimiter: u8) -> bool {
    let mut rest = record.trim_ascii_end();
    loop {
        if let Some(mut quoted) = rest.strip_prefix(b"\"") {
            let Some(end) = memchr(b'"', quoted) else { return false };
            quoted = &quoted[end + 1..];
            match quoted.first() {
                None => return true,
                // Two quotes stand for one: what follows is as if the cell began here.
                Some(b'"') => rest = quoted,
                Some(&byte) if byte == delimiter => rest = &quoted[1..],
                Some(_) => return false,
            }
        } else {
            let Some(end) = memchr(delimiter, rest) else { return true };
            rest = &rest[end + 1..];
        }
    }
}

fn without_line_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

fn cells(cells: &[u8], ends: &[usize]) -> Vec<String> {
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
            self.window.skip_all_but(0);
            self.reader = reader(self.delimiter);
            Some(Err(place.bad(error)))
        })
    }
}

/// The delimiter of a file that is named like CSV: the comma, unless its first line has none.
pub fn delimiter(head: &[u8]) -> u8 {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut likely = [b',', b';', b'\t'].into_iter();
    likely.find(|delimiter| line.contains(delimiter)).unwrap_or(b',')
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
mod tests {
    use std::io::BufReader;
    use std::path::Path;

    use super::*;
    use crate::context::{Context, RecordForm};
    use crate::mapping::Mapping;
    use crate::offer::Content;

    /// Id, text and bytes of each record, or what is wrong with it.
    fn read(text: &str, piece: usize) -> Vec<String> {
        let text: &'static [u8] = text.as_bytes().to_vec().leak();
        let source = Box::new(BufReader::with_capacity(piece, text));
        let file = File::new(
            &Context::new(Mapping::default(), RecordForm::Both),
            Path::new("f"),
            "",
            "record",
        );
        let mut table = TableRows::new(file, Window::new(source), delimiter(text));
        table.bytes_max = 40;
        let raw = |place: &Place, raw: Raw| {
            let at = place.record.unwrap().offset.unwrap() as usize;
            let Raw::Bytes(raw) = raw else { panic!("{raw:?}") };
            assert!(text[at..].starts_with(&raw), "its place is where its bytes are");
            String::from_utf8(raw.to_vec()).unwrap()
        };
        let shown = |item: Item| match item {
            Ok(FileRecord::Document(entry)) => {
                let Content::Text(text) = &entry.content else { panic!("{:?}", entry.content) };
                let (id, text) = (entry.id.as_deref().unwrap_or("-").to_owned(), text.clone());
                format!("{id}|{text}|{}", raw(&entry.place, entry.raw))
            }
            Ok(FileRecord::Other(other)) => {
                format!("{}: {}", other.what, raw(&other.place, other.raw))
            }
            Err(bad) => bad.to_string(),
        };
        table.map(shown).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for piece in 1..=text.len() {
            let read = read(text, piece);
            let (header, records) = read.split_first().unwrap();
            assert!(header.starts_with("headers of tables: "), "{header}");
            let matches = |(read, expected): (&String, &&str)| read.starts_with(expected);
            let is_same =
                records.len() == expected.len() && records.iter().zip(expected).all(matches);
            assert!(is_same, "pieces of {piece}: {records:?}");
        }
    }

    #[test]
    fn quoted_cells_line_ends_and_other_delimiters_are_read() {
        check(
            "id,text,n\r\n1,one,\r\n\r\n2,\"two, and\n\"\"three\"\"\",x\r\n,four,",
            &[
                "1|one|1,one,",
                "2|two, and\n\"three\"|2,\"two, and\n\"\"three\"\"\",x",
                "-|four|,four,",
            ],
        );
        check("\u{feff}Text;URL\nt;u\n", &["u|t|t;u"]);
        check("text\tid\nt, u\ti\n", &["i|t, u|t, u\ti"]);
    }

    #[test]
    fn a_stray_quote_swallows_no_records() {
        check(
            "id,text\n1,\"one\n2,two\n3,three\n",
            &["f record 1 (byte 8): has a quote that is not closed", "2|two", "3|three"],
        );
        check(
            "id,text\n1,\"one\n2,\"two\"\n3,three\n",
            &["f record 1 (byte 8): has", "2|two", "3|three"],
        );
    }

    #[test]
    fn a_record_with_another_number_of_cells_is_refused() {
        check(
            "id,text\n1\n2,two\n3,three,3\n4,four\n",
            &[
                "f record 1 (byte 8): has 1 cell, and the header has 2",
                "2|two",
                "f record 3 (byte 16): has 3 cells",
                "4|four",
            ],
        );
    }

    #[test]
    fn a_record_above_the_limit_is_skipped() {
        let long = "x".repeat(99);
        let text = format!("id,text\n1,{long}\n2,two\n3,\"{long}\n{long}\"\n4,four\n5,five");
        let read = read(&text, 7);
        assert!(read[1].starts_with("f record 1 (byte 8): longer than"), "{read:?}");
        assert_eq!(read[2], "2|two|2,two");
        assert!(read[3].starts_with("f record 3 (byte 116): longer than"), "{read:?}");
        assert_eq!(read[read.len() - 2..], ["4|four|4,four", "5|five|5,five"]);
    }

    #[test]
    fn a_table_without_content_is_reported_once() {
        let items = read("id,price\n1,2\n3,4\n5,6\n", 8);
        // The header, and the first record.
        assert_eq!(items.len(), 2, "{items:?}");
        assert!(items[1].starts_with("f record 1 (byte 9): has no text"), "{items:?}");
        assert!(items[1].ends_with("The rest of the table is not read"), "{items:?}");
        // A cell may be empty, and the next one not.
        check("id,text\n1,\n2,two\n", &["f record 1 (byte 8): has no text", "2|two"]);
    }

    #[test]
    fn an_empty_file_or_a_header_alone_has_no_documents() {
        assert_eq!(read("", 1), Vec::<String>::new());
        check("id,text\n", &[]);
        check("id,text", &[]);
    }
}
