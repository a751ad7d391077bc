//! Collects the text of a page in order, and which parts of it to leave out.

use std::ops::Range;

use crate::text::html::elements::{self, DROPPED, Dropped};

/// Where a word may break.
const SOFT_HYPHEN: char = '\u{ad}';

/// The text of a page, with the places to leave out.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// All text, hidden or not.
    text: String,
    /// The ranges of dropped elements that have ended, with the reasons; they may overlap.
    cuts: Vec<(Range<usize>, Dropped)>,
    /// For each element of [`DROPPED`], the offsets at which those still open begin.
    open: [Vec<usize>; DROPPED.len()],
}

impl Page {
    pub(crate) fn words(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn character(&mut self, character: char) {
        self.text.push(character);
    }

    /// Begins an element. One that `/>` closes at once has no content.
    pub(crate) fn start(&mut self, name: &[u8], closed_at_once: bool) {
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

    /// Ends an element. The end tag of an element that is not open changes nothing.
    pub(crate) fn end(&mut self, name: &[u8]) {
        if let Some(element) = elements::dropped(name)
            && let Some(start) = self.open[element].pop()
        {
            self.cuts.push((start..self.text.len(), DROPPED[element].1));
        }
        self.separate(name);
    }

    /// The text that a reader sees: the content or, on a page without content, the boilerplate.
    pub(crate) fn visible_text(&self) -> String {
        let content = self.text_without(|_| true);
        let has_content = content.contains(char::is_alphanumeric);
        if has_content { content } else { self.text_without(|why| why == Dropped::Hidden) }
    }

    /// The text without the elements that are dropped for a matching reason. Removes soft hyphens
    /// too: they mark where a word may break, not where it ends.
    fn text_without(&self, is_cut: impl Fn(Dropped) -> bool) -> String {
        let mut cuts: Vec<_> =
            self.cuts.iter().filter(|&&(_, why)| is_cut(why)).map(|(range, _)| range).collect();
        cuts.sort_unstable_by_key(|cut| cut.start);
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for cut in cuts {
            if at < cut.start {
                text.push_str(&self.text[at..cut.start]);
            }
            at = at.max(cut.end);
        }
        text.push_str(&self.text[at..]);
        // Few pages have one, and the others need not be copied.
        if text.contains(SOFT_HYPHEN) { text.replace(SOFT_HYPHEN, "") } else { text }
    }

    /// Ends the word before a tag, unless the element is an inline one.
    pub(super) fn separate(&mut self, name: &[u8]) {
        if !elements::joins(name) && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}
