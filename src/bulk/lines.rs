//! Files of one entry a line, with a limit on the length of a line.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use super::entry::{BadEntry, Body, DOCUMENT_BYTES_MAX, Entry, Place};
use super::files::Source;

/// Parses the id and the body of a line; the error says what is wrong with it.
pub(super) type ParseLine = fn(&[u8]) -> Result<(Option<String>, Body), String>;

/// The entries of a file of one entry a line.
pub(super) struct ByLine {
    lines: Lines,
    parse: ParseLine,
    path: Arc<Path>,
    ended: bool,
}

impl ByLine {
    pub(super) fn new(source: Source, parse: ParseLine, path: &Path) -> Self {
        Self { lines: Lines::new(source), parse, path: path.into(), ended: false }
    }
}

impl Iterator for ByLine {
    type Item = Result<Entry, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let place = |number| Place { path: Arc::clone(&self.path), line: Some(number) };
        match self.lines.next() {
            Ok(None) => None,
            Ok(Some(Line::Whole { number, bytes })) => {
                let place = place(number);
                Some(match (self.parse)(bytes) {
                    Ok((id, body)) => Ok(Entry { place, id, body }),
                    Err(why) => Err(place.bad(why)),
                })
            }
            Ok(Some(Line::TooLong { number })) => {
                let why = format!("longer than {DOCUMENT_BYTES_MAX} bytes");
                Some(Err(place(number).bad(why)))
            }
            Err(error) => {
                // After a failed read the source may repeat itself or fail for ever.
                self.ended = true;
                Some(Err(place(self.lines.number).bad(error)))
            }
        }
    }
}

/// The lines of a source, read one after the other into one buffer.
struct Lines {
    source: Source,
    number: u64,
    buffer: Vec<u8>,
    max: usize,
}

/// A line without its line end.
enum Line<'a> {
    Whole { number: u64, bytes: &'a [u8] },
    TooLong { number: u64 },
}

impl Lines {
    fn new(source: Source) -> Self {
        Self { source, number: 0, buffer: Vec::new(), max: DOCUMENT_BYTES_MAX }
    }

    /// The next line that is not blank.
    fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            self.buffer.clear();
            let limit = self.max as u64 + 1;
            let read = (&mut self.source).take(limit).read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            if read > self.max && self.buffer.last() != Some(&b'\n') {
                skip_line(&mut self.source)?;
                return Ok(Some(Line::TooLong { number }));
            }
            if !self.buffer.trim_ascii().is_empty() {
                let bytes = self.buffer.trim_ascii();
                return Ok(Some(Line::Whole { number, bytes }));
            }
        }
    }
}

fn skip_line(source: &mut Source) -> io::Result<()> {
    loop {
        let available = source.fill_buf()?;
        if available.is_empty() {
            return Ok(());
        }
        let line_end = available.iter().position(|&byte| byte == b'\n');
        let length = line_end.map_or(available.len(), |at| at + 1);
        source.consume(length);
        if line_end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_keeps_its_number() {
        let text = "one\n\nthree is far too long\r\nfour\r\nfive";
        // A buffer of 2 bytes, so that the long line is skipped in many steps.
        let source = Box::new(BufReader::with_capacity(2, text.as_bytes()));
        let mut lines = Lines::new(source);
        lines.max = 6;
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push(match line {
                Line::Whole { number, bytes } => {
                    (number, String::from_utf8(bytes.to_vec()).unwrap())
                }
                Line::TooLong { number } => (number, "too long".to_owned()),
            });
        }
        let expected = [(1, "one"), (3, "too long"), (4, "four"), (5, "five")];
        assert_eq!(seen, expected.map(|(n, line)| (n, line.to_owned())));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_the_next_one_is_read() {
        let source = Box::new("00000000000000ff\nnonsense\n0000000000000001\n".as_bytes());
        let read: Vec<_> =
            ByLine::new(source, super::super::hex::parse, Path::new("f.hex")).collect();
        assert_eq!(read.len(), 3);
        let error = read[1].as_ref().unwrap_err().to_string();
        assert!(error.starts_with("f.hex line 2: "), "{error}");
        assert!(read[2].is_ok());
    }
}
