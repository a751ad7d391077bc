//! The command line: one file a subcommand, in `commands`.
//!
//! Results go to standard output, everything else to standard error. An error says what failed,
//! why, and what to do next ([`error_report`]). The exit code is 0 when the command succeeded, 1
//! when it failed, 2 for a wrong command line; `import` and `dedup` also have 3. What looks a
//! document up exits with 0 if it is found, 1 if not, and 2 for all errors. None of that changes if
//! the reader of the standard output leaves early ([`standard_output`]).
//!
//! Only this module prints and uses `anyhow`. Tested by `tests/commands/cli.rs` on the real binary.

#[macro_use]
mod messages;

mod collection;
pub mod columns;
mod commands;
mod configuration;
mod document;
pub mod error_report;
mod exit_code;
mod explanation;
mod help;
mod import;
pub mod measure;
mod offline;
mod outputs;
mod printable;
pub mod standard_output;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::directory::{promote, reindex, repair};
use commands::documents::{check, delete, get, insert, query};
use commands::files::{dedup, import as import_files, matching};
use commands::stored::{export, groups, jobs, list, namespaces, originals, purge, stats};
use commands::{
    check_config, cluster, compare, fingerprint, generate, health, inspect, plan, serve, snapshot,
    token, train, version,
};
use standard_output::StandardOutput;

/// A networked near-duplicate lookup service.
#[derive(Debug, Parser)]
#[command(name = "nearprint", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

/// [`help`] groups them by what one does.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(serve::ServeArgs),
    /// Check the configuration and print what is in effect
    CheckConfig(check_config::CheckConfigArgs),
    /// Create an access token and its line for the tokens file
    Token(token::TokenArgs),
    /// Check that a running service is healthy (for HEALTHCHECK)
    Health(health::HealthArgs),
    /// Show the state of a running service in numbers
    Stats(stats::StatsArgs),
    /// Estimate the memory of an index of a given size
    Plan(plan::PlanArgs),
    /// Ask a running service what is stored near a document
    Query(query::QueryArgs),
    /// Store a document, unless a near-duplicate is stored
    Check(check::CheckArgs),
    /// Store a document, whatever is near it
    Insert(insert::InsertArgs),
    /// Show the document with an id
    Get(get::GetArgs),
    /// Remove the document with an id
    Delete(delete::DeleteArgs),
    /// Store many documents: WARC, Parquet, CSV, NDJSON, hex, folders of text and HTML
    Import(import_files::ImportArgs),
    /// List the documents of a running service, a JSON object a line
    List(list::ListArgs),
    /// Write the stored documents to a file of NDJSON, CSV or Parquet
    Export(export::ExportArgs),
    /// List the namespaces of a running service, and how many documents each has
    Namespaces(namespaces::NamespacesArgs),
    /// List the documents of a running service with the most duplicates
    Originals(originals::OriginalsArgs),
    /// Show groups of near-duplicates, of a running service or a stopped directory
    Groups(groups::GroupsArgs),
    /// Remove documents by namespace, id prefix or age
    Purge(purge::PurgeArgs),
    /// Show the jobs of a running service, or end one
    Jobs(jobs::JobsArgs),
    /// Copy the unique documents of files: WARC, Parquet, CSV, NDJSON, hex
    Dedup(dedup::DedupArgs),
    /// Find the records of files of any size that are near one of some queries
    Match(matching::MatchArgs),
    /// Compare two documents: how far apart they are, and whether they are near-duplicates
    Compare(compare::CompareArgs),
    /// Print the fingerprints of files
    Fingerprint(fingerprint::FingerprintArgs),
    /// Learn the model of a recipe from vectors
    Train(train::TrainArgs),
    /// List snapshots; export everything into one file, and restore it
    Snapshot(snapshot::SnapshotArgs),
    /// Show the files of a stopped service's data directory
    Inspect(inspect::InspectArgs),
    /// Repair a damaged data directory; first report what will be lost
    Repair(repair::RepairArgs),
    /// Give a stopped service's data directory another maximum distance
    Reindex(reindex::ReindexArgs),
    /// Promote a stopped follower to a primary
    Promote(promote::PromoteArgs),
    /// Begin a cluster of services with the same documents, and look after its nodes
    Cluster(cluster::ClusterArgs),
    /// Show the version, and how and for what machine the program was built
    Version(version::VersionArgs),
    /// Print a script that completes the command line in a shell
    Completions(generate::CompletionsArgs),
    /// Write the manual pages into a folder
    Man(generate::ManArgs),
}

impl Command {
    /// The exit code of an error that has none of its own. What looks a document up needs 1 for
    /// what is not found, as grep does.
    const fn exit_code_of_failure(&self) -> u8 {
        if matches!(self, Self::Query(_) | Self::Check(_) | Self::Get(_)) {
            exit_code::LOOK_UP_FAILED
        } else {
            exit_code::FAILED
        }
    }
}

/// Runs the command line of the process.
pub fn main() -> ExitCode {
    crate::process::raise_open_files_max();
    let command = match parse() {
        Ok(Cli { command: Some(command) }) => command,
        Ok(Cli { command: None }) => {
            say!("{}", help::OVERVIEW.trim_end());
            return ExitCode::from(exit_code::USAGE);
        }
        Err(code) => return ExitCode::from(code),
    };
    let code_of_failure = command.exit_code_of_failure();
    match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say!("{}", error_report::render(&error));
            ExitCode::from(error_report::exit_code_of(&error).max(code_of_failure))
        }
    }
}

/// The command line with its help.
fn command_line() -> clap::Command {
    help::grouped(Cli::command())
}

/// Parses the command line of the process. Without a command to run, it prints why, and returns the
/// exit code.
fn parse() -> Result<Cli, u8> {
    let parsed = command_line().try_get_matches().and_then(|matches| {
        collection::check_collection(&matches, &mut command_line())?;
        Cli::from_arg_matches(&matches)
    });
    parsed.map_err(|error| match error.print() {
        // The help that was asked for was not printed.
        Err(lost) if !error.use_stderr() && lost.kind() != io::ErrorKind::BrokenPipe => {
            exit_code::FAILED
        }
        _ => u8::try_from(error.exit_code()).unwrap_or(exit_code::USAGE),
    })
}

/// Runs a command, and returns its exit code.
fn run(command: Command) -> anyhow::Result<u8> {
    let mut out = StandardOutput::lock();
    let mut code = 0;
    let looked_up = |found: bool| code = if found { 0 } else { exit_code::NOT_FOUND };
    match command {
        Command::Serve(args) => {
            // The service prints its address itself, from another thread.
            drop(out);
            return serve::run(args).map(|()| 0);
        }
        Command::Query(args) => query::run(&args, &mut out).map(looked_up),
        Command::Check(args) => check::run(&args, &mut out).map(looked_up),
        Command::Get(args) => get::run(&args, &mut out).map(looked_up),
        Command::CheckConfig(args) => check_config::run(&args, &mut out),
        Command::Token(args) => token::run(&args, &mut out),
        Command::Health(args) => health::run(&args, &mut out),
        Command::Stats(args) => stats::run(&args, &mut out),
        Command::Plan(args) => plan::run(&args, &mut out),
        Command::Insert(args) => insert::run(&args, &mut out),
        Command::Delete(args) => delete::run(&args, &mut out),
        Command::Import(args) => import_files::run(args, &mut out),
        Command::List(args) => list::run(&args, &mut out),
        Command::Export(args) => export::run(&args, &mut out),
        Command::Namespaces(args) => namespaces::run(&args, &mut out),
        Command::Originals(args) => originals::run(&args, &mut out),
        Command::Groups(args) => groups::run(&args, &mut out),
        Command::Purge(args) => purge::run(&args, &mut out),
        Command::Jobs(args) => jobs::run(&args, &mut out),
        Command::Dedup(args) => dedup::run(args, &mut out),
        Command::Match(args) => matching::run(&args, &mut out),
        Command::Compare(args) => compare::run(&args, &mut out),
        Command::Fingerprint(args) => fingerprint::run(&args, &mut out),
        Command::Train(args) => train::run(&args, &mut out),
        Command::Snapshot(args) => snapshot::run(&args, &mut out),
        Command::Inspect(args) => inspect::run(&args, &mut out),
        Command::Repair(args) => repair::run(&args, &mut out),
        Command::Reindex(args) => reindex::run(&args, &mut out),
        Command::Promote(args) => promote::run(&args, &mut out),
        Command::Cluster(args) => cluster::run(&args, &mut out),
        Command::Version(args) => version::run(&args, &mut out),
        Command::Completions(args) => generate::completions(&args, command_line(), &mut out),
        Command::Man(args) => generate::man(&args, command_line(), &mut out),
    }?;
    out.flush()?;
    Ok(code)
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
