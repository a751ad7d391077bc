//! The rules of the house that no compiler knows, held against its files.
//!
//! Each test reads the sources as text. A rule that makes the code worse is changed here, on
//! purpose, in the commit that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

/// Which module may name which others of the house. Imports go down only.
const MAY_NAME: &[(&str, &[&str])] = &[
    // Values that everyone speaks.
    ("fingerprint", &[]),
    ("sketch", &[]),
    ("document", &["fingerprint", "sketch"]),
    ("access", &[]),
    ("allocator", &[]),
    ("recipe", &[]),
    // Floor 1: pure.
    ("kernel", &[]),
    ("text", &["fingerprint", "kernel", "recipe", "sketch"]),
    ("index", &["document", "fingerprint", "kernel", "sketch"]),
    // Floor 2: what changes, and what lies on the disk.
    ("machine", &["document", "fingerprint", "index", "sketch"]),
    ("storage", &[]),
    ("metrics", &[]),
    ("telemetry", &[]),
    // Floor 3: one process's state.
    (
        "engine",
        &["document", "fingerprint", "index", "machine", "metrics", "recipe", "sketch", "storage"],
    ),
    ("bulk", &["fingerprint", "text"]),
    // Floor 4: the outside.
    (
        "http",
        &[
            "access",
            "document",
            "engine",
            "fingerprint",
            "machine",
            "metrics",
            "recipe",
            "sketch",
            "text",
        ],
    ),
    (
        "config",
        &["access", "engine", "fingerprint", "http", "recipe", "server", "telemetry", "text"],
    ),
    ("server", &["access", "config", "engine", "http", "metrics", "telemetry"]),
    (
        "cli",
        &[
            "access",
            "bulk",
            "config",
            "document",
            "engine",
            "fingerprint",
            "http",
            // For `plan`, and for the memory of the machine that it measures.
            "index",
            "kernel",
            "machine",
            "metrics",
            "recipe",
            "server",
            "sketch",
            "telemetry",
            "text",
        ],
    ),
    ("lib", &[]),
    ("main", &[]),
];

/// A file longer than this is two files; tests at its end do not count.
const LINES_MAX: usize = 600;

/// What the top level must have.
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
    "docs/recipe-np1.md",
    "proto-free-api.md",
    "src/lib.rs",
    "tests",
];

#[test]
fn imports_go_down_only() {
    let modules: Vec<&str> = MAY_NAME.iter().map(|(module, _)| *module).collect();
    let mut broken = Vec::new();
    for file in sources("src") {
        let module = module_of(&file.path);
        let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == module) else {
            broken.push(format!("{module} is missing in the table of tests/tidy.rs"));
            continue;
        };
        for named in names_of_the_house(&file) {
            let known = modules.contains(&named.as_str());
            if known && named != module && !allowed.contains(&named.as_str()) {
                broken.push(format!("{} names {named}", file.path));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn no_file_is_longer_than_the_wall() {
    let long: Vec<_> = sources("src")
        .into_iter()
        .filter(|file| !file.is_test && file.code().lines().count() > LINES_MAX)
        .map(|file| file.path)
        .collect();
    assert_eq!(long, Vec::<String>::new(), "more than {LINES_MAX} lines");
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    let silent: Vec<_> = sources("src")
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
fn unsafe_stays_in_the_kernel_and_the_page_memory() {
    let mut broken = Vec::new();
    for file in sources("src") {
        let lines = file.text.lines().filter(|line| !is_comment(line));
        let uses = lines.flat_map(words).filter(|word| *word == "unsafe").count();
        let may = file.path.starts_with("src/kernel/") || file.path == "src/index/memory/pages.rs";
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

/// The modules of the house that the code of a file names: behind `crate::`, in braces behind it,
/// and behind as many `super::` as lead to the root.
fn names_of_the_house(file: &Source) -> Vec<String> {
    if file.is_test {
        return Vec::new();
    }
    let lines = file.code().lines().filter(|line| !is_comment(line));
    let code: String = lines.collect::<Vec<_>>().join(" ");
    let up = "super::".repeat(depth_of(&file.path));
    ["crate::", up.as_str()]
        .into_iter()
        .flat_map(|root| code.split(root).skip(1))
        .flat_map(first_names)
        .collect()
}

/// `index::...` names one module, `{http, server::run}` two.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| words(text.trim()).next().unwrap_or_default().to_owned();
    match path.strip_prefix('{') {
        Some(group) => {
            let group = group.split(';').next().unwrap_or(group);
            group.split(',').map(name).collect()
        }
        None => vec![name(path)],
    }
}

/// `src/index/plan.rs` and `src/index/mod.rs` belong to `index`, `src/sketch.rs` to `sketch`.
fn module_of(path: &str) -> &str {
    let name = path.split('/').nth(1).unwrap_or_default();
    name.strip_suffix(".rs").unwrap_or(name)
}

/// How many modules lie between a file and the root of the library.
fn depth_of(path: &str) -> usize {
    let file_is_folder = path.ends_with("/mod.rs");
    path.split('/').count() - 1 - usize::from(file_is_folder)
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

/// All Rust and TOML files below a folder of the project, in order.
fn sources(folder: &str) -> Vec<Source> {
    let mut waiting: Vec<PathBuf> = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !(name.starts_with('.') && name.len() > 1) {
                let entries = fs::read_dir(&path).expect("a folder of the project can be read");
                waiting.extend(entries.map(|entry| entry.expect("and its entries").path()));
            }
        } else if is_of(&path, "rs") || is_of(&path, "toml") {
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

#[test]
fn names_are_found_in_every_way_of_writing_them() {
    let file = |path: &str, text: &str| Source {
        path: path.to_owned(),
        text: text.to_owned(),
        is_test: false,
    };
    let code = "//! [`crate::cli`]\nuse crate::{http, server::run};\nfn f(x: crate::text::A) {}\n";
    assert_eq!(names_of_the_house(&file("src/index/plan.rs", code)), ["http", "server", "text"]);
    let climbing = "use super::super::engine::Engine;\nuse super::table;\n";
    let names = names_of_the_house(&file("src/index/plan.rs", climbing));
    assert_eq!(names, ["engine"]);
    let from_mod = names_of_the_house(&file("src/index/mod.rs", "use super::engine::Engine;"));
    assert_eq!(from_mod, ["engine"]);
}
