//! Web archives: WARC 0.17 to 1.1, and WET, which is WARC with extracted text.
//!
//! Documents are responses with a page, resources that are pages or texts, and conversions to text.
//! A record that does not end where its header says is reported, and reading goes on at the next
//! line that begins a record; if that is within a few bytes, the record is read nevertheless. Where
//! the file is damaged, the records before are read, and then those after it.

mod coding;
mod headers;
mod payload;
mod sniff;

use std::io;

use memchr::{memchr, memmem};

use crate::context::{File, too_long};
use crate::entry::{DOCUMENT_BYTES_MAX, FileRecord, Item, NUL, Other, Place, Raw};
use crate::mapping::{BodyKind, Fields, RecordValue};
use crate::source::Window;

pub(crate) use headers::Headers;
use payload::Payload;
pub(crate) use payload::header_of_response;

/// How a record begins.
const MAGIC: &[u8] = b"WARC/";
/// The longest version of a record, with the line end after it.
const VERSION_BYTES_MAX: usize = 16;
/// The longest header of a record.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// How wrong a Content-Length may be.
const LENGTH_ERROR_MAX: usize = 8;
/// The line ends after a record.
const ENDS_MAX: usize = 4;
/// The longest content of a record. A Content-Length above it is wrong, and not the length of
/// something that is skipped.
const CONTENT_BYTES_MAX: u64 = 100_000_000_000;
/// How much of a long record is looked at: the header of a response, and the start of its body.
const LONG_START_BYTES: usize = 64 << 10;

/// What the parts of a record are that is too long to be one piece, after the first.
pub(crate) const REST: &str = "parts of long web records";

const TOO_FEW: &str = "the file ends before this record does, or its Content-Length is wrong";
const WRONG_LENGTH: &str = "web records whose Content-Length is wrong by a few bytes";
const CUT: &str = "web pages whose content encoding is damaged or cut off: they end there";

/// The records of a web archive.
pub(crate) struct Archive {
    file: File,
    window: Window,
    /// The number of the next record, from 1.
    number: u64,
    lost: Lost,
    /// The source is damaged after what is in the window.
    damage: Option<io::Error>,
    /// What has not been read of a long record.
    rest: Option<Rest>,
    bytes_max: usize,
}

/// Whether the next record has to be searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    No,
    /// After the broken one at the start of the window.
    AfterRecord,
    /// After damage, where it may begin at once.
    AfterDamage,
}

/// The rest of a long record.
struct Rest {
    place: Place,
    bytes: u64,
    /// It is yielded in pieces, and not dropped.
    is_yielded: bool,
}

/// What was found at the start of the window.
enum Found {
    /// The lengths of a header and its content.
    Record {
        header: usize,
        content: u64,
    },
    Broken(String),
    /// Of the source, or of what comes before damage.
    End,
}

impl Archive {
    pub(crate) fn new(file: File, window: Window) -> Self {
        let (lost, bytes_max) = (Lost::No, DOCUMENT_BYTES_MAX);
        Self { file, window, number: 1, lost, damage: None, rest: None, bytes_max }
    }

    fn place(&self) -> Place {
        self.file.place(self.number, Some(self.window.offset()))
    }

    /// Lets the window grow; `false` at the end of the source, and at damage, which is kept.
    fn grow(&mut self) -> bool {
        if self.damage.is_some() {
            return false;
        }
        self.window.grow().unwrap_or_else(|error| {
            self.damage = Some(error);
            false
        })
    }

    /// Lets the window grow to this many bytes; `false` if the source ends before.
    fn hold(&mut self, bytes: usize) -> bool {
        while self.window.bytes().len() < bytes {
            if !self.grow() {
                return false;
            }
        }
        true
    }

    /// Finds the header of the record at the start of the window.
    fn find(&mut self) -> Found {
        loop {
            let length = self.window.bytes().len();
            self.window.skip(length - self.window.bytes().trim_ascii_start().len());
            if self.window.bytes().len() >= MAGIC.len() || !self.grow() {
                break;
            }
        }
        if self.window.bytes().is_empty() {
            return Found::End;
        }
        if !self.window.bytes().starts_with(MAGIC) {
            return Found::Broken("no record of a web archive begins here".to_owned());
        }
        let mut searched = 0;
        let header = loop {
            let bytes = self.window.bytes();
            if let Some(end) = headers::end(bytes, searched) {
                break end;
            }
            if bytes.len() > HEADER_BYTES_MAX {
                return Found::Broken(format!("its header is above {HEADER_BYTES_MAX} bytes"));
            }
            searched = bytes.len().saturating_sub(3);
            if !self.grow() {
                return Found::Broken("the file ends within the header of a record".to_owned());
            }
        };
        if memchr(0, &self.window.bytes()[..header]).is_some() {
            // The end of another record may have become that of this one.
            return Found::Broken(format!("its header {NUL}"));
        }
        let headers = Headers::parse(&self.window.bytes()[..header]);
        match headers.get("content-length").map(|length| length.trim().parse()) {
            Some(Ok(content)) if content > CONTENT_BYTES_MAX => {
                Found::Broken(format!("its Content-Length is above {CONTENT_BYTES_MAX} bytes"))
            }
            Some(Ok(content)) => Found::Record { header, content },
            Some(Err(_)) => Found::Broken("its Content-Length is not a number".to_owned()),
            None => Found::Broken("has no Content-Length".to_owned()),
        }
    }

    /// Skips to the next line that begins a record.
    fn resume(&mut self) {
        let is_here = self.lost == Lost::AfterDamage && {
            self.hold(VERSION_BYTES_MAX);
            begins_record(self.window.bytes())
        };
        self.lost = Lost::No;
        if is_here {
            return;
        }
        // The line of the broken record itself begins like that.
        let mut from = 1;
        loop {
            let bytes = self.window.bytes();
            let found = memmem::find_iter(bytes.get(from..).unwrap_or_default(), b"\nWARC/");
            let mut found = found.map(|at| from + at + 1);
            if let Some(at) = found.find(|&at| begins_record(&bytes[at..])) {
                self.window.skip(at);
                return;
            }
            if bytes.len() > self.bytes_max {
                self.window.skip_all_but(VERSION_BYTES_MAX);
            }
            from = self.window.bytes().len().saturating_sub(VERSION_BYTES_MAX).max(1);
            if !self.grow() {
                self.window.skip_all_but(0);
                return;
            }
        }
    }

    /// Drops the rest of a long record, or yields a piece of it.
    fn next_of_rest(&mut self) -> Option<Item> {
        let mut rest = self.rest.take()?;
        while rest.bytes > 0 {
            if self.window.bytes().is_empty() && !self.grow() {
                if let Some(error) = self.damage.take() {
                    self.lost = Lost::AfterDamage;
                    return Some(Err(rest.place.bad(error)));
                }
                return Some(Err(rest.place.bad("the file ends before this record does")));
            }
            let here = usize::try_from(rest.bytes).unwrap_or(usize::MAX);
            let here = here.min(self.window.bytes().len());
            rest.bytes -= here as u64;
            if rest.is_yielded {
                let raw = Raw::Piece { bytes: self.window.take(here), is_last: false };
                let place = rest.place.clone();
                self.rest = Some(rest);
                return Some(Ok(FileRecord::Other(Other { place, raw, what: REST })));
            }
            self.window.skip(here);
        }
        if !rest.is_yielded {
            return None;
        }
        self.hold(ENDS_MAX + MAGIC.len());
        let ends = end_of_record(self.window.bytes()).unwrap_or_default();
        let raw = Raw::Piece { bytes: self.window.take(ends), is_last: true };
        Some(Ok(FileRecord::Other(Other { place: rest.place, raw, what: REST })))
    }

    fn step(&mut self) -> Option<Item> {
        if let Some(item) = self.next_of_rest() {
            return Some(item);
        }
        if self.lost != Lost::No {
            self.resume();
        }
        match self.find() {
            Found::End if self.damage.is_none() => None,
            Found::End => Some(self.broken("")),
            Found::Broken(why) => Some(self.broken(&why)),
            Found::Record { header, content } => {
                let length = usize::try_from(content).unwrap_or(usize::MAX);
                Some(if length > self.bytes_max {
                    self.long(header, content)
                } else {
                    self.record(header, header + length)
                })
            }
        }
    }

    /// The record at the start of the window is broken, or it is cut off by damage of the source.
    fn broken(&mut self, why: &str) -> Item {
        let place = self.place();
        self.number += 1;
        if let Some(error) = self.damage.take() {
            self.window.skip_all_but(0);
            self.lost = Lost::AfterDamage;
            return Err(place.bad(error));
        }
        self.lost = Lost::AfterRecord;
        Err(place.bad(why))
    }

    /// A record above the limit, which is an error only if it is a document. If the file ends
    /// within the limit, the length is wrong, and other records may follow.
    fn long(&mut self, header: usize, bytes: u64) -> Item {
        if !self.hold(header + self.bytes_max) && self.damage.is_none() {
            return self.broken(TOO_FEW);
        }
        let place = self.place();
        let start = usize::try_from(bytes).unwrap_or(usize::MAX).min(LONG_START_BYTES);
        self.hold(header + start);
        let start = &self.window.bytes()[header..];
        let start = &start[..start.len().min(LONG_START_BYTES)];
        let headers = Headers::parse(&self.window.bytes()[..header]);
        let what = payload::long_other(&headers, start);
        let header = self.window.take(header);
        self.number += 1;
        let is_yielded = what.is_some() && self.file.context.form.has_raw();
        self.rest = Some(Rest { place: place.clone(), bytes, is_yielded });
        let Some(what) = what else { return Err(place.bad(too_long())) };
        let raw = Raw::Piece { bytes: header, is_last: false };
        let raw = if is_yielded { raw } else { Raw::None };
        Ok(FileRecord::Other(Other { place, raw, what }))
    }

    /// A record whose content should end at `end`.
    fn record(&mut self, header: usize, end: usize) -> Item {
        self.hold(end + ENDS_MAX + LENGTH_ERROR_MAX + VERSION_BYTES_MAX);
        let bytes = self.window.bytes();
        let exact = bytes.get(end..).and_then(end_of_record).map(|ends| (end, end + ends));
        // The line ends after the record may be damaged.
        let next = end.saturating_add(ENDS_MAX);
        let is_next = |bytes: &&[u8]| begins_record(bytes);
        let other_ends = || bytes.get(next..).filter(is_next).map(|_| (end, next));
        let near = || {
            near_end(bytes, header, end).filter(|(_, next)| {
                // Where a damaged file ends, no record needs to end.
                *next < bytes.len() || self.damage.is_none()
            })
        };
        let Some((content, next)) = exact.or_else(near).or_else(other_ends) else {
            let why = if end > bytes.len() {
                TOO_FEW
            } else {
                "another record does not begin where its Content-Length says"
            };
            return self.broken(why);
        };
        let place = self.place();
        let record = self.window.take(next);
        self.number += 1;
        if content != end {
            self.file.context.doubt(WRONG_LENGTH, &place);
        }
        let headers = Headers::parse(&record[..header]);
        let page = match payload::read(&headers, &record[header..content]) {
            Ok(Payload::Page(page)) => page,
            Ok(Payload::Other(what)) => return Ok(self.file.other(place, record, what)),
            Err(why) => return Err(self.file.bad((place, Raw::Bytes(record.clone())), why)),
        };
        if page.is_cut {
            self.file.context.doubt(CUT, &place);
        }
        let fields = Page { headers: &headers, body: (page.kind, &page.text) };
        self.file.document(place, Raw::Bytes(record.clone()), &fields)
    }
}

/// Whether a line begins a record: `WARC/` and a version.
fn begins_record(bytes: &[u8]) -> bool {
    let line = bytes.get(..bytes.len().min(VERSION_BYTES_MAX)).unwrap_or_default();
    let Some(version) = line.strip_prefix(MAGIC) else { return false };
    let length = version.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    length > 0 && matches!(version[length..], [b'\r' | b'\n', ..])
}

/// The line ends after the content of a record. Without all of them, the next record or the end of
/// the file must follow; `None` if something else does.
fn end_of_record(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().take(ENDS_MAX);
    let ends = ends.take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let (ends, next) = bytes.split_at(ends);
    let is_end = matches!(ends, b"\n\n" | b"\r\n" | b"\n" | b"");
    let next = next.trim_ascii_start();
    // A source that is damaged may end between two line ends.
    let is_cut = next.is_empty() && b"\r\n\r\n".starts_with(ends);
    (ends == b"\r\n\r\n" || is_cut || is_end && (next.is_empty() || next.starts_with(MAGIC)))
        .then_some(ends.len())
}

/// Where the content of a record ends, and where the next one begins or the file ends, if its
/// Content-Length is wrong by a few bytes.
fn near_end(bytes: &[u8], header: usize, end: usize) -> Option<(usize, usize)> {
    let from = end.saturating_sub(LENGTH_ERROR_MAX).max(header);
    let upto = end + ENDS_MAX + LENGTH_ERROR_MAX;
    let is_line = |at: usize| bytes[at - 1] == b'\n' && begins_record(&bytes[at..]);
    let next = (from..=upto.min(bytes.len())).find(|&at| is_line(at)).or_else(|| {
        let is_end = from <= bytes.len() && bytes.len() <= upto && bytes.ends_with(b"\n");
        is_end.then_some(bytes.len())
    })?;
    let mut content = &bytes[header..next];
    for _ in 0..2 {
        let line = content.strip_suffix(b"\n");
        content = line.map_or(content, |line| line.strip_suffix(b"\r").unwrap_or(line));
    }
    Some((header + content.len(), next))
}

impl Iterator for Archive {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.step()
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
