//! HTML to tokens, by the tokenization section of the WHATWG standard.
//!
//! One loop without recursion: memory and stack do not grow with the source, and each byte is read
//! a fixed number of times. Tokens borrow from the source. Comments have no content, and the text
//! of attributes is not decoded.
//!
//! A page that declares itself XML or XHTML is read by the rules of HTML with two exceptions. A
//! CDATA section is text, and elsewhere a comment, as it is in HTML but for SVG and `MathML`. And
//! `/>` closes any element, which the caller sees to: [`Tokenizer::is_xml`].
//!
//! The tokenizer does not know which elements contain raw text: the caller tells it after a start
//! tag, with [`Tokenizer::begin_raw`] or [`Tokenizer::begin_closed_raw`].
//!
//! Tested against html5ever's tokenizer, token by token, on generated markup.

use memchr::{memchr, memchr2, memchr3, memmem};

use crate::html::reference::{self, Reference, ReferencePlace};
use crate::html::tag::{Tag, is_space};

const REPLACEMENT: &str = "\u{fffd}";

/// A piece of a page.
#[derive(Debug, Clone)]
pub(crate) enum HtmlToken<'a> {
    /// Characters as they are; line ends are line feeds. A text may come in several tokens.
    Text(&'a str),
    /// What a character reference stands for.
    Characters(char, Option<char>),
    /// A start or end tag.
    Tag(Tag<'a>),
    /// A comment, or what the standard treats as one.
    Comment,
    /// A `<!DOCTYPE`, as the source spells it.
    Doctype(&'a str),
}

/// How raw text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawText {
    /// With character references.
    Rcdata,
    /// Verbatim.
    Rawtext,
    /// Verbatim. An end tag within a script within a comment does not end it.
    Script,
}

/// Raw text up to an offset.
#[derive(Debug, Clone, Copy)]
struct Span {
    end: usize,
    /// Where to read on.
    after: usize,
    /// Whether character references count.
    references: bool,
}

/// Reads a page token by token.
#[derive(Debug)]
pub(crate) struct Tokenizer<'a> {
    html: &'a str,
    at: usize,
    raw: Option<Span>,
    is_xml: bool,
    /// No further CDATA section ends.
    no_cdata_ends: bool,
}

impl<'a> Tokenizer<'a> {
    pub(crate) fn new(html: &'a str) -> Self {
        let is_xml = begins_with_xml_declaration(html);
        Self { html, at: 0, raw: None, is_xml, no_cdata_ends: false }
    }

    /// Whether the page has said so far that it is XML or XHTML: by an XML declaration at its
    /// beginning, or by a document type of XHTML.
    pub(crate) const fn is_xml(&self) -> bool {
        self.is_xml
    }

    /// Reads what follows as raw text, up to the end tag of this name or the end of the page.
    pub(crate) fn begin_raw(&mut self, kind: RawText, name: &str) {
        let end = end_of_raw(self.html, self.at, kind, name).unwrap_or(self.html.len());
        self.begin_raw_up_to(end, kind);
    }

    /// As [`Self::begin_raw`] if the end tag exists and is complete; otherwise returns false, and
    /// what follows remains markup.
    pub(crate) fn begin_closed_raw(&mut self, kind: RawText, name: &str) -> bool {
        let end = end_of_raw(self.html, self.at, kind, name)
            .filter(|end| Tag::read(self.html, end + "</".len(), true).is_some());
        if let Some(end) = end {
            self.begin_raw_up_to(end, kind);
        }
        end.is_some()
    }

    /// Reads everything that follows as text.
    pub(crate) fn begin_plaintext(&mut self) {
        self.begin_raw_up_to(self.html.len(), RawText::Rawtext);
    }

    fn begin_raw_up_to(&mut self, end: usize, kind: RawText) {
        self.raw = Some(Span { end, after: end, references: kind == RawText::Rcdata });
    }

    fn rest(&self) -> &'a [u8] {
        &self.html.as_bytes()[self.at..]
    }

    /// Text from here to an offset.
    fn text_to(&mut self, end: usize) -> HtmlToken<'a> {
        let text = &self.html[self.at..end];
        self.at = end;
        HtmlToken::Text(text)
    }

    /// Replaces one byte by this text.
    fn instead(&mut self, text: &'static str) -> HtmlToken<'a> {
        self.at += 1;
        HtmlToken::Text(text)
    }

    /// The line feed that replaces a carriage return; `None` if a line feed follows anyway.
    fn line_end(&mut self) -> Option<HtmlToken<'a>> {
        if self.rest().get(1) == Some(&b'\n') {
            self.at += 1;
            None
        } else {
            Some(self.instead("\n"))
        }
    }

    fn reference(&mut self) -> Option<HtmlToken<'a>> {
        let Reference { first, second, after } =
            reference::read(self.html, self.at, ReferencePlace::Text)?;
        self.at = after;
        Some(HtmlToken::Characters(first, second))
    }

    /// The next piece of raw text; `None` at its end.
    fn raw_text(&mut self, span: Span) -> Option<HtmlToken<'a>> {
        loop {
            let rest = &self.html.as_bytes()[self.at..span.end];
            let mut ordinary = 0;
            match rest.first()? {
                b'\r' => match self.line_end() {
                    Some(token) => return Some(token),
                    None => continue,
                },
                b'\0' => return Some(self.instead(REPLACEMENT)),
                b'&' if span.references => match self.reference() {
                    Some(token) => return Some(token),
                    None => ordinary = 1,
                },
                _ => {}
            }
            let special = if span.references {
                memchr3(b'&', b'\r', b'\0', &rest[ordinary..])
            } else {
                memchr2(b'\r', b'\0', &rest[ordinary..])
            };
            return Some(self.text_to(special.map_or(span.end, |at| self.at + ordinary + at)));
        }
    }

    fn end_raw(&mut self, span: Span) {
        self.raw = None;
        self.at = span.after;
    }

    /// The next token outside raw text; `None` where the page ends.
    fn data(&mut self) -> Option<HtmlToken<'a>> {
        loop {
            let found = match self.rest().first()? {
                b'<' => match self.markup() {
                    Markup::Token(token) => return Some(token),
                    Markup::Nothing => continue,
                    Markup::Cdata(content) => {
                        self.raw = Some(content);
                        if let Some(token) = self.raw_text(content) {
                            return Some(token);
                        }
                        self.end_raw(content);
                        continue;
                    }
                    Markup::Text => None,
                },
                b'&' => self.reference(),
                b'\r' => match self.line_end() {
                    Some(token) => Some(token),
                    None => continue,
                },
                _ => None,
            };
            return Some(found.unwrap_or_else(|| {
                // The first byte is text, whatever it is.
                let special = memchr3(b'<', b'&', b'\r', &self.rest()[1..]);
                self.text_to(special.map_or(self.html.len(), |at| self.at + 1 + at))
            }));
        }
    }

    /// Reads what the `<` at this offset begins.
    fn markup(&mut self) -> Markup<'a> {
        let rest = self.rest();
        match (rest.get(1), rest.get(2)) {
            (Some(byte), _) if byte.is_ascii_alphabetic() => self.tag(self.at + 1, false),
            (Some(b'/'), Some(byte)) if byte.is_ascii_alphabetic() => self.tag(self.at + 2, true),
            (Some(b'/'), Some(b'>')) => {
                self.at += "</>".len();
                Markup::Nothing
            }
            (Some(b'!'), _) => self.declaration(),
            (Some(b'?'), _) | (Some(b'/'), Some(_)) => self.bogus_comment(),
            _ => Markup::Text,
        }
    }

    fn tag(&mut self, name: usize, is_end: bool) -> Markup<'a> {
        let Some((tag, after)) = Tag::read(self.html, name, is_end) else {
            // The page ends within the tag, which is then ignored.
            self.at = self.html.len();
            return Markup::Nothing;
        };
        self.at = after;
        Markup::Token(HtmlToken::Tag(tag))
    }

    fn declaration(&mut self) -> Markup<'a> {
        const DOCTYPE: &[u8] = b"doctype";
        let start = self.at + "<!".len();
        let rest = &self.html.as_bytes()[start..];
        if rest.starts_with(b"--") {
            self.at = end_of_comment(self.html.as_bytes(), start + "--".len());
            Markup::Token(HtmlToken::Comment)
        } else if rest.get(..DOCTYPE.len()).is_some_and(|word| word.eq_ignore_ascii_case(DOCTYPE)) {
            let doctype = self.at;
            self.skip_to_end_of_tag();
            let doctype = &self.html[doctype..self.at];
            self.is_xml |= is_of_xhtml(doctype);
            Markup::Token(HtmlToken::Doctype(doctype))
        } else if let Some(content) = self.cdata() {
            Markup::Cdata(content)
        } else {
            self.bogus_comment()
        }
    }

    /// Begins the CDATA section that stands here, if there is one that ends.
    fn cdata(&mut self) -> Option<Span> {
        const OPEN: &[u8] = b"<![CDATA[";
        const CLOSE: &[u8] = b"]]>";
        if !self.is_xml || self.no_cdata_ends {
            return None;
        }
        let content = self.rest().strip_prefix(OPEN)?;
        let Some(length) = memmem::find(content, CLOSE) else {
            self.no_cdata_ends = true;
            return None;
        };
        self.at += OPEN.len();
        let end = self.at + length;
        Some(Span { end, after: end + CLOSE.len(), references: false })
    }

    /// What only looks like markup is a comment up to the next `>`.
    fn bogus_comment(&mut self) -> Markup<'a> {
        self.skip_to_end_of_tag();
        Markup::Token(HtmlToken::Comment)
    }

    fn skip_to_end_of_tag(&mut self) {
        self.at = memchr(b'>', self.rest()).map_or(self.html.len(), |length| self.at + length + 1);
    }
}

impl<'a> Iterator for Tokenizer<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        if let Some(span) = self.raw {
            if let Some(token) = self.raw_text(span) {
                return Some(token);
            }
            self.end_raw(span);
        }
        self.data()
    }
}

/// What a `<` begins.
enum Markup<'a> {
    Token(HtmlToken<'a>),
    /// Text without markup.
    Cdata(Span),
    /// Something without a token.
    Nothing,
    Text,
}

/// The offset after a comment whose content begins at `start`.
fn end_of_comment(html: &[u8], start: usize) -> usize {
    let rest = &html[start..];
    let end = memchr::memchr_iter(b'>', rest).find(|&at| {
        let content = &rest[..at];
        matches!(content, b"" | b"-") || content.ends_with(b"--") || content.ends_with(b"--!")
    });
    end.map_or(html.len(), |at| start + at + 1)
}

/// The offset of the end tag that ends raw text from `start` on.
fn end_of_raw(html: &str, start: usize, kind: RawText, name: &str) -> Option<usize> {
    let bytes = html.as_bytes();
    if kind == RawText::Script {
        return end_of_script(bytes, start);
    }
    memchr::memchr_iter(b'<', &bytes[start..])
        .map(|at| start + at)
        .find(|&at| begins_tag(&bytes[at..], b"</", name.as_bytes()))
}

/// How deep in comments and in scripts within comments a script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escaped {
    No,
    Once,
    Twice,
}

/// The offset of the end tag of a script. After `<!--`, a `<script>` hides end tags.
fn end_of_script(html: &[u8], start: usize) -> Option<usize> {
    const SCRIPT: &[u8] = b"script";
    let mut escaped = Escaped::No;
    let mut at = start;
    loop {
        at += if escaped == Escaped::No {
            memchr(b'<', &html[at..])?
        } else {
            memchr2(b'<', b'-', &html[at..])?
        };
        let rest = &html[at..];
        if rest.starts_with(b"-->") {
            escaped = Escaped::No;
        } else if begins_tag(rest, b"</", SCRIPT) {
            if escaped != Escaped::Twice {
                return Some(at);
            }
            escaped = Escaped::Once;
        } else if escaped == Escaped::Once && begins_tag(rest, b"<", SCRIPT) {
            escaped = Escaped::Twice;
        } else if escaped == Escaped::No && rest.starts_with(b"<!--") {
            escaped = Escaped::Once;
            // The dashes also count for an end: `<!-->` opens and closes.
            at += "<".len();
        }
        at += 1;
    }
}

/// Whether this begins with a tag of this name: `open`, and then the whole name.
fn begins_tag(html: &[u8], open: &[u8], name: &[u8]) -> bool {
    let Some(rest) = html.strip_prefix(open) else { return false };
    rest.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
        && rest.get(name.len()).is_some_and(|&byte| is_space(byte) || matches!(byte, b'/' | b'>'))
}

/// Whether an XML declaration stands at the beginning of a page.
pub(super) fn begins_with_xml_declaration(page: &str) -> bool {
    let page = page.trim_start_matches('\u{feff}').trim_ascii_start();
    let rest = page.strip_prefix("<?xml");
    rest.is_some_and(|rest| rest.bytes().next().is_some_and(is_space))
}

/// Whether a document type is one of XHTML: its public identifier names that DTD.
fn is_of_xhtml(doctype: &str) -> bool {
    const DTD: &[u8] = b"//DTD XHTML";
    doctype.as_bytes().windows(DTD.len()).any(|window| window.eq_ignore_ascii_case(DTD))
}
