//! `check-config`: whether the configuration is right, and what is in effect.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use nearprint_engine::directory_file::DirectoryFile;

use crate::cli::configuration::{load, serve_error};
use crate::config::{DEFAULT_TOML, Sources};
use crate::server;

const EXAMPLES: &str = "\
Examples:
  nearprint check-config --config nearprint.toml
  nearprint check-config --defaults > nearprint.toml";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckConfigArgs {
    /// The configuration file; without it the defaults and the environment are checked
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the commented file of all keys with their defaults, and check nothing
    #[arg(long, conflicts_with = "config")]
    defaults: bool,
}

pub(crate) fn run(args: &CheckConfigArgs, out: &mut dyn Write) -> Result<()> {
    if args.defaults {
        write!(out, "{DEFAULT_TOML}")?;
        return Ok(());
    }
    let (config, settings) = load(&Sources::of_process(args.config.clone()))?;
    server::check(&settings.server).map_err(serve_error)?;
    if DirectoryFile::read_at(&settings.engine.data).is_some() {
        let data = settings.engine.data.display();
        writeln!(out, "# data.recipe and data.distance_max are those of the directory {data}")?;
    }
    write!(out, "{}", config.effective())?;
    Ok(())
}
