//! `completions` and `man`: files that are made of the command line itself.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap_complete::Shell;

const COMPLETIONS_HELP: &str = "\
Examples:
  nearprint completions bash > ~/.local/share/bash-completion/completions/nearprint
  nearprint completions zsh > /usr/local/share/zsh/site-functions/_nearprint
  nearprint completions fish > ~/.config/fish/completions/nearprint.fish";

const MAN_HELP: &str = "\
Examples:
  nearprint man /usr/local/share/man/man1";

#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArgs {
    /// The folder of the pages, which is created if it is missing; pages in it are replaced
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(
    args: &CompletionsArgs,
    mut command: clap::Command,
    out: &mut dyn Write,
) -> Result<()> {
    let name = command.get_name().to_owned();
    // The generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(out.write_all(&script)?)
}

/// Writes `nearprint.1`, and a page for each command.
pub(crate) fn man(args: &ManArgs, command: clap::Command, out: &mut dyn Write) -> Result<()> {
    let folder = &args.folder;
    let cannot = || format!("cannot write pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(command, folder).with_context(cannot)?;
    writeln!(out, "read them: man {}", folder.join("nearprint.1").display())?;
    Ok(())
}
