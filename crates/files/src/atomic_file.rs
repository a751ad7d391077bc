//! Files of the user that are there when they are whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use tempfile::{Builder, NamedTempFile, TempDir};

use crate::destination::Destination;

const BUFFER_BYTES: usize = 1 << 20;
const ZSTD_LEVEL: i32 = 3;

/// The end of the name of a file that is not complete yet.
const PARTIAL: &str = ".partial";
/// The random characters before that.
const RANDOM_CHARS: usize = 16;
/// How much of the name of a file begins the name of its partial file, which has at most 255 bytes.
const NAME_BYTES_MAX: usize = 200;

/// An output. A regular file is written under another name, `PATH.RANDOM.partial`, and renamed once
/// it is whole and on the disk: after a crash there is the whole of it, or what was there before.
/// Dropped earlier, it is removed. A link is not replaced, but the file that it leads to, whose
/// owner and permissions stay. The standard output, pipes and devices are written straight.
pub struct AtomicFile {
    sink: Sink,
}

type Buffered = BufWriter<Opened>;

enum Sink {
    Plain(Buffered),
    Gzip(Box<GzEncoder<Buffered>>),
    Zstd(Box<zstd::Encoder<'static, Buffered>>),
    Bzip2(Box<BzEncoder<Buffered>>),
    Xz(Box<XzWriter<Buffered>>),
}

/// Where the bytes go.
enum Opened {
    Partial { file: NamedTempFile, path: PathBuf },
    Stream { file: File, written: u64 },
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
        f.debug_struct("AtomicFile").finish_non_exhaustive()
    }
}

impl AtomicFile {
    /// Begins a file. What a killed process left of it is removed.
    ///
    /// # Errors
    /// The file cannot be created, or the stream not opened.
    pub fn create(path: &Path, compression: Option<Compression>) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, Opened::at(path)?);
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
        Ok(Self { sink })
    }

    /// Makes the file whole, and gives it its name. Returns its bytes.
    ///
    /// # Errors
    /// The file cannot be written. Nothing has changed at its path then.
    pub fn finish(self) -> io::Result<u64> {
        self.finish_if(|_| Ok(()))
    }

    /// The same, for a file that this function accepts; it gets the path under which the file is
    /// meanwhile. A stream is gone already, and is not checked.
    ///
    /// # Errors
    /// The file cannot be written, or is not accepted. Nothing has changed at its path then.
    pub fn finish_if<E: From<io::Error>>(
        self,
        check: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<u64, E> {
        match self.sink.finish()? {
            Opened::Stream { written, .. } => Ok(written),
            Opened::Partial { file, path } => {
                file.as_file().sync_all()?;
                check(file.path())?;
                let bytes = file.as_file().metadata()?.len();
                if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file()) {
                    let why = format!("{} is not a regular file any more", path.display());
                    return Err(io::Error::other(why).into());
                }
                file.persist(&path).map_err(io::Error::from)?;
                sync_folder(&path)?;
                Ok(bytes)
            }
        }
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
    fn finish(self) -> io::Result<Opened> {
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

impl Opened {
    fn at(path: &Path) -> io::Result<Self> {
        let file = match Destination::of(path)? {
            Destination::StandardOutput => io::stdout().as_fd().try_clone_to_owned()?.into(),
            Destination::Stream(path) => File::options().write(true).open(path)?,
            Destination::File(path) => {
                let file = create_partial(&path)?;
                return Ok(Self::Partial { file, path });
            }
        };
        Ok(Self::Stream { file, written: 0 })
    }
}

impl Write for Opened {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Partial { file, .. } => file.write(bytes),
            Self::Stream { file, written } => {
                let count = file.write(bytes)?;
                *written += count as u64;
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Partial { file, .. } => file.flush(),
            Self::Stream { file, .. } => file.flush(),
        }
    }
}

/// Creates a file next to the one that it is to replace, and with its permissions.
fn create_partial(path: &Path) -> io::Result<NamedTempFile> {
    let (folder, name) = partial(path);
    remove_left_behind(folder, &name);
    let mut builder = Builder::new();
    builder.prefix(&name).suffix(PARTIAL).rand_bytes(RANDOM_CHARS);
    let file = builder.permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)?;
    // Locked as long as it is open: no other process takes it for what a killed one left.
    drop(file.as_file().try_lock());
    if let Ok(replaced) = fs::metadata(path) {
        // Only root may give a file away.
        drop(fchown(file.as_file(), Some(replaced.uid()), Some(replaced.gid())));
        file.as_file().set_permissions(replaced.permissions())?;
    }
    Ok(file)
}

/// The folder of a file, and how the name of its partial file begins.
fn partial(path: &Path) -> (&Path, std::ffi::OsString) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = [&name[..name.len().min(NAME_BYTES_MAX)], b"."].concat();
    (folder.unwrap_or(Path::new(".")), std::os::unix::ffi::OsStringExt::from_vec(name))
}

/// Removes the partial files and folders of a name that no process has locked. What cannot be
/// removed is left.
#[expect(clippy::disallowed_methods, reason = "a file of the user")]
fn remove_left_behind(folder: &Path, name: &std::ffi::OsStr) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let own = entry.file_name();
        let random = own.as_bytes().strip_prefix(name.as_bytes());
        let random = random.and_then(|rest| rest.strip_suffix(PARTIAL.as_bytes()));
        let is_partial = random.is_some_and(|random| {
            random.len() == RANDOM_CHARS && random.iter().all(u8::is_ascii_alphanumeric)
        });
        let kind = entry.file_type().ok().filter(|kind| is_partial && !kind.is_symlink());
        let Some(kind) = kind.filter(|kind| kind.is_file() || kind.is_dir()) else { continue };
        let path = entry.path();
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            drop(if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) });
        }
    }
}

/// A folder of files that is there when all of them are whole. Dropped earlier, it is removed.
#[derive(Debug)]
pub(crate) struct AtomicFolder {
    path: PathBuf,
    partial: TempDir,
    /// Its lock, which shows that it is being written.
    _lock: File,
}

impl AtomicFolder {
    /// Begins a folder. What a killed process left of it is removed.
    ///
    /// # Errors
    /// There is something at its path, or it cannot be created.
    #[expect(clippy::disallowed_methods, reason = "a folder of the user")]
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        // A path that ends with a slash is that of the folder.
        let path: PathBuf = path.components().collect();
        if fs::symlink_metadata(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists already"));
        }
        let (folder, name) = partial(&path);
        remove_left_behind(folder, &name);
        let mut builder = Builder::new();
        builder.prefix(&name).suffix(PARTIAL).rand_bytes(RANDOM_CHARS);
        let partial = builder.permissions(fs::Permissions::from_mode(0o777)).tempdir_in(folder)?;
        let lock = File::open(partial.path())?;
        drop(lock.try_lock());
        Ok(Self { path, partial, _lock: lock })
    }

    /// Where a file of the folder is to be written. Creates the folders on the way to it.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub(crate) fn file(&self, name: &Path) -> io::Result<PathBuf> {
        let path = self.partial.path().join(name);
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
    pub(crate) fn finish(self) -> io::Result<()> {
        fs::rename(self.partial.path(), &self.path)?;
        // There is nothing to remove under its name any more.
        drop(self.partial.keep());
        sync_folder(&self.path)
    }
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
    use std::os::unix::fs::{FileTypeExt as _, symlink};

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
        assert!(is_partial(&names(root.path()), "a."));
        drop(file);
        assert!(names(root.path()).is_empty());

        let mut file = AtomicFile::create(&path, None).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(file.finish().unwrap(), 5);
        assert_eq!(names(root.path()), ["a"]);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    /// Whether there is one file, which is not whole yet.
    fn is_partial(names: &[String], start: &str) -> bool {
        names.len() == 1 && names[0].starts_with(start) && names[0].ends_with(PARTIAL)
    }

    fn written(path: &Path, content: &str) -> io::Result<u64> {
        let mut file = AtomicFile::create(path, None)?;
        file.write_all(content.as_bytes())?;
        file.finish()
    }

    #[test]
    fn what_has_the_name_of_a_partial_file_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["other", "b.partial", "a.backup.partial"] {
            fs::write(at(name), "kept").unwrap();
        }
        symlink(at("other"), at("a.partial")).unwrap();
        symlink(at("other"), at("a.0123456789abcdef.partial")).unwrap();
        for path in [at("a"), at("b")] {
            written(&path, "whole").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"whole");
        }
        for name in ["other", "a.partial", "b.partial", "a.backup.partial"] {
            assert_eq!(fs::read(at(name)).unwrap(), b"kept", "{name}");
        }
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_another_writes_is_not() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let left = root.path().join("a.0123456789abcdef.partial");
        fs::write(&left, "a part").unwrap();
        let mut other = AtomicFile::create(&path, None).unwrap();
        assert!(!left.exists());
        written(&path, "one").unwrap();
        other.write_all(b"other").unwrap();
        other.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other");

        let left = root.path().join("out.0123456789abcdef.partial");
        fs::create_dir_all(left.join("deep")).unwrap();
        let other = AtomicFolder::create(&root.path().join("out")).unwrap();
        assert!(!left.exists());
        drop(AtomicFolder::create(&root.path().join("out")).unwrap());
        other.finish().unwrap();
    }

    #[test]
    fn a_link_stays_and_so_do_the_permissions_of_the_file_behind_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        fs::write(at("deep/file"), "before").unwrap();
        fs::set_permissions(at("deep/file"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("deep/file", at("link")).unwrap();
        symlink("deep/new", at("dangling")).unwrap();
        for (link, file) in [("link", "deep/file"), ("dangling", "deep/new")] {
            written(&at(link), "whole").unwrap();
            assert!(at(link).is_symlink());
            assert_eq!(fs::read(at(file)).unwrap(), b"whole");
        }
        let mode = fs::metadata(at("deep/file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
    }

    #[test]
    fn a_file_that_is_not_accepted_replaces_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, "before").unwrap();
        let mut file = AtomicFile::create(&path, None).unwrap();
        file.write_all(b"after").unwrap();
        let refused = file.finish_if(|path| {
            assert_eq!(fs::read(path).unwrap(), b"after");
            Err(io::Error::other("no"))
        });
        assert!(refused.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(names(root.path()), ["a"]);
        // Somebody has put a folder there meanwhile.
        let late = AtomicFile::create(&root.path().join("late"), None).unwrap();
        fs::create_dir(root.path().join("late")).unwrap();
        assert!(late.finish().is_err());
    }

    #[test]
    fn devices_are_written_straight() {
        let null = Path::new("/dev/null");
        assert_eq!(written(null, "gone").unwrap(), 4);
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
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
        assert!(is_partial(&names(root.path()), "out."));
        drop(folder);
        assert!(names(root.path()).is_empty());

        let folder = AtomicFolder::create(&path).unwrap();
        fs::write(folder.file(Path::new("deep/a")).unwrap(), "a").unwrap();
        folder.finish().unwrap();
        assert_eq!(fs::read(root.path().join("out/deep/a")).unwrap(), b"a");
        assert!(AtomicFolder::create(&path).is_err());
    }
}
