//! `serve`: the service itself.

use std::path::PathBuf;

use anyhow::Result;

use crate::cli::commands::check_config;
use crate::cli::trouble::Trouble;
use crate::config::Sources;
use crate::server::{self, ServeError};

/// The arguments of `serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:7878]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The data directory [default: ./nearprint-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A configuration file; `config/default.toml` explains every key
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut sources = Sources::of_process(args.config);
    sources.listen = args.listen;
    sources.data = args.data;
    let settings = check_config::load(&sources)?.validated()?;
    server::serve(settings).map_err(|error| with_advice(error).into())
}

/// Says what to do about a service that does not run.
pub(crate) fn with_advice(error: ServeError) -> Trouble {
    let next = match &error {
        ServeError::Runtime(_) => "look at the limits of this process: ulimit -a",
        ServeError::Listen { .. } => "choose another address: --listen 127.0.0.1:PORT",
        ServeError::Access(_) => {
            "make a token and its line with `nearprint token`; config/default.toml explains [access]"
        }
        ServeError::Tls(_) => {
            "name a certificate and its key, both PEM: server.tls_certificate_file, server.tls_key_file"
        }
        ServeError::Open(_) => {
            "if another process uses the directory, stop it, or choose another one: --data DIR"
        }
        ServeError::StorageFailed => {
            "look at the disk, then start the service again: it recovers what was answered"
        }
    };
    Trouble::new("the service does not run", next).because(error)
}
