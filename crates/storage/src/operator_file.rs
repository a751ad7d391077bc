//! Files that a configuration names: tokens, certificates, models, the configuration itself.
//!
//! A name may be wrong, and a process that serves reads some of these files again. So nothing here
//! waits for the writer of a pipe, or fills the memory with a device or a huge file.

use std::fs::{File, FileType};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Reads a regular file of at most `bytes_max` bytes. Links are followed.
///
/// # Errors
/// The file cannot be read, is not a regular file, or has more bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Otherwise opening a pipe waits until somebody writes to it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let why = format!("it is {}, and only a regular file is read", name(kind));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= bytes_max {
        return Ok(bytes);
    }
    let why = format!("it has more than {bytes_max} bytes");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// The same, of text.
///
/// # Errors
/// As [`read`], and bytes that are not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

fn name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 10;

    #[test]
    fn a_regular_file_within_the_limit_is_read_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for length in [0, MAX] {
            let text = "x".repeat(usize::try_from(length).unwrap());
            write(&file, text.as_bytes());
            assert_eq!(read_text(&link, MAX).unwrap(), text);
        }
        write(&file, &[b'x'; 11]);
        assert_eq!(read(&file, MAX).unwrap_err().to_string(), "it has more than 10 bytes");
        write(&file, b"\xff");
        assert_eq!(read_text(&file, MAX).unwrap_err().to_string(), "it is not UTF-8");
        let missing = read(&folder.path().join("none"), MAX).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn anything_else_is_refused_by_its_name_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0)
            .unwrap();
        for (path, name) in [
            (pipe.as_path(), "a pipe"),
            (folder.path(), "a directory"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let refused = read(path, MAX).unwrap_err().to_string();
            assert_eq!(refused, format!("it is {name}, and only a regular file is read"));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a file of a test")]
    fn write(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
    }
}
