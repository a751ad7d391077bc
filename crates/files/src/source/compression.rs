//! Compressed files, recognised by their first bytes: gzip, Zstandard, bzip2 and xz.
//!
//! Files of several members, frames or streams are read as one. Memory is bounded by the formats
//! and by [`XZ_MEMORY_KIB_MAX`]; Zstandard refuses windows above 128 MiB by itself; a program that
//! takes more memory can be put in front.

use std::convert;
use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use lzma_rust2::XzReader;

use super::gzip::Members;

/// A file as its reader sees it: decompressed and buffered. After an error, a source either ends or
/// continues after the damage.
pub(crate) type ByteSource = Box<dyn BufRead + Send>;

pub(super) const BUFFER_BYTES: usize = 256 << 10;

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const BZIP2: &[u8] = b"BZh";
const XZ: &[u8] = b"\xfd7zXZ\0";
/// Frames that a decoder of Zstandard skips: the low four bits are free.
const ZSTD_SKIPPABLE: &[u8] = b"\x2a\x4d\x18";
/// The skippable frame with the dictionary of a web archive.
const ZSTD_DICTIONARY: &[u8] = b"\x5d\x2a\x4d\x18";

/// The most memory for the dictionary of xz; `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;
/// The longest dictionary of Zstandard.
const DICTIONARY_BYTES_MAX: usize = 16 << 20;

/// Decompresses a source if it is compressed.
///
/// # Errors
/// The source cannot be read, or begins with a broken dictionary.
pub(crate) fn decompressed<R: BufRead + Send + 'static>(mut reader: R) -> io::Result<ByteSource> {
    let head = reader.fill_buf()?;
    if head.starts_with(GZIP) {
        return Ok(buffered(Members::new(reader)));
    }
    if head.starts_with(BZIP2) {
        return Ok(fused(MultiBzDecoder::new(reader), convert::identity));
    }
    if head.starts_with(XZ) {
        let unpacked = XzReader::new_mem_limit(reader, true, XZ_MEMORY_KIB_MAX);
        return Ok(fused(unpacked, convert::identity));
    }
    let is_skippable = head.get(1..4) == Some(ZSTD_SKIPPABLE) && head[0] & 0xf0 == 0x50;
    if head.starts_with(ZSTD_DICTIONARY) {
        let dictionary = dictionary(&mut reader)?;
        return Ok(fused(zstd::Decoder::with_dictionary(reader, &dictionary)?, zstd_error));
    }
    if head.starts_with(ZSTD) || is_skippable {
        return Ok(fused(zstd::Decoder::with_buffer(reader)?, zstd_error));
    }
    Ok(Box::new(reader))
}

/// Reads the dictionary in front of a web archive, which may itself be compressed
/// (<https://iipc.github.io/warc-specifications/specifications/warc-zstd/>).
fn dictionary(reader: &mut dyn BufRead) -> io::Result<Vec<u8>> {
    let mut header = [0; 8];
    reader.read_exact(&mut header)?;
    let [.., a, b, c, d] = header;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let bad = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if length > DICTIONARY_BYTES_MAX as u64 {
        return bad("its dictionary of Zstandard is longer than 16 MiB");
    }
    let mut stored = Vec::new();
    reader.take(length).read_to_end(&mut stored)?;
    if stored.len() as u64 != length {
        return bad("ends in the middle of its dictionary of Zstandard");
    }
    if !stored.starts_with(ZSTD) {
        return Ok(stored);
    }
    let mut dictionary = Vec::new();
    let limit = DICTIONARY_BYTES_MAX as u64 + 1;
    zstd::Decoder::with_buffer(&stored[..])?.take(limit).read_to_end(&mut dictionary)?;
    if dictionary.len() > DICTIONARY_BYTES_MAX {
        return bad("its dictionary of Zstandard is longer than 16 MiB");
    }
    Ok(dictionary)
}

fn buffered(reader: impl Read + Send + 'static) -> ByteSource {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, reader))
}

fn fused(reader: impl Read + Send + 'static, error: ErrorText) -> ByteSource {
    buffered(Fused { reader: Some(reader), error })
}

/// What an error of a decoder means for its user.
type ErrorText = fn(io::Error) -> io::Error;

fn zstd_error(error: io::Error) -> io::Error {
    if !error.to_string().contains("too much memory") {
        return error;
    }
    let what = "it is compressed with a window of more than 128 MiB, which another program has to \
                undo; pipe it in: zstd -dc --long=31 FILE | nearprint ... -";
    io::Error::new(error.kind(), what)
}

/// Ends after an error, which some decoders would repeat for ever.
struct Fused<R> {
    reader: Option<R>,
    error: ErrorText,
}

impl<R: Read> Read for Fused<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        let outcome = reader.read(buffer);
        if outcome.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            self.reader = None;
        }
        outcome.map_err(self.error)
    }
}
