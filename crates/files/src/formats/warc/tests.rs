//! Records in pieces of every size, broken records, and the encodings of pages.

use std::io::BufReader;
use std::path::Path;

use super::*;
use crate::context::{Context, RecordForm};
use crate::entry::FileRecord;
use crate::mapping::Mapping;
use crate::offer::Content;

/// Id and content of each page, the names of other records, or what is wrong with them.
fn read(bytes: &[u8], piece: usize) -> Vec<String> {
    let bytes: &'static [u8] = bytes.to_vec().leak();
    let source = Box::new(BufReader::with_capacity(piece, bytes));
    let file = File::new(
        &Context::new(Mapping::default(), RecordForm::Both),
        Path::new("f"),
        "",
        "record",
    );
    let mut archive = Archive::new(file, Window::new(source));
    archive.bytes_max = 400;
    let shown = |item: Item| match item {
        Ok(FileRecord::Document(entry)) => {
            let id = entry.id.unwrap_or_default();
            match entry.content {
                Content::Text(text) => format!("{id} text {text}"),
                Content::Html(html) => format!("{id} html {html}"),
                other @ (Content::Features(_) | Content::Vector(_) | Content::Fingerprint(_)) => {
                    panic!("{other:?}")
                }
            }
        }
        Ok(FileRecord::Other(other)) => other.what.to_owned(),
        Err(bad) => bad.to_string(),
    };
    archive.map(shown).collect()
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    for piece in (1..bytes.len().min(60)).chain([bytes.len()]) {
        let read = read(bytes, piece);
        let matches = |(read, expected): (&String, &&str)| read.starts_with(expected);
        let is_same = read.len() == expected.len() && read.iter().zip(expected).all(matches);
        assert!(is_same, "pieces of {piece}: {read:?}");
    }
}

fn record(kind: &str, content_type: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let header = format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://a.example/\r\n\
         Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    [header.as_bytes(), content, b"\r\n\r\n"].concat()
}

fn response(header: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n");
    record("response", "application/http; msgtype=response", &[head.as_bytes(), body].concat())
}

#[test]
fn each_type_of_record_is_a_page_or_is_named() {
    let bytes = [
        record("warcinfo", "application/warc-fields", b"software: x"),
        record("request", "application/http; msgtype=request", b"GET / HTTP/1.1\r\n\r\n"),
        response("Content-Type: text/html", b"<p>page"),
        record("resource", "text/plain; charset=latin1", b"caf\xe9"),
        record("conversion", "text/plain", b"a text"),
        record("revisit", "application/http; msgtype=response", b"HTTP/1.1 200 OK\r\n\r\n"),
        record("response", "text/dns", b"20260101 a.example"),
        record("response", "application/http", b"HTTP/1.1 404 Not Found\r\n\r\n<p>gone"),
        response("Content-Type: image/png", b"\x89PNG"),
        response("X: none", b" <!DOCTYPE html><p>no type"),
        record("continuation", "application/http", b"rest"),
    ];
    check(
        &bytes.concat(),
        &[
            "descriptions of web archives",
            "web requests",
            "https://a.example/ html <p>page",
            "https://a.example/ text caf\u{e9}",
            "https://a.example/ text a text",
            "web revisits",
            "web records that are no pages",
            "web responses with another status",
            "web records that are no pages",
            "https://a.example/ html  <!DOCTYPE html><p>no type",
            "web records of other types",
        ],
    );
}

#[test]
fn reading_goes_on_behind_a_record_that_is_broken() {
    let good = record("conversion", "text/plain", b"a text");
    let page = "https://a.example/ text a text";
    let replaced = |from: &str, to: &str| {
        String::from_utf8(good.clone()).unwrap().replacen(from, to, 1).into_bytes()
    };
    for (broken, why) in [
        (replaced("Length: 6", "Length: 7"), "another record does not begin where"),
        (replaced("Length: 6", "Length: 2"), "another record does not begin where"),
        (replaced("Length: 6", "Length: six"), "its Content-Length is no number"),
        (replaced("Content-Length: 6", "X: y"), "has no Content-Length"),
        (replaced("WARC/1.1", "WORC/1.1"), "no record of a web archive begins here"),
    ] {
        let second = format!("f record 2 (byte {}): {why}", good.len());
        check(&[&good[..], &broken, &good].concat(), &[page, &second, page]);
    }
    let long = record("conversion", "text/plain", &[b'x'; 401]);
    let second = format!("f record 2 (byte {}): longer than", good.len());
    check(&[&good[..], &long, &good].concat(), &[page, &second, page]);
    let picture = record("resource", "image/png", &[b'x'; 401]);
    check(&[&good[..], &picture, &good].concat(), &[page, "web records that are no pages", page]);
    let far = replaced("Length: 6", "Length: 99999999999999");
    check(&[&good[..], &far].concat(), &[page, "f record 2", "f record 2"]);
}

#[test]
fn encoded_pages_are_decoded_and_those_that_are_no_longer_encoded_are_taken() {
    let page = b"<p>page";
    let chunked = |body: &[u8]| {
        let (first, last) = body.split_at(3);
        let mut chunks = format!("{:x};x=y\r\n", first.len()).into_bytes();
        chunks.extend_from_slice(first);
        chunks.extend_from_slice(format!("\r\n{:X}\r\n", last.len()).as_bytes());
        chunks.extend_from_slice(last);
        chunks.extend_from_slice(b"\r\n0\r\n\r\n");
        chunks
    };
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut zlib, page).unwrap();
    let zlib = zlib.finish().unwrap();
    let bare = &zlib[2..zlib.len() - 4];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, page).unwrap();
    let gzip = gzip.finish().unwrap();
    let encoded =
        |encoding: &str| format!("Content-Type: text/html\r\nContent-Encoding: {encoding}");
    let transfer = "\r\nTransfer-Encoding: chunked";
    for (header, body) in [
        (encoded("gzip"), gzip.clone()),
        (encoded("x-gzip"), page.to_vec()),
        (encoded("deflate"), zlib.clone()),
        (encoded("deflate"), bare.to_vec()),
        (encoded("br"), page.to_vec()),
        (encoded("zstd"), zstd::encode_all(&page[..], 1).unwrap()),
        (encoded("gzip") + transfer, chunked(&gzip)),
        (encoded("identity") + transfer, chunked(page)),
        (encoded("identity") + transfer, page.to_vec()),
        (encoded("unheard-of"), page.to_vec()),
    ] {
        let read = read(&response(&header, &body), 99);
        assert_eq!(read, ["https://a.example/ html <p>page"], "{header}");
    }
    let broken = read(&response(&encoded("gzip"), b"\x1f\x8b\x08\xff\xff\xff"), 99);
    assert!(broken[0].contains("content encoding \"gzip\" cannot be undone"), "{broken:?}");
}

#[test]
fn charsets_are_those_of_the_header_or_of_the_page() {
    for (header, body) in [
        ("text/html; charset=windows-1251", &b"\xf7\xe0\xe9"[..]),
        ("text/html; charset=\"WINDOWS-1251\"", b"\xf7\xe0\xe9"),
        ("text/html; charset=unheard-of", "\u{447}\u{430}\u{439}".as_bytes()),
        ("text/plain", "\u{447}\u{430}\u{439}".as_bytes()),
    ] {
        let read = read(&response(&format!("Content-Type: {header}"), body), 99);
        assert!(read[0].ends_with("\u{447}\u{430}\u{439}"), "{header}: {read:?}");
    }
}
