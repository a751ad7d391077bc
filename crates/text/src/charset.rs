//! From the bytes of a document to UTF-8.
//!
//! The first of these that is present decides the encoding: a byte order mark; the label that came
//! with the document (`charset=` of its content type); in HTML, a first tag in UTF-16, a `<meta>`
//! in the first 1,024 bytes, an XML declaration, a later `<meta>`; valid UTF-8; and last a guess by
//! letter frequencies (`chardetng`, as in browsers). Bytes that are invalid in the encoding become
//! U+FFFD, which separates words. Linear in the bytes; the text can be up to three times as long.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::{memchr, memchr3, memmem};

use crate::html::tag::Tag;

/// Browsers look for a `<meta>` with the encoding in this many bytes before they begin to decode,
/// and begin again if they meet one later.
const META_BYTES: usize = 1_024;

/// A label names no encoding of the WHATWG standard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown charset {label:?}")]
pub struct UnknownCharset {
    /// The label as it came with the document.
    pub label: String,
}

/// Decodes a document.
///
/// # Errors
/// [`UnknownCharset`] when the label names no known encoding, even if the encoding is known
/// otherwise.
///
/// # Examples
/// ```
/// use nearprint_text::charset::decode;
/// assert_eq!(decode(b"caf\xe9", Some("latin1"), false)?, "caf\u{e9}");
/// assert!(decode(b"tea", Some("latin-0"), false).is_err());
/// # Ok::<(), nearprint_text::charset::UnknownCharset>(())
/// ```
pub fn decode<'a>(
    bytes: &'a [u8],
    label: Option<&str>,
    html: bool,
) -> Result<Cow<'a, str>, UnknownCharset> {
    let labelled = label.map(named).transpose()?;
    let encoding = labelled
        .or_else(|| html.then(|| declared(bytes)).flatten())
        .unwrap_or_else(|| guessed(bytes));
    // `decode` lets a byte order mark override this, and removes it.
    Ok(encoding.decode(bytes).0)
}

/// Decodes a document whose label nobody has checked: as in browsers, one that names no known
/// encoding is as good as none.
///
/// ```
/// use nearprint_text::charset::decode_or_guess;
/// assert_eq!(decode_or_guess(b"caf\xe9", Some("latin1"), false), "caf\u{e9}");
/// assert_eq!(decode_or_guess("caf\u{e9}".as_bytes(), Some("none"), false), "caf\u{e9}");
/// ```
pub fn decode_or_guess<'a>(bytes: &'a [u8], label: Option<&str>, html: bool) -> Cow<'a, str> {
    let known = label.filter(|label| named(label).is_ok());
    decode(bytes, known, html).expect("the label is known")
}

/// Whether a label names a known encoding that reads UTF-8 or ASCII as something else.
pub fn is_other_than_utf_8(label: &str) -> bool {
    let is_ascii = ["ascii", "us-ascii"].iter().any(|own| own.eq_ignore_ascii_case(label));
    !is_ascii && named(label).is_ok_and(|encoding| encoding != UTF_8)
}

fn named(label: &str) -> Result<&'static Encoding, UnknownCharset> {
    Encoding::for_label_no_replacement(label.as_bytes())
        .ok_or_else(|| UnknownCharset { label: label.to_owned() })
}

fn guessed(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

/// The encoding that a page declares; unknown encodings are ignored.
fn declared(html: &[u8]) -> Option<&'static Encoding> {
    let head = &html[..html.len().min(META_BYTES)];
    utf_16_by_its_first_tag(html)
        .or_else(|| in_meta(head))
        .or_else(|| in_xml_declaration(html))
        .or_else(|| in_meta(html))
}

/// UTF-16 without a byte order mark, if a page begins with a tag in it: between ASCII characters
/// stand zeros, which no other encoding has there.
fn utf_16_by_its_first_tag(html: &[u8]) -> Option<&'static Encoding> {
    match *html {
        [b'<', 0, b'!' | b'?' | b'a'..=b'z' | b'A'..=b'Z', 0, ..] => Some(UTF_16LE),
        [0, b'<', 0, b'!' | b'?' | b'a'..=b'z' | b'A'..=b'Z', ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// The encoding that the first `<meta>` with a known one declares, outside comments, scripts and
/// the values of attributes. What is never closed hides nothing.
fn in_meta(html: &[u8]) -> Option<&'static Encoding> {
    let mut rest = html;
    let (mut a_comment_ends, mut a_script_ends, mut a_quote_ends) = (true, true, true);
    while let Some(at) = memchr(b'<', rest) {
        rest = &rest[at + 1..];
        let tag = rest.strip_prefix(b"/").unwrap_or(rest);
        if a_comment_ends && rest.starts_with(b"!--") {
            match after(rest, b"-->") {
                Some(after) => rest = after,
                None => a_comment_ends = false,
            }
        } else if tag.first().is_some_and(u8::is_ascii_alphabetic) {
            let end = if a_quote_ends { end_of_tag(tag) } else { None };
            a_quote_ends &= end.is_some();
            let end = end.or_else(|| memchr(b'>', tag)).unwrap_or(tag.len());
            let (tag, after) = tag.split_at(end);
            if is_named(tag, b"meta")
                && let Some(encoding) = of_meta(tag)
            {
                return Some(encoding);
            }
            if a_script_ends && !rest.starts_with(b"/") && is_named(tag, b"script") {
                match after_end_of_script(after) {
                    Some(after) => rest = after,
                    None => a_script_ends = false,
                }
            } else {
                rest = after;
            }
        }
    }
    None
}

/// The offset of the `>` that ends a tag, outside of quoted values.
fn end_of_tag(tag: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr3(b'>', b'"', b'\'', &tag[at..])?;
        let byte = tag[at];
        if byte == b'>' {
            return Some(at);
        }
        // A quote begins a value after an equals sign only.
        let before = tag[..at].trim_ascii_end().last();
        at += 1;
        if before == Some(&b'=') {
            at += memchr(byte, &tag[at..])? + 1;
        }
    }
}

/// The encoding of a `<meta>` without its brackets: its `charset`, or what its `content` names if
/// it stands for the content type.
fn of_meta(tag: &[u8]) -> Option<&'static Encoding> {
    let tag = format!("{}>", String::from_utf8_lossy(tag)).to_ascii_lowercase();
    let (tag, _) = Tag::read(&tag, 0, false)?;
    let label = tag.attribute("charset").or_else(|| {
        let stands = tag.attribute("http-equiv")?.trim() == "content-type";
        tag.attribute("content").filter(|_| stands).and_then(|content| label_in(content, "charset"))
    })?;
    named(label.trim()).ok().map(readable)
}

/// The encoding that an XML declaration at the beginning of a page declares.
fn in_xml_declaration(html: &[u8]) -> Option<&'static Encoding> {
    let declaration = html.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr(b'>', declaration)?];
    let attributes = String::from_utf8_lossy(declaration).to_ascii_lowercase();
    label_in(&attributes, "encoding").and_then(|label| named(label).ok()).map(readable)
}

/// Whether a tag has this name, in any case.
fn is_named(tag: &[u8], name: &[u8]) -> bool {
    begins_with(tag, name)
        && tag.get(name.len()).is_none_or(|&byte| byte.is_ascii_whitespace() || byte == b'/')
}

fn begins_with(html: &[u8], name: &[u8]) -> bool {
    html.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
}

fn after<'a>(html: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    memmem::find(html, end).map(|at| &html[at + end.len()..])
}

fn after_end_of_script(mut html: &[u8]) -> Option<&[u8]> {
    loop {
        html = after(html, b"</")?;
        if begins_with(html, b"script") {
            return Some(html);
        }
    }
}

/// The value of a name in `name=value`, with or without quotes.
fn label_in<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = attributes;
    while let Some((_, after)) = rest.split_once(name) {
        rest = after;
        if let Some(value) = after.trim_start().strip_prefix('=') {
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\'' | ';' | '/');
            return value.split(ends).next();
        }
    }
    None
}

/// A page whose declaration can be read as ASCII is not in UTF-16, whatever it declares (as in
/// browsers).
fn readable(declared: &'static Encoding) -> &'static Encoding {
    if declared == UTF_16LE || declared == UTF_16BE {
        UTF_8
    } else if declared == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        declared
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8], label: Option<&str>, html: bool) -> String {
        decode(bytes, label, html).unwrap().into_owned()
    }

    #[test]
    fn a_byte_order_mark_overrides_the_label() {
        assert_eq!(decoded(b"\xef\xbb\xbf\xc3\xa9", Some("latin1"), false), "\u{e9}");
        assert_eq!(decoded(b"\xff\xfea\0", Some("utf-8"), false), "a");
        assert_eq!(decoded(b"\xfe\xff\0a", None, true), "a");
    }

    #[test]
    fn the_label_overrides_the_meta_element() {
        let html = b"<meta charset=utf-8>\xe9";
        assert_eq!(decoded(html, Some(" ISO-8859-1 "), true), "<meta charset=utf-8>\u{e9}");
    }

    #[test]
    fn every_form_of_meta_element_is_read_in_html_only() {
        for meta in [
            "<meta charset=windows-1251>",
            "<META CharSet = 'Windows-1251' />",
            "<meta http-equiv=Content-Type content=\"text/html; charset=windows-1251\">",
            "<!-- <meta charset=utf-8> --><meta name=charset><meta charset=cp1251>",
            "<meta charset=nonsense><meta charset=\"cp1251\">",
            "<script>'<meta charset=utf-8>'</SCRIPT><meta charset=cp1251>",
            "<script><meta charset=cp1251>",
            "<a title='a quote without an end><meta charset=cp1251>",
            "<?xml version='1.0' encoding='cp1251'?>",
            "<?xml version='1.0' encoding='utf-8'?><meta charset=cp1251>",
        ] {
            let html = [meta.as_bytes(), b"\xf7\xe0\xe9"].concat();
            let text = decoded(&html, None, true);
            assert!(text.ends_with("\u{447}\u{430}\u{439}"), "{meta}: {text}");
        }
        let plain = "<meta charset=cp1251>\u{e9}";
        assert_eq!(decoded(plain.as_bytes(), None, false), plain);
        let utf_16 = "<meta charset=utf-16>\u{e9}";
        assert_eq!(decoded(utf_16.as_bytes(), None, true), utf_16);
    }

    #[test]
    fn a_late_meta_element_counts_as_in_browsers() {
        let late = format!("{}<META charset=cp1251>", " ".repeat(META_BYTES));
        let html = [late.as_bytes(), b"\xf7\xe0\xe9"].concat();
        assert!(decoded(&html, None, true).ends_with("\u{447}\u{430}\u{439}"));
        let late = late.replace("1251", "1252");
        let xml = [b"<?xml encoding='cp1251'?>", late.as_bytes(), b"\xf7"].concat();
        assert!(decoded(&xml, None, true).ends_with('\u{447}'));
    }

    #[test]
    fn only_a_meta_element_of_the_page_declares_and_it_may_stand_anywhere() {
        for decoy in [
            "<meta name=description content='charset=utf-8 explained'>",
            "<metadata charset=utf-8>",
            "<a title='<meta charset=utf-8>'>",
            "<a title=\"it's > 1 <meta charset=utf-8>\">",
            "<script type=a>x = '<meta charset=utf-8>'</script>",
            "<!-- <meta charset=utf-8> -->",
            "<scripty>",
            "<!-- a comment without an end",
            "it's <b>bold</b> </script>",
            "<?xml version='1.0' encoding='utf-8'?>",
        ] {
            for meta in [
                "<meta charset=\"cp1251\">",
                "<meta content='text/html; charset=CP1251' http-equiv='Content-Type'>",
                "<META a='>' charset = x-cp1251 />",
            ] {
                let html = [decoy.as_bytes(), meta.as_bytes(), b"\xf7\xe0\xe9"].concat();
                let text = decoded(&html, None, true);
                assert!(text.ends_with("\u{447}\u{430}\u{439}"), "{decoy}{meta}: {text}");
            }
        }
    }

    #[test]
    fn a_page_in_utf_16_needs_no_byte_order_mark() {
        let page = "<!DOCTYPE html><meta charset=utf-8><p>\u{447}\u{430}\u{439}";
        for page in
            [page, &page["<!DOCTYPE html>".len()..], &format!("<?xml version='1.0'?>{page}")]
        {
            let little: Vec<u8> = page.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = page.encode_utf16().flat_map(u16::to_be_bytes).collect();
            assert_eq!(decoded(&little, None, true), page);
            assert_eq!(decoded(&big, None, true), page);
            // What came with the document counts more.
            assert_ne!(decoded(&big, Some("utf-8"), true), page);
        }
    }

    #[test]
    fn undeclared_text_is_utf_8_if_valid_and_guessed_otherwise() {
        assert_eq!(decoded("\u{8336}\u{e9}".as_bytes(), None, false), "\u{8336}\u{e9}");
        // "Privet, eto tekst na russkom yazyke" in windows-1251; Japanese in Shift_JIS.
        let russian = b"\xcf\xf0\xe8\xe2\xe5\xf2, \xfd\xf2\xee \xf2\xe5\xea\xf1\xf2 \xed\xe0 \
            \xf0\xf3\xf1\xf1\xea\xee\xec \xff\xe7\xfb\xea\xe5";
        assert!(decoded(russian, None, false).starts_with("\u{41f}\u{440}\u{438}"));
        let japanese = b"\x82\xb1\x82\xea\x82\xcd\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x95\xb6\x8f\xcd\x82\xc5\
            \x82\xb7\x81\x42\x83\x4a\x83\x5e\x83\x4a\x83\x69\x82\xe0\x93\xfc\x82\xc1\x82\xc4\x82\xa2\x82\xdc\x82\xb7\x81\x42";
        assert!(decoded(japanese, None, true).starts_with("\u{3053}\u{308c}\u{306f}"));
    }

    #[test]
    fn wrong_bytes_become_replacement_characters() {
        assert_eq!(decoded(b"a\xff\xc3b", Some("utf8"), false), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn an_unknown_label_is_named() {
        for label in ["utf-9", "", "iso-2022-kr"] {
            let error = decode(b"\xef\xbb\xbftea", Some(label), true).unwrap_err();
            assert_eq!(error.to_string(), format!("unknown charset {label:?}"));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_text_of_at_most_three_times_their_length(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            html in any::<bool>(),
        ) {
            let text = decode(&bytes, None, html).unwrap();
            prop_assert!(text.len() <= 3 * bytes.len());
        }

        #[test]
        fn any_text_in_utf_8_comes_back(text in "[^\u{feff}].{0,40}") {
            prop_assert_eq!(decoded(text.as_bytes(), None, false), text);
        }
    }
}
