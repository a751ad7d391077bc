//! Formats that no reader understands, recognised by the name of a file or by its first bytes.
//!
//! Read as text, such a file would be stored as a single meaningless document, so it is refused.

use super::content::{ELEMENT_WITHIN, is_like_array};
use crate::source::Charset;

/// The name of a format, and the extensions of its files.
const EXTENSIONS: [(&str, &[&str]); 7] = [
    ("Arrow", &["arrow", "feather"]),
    ("Avro", &["avro"]),
    ("ORC", &["orc"]),
    ("compressed data", &["lzma", "lz4", "br", "sz", "lzo", "z"]),
    ("an archive", &["zip", "tar", "tgz", "tbz2", "txz", "7z", "rar", "jar"]),
    ("PDF", &["pdf"]),
    (
        "an office document",
        &["doc", "docx", "odt", "rtf", "xls", "xlsx", "ods", "ppt", "pptx", "epub"],
    ),
];

/// The name of a format, and the first bytes of its files.
const MAGIC: [(&str, &[u8]); 10] = [
    ("encrypted Parquet", b"PARE"),
    ("a web archive of the old format ARC", b"filedesc://"),
    ("Arrow", b"ARROW1"),
    ("Avro", b"Obj\x01"),
    ("ORC", b"ORC\x0a"),
    ("LZ4 data", b"\x04\x22\x4d\x18"),
    ("an archive", b"PK\x03\x04"),
    ("an archive", b"7z\xbc\xaf\x27\x1c"),
    ("PDF", b"%PDF-"),
    ("an office document", b"{\\rtf"),
];

/// The format of files with this extension, which is in lower case.
pub(super) fn by_extension(extension: &str) -> Option<&'static str> {
    EXTENSIONS.iter().find(|(_, known)| known.contains(&extension)).map(|(format, _)| *format)
}

/// The format of a file that begins with these bytes.
pub(crate) fn by_content(head: &[u8]) -> Option<&'static str> {
    let known = MAGIC.iter().find(|(_, magic)| head.starts_with(magic));
    let is_own = || [&b"PAR1"[..], b"WARC/"].iter().any(|magic| head.starts_with(magic));
    let is_binary = || is_binary(head) && !is_own() && !is_damaged_text(head);
    known.map(|(format, _)| *format).or_else(|| is_binary().then_some("a binary file"))
}

/// Why a file that begins like this is refused, whatever its name; `None` if it may be read.
pub(crate) fn refused(head: &[u8]) -> Option<String> {
    let foreign = by_content(head)?;
    if let Some(charset) = Charset::of_nuls(head) {
        let name = charset.name();
        return Some(format!(
            "looks like {name} without its byte order mark; pass --charset {name}"
        ));
    }
    Some(refusal(foreign))
}

/// Whether a text has NUL bytes because a block of it was lost: it is mostly text, has lines or is
/// an array, and has no other control characters. Only the records of that block cannot be read.
fn is_damaged_text(head: &[u8]) -> bool {
    let start = &head[..head.len().min(8 << 10)];
    let is_text = start.contains(&b'\n') || memchr::memchr_iter(0, start).count() < start.len() / 2;
    let head = if is_text { start } else { &head[..head.len().min(ELEMENT_WITHIN)] };
    let is_control = |byte: &u8| matches!(*byte, 1..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let blocks = head.windows(2).filter(|two| two[0] == 0 && two[1] != 0).count();
    (is_text || is_like_array(head))
        && Charset::of_nuls(head).is_none()
        && blocks <= DAMAGED_BLOCKS_MAX
        && !head.iter().any(is_control)
}

/// The most blocks of NUL bytes at the start of a text that is only damaged.
const DAMAGED_BLOCKS_MAX: usize = 16;

/// Whether there is a NUL byte near the start. UTF-16 has them too, but begins with its byte order
/// mark.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    let utf16 = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    !utf16 && head.iter().take(8 << 10).any(|&byte| byte == 0)
}

/// Why a file of this format is refused, and the remedy.
pub(crate) fn refusal(format: &str) -> String {
    format!(
        "looks like {format}, which no reader understands; convert it to NDJSON, with one \
         {{\"id\": \"...\", \"text\": \"...\"}} a line"
    )
}

/// Why a file with the name of a text and such lines is refused.
pub(crate) fn text_of_lines(lines: &str) -> String {
    format!("is named like a text and looks like {lines}, or as one text with --format document")
}

/// Why a file with the name of one format and the content of another is refused.
pub(super) fn misnamed(name: &str, format: &str) -> String {
    format!("is named like {name}, and looks like {format}; read it with --format {format}")
}

/// Why a file without what begins all files of its name is refused.
pub(super) fn unlike(name: &str, why: &str) -> String {
    format!("is named like {name}, and is none: {why}; name its format with --format")
}

/// Why a file whose format nothing shows is refused.
pub(super) fn unknown() -> String {
    "its format is not recognised; name it with --format csv, --format lines (a text a line), \
     --format document (one text) or another one"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_recognised_by_its_first_bytes() {
        for (head, format) in [
            (&b"filedesc://a.arc 0.0.0.0"[..], Some("a web archive of the old format ARC")),
            (b"PAR1\x15\0\x15", None),
            (b"%PDF-1.7\n", Some("PDF")),
            (b"\x7fELF\x02\0", Some("a binary file")),
            (b"PARE\x15\0", Some("encrypted Parquet")),
            (b"{\"id\": 1}\n\0\0\0\0\0\0\"id\": 3}\n", None),
            (b"\x01\0\n\0", Some("a binary file")),
            (b"\xff\xfeh\0i\0", None),
            (b"A text of words, with a comma.", None),
            (b"", None),
        ] {
            assert_eq!(by_content(head), format, "{}", head.escape_ascii());
        }
    }
}
