//! Inputs that are no regular files, and standard streams that are full or closed.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::support::*;

/// A command in a folder, with a full device for its standard error.
fn with_full_stderr(folder: &Path, arguments: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stderr(full);
    command.output().unwrap()
}

#[test]
fn a_full_standard_error_costs_the_messages_alone() {
    let folder = folder();
    let lines = of(&lines(), &[0, 1, 2]);
    write(folder.path(), "a.jsonl", &lines);
    write(folder.path(), "b.jsonl", format!("{lines}broken\n"));
    for (code, arguments) in [
        (0, &["import", "--data", "data", "a.jsonl"][..]),
        (1, &["import", "--dry-run", "b.jsonl"]),
        (0, &["dedup", "a.jsonl", "-o", "unique.jsonl"]),
        (0, &["dedup", "a.jsonl", "-o", "-"]),
        (1, &["dedup", "b.jsonl", "-o", "of-b.jsonl"]),
        (0, &["match", "a.jsonl", "a.jsonl", "-o", "pairs.jsonl"]),
        (0, &["match", "a.jsonl", "a.jsonl", "-o", "-"]),
        (1, &["match", "a.jsonl", "b.jsonl", "-o", "of-b.pairs"]),
        (1, &["fingerprint", "a.jsonl", "missing"]),
        (1, &["stats", "--server", "http://127.0.0.1:1"]),
        (2, &["nonsense"]),
        (2, &[]),
    ] {
        let output = with_full_stderr(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
    assert_eq!(read(folder.path(), "unique.jsonl").lines().count(), 2);
    assert_eq!(read(folder.path(), "of-b.jsonl").lines().count(), 3);
    assert_eq!(read(folder.path(), "pairs.jsonl").lines().count(), 5);
}

#[test]
fn a_standard_output_that_nobody_reads_hides_no_failure() {
    let folder = folder();
    let bad = format!("{}broken\n", of(&lines(), &[0, 1, 2]));
    write(folder.path(), "bad.jsonl", bad);
    write(folder.path(), "good.jsonl", of(&lines(), &[0]));
    let run = |arguments: &[&str], output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        let command = command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(output).stderr(Stdio::null()).status().unwrap().code()
    };
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for arguments in [
        &["import", "--dry-run", "bad.jsonl"][..],
        &["dedup", "bad.jsonl", "--groups", "groups"],
        &["dedup", "bad.jsonl", "--groups", "groups", "--json"],
        &["dedup", "good.jsonl", "-o", "-"],
        &["match", "bad.jsonl", "bad.jsonl", "-o", "pairs.jsonl"],
        &["match", "bad.jsonl", "good.jsonl"],
        &["match", "good.jsonl", "bad.jsonl"],
        &["fingerprint", "missing", "good.jsonl"],
        &["fingerprint", "good.jsonl", "missing"],
    ] {
        assert_eq!(run(arguments, closed()), Some(1), "{arguments:?}");
        assert_eq!(run(arguments, full()), Some(1), "{arguments:?}");
    }
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["completions", "bash"],
        &["match", "good.jsonl", "good.jsonl"],
    ] {
        assert_eq!(run(arguments, closed()), Some(0), "{arguments:?}");
        assert_eq!(run(arguments, full()), Some(1), "{arguments:?}");
    }
}

#[test]
fn changes_that_nobody_reads_do_not_end_an_import() {
    let folder = folder();
    let import = |text: &str, output: Stdio| {
        let ids = (0..2_000).map(|id| format!("{{\"id\": \"{id}\", \"text\": \"{text} {id}\"}}\n"));
        write(folder.path(), "a.jsonl", ids.collect::<String>());
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
        command.args(["import", "--data", "data", "--show-previous", "a.jsonl"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(output).output().unwrap()
    };
    assert!(import("a page as it was", Stdio::null()).status.success());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    import("a text that is another one now", Stdio::from(writer));
    let again = import("a text that is another one now", Stdio::piped());
    let said = String::from_utf8(again.stdout).unwrap();
    assert!(!said.contains("similarity"), "the run before has stored everything: {said}");
}

/// Runs the command with `input` at its standard input.
fn piped(folder: &Path, arguments: &[&str], input: &'static str) -> Output {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let feeding = std::thread::spawn(move || {
        // A command that refuses its arguments does not read its input.
        drop(std::io::Write::write_all(&mut writer, input.as_bytes()));
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearprint"));
    let output = command.args(arguments).current_dir(folder).stdin(reader).output().unwrap();
    drop(command);
    feeding.join().unwrap();
    output
}

#[test]
fn a_stream_is_read_once_whatever_its_name() {
    let folder = folder();
    let input: &'static str = of(&lines(), &[0, 1, 2]).leak();
    write(folder.path(), "a.jsonl", input);
    done(folder.path(), &["a.jsonl", "-o", "of-file.jsonl"]);
    let expected = read(folder.path(), "of-file.jsonl");
    for name in ["-", "/dev/stdin", "/dev/fd/0"] {
        let output = piped(folder.path(), &["dedup", name, "-o", "o.jsonl"], input);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(read(folder.path(), "o.jsonl"), expected, "{name}");
        let arguments = ["import", "--dry-run", "--format", "ndjson", name];
        let output = piped(folder.path(), &arguments, input);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }

    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let feeding = std::thread::spawn(move || fs::write(pipe, input).unwrap());
    done(folder.path(), &["pipe", "--format", "ndjson", "-o", "of-pipe.jsonl"]);
    feeding.join().unwrap();
    assert_eq!(read(folder.path(), "of-pipe.jsonl"), expected);
}

#[test]
fn a_pipe_that_a_shell_names_and_a_socket_are_read_once() {
    let folder = folder();
    let input: &'static str = of(&lines(), &[0, 1, 2]).leak();
    write(folder.path(), "a.jsonl", input);
    done(folder.path(), &["a.jsonl", "-o", "of-file.jsonl"]);
    let expected = read(folder.path(), "of-file.jsonl");
    let program = env!("CARGO_BIN_EXE_nearprint");
    for (arguments, said) in [
        ("dedup <(gzip -c a.jsonl) -o o.jsonl", "kept                     2\n"),
        ("dedup <(cat a.jsonl) --against data -o o.jsonl", "kept                     2\n"),
        ("dedup <(gzip -c a.jsonl) --mark -o marked.jsonl", "3  marked documents"),
        ("dedup <(cat a.jsonl) <(cat a.jsonl) --dry-run", "documents                6\n"),
        ("match <(gzip -c a.jsonl) <(cat a.jsonl) -o pairs.jsonl", "5  with 3 of the records"),
        ("import --data new <(gzip -c a.jsonl)", "stored now                   3\n"),
        ("fingerprint <(cat a.jsonl)", "/dev/fd/"),
    ] {
        write(folder.path(), "o.jsonl", expected.as_bytes());
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("mkdir -p data && '{program}' {arguments}")]);
        let output = shell.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {err}");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(out.contains(said), "{arguments}: {out}");
        assert_eq!(read(folder.path(), "o.jsonl"), expected, "{arguments}");
    }

    // As programs that start others give them.
    for name in ["-", "/dev/stdin"] {
        let (mut own, its) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut own, input.as_bytes()).unwrap();
        drop(own);
        let mut command = Command::new(program);
        command.args(["dedup", name, "-o", "of-socket.jsonl"]).current_dir(folder.path());
        let output = command.stdin(OwnedFd::from(its)).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(read(folder.path(), "of-socket.jsonl"), expected, "{name}");
    }
}

#[test]
fn what_cannot_come_from_a_stream_is_refused_with_a_remedy() {
    let folder = folder();
    for (arguments, input, code, why) in [
        (
            &["dedup", "/dev/stdin", "-o", "new/"][..],
            "{}",
            2,
            "would have no file name in the folder",
        ),
        (&["dedup", "/dev/stdin", "-o", "x"], "PAR1....", 1, "save it as a file, and name that"),
        (&["import", "--dry-run", "/dev/stdin"], "PAR1....", 1, "save it as a file, and name that"),
        (&["match", "/dev/stdin", "/dev/stdin", "-o", "x"], "", 2, "named twice"),
        (&["match", "-", "/dev/stdin", "-o", "x"], "", 2, "named twice"),
        (&["dedup", "-", "/dev/fd/0", "-o", "x"], "", 2, "named twice"),
        (&["import", "--dry-run", "/dev/stdin", "-"], "", 2, "named twice"),
    ] {
        let output = piped(folder.path(), arguments, input);
        let err =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        assert!(err.contains(why), "{arguments:?}: {err}");
    }
}
