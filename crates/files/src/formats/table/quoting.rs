//! Quotes in tables.
//!
//! In CSV a cell may be quoted (RFC 4180). Programs that write TSV do not agree: spreadsheets quote
//! as in CSV, and text/tab-separated-values of IANA has no quotes, so that a cell of it may begin
//! with one. A sample of the file decides.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr;

use crate::context::Quoting;

/// What separates the cells of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    /// `None` if no cell begins with a quote so far: both rules read them alike.
    pub(crate) quoting: Option<Quoting>,
}

impl Dialect {
    /// A reader of records. To make one takes as long as to read some thousand bytes, so it is made
    /// once for a file.
    pub(crate) fn reader(self) -> Reader {
        let is_quoted = self.quoting == Some(Quoting::Double);
        #[cfg(test)]
        READERS.set(READERS.get() + 1);
        ReaderBuilder::new().delimiter(self.delimiter).quoting(is_quoted).build()
    }

    /// Appends a record of these cells.
    pub(crate) fn write(self, cells: &[&[u8]], out: &mut Vec<u8>) {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                out.push(self.delimiter);
            }
            match self.quoting {
                Some(Quoting::None) => out.extend_from_slice(cell),
                Some(Quoting::Double) | None => write_cell(cell, self.delimiter, out),
            }
        }
    }
}

/// The cells of one record, without quotes. The reader forgets what it read before.
pub(crate) fn cells(reader: &mut Reader, record: &[u8]) -> Vec<Vec<u8>> {
    reader.reset();
    let input = [record, b"\n"].concat();
    let (mut bytes, mut ends) = (vec![0; input.len()], vec![0; input.len() + 1]);
    let (_, _, _, count) = reader.read_record(&input, &mut bytes, &mut ends);
    let ends = &ends[..count];
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| bytes[start..end].to_vec()).collect()
}

/// Appends a cell of a table, in quotes if it needs them (RFC 4180).
pub(crate) fn write_cell(cell: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let needs_quotes = |byte: &u8| *byte == delimiter || b"\"\r\n".contains(byte);
    if !cell.iter().any(needs_quotes) {
        out.extend_from_slice(cell);
        return;
    }
    out.push(b'"');
    for piece in cell.split_inclusive(|&byte| byte == b'"') {
        out.extend_from_slice(piece);
        if piece.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

/// Whether a cell of these lines begins with a quote.
pub(super) fn has_leading_quote(lines: &[u8], delimiter: u8) -> bool {
    lines.split(|&byte| byte == delimiter || byte == b'\n').any(|cell| cell.starts_with(b"\""))
}

/// The rule that fits a sample of whole records of so many columns; `None` if no cell of it begins
/// with a quote.
pub(super) fn of_sample(sample: &[u8], delimiter: u8, columns: usize) -> Option<Quoting> {
    let lines = || {
        let lines = sample.split(|&byte| byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        lines.filter(|line| !line.is_empty())
    };
    let cells = |line| <[u8]>::split(line, move |&byte| byte == delimiter);
    let mut opened = lines().flat_map(cells).filter(|cell| cell.starts_with(b"\"")).peekable();
    opened.peek()?;
    if opened.all(|cell| is_well_quoted(cell, delimiter)) {
        return Some(Quoting::Double);
    }
    if lines().all(|line| cells(line).count() == columns) {
        return Some(Quoting::None);
    }
    let quoted = Dialect { delimiter, quoting: Some(Quoting::Double) };
    Some(if is_of_records(sample, quoted, columns) { Quoting::Double } else { Quoting::None })
}

/// Whether all records of a sample are well quoted and have so many cells. The last one may be cut.
fn is_of_records(sample: &[u8], dialect: Dialect, columns: usize) -> bool {
    let (mut cells, mut ends) = (vec![0; sample.len() + 1], vec![0; sample.len() + 2]);
    let mut rest = sample;
    let mut reader = dialect.reader();
    while !rest.is_empty() {
        reader.reset();
        let (result, read, _, count) = reader.read_record(rest, &mut cells, &mut ends);
        if result != ReadRecordResult::Record {
            return true;
        }
        if count != columns || !is_well_quoted(&rest[..read], dialect.delimiter) {
            return false;
        }
        rest = &rest[read..];
        while let [b'\r' | b'\n', after @ ..] = rest {
            rest = after;
        }
    }
    true
}

/// Whether each quoted cell ends with its second quote: `csv_core` takes what follows as part of
/// the cell.
pub(super) fn is_well_quoted(record: &[u8], delimiter: u8) -> bool {
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

#[cfg(test)]
thread_local! {
    /// How many readers this thread has made.
    pub(super) static READERS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_says_whether_cells_are_quoted() {
        for (sample, columns, quoting) in [
            ("1\tone\n2\ttwo \"quoted\"\n", 2, None),
            ("1\t\"one\"\n2\t\"two \"\"quoted\"\"\"\n", 2, Some(Quoting::Double)),
            ("1\t\"Sociology\" is a word\n2\ttwo\n", 2, Some(Quoting::None)),
            ("1\t\"never closed\n2\ttwo\n3\t\"three\"\n", 2, Some(Quoting::None)),
            ("1\t\"a tab\tand a\nline\"\n2\ttwo\n", 2, Some(Quoting::Double)),
            ("1\t\"a tab\tand\" a cell too many\n2\ttwo\n", 2, Some(Quoting::None)),
        ] {
            assert_eq!(of_sample(sample.as_bytes(), b'\t', columns), quoting, "{sample}");
        }
    }

    #[test]
    fn records_are_written_as_they_are_read() {
        for quoting in [Quoting::Double, Quoting::None].map(Some) {
            let dialect = Dialect { delimiter: b'\t', quoting };
            let cells = [&b"1"[..], b"\"two\" words", b"", b"three, 3"];
            let mut record = Vec::new();
            dialect.write(&cells, &mut record);
            assert_eq!(
                super::cells(&mut dialect.reader(), &record),
                cells,
                "{}",
                record.escape_ascii()
            );
        }
        let csv = Dialect { delimiter: b',', quoting: Some(Quoting::Double) };
        assert_eq!(
            cells(&mut csv.reader(), b"\"a\nb\",\"c \"\"d\"\"\""),
            [&b"a\nb"[..], b"c \"d\""]
        );
    }
}
