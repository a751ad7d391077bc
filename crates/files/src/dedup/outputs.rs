//! Where the copies go: into one file, or into a folder with a file for each input.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic_file::AtomicFolder;
use crate::dedup::layout::{Layout, LayoutFault};
use crate::dedup::output::Output;
use crate::{Format, Place, ReadOptions};

/// For each input file: the name of its copy in the folder, and its format.
pub type Names = BTreeMap<PathBuf, (PathBuf, Format)>;

/// The copies that are being written.
#[derive(Debug)]
pub struct Outputs {
    /// `None` if there is one file, which is `current` from the start.
    folder: Option<(AtomicFolder, Names)>,
    /// How the inputs are read.
    options: ReadOptions,
    is_marked: bool,
    /// The copy of this file.
    current: Option<(Arc<Path>, Output)>,
    written: WrittenFiles,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Outputs {
    /// One file for all inputs, with these columns.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn in_file(
        path: &Path,
        (format, layout): (Format, Layout),
        is_marked: bool,
    ) -> io::Result<Self> {
        let output = Output::create(path, format, is_marked, layout)?;
        let (current, options) = (Some((path.into(), output)), ReadOptions::default());
        Ok(Self { folder: None, options, is_marked, current, written: WrittenFiles::default() })
    }

    /// A folder with a file for each input that has a remaining record.
    ///
    /// # Errors
    /// There is something at its path, or it cannot be created.
    pub fn in_folder(
        path: &Path,
        (names, options): (Names, ReadOptions),
        is_marked: bool,
    ) -> io::Result<Self> {
        let folder = Some((AtomicFolder::create(path)?, names));
        Ok(Self { folder, options, is_marked, current: None, written: WrittenFiles::default() })
    }

    /// The copy that a record of this place goes to. The places of one file come together.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn of(&mut self, place: &Place) -> io::Result<&mut Output> {
        if let Some((folder, names)) = &self.folder
            && self.current.as_ref().is_none_or(|(path, _)| *path != place.path)
        {
            let (name, format) = names.get(&*place.path).ok_or_else(changed)?;
            let (input, kind) = (place.path.to_path_buf(), (*format, self.is_marked));
            let layout = Layout::of(&[input], kind, &self.options);
            let layout = layout.map_err(|fault: LayoutFault| io::Error::other(fault))?;
            let output = Output::create(&folder.file(name)?, *format, self.is_marked, layout)?;
            let before = self.current.replace((Arc::clone(&place.path), output));
            self.written.add(before)?;
        }
        self.current.as_mut().map(|(_, output)| output).ok_or_else(changed)
    }

    /// Copies a file that is one document.
    ///
    /// # Errors
    /// The file cannot be read or written, or the copy is to be one file.
    pub fn whole(&mut self, place: &Place) -> io::Result<()> {
        let (folder, names) = self.folder.as_ref().ok_or_else(changed)?;
        let (name, _) = names.get(&*place.path).ok_or_else(changed)?;
        self.written.bytes += std::fs::copy(&place.path, folder.file(name)?)?;
        self.written.files += 1;
        Ok(())
    }

    /// Makes all files whole, and gives them their names.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(mut self) -> io::Result<WrittenFiles> {
        self.written.add(self.current.take())?;
        if let Some((folder, _)) = self.folder {
            folder.finish()?;
        }
        Ok(self.written)
    }
}

impl WrittenFiles {
    fn add(&mut self, output: Option<(Arc<Path>, Output)>) -> io::Result<()> {
        let Some((_, output)) = output else { return Ok(()) };
        self.bytes += output.finish()?;
        self.files += 1;
        Ok(())
    }
}

/// A file was not there when the inputs were listed.
fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the files have changed since they were listed")
}
