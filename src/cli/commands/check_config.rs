//! `check-config`: whether the configuration is right, and what is in effect.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::cli::commands::serve;
use crate::cli::trouble::Trouble;
use crate::config::{Config, ConfigError, Sources};

/// The arguments of `check-config`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file; without it the defaults and the environment are checked
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let config = load(&Sources::of_process(args.config.clone()))?;
    config.validated()?.server.check().map_err(serve::with_advice)?;
    write!(out, "{}", config.effective())?;
    Ok(())
}

/// Loads and checks a configuration.
pub(crate) fn load(sources: &Sources) -> Result<Config> {
    let checked = Config::load(sources).and_then(|config| config.validated().map(|_| config));
    checked.map_err(|error| {
        let next = match &error {
            ConfigError::NoTokens { .. } => {
                "make a token and its line with `nearprint token >> FILE`, and name that file: \
                 NEARPRINT_ACCESS__TOKENS_FILE=FILE; or listen on 127.0.0.1"
            }
            ConfigError::Unreadable { .. }
            | ConfigError::NotToml { .. }
            | ConfigError::UnknownKey { .. }
            | ConfigError::UnknownVariables(_)
            | ConfigError::NotUtf8 { .. }
            | ConfigError::WrongKind { .. }
            | ConfigError::Missing { .. }
            | ConfigError::OutOfRange { .. } => {
                "config/default.toml lists every key with its range"
            }
        };
        let trouble = Trouble::new("the configuration is not right", next);
        trouble.because(error).into()
    })
}
