//! Codings that are damaged, hidden, repeated or named where there is none.

use std::io::Write as _;

use super::*;

const PAGE: &[u8] = b"<p>caf\xe9 and a page that is long enough to be compressed, to be compressed";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn undo(header: &str, body: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let header = format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n");
    let body = undone(&Headers::parse(header.as_bytes()), body)?;
    Ok((body.bytes.into_owned(), body.is_cut))
}

#[test]
fn words_that_are_no_codings_and_codings_that_the_bytes_do_not_have_are_ignored() {
    for name in [
        "none",
        "utf-8",
        "8bit",
        "identity",
        "binary",
        "iso-8859-1",
        "sdch",
        "",
        "gzip",
        "x-gzip",
        "br",
        "deflate",
        "zstd",
        "compress",
        "gzip, br",
        "dcb",
    ] {
        let header = format!("Content-Encoding: {name}");
        assert_eq!(undo(&header, PAGE), Ok((PAGE.to_vec(), false)), "{name}");
    }
    // These decode to something by chance, as brotli and as deflate.
    for text in [&b"; a text"[..], b"K"] {
        for name in ["br", "deflate"] {
            let read = undo(&format!("Content-Encoding: {name}"), text);
            assert_eq!(read.map(|(text, _)| text), Ok(text.to_vec()), "{name}");
        }
    }
}

#[test]
fn whatever_is_compressed_is_undone() {
    let packed = gzip(PAGE);
    let twice = gzip(&packed);
    let chunked = [b"\r\n5;x\r\n", &packed[..5], b"\r\n", b"ff\r\n"].concat();
    for (header, body) in [
        ("Content-Encoding: gzip", &packed),
        ("Content-Encoding: gzip, gzip", &twice),
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip", &packed),
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip", &twice),
        ("Content-Encoding: gzip", &twice),
        ("Transfer-Encoding: gzip, chunked", &packed),
        ("Transfer-Encoding: gzip, chunked", &[chunked, packed[5..].to_vec()].concat()),
        ("X: y", &packed),
        ("X: y", &zstd::encode_all(PAGE, 1).unwrap()),
        ("Content-Encoding: br", &packed),
        ("Content-Encoding: gzip", &zstd::encode_all(PAGE, 1).unwrap()),
        ("Content-Encoding: gzip", &[&packed[..], b"more"].concat()),
        ("Content-Encoding: gzip", &[&gzip(&PAGE[..9])[..], &gzip(&PAGE[9..])].concat()),
        ("Content-Encoding: deflate", &deflate(PAGE)),
        ("Content-Encoding: deflate", &[&deflate(PAGE)[..], b"more"].concat()),
    ] {
        let read = undo(header, body).map(|(bytes, _)| bytes);
        assert_eq!(read, Ok(PAGE.to_vec()), "{header}");
    }
}

#[test]
fn what_was_decoded_before_damage_is_the_body() {
    let long: Vec<u8> =
        (0..20_000_u32).flat_map(|n| format!("{n} bottles\n").into_bytes()).collect();
    let zlib = [b"\x78\x9c", &deflate(&long)[..]].concat();
    for (name, packed) in [
        ("gzip", gzip(&long)),
        ("deflate", deflate(&long)),
        ("deflate", zlib),
        ("zstd", zstd::encode_all(&long[..], 1).unwrap()),
    ] {
        let header = format!("Content-Encoding: {name}");
        let (read, is_cut) = undo(&header, &packed[..packed.len() - packed.len() / 8]).unwrap();
        assert!(is_cut && long.starts_with(&read), "{name}");
        assert!(read.len() > long.len() / 4, "{name}: {}", read.len());
    }
    // Only the trailer is missing.
    let packed = gzip(PAGE);
    assert_eq!(
        undo("Content-Encoding: gzip", &packed[..packed.len() - 8]),
        Ok((PAGE.to_vec(), true))
    );
    assert_eq!(
        undo("Transfer-Encoding: chunked", b"5\r\nabcde\r\nff\r\nf"),
        Ok((b"abcdef".to_vec(), true))
    );
    assert!(undo("Content-Encoding: gzip", &packed[..10]).is_err());
}

#[test]
fn a_text_that_begins_with_hex_digits_is_not_taken_for_chunks() {
    for text in [&b"2\r\nor three lines"[..], b"dead\r\n", b"0\r\n is a number", b"12", b"x"] {
        let read = undo("Transfer-Encoding: chunked", text).unwrap();
        assert!(text == b"dead\r\n" || read.0 == text, "{}", text.escape_ascii());
    }
    assert_eq!(undo("Transfer-Encoding: chunked", b"0\r\n\r\n").unwrap().0, b"");
}
