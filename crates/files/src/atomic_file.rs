//! Files of the user that are there when they are whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use tempfile::{NamedTempFile, TempPath};

const BUFFER_BYTES: usize = 1 << 20;
const ZSTD_LEVEL: i32 = 3;

/// A file that is written as `PATH.partial` and renamed once it is whole and on the disk: after a
/// crash there is the whole of it, or what was there before. Dropped earlier, it is removed.
pub struct AtomicFile {
    path: PathBuf,
    sink: Sink,
}

type Partial = BufWriter<NamedTempFile>;

enum Sink {
    Plain(Partial),
    Gzip(Box<GzEncoder<Partial>>),
    Zstd(Box<zstd::Encoder<'static, Partial>>),
    Bzip2(Box<BzEncoder<Partial>>),
    Xz(Box<XzWriter<Partial>>),
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// Of the program `bzip2`.
    Bzip2,
    /// Of the program `xz`.
    Xz,
}

impl Compression {
    /// What the name of a file says.
    pub fn of(path: &Path) -> Option<Self> {
        match &*path.extension()?.to_str()?.to_ascii_lowercase() {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            "bz2" => Some(Self::Bzip2),
            "xz" => Some(Self::Xz),
            _ => None,
        }
    }
}

impl std::fmt::Debug for AtomicFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtomicFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AtomicFile {
    /// Begins a file. What a killed process left of it is removed, and not followed if it is a link.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, compression: Option<Compression>) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, create_partial(path)?);
        let sink = match compression {
            None => Sink::Plain(file),
            Some(Compression::Gzip) => {
                Sink::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::default())))
            }
            Some(Compression::Zstd) => Sink::Zstd(Box::new(zstd::Encoder::new(file, ZSTD_LEVEL)?)),
            Some(Compression::Bzip2) => {
                Sink::Bzip2(Box::new(BzEncoder::new(file, bzip2::Compression::default())))
            }
            Some(Compression::Xz) => Sink::Xz(Box::new(XzWriter::new(file, XzOptions::default())?)),
        };
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Makes the file whole, and gives it its name. Returns its bytes.
    ///
    /// # Errors
    /// The file cannot be written. Nothing has changed at its path then.
    pub fn finish(self) -> io::Result<u64> {
        let file = self.sink.finish()?;
        file.as_file().sync_all()?;
        let bytes = file.as_file().metadata()?.len();
        file.persist(&self.path)?;
        sync_folder(&self.path).map(|()| bytes)
    }

    fn sink(&mut self) -> &mut dyn Write {
        match &mut self.sink {
            Sink::Plain(file) => file,
            Sink::Gzip(file) => file,
            Sink::Zstd(file) => file,
            Sink::Bzip2(file) => file,
            Sink::Xz(file) => file,
        }
    }
}

impl Sink {
    fn finish(self) -> io::Result<NamedTempFile> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(file) => file.finish()?,
            Self::Zstd(file) => file.finish()?,
            Self::Bzip2(file) => file.finish()?,
            Self::Xz(file) => file.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink().flush()
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the user")]
fn create_partial(path: &Path) -> io::Result<NamedTempFile> {
    let partial = partial(path);
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(&partial)?;
    Ok(NamedTempFile::from_parts(file, TempPath::try_from_path(partial)?))
}

/// A folder of files that is there when all of them are whole. Dropped earlier, it is removed.
#[derive(Debug)]
pub(crate) struct AtomicFolder {
    path: PathBuf,
    partial: PathBuf,
    is_finished: bool,
}

impl AtomicFolder {
    /// Begins a folder. What a killed process left of it is removed.
    ///
    /// # Errors
    /// There is something at its path, or it cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // A path that ends with a slash is that of the folder.
        let path: PathBuf = path.components().collect();
        if fs::symlink_metadata(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists already"));
        }
        let partial = partial(&path);
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&partial)?;
        Ok(Self { path, partial, is_finished: false })
    }

    /// Where a file of the folder is to be written. Creates the folders on the way to it.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub(crate) fn file(&self, name: &Path) -> io::Result<PathBuf> {
        let path = self.partial.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(path)
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// It cannot be renamed, and is removed.
    #[expect(clippy::disallowed_methods, reason = "a folder of the user")]
    pub(crate) fn finish(mut self) -> io::Result<()> {
        fs::rename(&self.partial, &self.path)?;
        self.is_finished = true;
        sync_folder(&self.path)
    }
}

impl Drop for AtomicFolder {
    fn drop(&mut self) {
        if !self.is_finished {
            drop(fs::remove_dir_all(&self.partial));
        }
    }
}

fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

/// Makes the name of a file durable.
#[expect(clippy::disallowed_methods, reason = "a folder of the user")]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::io::Read as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_there_when_it_is_whole_and_not_before() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let mut file = AtomicFile::create(&path, None).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(names(root.path()), ["a.partial"]);
        drop(file);
        assert!(names(root.path()).is_empty());

        let mut file = AtomicFile::create(&path, None).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(file.finish().unwrap(), 5);
        assert_eq!(names(root.path()), ["a"]);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_link_in_the_place_of_the_partial_file_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "other"].map(|name| root.path().join(name));
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, root.path().join("a.partial")).unwrap();
        let mut file = AtomicFile::create(&path, None).unwrap();
        file.write_all(b"whole").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"kept");
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_file_is_compressed_as_its_name_says() {
        let root = tempfile::tempdir().unwrap();
        for ending in ["gz", "zst", "bz2", "xz", "txt"] {
            let path = root.path().join(format!("a.{ending}"));
            let mut file = AtomicFile::create(&path, Compression::of(&path)).unwrap();
            file.write_all(&b"the same ".repeat(99)).unwrap();
            file.finish().unwrap();
            let mut content = Vec::new();
            let packed = io::Cursor::new(fs::read(&path).unwrap());
            let mut reader: Box<dyn io::Read> = match ending {
                "gz" => Box::new(flate2::read::MultiGzDecoder::new(packed)),
                "zst" => Box::new(zstd::Decoder::new(packed).unwrap()),
                "bz2" => Box::new(bzip2::read::MultiBzDecoder::new(packed)),
                "xz" => Box::new(lzma_rust2::XzReader::new(packed, true)),
                _ => Box::new(packed),
            };
            reader.read_to_end(&mut content).unwrap();
            assert_eq!(content, b"the same ".repeat(99), "{ending}");
        }
    }

    #[test]
    fn a_folder_is_there_when_it_is_whole_and_replaces_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out/");
        let folder = AtomicFolder::create(&path).unwrap();
        fs::write(folder.file(Path::new("deep/a")).unwrap(), "a").unwrap();
        assert_eq!(names(root.path()), ["out.partial"]);
        drop(folder);
        assert!(names(root.path()).is_empty());

        let folder = AtomicFolder::create(&path).unwrap();
        fs::write(folder.file(Path::new("deep/a")).unwrap(), "a").unwrap();
        folder.finish().unwrap();
        assert_eq!(fs::read(root.path().join("out/deep/a")).unwrap(), b"a");
        assert!(AtomicFolder::create(&path).is_err());
    }
}
