//! The summary of a run, for people.

use std::io::{self, Write};
use std::path::Path;

use nearprint_files::dedup::copy::Copied;
use nearprint_files::dedup::outputs::WrittenFiles;
use nearprint_files::dedup::report::{Largest, Report};

use crate::cli::measure::numbers::{bytes, count, ratio};
use crate::cli::printable::printable;

/// What was copied, and where to.
pub(super) struct CopySummary<'a> {
    pub(super) path: &'a Path,
    pub(super) is_marked: bool,
    pub(super) copied: Copied,
    pub(super) written: WrittenFiles,
}

/// Shows what was found, and what was copied.
pub(super) fn show(
    report: &Report,
    copy: Option<&CopySummary<'_>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let part = |of: u64, all: u64| 100.0 * ratio(of, all.max(1));
    let dropped = part(report.dropped, report.documents);
    let saved = part(report.dropped_bytes, report.content_bytes);
    let mut row = |name: &str, number, what: String| show_row(out, (name, number), &what);
    row("documents", report.documents, String::new())?;
    row("groups", report.groups, format!("with {} documents", count(report.in_groups)))?;
    if report.partly_compared > 0 {
        let what = "fingerprints were compared in part, and may belong to larger groups".to_owned();
        row("", report.partly_compared, what)?;
    }
    let content = bytes(report.dropped_bytes);
    let what =
        format!("{dropped:.1} % of the documents, {content} ({saved:.1} %) of their content");
    row("dropped", report.dropped, what)?;
    if report.in_collection > 0 {
        row("", report.in_collection, "of them are in the collection".to_owned())?;
    }
    row("kept", report.kept, String::new())?;
    if report.without_fingerprint > 0 {
        let what = "have no letter or number, and stay".to_owned();
        row("", report.without_fingerprint, what)?;
    }
    if report.failed > 0 {
        row("failed", report.failed, "could not be read".to_owned())?;
    }
    if let Some(copy) = copy {
        show_copy(copy, out)?;
    }
    show_largest(&report.largest, out)
}

fn show_row(out: &mut dyn Write, (name, number): (&str, u64), what: &str) -> io::Result<()> {
    writeln!(out, "{}", format!("{name:<12}{:>14}  {what}", count(number)).trim_end())
}

/// What the copy has.
fn show_copy(copy: &CopySummary<'_>, out: &mut dyn Write) -> io::Result<()> {
    let CopySummary { path, is_marked, copied, written } = copy;
    let what = if *is_marked { "marked documents" } else { "documents" };
    let size = bytes(written.bytes);
    let path = match *path {
        path if path == Path::new("-") => "the standard output".to_owned(),
        path => path.display().to_string(),
    };
    let files = match written.files {
        0 | 1 => String::new(),
        files => format!(", {} files", count(files)),
    };
    let what = format!("{what} in {path}, {size}{files}");
    show_row(out, ("written", copied.documents), &what)?;
    for (number, what) in [
        (copied.unreadable, "records that could not be read, copied as they are"),
        (copied.others, "other records, copied as they are"),
        (copied.revisits, "revisit records written for dropped pages"),
        (copied.dangling, "revisit records refer to dropped pages"),
    ] {
        if number > 0 {
            show_row(out, ("", number), what)?;
        }
    }
    Ok(())
}

/// The largest groups, by the names of their documents if these were kept.
fn show_largest(largest: &[Largest], out: &mut dyn Write) -> io::Result<()> {
    let sizes: Vec<String> = largest.iter().map(|group| count(group.documents)).collect();
    if !sizes.is_empty() && largest.iter().all(|group| group.original.is_none()) {
        return writeln!(out, "the largest groups have {} documents", sizes.join(", "));
    }
    for (group, size) in largest.iter().zip(sizes) {
        let name = group.original.as_deref().unwrap_or_default();
        writeln!(out, "            {size:>14}  documents are near {}", printable(name))?;
    }
    Ok(())
}
