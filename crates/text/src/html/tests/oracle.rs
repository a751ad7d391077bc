//! The tokenizer against html5ever's, token by token.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    self as oracle, BufferQueue, TagKind, TokenSink, TokenSinkResult, TokenizerOpts,
};
use proptest::prelude::*;

use crate::html::elements::{self, RAW};
use crate::html::tokenizer::{HtmlToken, RawText, Tokenizer};

/// A token in the form that both tokenizers can give.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Text(String),
    Start { name: String, self_closing: bool },
    End { name: String },
    Comment,
    Doctype,
}

/// Appends a text to the one before it: texts come in pieces of any size.
fn see_text(seen: &mut Vec<Seen>, text: &str) {
    if let Some(Seen::Text(before)) = seen.last_mut() {
        before.push_str(text);
    } else if !text.is_empty() {
        seen.push(Seen::Text(text.to_owned()));
    }
}

/// What the standard makes of a name.
fn name_of(source: &str) -> String {
    source.to_ascii_lowercase().replace('\0', "\u{fffd}")
}

fn ours(html: &str) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut tokens = Tokenizer::new(html);
    while let Some(token) = tokens.next() {
        match token {
            HtmlToken::Text(text) => see_text(&mut seen, text),
            HtmlToken::Characters(first, second) => {
                let text: String = [Some(first), second].into_iter().flatten().collect();
                see_text(&mut seen, &text);
            }
            HtmlToken::Comment => seen.push(Seen::Comment),
            HtmlToken::Doctype(_) => seen.push(Seen::Doctype),
            HtmlToken::Tag(tag) if tag.is_end => seen.push(Seen::End { name: name_of(tag.name) }),
            HtmlToken::Tag(tag) => {
                let name = name_of(tag.name);
                if let Some(element) = elements::raw(name.as_bytes()) {
                    tokens.begin_raw(RAW[element].1, tag.name);
                }
                if name == "plaintext" {
                    tokens.begin_plaintext();
                }
                seen.push(Seen::Start { name, self_closing: tag.self_closing });
            }
        }
    }
    seen
}

#[derive(Default)]
struct Sink {
    seen: RefCell<Vec<Seen>>,
    is_xml: bool,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: oracle::Token, _: u64) -> TokenSinkResult<()> {
        let mut seen = self.seen.borrow_mut();
        match token {
            oracle::CharacterTokens(text) => see_text(&mut seen, &text),
            oracle::NullCharacterToken => see_text(&mut seen, "\0"),
            oracle::CommentToken(_) => seen.push(Seen::Comment),
            oracle::DoctypeToken(_) => seen.push(Seen::Doctype),
            oracle::TagToken(tag) if tag.kind == TagKind::EndTag => {
                seen.push(Seen::End { name: tag.name.to_string() });
            }
            oracle::TagToken(tag) => {
                let name = tag.name.to_string();
                let raw = elements::raw(name.as_bytes()).map(|element| RAW[element].1);
                let is_plaintext = name == "plaintext";
                seen.push(Seen::Start { name, self_closing: tag.self_closing });
                return match raw {
                    Some(kind) => TokenSinkResult::RawData(raw_kind(kind)),
                    None if is_plaintext => TokenSinkResult::Plaintext,
                    None => TokenSinkResult::Continue,
                };
            }
            oracle::EOFToken | oracle::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }

    /// Decides whether a CDATA section is text.
    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.is_xml
    }
}

fn raw_kind(kind: RawText) -> RawKind {
    match kind {
        RawText::Rcdata => RawKind::Rcdata,
        RawText::Rawtext => RawKind::Rawtext,
        RawText::Script => RawKind::ScriptData,
    }
}

fn theirs(html: &str, is_xml: bool) -> Vec<Seen> {
    let options = TokenizerOpts { discard_bom: false, ..TokenizerOpts::default() };
    let tokenizer = oracle::Tokenizer::new(Sink { is_xml, ..Sink::default() }, options);
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(html));
    drop(tokenizer.feed(&queue));
    tokenizer.end();
    tokenizer.sink.seen.take()
}

/// Pieces of every kind of token, whole and broken off.
const PIECES: &[&str] = &[
    "<",
    ">",
    "/",
    "</",
    "<!",
    "<!-",
    "<!--",
    "-",
    "--",
    "-->",
    "--!>",
    "--!",
    "!",
    "<!-->",
    "<!--->",
    "<?",
    "?>",
    "</>",
    "</ x>",
    "</1>",
    "<1",
    "< ",
    "&",
    "#",
    ";",
    "=",
    "\"",
    "'",
    "`",
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\x0c",
    "\0",
    "\u{feff}",
    "\u{301}",
    "\u{8336}",
    "a",
    "B",
    "z1",
    "word ",
    "<!doctype html>",
    "<!DOCTYPE html PUBLIC \"a>b",
    "<!doctypehtml",
    "[CDATA[",
    "<![CDATA[",
    "]]>",
    "]]",
    "<p>",
    "</p>",
    "<P ",
    "<br/>",
    "<br / >",
    "<x-y\0z>",
    "<a href=",
    "<a b='",
    "<a b=\"",
    "<a b=c/>",
    "<a =b>",
    "<a b = 'c'd>",
    "<a b=>",
    "<a\nb\r\n= c\x0c>",
    "<svg/>",
    "</SVG\n>",
    "</a b='>'>",
    "</a/>",
    "<script>",
    "</script>",
    "<SCRIPT ",
    "</scriPT ",
    "</script",
    "<script",
    "<scripts>",
    "</scripts>",
    "<script/>",
    "<style>",
    "</style>",
    "<title>",
    "</title>",
    "</title ",
    "<textarea>",
    "</textarea/",
    "</textarea>",
    "<xmp>",
    "</xmp>",
    "<noframes>",
    "</noframes>",
    "<iframe>",
    "</iframe>",
    "<noembed>",
    "</noembed>",
    "<plaintext>",
    "&amp;",
    "&amp",
    "&AMP",
    "&lt;",
    "&not",
    "&notit;",
    "&notin;",
    "&noti",
    "&eacute",
    "&CounterClockwiseContourIntegral;",
    "&NotEqualTilde;",
    "&fjlig;",
    "&x",
    "&;",
    "&#",
    "&#x",
    "&#X",
    "&#0;",
    "&#x80;",
    "&#150",
    "&#xd800;",
    "&#x110000;",
    "&#99999999999;",
    "&#13;",
    "&#10",
    "&#x8336;",
    "&#xg;",
    "&#1g",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn generated_markup_has_the_tokens_that_html5ever_finds(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24),
    ) {
        let html = pieces.concat();
        prop_assert_eq!(ours(&html), theirs(&html, false), "{:?}", html);
    }

    /// The last piece ends every CDATA section: here one that never ends is not a section.
    /// Characters of the number 0, which both read as separators, become other ones.
    #[test]
    fn generated_xml_has_the_tokens_that_html5ever_finds(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24),
    ) {
        let pieces = pieces.concat().replace('\0', "");
        let page = format!("<?xml version='1.0'?>{pieces}]]>");
        prop_assert_eq!(ours(&page), theirs(&page, true), "{:?}", page);
    }
}
