//! The numbered chapters of `docs/README.md`, and the README, do what they show.
//!
//! The commands of a page (`tests/support/manual.rs`) are run in their order by one shell, in an
//! empty folder, with the program on the path. Each page has an address of the loopback network of
//! its own, which stands for 127.0.0.1: so what starts a service in a page starts it here. Python
//! without the name of a file is run by `python/tests/service/test_book.py`. `NEARPRINT_BLESS=1`
//! writes what came out into the pages.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::manual::{Piece, matches, pieces};
use crate::server::binary;

/// The address in the pages.
const SHOWN: &str = "127.0.0.1";

/// The blocks that no test runs, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("docs/start.md", "it needs the files, and root for the package"),
    ("docs/start.md", "it compiles for some minutes"),
    ("docs/operating.md", "it installs a package"),
    ("docs/operating.md", "it needs a Docker daemon"),
    ("docs/cluster.md", "it needs servers of NATS; make run-cluster does the same"),
    ("docs/cluster.md", "it needs servers of NATS; make run-cluster does the same"),
    ("docs/cluster.md", "it is for three machines"),
    ("docs/cluster.md", "it is for three machines"),
    ("docs/cluster.md", "it needs a cluster"),
];

/// Languages of blocks that are shown as they are, and Python, which another test runs.
const AS_THEY_ARE: &[&str] = &["```text\n", "```python\n", "```toml\n"];

/// What the shell begins with: `has_lines` waits until a file has that many lines.
const PRELUDE: &str = "has_lines() {
    tries=300
    until [ \"$(wc -l <\"$2\")\" -ge \"$1\" ] || [ $tries = 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
}
";

/// A page, and where it is run.
struct Page {
    path: PathBuf,
    pieces: Vec<Piece>,
    /// What stands for 127.0.0.1.
    address: String,
    folder: tempfile::TempDir,
}

/// What a command wrote, and its exit code; `None` if it was not run or did not end.
struct Came {
    output: String,
    code: Option<i32>,
}

impl Page {
    fn new(number: usize, path: &str) -> Self {
        let path = root().join(path);
        let text = fs::read_to_string(&path).expect("a chapter is a file");
        let process = std::process::id();
        let address = format!("127.{}.{}.{}", 100 + number, process >> 8 & 255, process & 255);
        let folder = tempfile::tempdir().expect("there is space");
        Self { path, pieces: pieces(&text), address, folder }
    }

    fn name(&self) -> String {
        self.path.strip_prefix(root()).expect("it is below the root").display().to_string()
    }

    /// Runs the page; what came of each piece.
    fn run(&self) -> Vec<Option<Came>> {
        let [bin, home, out] = ["bin", "home", "out"].map(|name| self.folder.path().join(name));
        for folder in [&bin, &home, &out] {
            fs::create_dir(folder).expect("the folder is empty");
        }
        symlink(binary(), bin.join("nearprint")).expect("the folder is empty");
        let script = self.folder.path().join("script");
        write(&script, &self.script(&out));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [bin.as_os_str(), &path].join(std::ffi::OsStr::new(":"));
        // What takes longer hangs.
        let mut shell = Command::new("timeout");
        shell
            .args(["--foreground", "300", "sh"])
            .arg(&script)
            .process_group(0)
            .current_dir(&home)
            .env_clear()
            .env("PATH", path)
            .env("HOME", &home)
            .env("LANG", "C.UTF-8")
            .env("NEARPRINT_URL", format!("http://{}:7878", self.address))
            .env("NEARPRINT_SERVER__LISTEN", format!("{}:7878", self.address))
            .env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0")
            .stdin(Stdio::null());
        let mut shell = shell.spawn().expect("there is a shell");
        shell.wait().expect("it is our child");
        // The services that the page leaves running.
        let kill = format!("kill -KILL -{}", shell.id());
        drop(Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status());
        (0..).zip(&self.pieces).map(|(number, piece)| self.came(&out, number, piece)).collect()
    }

    /// The page as a script, which leaves the output and the exit code of each piece in `out`.
    fn script(&self, out: &Path) -> String {
        let mut script = PRELUDE.to_owned();
        for (number, piece) in self.pieces.iter().enumerate() {
            let kept = out.join(number.to_string()).display().to_string();
            let end = format!(">{kept} 2>&1\necho $? >{kept}.code\n");
            match piece {
                Piece::Example { command, shown } => {
                    let lines = shown.lines().count();
                    let wait = format!("has_lines {lines} {kept}\n");
                    let wait = if is_left_running(command) { wait } else { String::new() };
                    write!(script, "{{\n{command}}} {end}{wait}")
                }
                Piece::Script(lines) => write!(script, "(\nset -e\n{lines}) {end}"),
                Piece::File { name, content } => {
                    write!(script, "cat >{name} <<'end of file'\n{content}end of file\n")
                }
                Piece::Text(_) | Piece::NotRun { .. } => Ok(()),
            }
            .expect("a string takes any text");
        }
        script.replace(SHOWN, &self.address)
    }

    /// What came of a piece that is run.
    fn came(&self, out: &Path, number: usize, piece: &Piece) -> Option<Came> {
        let lines = match piece {
            Piece::Example { command, shown } if is_left_running(command) => shown.lines().count(),
            Piece::Example { .. } | Piece::Script(_) => usize::MAX,
            Piece::Text(_) | Piece::File { .. } | Piece::NotRun { .. } => return None,
        };
        let kept = out.join(number.to_string());
        let output = fs::read_to_string(&kept).unwrap_or_default().replace(&self.address, SHOWN);
        let output = output.lines().take(lines).fold(String::new(), |all, line| all + line + "\n");
        let code = fs::read_to_string(kept.with_extension("code")).ok();
        Some(Came { output, code: code.and_then(|code| code.trim().parse().ok()) })
    }

    /// What is wrong with the page.
    fn faults(&self, came: &[Option<Came>]) -> Vec<String> {
        let mut faults = Vec::new();
        for (piece, came) in self.pieces.iter().zip(came) {
            let name = self.name();
            match (piece, came) {
                (Piece::Example { command, shown }, Some(Came { output, code }))
                    if *code != Some(0) || !matches(shown, output) =>
                {
                    faults.push(format!(
                        "{name}: $ {command}shown: {shown}came ({code:?}): {output}"
                    ));
                }
                (Piece::Script(lines), Some(came)) if came.code != Some(0) => {
                    faults.push(format!("{name}: {lines}came: {}", came.output));
                }
                (Piece::Text(text), _) if text.starts_with("```") => {
                    let is_run = ["```\n", "```sh\n", "```console\n"].contains(&&**text);
                    let is_known = is_run || AS_THEY_ARE.contains(&&**text) || text.contains(' ');
                    faults.extend((!is_known).then(|| format!("{name}: nothing runs {text}")));
                }
                _ => {}
            }
        }
        faults
    }

    /// The page with what came out instead of what does not match it.
    fn blessed(&self, came: &[Option<Came>]) -> String {
        let pieces = self.pieces.iter().zip(came);
        let text = |(piece, came): (&Piece, &Option<Came>)| match (piece, came) {
            (Piece::Example { command, shown }, Some(came)) if matches(shown, &came.output) => {
                format!("$ {command}{shown}")
            }
            (Piece::Example { command, .. }, Some(came)) => format!("$ {command}{}", came.output),
            (Piece::Example { command, shown }, None) => format!("$ {command}{shown}"),
            (Piece::Text(text) | Piece::Script(text), _) => text.clone(),
            (Piece::File { content, .. } | Piece::NotRun { content, .. }, _) => content.clone(),
        };
        pieces.map(text).collect()
    }
}

#[test]
fn every_command_of_the_book_does_what_it_shows() {
    let pages = pages();
    let came: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = pages.iter().map(|page| scope.spawn(|| page.run())).collect();
        running.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    if std::env::var_os("NEARPRINT_BLESS").is_some() {
        pages.iter().zip(&came).for_each(|(page, came)| write(&page.path, &page.blessed(came)));
        return;
    }
    let faults: Vec<_> =
        pages.iter().zip(&came).flat_map(|(page, came)| page.faults(came)).collect();
    assert!(faults.is_empty(), "the book shows what does not come out:\n{}", faults.join("\n"));
}

#[test]
fn pages_are_kept_to_the_byte() {
    for page in pages() {
        let nothing_came: Vec<_> = page.pieces.iter().map(|_| None).collect();
        let text = fs::read_to_string(&page.path).expect("a chapter is a file");
        assert_eq!(page.blessed(&nothing_came), text, "{}", page.name());
    }
}

#[test]
fn what_is_not_run_is_known() {
    let mut found = Vec::new();
    for page in pages() {
        let reasons = page.pieces.iter().filter_map(|piece| match piece {
            Piece::NotRun { reason, .. } => Some((page.name(), reason.clone())),
            Piece::Text(_) | Piece::Example { .. } | Piece::Script(_) | Piece::File { .. } => None,
        });
        found.extend(reasons);
    }
    let known = NOT_RUN.iter().map(|(page, reason)| ((*page).to_owned(), (*reason).to_owned()));
    assert_eq!(found, known.collect::<Vec<_>>());
}

/// The README, and the chapters that the contents number.
fn pages() -> Vec<Page> {
    let contents = fs::read_to_string(root().join("docs/README.md")).expect("it is there");
    let numbered = contents.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let chapters = numbered.map(|line| {
        let (_, link) = line.split_once("](").expect("a chapter is a link");
        format!("docs/{}", link.split_once(')').expect("it ends").0)
    });
    let all: Vec<String> = std::iter::once("README.md".to_owned()).chain(chapters).collect();
    assert!(all.len() > 10, "only {all:?}");
    all.iter().enumerate().map(|(number, path)| Page::new(number, path)).collect()
}

/// Whether a command goes on while the next ones run.
fn is_left_running(command: &str) -> bool {
    command.trim_end().ends_with('&')
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[expect(clippy::disallowed_methods, reason = "a script of the test, or a page on request")]
fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder can be written");
}
