//! What is copied, and where to: one file, or a folder with a file for each input.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nearprint_files::dedup::layout::Layout;
use nearprint_files::dedup::layout::mark::{has_fields, repeated_field};
use nearprint_files::dedup::outputs::{Names, Outputs};
use nearprint_files::{Format, ReadOptions, files, is_stream};

use super::args::DedupArgs;
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;

/// Where the copy goes.
#[derive(Debug)]
pub(super) enum Target {
    File(PathBuf, (Format, Layout)),
    Folder(PathBuf, Names),
}

struct Input {
    path: PathBuf,
    /// Its name in a folder of copies.
    name: PathBuf,
    format: Format,
}

impl Target {
    /// What the arguments say, after a look at every input; `None` if nothing is to be copied.
    ///
    /// # Errors
    /// There can be no such copy.
    pub(super) fn of(args: &DedupArgs, options: &ReadOptions) -> Result<Option<Self>> {
        let Some(output) = &args.output else { return Ok(None) };
        let is_folder = output.as_os_str().as_encoded_bytes().ends_with(b"/") || output.is_dir();
        if let Some(stream) = args.paths.iter().find(|path| is_folder && is_stream(path)) {
            let what = format!(
                "{} is a stream, so its copy would have no file name in the folder",
                name_of(stream)
            );
            return Err(usage(what, "name a file for the copy: -o FILE"));
        }
        let inputs = inputs(args, options)?;
        let fieldless = inputs.iter().find(|input| args.mark && !has_fields(input.format));
        if let Some(input) = fieldless {
            let what = format!("{}: --mark adds fields, and its records have none", shown(input));
            return Err(usage(what, "leave out --mark, or use --groups FILE"));
        }
        if let Some(what) = args.mark.then(|| repeated(&inputs, options)).flatten() {
            return Err(usage(what, "rename it, or leave out --mark and use --groups FILE"));
        }
        if args.revisit && inputs.iter().any(|input| input.format != Format::Warc) {
            let what = "--revisit is for web archives, and not all of the files are such";
            return Err(usage(what.to_owned(), "leave it out, or name the archives alone"));
        }
        if is_folder {
            into_folder(output, inputs)
        } else {
            into_file(output, &inputs, (args.mark, options))
        }
        .map(Some)
    }

    /// Begins the copy.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn open(self, is_marked: bool, options: &ReadOptions) -> io::Result<Outputs> {
        match self {
            Self::File(path, columns) => Outputs::in_file(&path, columns, is_marked),
            Self::Folder(path, names) => {
                Outputs::in_folder(&path, (names, options.clone()), is_marked)
            }
        }
    }
}

/// Why marks cannot be added to the records of a file.
fn repeated(inputs: &[Input], options: &ReadOptions) -> Option<String> {
    inputs.iter().find_map(|input| {
        let field = repeated_field(&input.path, input.format, options)?;
        Some(format!("{} already has a field `{field}`, which --mark would add", shown(input)))
    })
}

fn usage(what: String, next: &str) -> anyhow::Error {
    ErrorReport::usage(what, next).into()
}

fn shown(input: &Input) -> String {
    name_of(&input.path)
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") {
        "the standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// All files that are read.
fn inputs(args: &DedupArgs, options: &ReadOptions) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for path in &args.paths {
        if path.is_dir() {
            inputs.extend(files(path).into_iter().map(|(file, format)| {
                let name = file.strip_prefix(path).unwrap_or(&file).to_owned();
                Input { name, path: file, format }
            }));
            continue;
        }
        if is_empty(path, options)? {
            continue;
        }
        let format = options.format_of(path).map_err(|bad| {
            let next = "look at its name; --format names a format that is not found";
            ErrorReport::new(format!("{} cannot be read", name_of(path)), next).because(bad)
        })?;
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        inputs.push(Input { path: path.clone(), name, format });
    }
    Ok(inputs)
}

/// Whether a file has no bytes, and so no format and no records.
fn is_empty(path: &Path, options: &ReadOptions) -> io::Result<bool> {
    let metadata = match options.saved.get(path) {
        Some(file) => file.metadata(),
        None => path.metadata(),
    };
    let metadata = metadata
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(metadata.len() == 0)
}

fn into_file(
    output: &Path,
    inputs: &[Input],
    (is_marked, options): (bool, &ReadOptions),
) -> Result<Target> {
    let mut known: Option<Format> = None;
    for input in inputs {
        if input.format == Format::Document {
            let what = format!("{} is one document, and has no records to copy", shown(input));
            let next = "copy into a folder, with a slash at its end: -o FOLDER/";
            return Err(usage(what, next));
        }
        if known.replace(input.format).is_some_and(|known| known != input.format) {
            let what = format!("{} has another format than the files before it", shown(input));
            return Err(usage(what, "copy into a folder, with a slash at its end: -o FOLDER/"));
        }
    }
    let Some(format) = known else {
        let next = "name files with documents";
        let report = ErrorReport::new("nothing was read: there is no file", next);
        return Err(report.with_code(exit_code::NOTHING_READ).into());
    };
    if !format.fits_name(output) {
        let name = output.display();
        let what =
            format!("{name} has the ending of another format than the files, which it keeps");
        return Err(usage(what, "give it the ending that the files have"));
    }
    let paths: Vec<PathBuf> = inputs.iter().map(|input| input.path.clone()).collect();
    let layout = Layout::of(&paths, (format, is_marked), options).map_err(|fault| {
        let [one, other] = fault.files.each_ref().map(|path| name_of(path));
        let what = format!("{one} and {other} do not fit into one table");
        let next = "copy into a folder, with a slash at its end: -o FOLDER/";
        ErrorReport::new(what, next).because(fault)
    })?;
    Ok(Target::File(output.to_owned(), (format, layout)))
}

fn into_folder(output: &Path, inputs: Vec<Input>) -> Result<Target> {
    if output.exists() {
        let what = format!("{} exists already", output.display());
        return Err(usage(what, "name a folder that does not, or remove it first"));
    }
    let (mut taken, mut names) = (BTreeSet::new(), Names::new());
    for input in inputs {
        if !taken.insert(input.name.clone()) {
            let what =
                format!("two files would have the name {} in the copy", input.name.display());
            return Err(usage(what, "copy them one after the other, into different folders"));
        }
        names.insert(input.path, (input.name, input.format));
    }
    Ok(Target::Folder(output.to_owned(), names))
}
