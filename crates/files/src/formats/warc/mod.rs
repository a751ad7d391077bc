//! Web archives: WARC 1.0 and 1.1, and WET, which is WARC with extracted text.
//!
//! Documents are responses with a page, resources that are pages or texts, and conversions to text.
//! A record that does not end where its header says is reported, and reading goes on at the next
//! line that begins a record.

mod headers;
mod payload;

use memchr::memmem;

use crate::context::{File, too_long};
use crate::entry::{DOCUMENT_BYTES_MAX, FileRecord, Item, Other, Place, Raw};
use crate::mapping::{BodyKind, Fields, RecordValue};
use crate::source::Window;

use headers::Headers;
use payload::Payload;

/// How a record begins.
const MAGIC: &[u8] = b"WARC/";
/// How the next record begins after a broken one.
const NEXT: &[u8] = b"\nWARC/1.";
/// The longest header of a record.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// The records of a web archive.
pub(crate) struct Archive {
    file: File,
    window: Window,
    /// The number of the next record, from 1.
    number: u64,
    /// The record at the start of the window is broken.
    is_lost: bool,
    /// The rest of a long record, which is dropped.
    dropped: u64,
    bytes_max: usize,
}

/// What was found at the start of the window.
enum Found {
    /// The lengths of a header and its content.
    Record {
        header: usize,
        content: u64,
    },
    Broken(String),
    End,
}

impl Archive {
    pub(crate) fn new(file: File, window: Window) -> Self {
        let bytes_max = DOCUMENT_BYTES_MAX;
        Self { file, window, number: 1, is_lost: false, dropped: 0, bytes_max }
    }

    fn place(&self) -> Place {
        self.file.place(self.number, Some(self.window.offset()))
    }

    /// Finds the header of the record at the start of the window.
    fn find(&mut self) -> std::io::Result<Found> {
        loop {
            let length = self.window.bytes().len();
            self.window.skip(length - self.window.bytes().trim_ascii_start().len());
            if self.window.bytes().len() >= MAGIC.len() || !self.window.grow()? {
                break;
            }
        }
        if self.window.bytes().is_empty() {
            return Ok(Found::End);
        }
        if !self.window.bytes().starts_with(MAGIC) {
            return Ok(Found::Broken("no record of a web archive begins here".to_owned()));
        }
        let mut searched = 0;
        let header = loop {
            let bytes = self.window.bytes();
            if let Some(end) = headers::end(bytes, searched) {
                break end;
            }
            if bytes.len() > HEADER_BYTES_MAX {
                return Ok(Found::Broken(format!("its header is above {HEADER_BYTES_MAX} bytes")));
            }
            searched = bytes.len().saturating_sub(3);
            if !self.window.grow()? {
                return Ok(Found::Broken("the file ends within the header of a record".to_owned()));
            }
        };
        let headers = Headers::parse(&self.window.bytes()[..header]);
        match headers.get("content-length").map(|length| length.trim().parse()) {
            Some(Ok(content)) => Ok(Found::Record { header, content }),
            Some(Err(_)) => Ok(Found::Broken("its Content-Length is no number".to_owned())),
            None => Ok(Found::Broken("has no Content-Length".to_owned())),
        }
    }

    /// Lets the window grow to this many bytes; `false` if the source ends before.
    fn hold(&mut self, bytes: usize) -> std::io::Result<bool> {
        while self.window.bytes().len() < bytes {
            if !self.window.grow()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Skips to the next line that begins a record.
    fn resume(&mut self) -> std::io::Result<()> {
        // The record itself begins like that.
        let mut from = 1;
        loop {
            let bytes = self.window.bytes();
            if let Some(at) = memmem::find(bytes.get(from..).unwrap_or_default(), NEXT) {
                self.window.skip(from + at + 1);
                break;
            }
            if bytes.len() > self.bytes_max {
                self.window.skip_all_but(NEXT.len());
            }
            from = self.window.bytes().len().saturating_sub(NEXT.len()).max(1);
            if !self.window.grow()? {
                self.window.skip_all_but(0);
                break;
            }
        }
        self.is_lost = false;
        Ok(())
    }

    fn drop_rest(&mut self) -> std::io::Result<bool> {
        while self.dropped > 0 {
            let here = usize::try_from(self.dropped).unwrap_or(usize::MAX);
            let here = here.min(self.window.bytes().len());
            self.window.skip(here);
            self.dropped -= here as u64;
            if self.dropped > 0 && !self.window.grow()? {
                self.dropped = 0;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn step(&mut self) -> std::io::Result<Option<Item>> {
        if !self.drop_rest()? {
            // The record has its number already.
            self.number -= 1;
            let place = self.place();
            self.number += 1;
            return Ok(Some(Err(place.bad("the file ends before this record does"))));
        }
        if self.is_lost {
            self.resume()?;
        }
        match self.find()? {
            Found::End => Ok(None),
            Found::Broken(why) => Ok(Some(self.broken(why))),
            Found::Record { header, content } => {
                let length = usize::try_from(content).unwrap_or(usize::MAX);
                if length > self.bytes_max {
                    return Ok(Some(self.long(header, content)));
                }
                self.record(header, header + length).map(Some)
            }
        }
    }

    fn broken(&mut self, why: impl std::fmt::Display) -> Item {
        let place = self.place();
        self.number += 1;
        self.is_lost = true;
        Err(place.bad(why))
    }

    /// A record above the limit, which is no error if it is no document.
    fn long(&mut self, header: usize, content: u64) -> Item {
        let place = self.place();
        let header = self.window.take(header);
        self.number += 1;
        self.dropped = content;
        match payload::kind(&Headers::parse(&header)) {
            payload::PayloadKind::Other(what) => {
                Ok(FileRecord::Other(Other { place, raw: Raw::None, what }))
            }
            payload::PayloadKind::Response | payload::PayloadKind::Page(_) => {
                Err(place.bad(too_long()))
            }
        }
    }

    /// A record whose content ends at `end`.
    fn record(&mut self, header: usize, end: usize) -> std::io::Result<Item> {
        if !self.hold(end)? {
            return Ok(self
                .broken("the file ends before this record does, or its Content-Length is wrong"));
        }
        self.hold(end + 4 + MAGIC.len())?;
        let Some(after) = end_of_record(&self.window.bytes()[end..]) else {
            return Ok(self.broken("another record does not begin where its Content-Length says"));
        };
        let place = self.place();
        let record = self.window.take(end + after);
        self.number += 1;
        let headers = Headers::parse(&record[..header]);
        let body = match payload::read(&headers, &record[header..end]) {
            Ok(Payload::Page(kind, text)) => (kind, text),
            Ok(Payload::Other(what)) => return Ok(Ok(self.file.other(place, record, what))),
            Err(why) => return Ok(Err(place.bad(why))),
        };
        let fields = Page { headers: &headers, body: (body.0, &body.1) };
        Ok(self.file.document(place, Raw::Bytes(record.clone()), &fields))
    }
}

/// The line ends after the content of a record. Without all of them, the next record or the end of
/// the file must follow; `None` if something else does.
fn end_of_record(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().take(4).take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let (ends, next) = bytes.split_at(ends);
    let is_end = matches!(ends, b"\n\n" | b"\r\n" | b"\n" | b"");
    let next = next.trim_ascii_start();
    (ends == b"\r\n\r\n" || is_end && (next.is_empty() || next.starts_with(MAGIC)))
        .then_some(ends.len())
}

impl Iterator for Archive {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.step().unwrap_or_else(|error| {
            // A long record that is dropped ends at the damage.
            self.dropped = 0;
            Some(self.broken(error))
        })
    }
}

/// A page as a record with fields: its headers, and its content as `text` or `html`.
struct Page<'a> {
    headers: &'a Headers<'a>,
    body: (BodyKind, &'a str),
}

impl Page<'_> {
    fn body_name(&self) -> &'static str {
        if self.body.0 == BodyKind::Html { "html" } else { "text" }
    }
}

impl Fields for Page<'_> {
    fn get(&self, path: &str) -> Result<Option<RecordValue<'_>>, String> {
        let text = if path == self.body_name() {
            Some(std::borrow::Cow::Borrowed(self.body.1))
        } else {
            let value = self.headers.get(path);
            // Some crawlers write the address in angle brackets, as WARC 1.0 has it.
            value.map(|value| match value.strip_prefix('<').and_then(|v| v.strip_suffix('>')) {
                Some(address) => std::borrow::Cow::Owned(address.to_owned()),
                None => value,
            })
        };
        Ok(text.map(RecordValue::Text))
    }

    fn names(&self) -> Vec<&str> {
        std::iter::once(self.body_name()).chain(self.headers.names()).collect()
    }

    fn spelt(&self, name: &str) -> Option<&str> {
        let body = std::iter::once(self.body_name());
        body.chain(self.headers.names()).find(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests;
