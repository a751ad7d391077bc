//! The commands that need no service, run as a person runs them: arguments in, text and exit code
//! out. Those that connect to one are in `tests/process/commands.rs`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const LONG_TEXT: &str = "Everyone has the right to freedom of thought and of expression, \
    and this right includes the freedom to hold opinions without interference and to seek \
    information and ideas through any media and regardless of frontiers.";

fn nearprint(arguments: &[&str], input: &str) -> Output {
    nearprint_with(&[], arguments, input)
}

fn nearprint_with(variables: &[(&str, &str)], arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A command that refuses its arguments does not read its input.
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

fn out(output: &Output) -> &str {
    str::from_utf8(&output.stdout).expect("UTF-8")
}

fn err(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("UTF-8")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    let mut file =
        File::options().create_new(true).write(true).open(&path).expect("the folder is fresh");
    file.write_all(text.as_bytes()).expect("the disk has space");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn without_arguments_it_says_what_it_is_and_what_to_do_next() {
    let output = nearprint(&[], "");
    assert_eq!((code(&output), out(&output)), (2, ""));
    for word in ["near-duplicate", "nearprint serve", "nearprint import", "curl"] {
        assert!(err(&output).contains(word), "{}", err(&output));
    }
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2_and_help_with_0() {
    assert_eq!(code(&nearprint(&["no-such-command"], "")), 2);
    assert_eq!(code(&nearprint(&["import"], "")), 2);
    assert_eq!(code(&nearprint(&["import", "--data", "d", "--server", "s", "-"], "")), 2);
    assert_eq!(code(&nearprint(&["--help"], "")), 0);
    assert_eq!(code(&nearprint(&["--version"], "")), 0);
}

#[test]
fn version_tells_what_the_program_is() {
    let short = nearprint(&["--version"], "");
    let long = nearprint(&["version"], "");
    assert_eq!((code(&long), err(&long)), (0, ""));
    assert!(out(&long).starts_with(out(&short)), "{}", out(&long));
    let json = nearprint(&["version", "--json"], "");
    let json: serde_json::Value = serde_json::from_str(out(&json)).unwrap();
    assert_eq!(out(&short), format!("nearprint {}\n", json["version"].as_str().unwrap()));
    for name in ["profile", "target", "instruction_set", "recipe"] {
        let value = json[name].as_str().unwrap();
        assert!(out(&long).contains(&format!(" {value}\n")), "{}", out(&long));
    }
    assert_eq!(json["commit"].as_str(), option_env!("NEARPRINT_COMMIT"));
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let refused: &[&[&str]] = &[
        &["import", "--data", "d", "--distance", "2", "-"],
        &["import", "--data", "d", "--min-similarity", "0.9", "-"],
        &["import", "--data", "d", "--on-duplicate", "insert", "-"],
        &["import", "--config", "c", "-"],
        &["import", "--data", "d", "--token", "t", "-"],
        &["import", "--data", "d", "--ca-file", "c", "-"],
        &["snapshot", "export", "f", "--token", "t"],
        &["health", "--ca-file", "c"],
        &["fingerprint", "--features", "--extract", "main"],
        &["list", "--namespace", "a", "--all-namespaces"],
        &["jobs", "--server", "s", "cancel", "7"],
        &["groups", "--server", "s", "--data", "d"],
        &["health", "--server", "s", "--config", "c"],
        &["snapshot", "export", "f", "--server", "s", "--data", "d"],
        &["list", "--token", "t", "--token-file", "f"],
        &["export", "-o", "-", "--data", "d", "--token-file", "f"],
        &["dedup", "--metadata", "a", "--dry-run", "-"],
        &["match", "--metadata", "a", "-", "-"],
        &["compare", "--vector", "--extract", "main", "a", "b"],
        &["query", "--quiet", "--json", "a"],
        &["insert", "--id", "a", "--id-from", "text-hash", "a"],
        &["check-config", "--defaults", "--config", "c"],
        &["groups", "--config", "c"],
        &["groups", "--namespace", "a", "--all-namespaces"],
        &["import", "--data", "d", "--timeout", "5", "-"],
        &["import", "--data", "d", "--search", "exact", "-"],
        &["dedup", "--dry-run", "--timeout", "5", "-"],
        &["query", "--timeout", "0", "a"],
    ];
    for arguments in refused {
        let output = nearprint(arguments, "");
        assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = nearprint(&["import", "--data", "d", "--format", "ndjson", path], "");
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("--format is for files"), "{}", err(&output));
}

#[test]
fn a_token_in_the_environment_is_ignored_where_no_service_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let import = ["import", "--data", data.to_str().unwrap(), "-"];
    let output = nearprint_with(&[("NEARPRINT_TOKEN", "t")], &import, "00000000000000ff\n");
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn a_misspelt_variable_is_refused_by_each_command_that_reads_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--data", data][..],
        &["check-config"],
        &["health"],
        &["import", "--data", data, "-"],
    ] {
        let output = nearprint_with(&[("NEARPRINT_SERVER_LISTEN", "127.0.0.1:0")], arguments, "");
        assert_eq!(code(&output), 1, "{arguments:?}: {}", err(&output));
        let said =
            "unknown variable NEARPRINT_SERVER_LISTEN; did you mean NEARPRINT_SERVER__LISTEN?";
        assert!(err(&output).contains(said), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains("\n  next: "), "{}", err(&output));
    }
}

/// An import of these paths into a fresh directory.
fn import(folder: &Path, paths: &[&str]) -> Output {
    let data = folder.join("data");
    nearprint(&[&["import", "--data", data.to_str().expect("UTF-8")], paths].concat(), "")
}

#[test]
fn an_import_ends_with_0_when_all_is_stored_and_with_1_when_something_failed() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.ndjson", "{\"id\": \"a\", \"text\": \"a text\"}\n");
    let output = import(folder.path(), &[&good]);
    assert_eq!(code(&output), 0, "{}", err(&output));

    let mixed = file(folder.path(), "mixed.ndjson", "{\"id\": \"b\", \"text\": \"more\"}\n{}\n");
    let output = import(folder.path(), &[&mixed]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("error: 1 of 2 documents failed"), "{}", err(&output));

    let bad = file(folder.path(), "bad.ndjson", "{}\n{}\n");
    let output = import(folder.path(), &[&bad]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("error: 2 of 2 documents failed"), "{}", err(&output));
}

#[test]
fn an_import_that_reads_nothing_ends_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    file(&texts, "table.csv", "id,text\n");
    let empty = file(folder.path(), "empty.ndjson", "\n");
    for path in [texts.to_str().unwrap(), &empty, "-"] {
        let output = import(folder.path(), &[path]);
        assert_eq!(code(&output), 3, "{path}: {}", err(&output));
        assert!(err(&output).contains("error: nothing was read\n  next: "), "{}", err(&output));
    }
    let help = nearprint(&["import", "--help"], "");
    assert!(out(&help).contains("3  nothing was read"), "{}", out(&help));
}

#[test]
fn import_names_what_it_does_not_understand_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = file(folder.path(), "unknown", "id,text\n1,a text\n");
    let lines = "{\"id\": \"a\", \"text\": \"a text\"}\n{\"key\": \"b\", \"text\": \"b\"}\n{\"id\": \"c\"}\n";
    let dump = file(folder.path(), "dump.ndjson", lines);
    let output = import(folder.path(), &[&unknown, &dump]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    for part in [
        "its format is not recognised; name it with --format csv",
        "unknown\n",
        "has no `id`, and `key` may be one: pass --id key",
        "dump.ndjson line 2 (byte 30)",
        "has no text",
        "dump.ndjson line 3 (byte 56)",
        "stored now                   1",
    ] {
        assert!(out(&output).contains(part), "{part}\n{}", out(&output));
    }
}

#[test]
fn import_says_how_it_understands_fields_and_options_name_others() {
    let folder = tempfile::tempdir().unwrap();
    let table = file(folder.path(), "table.csv", "url,body,page,lang\nu,a text,a page,en\n");
    let output = import(folder.path(), &[&table]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let said = "table.csv: CSV; id from `url`, text from `body`; not used: page, lang\n  its \
                first document: id \"u\", text of 6 characters \"a text\"\n";
    assert!(err(&output).contains(said), "{}", err(&output));

    let fields = ["--id", "lang", "--html", "page", "--metadata", "url,body"];
    let output = import(folder.path(), &[&fields[..], &[&table]].concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    let said = "table.csv: CSV; id from `lang`, html from `page`, metadata from `url`, `body`\n";
    assert!(err(&output).contains(said), "{}", err(&output));
    assert_eq!(code(&import(folder.path(), &["--text", "body", "--html", "page", &table])), 2);
}

#[test]
fn an_import_stops_at_an_error_if_it_is_to_and_a_dry_run_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let lines = file(folder.path(), "a.hex", "00000000000000ff\ta\nbad\n00000000000000fe\tc\n");
    let output = nearprint(&["import", "--dry-run", &lines], "");
    assert_eq!(code(&output), 1, "{}", err(&output));
    let said = "documents read               3\nfailed                       1\n";
    assert!(out(&output).starts_with(said), "{}", out(&output));
    assert!(out(&output).contains("a dry run: nothing was stored"), "{}", out(&output));

    let output = import(folder.path(), &["--on-error", "stop", &lines]);
    assert_eq!(code(&output), 1, "{}", err(&output));
    assert!(out(&output).contains("stored now                   1\n"), "{}", out(&output));
    assert!(err(&output).contains("the import stopped at a document that failed"));
    let output = import(folder.path(), &["--on-error", "skip", &lines]);
    assert!(out(&output).contains("stored now                   1\n"), "{}", out(&output));
    assert!(out(&output).contains("already present              1\n"), "{}", out(&output));
}

#[test]
fn a_folder_may_have_files_of_records_that_are_no_documents() {
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    file(&texts, "a.txt", LONG_TEXT);
    let packages = file(&texts, "b.json", "[{\"name\": \"a\", \"size\": 5}]");
    let output = import(folder.path(), &[texts.to_str().unwrap()]);
    assert_eq!((code(&output), err(&output).contains("error")), (0, false), "{}", err(&output));
    let left_out = "1 x left out: files of records without a text (--text FIELD names another";
    for part in ["documents read               1\n", left_out] {
        assert!(out(&output).contains(part), "{}", out(&output));
    }
    // Named, it is meant to have documents.
    let output = import(folder.path(), &[&packages]);
    assert_eq!(code(&output), 1, "{}", out(&output));
    assert!(out(&output).contains("has no text: none of text, html"), "{}", out(&output));
    let output = import(folder.path(), &[texts.to_str().unwrap(), "--text", "name"]);
    assert!(out(&output).contains("documents read               2\n"), "{}", out(&output));
}

#[test]
fn a_file_without_text_is_left_out_and_a_record_without_text_fails() {
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    file(&texts, "a.txt", LONG_TEXT);
    let empty = file(&texts, "b.txt", "--- !!! ---\n");
    let output = import(folder.path(), &[texts.to_str().unwrap()]);
    assert_eq!((code(&output), err(&output).contains("error")), (0, false), "{}", err(&output));
    for part in ["documents read               1\n", "1 x left out: files without text\n"] {
        assert!(out(&output).contains(part), "{}", out(&output));
    }
    let record = file(folder.path(), "c.jsonl", "{\"id\": \"c\", \"text\": \"---\"}\n");
    for named in [&record, &empty] {
        let output = import(folder.path(), &[named]);
        assert_eq!(code(&output), 1, "{}", out(&output));
        assert!(out(&output).contains("(empty_document); first: "), "{}", out(&output));
    }
}

#[test]
fn an_import_says_what_it_left_out_and_which_ids_came_twice() {
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    file(&texts, "a.csv", "id,text\n1,a text\n1,another text of words\n");
    file(&texts, "program.rs", "fn main() {}");
    let output = import(folder.path(), &[texts.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    for part in [
        "1 x left out: files in unknown formats",
        "1 of these documents have an id that was stored already",
        "a.csv record 2 (byte 17)",
    ] {
        assert!(out(&output).contains(part), "{part}\n{}", out(&output));
    }
}

#[test]
fn ids_that_come_twice_are_seen_in_every_format_that_has_ids() {
    let page = |id: &str, text: &str| {
        format!(
            "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: {id}\r\n\
             Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n",
            text.len()
        )
    };
    let pages = [page("1", "a text"), page("2", "two"), page("1", "another")];
    let third = format!("a.warc record 3 (byte {})", pages[0].len() + pages[1].len());
    for (name, content, place) in [
        (
            "a.ndjson",
            "{\"id\": 1, \"text\": \"a text\"}\n{\"id\": 2, \"text\": \"two\"}\n{\"id\": 1, \"text\": \"another\"}",
            "a.ndjson line 3 (byte 53)",
        ),
        (
            "a.json",
            "[{\"id\": 1, \"text\": \"a text\"},{\"id\": 2, \"text\": \"two\"},{\"id\": 1, \"text\": \"another\"}]",
            "a.json record 3 (byte 54)",
        ),
        ("a.csv", "id,text\n1,a text\n2,two\n1,another\n", "a.csv record 3 (byte 23)"),
        ("a.tsv", "id\ttext\n1\ta text\n2\ttwo\n1\tanother\n", "a.tsv record 3 (byte 23)"),
        (
            "a.hex",
            "00000000000000f1\t1\n00000000000000f2\t2\n00000000000000ff\t1\n",
            "a.hex line 3 (byte 38)",
        ),
        ("a.warc", &pages.concat(), &third),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), name, content);
        let output = import(folder.path(), &[&path]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        assert!(out(&output).contains("replaced                     1\n"), "{}", out(&output));
        assert!(out(&output).contains(place), "{place}\n{}", out(&output));
    }
}

#[test]
fn a_purge_must_say_what_it_removes_and_an_empty_value_says_nothing() {
    for arguments in [
        &["purge", "--yes"][..],
        &["purge", "--yes", "--dry-run"],
        &["purge", "--yes", "--namespace", ""],
        &["purge", "--yes", "--prefix", ""],
        &["purge", "--yes", "--stored-before", "yesterday"],
        &["purge", "--yes", "--namespace", "a", "--all-namespaces"],
    ] {
        let output = nearprint(arguments, "");
        assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn an_import_says_which_documents_it_would_store_again() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"text\": \"one text\"}\n{\"text\": \"another text\"}\n";
    let without = file(folder.path(), "without.ndjson", lines);
    let output = import(folder.path(), &[&without]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("2 documents without an id were stored."), "{}", out(&output));
    assert!(out(&output).contains("--id-from text-hash"), "{}", out(&output));

    let texts = file(folder.path(), "texts.txt", lines);
    let output = import(folder.path(), &[&texts]);
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("looks like NDJSON"), "{}", out(&output));

    let help = nearprint(&["import", "--help"], "");
    let said = out(&help).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("A document without an id that is imported again is stored again"));
}

#[test]
fn fingerprints_of_files_and_of_the_standard_input_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.txt", LONG_TEXT);
    let of_file = nearprint(&["fingerprint", &path], "");
    let of_input = nearprint(&["fingerprint"], LONG_TEXT);
    let (hex, name) = out(&of_file).trim_end().split_once('\t').expect("a tab");
    assert_eq!((hex.len(), name), (16, path.as_str()));
    assert_eq!(out(&of_input), format!("{hex}\t-\n"));
}

#[test]
fn html_is_read_as_its_visible_text() {
    let html = format!("<html><script>var x = 1;</script><p>{LONG_TEXT}</p></html>");
    let of_html = nearprint(&["fingerprint", "--html"], &html);
    let of_text = nearprint(&["fingerprint"], LONG_TEXT);
    assert_eq!(out(&of_html), out(&of_text));
}

#[test]
fn json_says_more_about_a_fingerprint() {
    let output = nearprint(&["fingerprint", "--json"], "Three short words");
    let line: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&line["recipe"], &line["short"]), (&"np2".into(), &true.into()));
    assert_eq!(line["tokens"], 3);
}

#[test]
fn an_option_that_is_wrong_for_every_document_ends_an_import_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (option, value, field) in [
        ("--distance", "13", "distance"),
        ("--min-similarity", "2", "min_similarity"),
        ("--min-numbers", "2", "min_numbers"),
    ] {
        let import = ["import", "--data", data.to_str().unwrap(), "--check", option, value, "-"];
        let output = nearprint(&import, "{\"id\":\"a\",\"text\":\"some words\"}\n");
        let said = err(&output);
        assert_eq!(code(&output), 1, "{said}");
        assert!(said.contains("takes no documents") && said.contains(field), "{said}");
        assert!(out(&output).contains("documents read               0"), "{}", out(&output));
    }
}

#[test]
fn weighted_features_come_as_an_object_or_as_pairs() {
    let object = nearprint(&["fingerprint", "--features"], r#"{"a": 1.5, "b": -2}"#);
    let pairs = nearprint(&["fingerprint", "--features"], r#"[["a", 1.5], ["b", -2]]"#);
    assert_eq!(code(&object), 0, "{}", err(&object));
    assert_eq!(out(&object), out(&pairs));
    let wrong = nearprint(&["fingerprint", "--features"], r#"{"a": "heavy"}"#);
    assert_eq!(code(&wrong), 1);
    assert!(err(&wrong).contains("weight of \"a\""), "{}", err(&wrong));
}

#[test]
fn vectors_come_as_arrays_or_as_lines() {
    let recipe = ["--recipe", "hyperplanes-3"];
    let one = nearprint(&[&["fingerprint", "--vector"], &recipe[..]].concat(), "[3, -1, 2]");
    assert_eq!((code(&one), out(&one)), (0, "ac27395d5b001aaa\t-\n"), "{}", err(&one));
    let lines =
        "{\"id\": \"a\", \"vector\": [3, -1, 2]}\n{\"vector\": [1]}\n{\"vector\": [0, 0, 1]}\n";
    let many = nearprint(&[&["fingerprint", "--ndjson"], &recipe[..]].concat(), lines);
    assert_eq!(code(&many), 1);
    assert_eq!(out(&many), "ac27395d5b001aaa\ta\n4827b96fd230dafa\t\n");
    assert!(err(&many).contains("standard input line 2"), "{}", err(&many));
    assert!(err(&many).contains("has 1 dimensions, and the recipe takes 3"), "{}", err(&many));
    let folder = tempfile::tempdir().unwrap();
    let a = file(folder.path(), "a.json", "[1, 2, 3]");
    let b = file(folder.path(), "b.json", "[-1, -2, -3]");
    let compared = nearprint(&[&["compare", "--vector", &a, &b], &recipe[..]].concat(), "");
    assert!(out(&compared).contains("distance    64 of 64 bits"), "{}", err(&compared));
    let text = nearprint(&[&["fingerprint"], &recipe[..]].concat(), LONG_TEXT);
    assert!(err(&text).contains("takes vectors"), "{}", err(&text));
}

#[test]
fn a_bad_file_among_good_ones_is_reported_and_the_others_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.txt", LONG_TEXT);
    let empty = file(folder.path(), "empty.txt", " ... ");
    let output = nearprint(&["fingerprint", &empty, &good], "");
    assert_eq!((code(&output), out(&output).lines().count()), (1, 1));
    assert!(err(&output).contains("no fingerprint of "), "{}", err(&output));
    assert!(err(&output).contains("empty.txt"), "{}", err(&output));
}

#[test]
fn compare_takes_fingerprints_files_and_texts() {
    let output = nearprint(&["compare", "--json", "00000000000000ff", "0x00000000000000F0"], "");
    let line: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&line["distance"], &line["similarity"]), (&4.into(), &().into()));

    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.txt", LONG_TEXT);
    let output = nearprint(&["compare", &path, LONG_TEXT], "");
    assert!(out(&output).contains("distance    0 of 64 bits"), "{}", out(&output));
    assert!(out(&output).contains("similarity  1.000"), "{}", out(&output));
}

#[test]
fn compare_gives_a_verdict_and_its_rule() {
    let verdict = |more: &[&str]| {
        let output = nearprint(&[&["compare"], more].concat(), "");
        assert_eq!(code(&output), 0, "{}", err(&output));
        let line = out(&output).lines().find_map(|line| line.strip_prefix("verdict     "));
        line.unwrap_or_else(|| panic!("{}", out(&output))).to_owned()
    };
    let bits = ["00000000000000ff", "00000000000000f0"];
    assert_eq!(
        verdict(&bits),
        "not a duplicate: the distance is above 3, and no look-up of either compares the two"
    );
    let four = [&bits[..], &["--distance", "4"]].concat();
    assert_eq!(verdict(&four), "duplicate: the distance is at most 4");
    assert_eq!(
        verdict(&[LONG_TEXT, LONG_TEXT]),
        "duplicate: the distance is at most 3, and the similarity is at least 0.83"
    );
    let changed = LONG_TEXT.replace("thought", "belief");
    let changed = [LONG_TEXT, &changed];
    assert!(verdict(&changed).starts_with("duplicate: "), "one word of it is another");
    let exact = [&changed[..], &["--min-similarity", "1", "--distance", "12"]].concat();
    assert!(verdict(&exact).ends_with("but the similarity is below 1"), "{}", verdict(&exact));
    let short = ["a b c d", "a b c e", "--distance", "12", "--min-similarity", "0"];
    assert!(verdict(&short).contains("a short text") || verdict(&short).contains("above 12"));

    let output = nearprint(&["compare", "--json", "--explain", LONG_TEXT, bits[0]], "");
    let line: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "a",
            "b",
            "distance",
            "similarity",
            "numbers",
            "confirmed",
            "duplicate",
            "found_by",
            "kept_apart_by",
            "explanation"
        ]
    );
    assert_eq!(line["b"], serde_json::json!({"fingerprint": bits[0], "short": false}));
    assert_eq!((&line["duplicate"], &line["found_by"]), (&false.into(), &().into()));
    assert_eq!(line["explanation"]["b"], serde_json::Value::Null);
}

/// A form, filled in with a number and a day.
fn form(number: u32, day: &str) -> String {
    format!("{LONG_TEXT}. This notice {number} was filled in at the office on {day}.")
}

#[test]
fn compare_shows_the_numbers_of_texts_and_can_demand_them() {
    let (one, other) = (form(4_711, "2026-03-04"), form(8_086, "2025-11-27"));
    let said = |more: &[&str]| {
        let output =
            nearprint(&[&["compare", "--distance", "12", &one, &other], more].concat(), "");
        out(&output).to_owned()
    };
    assert!(said(&[]).contains("\nnumbers     0.") && said(&[]).contains("verdict     duplicate"));
    let demanded = said(&["--min-numbers", "0.5"]);
    assert!(demanded.contains("not a duplicate"), "{demanded}");
    assert!(demanded.ends_with("but fewer of their numbers agree than 0.5\n"), "{demanded}");
}

#[test]
fn dedup_and_import_keep_forms_if_numbers_are_demanded() {
    let folder = tempfile::tempdir().unwrap();
    let forms = [form(4_711, "2026-03-04"), form(8_086, "2025-11-27")];
    let lines: Vec<String> =
        forms.iter().map(|text| serde_json::json!({ "text": text }).to_string()).collect();
    let path = file(folder.path(), "forms.ndjson", &lines.join("\n"));
    let dropped = |more: &[&str]| {
        let dedup = ["dedup", "--distance", "12", "--json", "-o", "-", &path];
        let output = nearprint(&[&dedup, more].concat(), "");
        assert_eq!(code(&output), 0, "{}", err(&output));
        lines.len() - out(&output).lines().filter(|line| line.contains("notice")).count()
    };
    assert_eq!((dropped(&[]), dropped(&["--min-numbers", "0.5"])), (1, 0));
    let check = ["--check", "--distance", "3", "--min-numbers", "0.5", &path];
    assert!(out(&import(folder.path(), &check)).contains("near-duplicates              0"));
}

#[test]
fn an_import_shows_what_has_changed_since_the_last_time() {
    let folder = tempfile::tempdir().unwrap();
    let visit = |name: &str, text: &str| {
        let page = |id: &str, text: &str| serde_json::json!({"id": id, "text": text}).to_string();
        file(folder.path(), name, &[page("same", LONG_TEXT), page("page", text)].join("\n"))
    };
    let first = visit("first.ndjson", &form(1, "2026-03-04"));
    let second = visit("second.ndjson", &form(2, "2026-03-05"));
    let output = import(folder.path(), &["--show-previous", &first]);
    assert!(!out(&output).contains("similarity"), "nothing was stored before");
    let output = import(folder.path(), &["--show-previous", &second]);
    let mut lines = out(&output).lines();
    assert_eq!(
        lines.next().unwrap(),
        "distance  similarity  numbers  stored                document"
    );
    let line = lines.next().unwrap();
    assert!(line.ends_with("  page") && line.contains("  0."), "{line}");
    assert!(!out(&output).contains("  same"), "{}", out(&output));
    assert!(!out(&import(folder.path(), &[&first])).contains("similarity"), "nobody asked");
}

#[test]
fn recipes_and_the_text_of_pages_are_chosen_by_flags() {
    let folder = tempfile::tempdir().unwrap();
    let text = file(folder.path(), "a.txt", "the lamp on the second floor flickers");
    let print = |more: &[&str]| {
        let output = nearprint(&[&["fingerprint", "--json", &text], more].concat(), "");
        serde_json::from_str::<serde_json::Value>(out(&output)).unwrap()
    };
    let (np2, words) = (print(&[]), print(&["--recipe", "words-2"]));
    assert_eq!((&np2["recipe"], &words["recipe"]), (&"np2".into(), &"words-2".into()));
    assert_ne!(np2["fingerprint"], words["fingerprint"]);
    assert_eq!(words["features"], 6);
    let unknown = nearprint(&["fingerprint", &text, "--recipe", "np3"], "");
    assert_eq!(code(&unknown), 2);
    assert!(err(&unknown).contains("recipes are np2, np2-5"), "{}", err(&unknown));
    let unknown = nearprint(&["fingerprint", &text, "--extract", "all"], "");
    assert_eq!(code(&unknown), 2);
}

#[test]
fn explain_shows_the_features_that_decide() {
    let texts = ["the lamp on the second floor flickers", "the lamp on the third floor flickers"];
    let output = nearprint(&["compare", "--explain", texts[0], texts[1]], "");
    assert!(out(&output).contains("bits that differ  sum in a  in b"), "{}", out(&output));
    // Every deciding feature is of the words that differ.
    assert!(out(&output).contains("\"thir\" (0, 1)"), "{}", out(&output));
    assert!(!out(&output).contains("lamp"), "{}", out(&output));
    let alone = nearprint(&["fingerprint", "--explain"], texts[0]);
    for part in ["heaviest features  weight", "\"the \"                  2", "bits that tip first"]
    {
        assert!(out(&alone).contains(part), "{}", out(&alone));
    }
    let bare = nearprint(&["compare", "--explain", texts[0], "00000000000000ff"], "");
    assert_eq!(code(&bare), 1);
    assert!(err(&bare).contains("give two documents"), "{}", err(&bare));
}

#[test]
fn an_error_says_what_why_and_what_to_do_next() {
    let missing = nearprint(&["compare", "no-such-file", LONG_TEXT], "");
    assert_eq!((code(&missing), out(&missing)), (1, ""));
    assert!(err(&missing).starts_with("error: \"no-such-file\" is neither"), "{}", err(&missing));
    assert!(err(&missing).contains("\n  next: "), "{}", err(&missing));

    // Port 9 of the loopback: nobody listens there.
    let alone = nearprint(&["health", "--url", "http://127.0.0.1:9"], "");
    assert_eq!(code(&alone), 1);
    for part in ["error: no answer", "\n  why: ", "\n  next: start one with `nearprint serve`"] {
        assert!(err(&alone).contains(part), "{}", err(&alone));
    }
    let folder = env!("CARGO_MANIFEST_DIR");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let at = ["query", LONG_TEXT, "--server", "https://127.0.0.1:9"];
    for (command, what, next) in [
        (&["serve", "--config", "no-such-file"][..], "no-such-file", "every key has a default"),
        (&["serve", "--data", file], file, "name a directory"),
        (&["fingerprint", "no-such-file"], "no-such-file", "name a file that is there"),
        (&["query", folder], folder, "`nearprint import`, `match` and `dedup` take folders"),
        (
            &[&at[..], &["--token-file", "no-such-file"]].concat(),
            "no-such-file",
            "--token-file FILE",
        ),
        (&[&at[..], &["--ca-file", "no-such-file"]].concat(), "no-such-file", "--ca-file FILE"),
        (&[&at[..], &["--ca-file", file]].concat(), file, "name a PEM file"),
        (&["stats", "--server", "ftp://host"], "ftp://host", "write it as http://HOST:PORT"),
    ] {
        let output = nearprint(command, "");
        let said = err(&output);
        assert!(!output.status.success(), "{command:?}");
        let (error, advice) = said.split_once("\n  next: ").unwrap_or_else(|| panic!("{said}"));
        assert!(error.contains(what) && advice.contains(next), "{command:?}: {said}");
    }
    let query = nearprint(&["query", "--server", "http://127.0.0.1:9", LONG_TEXT], "");
    assert_eq!((code(&query), out(&query)), (2, ""));
    for way in ["nearprint export --data DIR", "nearprint dedup --against DIR"] {
        assert!(err(&query).contains(way), "{}", err(&query));
    }
}

#[test]
fn check_config_prints_every_key_and_refuses_an_unknown_one() {
    let folder = tempfile::tempdir().unwrap();
    let right = file(folder.path(), "right.toml", "[query]\ndistance = 2\n");
    let output = nearprint(&["check-config", "--config", &right], "");
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("distance = 2"), "{}", out(&output));
    assert!(out(&output).contains("listen = "), "{}", out(&output));

    let wrong = file(folder.path(), "wrong.toml", "[query]\ndistanse = 2\n");
    let output = nearprint(&["check-config", "--config", &wrong], "");
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("distanse"), "{}", err(&output));
}

#[test]
fn check_config_prints_the_commented_defaults() {
    let output = nearprint(&["check-config", "--defaults"], "");
    assert_eq!((code(&output), out(&output)), (0, include_str!("../../config/default.toml")));
}

#[test]
fn help_groups_the_commands_and_honours_no_color() {
    let output = nearprint(&["--help"], "");
    let sections = ["Run a service:", "Look up and store documents:", "Get help:", "Options:"];
    let places = sections.map(|section| out(&output).find(section).expect(section));
    assert!(places.is_sorted(), "{}", out(&output));
    assert!(out(&output).contains("\n  query         Ask a running service"), "{}", out(&output));
    let forced = [("CLICOLOR_FORCE", "1")];
    let coloured = nearprint_with(&forced, &["--help"], "");
    assert!(out(&coloured).contains('\u{1b}'), "{}", out(&coloured));
    let plain = [forced[0], ("NO_COLOR", "1")];
    for arguments in [&["--help"][..], &["query", "--help"], &["no-such-command"]] {
        let output = nearprint_with(&plain, arguments, "");
        let printed = [out(&output), err(&output)].concat();
        assert!(!printed.contains('\u{1b}'), "{printed}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = nearprint(&["completions", shell], "");
        assert_eq!(code(&output), 0, "{}", err(&output));
        for word in ["check-config", "min-similarity", "completions"] {
            assert!(out(&output).contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(code(&nearprint(&["completions", "csh"], "")), 2);
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let output = nearprint(&["man", pages.to_str().unwrap()], "");
    assert_eq!(code(&output), 0, "{}", err(&output));
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).expect(name);
    assert!(page("nearprint.1").contains("nearprint\\-query(1)"));
    let query = page("nearprint-query.1");
    for part in ["Exit codes:", "sed ", "min\\-similarity", "NEARPRINT_URL"] {
        assert!(query.contains(part), "{part}: {query}");
    }
    page("nearprint-snapshot-export.1");
}

#[test]
fn no_help_speaks_of_another_command() {
    for (command, word) in [("dedup", "the import"), ("match", "the import"), ("match", "the copy")]
    {
        let help = nearprint(&[command, "--help"], "");
        let words = out(&help).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!words.contains(word), "{command}: {words}");
    }
}

#[test]
fn plan_shows_the_memory_of_an_index() {
    let arguments = ["plan", "--count", "1e9", "--distance", "3", "--memory", "32GiB"];
    let output = nearprint(&arguments, "");
    assert_eq!((code(&output), err(&output)), (0, ""));
    let said = out(&output);
    assert!(
        said.starts_with("1,000,000,000 pages with ids and sketches at distance 3\n"),
        "{said}"
    );
    for line in [
        "memory         65 GiB, 70.1 bytes a page",
        "while merging  126 GiB, which does not fit in 32 GiB",
        "1,000,000,000 bare fingerprints at distance 3\n",
        "memory         13 GiB, 13.5 bytes a fingerprint",
        "while merging  21 GiB, which fits in 32 GiB",
        "labels 32.5 bytes",
    ] {
        assert!(said.contains(line), "{said}");
    }

    let output = nearprint(&[&arguments[..], &["--json"]].concat(), "");
    let answer: serde_json::Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!((&answer["count"], &answer["distance"]), (&1_000_000_000.into(), &3.into()));
    assert_eq!(answer["memory_bytes"], 32_u64 << 30);
    assert_eq!(answer["plan"], "32r1f+32r1f");
    for (kind, fits) in [("pages", false), ("fingerprints", true)] {
        let memory = &answer[kind];
        assert_eq!(memory["fits"], fits, "{answer}");
        for name in ["bytes", "merging_bytes", "bytes_each"] {
            assert!(memory[name].as_f64().is_some_and(|value| value > 0.0), "{name} of {answer}");
        }
    }
}

#[test]
fn plan_says_what_is_missing_where_the_memory_is_too_small() {
    let small = ["plan", "--count", "1g", "--memory", "512MB"];
    let output = nearprint(&small, "");
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("are too little for these pages"), "{}", out(&output));
    assert_eq!(code(&nearprint(&["plan", "--count", "many"], "")), 2);
    assert_eq!(code(&nearprint(&["plan", "--count", "1k", "--distance", "13"], "")), 2);
}

#[test]
fn a_reader_that_ends_early_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.txt", LONG_TEXT);
    let many: Vec<&str> = std::iter::repeat_n(path.as_str(), 3_000).collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .arg("fingerprint")
        .args(many)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (0, ""));
}

/// A data directory with so many documents that no export of it fits into a pipe.
fn data(folder: &Path) -> String {
    let lines: Vec<_> = (0..3_000_u64).map(|id| format!("{:016x}\tid-{id}\n", id << 40)).collect();
    let data = folder.join("data").to_str().expect("UTF-8").to_owned();
    let output = nearprint(&["import", "--data", &data, "-"], &lines.concat());
    assert_eq!(code(&output), 0, "{}", err(&output));
    data
}

/// Runs a command whose standard output has no reader.
fn unread(arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("the system has descriptors");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    let output = command.args(arguments).stdin(Stdio::null()).stdout(writer).output();
    output.expect("the binary runs")
}

#[test]
fn a_reader_that_leaves_changes_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let commands =
        [["snapshot", "verify", "--data", &data], ["inspect", "journal", "--data", &data]];
    for arguments in commands {
        assert_eq!(code(&unread(&arguments)), 0, "{arguments:?}");
    }
    let journal = Path::new(&data).join("journal-00000000000000000001.log");
    let journal = File::options().write(true).open(journal).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&journal, b"damage", 100_000).unwrap();
    for arguments in commands {
        let output = unread(&arguments);
        assert_eq!(code(&output), 1, "{arguments:?}");
        assert!(err(&output).contains("a file is damaged"), "{}", err(&output));
    }
}

#[test]
fn an_output_that_must_be_whole_fails_if_its_reader_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let data = data(folder.path());
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for action in [&["snapshot", "export"][..], &["export", "-o"]] {
        let arguments = |output| [action, &[output, "--data", &data]].concat();
        let output = unread(&arguments("-"));
        assert_eq!(code(&output), 1, "{action:?}");
        assert!(err(&output).contains("the standard output is cut short"), "{}", err(&output));

        let leaving = {
            let pipe = pipe.to_owned();
            let reader = File::options().read(true).clone();
            std::thread::spawn(move || drop(reader.open(pipe).unwrap()))
        };
        let output = nearprint(&arguments(pipe), "");
        leaving.join().unwrap();
        assert_eq!(code(&output), 1, "{action:?}");
        assert!(err(&output).contains("pipe is cut short"), "{}", err(&output));
    }
}

#[test]
fn a_dry_run_refuses_what_an_import_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(1_025);
    let large = "y".repeat(70_000);
    let lines = [
        r#"{"id": "good", "text": "a text of words"}"#.to_owned(),
        format!(r#"{{"id": "{long}", "text": "a text of words"}}"#),
        format!(r#"{{"id": "a", "text": "a text of words", "metadata": {{"m": "{large}"}}}}"#),
        r#"{"id": "b", "text": " ... "}"#.to_owned(),
        r#"{"id": "c", "text": "a text of words", "namespace": ""}"#.to_owned(),
        r#"{"id": "d", "text": "a text of words", "expires_at": 1}"#.to_owned(),
        r#"{"id": "e", "text": "a text of words", "expires_in": 0}"#.to_owned(),
        r#"{"id": "f", "fingerprint": "00000000000000ff"}"#.to_owned(),
        r#"{"id": "g", "text": "a text of words", "metadata": [1]}"#.to_owned(),
        "not json".to_owned(),
    ];
    // Each alone, so that no limit on the reasons that are shown hides one.
    for (number, line) in lines.iter().enumerate() {
        let path = file(folder.path(), &format!("{number}.ndjson"), &format!("{line}\n"));
        let shown = |output: &Output| {
            let lines = out(output);
            let of_failures = |line: &&str| line.starts_with("failed") || line.contains(" x ");
            // A line of a batch over HTTP has columns, and a record in this process has none.
            let bare = |line: &str| match (line.find(" (column "), line.find(" (invalid_value)")) {
                (Some(start), Some(end)) => [&line[..start], &line[end..]].concat(),
                _ => line.to_owned(),
            };
            let lines: Vec<String> = lines.lines().filter(of_failures).map(bare).collect();
            (code(output), lines)
        };
        let data = folder.path().join("data").display().to_string();
        let stored = shown(&nearprint(&["import", &path, "--data", &data, "--restart"], ""));
        let dry = shown(&nearprint(&["import", "--dry-run", &path], ""));
        assert_eq!(dry, stored, "{}", &line[..line.len().min(99)]);
    }
    // Services of other recipes take these.
    let vectors = "{\"vector\": [1, 2, 3]}\n{\"vector\": [1, 2]}\n{\"features\": {\"a\": 1}}\n";
    let path = file(folder.path(), "v.ndjson", vectors);
    let output = nearprint(&["import", "--dry-run", &path], "");
    assert!(out(&output).contains("failed                       1\n"), "{}", out(&output));
    assert!(out(&output).contains("dimensions"), "{}", out(&output));
    // The reason is said last, too, where people look.
    assert!(err(&output).contains("  why: "), "{}", err(&output));
}
