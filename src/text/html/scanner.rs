//! Reads a page token by token, and passes its tags and its text to a [`Page`].
//!
//! An element of raw text whose end tag is missing is read as markup, and so is every later element
//! of that name, because no end tag of that name follows it either.

use crate::text::html::elements::{self, RAW};
use crate::text::html::page::Page;
use crate::text::html::tag::Tag;
use crate::text::html::tokenizer::{Token, Tokenizer};

/// The names of known elements have at most this many bytes.
const NAME_BYTES_MAX: usize = 8;

pub(super) fn scan(html: &str) -> Page {
    let mut page = Page::default();
    let mut never_ends = [false; RAW.len()];
    let mut tokens = Tokenizer::new(html);
    while let Some(token) = tokens.next() {
        match token {
            Token::Text(text) => page.words(text),
            Token::Characters(first, second) => {
                page.character(first);
                if let Some(second) = second {
                    page.character(second);
                }
            }
            Token::Tag(tag) => {
                let mut buffer = [0; NAME_BYTES_MAX];
                let name = known_name(&tag, &mut buffer);
                if tag.is_end {
                    page.end(name);
                    continue;
                }
                let raw = elements::raw(name).filter(|&element| !never_ends[element]);
                if let Some(element) = raw
                    && !tokens.begin_closed_raw(RAW[element].1, tag.name)
                {
                    never_ends[element] = true;
                    page.separate(name);
                } else {
                    // Of the known elements, only `svg` can be closed by a slash.
                    page.start(name, tag.self_closing && name == b"svg");
                }
            }
            Token::Comment | Token::Doctype(_) => {}
        }
    }
    page
}

/// The name of a tag in lower case; empty if it is longer than every known name.
fn known_name<'a>(tag: &Tag<'_>, buffer: &'a mut [u8; NAME_BYTES_MAX]) -> &'a [u8] {
    let Some(name) = buffer.get_mut(..tag.name.len()) else { return b"" };
    name.copy_from_slice(tag.name.as_bytes());
    name.make_ascii_lowercase();
    name
}
