//! Promise: a model of `spectral-D` is learned from vectors by a command, a data directory keeps a
//! copy of the model with which it was created, opens without the configured file and with no other
//! model, and an export takes the copy along. Method: the binary, run as a person runs it.

#![expect(clippy::disallowed_methods, reason = "tests write and damage their own files")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const RECIPE: &str = "spectral-6";

fn nearprint(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(arguments)
        .envs(variables.iter().copied())
        .env("NEARPRINT_ENGINE__DISK_FREE_BYTES_MIN", "0")
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Runs a command that succeeds.
fn done(variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = nearprint(variables, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

/// Runs a command that fails, and returns why.
fn refused(variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = nearprint(variables, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output));
    text(&output)
}

/// A file of vectors of six dimensions.
fn vectors(folder: &Path, name: &str, seed: u64, count: u64) -> String {
    let mut lines = String::new();
    for number in 0..count {
        let component = |d: u64| {
            let bits = (seed << 40 | number << 8 | d).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            f64::from(bits as u32) / f64::from(1 << 24) - 0.4
        };
        let vector: Vec<f64> = (0..6).map(component).collect();
        writeln!(lines, "{{\"id\": \"{number}\", \"vector\": {vector:?}}}").expect("takes all");
    }
    let path = folder.join(name);
    fs::write(&path, lines).expect("the disk has space");
    path.to_str().expect("UTF-8").to_owned()
}

fn model(folder: &Path, name: &str, seed: u64) -> String {
    let sample = vectors(folder, &format!("{name}.ndjson"), seed, 300);
    let path = folder.join(name).to_str().expect("UTF-8").to_owned();
    let said = done(&[], &["train", "spectral", &sample, "--output", &path]);
    assert!(said.contains("of spectral-6") && said.contains("learned from 300 vectors"), "{said}");
    path
}

#[test]
fn a_directory_keeps_its_model_and_opens_with_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (own, other) = (model(folder.path(), "own", 1), model(folder.path(), "other", 2));
    let documents = vectors(folder.path(), "documents.ndjson", 3, 50);
    let (data, recipe) = (at("data"), ("NEARPRINT_DATA__RECIPE", RECIPE));
    let import = ["import", "--data", &data, "--check", &documents];
    let with = |file| [recipe, ("NEARPRINT_DATA__MODEL_FILE", file)];

    let why = refused(&[recipe], &import);
    assert!(why.contains("needs a model") && why.contains("data.model_file"), "{why}");
    let counts =
        |said: &str| said.lines().find(|line| line.starts_with("already")).map(str::to_owned);
    done(&with(&own), &import);
    // What was stored is found again, with the same fingerprints.
    let expected = counts(&done(&with(&own), &import));
    assert!(expected.as_deref().is_some_and(|line| !line.ends_with(" 0")));
    // The same documents again, without the file and with it.
    for variables in [&[recipe][..], &with(&own)[..]] {
        let again = done(variables, &import);
        assert_eq!(counts(&again), expected, "{again}");
    }
    let why = refused(&with(&other), &import);
    assert!(why.contains("was created with the model"), "{why}");
    let why = refused(&with(&documents), &import);
    assert!(why.contains("it is not a model file"), "{why}");
    let why = refused(&with(&at("missing")), &import);
    assert!(why.contains("missing cannot be used"), "{why}");

    let (export, restored) = (at("export"), at("restored"));
    done(&[], &["snapshot", "export", &export, "--data", &data]);
    done(&[], &["snapshot", "restore", &export, "--data", &restored]);
    let again = done(&[recipe], &["import", "--data", &restored, "--check", &documents]);
    assert_eq!(counts(&again), expected, "{again}");

    let path = Path::new(&data).join("model");
    let mut damaged = fs::read(&path).expect("the copy");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&path, damaged).expect("the disk has space");
    let why = refused(&[recipe], &import);
    assert!(why.contains("model"), "{why}");
}

#[test]
fn fingerprints_are_made_with_a_model_of_the_same_dimensions_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = model(folder.path(), "own", 1);
    let documents = vectors(folder.path(), "documents.ndjson", 3, 3);
    let command = |recipe| ["fingerprint", "--ndjson", "--recipe", recipe, &documents];
    let made = done(&[], &[&command(RECIPE)[..], &["--model", &own]].concat());
    assert_eq!(made.lines().count(), 3);
    let why = refused(&[], &command(RECIPE));
    assert!(why.contains("needs its model"), "{why}");
    let why = refused(&[], &[&command("spectral-7")[..], &["--model", &own]].concat());
    assert!(why.contains("it is a model of spectral-6"), "{why}");
    // A model is never written over another file.
    let sample = vectors(folder.path(), "again.ndjson", 4, 200);
    let why = refused(&[], &["train", "spectral", &sample, "--output", &own]);
    assert!(why.contains("cannot write"), "{why}");
}

#[test]
fn a_sample_that_makes_no_model_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("model").to_str().expect("UTF-8").to_owned();
    let train = |lines: &str| {
        let path = folder.path().join("sample.ndjson");
        fs::write(&path, lines).expect("the disk has space");
        refused(&[], &["train", "spectral", path.to_str().expect("UTF-8"), "--output", &output])
    };
    for (lines, reason) in [
        ("{\"vector\": [1, 2]}\n".repeat(99), "at least 100 vectors"),
        ("{\"vector\": [1, 2]}\n".repeat(200), "the same direction"),
        ("{\"vector\": [1, 2]}\n{\"vector\": [1, 2, 3]}\n".to_owned(), "has 3 dimensions"),
        ("{\"vector\": [0, 0]}\n".to_owned(), "zero"),
        ("{\"text\": \"tea\"}\n".to_owned(), "no `vector`"),
        ("{\"vector\": [1, \"2\"]}\n".to_owned(), "line 1"),
        (String::new(), "nothing was read"),
    ] {
        let why = train(&lines);
        assert!(why.contains(reason), "{why}");
    }
    assert!(!Path::new(&output).exists());
}
