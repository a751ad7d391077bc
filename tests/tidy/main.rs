//! Rules about the project's files that the compiler does not check.
//!
//! If a rule makes the code worse, change the rule in the commit that breaks it. Cargo itself
//! limits what a crate may import.

mod links;
mod structure;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words that the project does not use because its readers do not know them; in lower case. Add one
/// when its last use is gone.
const PRIVATE_WORDS: &[&str] = &[
    "brake",
    "foretold",
    "keepers",
    "patience",
    "patient",
    "quartered",
    "reckon",
    "reckons",
    "ripe",
    "ripen",
    "ripened",
    "ripening",
    "sayings",
];

/// The most files in a folder: more are too many to take in at a glance.
const FILES_MAX: usize = 13;

/// The folders with the sources of the product.
const PRODUCT: &[&str] = &["src", "crates", "python/src"];

/// Files and folders that may have `unsafe`.
const UNSAFE: &[&str] = &[
    "crates/engine/tests/allocations.rs",
    "crates/fingerprint/src/neon.rs",
    "crates/fingerprint/src/simd.rs",
    "crates/index/src/kernel/",
    "crates/index/src/memory/pages.rs",
    "crates/text/src/kernel/",
    "python/src/arrow/",
];

/// A longer file should be two files. Tests at its end do not count.
const LINES_MAX: usize = 600;

/// Files and folders that the top level must have.
const TOP_LEVEL: &[&str] = &[
    ".ci/run",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "config/default.toml",
    "docker/compose.yaml",
    "docs/disk-format.md",
    "docs/recipe-np2.md",
    "proto-free-api.md",
    "src/lib.rs",
    "tests",
];

#[test]
fn no_folder_has_more_files_than_a_reader_takes_in() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for file in product() {
        let (folder, _) = file.path.rsplit_once('/').expect("it is below a folder");
        *folders.entry(folder.to_owned()).or_default() += 1;
    }
    folders.retain(|_, files| *files > FILES_MAX);
    assert_eq!(folders, BTreeMap::new(), "more than {FILES_MAX} files");
}

#[test]
fn private_words_stay_out() {
    let mut broken = Vec::new();
    for file in texts(".", &["rs", "toml", "md"]) {
        let is_searched = ["src/", "crates/", "python/", "tests/", "docs/"]
            .iter()
            .any(|at| file.path.starts_with(at));
        // The list itself is here.
        if is_searched && file.path != "tests/tidy/main.rs" {
            let lines = (1..).zip(file.text.lines());
            let found = lines.filter_map(|(line, text)| Some((line, private_word(text)?)));
            broken.extend(found.map(|(line, word)| format!("{}:{line}: {word}", file.path)));
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "use the word of the field");
}

/// A private word in a line of code or text; each part of a name in snake case is a word.
fn private_word(line: &str) -> Option<&'static str> {
    let mut words = line.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(|word| {
        PRIVATE_WORDS.iter().find(|private| private.eq_ignore_ascii_case(word)).copied()
    })
}

#[test]
fn private_words_are_found_in_text_and_in_names() {
    assert_eq!(private_word("/// Ripened segments."), Some("ripened"));
    assert_eq!(private_word("fn first_ripening(x: u8) {}"), Some("ripening"));
    assert_eq!(private_word("overripened fruit"), None);
}

#[test]
fn no_file_is_longer_than_the_wall() {
    let long: Vec<_> = product()
        .into_iter()
        .filter(|file| !file.is_test && file.code().lines().count() > LINES_MAX)
        .map(|file| file.path)
        .collect();
    assert_eq!(long, Vec::<String>::new(), "more than {LINES_MAX} lines");
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    let silent: Vec<_> = product()
        .into_iter()
        .chain(sources("tests"))
        .filter(|file| is_of(Path::new(&file.path), "rs") && !file.text.starts_with("//!"))
        .map(|file| file.path)
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn sources_are_ascii() {
    let mut broken = Vec::new();
    for file in sources(".") {
        for (line, text) in (1..).zip(file.text.lines()) {
            if !text.is_ascii() {
                broken.push(format!("{}:{line}", file.path));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "write text as escapes");
}

#[test]
fn unsafe_stays_where_it_has_a_reason() {
    let mut broken = Vec::new();
    for file in product() {
        let lines = file.text.lines().filter(|line| !is_comment(line));
        let uses = lines.flat_map(words).filter(|word| *word == "unsafe").count();
        let may = UNSAFE.iter().any(|at| file.path.starts_with(at));
        if uses > 0 && !may {
            broken.push(file.path);
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn what_is_left_to_do_has_an_issue() {
    // Put together, or this file would not pass its own test.
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat()];
    let mut broken = Vec::new();
    for file in sources(".") {
        for (line, text) in (1..).zip(file.text.lines()) {
            let marked = words(text).any(|word| marks.iter().any(|mark| mark == word));
            if marked && !text.contains("(#") {
                broken.push(format!("{}:{line}", file.path));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "name the issue, as in (#12)");
}

#[test]
fn the_top_level_is_complete() {
    let missing: Vec<_> = TOP_LEVEL.iter().filter(|name| !root().join(name).exists()).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn the_change_log_keeps_its_format() {
    let text = read(&root().join("CHANGELOG.md"));
    assert!(text.starts_with("# Changelog\n"), "title");
    let kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("### ") {
            assert!(kinds.contains(&kind), "unknown kind of change: {kind}");
        } else if let Some(version) = line.strip_prefix("## ") {
            assert!(is_version_heading(version), "neither Unreleased nor dated: {version}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        text.contains(&format!("## [{version}] - ")) || text.contains("## [Unreleased]"),
        "nothing about {version}"
    );
}

/// `[Unreleased]` or `[1.2.3] - 2026-01-31`.
fn is_version_heading(heading: &str) -> bool {
    let shape: String = heading.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    heading == "[Unreleased]" || (shape.starts_with("[0") && shape.ends_with("] - 0000-00-00"))
}

/// Folders of the project that documents and comments name files of.
const NAMED: &[&str] = &[
    ".ci/",
    "bench/",
    "config/",
    "crates/",
    "docker/",
    "docs/",
    "examples/",
    "fuzz/",
    "python/",
    "src/",
    "tests/",
    "tools/",
];

#[test]
fn every_path_and_command_in_backticks_exists() {
    let makefile = read(&root().join("Makefile"));
    let help = Command::new(env!("CARGO_BIN_EXE_nearprint")).arg("help").output();
    let help = String::from_utf8(help.expect("the program runs").stdout).expect("UTF-8");
    let mut broken = Vec::new();
    for file in texts(".", &["rs", "md"]) {
        // Decisions and the change log may name what no longer exists.
        if file.path.starts_with("docs/decisions/") || file.path == "CHANGELOG.md" {
            continue;
        }
        for (line, text) in (1..).zip(file.text.lines()) {
            let is_prose = is_of(Path::new(&file.path), "md") || is_comment(text);
            let named = text.split('`').skip(1).step_by(2).filter(|_| is_prose);
            let is_missing = |named: &&str| match named.split_once(' ') {
                Some(("make", target)) => !is_target(target, &makefile),
                Some(("nearprint", command)) => !is_subcommand(command, &help),
                _ => !is_file(named, &file.path),
            };
            broken.extend(named.filter(is_missing).map(|it| format!("{}:{line}: {it}", file.path)));
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "no such path or command");
}

/// Whether the first word is a target of the Makefile; true of a placeholder.
fn is_target(words: &str, makefile: &str) -> bool {
    let word = first_word(words);
    !is_plain(word)
        || makefile
            .lines()
            .any(|line| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(':')))
}

/// Whether the first word is a command in the help of the program; true of an option.
fn is_subcommand(words: &str, help: &str) -> bool {
    let word = first_word(words);
    !is_plain(word) || help.lines().any(|line| line.starts_with("  ") && first_word(line) == word)
}

/// Whether a path exists, seen from the root or from a folder above the file that names it; true of
/// anything that is not a path into the project.
fn is_file(named: &str, from: &str) -> bool {
    let path = named.split_whitespace().next().unwrap_or_default();
    let path = path.split("::").next().unwrap_or_default().trim_end_matches(['/', '.', ',', ':']);
    let is_pattern = path.contains(['*', '{', '<', '$']) || path.contains("NAME");
    let is_ours = NAMED.iter().any(|folder| path.starts_with(folder)) && !is_pattern;
    let above = Path::new(from).ancestors().skip(1);
    !is_ours
        || above
            .map(|folder| root().join(folder))
            .any(|folder| folder.join(path).exists() || folder.join("src").join(path).exists())
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        && word.starts_with(|first: char| first.is_ascii_lowercase())
}

#[test]
fn paths_and_commands_that_do_not_exist_are_found() {
    assert!(is_file("src/lib.rs", "README.md") && is_file("anything else", "README.md"));
    assert!(is_file("tests/naive.rs", "crates/index/src/lib.rs"));
    assert!(is_file("src/http/routes/NAME.rs", "README.md"));
    assert!(!is_file("src/nothing.rs", "README.md") && !is_file("tests/naive.rs", "README.md"));
    let makefile = "all: run\nrun:\n\techo\n";
    assert!(is_target("run", makefile) && is_target("all", makefile) && is_target("X=1", makefile));
    assert!(!is_target("walk", makefile));
    assert!(is_subcommand("serve --data .", "  serve   Start\n") && is_subcommand("--help", ""));
    assert!(!is_subcommand("fly", "  serve   Start\n"));
}

/// A source file, its path relative to the root.
struct Source {
    path: String,
    text: String,
    is_test: bool,
}

impl Source {
    /// The text without the unit tests at its end.
    fn code(&self) -> &str {
        let end = self.text.find("\n#[cfg(test)]\n");
        &self.text[..end.unwrap_or(self.text.len())]
    }
}

fn is_of(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|ending| ending == kind)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn product() -> Vec<Source> {
    PRODUCT.iter().flat_map(|folder| sources(folder)).collect()
}

/// All Rust and TOML files below a folder of the project, in order.
fn sources(folder: &str) -> Vec<Source> {
    texts(folder, &["rs", "toml"])
}

/// All files below a folder of the project with one of these endings, in order.
fn texts(folder: &str, endings: &[&str]) -> Vec<Source> {
    let mut waiting: Vec<PathBuf> = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let is_generated = ["target", "node_modules"].contains(&&*name);
            let is_hidden = name.starts_with('.') && name.len() > 1;
            if !is_generated && !is_hidden {
                let entries = fs::read_dir(&path).expect("a folder of the project can be read");
                waiting.extend(entries.map(|entry| entry.expect("and its entries").path()));
            }
        } else if endings.iter().any(|ending| is_of(&path, ending)) {
            let relative = path.strip_prefix(root()).expect("it was found below the root");
            let relative = relative.to_string_lossy().replace("./", "");
            found.push(Source {
                is_test: relative.ends_with("/tests.rs") || relative.contains("/tests/"),
                text: read(&path),
                path: relative,
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no sources below {folder}");
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
