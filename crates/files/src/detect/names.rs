//! Recognises the content of a file by its name.

use std::ffi::OsStr;
use std::path::Path;

use super::foreign;

/// The content of files with a name like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// Plain text or Markdown.
    Text,
    /// HTML.
    Html,
    /// A JSON object a line.
    Ndjson,
    /// JSON: an array, NDJSON, or one document, which is refused.
    Json,
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// Parquet.
    Parquet,
    /// A web archive.
    Warc,
    /// A fingerprint of 16 hex digits a line.
    Hex,
    /// A format that no reader understands; its name, for people.
    Foreign(&'static str),
    /// No name that is known; in a folder such a file is skipped.
    Other,
}

/// Extensions of compressed files, whose own extension is in front of it.
const COMPRESSED: [&str; 5] = [".gz", ".zst", ".zstd", ".bz2", ".xz"];

/// Names of documents without an extension, or with an unusual one.
const WELL_KNOWN: [&str; 10] = [
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

/// Extensions that make `README.sh` or `license.rs` a program.
const PROGRAMS: [&str; 13] =
    ["c", "cc", "cpp", "css", "go", "h", "java", "js", "pl", "py", "rs", "sh", "ts"];

impl NameKind {
    /// The kind of the file at `path`. An extension of [`COMPRESSED`] is ignored.
    pub(crate) fn of(path: &Path) -> Self {
        let Some(name) = path.file_name() else { return Self::Other };
        let lower = name.to_string_lossy().to_ascii_lowercase();
        let bare = COMPRESSED.iter().find_map(|extension| lower.strip_suffix(extension));
        let lower = bare.unwrap_or(&lower);
        let extension = lower.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "txt" | "text" | "md" | "markdown" | "rst" => Self::Text,
            "html" | "htm" | "xhtml" => Self::Html,
            "ndjson" | "jsonl" => Self::Ndjson,
            "json" => Self::Json,
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "parquet" | "pq" => Self::Parquet,
            "warc" | "wet" | "wat" => Self::Warc,
            "hex" => Self::Hex,
            _ if let Some(format) = foreign::by_extension(extension) => Self::Foreign(format),
            _ if is_well_known(lower) && !PROGRAMS.contains(&extension) => Self::Text,
            _ => Self::Other,
        }
    }
}

/// Folders with what other programs keep for themselves; they are passed over.
const PASSED_FOLDERS: [&str; 9] = [
    ".git",
    ".hg",
    ".svn",
    ".ipynb_checkpoints",
    "__MACOSX",
    "_delta_log",
    "_temporary",
    ".hudi",
    ".dvc",
];

/// Files that say something of the files next to them, or of their folder.
const BY_PRODUCTS: [&str; 10] = [
    ".ds_store",
    "thumbs.db",
    "desktop.ini",
    "_success",
    "_metadata",
    "_common_metadata",
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
];

/// The README of a data set has at least one of these fields at its start.
const FIELDS_OF_CARDS: [&str; 6] =
    ["dataset_info:", "configs:", "task_categories:", "size_categories:", "license:", "language:"];

/// Whether a folder within the one that is read is passed over.
pub(crate) fn is_passed_over(folder: &OsStr) -> bool {
    PASSED_FOLDERS.iter().any(|known| *known == folder)
}

/// Whether a file of a folder is a by-product of other programs, by its name: resource forks of
/// macOS (`._a.txt`), checksums of Hadoop (`.a.csv.crc`), and [`BY_PRODUCTS`].
pub(crate) fn is_by_product(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let lower = name.to_string_lossy().to_ascii_lowercase();
    let is_checksum = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("crc"));
    lower.starts_with("._") || is_checksum || BY_PRODUCTS.contains(&&*lower)
}

/// Whether a file is the README of a data set or of a model: it begins with fields between lines of
/// three hyphens.
pub(crate) fn is_data_card(path: &Path, head: &[u8]) -> bool {
    let is_readme = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("readme.md"));
    let Some(rest) = head.strip_prefix(b"---").filter(|_| is_readme) else { return false };
    let fields = rest.split(|&byte| byte == b'\n').skip(1);
    fields
        .take_while(|line| line.trim_ascii_end() != b"---")
        .any(|line| FIELDS_OF_CARDS.iter().any(|field| line.starts_with(field.as_bytes())))
}

/// One of [`WELL_KNOWN`], alone or before `-`, `_` or `.`.
fn is_well_known(lower: &str) -> bool {
    WELL_KNOWN.iter().any(|word| {
        lower
            .strip_prefix(word)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_products_and_cards_are_known_by_name_and_start() {
        for (name, is_one) in [
            ("._a.txt", true),
            ("a/.part-0.parquet.crc", true),
            ("a/Thumbs.db", true),
            ("_SUCCESS", true),
            ("dataset_info.json", true),
            ("info.json", false),
            ("a.txt", false),
            ("_a.txt", false),
        ] {
            assert_eq!(is_by_product(Path::new(name)), is_one, "{name}");
        }
        for (name, head, is_one) in [
            ("README.md", "---\nlicense: mit\n---\n# Data", true),
            ("README.md", "---\r\npretty_name: x\r\nconfigs:\r\n---\r\n", true),
            ("README.md", "---\ntitle: x\n---\nlicense: mit", false),
            ("README.md", "# Data\n---\nlicense: mit\n", false),
            ("a.md", "---\nlicense: mit\n---\n", false),
        ] {
            assert_eq!(is_data_card(Path::new(name), head.as_bytes()), is_one, "{name} {head:?}");
        }
    }

    #[test]
    fn the_name_of_a_file_gives_its_kind() {
        for (path, kind) in [
            ("a/notes.txt", NameKind::Text),
            ("a/README.md", NameKind::Text),
            ("a/page.HTM", NameKind::Html),
            ("a/guide.html.gz", NameKind::Html),
            ("a/LICENSE", NameKind::Text),
            ("a/LICENSE-APACHE-2.0", NameKind::Text),
            ("a/copyright", NameKind::Text),
            ("a/changelog.Debian.gz", NameKind::Text),
            ("share/man/man1/ls.1.gz", NameKind::Other),
            ("a/libz.so.1", NameKind::Other),
            ("a/license.rs", NameKind::Other),
            ("a/licensed", NameKind::Other),
            ("a/data.json", NameKind::Json),
            ("a/dump.jsonl.gz", NameKind::Ndjson),
            ("a/fingerprints.HEX", NameKind::Hex),
            ("a/table.CSV", NameKind::Csv),
            ("a/table.tsv.bz2", NameKind::Tsv),
            ("a/rows.parquet", NameKind::Parquet),
            ("a/crawl.warc.gz", NameKind::Warc),
            ("a/crawl.warc.wet.zst", NameKind::Warc),
            ("a/notes.txt.xz", NameKind::Text),
            ("a/notes.txt.lz4", NameKind::Foreign("compressed data")),
            ("a/changelog.pdf", NameKind::Foreign("PDF")),
            ("a/program.rs", NameKind::Other),
        ] {
            assert_eq!(NameKind::of(Path::new(path)), kind, "{path}");
        }
    }
}
