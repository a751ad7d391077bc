//! The page within a record: which records have one, and its text.

use std::ops::Range;

use nearprint_text::charset::decode_or_guess;
use nearprint_text::{ContentType, PageSyntax, declared_as_xml};

use super::coding;
use super::headers::{self, Headers};
use super::sniff;
use crate::detect::content::begins_like_html;
use crate::mapping::BodyKind;

/// What a record may hold, by its header alone.
pub(super) enum PayloadKind {
    /// A response of HTTP.
    Response,
    /// A page or a text by itself.
    Page(PageSyntax),
    /// Nothing to import; its name in the plural.
    Other(&'static str),
}

/// What a record holds.
pub(super) enum Payload {
    Page(ReadPage),
    Other(&'static str),
}

/// A page or a text.
pub(super) struct ReadPage {
    pub(super) kind: BodyKind,
    pub(super) text: String,
    /// It ends where its coding is damaged.
    pub(super) is_cut: bool,
}

/// Half a page would be stored as a page. The other half may be anywhere, also in another file.
const SEGMENT: &str = "is a segment of a longer record (WARC-Segment-Number): join the segments \
                       with another program first";

const NO_PAGES: &str = "web records that are neither pages nor texts";
const BINARY: &str = "web records of pages or texts whose content is neither";
const EMPTY: &str = "web pages without content";
const METADATA: &str = "web metadata records";

/// What a record may hold.
pub(super) fn kind(headers: &Headers<'_>) -> PayloadKind {
    let content_type = headers.all("content-type");
    let read = content_type.as_deref().and_then(ContentType::parse);
    let page = || {
        let syntax = read.as_ref().and_then(ContentType::page_syntax);
        syntax.map_or(PayloadKind::Other(NO_PAGES), PayloadKind::Page)
    };
    let is_http = || match &read {
        Some(read) => read.essence() == "application/http",
        None => content_type.is_none(),
    };
    match headers.get("warc-type").unwrap_or_default().to_ascii_lowercase().as_str() {
        "response" if is_http() => PayloadKind::Response,
        "resource" if is_description(headers) => PayloadKind::Other(METADATA),
        "response" | "resource" | "conversion" => page(),
        "request" => PayloadKind::Other("web requests"),
        "metadata" => PayloadKind::Other(METADATA),
        "revisit" => PayloadKind::Other("web revisits"),
        "warcinfo" => PayloadKind::Other("descriptions of web archives"),
        "continuation" => PayloadKind::Other("continuations of web records"),
        _ => PayloadKind::Other("web records of other types"),
    }
}

/// Whether a resource describes something else: wget and wpull describe themselves, and crawlers
/// with a browser store the text, a picture and the requests of each page under `urn:text:https://`
/// and the like.
fn is_description(headers: &Headers<'_>) -> bool {
    let address = headers.get("warc-target-uri").unwrap_or_default();
    let address = address.trim_start_matches('<').to_ascii_lowercase();
    let Some(name) = address.strip_prefix("urn:") else { return address.starts_with("metadata:") };
    let of_what = name.split_once(':').map_or("", |(_, of_what)| of_what);
    name.starts_with("x-") || of_what.starts_with("http:") || of_what.starts_with("https:")
}

/// Reads the page of a record, if it is one.
///
/// # Errors
/// The page is encoded in a way that cannot be decoded, or is above the limit.
pub(super) fn read(headers: &Headers<'_>, content: &[u8]) -> Result<Payload, String> {
    match kind(headers) {
        PayloadKind::Other(what) => Ok(Payload::Other(what)),
        _ if headers.get("warc-segment-number").is_some() => Err(SEGMENT.to_owned()),
        PayloadKind::Response => response(content),
        PayloadKind::Page(syntax) => {
            let content_type = headers.all("content-type");
            let read = content_type.as_deref().and_then(ContentType::parse);
            Ok(page(syntax, content, read.as_ref().and_then(ContentType::charset), false))
        }
    }
}

fn page(syntax: PageSyntax, content: &[u8], label: Option<&str>, is_cut: bool) -> Payload {
    // Without a byte order mark, only the label tells UTF-16 from other bytes.
    let is_utf_16 = label.is_some_and(|label| label.to_ascii_lowercase().starts_with("utf-16"));
    if !is_utf_16 && sniff::is_binary(content) {
        return Payload::Other(BINARY);
    }
    let text = decode_or_guess(content, label, syntax != PageSyntax::Text);
    if text.trim().is_empty() {
        return Payload::Other(EMPTY);
    }
    let (kind, text) = match syntax {
        PageSyntax::Text => (BodyKind::Text, text),
        PageSyntax::Html => (BodyKind::Html, text),
        PageSyntax::Xhtml => (BodyKind::Html, declared_as_xml(text)),
    };
    Payload::Page(ReadPage { kind, text: text.into_owned(), is_cut })
}

/// What the header of a response declares its body to be.
enum Declared {
    Other(&'static str),
    /// How the body is read, and its charset; without a type, the body tells.
    Page(Option<PageSyntax>, Option<String>),
}

fn declared(headers: &Headers<'_>) -> Declared {
    if !headers.status().starts_with('2') {
        return Declared::Other("web responses with another status than 2xx");
    }
    let content_type = headers.all("content-type");
    let Some(read) = content_type.as_deref().and_then(ContentType::parse) else {
        return Declared::Page(None, None);
    };
    match read.page_syntax() {
        Some(syntax) => Declared::Page(Some(syntax), read.charset().map(str::to_owned)),
        None => Declared::Other(NO_PAGES),
    }
}

fn response(content: &[u8]) -> Result<Payload, String> {
    let Some(header) = header_of_response(content) else { return Ok(Payload::Other(NO_PAGES)) };
    let (headers, body) = (Headers::parse(&content[header.clone()]), &content[header.end..]);
    let (syntax, label) = match declared(&headers) {
        Declared::Other(what) => return Ok(Payload::Other(what)),
        Declared::Page(syntax, label) => (syntax, label),
    };
    let body = coding::undone(&headers, body)?;
    let syntax = syntax.or_else(|| begins_like_html(&body.bytes).then_some(PageSyntax::Html));
    let Some(syntax) = syntax else { return Ok(Payload::Other(NO_PAGES)) };
    Ok(page(syntax, &body.bytes, label.as_deref(), body.is_cut))
}

/// Where the header of a response of HTTP is. Interim responses (100, 103) may come before it.
pub(crate) fn header_of_response(content: &[u8]) -> Option<Range<usize>> {
    let is_response = |start: usize| content[start..].starts_with(b"HTTP/");
    let mut start = 0;
    while is_response(start) {
        let end = headers::end(content, start)?;
        let is_interim = Headers::parse(&content[start..end]).status().starts_with('1');
        if !is_interim || !is_response(end) {
            return Some(start..end);
        }
        start = end;
    }
    None
}

/// Why a record above the limit is not a page, by the start of its content; `None` if it may be
/// one.
pub(super) fn long_other(headers: &Headers<'_>, start: &[u8]) -> Option<&'static str> {
    match kind(headers) {
        PayloadKind::Other(what) => Some(what),
        PayloadKind::Page(_) => sniff::is_binary(start).then_some(BINARY),
        PayloadKind::Response => {
            let Some(header) = header_of_response(start) else { return Some(NO_PAGES) };
            let (headers, body) = (Headers::parse(&start[header.clone()]), &start[header.end..]);
            let is_encoded = headers.get("content-encoding").is_some()
                || headers.get("transfer-encoding").is_some();
            match declared(&headers) {
                Declared::Other(what) => Some(what),
                Declared::Page(..) if is_encoded => None,
                Declared::Page(None, _) => (!begins_like_html(body)).then_some(NO_PAGES),
                Declared::Page(Some(_), label) => {
                    let is_text = label.is_some_and(|label| label.contains("16"));
                    (!is_text && sniff::is_binary(body)).then_some(BINARY)
                }
            }
        }
    }
}
