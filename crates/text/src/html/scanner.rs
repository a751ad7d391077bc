//! Reads a page token by token, and passes its tags and its text to a [`HtmlPage`].
//!
//! An element of raw text whose end tag is missing is read as markup, and so is every later element
//! of that name, because no end tag of that name follows it either.

use crate::html::content::{ElementContent, HtmlPage};
use crate::html::elements::{self, ElementRole, RAW};
use crate::html::reference::decode_attribute;
use crate::html::tag::Tag;
use crate::html::tokenizer::{HtmlToken, Tokenizer};

/// The names of known elements have at most this many bytes.
const NAME_BYTES_MAX: usize = 8;

pub(super) fn scan(html: &str) -> HtmlPage {
    let mut page = HtmlPage::default();
    let mut never_ends = [false; RAW.len()];
    let mut tokens = Tokenizer::new(html);
    while let Some(token) = tokens.next() {
        match token {
            HtmlToken::Text(text) => page.words(text),
            HtmlToken::Characters(first, second) => {
                page.character(first);
                if let Some(second) = second {
                    page.character(second);
                }
            }
            HtmlToken::Tag(tag) => {
                let mut buffer = [0; NAME_BYTES_MAX];
                let name = known_name(&tag, &mut buffer);
                if tag.is_end {
                    page.end_region(tag.name);
                    page.end(name);
                    continue;
                }
                // Among the known elements of HTML, only `svg` can be closed by a slash.
                let is_closed = tag.self_closing && (tokens.is_xml() || name == b"svg");
                let raw = elements::raw(name);
                let raw = raw.filter(|&element| !is_closed && !never_ends[element]);
                if let Some(element) = raw
                    && !tokens.begin_closed_raw(RAW[element].1, tag.name)
                {
                    never_ends[element] = true;
                    page.separate(name);
                } else {
                    start(&mut page, &tag, name, is_closed);
                }
            }
            HtmlToken::Comment | HtmlToken::Doctype(_) => {}
        }
    }
    page
}

fn start(page: &mut HtmlPage, tag: &Tag<'_>, name: &[u8], is_closed: bool) {
    if is_closed {
        page.start(name, ElementContent::None);
    } else {
        let role = role(tag, name);
        let is_text =
            role == Some(ElementRole::Main) || (name == b"template" && is_shadow_root(tag));
        page.start(name, if is_text { ElementContent::Text } else { ElementContent::ByName });
        page.start_region(tag.name, role);
    }
    if name == b"img"
        && let Some(alternative) = tag.attribute("alt")
    {
        page.image(&decode_attribute(alternative));
    }
}

/// The role of an element. A hidden `main` is one of several that a script shows in turn.
fn role(tag: &Tag<'_>, name: &[u8]) -> Option<ElementRole> {
    let role = if name == b"main" {
        Some(ElementRole::Main)
    } else {
        tag.role.and_then(ElementRole::named)
    };
    role.filter(|role| *role != ElementRole::Main || tag.attribute("hidden").is_none())
}

/// Whether browsers show the content of a template in place of that of its parent.
fn is_shadow_root(template: &Tag<'_>) -> bool {
    let mode = template.attribute("shadowrootmode");
    mode.is_some_and(|mode| ["open", "closed"].iter().any(|m| mode.eq_ignore_ascii_case(m)))
}

/// The name of a tag in lower case; empty if it is longer than every known name.
fn known_name<'a>(tag: &Tag<'_>, buffer: &'a mut [u8; NAME_BYTES_MAX]) -> &'a [u8] {
    let Some(name) = buffer.get_mut(..tag.name.len()) else { return b"" };
    name.copy_from_slice(tag.name.as_bytes());
    // All of the buffer: its length is fixed, and the work without a loop.
    buffer.make_ascii_lowercase();
    &buffer[..tag.name.len()]
}
