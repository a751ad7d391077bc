//! The examples of `proto-free-api.md` do what they show.
//!
//! Every `console` block is run with a real shell and a real curl against a real server process on
//! a free port, in the order of the page; what the page shows must come out. In what is shown,
//! `...` stands for any text within a line. `NEARPRINT_BLESS=1` writes what came out into the page.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::manual::{Piece, matches, pieces};
use crate::process::{Server, serve};

/// The address that the page shows.
const SHOWN: &str = "localhost:7878";

/// The address of a second service, which takes vectors, and its recipe.
const SHOWN_VECTORS: (&str, &str) = ("localhost:7879", "hyperplanes-4");

/// A service with this recipe, in a process of its own.
fn start(directory: &Path, data: &str, recipe: &str) -> Server {
    let mut command = serve(&[], &directory.join(data));
    command
        .args(["--listen", "127.0.0.1:0"])
        .env("NEARPRINT_DATA__RECIPE", recipe)
        .env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0");
    Server::of(command).expect("the service starts")
}

fn run(command: &str, directory: &Path) -> String {
    let output = Command::new("sh").arg("-c").arg(command).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{command}{}", String::from_utf8_lossy(&output.stderr));
    let mut came = String::from_utf8(output.stdout).unwrap();
    if !came.is_empty() && !came.ends_with('\n') {
        came.push('\n');
    }
    came
}

fn page() -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto-free-api.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn every_example_of_the_manual_does_what_it_shows() {
    let (path, text) = page();
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), "data", "np2");
    let (shown_vectors, recipe) = SHOWN_VECTORS;
    let vectors = start(directory.path(), "vectors", recipe);
    let (mut blessed, mut wrong, mut count) = (String::new(), String::new(), 0);
    for piece in pieces(&text) {
        let (command, shown) = match piece {
            Piece::Example { command, shown } => (command, shown),
            Piece::Text(text) | Piece::Script(text) => {
                blessed.push_str(&text);
                continue;
            }
            Piece::File { name: more, .. } | Piece::NotRun { reason: more, .. } => {
                panic!("the manual has no block that begins with {more}")
            }
        };
        let command_here = command.replace(SHOWN, &server.address);
        let command_here = command_here.replace(shown_vectors, &vectors.address);
        let came = run(&command_here, directory.path());
        let right = matches(&shown, &came);
        write!(blessed, "$ {command}{}", if right { &shown } else { &came }).unwrap();
        if !right {
            writeln!(wrong, "$ {command}shown: {shown}came:  {came}").unwrap();
        }
        count += 1;
    }
    if std::env::var_os("NEARPRINT_BLESS").is_some() {
        #[expect(
            clippy::disallowed_methods,
            reason = "wanted by the author of a change to the manual"
        )]
        std::fs::write(&path, blessed).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "the manual shows what does not come out:\n{wrong}");
    assert!(count > 30, "only {count} examples were found");
}

#[test]
fn the_manual_names_every_route_and_every_code_of_the_description() {
    let (_, text) = page();
    let description = serde_json::to_value(nearprint::http::openapi()).unwrap();
    for path in description["paths"].as_object().unwrap().keys() {
        // The files of the web console are not part of the API.
        let is_file = path.starts_with("/console/") || path == "/favicon.ico";
        let named = is_file || text.contains(path.as_str());
        assert!(named, "{path}");
    }
    // A probe gets 503 whatever the status of a write would be.
    let items = description["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, _)| !path.starts_with("/readyz"));
    let operations = items.flat_map(|(_, item)| item.as_object().unwrap().values());
    let responses = operations.flat_map(|one| one["responses"].as_object().unwrap());
    for (status, response) in responses.filter(|(status, _)| !status.starts_with('2')) {
        let named =
            response["description"].as_str().unwrap_or_default().split('`').skip(1).step_by(2);
        for code in named {
            assert!(text.contains(&format!("| {status} | `{code}` |")), "{status} {code}");
        }
    }
}
