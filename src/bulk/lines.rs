//! Files of one entry a line, with a limit on the length of a line.

use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;
use std::vec;

use bytes::Bytes;

use super::content;
use super::entry::{BadEntry, DOCUMENT_BYTES_MAX, Entry, Parsed, Place};
use super::files::Source;
use crate::lines::{Line, LineCutter};

/// Parses the id and the body of a line; the error says what is wrong with it.
pub(super) type ParseLine = fn(&[u8]) -> Result<Parsed, String>;

/// The entries of a file of one entry a line.
pub(super) struct ByLine {
    /// `None` after its end, or after an error: then it may repeat itself or fail for ever.
    source: Option<Source>,
    cutter: LineCutter,
    lines: vec::IntoIter<Line>,
    parse: ParseLine,
    path: Arc<Path>,
}

impl ByLine {
    pub(super) fn new(source: Source, parse: ParseLine, path: &Path) -> Self {
        Self {
            source: Some(source),
            cutter: LineCutter::new(DOCUMENT_BYTES_MAX),
            lines: Vec::new().into_iter(),
            parse,
            path: path.into(),
        }
    }

    fn place(&self, line: u64) -> Place {
        Place { path: Arc::clone(&self.path), line: Some(line) }
    }

    fn entry(&self, line: &Line) -> Result<Entry, BadEntry> {
        let place = self.place(line.number);
        let Some(bytes) = &line.bytes else {
            return Err(place.bad(format!("longer than {DOCUMENT_BYTES_MAX} bytes")));
        };
        let bytes = if line.number == 1 { content::trimmed(bytes) } else { bytes };
        match (self.parse)(bytes.trim_ascii()) {
            Ok(Parsed { id, body, passed }) => Ok(Entry { place, id, body, passed }),
            Err(why) => Err(place.bad(why)),
        }
    }
}

impl Iterator for ByLine {
    type Item = Result<Entry, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.lines.next() {
                return Some(self.entry(&line));
            }
            let source = self.source.as_mut()?;
            match source.fill_buf() {
                Ok([]) => {
                    self.source = None;
                    let last: Vec<Line> = self.cutter.finish().into_iter().collect();
                    self.lines = last.into_iter();
                }
                Ok(data) => {
                    let count = data.len();
                    self.lines = self.cutter.push(Bytes::copy_from_slice(data)).into_iter();
                    source.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.source = None;
                    return Some(Err(self.place(self.cutter.number()).bad(error)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::super::entry::Body;
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_keeps_its_number() {
        let text = "one\n\nthree is far too long\r\nfour\r\nfive";
        // A buffer of 2 bytes, so that the long line is skipped in many steps.
        let source = Box::new(BufReader::with_capacity(2, text.as_bytes()));
        let parse = |line: &[u8]| {
            let line = String::from_utf8(line.to_vec()).unwrap();
            Ok(Parsed { id: Some(line), body: Body::Text(String::new()), passed: Vec::new() })
        };
        let mut lines = ByLine::new(source, parse, Path::new("f.hex"));
        lines.cutter = LineCutter::new(6);
        let seen: Vec<_> = lines
            .map(|line| match line {
                Ok(entry) => (entry.place.line.unwrap(), entry.id.unwrap()),
                Err(bad) => (bad.place.line.unwrap(), bad.why),
            })
            .collect();
        let too_long = format!("longer than {DOCUMENT_BYTES_MAX} bytes");
        let expected = [(1, "one"), (3, &too_long), (4, "four"), (5, "five")];
        assert_eq!(seen, expected.map(|(number, line)| (number, line.to_owned())));
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
