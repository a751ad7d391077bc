//! The command line: one file a subcommand, in `commands`.
//!
//! Results go to standard output, everything else to standard error. An error says what failed,
//! why, and what to do next ([`error_report`]). The exit code is 0 when the command succeeded, 1
//! when it failed, 2 for a wrong command line; `import` and `dedup` also have 3.
//!
//! Only this module prints and uses `anyhow`. Tested by `tests/cli_commands.rs` on the real binary.

#![expect(clippy::print_stderr, reason = "a command line prints messages for people")]

mod collection;
pub mod columns;
mod commands;
mod configuration;
mod confirmation;
mod document;
pub mod error_report;
mod exit_code;
mod explanation;
mod import;
pub mod measure;
mod offline;
mod outputs;
mod printable;
mod reply;
mod times;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::directory::{reindex, repair};
use commands::files::dedup;
use commands::stored::{export, groups, jobs, list, namespaces, originals, purge};
use commands::{
    check_config, compare, fingerprint, health, inspect, plan, query, serve, snapshot, token, train,
};
use error_report::is_closed_pipe;

/// Printed when no command is named.
const OVERVIEW: &str = "\
nearprint finds near-duplicate documents: texts whose 64-bit SimHash fingerprints differ in few bits.

  nearprint serve                     start the service on 127.0.0.1:7878, data in ./nearprint-data
  nearprint import --check FOLDER     store the texts of a folder, and see which are near-duplicates
  nearprint dedup IN -o OUT           the unique documents of files, without a service
  nearprint query FILE                what is stored that is nearly this text?
  nearprint compare A B               how far apart are two texts?
  nearprint help                      everything else

Then, for one: curl -H 'Content-Type: text/plain' --data-binary @README.md 127.0.0.1:7878/v1/query
";

/// A networked near-duplicate lookup service.
#[derive(Debug, Parser)]
#[command(name = "nearprint", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(serve::ServeArgs),
    /// Store many documents: WARC, Parquet, CSV, NDJSON, hex, folders of text and HTML
    Import(commands::files::import::ImportArgs),
    /// Copy the unique documents of files: WARC, Parquet, CSV, NDJSON, hex; no service is needed
    Dedup(dedup::DedupArgs),
    /// Ask a running service what is stored near a document
    Query(query::QueryArgs),
    /// List the documents of a running service, one JSON object a line
    List(list::ListArgs),
    /// Write the stored documents to a file of NDJSON, CSV or Parquet
    Export(export::ExportArgs),
    /// List the namespaces of a running service, and how many documents each has
    Namespaces(namespaces::NamespacesArgs),
    /// Show groups of near-duplicates, of a running service or a stopped directory
    Groups(groups::GroupsArgs),
    /// List the documents of a running service with the most duplicates
    Originals(originals::OriginalsArgs),
    /// Remove documents by namespace, id prefix or age
    Purge(purge::PurgeArgs),
    /// Show the jobs of a running service, or end one
    Jobs(jobs::JobsArgs),
    /// Print the fingerprints of files
    Fingerprint(fingerprint::FingerprintArgs),
    /// Print the distance of two documents
    Compare(compare::CompareArgs),
    /// Learn the model of a recipe from vectors
    Train(train::TrainArgs),
    /// Check the configuration and print what is in effect
    CheckConfig(check_config::CheckConfigArgs),
    /// Check that a running service is healthy (for HEALTHCHECK)
    Health(health::HealthArgs),
    /// Create an access token and its line for the tokens file
    Token(token::TokenArgs),
    /// Estimate memory and latency for an index of a given size, and the alternatives
    Plan(plan::PlanArgs),
    /// List snapshots; export everything into one file, and restore it
    Snapshot(snapshot::SnapshotArgs),
    /// Show the files of a stopped service's data directory
    Inspect(inspect::InspectArgs),
    /// Repair a damaged data directory; first report what will be lost
    Repair(repair::RepairArgs),
    /// Give a stopped service's data directory another maximum distance
    Reindex(reindex::ReindexArgs),
}

/// Runs the command line of the process.
pub fn main() -> ExitCode {
    let Some(command) = parse().command else {
        eprint!("{OVERVIEW}");
        return ExitCode::from(exit_code::USAGE);
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error_report::render(&error));
            ExitCode::from(error_report::exit_code_of(&error))
        }
    }
}

/// Parses the command line of the process, or ends it with a message.
fn parse() -> Cli {
    let matches = Cli::command().get_matches();
    let parsed = collection::check_credentials_are_sent(&matches, &mut Cli::command())
        .and_then(|()| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| error.exit())
}

fn run(command: Command) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match command {
        Command::Serve(args) => {
            // The service prints its address itself, from another thread.
            drop(out);
            return serve::run(args);
        }
        Command::Import(args) => commands::files::import::run(args, &mut out),
        Command::Dedup(args) => dedup::run(args, &mut out),
        Command::Query(args) => query::run(&args, &mut out),
        Command::List(args) => list::run(&args, &mut out),
        Command::Export(args) => export::run(&args, &mut out),
        Command::Namespaces(args) => namespaces::run(&args, &mut out),
        Command::Groups(args) => groups::run(&args, &mut out),
        Command::Originals(args) => originals::run(&args, &mut out),
        Command::Purge(args) => purge::run(&args, &mut out),
        Command::Jobs(args) => jobs::run(&args, &mut out),
        Command::Fingerprint(args) => fingerprint::run(&args, &mut out),
        Command::Compare(args) => compare::run(&args, &mut out),
        Command::Train(args) => train::run(&args, &mut out),
        Command::CheckConfig(args) => check_config::run(&args, &mut out),
        Command::Health(args) => health::run(&args, &mut out),
        Command::Token(args) => token::run(&args, &mut out),
        Command::Plan(args) => plan::run(&args, &mut out),
        Command::Snapshot(args) => snapshot::run(&args, &mut out),
        Command::Inspect(args) => inspect::run(&args, &mut out),
        Command::Repair(args) => repair::run(&args, &mut out),
        Command::Reindex(args) => reindex::run(&args, &mut out),
    }?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OPTION_VARIABLES;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_configuration_knows_the_variables_of_all_options() {
        fn variables(command: &clap::Command) -> Vec<String> {
            let own = command.get_arguments().filter_map(clap::Arg::get_env);
            let own = own.map(|name| name.to_string_lossy().into_owned());
            own.chain(command.get_subcommands().flat_map(variables)).collect()
        }
        let mut found = variables(&Cli::command());
        found.sort();
        found.dedup();
        let mut known = OPTION_VARIABLES;
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
