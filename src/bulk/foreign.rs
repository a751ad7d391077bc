//! Formats that no reader understands, recognised by the name of a file or by its first bytes.
//!
//! Read as text, such a file would be stored as a single meaningless document, so it is refused.

/// The name of a format, and the extensions of its files.
const EXTENSIONS: [(&str, &[&str]); 14] = [
    ("CSV", &["csv"]),
    ("TSV", &["tsv"]),
    ("a web archive (WARC)", &["warc", "wet", "wat", "arc"]),
    ("Parquet", &["parquet"]),
    ("Arrow", &["arrow", "feather"]),
    ("Avro", &["avro"]),
    ("ORC", &["orc"]),
    ("Zstandard data", &["zst", "zstd"]),
    ("bzip2 data", &["bz2"]),
    ("xz data", &["xz", "lzma"]),
    ("compressed data", &["lz4", "br", "sz", "lzo", "z"]),
    ("an archive", &["zip", "tar", "tgz", "tbz2", "txz", "7z", "rar", "jar"]),
    ("PDF", &["pdf"]),
    (
        "an office document",
        &["doc", "docx", "odt", "rtf", "xls", "xlsx", "ods", "ppt", "pptx", "epub"],
    ),
];

/// The name of a format, and the first bytes of its files.
const MAGIC: [(&str, &[u8]); 12] = [
    ("a web archive (WARC)", b"WARC/"),
    ("Parquet", b"PAR1"),
    ("Arrow", b"ARROW1"),
    ("Avro", b"Obj\x01"),
    ("ORC", b"ORC\x0a"),
    ("Zstandard data", b"\x28\xb5\x2f\xfd"),
    ("bzip2 data", b"BZh"),
    ("xz data", b"\xfd7zXZ\0"),
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
pub(super) fn by_content(head: &[u8]) -> Option<&'static str> {
    let known = MAGIC.iter().find(|(_, magic)| head.starts_with(magic));
    known.map(|(format, _)| *format).or_else(|| is_binary(head).then_some("a binary file"))
}

/// Whether there is a NUL byte near the start. UTF-16 has them too, but begins with its byte order
/// mark.
pub(super) fn is_binary(head: &[u8]) -> bool {
    let utf16 = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    !utf16 && head.iter().take(8 << 10).any(|&byte| byte == 0)
}

/// Why a file of this format is refused, and the remedy.
pub(super) fn refusal(format: &str) -> String {
    format!(
        "looks like {format}, which cannot be imported; convert it to NDJSON, with one \
         {{\"id\": \"...\", \"text\": \"...\"}} a line"
    )
}

/// Why a file with the name of a text and such lines is refused.
pub(super) fn misnamed(lines: &str) -> String {
    format!("is named like a text and looks like {lines}, or as one text with --format document")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_recognised_by_its_first_bytes() {
        for (head, format) in [
            (&b"WARC/1.0\r\nWARC-Type: conversion\r\n"[..], Some("a web archive (WARC)")),
            (b"PAR1\x15\x04", Some("Parquet")),
            (b"\x28\xb5\x2f\xfd\x04", Some("Zstandard data")),
            (b"%PDF-1.7\n", Some("PDF")),
            (b"\x7fELF\x02\0", Some("a binary file")),
            (b"\xff\xfeh\0i\0", None),
            (b"A text of words, with a comma.", None),
            (b"", None),
        ] {
            assert_eq!(by_content(head), format, "{}", head.escape_ascii());
        }
    }
}
