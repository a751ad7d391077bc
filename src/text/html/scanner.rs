//! Feeds a page to the tokenizer and its tags and text to the [`Page`].
//!
//! The tokenizer reports tags in pieces; this module puts them together, tells it which elements
//! hold raw text, and starts again behind an element of raw text that never ended.

use std::convert::Infallible;

use html5gum::{Emitter, Error, State, Tokenizer};

use crate::text::html::elements::{self, RAW};
use crate::text::html::page::Page;

/// Reads a page.
pub(super) fn scan(html: &str) -> Page {
    let mut page = Page::default();
    let mut never_ends = [false; RAW.len()];
    let mut rest = html;
    loop {
        let mut unclosed = None;
        let scanner = Scanner::new(&mut page, never_ends, &mut unclosed);
        let Ok(()) = Tokenizer::new_with_emitter(rest, scanner).finish();
        let Some(raw) = unclosed else { return page };
        // No end tag of this element follows anywhere in the rest, so that each element can bring
        // us here once.
        never_ends[raw.element] = true;
        page.take_back(RAW[raw.element].0, raw.text_bytes);
        rest = rest.get(raw.content..).unwrap_or_default();
    }
}

/// An element of raw text that has begun.
#[derive(Debug, Clone, Copy)]
struct OpenRaw {
    /// Its place in [`RAW`].
    element: usize,
    /// Where its content begins in the source.
    content: usize,
    /// How much text the page had then.
    text_bytes: usize,
}

/// The tag that is being read.
#[derive(Debug, Default)]
struct Tag {
    name: Vec<u8>,
    is_end: bool,
    self_closing: bool,
}

#[derive(Debug)]
struct Scanner<'a> {
    page: &'a mut Page,
    /// Which elements of [`RAW`] are to be read as markup, because they never end.
    never_ends: [bool; RAW.len()],
    /// Where to leave the element of raw text that is open at the end.
    unclosed: &'a mut Option<OpenRaw>,
    raw: Option<OpenRaw>,
    tag: Tag,
    position: usize,
}

impl<'a> Scanner<'a> {
    fn new(
        page: &'a mut Page,
        never_ends: [bool; RAW.len()],
        unclosed: &'a mut Option<OpenRaw>,
    ) -> Self {
        Self { page, never_ends, unclosed, raw: None, tag: Tag::default(), position: 0 }
    }

    fn begin_tag(&mut self, is_end: bool) {
        self.tag.name.clear();
        self.tag.is_end = is_end;
        self.tag.self_closing = false;
    }
}

/// Attributes, comments, the document type and errors are of no interest.
impl Emitter for Scanner<'_> {
    type Token = Infallible;

    fn emit_string(&mut self, text: &[u8]) {
        self.page.words(text);
    }

    fn init_start_tag(&mut self) {
        self.begin_tag(false);
    }

    fn init_end_tag(&mut self) {
        self.begin_tag(true);
    }

    fn push_tag_name(&mut self, part: &[u8]) {
        self.tag.name.extend_from_slice(part);
    }

    fn set_self_closing(&mut self) {
        self.tag.self_closing = true;
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        let name = &self.tag.name;
        if self.tag.is_end {
            self.raw = None;
            self.page.end(name);
            return None;
        }
        // Of the elements known here only those of SVG end by a slash.
        self.page.start(name, self.tag.self_closing && name == b"svg");
        let element = elements::raw(name).filter(|&element| !self.never_ends[element])?;
        self.raw =
            Some(OpenRaw { element, content: self.position, text_bytes: self.page.text_bytes() });
        Some(RAW[element].1)
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.raw.is_some_and(|raw| self.tag.is_end && RAW[raw.element].0 == self.tag.name)
    }

    fn emit_eof(&mut self) {
        *self.unclosed = self.raw.take();
    }

    fn move_position(&mut self, offset: isize) {
        self.position = self.position.saturating_add_signed(offset);
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<Infallible> {
        None
    }

    fn set_last_start_tag(&mut self, _: Option<&[u8]>) {}
    fn emit_error(&mut self, _: Error) {}
    fn init_comment(&mut self) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn emit_current_comment(&mut self) {}
    fn init_doctype(&mut self) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn set_force_quirks(&mut self) {}
    fn emit_current_doctype(&mut self) {}
    fn init_attribute(&mut self) {}
    fn push_attribute_name(&mut self, _: &[u8]) {}
    fn push_attribute_value(&mut self, _: &[u8]) {}
}
