//! Files of one record a line: NDJSON, lines of hex, lines of text.

use memchr::memchr;
use nearprint_wire::offer::Content;

use super::hex;
use crate::context::{File, RecordForm, too_long};
use crate::detect::content;
use crate::entry::{BadEntry, DOCUMENT_BYTES_MAX, Item, NUL, Parsed, Place, Raw};
use crate::mapping::JsonFields;
use crate::source::{Charset, Window};

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextLine {
    /// A JSON object.
    Object,
    /// A fingerprint, with or without an id.
    Hex,
    /// A document without an id.
    Text,
}

/// The records of a file of one record a line. Blank lines are none.
pub(crate) struct Lines {
    file: File,
    window: Window,
    line: TextLine,
    /// The number of the line at the start of the window.
    number: u64,
    /// How much of the window has no line end.
    searched: usize,
    /// The line at the start of the window has been reported, and is dropped.
    is_dropped: bool,
    /// What is wrong with the source after the line that was yielded last.
    damage: Option<BadEntry>,
    /// What is said of a line that is not UTF-8.
    charset: Option<String>,
    bytes_max: usize,
}

impl Lines {
    pub(crate) fn new(file: File, window: Window, line: TextLine) -> Self {
        Self {
            file,
            window,
            line,
            number: 1,
            searched: 0,
            is_dropped: false,
            damage: None,
            charset: None,
            bytes_max: DOCUMENT_BYTES_MAX,
        }
    }

    fn place(&self) -> Place {
        self.file.place(self.number, Some(self.window.offset()))
    }

    /// Takes the line that ends before `end`, and `skipped` bytes after it.
    fn complete(&mut self, end: usize, skipped: usize) -> Option<Item> {
        let mut place = self.place();
        let taken = self.window.take(end);
        self.window.skip(skipped);
        self.number += 1;
        self.searched = 0;
        if std::mem::take(&mut self.is_dropped) {
            return None;
        }
        if end > self.bytes_max {
            return Some(Err(place.bad(too_long())));
        }
        // Files with a byte order mark may have been put one after the other.
        let bytes = taken.slice_ref(content::without_mark(&taken));
        place = place.advanced(taken.len() - bytes.len());
        let content = bytes.trim_ascii();
        if content.is_empty() {
            return None;
        }
        let raw = Raw::Bytes(bytes.clone());
        if self.file.context.form == RecordForm::Raw {
            return Some(self.file.parsed(place, raw, Ok(document(""))));
        }
        let text = str::from_utf8(content).map_err(|_| {
            let advice = || {
                let name = Charset::guessed(content).name();
                format!("is not UTF-8; if the file is {name}, pass --charset {name}")
            };
            // Others of the file are likely in the same encoding.
            self.charset.get_or_insert_with(advice).clone()
        });
        Some(match self.line {
            TextLine::Object => match text.and_then(JsonFields::parse) {
                Ok(fields) => self.file.document(place, raw, &fields),
                Err(why) => Err(self.file.bad((place, raw), why)),
            },
            TextLine::Hex => self.file.parsed(place, raw, text.and_then(hex::parse)),
            TextLine::Text if memchr(0, content).is_some() => Err(self.file.bad((place, raw), NUL)),
            TextLine::Text => self.file.parsed(place, raw, text.map(document)),
        })
    }
}

/// Whether a line that the source breaks off after is an object, which has an end of its own.
fn is_object(line: &[u8]) -> bool {
    let line = content::without_mark(line).trim_ascii();
    str::from_utf8(line).is_ok_and(|text| JsonFields::parse(text).is_ok())
}

fn document(line: &str) -> Parsed {
    Parsed { id: None, content: Content::Text(line.to_owned().into()), passed: Vec::new() }
}

impl Iterator for Lines {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some(damage) = self.damage.take() {
            return Some(Err(damage));
        }
        loop {
            if let Some(at) = memchr(b'\n', &self.window.bytes()[self.searched..]) {
                if let Some(item) = self.complete(self.searched + at, 1) {
                    return Some(item);
                }
                continue;
            }
            self.searched = self.window.bytes().len();
            if self.is_dropped || self.searched > self.bytes_max {
                let place = self.place();
                self.window.skip(self.searched);
                self.searched = 0;
                if !std::mem::replace(&mut self.is_dropped, true) {
                    return Some(Err(place.bad(too_long())));
                }
            }
            match self.window.grow() {
                Ok(true) => {}
                Ok(false) if self.searched == 0 => return None,
                Ok(false) => {
                    if let Some(item) = self.complete(self.searched, 0) {
                        return Some(item);
                    }
                }
                Err(error) => {
                    let is_whole = self.line == TextLine::Object && !self.is_dropped;
                    if is_whole
                        && is_object(self.window.bytes())
                        && let Some(item) = self.complete(self.searched, 0)
                    {
                        self.damage = Some(self.place().bad(error));
                        return Some(item);
                    }
                    let place = self.place();
                    self.window.skip(self.searched);
                    self.number += 1;
                    self.searched = 0;
                    // Half a line of text would be taken for a document; half an object is not.
                    self.is_dropped = self.line == TextLine::Text;
                    return Some(Err(place.bad(error)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::path::Path;

    use super::*;
    use crate::context::{Context, RecordForm};
    use crate::entry::{Entry, FileRecord};
    use crate::mapping::Mapping;

    /// The lines of a text that comes in pieces of `piece` bytes, each with its number and offset.
    fn read(text: &'static str, piece: usize, line: TextLine) -> Vec<(u64, u64, String)> {
        let source = Box::new(BufReader::with_capacity(piece, text.as_bytes()));
        let file = File::new(
            &Context::new(Mapping::default(), RecordForm::Both),
            Path::new("f"),
            "",
            "line",
        );
        let mut lines = Lines::new(file, Window::new(source), line);
        lines.bytes_max = 20;
        let shown = |item: Item| match item {
            Ok(FileRecord::Document(entry)) => {
                let at = entry.place.record.unwrap();
                let Raw::Bytes(raw) = entry.raw else { panic!("{:?}", entry.raw) };
                (at.number, at.offset.unwrap(), String::from_utf8(raw.to_vec()).unwrap())
            }
            Ok(FileRecord::Other(other)) => panic!("{other:?}"),
            Err(bad) => {
                let at = bad.place.record.unwrap();
                (at.number, at.offset.unwrap(), bad.why)
            }
        };
        lines.map(shown).collect()
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut_and_long_ones_are_skipped() {
        let text = "one\n\n  \r\nfour\r\nfar too long for the limit\nsix\nagain far too long for it\n\nnine";
        let too_long = too_long();
        let expected = [
            (1, 0, "one"),
            (4, 9, "four\r"),
            (5, 15, &too_long),
            (6, 42, "six"),
            (7, 46, &too_long),
            (9, 73, "nine"),
        ]
        .map(|(number, offset, line)| (number, offset, line.to_owned()));
        for piece in 1..=text.len() {
            assert_eq!(read(text, piece, TextLine::Text), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn lines_of_which_only_the_bytes_are_wanted_are_not_parsed() {
        let source = Box::new(BufReader::new(&b"{\"text\": \"a\"}\n\nnonsense\n"[..]));
        let file =
            File::new(&Context::new(Mapping::default(), RecordForm::Raw), Path::new("f"), "", "");
        let lines = Lines::new(file, Window::new(source), TextLine::Object);
        let raw = |item: Item| match item {
            Ok(FileRecord::Document(Entry { raw: Raw::Bytes(bytes), .. })) => bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(lines.map(raw).collect::<Vec<_>>(), [&b"{\"text\": \"a\"}"[..], b"nonsense"]);
    }

    #[test]
    fn a_bad_line_is_named_and_the_next_one_is_read() {
        let lines = read("00000000000000ff\nnonsense\n0000000000000001\n", 99, TextLine::Hex);
        assert_eq!((lines.len(), lines[1].0, lines[1].1), (3, 2, 17));
        assert!(lines[1].2.contains("16 hex digits"), "{}", lines[1].2);
    }

    /// A source that fails after its bytes.
    struct Damaged(&'static [u8]);

    impl std::io::Read for Damaged {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match std::io::Read::read(&mut self.0, buffer) {
                Ok(0) if !buffer.is_empty() => Err(std::io::Error::other("damaged")),
                read => read,
            }
        }
    }

    fn damaged(text: &'static str, line: TextLine) -> Vec<String> {
        let source = Box::new(BufReader::with_capacity(7, Damaged(text.as_bytes())));
        let context = Context::new(Mapping::default(), RecordForm::Parsed);
        let lines =
            Lines::new(File::new(&context, Path::new("f"), "", ""), Window::new(source), line);
        // The source fails for ever, which those of files do not.
        lines.take(3).map(|item| item.map_or_else(|bad| bad.why, |_| "read".to_owned())).collect()
    }

    #[test]
    fn the_last_whole_object_before_damage_is_read() {
        let (one, two) = ("{\"text\": \"a\"}\n", "{\"text\": \"b\"}");
        let whole: &'static str = format!("{one}{two}").leak();
        assert_eq!(damaged(whole, TextLine::Object), ["read", "read", "damaged"]);
        let cut = &whole[..whole.len() - 1];
        assert_eq!(damaged(cut, TextLine::Object)[..2], ["read", "damaged"]);
        // Nobody knows whether more of a text would have come.
        assert_eq!(damaged("a text\nhalf a", TextLine::Text)[..2], ["read", "damaged"]);
    }

    #[test]
    fn a_file_that_is_cut_off_loses_one_record() {
        let source = Box::new(BufReader::new(&b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"te"[..]));
        let context = Context::new(Mapping::default(), RecordForm::Parsed);
        let file = File::new(&context, Path::new("f"), "", "");
        let read: Vec<bool> = Lines::new(file, Window::new(source), TextLine::Object)
            .map(|item| item.is_ok())
            .collect();
        assert_eq!(read, [true, true, false]);
    }

    #[test]
    fn a_byte_order_mark_begins_any_line() {
        let text = "\u{feff}{\"text\": \"a\"}\n\u{feff}{\"text\": \"b\"}\n";
        let source = Box::new(BufReader::new(text.as_bytes()));
        let context = Context::new(Mapping::default(), RecordForm::Both);
        let file = File::new(&context, Path::new("f"), "", "");
        let raw: Vec<Raw> = Lines::new(file, Window::new(source), TextLine::Object)
            .map(|item| match item.unwrap() {
                FileRecord::Document(entry) => entry.raw,
                FileRecord::Other(other) => panic!("{other:?}"),
            })
            .collect();
        let bytes = |text: &'static str| Raw::Bytes(bytes::Bytes::from(text));
        assert_eq!(raw, [bytes("{\"text\": \"a\"}"), bytes("{\"text\": \"b\"}")]);
    }
}
