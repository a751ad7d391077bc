//! Promise: each `nearprint-bench` measures at any size, prints the shape that scripts read, leaves
//! nothing behind, and has verified what it measured.
//!
//! Method: the real binary at tiny sizes. No test looks at a time: that the verifier finds wrong
//! answers is tested in its own file, with answers spoiled on purpose.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs a bench in a folder.
fn bench(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearprint-bench"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the binary starts")
}

/// Runs a bench that must succeed, and reads the one object that it prints.
fn report(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = bench(folder.path(), &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let left = fs::read_dir(folder.path()).expect("it is still there").count();
    assert_eq!(left, 0, "something is left behind");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// What the rows are about, in order; each must have a rate.
fn rows(report: &Value) -> Vec<&str> {
    let rows = list(&report["results"]);
    for row in rows {
        assert!(number(&row["per_second"]) > 0.0, "{row}");
        assert!(row["count"].is_u64() && row["unit"].is_string(), "{row}");
    }
    rows.iter().map(|row| row["what"].as_str().expect("a text")).collect()
}

/// A fact about the first size.
fn fact(report: &Value, what: &str) -> f64 {
    let facts = list(&report["facts"]);
    let found = facts.iter().find(|fact| fact["what"] == what);
    number(&found.unwrap_or_else(|| panic!("no {what} in {facts:?}"))["value"])
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// Every report has the machine and its limits.
fn assert_limits(report: &Value) {
    assert!(report["machine"]["cpu"].is_string());
    assert!(report["machine"]["features"].is_array());
    assert!(report["machine"]["instruction_set"].is_string());
    assert!(number(&report["machine"]["cores"]) > 0.0);
    let limits = list(&report["limits"]);
    assert!(!limits.is_empty());
    for limit in limits {
        let names = [
            "independent_line_ns",
            "dependent_line_ns",
            "prefetched_line_ns",
            "sequential_gb_s",
            "array_bytes",
        ];
        for name in names {
            assert!(number(&limit[name]) > 0.0, "{name} of {limit}");
        }
    }
}

/// How many answers were looked at, and how many hits they had; none missed, none false.
fn verified(report: &Value) -> (u64, u64) {
    let verification = &report["verification"];
    assert_eq!((&verification["missed"], &verification["false"]), (&0.into(), &0.into()));
    let count = |name: &str| verification[name].as_u64().expect("a count");
    (count("checked"), count("hits"))
}

#[test]
fn lookup_measures_and_verifies_each_size_and_distance() {
    let sizes = ["--count", "1k,2k", "--distance", "2,3", "--queries", "200", "--seed", "9"];
    let report = report(&[&["lookup", "--threads", "2"], &sizes[..]].concat());
    let each = [
        "single, random",
        "batch, random",
        "single, 2 threads, random",
        "batch, 2 threads, random",
    ];
    assert_eq!(rows(&report), each.repeat(4));
    assert_eq!((&report["bench"], &report["seed"]), (&"lookup".into(), &9.into()));
    let first = &report["results"][0];
    assert_eq!((&first["count"], &first["distance"]), (&1_000.into(), &2.into()));
    for name in ["p50_ns", "p99_ns", "index_bytes_a_fingerprint", "resident_bytes_a_fingerprint"] {
        assert!(number(&first[name]) > 0.0, "{name} of {first}");
    }
    // Each of the four has 200 single ones, 200 in a batch, 32 against everything.
    assert_eq!(verified(&report), (4 * 432, 4 * 216));
    assert_limits(&report);
}

#[test]
fn lookup_draws_fingerprints_like_text_and_says_how_crowded_they_are() {
    let report = report(&["lookup", "--like", "text", "--count", "2k", "--queries", "200"]);
    let kinds = ["planted", "drawn"];
    let expected =
        kinds.map(|kind| ["single", "batch"].map(|how| format!("{how}, like text, {kind}")));
    assert_eq!(rows(&report), expected.concat());
    assert!(fact(&report, "documents that share a 16-bit block") > 0.0);
    assert!(fact(&report, "neighbours within 8 that are not near-copies") < 100.0);
    let (checked, hits) = verified(&report);
    assert_eq!(checked, 432);
    assert!(hits >= 200, "every plant is found, and members of families find each other: {hits}");
}

#[test]
fn lookup_takes_the_fingerprints_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.hex");
    let mut file = fs::File::options().create_new(true).write(true).open(&list).unwrap();
    (0..500_u64).for_each(|i| writeln!(file, "{:016x}", (i * i * i) << 20).unwrap());
    let list = list.to_str().unwrap();
    let report = report(&["lookup", "--file", list, "--queries", "100"]);
    assert_eq!(rows(&report), ["single, of the file", "batch, of the file"]);
    assert_eq!(report["results"][0]["count"], 500);
    assert!(verified(&report).1 >= 100, "every plant is found");

    let output = bench(folder.path(), &["lookup", "--file", list, "--count", "501"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("holds 500"), "{error}");
}

#[test]
fn lookup_aims_at_the_weak_spots() {
    let report = report(&["lookup", "--adversarial", "--count", "900", "--queries", "200"]);
    let spots = ["shared half", "cluster", "small integers"];
    let expected = spots.map(|spot| [format!("single, {spot}"), format!("batch, {spot}")]);
    assert_eq!(rows(&report), expected.concat());
    let (checked, hits) = verified(&report);
    assert!(hits > checked, "a cluster has many hits");
}

#[test]
fn beyond_makes_a_directory_once_and_asks_it() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("data");
    let directory = directory.to_str().unwrap();
    for queries in ["400", "401"] {
        let report = report(&[
            "beyond",
            "--count",
            "3k",
            "--queries",
            queries,
            "--threads",
            "2",
            "--directory",
            directory,
        ]);
        assert_eq!(rows(&report), ["single", "single, 2 threads", "batch"]);
        assert!(verified(&report).1 >= 600, "half of the queries of each are near something");
    }
}

#[test]
fn insert_reports_the_growth_the_memory_and_the_restart() {
    let report = report(&["insert", "--count", "3k", "--queries", "500"]);
    let rows = rows(&report);
    assert_eq!(rows[..10], ["insert, up to this size"; 10]);
    assert_eq!(rows[10..], ["insert, all", "check-and-insert"]);
    assert_eq!(report["results"][0]["count"], 300);
    assert_eq!(report["results"][9]["count"], 3_000);
    // Half of the queries of a check-and-insert are stored.
    assert_eq!(verified(&report), (500, 250));
    assert!(fact(&report, "resident, at the peak") > 0.0);
    assert!(fact(&report, "resident, settled") > 0.0);
    assert!(fact(&report, "restart") > 0.0);
    assert_limits(&report);
}

#[test]
fn mixed_reports_look_ups_during_other_work() {
    for like in ["random", "text"] {
        let sizes = ["--count", "3k", "--queries", "500", "--seconds", "1"];
        assert_mixed(&report(&[&["mixed", "--like", like], &sizes[..]].concat()));
    }
}

fn assert_mixed(report: &Value) {
    let expected = [
        "look-up at rest",
        "look-up during a packed query",
        "the packed query",
        "look-up during a search for groups",
        "the search for groups",
        "look-up during inserts",
        "the packed inserts",
        "look-up during merges",
    ];
    assert_eq!(rows(report), expected);
    for row in [0, 1, 3, 5, 7] {
        assert!(report["results"][row]["p99_ns"].is_u64(), "{report}");
    }
    let (checked, hits) = verified(report);
    assert!(checked > 100 && hits > 0, "{checked} {hits}");
    assert_limits(report);
}

#[test]
fn compaction_prints_the_same_figures_simulated_and_measured() {
    let sizes = ["--count", "2k,20k", "--measured-count", "20k", "--delta-events", "1k"];
    let report = report(&[&["compaction"], &sizes[..]].concat());
    let results = list(&report["results"]);
    let kinds: Vec<_> = results.iter().map(|row| (&row["how"], &row["count"])).collect();
    let [simulated, measured] = ["simulated", "measured"].map(Value::from);
    let [small, large] = [2_000, 20_000].map(Value::from);
    assert_eq!(kinds, [(&simulated, &small), (&simulated, &large), (&measured, &large)]);
    for row in results {
        let at_least = [("write_amplification", 1.0), ("segments_mean", 1.0), ("seconds", 0.0)];
        for (name, least) in at_least {
            assert!(number(&row[name]) >= least, "{name} of {row}");
        }
        let settled = number(&row["write_amplification_settled"]);
        assert!(settled >= number(&row["write_amplification"]), "{row}");
    }
}

#[test]
fn verified_reports_the_reading_of_sketches_and_checks_the_verdicts() {
    let report = report(&["verified", "--count", "200", "--queries", "50", "--distance", "5"]);
    assert_eq!(rows(&report), ["query with verified hits", "query without a hit"]);
    // Ten hits each for half of the queries.
    assert_eq!(verified(&report), (100, 500));
    assert_limits(&report);
}

#[test]
fn read_reports_bytes_and_documents_of_each_file() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/bulk/");
    let files = ["duckdb.parquet", "warcio.warc.wet.gz"].map(|name| format!("{fixtures}{name}"));
    let report = report(&["read", &files[0], &files[1]]);
    assert_eq!(rows(&report), files);
    let results = list(&report["results"]);
    assert!(results.iter().all(|row| row["count"] == 4));
    assert!(results.iter().all(|row| number(&row["megabytes_per_second"]) > 0.0));
}

#[test]
fn text_reports_bytes_and_documents() {
    let report = report(&["text", "--count", "5", "--bytes", "500,2k", "--seconds", "0"]);
    let tasks = [
        "English, fingerprint",
        "English, and sketch",
        "Chinese, fingerprint",
        "Chinese, and sketch",
        "HTML, content",
        "HTML, and sketch",
    ];
    let of = |bytes| tasks.map(|task| format!("{task}, {bytes} bytes"));
    assert_eq!(rows(&report), [of(500), of(2_000)].concat());
    let megabytes = |row: &Value| number(&row["megabytes_per_second"]) > 0.0;
    assert!(list(&report["results"]).iter().all(megabytes));
    assert!(report["verification"].is_null());
    assert_limits(&report);
}

#[test]
fn http_reports_requests_and_the_same_work_without_http() {
    // In a second the pages could be sent a thousand times.
    let tiny = ["--count", "2k", "--queries", "300", "--seconds", "1", "--threads", "2"];
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let pages = ["--pages", "3", "--real-pages", "20", "--texts", docs];
    let report = report(&[&["http", "--distance", "1,3"], &pages[..], &tiny[..]].concat());
    let expected = [
        "packed inserts",
        "GET /healthz",
        "GET /healthz of a bare axum server",
        "single JSON queries",
        "single JSON queries of a bare axum server",
        "single JSON check-and-inserts",
        "check-and-inserts of 8 KB pages",
        "GET /healthz with the same pages",
        "the same pages, read and discarded",
        "packed queries",
        "the same in this process",
    ];
    assert_eq!(rows(&report)[..11], expected);
    for ratio in [
        "GET /healthz to a bare axum server",
        "single queries to GET /healthz",
        "single queries to a bare axum server",
        "pages checked and inserted to the same to /healthz",
        "packed queries to the same in this process",
    ] {
        assert!(fact(&report, ratio) > 0.0);
    }
    for real in [
        "check-and-insert of a page, JSON",
        "check-and-insert of a page, raw",
        "check-and-insert of a page, NDJSON",
        "query with a page, JSON",
        "fingerprint of a page, JSON",
        "check-and-insert of a page of a family of 30",
    ] {
        assert!(rows(&report).contains(&real), "{report}");
        // So few pages may take less than the clock of processor time tells.
        assert!(fact(&report, &format!("{real}: its analysis alone")) >= 0.0);
    }
    let new = list(&report["facts"]).iter().filter(|fact| fact["what"] == "pages that were new");
    let new: Vec<f64> = new.map(|fact| number(&fact["value"])).collect();
    assert_eq!(format!("{new:?}"), "[100.0, 100.0]", "at each distance");
    let (checked, hits) = verified(&report);
    assert!(checked >= 300 && hits >= 150, "{checked} {hits}");
    assert_limits(&report);
}

#[test]
fn http_says_when_nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    // Port 9 of the loopback: nobody listens there.
    let output = bench(folder.path(), &["http", "--count", "10", "--url", "http://127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("error: no answer") && error.contains("next: start one"), "{error}");
}

#[test]
fn a_table_is_what_people_get() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &["lookup", "--count", "1k", "--queries", "100"]);
    let table = String::from_utf8(output.stdout).unwrap();
    for part in ["index B/fp", "single, random", "a random line", "0 missed, 0 false", "--seed 1"] {
        assert!(table.contains(part), "{table}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in [
        &["lookup", "--count", "0"][..],
        &["lookup", "--distance", "13"],
        &["lookup", "--adversarial", "--file", "x"],
        &["lookup", "--like", "text", "--file", "x"],
        &["lookup", "--like", "text", "--families", "1.5"],
        &["mixed", "--threads", "0"],
        &["nothing"],
    ] {
        let output = bench(folder.path(), wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
