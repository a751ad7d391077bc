//! The outputs of a command, checked before it does any work.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
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

/// The error of an output that must be whole. It says so if the output's reader has left. An error
/// with advice stays as it is: a service may have closed its connection.
pub(super) fn cut_short(path: &Path, error: Error) -> Error {
    let has_advice = error.chain().any(<dyn std::error::Error>::is::<ErrorReport>);
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if has_advice || !error.chain().filter_map(|cause| cause.downcast_ref()).any(is_closed) {
        return error;
    }
    let name = if path == Path::new("-") {
        "the standard output".into()
    } else {
        path.display().to_string()
    };
    let next = "run it again, with a reader that reads to the end";
    ErrorReport::new(format!("{name} is cut short: its reader has left"), next)
        .because(error)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_output_is_cut_short() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let cut = cut_short(Path::new("-"), Error::from(closed()).context("cannot write"));
        assert!(cut.to_string().starts_with("the standard output is cut short"), "{cut}");
        let report = ErrorReport::new("no answer from a service", "start one").because(closed());
        let kept = cut_short(Path::new("-"), report.into());
        assert_eq!(kept.to_string(), "no answer from a service");
    }
}
