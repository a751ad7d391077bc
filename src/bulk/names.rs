//! What the name of a file says about its content.

use std::path::Path;

use super::foreign;

/// What a file of this name holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain text or Markdown.
    Text,
    /// HTML.
    Html,
    /// A manual page in roff.
    Manual,
    /// A JSON object a line.
    Ndjson,
    /// JSON: an object a line, which is NDJSON, or one document, which is refused.
    Json,
    /// A fingerprint of 16 hex digits a line.
    Hex,
    /// A format that no reader here understands, by its name for people.
    Foreign(&'static str),
    /// The name does not tell; a folder passes it over.
    Other,
}

/// Names of documents that come without an ending, or with one that says little.
const WORDS: [&str; 10] = [
    "license",
    "licence",
    "unlicense",
    "copying",
    "copyright",
    "notice",
    "readme",
    "changelog",
    "changes",
    "news",
];

/// Endings that make a program of `README.sh` or `license.rs`.
const PROGRAMS: [&str; 13] =
    ["c", "cc", "cpp", "css", "go", "h", "java", "js", "pl", "py", "rs", "sh", "ts"];

impl Kind {
    /// Of the file at `path`; `.gz` is looked through.
    pub(super) fn of(path: &Path) -> Self {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Self::Other;
        };
        let lower = name.to_ascii_lowercase();
        let lower = lower.strip_suffix(".gz").unwrap_or(&lower);
        let ending = lower.rsplit_once('.').map_or("", |(_, ending)| ending);
        match ending {
            "txt" | "text" | "md" | "markdown" | "rst" => Self::Text,
            "html" | "htm" | "xhtml" => Self::Html,
            "ndjson" | "jsonl" => Self::Ndjson,
            "json" => Self::Json,
            "hex" => Self::Hex,
            _ if let Some(format) = foreign::by_ending(ending) => Self::Foreign(format),
            _ if is_manual_section(ending) && below_man(path) => Self::Manual,
            _ if is_well_known(lower) && !PROGRAMS.contains(&ending) => Self::Text,
            _ => Self::Other,
        }
    }
}

/// `1`, `3posix`, `8`: a digit and maybe letters.
fn is_manual_section(ending: &str) -> bool {
    let mut bytes = ending.bytes();
    bytes.next().is_some_and(|b| (b'1'..=b'9').contains(&b))
        && bytes.all(|b| b.is_ascii_lowercase())
}

/// Version numbers end as manual pages do, so the folder has to say `man` too.
fn below_man(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("man"))
}

/// One of [`WORDS`] alone or before `-`, `_` or `.`.
fn is_well_known(lower: &str) -> bool {
    WORDS.iter().any(|word| {
        lower
            .strip_prefix(word)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_what_a_file_holds() {
        for (path, kind) in [
            ("a/notes.txt", Kind::Text),
            ("a/README.md", Kind::Text),
            ("a/page.HTM", Kind::Html),
            ("a/guide.html.gz", Kind::Html),
            ("a/LICENSE", Kind::Text),
            ("a/LICENSE-APACHE-2.0", Kind::Text),
            ("a/copyright", Kind::Text),
            ("a/changelog.Debian.gz", Kind::Text),
            ("share/man/man1/ls.1.gz", Kind::Manual),
            ("share/man/de/man3/open.3posix", Kind::Manual),
            ("a/libz.so.1", Kind::Other),
            ("a/license.rs", Kind::Other),
            ("a/licensed", Kind::Other),
            ("a/data.json", Kind::Json),
            ("a/dump.jsonl.gz", Kind::Ndjson),
            ("a/fingerprints.HEX", Kind::Hex),
            ("a/table.CSV", Kind::Foreign("CSV")),
            ("a/crawl.warc.gz", Kind::Foreign("a web archive (WARC)")),
            ("a/notes.txt.zst", Kind::Foreign("Zstandard data")),
            ("a/changelog.pdf", Kind::Foreign("PDF")),
            ("a/program.rs", Kind::Other),
        ] {
            assert_eq!(Kind::of(Path::new(path)), kind, "{path}");
        }
    }
}
