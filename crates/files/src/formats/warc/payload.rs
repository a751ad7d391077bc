//! The page within a record: the parts of HTTP, encodings, charsets.

use std::borrow::Cow;
use std::io::Read;

use brotli_decompressor::Decompressor;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use nearprint_text::{charset, declared_as_xml};

use super::headers::{self, Headers};
use crate::context::too_long;
use crate::detect::content::begins_like_html;
use crate::entry::DOCUMENT_BYTES_MAX;
use crate::mapping::BodyKind;

/// What a record may hold, by its header alone.
pub(super) enum PayloadKind {
    /// A response of HTTP.
    Response,
    /// A page or a text by itself.
    Page(BodyKind),
    /// Nothing to import; its name in the plural.
    Other(&'static str),
}

/// What a record holds.
pub(super) enum Payload {
    Page(BodyKind, String),
    Other(&'static str),
}

/// The media type of pages that are read by the syntax of XML.
const XHTML: &str = "application/xhtml+xml";

const NO_PAGES: &str = "web records that are no pages or texts";

/// What a record may hold.
pub(super) fn kind(headers: &Headers<'_>) -> PayloadKind {
    let content_type = headers.get("content-type").unwrap_or_default();
    let content_type = media_type(&content_type);
    let page = || body_kind(&content_type).map_or(PayloadKind::Other(NO_PAGES), PayloadKind::Page);
    match headers.get("warc-type").unwrap_or_default().to_ascii_lowercase().as_str() {
        "response" if content_type == "application/http" || content_type.is_empty() => {
            PayloadKind::Response
        }
        // wget describes itself in resources.
        "resource" if is_description(headers) => PayloadKind::Other("web metadata records"),
        "response" | "resource" | "conversion" => page(),
        "request" => PayloadKind::Other("web requests"),
        "metadata" => PayloadKind::Other("web metadata records"),
        "revisit" => PayloadKind::Other("web revisits"),
        "warcinfo" => PayloadKind::Other("descriptions of web archives"),
        _ => PayloadKind::Other("web records of other types"),
    }
}

fn is_description(headers: &Headers<'_>) -> bool {
    let address = headers.get("warc-target-uri").unwrap_or_default();
    address.trim_start_matches('<').starts_with("metadata:")
}

/// Reads the page of a record, if it is one.
///
/// # Errors
/// The page is encoded in a way that cannot be decoded, or is above the limit.
pub(super) fn read(headers: &Headers<'_>, content: &[u8]) -> Result<Payload, String> {
    match kind(headers) {
        PayloadKind::Other(what) => Ok(Payload::Other(what)),
        PayloadKind::Response => response(content),
        PayloadKind::Page(kind) => {
            let content_type = headers.get("content-type").unwrap_or_default();
            Ok(page(kind, content, &content_type))
        }
    }
}

fn page(kind: BodyKind, content: &[u8], content_type: &str) -> Payload {
    let html = kind == BodyKind::Html;
    let label = charset_of(content_type);
    // Servers send labels that no browser knows; the content may still say what it is.
    let text = charset::decode(content, label, html)
        .or_else(|_| charset::decode(content, None, html))
        .unwrap_or_else(|_| String::from_utf8_lossy(content));
    let is_xhtml = media_type(content_type) == XHTML;
    let text = if is_xhtml { declared_as_xml(text) } else { text };
    Payload::Page(kind, text.into_owned())
}

fn response(content: &[u8]) -> Result<Payload, String> {
    if !content.starts_with(b"HTTP/") {
        return Ok(Payload::Other(NO_PAGES));
    }
    let Some(end) = headers::end(content, 0) else { return Ok(Payload::Other(NO_PAGES)) };
    let headers = Headers::parse(&content[..end]);
    let status = headers.first().split_ascii_whitespace().nth(1).unwrap_or_default();
    if !status.starts_with('2') {
        return Ok(Payload::Other("web responses with another status than 2xx"));
    }
    let content_type = headers.get("content-type").unwrap_or_default();
    let known = body_kind(&media_type(&content_type));
    if known.is_none() && !content_type.is_empty() {
        return Ok(Payload::Other(NO_PAGES));
    }
    let body = &content[end..];
    let is_chunked = headers
        .get("transfer-encoding")
        .is_some_and(|encoding| encoding.to_ascii_lowercase().contains("chunked"));
    // Many crawlers join the chunks, and leave the header as it was.
    let joined = is_chunked.then(|| dechunked(body)).flatten();
    let body = joined.as_deref().unwrap_or(body);
    let encodings = headers.get("content-encoding").unwrap_or_default();
    let mut body = Cow::Borrowed(body);
    for encoding in encodings.rsplit(',') {
        body = decoded(body, &encoding.trim().to_ascii_lowercase())?;
    }
    let Some(kind) = known.or_else(|| begins_like_html(&body).then_some(BodyKind::Html)) else {
        return Ok(Payload::Other(NO_PAGES));
    };
    Ok(page(kind, &body, &content_type))
}

/// The type and subtype in lower case, without parameters.
fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn body_kind(media_type: &str) -> Option<BodyKind> {
    match media_type {
        "text/html" | XHTML => Some(BodyKind::Html),
        "text/plain" | "text/markdown" => Some(BodyKind::Text),
        _ => None,
    }
}

fn charset_of(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).map(str::trim);
    let value = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    })?;
    Some(value.trim().trim_matches(['"', '\''])).filter(|label| !label.is_empty())
}

/// Joins chunks; `None` if there are none. A body that is cut off ends where it is cut.
fn dechunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::with_capacity(body.len());
    let mut is_first = true;
    while !body.is_empty() {
        let end = body.iter().position(|&byte| byte == b'\n');
        let line = &body[..end.unwrap_or(body.len())];
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let is_size = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        let size = str::from_utf8(digits).ok().filter(|_| is_size);
        let size = size.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let (Some(size), Some(end)) = (size, end) else {
            return (!is_first).then_some(joined);
        };
        if size == 0 {
            break;
        }
        is_first = false;
        body = &body[end + 1..];
        let (chunk, rest) = body.split_at(size.min(body.len()));
        joined.extend_from_slice(chunk);
        body = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest);
    }
    Some(joined)
}

/// Undoes one content encoding. Crawlers that decode a body often leave the header as it was, so a
/// body that is text stays as it is.
fn decoded<'a>(body: Cow<'a, [u8]>, encoding: &str) -> Result<Cow<'a, [u8]>, String> {
    let decoded = match encoding {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" if !body.starts_with(b"\x1f\x8b") => return Ok(body),
        "gzip" | "x-gzip" => read_all(MultiGzDecoder::new(&body[..])),
        "deflate" => match read_all(ZlibDecoder::new(&body[..])) {
            // Some servers send the bare stream.
            Err(_) => read_all(DeflateDecoder::new(&body[..])),
            decoded => decoded,
        },
        "br" => read_all(Decompressor::new(&body[..], 4 << 10)),
        "zstd" if !body.starts_with(b"\x28\xb5\x2f\xfd") => return Ok(body),
        "zstd" => zstd::Decoder::with_buffer(&body[..])
            .map_err(|error| error.to_string())
            .and_then(read_all),
        _ => Err("is unknown".to_owned()),
    };
    match decoded {
        Ok(decoded) => Ok(Cow::Owned(decoded)),
        Err(_) if str::from_utf8(&body).is_ok() => Ok(body),
        Err(why) => Err(format!("its content encoding {encoding:?} cannot be undone: {why}")),
    }
}

fn read_all(decoder: impl Read) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    decoder.take(limit).read_to_end(&mut decoded).map_err(|error| error.to_string())?;
    if decoded.len() > DOCUMENT_BYTES_MAX { Err(too_long()) } else { Ok(decoded) }
}
