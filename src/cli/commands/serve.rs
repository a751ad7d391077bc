//! `serve`: runs the service.

use std::path::PathBuf;

use anyhow::Result;

use crate::cli::configuration::{load, serve_error};
use crate::config::Sources;
use crate::server::{Process, ServiceEnd, Settings};

const EXAMPLES: &str = "\
Examples:
  nearprint serve
  nearprint serve --listen 0.0.0.0:7878 --data /var/lib/nearprint --config nearprint.toml
  nearprint serve --listen 127.0.0.1:7879 --data copy --follow http://127.0.0.1:7878";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:7878]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The data directory [default: ./nearprint-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run as a follower of the primary at this address (docs/cluster.md); at first, the data
    /// directory must be empty or missing
    #[arg(long, value_name = "URL")]
    follow: Option<String>,
    /// A configuration file; `config/default.toml` explains every key
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start even if the newest change in the data directory was made later than the clock says,
    /// and go on with the time of the clock. For a directory in which a wrong clock has left a time
    /// in the future; look at the clock first
    #[arg(long)]
    accept_time: bool,
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let mut sources = Sources::of_process(args.config);
    sources.listen = args.listen;
    sources.data = args.data;
    sources.follow = args.follow;
    let configured = || -> Result<Settings> {
        let (_, mut settings) = load(&sources)?;
        if args.accept_time {
            settings.engine.clock_behind_ms_max = None;
        }
        Ok(settings)
    };
    let mut settings = configured()?;
    let mut process = Process::begin(settings.log).map_err(serve_error)?;
    let mut copies = false;
    loop {
        match process.serve(settings, copies).map_err(serve_error)? {
            ServiceEnd::Stopped => return Ok(()),
            ServiceEnd::Again { copies: again } => copies = again,
        }
        // What is fixed when a directory is created comes with a copy.
        settings = configured()?;
    }
}
