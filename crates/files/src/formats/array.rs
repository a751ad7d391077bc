//! A JSON array of objects, of which only one is in memory.
//!
//! The ends of elements are found by counting brackets outside of strings. After an element that
//! does not end where it should, reading goes on at the next object that follows a comma. Several
//! arrays may follow one another, as programs write them that append to a file.

use memchr::{memchr_iter, memchr3};

use crate::context::{Budget, File, too_long};
use crate::detect::content;
use crate::entry::{DOCUMENT_BYTES_MAX, Item, Place, Raw};
use crate::mapping::JsonFields;
use crate::source::Window;

/// The elements of an array.
pub(crate) struct JsonArray {
    file: File,
    window: Window,
    state: State,
    /// The number of the next element, from 1.
    number: u64,
    budget: Budget,
    bytes_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Within,
    /// After an array, where another one may begin.
    After,
    /// The end of a broken element is searched.
    Lost,
    End,
}

/// What comes next in the window.
enum Next {
    /// An element of this many bytes.
    Element(usize),
    Close,
    /// An element that does not end.
    Broken(&'static str),
    /// The source ends within the array.
    Cut,
}

impl JsonArray {
    pub(crate) fn new(file: File, window: Window) -> Self {
        let (state, budget) = (State::Before, Budget::default());
        Self { file, window, state, number: 1, budget, bytes_max: DOCUMENT_BYTES_MAX }
    }

    fn place(&self) -> Place {
        self.file.place(self.number, Some(self.window.offset()))
    }

    /// Skips what lies in front of the first element.
    fn open(&mut self) -> std::io::Result<bool> {
        // A byte order mark may come in pieces.
        while self.window.bytes().len() < 3 && self.window.grow()? {}
        loop {
            let skipped = self.window.bytes().len() - content::trimmed(self.window.bytes()).len();
            self.window.skip(skipped);
            match self.window.bytes().first().copied() {
                Some(b'[') => {
                    self.window.skip(1);
                    return Ok(true);
                }
                None if self.window.grow()? => {}
                _ => return Ok(false),
            }
        }
    }

    /// Skips to the next element, and finds its end.
    fn find(&mut self) -> std::io::Result<Next> {
        loop {
            let between = |byte: &&u8| byte.is_ascii_whitespace() || **byte == b',';
            let skipped = self.window.bytes().iter().take_while(between).count();
            self.window.skip(skipped);
            match self.window.bytes().first().copied() {
                Some(b']') => return Ok(Next::Close),
                Some(b'{') => break,
                // Where quotes and brackets are lost, what follows need not be an element.
                Some(_) => return Ok(Next::Broken("is not an object")),
                None if self.window.grow()? => {}
                None => return Ok(Next::Cut),
            }
        }
        let mut scan = Scan::default();
        loop {
            match scan.end(self.window.bytes()) {
                Ok(Some(end)) if end <= self.bytes_max => return Ok(Next::Element(end)),
                Ok(Some(_)) => return Ok(Next::Broken("")),
                Ok(None) if self.window.bytes().len() > self.bytes_max => {
                    return Ok(Next::Broken(""));
                }
                Ok(None) if self.window.grow()? => {}
                Ok(None) => return Ok(Next::Broken("does not end before the file does")),
                Err(why) => return Ok(Next::Broken(why)),
            }
        }
    }

    /// Skips to the next object that is an element; `false` if there is none.
    fn resume(&mut self) -> std::io::Result<bool> {
        let mut from = 1;
        loop {
            let bytes = self.window.bytes();
            if !self.budget.allows(bytes.len().saturating_sub(from)) {
                return Ok(false);
            }
            let mut braces = memchr_iter(b'{', bytes.get(from..).unwrap_or_default());
            if let Some(at) = braces.find(|at| content::begins_element(bytes, from + at)) {
                self.window.skip(from + at);
                return Ok(true);
            }
            if bytes.len() > self.bytes_max {
                self.window.skip_all_but(content::GAP_BYTES_MAX);
                // An endless search would be as expensive as reading is.
                self.budget = Budget::default();
            }
            // What follows the last brace may not be in the window yet.
            from = self.window.bytes().len().saturating_sub(content::GAP_BYTES_MAX).max(1);
            if !self.window.grow()? {
                return Ok(false);
            }
        }
    }

    fn element(&mut self, end: usize) -> Item {
        let place = self.place();
        let bytes = self.window.take(end);
        self.number += 1;
        let text = str::from_utf8(&bytes).map_err(|_| "is not UTF-8".to_owned());
        let raw = Raw::Bytes(bytes.clone());
        match text.and_then(JsonFields::parse) {
            Ok(fields) => self.file.document(place, raw, &fields),
            Err(why) => Err(self.file.bad((place, raw), why)),
        }
    }

    fn step(&mut self) -> std::io::Result<Option<Item>> {
        if self.state == State::Before {
            let is_array = self.open()?;
            self.state = if is_array { State::Within } else { State::Lost };
            if !is_array {
                return Ok(Some(Err(self
                    .place()
                    .bad("is no JSON array: it does not begin with ["))));
            }
        }
        if self.state == State::After {
            match self.next_byte()? {
                Some(b'[') => {
                    self.window.skip(1);
                    self.state = State::Within;
                }
                Some(_) => {
                    self.state = State::Lost;
                    return Ok(Some(Err(self.place().bad("follows the end of the array"))));
                }
                None => self.state = State::End,
            }
        }
        if self.state == State::Lost {
            self.state = if self.resume()? { State::Within } else { State::End };
        }
        if self.state == State::End {
            return Ok(None);
        }
        match self.find()? {
            Next::Element(end) => Ok(Some(self.element(end))),
            Next::Close => {
                self.window.skip(1);
                self.state = State::After;
                self.step()
            }
            Next::Broken(why) => {
                let place = self.place();
                self.number += 1;
                self.state = State::Lost;
                let why = if why.is_empty() { too_long() } else { why.to_owned() };
                Ok(Some(Err(place.bad(why))))
            }
            Next::Cut => {
                self.state = State::End;
                Ok(Some(Err(self
                    .place()
                    .bad("the file ends before its array does: it is cut off"))))
            }
        }
    }

    /// The first byte that follows white space.
    fn next_byte(&mut self) -> std::io::Result<Option<u8>> {
        loop {
            let length = self.window.bytes().len();
            self.window.skip(length - self.window.bytes().trim_ascii_start().len());
            let first = self.window.bytes().first().copied();
            if first.is_some() || !self.window.grow()? {
                return Ok(first);
            }
        }
    }
}

impl Iterator for JsonArray {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.step().unwrap_or_else(|error| {
            let place = self.place();
            self.number += 1;
            if self.state != State::End {
                self.state = State::Lost;
            }
            Some(Err(place.bad(error)))
        })
    }
}

/// Searches the end of an object, which begins at the first byte, in a window that grows.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: u32,
    in_string: bool,
}

impl Scan {
    /// The length of the object, if its end is in the window.
    fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        while self.at < bytes.len() {
            if self.in_string {
                let Some(at) = memchr3(b'"', b'\\', b'\n', &bytes[self.at..]) else {
                    self.at = bytes.len();
                    return Ok(None);
                };
                let at = self.at + at;
                match bytes[at] {
                    b'"' => {
                        self.in_string = false;
                        self.at = at + 1;
                    }
                    b'\\' if at + 1 == bytes.len() => {
                        self.at = at;
                        return Ok(None);
                    }
                    b'\\' => self.at = at + 2,
                    _ => return Err("has a string that does not end on its line"),
                }
                continue;
            }
            match bytes[self.at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' => return Ok(Some(self.at + 1)),
                b']' => return Err("has brackets that do not match"),
                _ => {}
            }
            self.at += 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::path::Path;

    use super::*;
    use crate::context::{Context, RecordForm};
    use crate::entry::FileRecord;
    use crate::mapping::Mapping;

    /// The ids of the elements, or what is wrong with them.
    fn read(text: &str, piece: usize) -> Vec<String> {
        let text: &'static [u8] = text.as_bytes().to_vec().leak();
        let source = Box::new(BufReader::with_capacity(piece, text));
        let file = File::new(
            &Context::new(Mapping::default(), RecordForm::Both),
            Path::new("f"),
            "",
            "record",
        );
        let mut array = JsonArray::new(file, Window::new(source));
        array.bytes_max = 60;
        let shown = |item: Item| match item {
            Ok(FileRecord::Document(entry)) => {
                let at = entry.place.record.unwrap().offset.unwrap() as usize;
                let Raw::Bytes(raw) = entry.raw else { panic!("{:?}", entry.raw) };
                assert!(text[at..].starts_with(&raw), "its place is where its bytes are");
                entry.id.unwrap()
            }
            Ok(FileRecord::Other(other)) => panic!("{other:?}"),
            Err(bad) => bad.to_string(),
        };
        array.map(shown).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for piece in 1..=text.len() {
            let read = read(text, piece);
            let matches = |(read, expected): (&String, &&str)| read.contains(expected);
            let is_same = read.len() == expected.len() && read.iter().zip(expected).all(matches);
            assert!(is_same, "pieces of {piece}: {read:?}");
        }
    }

    #[test]
    fn elements_are_read_however_the_stream_is_cut() {
        let text = "\u{feff} [ {\"id\": \"a\\\"]\\\\\", \"text\": \"t]}\"},\n{\"id\":\"b\",\"text\":\"t\",\
                    \"metadata\":{\"x\":[1,{}]}} ]\n";
        check(text, &["a\"]\\", "b"]);
        check(" []", &[]);
    }

    #[test]
    fn a_broken_element_is_named_and_the_others_are_read() {
        check(
            "[{\"id\": 1.5, \"text\": \"t\"}, {\"id\":}, 7, {\"id\": \"c\", \"text\": \"t\"}]",
            &["f record 1 (byte 1): `id` is 1.5", "f record 2 (byte 27)", "f record 3", "c"],
        );
        check(
            "[\n {\"id\": \"a, \"text\": \"t\"},\n {\"id\": \"b\", \"text\": \"t\"},\n {\"id\": \"c\", \
             \"text\": \"t\"}]",
            &["record 1 (byte 3): has a string that does not end", "b", "c"],
        );
        check(
            "[{\"id\": \"a\", \"text\": \"t}, {\"id\": \"b\", \"text\": \"t\"}]",
            &["record 1 (byte 1): does not end before the file does", "b"],
        );
    }

    #[test]
    fn arrays_that_were_appended_to_one_another_are_read() {
        let array = |id: &str| format!("[\n{{\"id\": \"{id}\", \"text\": \"t\"}}\n]");
        check(&[array("a"), array("b")].concat(), &["a", "b"]);
        check(&[&array("a"), "\n [] ", &array("b"), "\n"].concat(), &["a", "b"]);
    }

    #[test]
    fn an_element_above_the_limit_is_skipped() {
        let text = format!(
            "[{{\"id\": \"a\", \"text\": \"{}\"}}, {{\"id\": \"b\", \"text\": \"t\"}}]",
            "x".repeat(99)
        );
        check(&text, &["record 1 (byte 1): longer than", "b"]);
    }

    #[test]
    fn an_array_that_is_cut_off_or_followed_by_something_is_reported() {
        check("[{\"id\": \"a\", \"text\": \"t\"}, ", &["a", "cut off"]);
        check("[{\"id\": \"a\", \"text\": \"t\"}", &["a", "cut off"]);
        check("[{\"id\": \"a\", \"text\": \"t\"}] {}", &["a", "follows the end"]);
        check(
            "[{\"id\": \"a\", \"text\": \"t\"}] x, {\"id\": \"b\", \"text\": \"t\"}]",
            &["a", "follows the end", "b"],
        );
        check("{}", &["is no JSON array"]);
    }
}
