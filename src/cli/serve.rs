//! `serve`: the service itself.
use std::path::PathBuf;
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    config: Option<PathBuf>,
}
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let _x = &args.config;
    Ok(())
}
