//! `version`: what this program is, as a report of a fault needs it.

use std::env::consts::{ARCH, OS};
use std::io::Write;

use anyhow::Result;
use nearprint_fingerprint::instruction_set;
use nearprint_text::Recipe;
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  nearprint version
  nearprint version --json | jq -r .commit";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VersionArgs {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &VersionArgs, out: &mut dyn Write) -> Result<()> {
    let version = version();
    if args.json {
        writeln!(out, "{version}")?;
        return Ok(());
    }
    writeln!(out, "nearprint {}", env!("CARGO_PKG_VERSION"))?;
    for name in ["commit", "profile", "target", "instruction_set", "recipe"] {
        if let Some(value) = version[name].as_str() {
            writeln!(out, "{:<17}{value}", name.replace('_', " "))?;
        }
    }
    Ok(())
}

/// The commit is what the variable `NEARPRINT_COMMIT` had when the program was built.
fn version() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("NEARPRINT_COMMIT"),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "target": format!("{ARCH}-{OS}"),
        "instruction_set": instruction_set(),
        "recipe": Recipe::default().to_string(),
    })
}
