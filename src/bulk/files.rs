//! Opens a file or the standard input, decompresses gzip, and reads whole documents within the
//! limit.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use super::entry::{BadEntry, Body, DOCUMENT_BYTES_MAX, Entry, Place};
use super::names::Kind;
use super::{foreign, manual};
use crate::text::charset;

const BUFFER_BYTES: usize = 64 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The number of bytes read so far, before decompression. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A file as its reader sees it: decompressed and buffered.
pub(super) type Source = Box<dyn BufRead + Send>;

/// Opens `path`; `-` is the standard input.
pub(super) fn open(path: &Path, bytes: &BytesRead) -> io::Result<Source> {
    let raw: Box<dyn Read + Send> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(open_file(path)?) };
    let counted = Counted { raw, bytes: bytes.clone() };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, counted);
    Ok(if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(reader)))
    } else {
        Box::new(reader)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file of the user; only the data directory goes through storage::disk"
)]
fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

struct Counted<R> {
    raw: R,
    bytes: BytesRead,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.bytes.add(count);
        Ok(count)
    }
}

/// Reads one whole file (`-` is the standard input) as a document: as HTML if its name or `html`
/// says so, as a manual page, or else as plain text. `None` for a binary file.
///
/// # Errors
/// The file cannot be read, or is longer than [`DOCUMENT_BYTES_MAX`].
pub fn read_document(path: &Path, html: bool) -> io::Result<Option<Body>> {
    let kind = if html { Kind::Html } else { Kind::of(path) };
    read_body(&mut open(path, &BytesRead::default())?, kind)
}

/// Reads the rest of a file as one document, with its path as id; `None` for a binary file.
///
/// A path that is not UTF-8 is refused: with replacement characters two paths could become one id.
pub(super) fn read_entry(
    path: &Path,
    source: &mut dyn BufRead,
    kind: Kind,
) -> Result<Option<Entry>, BadEntry> {
    let bad = |why: &dyn Display| Place::file(path).bad(why);
    let Some(body) = read_body(source, kind).map_err(|error| bad(&error))? else {
        return Ok(None);
    };
    let id = match path.to_str() {
        Some("-") => None,
        Some(path) => Some(path.to_owned()),
        None => return Err(bad(&"its path would be its id, and is not UTF-8: rename the file")),
    };
    Ok(Some(Entry { place: Place::file(path), id, body, passed: Vec::new() }))
}

/// Reads the rest of a source as one document; `None` for a binary file.
fn read_body(source: &mut dyn BufRead, kind: Kind) -> io::Result<Option<Body>> {
    let mut bytes = Vec::new();
    source.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(io::Error::other(format!("longer than {DOCUMENT_BYTES_MAX} bytes")));
    }
    if foreign::is_binary(&bytes) {
        return Ok(None);
    }
    let text = charset::decode(&bytes, None, kind == Kind::Html).map_err(io::Error::other)?;
    Ok(Some(match kind {
        Kind::Html => Body::Html(text.into_owned()),
        Kind::Manual => Body::Text(manual::running_text(&text)),
        Kind::Text | Kind::Ndjson | Kind::Json | Kind::Hex | Kind::Foreign(_) | Kind::Other => {
            Body::Text(text.into_owned())
        }
    }))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::ffi::OsStr;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn gzip_is_recognised_by_its_bytes_and_counted_as_it_is_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no-extension");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&b"nearly the same ".repeat(999)).unwrap();
        let packed = encoder.finish().unwrap();
        std::fs::write(&path, &packed).unwrap();

        let bytes = BytesRead::default();
        let mut text = String::new();
        open(&path, &bytes).unwrap().read_to_string(&mut text).unwrap();

        assert_eq!(text.len(), 16 * 999);
        assert_eq!(bytes.get(), packed.len() as u64);
    }

    #[test]
    fn a_binary_file_is_no_document_and_utf_16_is() {
        let body = |bytes: &[u8]| read_body(&mut &bytes[..], Kind::Text).unwrap();
        assert_eq!(body(b"\x7fELF\0\0"), None);
        assert_eq!(
            body(b"\xff\xfeh\0i\0"),
            Some(Body::Text("hi".to_owned())),
            "UTF-16 with its byte order mark"
        );
    }

    #[test]
    fn a_path_that_cannot_be_an_id_is_refused() {
        let path = Path::new(OsStr::from_bytes(b"caf\xe9.txt"));
        let bad = read_entry(path, &mut &b"a text"[..], Kind::Text).unwrap_err();
        assert!(bad.why.contains("not UTF-8"), "{bad}");
    }

    #[test]
    fn a_document_that_is_too_long_is_refused() {
        let mut endless = BufReader::new(io::repeat(b'a'));
        assert!(read_body(&mut endless, Kind::Text).is_err());
    }
}
