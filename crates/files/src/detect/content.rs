//! Recognises files of one document a line by their first bytes.

use memchr::memchr_iter;
use nearprint_fingerprint::Fingerprint;
use serde_json::{Map, Value};

use super::format::Format;

/// The mark with which some programs begin UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The text without a byte order mark and white space in front.
pub(crate) fn trimmed(head: &[u8]) -> &[u8] {
    without_mark(head).trim_ascii_start()
}

/// The text without a byte order mark.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Whether the first line begins with a fingerprint. If something other than a tab follows, the
/// reader of lines says so, while a reader of texts would store all lines as one document.
fn begins_with_fingerprint(head: &[u8]) -> bool {
    let head = trimmed(head);
    let word = head.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
    str::from_utf8(word).is_ok_and(|word| word.parse::<Fingerprint>().is_ok())
}

/// The format of content that can be nothing else.
pub(crate) fn certain(head: &[u8]) -> Option<Format> {
    if head.starts_with(b"PAR1") {
        return Some(Format::Parquet);
    }
    if head.starts_with(b"WARC/") {
        return Some(Format::Warc);
    }
    if begins_with_fingerprint(head) || ends_with_fingerprint(head) {
        return Some(Format::Hex);
    }
    let text = trimmed(head);
    match text {
        [b'{', ..] if is_object_a_line(text) => Some(Format::Ndjson),
        [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [b'{' | b']', ..]) => {
            Some(Format::Json)
        }
        _ if begins_like_html(text) => Some(Format::Document),
        _ => None,
    }
}

/// How much of an array with a damaged beginning is searched for an element.
pub(crate) const ELEMENT_WITHIN: usize = 64 << 10;

/// Whether this may be a JSON array, whatever comes before its first whole element: it begins with
/// a bracket, or with a block of NUL bytes that has taken its place.
pub(crate) fn is_like_array(head: &[u8]) -> bool {
    let head = &head[..head.len().min(ELEMENT_WITHIN)];
    matches!(trimmed(head), [b'[' | 0, ..])
        && memchr_iter(b'{', head).any(|at| begins_element(head, at))
}

/// White space between two elements that is looked back over when a broken one is skipped.
pub(crate) const GAP_BYTES_MAX: usize = 1 << 10;

/// Whether the brace at `at` begins an element: a comma, or the beginning of an array that is not
/// the value of a field, comes before it, and a name after it. A name has a quote, which a string
/// would have to escape.
pub(crate) fn begins_element(bytes: &[u8], at: usize) -> bool {
    let near = bytes[at.saturating_sub(GAP_BYTES_MAX)..at].trim_ascii_end();
    let is_next_array = |open: &[u8]| !open.trim_ascii_end().ends_with(b":");
    (near.ends_with(b",") || near.strip_suffix(b"[").is_some_and(is_next_array))
        && bytes[at + 1..].trim_ascii_start().starts_with(b"\"")
}

/// Whether a text begins like a page of HTML.
pub(crate) fn begins_like_html(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html"]
        .iter()
        .any(|tag| start.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
}

/// Whether the first line is an id, white space and a fingerprint.
fn ends_with_fingerprint(head: &[u8]) -> bool {
    let line = trimmed(head).split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.trim_ascii_end();
    let Some(space) = line.iter().rposition(u8::is_ascii_whitespace) else { return false };
    let word = &line[space + 1..];
    word.len() == 16 && str::from_utf8(word).is_ok_and(|word| word.parse::<Fingerprint>().is_ok())
}

/// Whether an object ends on the line on which it begins. A line longer than `text` counts as an
/// object.
fn is_object_a_line(text: &[u8]) -> bool {
    let mut lines = text.splitn(2, |&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    first.trim_ascii_end().ends_with(b"}") || lines.next().is_none()
}

/// The lines that a file named like a text has instead of a text; as one document, it would lose
/// the id of each line.
pub(crate) fn lines_in_text(head: &[u8]) -> Option<&'static str> {
    if begins_with_fingerprint(head) {
        return Some("lines of fingerprints; read it with --format hex");
    }
    if certain(head) == Some(Format::Json) {
        return Some("a JSON array; read it with --format json");
    }
    let mut lines = trimmed(head).splitn(3, |&byte| byte == b'\n');
    let is_object = |line: &[u8]| serde_json::from_slice::<Map<String, Value>>(line).is_ok();
    let first = is_object(lines.next()?);
    let second = match (lines.next(), lines.next()) {
        (None, _) => true,
        (Some(line), None) => line.trim_ascii().is_empty() || line.trim_ascii().starts_with(b"{"),
        (Some(line), Some(_)) => is_object(line),
    };
    (first && second).then_some("NDJSON; read it with --format ndjson")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_from_a_text() {
        for (head, found) in [
            (
                "{\"url\": \"u\", \"text\": \"t\"}\n{\"url\": \"v\", \"text\": \"t\"}\n",
                Some("NDJSON"),
            ),
            ("{\"text\": \"t\"}", Some("NDJSON")),
            ("\u{feff}{\"text\": \"t\"}\r\n{\"text\": \"cut", Some("NDJSON")),
            ("00000000000000ff\ta\n", Some("lines of fingerprints")),
            ("00000000000000ff, a\n", Some("lines of fingerprints")),
            ("{}\n\nis an empty object\n", None),
            ("{\n", None),
            ("deadbeef is no fingerprint", None),
            (" [ {\"text\": \"t\"}]", Some("a JSON array")),
            ("[1] is a reference", None),
            ("A text.\n{\"text\": \"t\"}\n", None),
        ] {
            let name = lines_in_text(head.as_bytes()).map(|lines| lines.split(';').next().unwrap());
            assert_eq!(name, found, "{head}");
        }
    }
}
