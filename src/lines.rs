//! Cuts a stream of bytes into lines, each within a limit, in the memory of one line.

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use nearprint_wire::offer::json::BYTE_ORDER_MARK;

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamLine {
    /// Counted from 1 over the whole stream, blank lines included.
    pub(crate) number: u64,
    /// Its bytes without the line feed; `None` if they are above the limit.
    pub(crate) bytes: Option<Bytes>,
}

/// Cuts a stream into lines.
#[derive(Debug)]
pub(crate) struct LineCutter {
    bytes_max: usize,
    /// The number of the line that `partial` begins.
    number: u64,
    partial: BytesMut,
    /// The line is above the limit, so the rest of it is dropped.
    overlong: bool,
}

impl LineCutter {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, number: 1, partial: BytesMut::new(), overlong: false }
    }

    /// The line that is being read.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// The bytes of the unfinished line in memory.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Adds the next bytes of the stream and returns the lines that they complete. A line within
    /// these bytes is not copied.
    pub(crate) fn push(&mut self, mut data: Bytes) -> Vec<StreamLine> {
        let mut lines = Vec::new();
        while let Some(end) = memchr(b'\n', &data) {
            let mut head = data.split_to(end.saturating_add(1));
            head.truncate(end);
            lines.extend(self.complete(head));
        }
        self.keep(&data);
        lines
    }

    /// The last line, if the stream does not end with a line feed.
    pub(crate) fn finish(&mut self) -> Option<StreamLine> {
        self.complete(Bytes::new())
    }

    fn complete(&mut self, tail: Bytes) -> Option<StreamLine> {
        let whole = if self.partial.is_empty() && !self.overlong {
            self.overlong = tail.len() > self.bytes_max;
            tail
        } else {
            self.keep(&tail);
            self.partial.split().freeze()
        };
        let number = self.number;
        self.number = number.saturating_add(1);
        if std::mem::take(&mut self.overlong) {
            return Some(StreamLine { number, bytes: None });
        }
        let is_blank =
            whole.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&whole).trim_ascii().is_empty();
        (!is_blank).then_some(StreamLine { number, bytes: Some(whole) })
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.partial.len().saturating_add(piece.len()) > self.bytes_max {
            self.overlong = true;
            self.partial.clear();
        }
        if !self.overlong {
            self.partial.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `stream` that comes in pieces of `piece` bytes.
    fn cut(stream: &str, piece: usize, bytes_max: usize) -> Vec<(u64, Option<String>)> {
        let mut cutter = LineCutter::new(bytes_max);
        let mut lines = Vec::new();
        for piece in stream.as_bytes().chunks(piece) {
            lines.extend(cutter.push(Bytes::copy_from_slice(piece)));
        }
        lines.extend(cutter.finish());
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        lines.into_iter().map(|line| (line.number, line.bytes.map(text))).collect()
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = "one\n\n  \r\nfour\ntoolong\nsix\ntoolongagain\n\nnine";
        let some = |number, text: &str| (number, Some(text.to_owned()));
        let expected = [
            some(1, "one"),
            some(4, "four"),
            (5, None),
            some(6, "six"),
            (7, None),
            some(9, "nine"),
        ];
        for piece in 1..=stream.len() {
            assert_eq!(cut(stream, piece, 4), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_taken() {
        for piece in 1..=6 {
            assert_eq!(cut("1234\n", piece, 4), [(1, Some("1234".to_owned()))]);
            assert_eq!(cut("12345\n", piece, 4), [(1, None)]);
            assert_eq!(cut("12345", piece, 4), [(1, None)]);
        }
    }
}
