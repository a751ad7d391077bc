//! Tables and lines that are not UTF-8, decoded while they are read.

use std::io::{self, BufRead, Read};
use std::str::FromStr;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::compression::ByteSource;

const BUFFER_BYTES: usize = 256 << 10;
/// How much of a file without a byte order mark is looked at to tell UTF-16 from binary data.
const UTF_16_SAMPLE: usize = 4 << 10;

/// An encoding of the WHATWG standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charset(&'static Encoding);

impl FromStr for Charset {
    type Err = String;

    fn from_str(label: &str) -> Result<Self, String> {
        let known = Encoding::for_label_no_replacement(label.as_bytes());
        known.map(Self).ok_or_else(|| {
            format!("no charset is called {label:?}; some are windows-1252, utf-16le, shift_jis")
        })
    }
}

impl Charset {
    /// UTF-16 by its byte order mark.
    pub(crate) fn of_mark(head: &[u8]) -> Option<Self> {
        let (encoding, _) = Encoding::for_bom(head)?;
        (encoding != UTF_8).then_some(Self(encoding))
    }

    /// The name of UTF-32, which no reader decodes, by its byte order mark or by a text that is
    /// mostly ASCII. Its mark begins with that of UTF-16.
    pub(crate) fn utf_32(head: &[u8]) -> Option<&'static str> {
        let units = head[..head.len().min(UTF_16_SAMPLE)].chunks_exact(4);
        let (mut all, mut little, mut big) = (0, 0, 0);
        for unit in units {
            all += 1;
            little += usize::from(matches!(unit, [1..=u8::MAX, _, 0, 0]));
            big += usize::from(matches!(unit, [0, 0, _, 1..=u8::MAX]));
        }
        let is_marked = |mark: &[u8]| head.starts_with(mark);
        if is_marked(b"\xff\xfe\0\0") || all > 0 && little == all {
            return Some("UTF-32LE");
        }
        (is_marked(b"\0\0\xfe\xff") || all > 0 && big == all).then_some("UTF-32BE")
    }

    /// UTF-16 without its byte order mark, in a text that is mostly ASCII.
    pub(crate) fn of_nuls(head: &[u8]) -> Option<Self> {
        let head = &head[..head.len().min(UTF_16_SAMPLE)];
        let pairs = head.len() / 2;
        let nuls = |first: usize| head.iter().skip(first).step_by(2).filter(|b| **b == 0).count();
        let is_half = |most: usize, few: usize| most > pairs / 2 && few <= pairs / 100;
        match (nuls(0), nuls(1)) {
            (even, odd) if is_half(odd, even) => Some(Self(UTF_16LE)),
            (even, odd) if is_half(even, odd) => Some(Self(UTF_16BE)),
            _ => None,
        }
    }

    /// The likeliest encoding of bytes that are not UTF-8.
    pub(crate) fn guessed(bytes: &[u8]) -> Self {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(bytes, true);
        Self(detector.guess(None, Utf8Detection::Deny))
    }

    /// Its name, which is also a label.
    pub(crate) fn name(self) -> &'static str {
        self.0.name()
    }

    /// A source of UTF-8. A byte order mark overrides the encoding.
    pub(crate) fn decoded(self, source: ByteSource) -> ByteSource {
        if self.0 == UTF_8 {
            return source;
        }
        let decoder = self.0.new_decoder();
        let (text, at, is_over) = (Vec::new(), 0, false);
        Box::new(Decoded { source, decoder, text, at, is_over })
    }
}

struct Decoded {
    source: ByteSource,
    decoder: Decoder,
    text: Vec<u8>,
    /// How much of the text was consumed.
    at: usize,
    is_over: bool,
}

impl BufRead for Decoded {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.text.len() && !self.is_over {
            let bytes = self.source.fill_buf()?;
            let is_last = bytes.is_empty();
            self.text.resize(BUFFER_BYTES, 0);
            let (result, read, written, _) =
                self.decoder.decode_to_utf8(bytes, &mut self.text, is_last);
            self.source.consume(read);
            self.text.truncate(written);
            self.at = 0;
            self.is_over = is_last && result == CoderResult::InputEmpty;
        }
        Ok(&self.text[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn utf_16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn text_is_decoded_however_its_bytes_are_cut() {
        let text = "id,text\n1,\u{e9}\u{1f600}\u{4e2d}\n".repeat(30);
        let bytes: &'static [u8] = utf_16(&text).leak();
        for piece in 1..=9 {
            let source = Box::new(BufReader::with_capacity(piece, bytes));
            let charset: Charset = "utf-16le".parse().unwrap();
            let mut decoded = String::new();
            charset.decoded(source).read_to_string(&mut decoded).unwrap();
            assert_eq!(decoded, text, "pieces of {piece}");
        }
    }

    #[test]
    fn encodings_are_told_apart() {
        let marked = [&b"\xff\xfe"[..], &utf_16("a")].concat();
        assert_eq!(Charset::of_mark(&marked).map(Charset::name), Some("UTF-16LE"));
        assert_eq!(Charset::of_mark(b"\xef\xbb\xbfa"), None);
        assert_eq!(Charset::of_nuls(&utf_16("id,text\n")).map(Charset::name), Some("UTF-16LE"));
        assert_eq!(Charset::of_nuls(b"\0i\0d\0,\0t").map(Charset::name), Some("UTF-16BE"));
        assert_eq!(Charset::of_nuls(b"\x7fELF\0\0\0\0\x01\x02"), None);
        assert_eq!(Charset::guessed(b"caf\xe9 de la paix").name(), "windows-1252");
        assert!("latin-0".parse::<Charset>().is_err());
        let utf_32 = |text: &str| -> Vec<u8> {
            text.chars().flat_map(|of| u32::from(of).to_le_bytes()).collect()
        };
        assert_eq!(Charset::utf_32(&utf_32("\u{feff}{\"id\"")), Some("UTF-32LE"));
        assert_eq!(Charset::utf_32(&utf_32("{\"id\"")), Some("UTF-32LE"));
        assert_eq!(Charset::utf_32(b"\0\0\0{\0\0\0\""), Some("UTF-32BE"));
        assert_eq!(Charset::utf_32(&utf_16("id,text\n")), None);
        assert_eq!(Charset::utf_32(b"{\"id\": 1}"), None);
        assert_eq!(Charset::utf_32(b"a"), None);
    }
}
