//! Where the outputs of a command go, and what they must not overwrite.
//!
//! An output is a regular file, which is replaced once the new one is whole, or something that is
//! open already: the standard output, a pipe, a terminal, `/dev/null`. All outputs of a command are
//! checked here before it does any work.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// The most links that lead to a file that is not there yet, as in Linux.
const LINKS_MAX: usize = 40;

/// What the path of an output leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `-`, or another name of what the standard output is.
    StandardOutput,
    /// A pipe or a character device, which is written straight.
    Stream(PathBuf),
    /// A regular file, there or not. Links are followed: this path is that of the file itself.
    File(PathBuf),
}

/// An output that cannot be written, or would destroy something.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct BadOutput {
    /// What is wrong, with the option and the path.
    pub what: String,
    /// What to do about it.
    pub next: &'static str,
}

/// A file, whatever its names.
type Identity = (u64, u64);

impl Destination {
    /// What a path leads to.
    ///
    /// # Errors
    /// It is a folder or a block device, or its folder does not exist.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::StandardOutput);
        }
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return new_file(path).map(Self::File);
            }
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        if is_standard_output(&metadata) {
            Ok(Self::StandardOutput)
        } else if kind.is_file() {
            fs::canonicalize(path).map(Self::File)
        } else if kind.is_fifo() || kind.is_char_device() {
            Ok(Self::Stream(path.to_owned()))
        } else if kind.is_dir() {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"))
        } else {
            Err(io::Error::other("it is neither a regular file nor a pipe"))
        }
    }
}

/// Where a file is to be created, at the end of any links that lead nowhere.
fn new_file(path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is the name of a folder"));
    }
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.exists() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its folder does not exist"));
        }
        let folder = fs::canonicalize(folder)?;
        let Some(name) = path.file_name() else { break };
        let found = folder.join(name);
        match fs::read_link(&found) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(found),
        }
    }
    Err(io::Error::other("it is not the name of a file"))
}

/// Whether a path leads to what the standard output is: `/dev/stdout`, or the file that a shell has
/// opened for it. What is written to `/dev/null` is the same wherever it comes from.
fn is_standard_output(metadata: &Metadata) -> bool {
    let out = io::stdout();
    if metadata.file_type().is_char_device() && !out.is_terminal() {
        return false;
    }
    opened(&out).is_some_and(|own| identity(&own) == identity(metadata))
}

fn opened(stream: &impl AsFd) -> Option<Metadata> {
    File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The identity of a file or pipe, which must not be input and output at once; devices and sockets
/// may be.
fn own_identity(metadata: &Metadata) -> Option<Identity> {
    let kind = metadata.file_type();
    (kind.is_file() || kind.is_fifo()).then(|| identity(metadata))
}

/// An output of a command: the option that names it, and its path.
pub type NamedOutput<'a> = (&'static str, &'a Path);

struct Checked<'a> {
    option: &'static str,
    path: &'a Path,
    destination: Destination,
    /// `None` for what does not exist, and for devices.
    identity: Option<Identity>,
}

/// Refuses outputs of a command that cannot be written, that are inputs or lie in a folder that is
/// read, and those that would overwrite one another. Looks at the metadata of all inputs.
///
/// # Errors
/// [`BadOutput`], for the first of them.
pub fn check_outputs(
    outputs: &[NamedOutput<'_>],
    inputs: &[PathBuf],
) -> Result<Vec<Destination>, BadOutput> {
    let mut checked: Vec<Checked<'_>> = Vec::new();
    for &(option, path) in outputs {
        let one = Checked::of(option, path)?;
        if let Some(other) = checked.iter().find(|other| other.is_same(&one)) {
            let what = format!("{option} and {} would both be {}", other.option, path.display());
            return Err(BadOutput { what, next: "give each output a name of its own" });
        }
        checked.push(one);
    }
    for input in inputs {
        check_input(&checked, input)?;
    }
    Ok(checked.into_iter().map(|one| one.destination).collect())
}

impl<'a> Checked<'a> {
    fn of(option: &'static str, path: &'a Path) -> Result<Self, BadOutput> {
        let destination = Destination::of(path).map_err(|error| BadOutput {
            what: format!("{option} {} cannot be written: {error}", path.display()),
            next: "name a file in a folder that exists, a pipe, or - for the standard output",
        })?;
        let metadata = match &destination {
            Destination::StandardOutput => opened(&io::stdout()),
            Destination::Stream(path) | Destination::File(path) => fs::metadata(path).ok(),
        };
        let identity = metadata.as_ref().and_then(own_identity);
        Ok(Self { option, path, destination, identity })
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_stream = matches!(self.destination, Destination::Stream(_));
        self.destination == other.destination && !is_stream
            || self.identity.is_some() && self.identity == other.identity
    }

    fn is_input(&self, input: &Path) -> BadOutput {
        let (option, path) = (self.option, self.path.display());
        let what = if input == Path::new("-") {
            format!("{option} {path} is what the standard input reads")
        } else {
            format!("{option} {path} is the input {}", input.display())
        };
        BadOutput { what, next: "name another file" }
    }
}

fn check_input(outputs: &[Checked<'_>], input: &Path) -> Result<(), BadOutput> {
    let metadata =
        if input == Path::new("-") { opened(&io::stdin()) } else { input.metadata().ok() };
    // What does not exist is reported when it is read.
    let Some(metadata) = metadata else { return Ok(()) };
    if metadata.is_dir() {
        return check_folder(outputs, input);
    }
    let own = own_identity(&metadata);
    let same = outputs.iter().find(|output| own.is_some() && output.identity == own);
    same.map_or(Ok(()), |output| Err(output.is_input(input)))
}

fn check_folder(outputs: &[Checked<'_>], folder: &Path) -> Result<(), BadOutput> {
    if let Ok(canonical) = fs::canonicalize(folder) {
        let is_within = |output: &&Checked<'_>| match &output.destination {
            Destination::File(path) => path.starts_with(&canonical),
            Destination::StandardOutput | Destination::Stream(_) => false,
        };
        if let Some(output) = outputs.iter().find(is_within) {
            let (option, path) = (output.option, output.path.display());
            let what = format!("{option} {path} lies in {}, which is read", folder.display());
            return Err(BadOutput { what, next: "name a file outside the folders that are read" });
        }
    }
    if outputs.iter().all(|output| output.identity.is_none()) {
        return Ok(());
    }
    // A file of the folder may have another name outside.
    for file in WalkDir::new(folder).follow_root_links(true).into_iter().filter_map(Result::ok) {
        let own = file.metadata().ok().and_then(|metadata| own_identity(&metadata));
        if let Some(output) = outputs.iter().find(|one| own.is_some() && one.identity == own) {
            return Err(output.is_input(file.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::os::unix::fs::symlink;

    use super::*;

    fn laid_out() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("in/deep")).unwrap();
        for name in ["a", "b", "in/deep/c"] {
            fs::write(root.path().join(name), name).unwrap();
        }
        root
    }

    #[test]
    fn a_path_leads_to_a_file_a_stream_or_nowhere() {
        let root = laid_out();
        let at = |name: &str| root.path().join(name);
        let real = fs::canonicalize(root.path()).unwrap();
        symlink("a", at("link")).unwrap();
        symlink("in/new", at("dangling")).unwrap();
        symlink("round", at("round")).unwrap();
        let of = |name: &str| Destination::of(&at(name)).ok();
        let file = |name: &str| Some(Destination::File(real.join(name)));
        assert_eq!(of("a"), file("a"));
        assert_eq!(of("link"), file("a"));
        assert_eq!(of("in/../new"), file("new"));
        assert_eq!(of("dangling"), file("in/new"));
        for wrong in ["in", "round", "missing/a", "new/", "a/b", ".."] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(Destination::of(Path::new("-")).unwrap(), Destination::StandardOutput);
        let null = Path::new("/dev/null");
        assert_eq!(Destination::of(null).unwrap(), Destination::Stream(null.to_owned()));
    }

    #[test]
    fn outputs_over_inputs_and_over_one_another_are_refused() {
        let root = laid_out();
        let at = |name: &str| root.path().join(name);
        symlink(at("a"), at("soft")).unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        fs::hard_link(at("in/deep/c"), at("hard-c")).unwrap();
        symlink(at("in"), at("folder")).unwrap();
        symlink(at("new"), at("to-new")).unwrap();
        let check = |outputs: [&str; 2], inputs: &[&str]| {
            let outputs = outputs.map(at);
            let named = [("--one", &*outputs[0]), ("--other", &*outputs[1])];
            let inputs: Vec<PathBuf> = inputs.iter().map(|name| at(name)).collect();
            check_outputs(&named, &inputs).err().map(|bad| bad.what)
        };
        for (outputs, inputs, why) in [
            (["new", "a"], &["b", "a"][..], "is the input"),
            (["soft", "new"], &["a"], "is the input"),
            (["hard", "new"], &["a"], "is the input"),
            (["a", "new"], &["soft"], "is the input"),
            (["hard-c", "new"], &["in"], "is the input"),
            (["in/deep/c", "new"], &["folder"], "lies in"),
            (["folder/new", "new"], &["in"], "lies in"),
            (["new", "new"], &[], "would both be"),
            (["new", "to-new"], &[], "would both be"),
            (["a", "hard"], &[], "would both be"),
            (["new", "in"], &[], "is a folder"),
        ] {
            let refused = check(outputs, inputs).unwrap_or_default();
            assert!(refused.contains(why), "{outputs:?} {inputs:?}: {refused}");
        }
        assert_eq!(check(["new", "b"], &["a", "in", "missing"]), None);
        let null = ("--one", Path::new("/dev/null"));
        assert!(check_outputs(&[null, null], &[PathBuf::from("/dev/null")]).is_ok());
    }
}
