//! Tells text from other bytes, whatever a header declares
//! (<https://mimesniff.spec.whatwg.org/#binary-data-byte>).

/// How much of a body is looked at, as in browsers.
const HEAD_BYTES: usize = 1_445;
/// Compressed bytes and images have one binary byte in ten. A text may have a stray one, but less
/// than one in this many. (For browsers a single one is enough not to show a page.)
const BINARY_PART: usize = 30;

/// How files begin that are not texts, although their first bytes may look like some.
const MAGIC: [&[u8]; 14] = [
    b"%PDF-",
    b"%!PS-Adobe-",
    b"PK\x03\x04",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"\xff\xd8\xff",
    b"RIFF",
    b"OggS\0",
    b"wOFF",
    b"wOF2",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\x1a\x45\xdf\xa3",
];

/// Whether these are the bytes of something other than a text in an encoding that has ASCII in it.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    if [&b"\xfe\xff"[..], b"\xff\xfe", b"\xef\xbb\xbf"].iter().any(|mark| head.starts_with(mark)) {
        return false;
    }
    let is_known = MAGIC.iter().any(|magic| head.starts_with(magic));
    // Films of the MPEG family.
    let is_film = head.get(4..8) == Some(b"ftyp");
    let binary = head.iter().filter(|&&byte| is_binary_byte(byte)).count();
    is_known || is_film || binary * BINARY_PART > head.len()
}

const fn is_binary_byte(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_any_encoding_are_told_from_compressed_bytes_and_pictures() {
        let stray =
            [&b"A long enough line of text with a stray byte in it: "[..], b"\x01."].concat();
        for text in [
            &b""[..],
            b"<p>page",
            b"caf\xe9",
            b"\x1b$B%F%9%H\x1b(B in ISO-2022-JP",
            b"\xff\xfeh\0i\0",
            "\u{feff}\u{447}".as_bytes(),
            &stray,
        ] {
            assert!(!is_binary(text), "{}", text.escape_ascii());
        }
        let packed = zstd::encode_all(&b"one, two, three, four, five, six"[..], 3).unwrap();
        for binary in [
            &packed[..],
            &packed[4..],
            b"%PDF-1.7\nmostly text",
            b"\0\0\0\x20ftypisom",
            b"\x7fELF\x02\x01\x01\0",
            b"GIF89a and more",
        ] {
            assert!(is_binary(binary), "{}", binary.escape_ascii());
        }
    }
}
