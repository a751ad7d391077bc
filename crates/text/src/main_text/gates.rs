//! Which trees are cheap enough for Readability, decided by one pass over their nodes.
//!
//! The time of `dom_smoothie` grows with the square of some properties of a page: nesting depth,
//! headings times the length of the title, characters that need an escape within one text.
//! [`is_cheap`] adds these up and compares each sum with a multiple of the page's length, so that
//! main text takes linear time on every page that passes. Ordinary pages stay far below every
//! limit.
//!
//! The limits depend on the page alone: with a time limit the same page could have another
//! fingerprint on a busy day. [`mod@super::tree`] limits the cost of building the tree.

use dom_query::{Document, Element, NodeData, NodeRef};

use crate::html::elements::is_void;

/// Nested elements, `html` and `body` included: some passes recurse.
pub(super) const DEPTH_MAX: usize = 256;

/// Elements that can have content.
const ELEMENTS_MAX: usize = 50_000;

/// Each byte of text times the number of elements around it, per byte of the page: each of those
/// elements counts its text.
const TEXT_DEPTH_MAX: usize = 64;

/// Each element times the number of elements around it, per byte of the page: rules look for
/// ancestors.
const ELEMENT_DEPTH_MAX: usize = 8;

/// Headings times the length of what may be the title, per byte of the page: each heading is
/// compared with the title.
const TITLE_WORK_MAX: usize = 16;

/// Characters that need an escape times the length of their text, per byte of the page: the
/// serialiser searches the rest of the text after each of them.
const ESCAPE_WORK_MAX: usize = 4_096;

/// Whether the work of Readability on the tree of a page is linear in the page's length.
pub(super) fn is_cheap(document: &Document, page_bytes: usize) -> bool {
    let mut sums = Sums::default();
    let mut node = Some(document.root());
    while let Some(current) = node {
        sums.enter(&current);
        if sums.depth > DEPTH_MAX || sums.elements > ELEMENTS_MAX {
            return false;
        }
        node = current.first_child().or_else(|| sums.next(current));
    }
    !sums.exceed_multiples_of(page_bytes)
}

#[derive(Debug, Default)]
struct Sums {
    /// The elements around the current node, itself included.
    depth: usize,
    elements: usize,
    text_bytes: usize,
    text_depth: usize,
    element_depth: usize,
    headings: usize,
    /// Where the text of the title or heading around the current node begins.
    title: Option<Title>,
    /// The bytes of the longest of them, and of the attributes that may be the title.
    title_bytes: usize,
    escape_work: usize,
}

#[derive(Debug, Clone, Copy)]
struct Title {
    depth: usize,
    text_bytes_before: usize,
}

impl Sums {
    fn enter(&mut self, node: &NodeRef<'_>) {
        node.query(|node| match &node.data {
            NodeData::Element(element) => self.enter_element(element),
            NodeData::Text { contents } => {
                self.text_bytes += contents.len();
                self.text_depth = self.text_depth.saturating_add(contents.len() * self.depth);
                self.escape(contents);
            }
            NodeData::Document
            | NodeData::Fragment
            | NodeData::Doctype { .. }
            | NodeData::Comment { .. }
            | NodeData::ProcessingInstruction { .. } => {}
        });
    }

    fn enter_element(&mut self, element: &Element) {
        let name: &str = &element.name.local;
        self.depth += 1;
        self.elements += usize::from(!is_void(name));
        self.element_depth = self.element_depth.saturating_add(self.depth);
        for attribute in &element.attrs {
            self.escape(&attribute.value);
            if name == "meta" {
                self.title_bytes = self.title_bytes.max(attribute.value.len());
            }
        }
        let is_heading = matches!(name, "h1" | "h2");
        self.headings += usize::from(is_heading);
        if (is_heading || name == "title") && self.title.is_none() {
            self.title = Some(Title { depth: self.depth, text_bytes_before: self.text_bytes });
        }
    }

    /// The node after this one and its content.
    fn next<'a>(&mut self, from: NodeRef<'a>) -> Option<NodeRef<'a>> {
        let mut node = from;
        loop {
            if node.is_element() {
                self.leave_element();
            }
            if let Some(next) = node.next_sibling() {
                return Some(next);
            }
            node = node.parent()?;
        }
    }

    fn leave_element(&mut self) {
        if let Some(title) = self.title.filter(|title| title.depth == self.depth) {
            self.title_bytes = self.title_bytes.max(self.text_bytes - title.text_bytes_before);
            self.title = None;
        }
        self.depth -= 1;
    }

    fn escape(&mut self, text: &str) {
        self.escape_work =
            self.escape_work.saturating_add(text.len().saturating_mul(escapes(text)));
    }

    fn exceed_multiples_of(&self, page_bytes: usize) -> bool {
        let title_work = self.headings.saturating_mul(self.title_bytes);
        [
            (self.text_depth, TEXT_DEPTH_MAX),
            (self.element_depth, ELEMENT_DEPTH_MAX),
            (title_work, TITLE_WORK_MAX),
            (self.escape_work, ESCAPE_WORK_MAX),
        ]
        .into_iter()
        .any(|(work, max)| work > page_bytes.saturating_mul(max))
    }
}

/// Where the serialiser stops: at ampersands, and at each byte that may begin a no-break space.
fn escapes(text: &str) -> usize {
    memchr::memchr2_iter(b'&', 0xc2, text.as_bytes()).count()
}
