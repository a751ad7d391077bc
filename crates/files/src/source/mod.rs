//! Opens a file or the standard input, and decompresses it.

mod charset;
mod compression;
mod gzip;
mod stream;
mod window;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use charset::Charset;
pub(super) use compression::{ByteSource, decompressed};
pub use stream::{SavedStreams, is_stream, stream_named_twice};
pub(super) use window::Window;

use compression::BUFFER_BYTES;

/// The number of bytes read so far, before decompression. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds to the count.
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Opens `path`; `-` is the standard input. Of a stream that was saved, what came from it.
///
/// # Errors
/// The file cannot be read.
pub(super) fn open(path: &Path, saved: &SavedStreams, bytes: &BytesRead) -> io::Result<ByteSource> {
    let raw = saved.open(path)?;
    let counted = Counted { raw, bytes: bytes.clone(), failed: false };
    decompressed(BufReader::with_capacity(BUFFER_BYTES, counted))
}

/// Opens a file without decompressing it.
///
/// # Errors
/// The file cannot be read.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of the user; only the data directory goes through storage::disk"
)]
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

struct Counted<R> {
    raw: R,
    bytes: BytesRead,
    failed: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed {
            // It may fail for ever.
            return Ok(0);
        }
        let outcome = self.raw.read(buffer);
        match &outcome {
            Ok(count) => self.bytes.add(*count),
            Err(error) => self.failed = error.kind() != io::ErrorKind::Interrupted,
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::io::{BufRead as _, Write as _};

    use bzip2::write::BzEncoder;
    use flate2::write::GzEncoder;
    use lzma_rust2::{XzOptions, XzWriter};

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read(packed: &[u8]) -> (Vec<u8>, BytesRead) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no-extension");
        std::fs::write(&path, packed).unwrap();
        let (mut content, bytes) = (Vec::new(), BytesRead::default());
        open(&path, &SavedStreams::default(), &bytes).unwrap().read_to_end(&mut content).unwrap();
        (content, bytes)
    }

    #[test]
    fn compression_is_recognised_by_its_bytes_and_counted_as_it_is_on_disk() {
        let content = b"nearly the same ".repeat(99_999);
        let (first, last) = content.split_at(777_777);
        let mut bzip2 = BzEncoder::new(Vec::new(), bzip2::Compression::default());
        bzip2.write_all(&content).unwrap();
        let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        xz.write_all(&content).unwrap();
        let skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
        let zstd = |content: &[u8]| zstd::encode_all(content, 3).unwrap();
        for (name, packed) in [
            ("gzip", gzip(&content)),
            ("gzip of two members", [gzip(first), gzip(last)].concat()),
            ("gzip with zeros behind it", [&gzip(&content)[..], &[0; 999]].concat()),
            ("zstd", zstd(&content)),
            ("zstd of two frames", [&zstd(first)[..], skippable, &zstd(last)].concat()),
            ("zstd behind a skippable frame", [&skippable[..], &zstd(&content)].concat()),
            ("bzip2", bzip2.finish().unwrap()),
            ("xz", xz.finish().unwrap()),
        ] {
            let (read, bytes) = read(&packed);
            assert!(read == content, "{name}");
            assert_eq!(bytes.get(), packed.len() as u64, "{name}");
        }
    }

    #[test]
    fn a_window_above_the_limit_is_refused_with_a_remedy() {
        let of = |log| {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            encoder.write_all(b"a text").unwrap();
            let packed: &'static [u8] = encoder.finish().unwrap().leak();
            let mut content = Vec::new();
            decompressed(packed).unwrap().read_to_end(&mut content).map(|_| content)
        };
        assert_eq!(of(27).unwrap(), b"a text");
        let refused = of(28).unwrap_err().to_string();
        assert!(refused.contains("zstd -dc --long=31 FILE | nearprint ... -"), "{refused}");
    }

    #[test]
    fn what_comes_before_a_cut_is_read() {
        // Equally dense everywhere.
        let word =
            |n: u64| format!("{:016x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
        let content: Vec<u8> = (0..100_000).flat_map(|n| word(n * n).into_bytes()).collect();
        let mut bzip2 = BzEncoder::new(Vec::new(), bzip2::Compression::default());
        bzip2.write_all(&content).unwrap();
        let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        xz.write_all(&content).unwrap();
        for (name, packed, unit) in [
            ("gzip", gzip(&content), 1 << 10),
            ("zstd", zstd::encode_all(&content[..], 3).unwrap(), 128 << 10),
            ("bzip2", bzip2.finish().unwrap(), 900_000),
            // Chunks of at most 64 KiB before decompression.
            ("xz", xz.finish().unwrap(), 512 << 10),
        ] {
            let cut = packed.len() * 3 / 4;
            let mut read = Vec::new();
            let cut: &'static [u8] = packed[..cut].to_vec().leak();
            assert!(decompressed(cut).unwrap().read_to_end(&mut read).is_err(), "{name}");
            assert!(content.starts_with(&read), "{name}");
            let least = content.len() * 3 / 4 - content.len() / 20 - unit;
            assert!(read.len() > least, "{name}: {} of {}", read.len(), content.len());
        }
    }

    #[test]
    fn a_dictionary_in_front_of_frames_is_used_whether_compressed_or_not() {
        let sample =
            b"WARC/1.1\r\nWARC-Type: response\r\nContent-Type: application/http\r\n".repeat(9);
        let mut encoder = zstd::Encoder::with_dictionary(Vec::new(), 3, &sample).unwrap();
        encoder.write_all(&sample).unwrap();
        let frame = encoder.finish().unwrap();
        for dictionary in [sample.clone(), zstd::encode_all(&sample[..], 3).unwrap()] {
            let length = u32::try_from(dictionary.len()).unwrap().to_le_bytes();
            let packed = [b"\x5d\x2a\x4d\x18", &length[..], &dictionary, &frame, &frame].concat();
            assert_eq!(read(&packed).0, sample.repeat(2));
        }
        let endless = open_bytes(b"\x5d\x2a\x4d\x18\xff\xff\xff\xff").err().unwrap().to_string();
        assert!(endless.contains("longer than 16 MiB"), "{endless}");
        let cut = open_bytes(b"\x5d\x2a\x4d\x18\xff\0\0\0abc").err().unwrap().to_string();
        assert!(cut.contains("in the middle of its dictionary"), "{cut}");
    }

    fn open_bytes(bytes: &'static [u8]) -> io::Result<ByteSource> {
        decompressed(bytes)
    }

    #[test]
    fn reading_goes_on_behind_a_broken_member_of_gzip() {
        let members = [b"one".repeat(999), b"two".repeat(999), b"three".repeat(999)];
        let mut packed: Vec<Vec<u8>> = members.iter().map(|content| gzip(content)).collect();
        let middle = packed[1].len() / 2;
        packed[1].truncate(middle);
        let (mut content, mut errors) = (Vec::new(), 0);
        let mut source = open_bytes(packed.concat().leak()).unwrap();
        loop {
            match source.fill_buf() {
                Ok([]) => break,
                Ok(data) => {
                    content.extend_from_slice(data);
                    let length = data.len();
                    source.consume(length);
                }
                Err(_) => errors += 1,
            }
        }
        assert_eq!(errors, 1);
        assert!(content.starts_with(&members[0]) && content.ends_with(&members[2]));
    }

    #[test]
    fn a_source_that_is_cut_off_fails_once_and_ends() {
        let content: Vec<u8> = (0..99_999_u32).flat_map(u32::to_le_bytes).collect();
        let mut xz = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
        xz.write_all(&content).unwrap();
        for mut packed in
            [gzip(&content), zstd::encode_all(&content[..], 3).unwrap(), xz.finish().unwrap()]
        {
            packed.truncate(packed.len() / 2);
            let mut source = open_bytes(packed.leak()).unwrap();
            let mut content = Vec::new();
            assert!(source.read_to_end(&mut content).is_err());
            assert_eq!(source.read_to_end(&mut content).unwrap(), 0, "it has ended");
        }
    }
}
