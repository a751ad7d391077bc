//! The commands that connect to a service, or open a data directory themselves.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::corpus;
use crate::support::server::{Client, Server};

fn nearprint(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    command.args(arguments).output().expect("the binary starts")
}

/// The output of a command that must succeed.
fn expect(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The number after the name of a row of the summary.
fn row(summary: &str, name: &str) -> u64 {
    let line = summary.lines().find(|line| line.starts_with(name));
    let count = line.and_then(|line| line.rsplit(' ').next());
    let count = count.unwrap_or_else(|| panic!("{name}: {summary}"));
    count.replace(',', "").parse().expect("a number")
}

/// A folder of texts: the ten longest of the corpus, and each once more with other punctuation.
fn lay_out(folder: &Path) {
    fs::create_dir_all(folder.join("copies")).expect("the disk has space");
    let mut documents = corpus::documents();
    documents.sort_by_key(|document| std::cmp::Reverse(document.text.len()));
    for (at, document) in documents.iter().take(10).enumerate() {
        write(&folder.join(format!("{at}.txt")), &document.text);
        let copy = format!("* * *\n\n{} ...\n", document.text);
        write(&folder.join(format!("copies/{at}.md")), &copy);
    }
}

#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the disk has space");
}

#[test]
fn import_stores_a_folder_and_shows_its_groups() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("texts");
    lay_out(&folder);
    let server = Server::start(&root.path().join("data"));
    let import = ["import", "--server", server.url(), folder.to_str().unwrap()];

    let groups = ["--groups", "3", "--on-duplicate", "insert"];
    let shown = expect(&nearprint(&[&import[..], &groups].concat()));

    assert_eq!(row(&shown, "documents read"), 20, "{shown}");
    assert_eq!(row(&shown, "stored now"), 20, "{shown}");
    assert!(row(&shown, "near-duplicates") >= 10, "{shown}");
    assert!(shown.contains("largest groups of near-duplicates"), "{shown}");
    assert!(shown.contains("copies/"), "{shown}");

    let again = expect(&nearprint(&import));
    assert_eq!(row(&again, "already present"), 20, "{again}");
    assert_eq!(row(&again, "stored now"), 0, "{again}");
}

#[test]
fn import_with_check_leaves_duplicates_out_and_counts_bad_lines() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let file = root.path().join("lines.ndjson");
    let lines = [
        r#"{"id": "a", "fingerprint": "00000000000000ff"}"#,
        r#"{"id": "b", "fingerprint": "00000000000000fe"}"#,
        "not json",
        r#"{"id": "c", "text": " ... "}"#,
        r#"{"id": "d", "fingerprint": -1}"#,
    ];
    write(&file, &lines.join("\n"));
    let server = Server::start(&data);

    let import = ["import", "--check", "--server", server.url(), file.to_str().unwrap()];
    let output = nearprint(&import);

    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert_eq!(row(&shown, "documents read"), 5, "{shown}");
    assert_eq!(row(&shown, "stored now"), 2, "{shown}");
    assert_eq!(row(&shown, "near-duplicates"), 1, "{shown}");
    assert_eq!(row(&shown, "failed"), 2, "{shown}");
    assert!(shown.contains("lines.ndjson line 3"), "{shown}");
    let found = Client::expect(server.client().get("/v1/documents/d"));
    assert_eq!(found["fingerprint"], "ffffffffffffffff");
}

#[test]
fn import_into_a_directory_is_found_by_the_service_and_refused_while_it_runs() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let folder = root.path().join("texts");
    lay_out(&folder);
    let import = ["import", "--groups", "3", "--data", data.to_str().unwrap()];
    let import = [&import[..], &[folder.to_str().unwrap()]].concat();

    let shown = expect(&nearprint(&import));
    assert_eq!(row(&shown, "documents read"), 20, "{shown}");
    let stored = row(&shown, "stored now");
    assert_eq!(stored + row(&shown, "near-duplicates"), 20, "{shown}");

    let server = Server::start(&data);
    let stats = Client::expect(server.client().get("/v1/stats"));
    assert_eq!(stats["documents"], stored);

    let refused = nearprint(&import);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot open the data directory"), "{said}");
    assert!(said.contains("next: "), "{said}");
}

#[test]
fn namespaces_are_imported_listed_queried_and_purged() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&root.path().join("data"));
    let run =
        |arguments: &[&str]| expect(&nearprint(&[arguments, &["--server", server.url()]].concat()));
    let file = root.path().join("lines.ndjson");
    let lines = [
        r#"{"id": "https://a.example/1", "fingerprint": 255, "metadata": {"n": 1.50}}"#,
        r#"{"id": "https://b.example/2", "fingerprint": 255, "expires_in": 3600}"#,
        r#"{"fingerprint": 65535, "namespace": "other"}"#,
        r#"{"fingerprint": 16777215}"#,
    ];
    write(&file, &lines.join("\n"));
    let file = file.to_str().unwrap();

    let stored = run(&["import", "--namespace", "crawl", file]);
    assert_eq!(row(&stored, "stored now"), 4, "{stored}");
    assert!(stored.contains("2 documents without an id were stored."), "{stored}");
    let made = ["import", "--namespace", "crawl", "--id-from", "fingerprint", file];
    assert_eq!(row(&run(&made), "stored now"), 2);
    let again = run(&made);
    assert_eq!(row(&again, "stored now"), 0, "{again}");
    assert_eq!(row(&again, "refreshed"), 2, "{again}");

    assert_eq!(
        run(&["namespaces"]),
        "namespace  documents\n(default)          0\ncrawl              4\nother              2\n"
    );
    let all = run(&["list", "--all-namespaces"]);
    assert_eq!(all.lines().count(), 6, "{all}");
    let site = run(&["list", "--namespace", "crawl", "--prefix", "https://a.", "--metadata"]);
    assert!(site.contains(r#""metadata":{"n":1.50}"#) && site.lines().count() == 1, "{site}");

    let near = ["query", "00000000000000fe", "--metadata"];
    let nothing = nearprint(&[&near[..], &["--server", server.url()]].concat());
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stdout).contains("nothing near it is stored"));
    let found = run(&[&near[..], &["--namespace", "crawl", "--max-age", "3600"]].concat());
    for part in ["https://a.example/1", "https://b.example/2", "expires", r#"{"n":1.50}"#] {
        assert!(found.contains(part), "{part}: {found}");
    }

    let purge = ["purge", "--all-namespaces", "--prefix", "https://"];
    let counted = run(&[&purge[..], &["--dry-run"]].concat());
    assert!(counted.starts_with("2 documents would be removed"), "{counted}");
    assert_eq!(run(&[&purge[..], &["--yes"]].concat()), "removed 2 documents\n");
    assert_eq!(run(&["purge", "--namespace", "other", "--yes"]), "removed 2 documents\n");
    let jobs = run(&["jobs"]);
    assert_eq!(jobs.matches("done").count(), 3, "{jobs}");
    assert!(jobs.contains("purge of namespace other"), "{jobs}");
    let unknown = nearprint(&["jobs", "cancel", "9999", "--server", server.url()]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("next: `nearprint jobs` lists"));
}

#[test]
fn query_and_health_speak_to_the_service() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&root.path().join("data"));
    let hex = root.path().join("one.hex");
    write(&hex, "00000000000000ff\thttps://a.example/1\n");
    let hex = hex.to_str().unwrap();
    expect(&nearprint(&["import", "--server", server.url(), hex]));

    let near = expect(&nearprint(&["query", "--server", server.url(), "00000000000000fe"]));
    assert!(near.contains("https://a.example/1"), "{near}");
    let far = nearprint(&["query", "--server", server.url(), "ff000000000000ff"]);
    assert_eq!(far.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&far.stdout).contains("nothing near it is stored"));

    for flags in [&[][..], &["--ready"]] {
        let arguments = [&["health", "--url", server.url()][..], flags].concat();
        assert_eq!(expect(&nearprint(&arguments)), "ok\n");
    }
}

/// A page of the examples.
const PAGE: &str = "The ferry to the island leaves at seven in the morning and returns at noon, but in \
    winter, when the wind blows from the north, it often stays in the harbour until the afternoon.\n";

/// The lines of the examples at the end of the help of a command.
fn examples(command: &str) -> Vec<String> {
    let help = expect(&nearprint(&[command, "--help"]));
    let (_, examples) =
        help.split_once("Examples:\n").unwrap_or_else(|| panic!("{command}: {help}"));
    examples.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_examples_of_the_help_run_and_a_changed_word_is_found() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&root.path().join("data"));
    write(&root.path().join("page-1.txt"), PAGE);
    write(
        &root.path().join("page-2.txt"),
        "Another text, which has nothing to do with the first one\n",
    );
    fs::create_dir(root.path().join("crawl")).unwrap();
    write(&root.path().join("crawl/page-1.txt"), PAGE);
    let program = Path::new(env!("CARGO_BIN_EXE_nearprint")).parent().unwrap();
    let run = |line: &str| {
        let mut shell = Command::new("sh");
        let line = format!("PATH='{}':$PATH; {line}", program.display());
        shell.args(["-c", &line]).current_dir(root.path());
        let output = shell.env("NEARPRINT_URL", server.url()).output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    };
    // The first two of `check` store a page, and find it with another word.
    let checks = examples("check");
    assert_eq!(run(&checks[0]).0, 1, "{:?}", run(&checks[0]));
    let (code, out, err) = run(&checks[1]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("duplicate") && out.contains("https://a.example/1"), "{out}");
    assert_eq!(run(&checks[2]), (1, String::new(), String::new()));
    for command in ["query", "compare", "match"] {
        let line = &examples(command)[0];
        let (code, out, err) = run(line);
        assert_eq!(code, 0, "{line}: {out}{err}");
        let found = ["yes", "duplicate: ", "crawl/page-1.txt"];
        assert!(found.iter().any(|part| out.contains(part)), "{line}: {out}");
    }
    assert_eq!(run(&examples("query")[3]), (0, "seen before\n".to_owned(), String::new()));
    let commands =
        ["insert", "get", "delete", "namespaces", "originals", "stats", "jobs", "export"];
    for line in commands.iter().flat_map(|command| examples(command)) {
        // What others need is not there.
        let is_alone = ["crawl-7", "curl", "jq", "--data"].iter().all(|word| !line.contains(word));
        if is_alone {
            let (code, out, err) = run(&line);
            assert_eq!(code, 0, "{line}: {out}{err}");
        }
    }
    let (code, out, err) = run("nearprint list --limit 10");
    assert!(code == 0 && out.contains("\"id\":\"7\""), "{out}{err}");
}
