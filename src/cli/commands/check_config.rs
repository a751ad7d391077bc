//! `check-config`: whether the configuration is right, and what is in effect.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use nearprint_engine::directory_file::DirectoryFile;

use crate::cli::configuration::{load, serve_error};
use crate::config::Sources;
use crate::server;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckConfigArgs {
    /// The configuration file; without it the defaults and the environment are checked
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: &CheckConfigArgs, out: &mut dyn Write) -> Result<()> {
    let (config, settings) = load(&Sources::of_process(args.config.clone()))?;
    server::check(&settings.server).map_err(serve_error)?;
    if DirectoryFile::read_at(&settings.engine.data).is_some() {
        let data = settings.engine.data.display();
        writeln!(out, "# data.recipe and data.distance_max are those of the directory {data}")?;
    }
    write!(out, "{}", config.effective())?;
    Ok(())
}
