//! Shared by the commands that work on the data directory of a stopped service.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nearprint_engine::OpenError;
use nearprint_engine::open::offline::OfflineDirectory;
use nearprint_storage::StorageError;

use super::configuration;
use super::error_report::ErrorReport;
use crate::config::Sources;

/// Which data directory.
#[derive(Debug, clap::Args)]
pub(super) struct Data {
    /// The data directory [default: that of the configuration, or ./nearprint-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration file of its service, which names the data directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What is listed of a data directory.
#[derive(Debug, clap::Args)]
pub(super) struct ListingArgs {
    #[command(flatten)]
    pub(super) data: Data,
    /// Print a JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

impl Data {
    /// Whether a flag names the directory.
    pub(super) fn is_given(&self) -> bool {
        self.data.is_some() || self.config.is_some()
    }

    /// The path of the directory, found as `nearprint serve` finds it.
    ///
    /// # Errors
    /// No flag names it, and the configuration cannot be read.
    pub(super) fn directory(&self) -> Result<PathBuf, ErrorReport> {
        if let Some(directory) = &self.data {
            return Ok(directory.clone());
        }
        configuration::merged(&Sources::of_process(self.config.clone()))
            .map(|config| config.data.directory)
    }

    /// Opens the directory and takes its lock.
    pub(super) fn open(&self) -> Result<OfflineDirectory, ErrorReport> {
        let directory = self.directory()?;
        OfflineDirectory::open(&directory).map_err(|error| {
            let is_of_other_version =
                matches!(&error, OpenError::Storage(why) if why.is_of_other_version());
            let next = if is_of_other_version {
                "use the version that made it, or name another one: --data DIR"
            } else {
                "stop the service that uses it (or export from it: nearprint snapshot export \
                 --server URL), or name another one: --data DIR"
            };
            let what = format!("cannot look at {}", directory.display());
            ErrorReport::new(what, next).because(error)
        })
    }
}

pub(super) fn damaged_files(count: usize) -> String {
    if count == 1 { "a file is damaged".to_owned() } else { format!("{count} files are damaged") }
}

/// Reports damage and the ways out of it.
pub(super) fn damage_report(data: &Data, what: String) -> ErrorReport {
    let directory = data.directory().unwrap_or_else(|_| "DIR".into());
    let directory = directory.display();
    let next = format!(
        "restore an export (nearprint snapshot restore FILE --data DIR), or see what a repair would \
         lose: nearprint repair --data {directory}"
    );
    ErrorReport::new(what, next)
}

/// A progress bar over bytes, on a terminal only.
pub(super) fn bar(doing: &'static str, bytes: u64) -> ProgressBar {
    let template = "{msg}  {bar:30} {percent:>3}%  {binary_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    bar.with_style(style.progress_chars("=> ")).with_message(doing)
}

/// A value of a file, or that the file is damaged or of another version.
pub(super) fn shown<T>(fact: &Result<T, StorageError>, show: impl FnOnce(&T) -> String) -> String {
    match fact {
        Ok(fact) => show(fact),
        Err(error) if error.is_of_other_version() => "other version".to_owned(),
        Err(_) => "damaged".to_owned(),
    }
}
