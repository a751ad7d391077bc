//! The outputs of a command, checked before it does any work.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nearprint_files::destination::{Destination, NamedOutput, check_outputs};

use super::error_report::ErrorReport;

/// Where each output goes. An output that cannot be written, or would destroy an input or another
/// output, is refused.
///
/// # Errors
/// The first output of this kind, as an invalid argument.
pub(super) fn checked(outputs: &[NamedOutput<'_>], inputs: &[PathBuf]) -> Result<Vec<Destination>> {
    check_outputs(outputs, inputs).map_err(|bad| ErrorReport::usage(bad.what, bad.next).into())
}

/// The same for the file of one option, which must be a regular one.
///
/// # Errors
/// As above.
pub(super) fn check_file(option: &'static str, path: &Path, inputs: &[PathBuf]) -> Result<()> {
    let destinations = checked(&[(option, path)], inputs)?;
    if destinations.iter().all(|one| matches!(one, Destination::File(_))) {
        return Ok(());
    }
    let what = format!("{option} {} is not a regular file", path.display());
    Err(ErrorReport::usage(what, "name a file").into())
}
