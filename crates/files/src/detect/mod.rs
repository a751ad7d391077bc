//! Which format a file has, by its name and its first bytes.

pub(super) mod content;
pub(super) mod foreign;
mod format;
pub(super) mod names;

use std::path::Path;

pub use format::Format;

use names::NameKind;

impl Format {
    /// The format of the file at `path`, which begins with `head`. Content that can be nothing else
    /// decides, then the name.
    ///
    /// # Errors
    /// No reader understands the file, or its content is not what its name says; the error says
    /// what to do.
    pub(super) fn of(path: &Path, head: &[u8]) -> Result<Self, String> {
        if let Some(why) = foreign::refused(head) {
            return Err(why);
        }
        let certain = content::certain(head);
        if let Some(certain @ (Self::Parquet | Self::Warc)) = certain {
            return Ok(certain);
        }
        let is = |format: Self, name: &str| match certain {
            Some(certain) if certain != format => Err(foreign::misnamed(name, certain.name())),
            _ => Ok(format),
        };
        match NameKind::of(path) {
            NameKind::Ndjson if certain == Some(Self::Json) => Ok(Self::Json),
            NameKind::Ndjson => Ok(Self::Ndjson),
            NameKind::Hex => Ok(Self::Hex),
            NameKind::Csv => is(Self::Csv, "CSV"),
            NameKind::Tsv => is(Self::Tsv, "TSV"),
            NameKind::Text => match content::lines_in_text(head) {
                Some(lines) => Err(foreign::text_of_lines(lines)),
                None => Ok(Self::Document),
            },
            NameKind::Html => Ok(Self::Document),
            NameKind::Foreign(format) => Err(foreign::refusal(format)),
            NameKind::Json if certain.is_none() && content::is_like_array(head) => Ok(Self::Json),
            NameKind::Json => certain.ok_or_else(|| foreign::refusal("a JSON document")),
            NameKind::Parquet => Err(foreign::unlike("Parquet", "it does not begin with PAR1")),
            NameKind::Warc => {
                Err(foreign::unlike("a web archive", "no record of one (WARC/1.0) begins it"))
            }
            NameKind::Other => certain.ok_or_else(foreign::unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_or_else_the_name_decides_the_format() {
        for (name, head, format) in [
            ("a.jsonl.gz", "{", Format::Ndjson),
            ("a.jsonl", "nonsense\n{\"text\": 1}\n", Format::Ndjson),
            ("a.jsonl", "[{\"text\": 1}]", Format::Json),
            ("a.hex", "0", Format::Hex),
            ("a.csv.zst", "id,text\n", Format::Csv),
            ("a.tsv", "id\ttext\n", Format::Tsv),
            ("README.md", "{", Format::Document),
            ("a.json", "[\n  {\"text\": \"a\"}\n]\n", Format::Json),
            ("a.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", Format::Ndjson),
            ("a.json", "[,{\"text\": \"a\"}]", Format::Json),
            ("a.json", "[1, null, {\"text\": \"a\"}]", Format::Json),
            ("a.json", "[[{\"text\": \"a\"}],[{\"text\": \"b\"}]]", Format::Json),
            ("-", "\u{feff} [ {\"text\": \"a\"}", Format::Json),
            ("-", "{\"id\": \"a\"}\n", Format::Ndjson),
            ("-", "\n {\"id\": \"a\"}\n", Format::Ndjson),
            ("-", "00000000000000ff\ta\n00", Format::Hex),
            ("-", "\n00000000000000ff,a\n00", Format::Hex),
            ("-", "00000000000000ff\r\n00", Format::Hex),
            ("-", "https://a.example/1 00000000000000ff\nb 00", Format::Hex),
            ("a.csv", "WARC/1.0\r\nWARC-Type: conversion\r\n", Format::Warc),
            ("-", "WARC/1.1\r\n", Format::Warc),
            ("a.txt", "PAR1\u{15}", Format::Parquet),
            ("-", " <!DOCTYPE html>\n<p>", Format::Document),
        ] {
            assert_eq!(Format::of(Path::new(name), head.as_bytes()), Ok(format), "{name} {head:?}");
        }
    }

    #[test]
    fn what_is_not_recognised_is_refused_with_advice() {
        for (name, head, why) in [
            ("-", "Some text.\n", "--format document"),
            ("dump", "id,text\n1,a\n", "--format csv"),
            ("a.csv", "{\"id\": \"a\"}\n", "named like CSV, and looks like ndjson"),
            ("a.tsv", "[{\"id\": \"a\"}]\n", "named like TSV, and looks like json"),
            ("a.parquet", "id,text\n", "named like Parquet"),
            ("a.warc.gz", "<html>", "named like a web archive"),
            ("a.json", "{\n  \"text\": \"a\"\n}\n", "a JSON document"),
            ("a.json", "7\n", "a JSON document"),
            ("a.json", "[7, [8, {}]]\n", "a JSON document"),
            ("a.json", "\u{7f}ELF\0\n, {\"text\": 1}", "looks like a binary file"),
            ("a.json", "\0\0\0\0\u{1}, {\"text\": 1}", "looks like a binary file"),
            ("a.txt", "{\"url\": \"u\"}\n", "--format ndjson"),
            ("a.txt", "00000000000000ff\ta\n", "--format hex"),
            ("a.arrow", "ARROW1", "looks like Arrow"),
            ("a.txt", "\u{7f}ELF\0", "looks like a binary file"),
            ("a.doc", "x", "looks like an office document"),
        ] {
            let refused = Format::of(Path::new(name), head.as_bytes()).unwrap_err();
            assert!(refused.contains(why), "{name} {head:?}: {refused}");
        }
    }
}
