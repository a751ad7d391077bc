//! Undoes the codings of a body of HTTP: chunks, gzip, deflate, br and zstd.
//!
//! Headers lie: crawlers decode bodies and leave the headers as they were, servers name charsets
//! and other words as codings, and what comes over the network may be cut. So a coding that the
//! bytes do not have is ignored, as browsers ignore those that they do not know, and what was
//! decoded before damage is the body. Bytes that are compressed all the same are undone by their
//! first bytes.

use std::borrow::Cow;
use std::io::Read;

use brotli_decompressor::Decompressor;
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};

use super::headers::Headers;
use super::sniff;
use crate::context::too_long;
use crate::entry::DOCUMENT_BYTES_MAX;

const GZIP: &[u8] = b"\x1f\x8b\x08";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The format of the program `compress`, which is recognised and not decoded.
const COMPRESS: &[u8] = b"\x1f\x9d";

/// How many undeclared codings of a body are undone.
const HIDDEN_MAX: usize = 3;

/// A body as its author wrote it.
pub(super) struct Body<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// It ends where its coding is damaged.
    pub(super) is_cut: bool,
}

/// Undoes the codings that the headers of a response declare, and those that its body shows.
///
/// # Errors
/// A coding can be undone in no part, or the body is above the limit.
pub(super) fn undone<'a>(headers: &Headers<'_>, body: &'a [u8]) -> Result<Body<'a>, String> {
    let transfer = headers.all("transfer-encoding").unwrap_or_default().to_ascii_lowercase();
    let content = headers.all("content-encoding").unwrap_or_default().to_ascii_lowercase();
    // Many crawlers join the chunks, and leave the header as it was.
    let joined = transfer.contains("chunked").then(|| dechunked(body)).flatten();
    let (bytes, is_cut) = joined
        .map_or((Cow::Borrowed(body), false), |(joined, is_cut)| (Cow::Owned(joined), is_cut));
    let mut body = Body { bytes, is_cut };
    for coding in transfer.rsplit(',').chain(content.rsplit(',')) {
        body.undo(coding.trim())?;
    }
    for _ in 0..HIDDEN_MAX {
        match Coding::of_bytes(&body.bytes) {
            Some(Coding::Compress) | None => break,
            Some(coding) => body.decode(coding, "unnamed")?,
        }
    }
    Ok(body)
}

/// How bytes are compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zstd,
    Deflate,
    Brotli,
    Compress,
}

impl Coding {
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let known = [(GZIP, Self::Gzip), (ZSTD, Self::Zstd), (COMPRESS, Self::Compress)];
        known.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, coding)| coding)
    }
}

impl Body<'_> {
    /// Undoes the coding with this name, if it is known and the bytes may have it.
    fn undo(&mut self, name: &str) -> Result<(), String> {
        let named = match name {
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            "compress" | "x-compress" => Coding::Compress,
            _ => return Ok(()),
        };
        match (named, Coding::of_bytes(&self.bytes)) {
            (Coding::Deflate | Coding::Brotli, None) => self.decode(named, name),
            // The bytes know better than the name.
            (_, Some(shown)) => self.decode(shown, name),
            (Coding::Gzip | Coding::Zstd | Coding::Compress, None) => Ok(()),
        }
    }

    fn decode(&mut self, coding: Coding, name: &str) -> Result<(), String> {
        let (decoded, error) = match coding {
            Coding::Gzip => gzip(&self.bytes),
            Coding::Zstd => match zstd::Decoder::with_buffer(&self.bytes[..]) {
                Ok(decoder) => read_all(decoder),
                Err(error) => (Vec::new(), Some(error.to_string())),
            },
            Coding::Deflate => deflate(&self.bytes),
            Coding::Brotli => read_all(Decompressor::new(&self.bytes[..], 4 << 10)),
            Coding::Compress => (Vec::new(), Some("the coding of compress(1)".to_owned())),
        };
        if decoded.len() > DOCUMENT_BYTES_MAX {
            return Err(too_long());
        }
        let is_hidden = matches!(coding, Coding::Deflate | Coding::Brotli);
        let is_smaller = decoded.len() < self.bytes.len();
        if is_hidden && (error.is_some() || is_smaller) && !sniff::is_binary(&self.bytes) {
            // It is text: somebody has decoded it before.
            return Ok(());
        }
        if let Some(why) = error {
            if decoded.is_empty() || is_hidden && sniff::is_binary(&decoded) {
                return Err(format!("its content encoding {name:?} cannot be undone: {why}"));
            }
            self.is_cut = true;
        }
        self.bytes = Cow::Owned(decoded);
        Ok(())
    }
}

/// Decompresses all members; what follows the last one does not belong to the body.
fn gzip(mut bytes: &[u8]) -> (Vec<u8>, Option<String>) {
    let mut decoded = Vec::new();
    while bytes.starts_with(GZIP) && decoded.len() <= DOCUMENT_BYTES_MAX {
        let mut decoder = GzDecoder::new(bytes);
        let (member, error) = read_all(&mut decoder);
        decoded.extend_from_slice(&member);
        if error.is_some() {
            return (decoded, error);
        }
        bytes = decoder.into_inner();
    }
    (decoded, None)
}

/// With the header of zlib, or the bare stream that some servers send.
fn deflate(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
    let has_header = matches!(bytes, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0);
    let zlib = has_header.then(|| read_all(ZlibDecoder::new(bytes)));
    match zlib {
        Some((decoded, error)) if error.is_none() || !decoded.is_empty() => (decoded, error),
        _ => read_all(DeflateDecoder::new(bytes)),
    }
}

/// Decodes up to one byte above the limit; also returns why the output is not complete.
fn read_all(decoder: impl Read) -> (Vec<u8>, Option<String>) {
    let mut decoded = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    let error = decoder.take(limit).read_to_end(&mut decoded).err();
    (decoded, error.map(|error| error.to_string()))
}

/// Joins chunks; also returns whether the last one is cut. `None` if there are no chunks.
fn dechunked(body: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut body = body.trim_ascii_start();
    let mut joined = Vec::with_capacity(body.len());
    let mut is_first = true;
    while !body.is_empty() {
        let Some((size, rest)) = chunk_size(body) else {
            return (!is_first).then_some((joined, true));
        };
        if size == 0 {
            return (!is_first || rest.trim_ascii().is_empty()).then_some((joined, false));
        }
        let (chunk, rest) = rest.split_at(size.min(rest.len()));
        joined.extend_from_slice(chunk);
        if chunk.len() < size {
            return Some((joined, true));
        }
        let after = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n"));
        // A text may begin with a word of hex digits.
        if is_first && after.is_none() && !rest.is_empty() {
            return None;
        }
        body = after.unwrap_or(rest);
        is_first = false;
    }
    Some((joined, false))
}

/// The size of the chunk at the start, and what follows its line.
fn chunk_size(body: &[u8]) -> Option<(usize, &[u8])> {
    let end = body.iter().position(|&byte| byte == b'\n')?;
    let digits = body[..end].split(|&byte| byte == b';').next()?.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let size = usize::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    Some((size, &body[end + 1..]))
}

#[cfg(test)]
#[path = "coding_tests.rs"]
mod tests;
