//! The text of a page while it is read: everything in order, and which parts to leave out.

use std::ops::Range;

use crate::text::html::elements::{self, DROPPED, Dropped};

/// Where a word may break.
const SOFT_HYPHEN: char = '\u{ad}';

/// Which text of a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// What the page says.
    Content,
    /// That, and what stands around it.
    WithBoilerplate,
}

/// The text of a page, with the places to leave out.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// All text, hidden or not, in UTF-8.
    text: Vec<u8>,
    /// Closed elements that are dropped; they may overlap.
    cuts: Vec<(Range<usize>, Dropped)>,
    /// For each element that can be dropped: where in the text those begin that are still open.
    open: [Vec<usize>; DROPPED.len()],
}

impl Page {
    /// Adds text; a piece may end within a character.
    pub(super) fn words(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    /// An element begins. One that `<.../>` closes at once has no content.
    pub(super) fn start(&mut self, name: &[u8], closed_at_once: bool) {
        self.separate(name);
        if elements::begins_content(name) {
            for sectioning in [b"nav".as_slice(), b"aside", b"footer"] {
                if let Some(element) = elements::dropped(sectioning) {
                    self.open[element].clear();
                }
            }
        }
        if let Some(element) = elements::dropped(name)
            && !closed_at_once
        {
            self.open[element].push(self.text.len());
        }
    }

    /// An element ends. An end tag of an element that is not open changes nothing.
    pub(super) fn end(&mut self, name: &[u8]) {
        if let Some(element) = elements::dropped(name)
            && let Some(start) = self.open[element].pop()
        {
            self.cuts.push((start..self.text.len(), DROPPED[element].1));
        }
        self.separate(name);
    }

    /// Takes back the start of an element of raw text, and the text since: it never ended.
    pub(super) fn take_back(&mut self, name: &[u8], text_bytes: usize) {
        self.text.truncate(text_bytes);
        if let Some(element) = elements::dropped(name) {
            self.open[element].pop();
        }
    }

    /// How many bytes of text there are.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// The text of the page without the parts that are not wanted. Soft hyphens go: they are
    /// places where a word may break, not where it ends.
    pub(super) fn text(&self, wanted: Part) -> String {
        let mut cuts: Vec<_> = self
            .cuts
            .iter()
            .filter(|&&(_, why)| why == Dropped::Hidden || wanted == Part::Content)
            .map(|(range, _)| range)
            .collect();
        cuts.sort_unstable_by_key(|cut| cut.start);
        let mut text = Vec::with_capacity(self.text.len());
        let mut at = 0;
        for cut in cuts {
            if at < cut.start {
                text.extend_from_slice(&self.text[at..cut.start]);
            }
            at = at.max(cut.end);
        }
        text.extend_from_slice(&self.text[at..]);
        let text = String::from_utf8(text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        // Few pages have one, and a large page should not be copied for nothing.
        if text.contains(SOFT_HYPHEN) { text.replace(SOFT_HYPHEN, "") } else { text }
    }

    fn separate(&mut self, name: &[u8]) {
        if !elements::joins(name) && self.text.last().is_some_and(|last| *last != b'\n') {
            self.text.push(b'\n');
        }
    }
}
