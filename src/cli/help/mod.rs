//! The help of the program: its commands, grouped by what one does with them.

use std::fmt::Write as _;

use clap::Command;

/// Printed when no command is named.
pub(super) const OVERVIEW: &str = "\
nearprint finds near-duplicate documents: texts whose 64-bit SimHash fingerprints differ in few bits.

  nearprint serve                     start the service on 127.0.0.1:7878, data in ./nearprint-data
  nearprint import --check FOLDER     store the texts of a folder, and see which are near-duplicates
  nearprint dedup IN -o OUT           the unique documents of files, without a service
  nearprint query FILE                what is stored that is nearly this text?
  nearprint compare A B               how far apart are two texts?
  nearprint help                      everything else

Then, for one: curl -H 'Content-Type: text/plain' --data-binary @README.md 127.0.0.1:7878/v1/query
";

/// The commands by what one does with them; clap has no headings for commands.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run a service", &["serve", "check-config", "token", "health", "stats", "plan"]),
    ("Look up and store documents", &["query", "check", "insert", "get", "delete", "import"]),
    (
        "See and remove what is stored",
        &["list", "export", "namespaces", "originals", "groups", "purge", "jobs"],
    ),
    ("Work on files, without a service", &["dedup", "match", "compare", "fingerprint", "train"]),
    ("Look after a data directory", &["snapshot", "inspect", "repair", "reindex", "promote"]),
    ("Run a cluster", &["cluster"]),
    ("Get help", &["help", "version", "completions", "man"]),
];

/// The description that clap gives to its own command `help`.
const HELP: &str = "Print this message or the help of a command";

/// The command with its help in groups.
pub(super) fn grouped(command: Command) -> Command {
    let width = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let header = *command.get_styles().get_header();
    let name = *command.get_styles().get_literal();
    let mut template = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        write!(template, "\n{header}{title}:{header:#}\n").expect("a string takes any text");
        for one in *names {
            let about = command.find_subcommand(one).and_then(Command::get_about);
            let about = about.map_or_else(|| HELP.to_owned(), ToString::to_string);
            writeln!(template, "  {name}{one:width$}{name:#}  {about}")
                .expect("a string takes any text");
        }
    }
    command.help_template(template + &format!("\n{header}Options:{header:#}\n{{options}}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Cli::command();
        let known: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let listed: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(listed.len(), grouped.len(), "no command is in two groups");
        assert_eq!(listed, known.into_iter().chain(["help"]).collect());
    }

    /// The lines of the help that run the program, each from its name on.
    fn examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.split_once("Examples:\n").map(|(_, lines)| lines.to_owned());
        let lines = lines.unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// The words of each command of a line of a shell that runs the program.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let (mut commands, mut words, mut word, mut quote) = (vec![], vec![], String::new(), None);
        for c in line.trim().chars().chain(['\n']) {
            match (c, quote) {
                ('\'', None) => quote = Some(c),
                ('\'', Some(_)) => quote = None,
                (' ' | '\n', None) => {
                    words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                }
                ('|' | '&' | '>' | '<', None) => commands.push(std::mem::take(&mut words)),
                _ => word.push(c),
            }
        }
        commands.push(words);
        commands.retain(|words| words.first().is_some_and(|first| first == "nearprint"));
        commands
    }

    #[test]
    fn every_command_ends_its_help_with_examples_that_the_program_takes() {
        let command = Cli::command();
        let mut waiting: Vec<&Command> = command.get_subcommands().collect();
        let is_top = |one: &&Command| command.get_subcommands().any(|top| std::ptr::eq(top, *one));
        while let Some(one) = waiting.pop() {
            waiting.extend(one.get_subcommands());
            let lines = examples(one);
            let runs: Vec<Vec<String>> = lines.iter().flat_map(|line| commands(line)).collect();
            let is_own = |run: &Vec<String>| run.get(1).is_some_and(|word| word == one.get_name());
            let name = one.get_name();
            assert!(!is_top(&one) || runs.first().is_some_and(is_own), "{name} has no examples");
            for run in &runs {
                let parsed = Cli::command().try_get_matches_from(run);
                assert!(parsed.is_ok(), "{run:?}: {}", parsed.unwrap_err());
            }
        }
    }
}
