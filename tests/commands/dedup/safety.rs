//! Outputs over inputs, over one another, over devices and links; the standard output and pipes.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::process::{Command, Stdio};

use super::support::*;

#[test]
fn outputs_over_inputs_and_over_one_another_are_refused_before_anything_is_read() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let all = of(&lines(), &[0, 1, 2, 3]);
    fs::create_dir_all(at("in/deep")).unwrap();
    for name in ["a.jsonl", "in/deep/b.jsonl"] {
        write(folder.path(), name, &all);
    }
    symlink("a.jsonl", at("soft.jsonl")).unwrap();
    fs::hard_link(at("in/deep/b.jsonl"), at("hard.jsonl")).unwrap();
    for (arguments, why) in [
        (&["a.jsonl", "-o", "./a.jsonl"][..], "is the input"),
        (&["a.jsonl", "-o", "soft.jsonl"], "is the input"),
        (&["soft.jsonl", "--groups", "a.jsonl"], "is the input"),
        (&["a.jsonl", "--pairs", "a.jsonl"], "is the input"),
        (&["in", "--groups", "hard.jsonl"], "is the input"),
        (&["in", "-o", "in/deep/b.jsonl"], "lies in in"),
        (&["in", "-o", "in/new.jsonl"], "lies in in"),
        (&["in", "-o", "in/new/"], "lies in in"),
        (&["a.jsonl", "-o", "x", "--groups", "./x"], "would both be"),
        (&["a.jsonl", "--groups", "x", "--pairs", "x"], "would both be"),
        (&["a.jsonl", "-o", "-", "--pairs", "-"], "would both be"),
        (&["a.jsonl", "-o", "x/", "--groups", "x"], "would both be"),
        (&["a.jsonl", "-o", "new/x"], "its folder does not exist"),
        (&["a.jsonl", "--groups", "in"], "is a folder"),
        (&["a.jsonl", "--model", "hard.jsonl", "-o", "hard.jsonl"], "is the input"),
    ] {
        let error = failed(folder.path(), 2, arguments);
        assert!(error.contains(why) && !error.contains("memory:"), "{arguments:?}: {error}");
    }
    assert_eq!(read(folder.path(), "a.jsonl"), all);
    assert_eq!(read(folder.path(), "in/deep/b.jsonl"), all);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left");
}

#[test]
fn devices_links_and_files_named_like_partial_ones_are_not_replaced() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    write(folder.path(), "in.jsonl", of(&lines(), &[0, 1, 2]));
    write(folder.path(), "victim", "kept");
    symlink("/dev/null", at("null")).unwrap();
    symlink("victim", at("out.jsonl.partial")).unwrap();
    symlink("unique.jsonl", at("link")).unwrap();
    done(folder.path(), &["in.jsonl", "-o", "null", "--groups", "/dev/null", "--pairs", "null"]);
    assert!(fs::metadata(at("null")).unwrap().file_type().is_char_device());
    assert!(at("null").is_symlink());
    done(folder.path(), &["in.jsonl", "-o", "out.jsonl", "--groups", "link"]);
    assert_eq!(read(folder.path(), "victim"), "kept");
    assert!(at("out.jsonl.partial").is_symlink() && !at("out.jsonl").is_symlink());
    assert!(at("link").is_symlink() && read(folder.path(), "unique.jsonl").contains("\"group\""));
}

#[test]
fn the_standard_output_gets_the_copy_alone() {
    let folder = folder();
    let lines = lines();
    write(folder.path(), "in.jsonl", of(&lines, &[0, 1, 2]));
    for name in ["-", "/dev/stdout"] {
        let output = nearprint(folder.path(), &["in.jsonl", "-o", name]);
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), of(&lines, &[0, 1]), "{name}");
        let said = String::from_utf8(output.stderr).unwrap();
        let place = if name == "-" { "the standard output" } else { name };
        assert!(said.contains(&format!("documents in {place}, ")), "{said}");
    }
    // A shell has opened a file for it.
    let redirected = Command::new(env!("CARGO_BIN_EXE_nearprint"))
        .args(["dedup", "in.jsonl", "-o", "/dev/stdout"])
        .current_dir(folder.path())
        .stdout(fs::File::create(folder.path().join("out.jsonl")).unwrap())
        .stderr(Stdio::null())
        .status();
    assert!(redirected.unwrap().success());
    assert_eq!(read(folder.path(), "out.jsonl"), of(&lines, &[0, 1]));
    assert!(done(folder.path(), &["in.jsonl", "--pairs", "-"]).starts_with("{\"id_a\":"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_pipe_is_written_straight() {
    let folder = folder();
    let lines = lines();
    write(folder.path(), "in.jsonl", of(&lines, &[0, 1, 2]));
    let pipe = folder.path().join("pipe.gz");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read(pipe).unwrap())
    };
    done(folder.path(), &["in.jsonl", "-o", "pipe.gz"]);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let packed = reader.join().unwrap();
    let mut copied = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(&packed[..]);
    std::io::Read::read_to_string(&mut unpacked, &mut copied).unwrap();
    assert_eq!(copied, of(&lines, &[0, 1]));
}

/// A response with this body, as crawlers write it.
fn response(name: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let http = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n");
    let header = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/{name}\r\n\
         Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n",
        http.len() + body.len()
    );
    [header.as_bytes(), http.as_bytes(), body, b"\r\n\r\n"].concat()
}

#[test]
fn a_film_above_the_limit_is_no_failure_and_is_copied_byte_by_byte() {
    let folder = folder();
    let page = response("page", "text/html", TEXTS[0].as_bytes());
    let film = response("film", "video/mp4", &b"\0\x01film".repeat(2 << 20));
    let archive = [&page[..], &film, &page].concat();
    write(folder.path(), "in.warc", &archive);
    let copied = [&page[..], &film].concat();
    for (name, output) in [("plain", "out.warc"), ("gzip", "out.warc.gz"), ("zstd", "out.warc.zst")]
    {
        let shown = done(folder.path(), &["in.warc", "-o", output]);
        assert!(shown.contains("1  other records, copied as they are"), "{shown}");
        let packed = fs::read(folder.path().join(output)).unwrap();
        let mut unpacked = Vec::new();
        match name {
            "plain" => unpacked = packed,
            "gzip" => {
                let mut members = flate2::read::MultiGzDecoder::new(&packed[..]);
                std::io::Read::read_to_end(&mut members, &mut unpacked).unwrap();
            }
            _ => unpacked = zstd::decode_all(&packed[..]).unwrap(),
        }
        assert!(unpacked == copied, "{name}");
    }
    // One that is cut off is a failure, and is not in the copy.
    write(folder.path(), "cut.warc", &archive[..page.len() + film.len() / 2]);
    failed(folder.path(), 1, &["cut.warc", "-o", "out.warc"]);
    assert!(fs::read(folder.path().join("out.warc")).unwrap() == page);
}
