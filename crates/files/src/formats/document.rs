//! A file that is one document: text or HTML.

use std::fmt::Display;
use std::io::{self, BufRead, Read as _};
use std::path::Path;

use nearprint_text::charset;
use nearprint_wire::offer::Content;

use crate::detect::foreign;
use crate::detect::names::NameKind;
use crate::entry::{BadEntry, DOCUMENT_BYTES_MAX, Entry, Place, Raw};
use crate::escape::escaped_path;
use crate::source::{self, BytesRead, SavedStreams};

/// Reads one whole file (`-` is the standard input) as a document: as HTML if its name or `html`
/// says so, or else as plain text. `None` for a binary file.
///
/// # Errors
/// The file cannot be read, or is longer than [`DOCUMENT_BYTES_MAX`].
pub fn read_document(path: &Path, html: bool) -> io::Result<Option<Content<'static>>> {
    let kind = if html { NameKind::Html } else { NameKind::of(path) };
    read_body(
        &mut source::open(path, &SavedStreams::default(), &BytesRead::default())?,
        (kind, None),
    )
}

/// Reads the rest of a file as one document, with its path as id; `None` for a binary file. A label
/// names the encoding. Bytes of the path that are not UTF-8 are escaped: with replacement
/// characters two paths could become one.
pub(crate) fn read_entry(
    path: &Path,
    source: &mut dyn BufRead,
    kind: (NameKind, Option<&str>),
) -> Result<Option<Entry>, BadEntry> {
    let bad = |why: &dyn Display| Place::file(path).bad(why);
    let Some(content) = read_body(source, kind).map_err(|error| bad(&error))? else {
        return Ok(None);
    };
    let id = (path != Path::new("-")).then(|| escaped_path(path).into_owned());
    Ok(Some(Entry { place: Place::file(path), raw: Raw::None, id, content, passed: Vec::new() }))
}

/// Reads the rest of a source as one document; `None` for a binary file.
fn read_body(
    source: &mut dyn BufRead,
    (kind, label): (NameKind, Option<&str>),
) -> io::Result<Option<Content<'static>>> {
    let mut bytes = Vec::new();
    source.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(io::Error::other(format!("longer than {DOCUMENT_BYTES_MAX} bytes")));
    }
    if label.is_none() && foreign::is_binary(&bytes) {
        return Ok(None);
    }
    let text = charset::decode(&bytes, label, kind == NameKind::Html).map_err(io::Error::other)?;
    Ok(Some(match kind {
        NameKind::Html => Content::Html(text.into_owned().into()),
        NameKind::Text
        | NameKind::Ndjson
        | NameKind::Json
        | NameKind::Csv
        | NameKind::Tsv
        | NameKind::Parquet
        | NameKind::Warc
        | NameKind::Hex
        | NameKind::Foreign(_)
        | NameKind::Other => Content::Text(text.into_owned().into()),
    }))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::BufReader;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_binary_file_is_no_document_and_utf_16_is() {
        let body = |bytes: &[u8]| read_body(&mut &bytes[..], (NameKind::Text, None)).unwrap();
        assert_eq!(body(b"\x7fELF\0\0"), None);
        assert_eq!(
            body(b"\xff\xfeh\0i\0"),
            Some(Content::Text("hi".into())),
            "UTF-16 with its byte order mark"
        );
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_an_id_too() {
        let path = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
        let entry = read_entry(path, &mut &b"a text"[..], (NameKind::Text, None)).unwrap();
        assert_eq!(entry.unwrap().id.unwrap(), "caf%E9.txt");
    }

    #[test]
    fn a_document_that_is_too_long_is_refused() {
        let mut endless = BufReader::new(io::repeat(b'a'));
        assert!(read_body(&mut endless, (NameKind::Text, None)).is_err());
    }
}
