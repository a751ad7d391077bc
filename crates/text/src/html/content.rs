//! Collects the text of a page in order, and which parts of it to leave out.

use std::ops::Range;

use crate::html::elements::{self, BESIDE_CONTENT, DROPPED, Dropped, ElementRole};
use crate::html::ranges::{minus, union};
use crate::html::regions::{Ended, Outermost, Regions};

/// Where a word may break.
const SOFT_HYPHEN: char = '\u{ad}';

/// Boilerplate with more than this many times the letters and digits of the rest of its page is
/// the content of the page. Those of its links do not count, or a long menu would be content.
pub(super) const BOILERPLATE_TIMES: usize = 3;

/// Main content is thin, so that the page counts, if it has fewer letters and digits than this, and
/// the text outside has as many as [`OUTSIDE_MIN`], without those of links. The stubs of mdBook
/// have 45; as a multiple of the main content, a long notice would count on every short page.
const MAIN_MIN: usize = 40;

/// If the rest of the page has less text than this, short main content counts alone: each page of
/// mdBook has a help box of 134 letters.
const OUTSIDE_MIN: usize = 200;

/// The text of a page, with the places to leave out.
#[derive(Debug, Default)]
pub(crate) struct HtmlPage {
    /// All text, hidden or not.
    text: String,
    /// The ranges of dropped elements that have ended, with the reasons; they may overlap.
    cuts: Vec<(Range<usize>, Dropped)>,
    /// For each element of [`DROPPED`], the offsets at which those still open begin; `None` for
    /// those that are not dropped.
    open: [Vec<Option<usize>>; DROPPED.len()],
    /// The main content, and what roles mark as part of the site.
    regions: Regions,
    /// The outermost articles.
    articles: Outermost,
    /// The text of links that have ended, in order.
    links: Vec<Range<usize>>,
    /// Where the last link begins, if it is open.
    link: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementContent {
    /// Nothing: its start tag closes it.
    None,
    /// What elements of its name do.
    ByName,
    /// Text of the page, whatever its name.
    Text,
}

impl HtmlPage {
    pub(crate) fn words(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn character(&mut self, character: char) {
        self.text.push(character);
    }

    /// Adds the text that stands for an image whose tag has just begun.
    pub(super) fn image(&mut self, alternative: &str) {
        if !alternative.is_empty() {
            let at = self.text.len();
            self.text.push_str(alternative);
            self.separate_always();
            self.cuts.push((at..self.text.len(), Dropped::Image));
        }
    }

    /// Begins an element; `name` is its name in lower case.
    pub(crate) fn start(&mut self, name: &[u8], contents: ElementContent) {
        self.separate(name);
        if matches!(name, b"body" | b"main") {
            self.begin_content();
        }
        let at = self.text.len();
        if contents == ElementContent::None {
            return;
        }
        if let Some(element) = elements::dropped(name) {
            self.open[element].push((contents == ElementContent::ByName).then_some(at));
            if contents == ElementContent::Text {
                self.separate_always();
            }
        } else if name == b"a" {
            self.link = Some(at);
        } else if name == b"article" {
            self.articles.start(at);
        }
    }

    /// Gives the element that has just begun its role; `name` is the name as the source spells it.
    pub(super) fn start_region(&mut self, name: &str, role: Option<ElementRole>) {
        if role.is_none() && self.regions.is_idle() {
            return;
        }
        if role == Some(ElementRole::Main) {
            self.begin_content();
        }
        self.regions.start(name, role, self.text.len());
    }

    /// The elements that are never around the content and are still open were never closed.
    fn begin_content(&mut self) {
        for element in BESIDE_CONTENT.into_iter().filter_map(elements::dropped) {
            self.open[element].clear();
        }
    }

    /// Ends an element. The end tag of an element that is not open changes nothing.
    pub(crate) fn end(&mut self, name: &[u8]) {
        let at = self.text.len();
        if let Some(element) = elements::dropped(name)
            && let Some(start) = self.open[element].pop()
        {
            match start {
                Some(start) if start == at => {}
                Some(start) => self.cuts.push((start..at, DROPPED[element].1)),
                None => self.separate_always(),
            }
        } else if name == b"a" {
            self.links.extend(self.link.take().map(|start| start..at));
        } else if name == b"article" {
            // Main content may follow it.
            self.separate_always();
            self.articles.end(self.text.len());
        }
        self.separate(name);
    }

    /// Ends the role of the element that is about to end.
    pub(super) fn end_region(&mut self, name: &str) {
        if self.regions.is_idle() {
            return;
        }
        match self.regions.end(name) {
            Ended::Nothing => {}
            Ended::Site(start) => self.cuts.push((start..self.text.len(), Dropped::Site)),
            Ended::Main => {
                // Several of them may follow each other.
                self.separate_always();
                self.regions.end_main(self.text.len());
            }
        }
    }

    /// The text that a reader sees: all but the boilerplate or, on a page without other text, the
    /// boilerplate.
    pub(crate) fn visible_text(&self) -> String {
        let whole: Vec<Range<usize>> = std::iter::once(0..self.text.len()).collect();
        let rest = minus(&whole, &self.cuts(|why| why != Dropped::Site));
        let has_rest = self.has_letters(&rest);
        self.text_of(&if has_rest { rest } else { minus(&whole, &self.cuts(is_hidden)) })
    }

    /// The text of the main content, where the page marks it and it is not thin; or else of the
    /// page. Boilerplate, the elements of the site and what stands for images count only where they
    /// outweigh the rest.
    pub(super) fn content(&self) -> String {
        let dropped = self.cuts(|_| true);
        let region = self.region(&dropped);
        let content = minus(&region, &dropped);
        if dropped.is_empty() {
            return self.text_of(&content);
        }
        drop(dropped);
        let seen = minus(&region, &self.cuts(is_hidden));
        let boilerplate = minus(&minus(&seen, &content), &self.links);
        let is_content = self.outweighs(&boilerplate, BOILERPLATE_TIMES, &content)
            || !self.has_letters(&content);
        let text = if is_content { seen } else { content };
        self.text_of(&self.with_images(text, &region, is_content))
    }

    /// Adds what stands for the images of a text, if it has more letters than the text.
    fn with_images(
        &self,
        text: Vec<Range<usize>>,
        region: &[Range<usize>],
        has_boilerplate: bool,
    ) -> Vec<Range<usize>> {
        // Those of few pages outweigh their text even if all of them count.
        if !self.outweighs(&self.cuts(|why| why == Dropped::Image), 1, &text) {
            return text;
        }
        let is_left_out = |why| is_hidden(why) || !has_boilerplate;
        let left_out = self.cuts(|why| why != Dropped::Image && is_left_out(why));
        let with_images = minus(region, &left_out);
        let images = minus(&with_images, &text);
        if self.outweighs(&images, 1, &text) { with_images } else { text }
    }

    /// Where the content is: in the main content and the longer articles outside it, or anywhere.
    fn region(&self, dropped: &[Range<usize>]) -> Vec<Range<usize>> {
        let whole: Vec<Range<usize>> = std::iter::once(0..self.text.len()).collect();
        let mut mains = self.regions.mains(self.text.len());
        let main_text = minus(&mains, dropped);
        if !self.has_letters(&main_text) {
            return whole;
        }
        let outside = |of: &[Range<usize>]| minus(&minus(&minus(of, &mains), dropped), &self.links);
        let rest = outside(&whole);
        if self.letters(&main_text).nth(MAIN_MIN - 1).is_none()
            && self.letters(&rest).nth(OUTSIDE_MIN - 1).is_some()
        {
            return whole;
        }
        mains.extend(self.longer_articles(&outside(self.articles.ended()), &main_text));
        union(mains)
    }

    /// The articles that have more letters in these parts of the page than the main content has.
    fn longer_articles(
        &self,
        parts: &[Range<usize>],
        main_text: &[Range<usize>],
    ) -> Vec<Range<usize>> {
        if parts.is_empty() {
            return Vec::new();
        }
        let main_letters = self.count(main_text);
        let mut parts = parts.iter().peekable();
        let is_longer = |article: &&Range<usize>| {
            let mut letters = 0;
            while let Some(part) = parts.next_if(|part| part.end <= article.end) {
                letters += self.count(std::slice::from_ref(part));
            }
            letters > main_letters
        };
        self.articles.ended().iter().filter(is_longer).cloned().collect()
    }

    /// Whether one text has more than this many times the letters of the other.
    fn outweighs(&self, one: &[Range<usize>], times: usize, other: &[Range<usize>]) -> bool {
        let enough = self.count(one).div_ceil(times);
        self.letters(other).take(enough).count() < enough
    }

    fn count(&self, ranges: &[Range<usize>]) -> usize {
        self.letters(ranges).count()
    }

    fn has_letters(&self, ranges: &[Range<usize>]) -> bool {
        self.letters(ranges).next().is_some()
    }

    /// The letters and digits within these ranges.
    fn letters(&self, ranges: &[Range<usize>]) -> impl Iterator<Item = char> {
        let text = |range: &Range<usize>| self.text[range.clone()].chars();
        ranges.iter().flat_map(text).filter(|c| c.is_alphanumeric())
    }

    /// The dropped elements that have ended, for a matching reason.
    fn cuts(&self, matches: impl Fn(Dropped) -> bool) -> Vec<Range<usize>> {
        let matching = self.cuts.iter().filter(|&&(_, why)| matches(why));
        let mut cuts = Vec::with_capacity(matching.clone().count());
        cuts.extend(matching.map(|(range, _)| range.clone()));
        union(cuts)
    }

    /// The text of these ranges. Removes soft hyphens too: they mark where a word may break, not
    /// where it ends.
    fn text_of(&self, ranges: &[Range<usize>]) -> String {
        let mut text = String::with_capacity(ranges.iter().map(ExactSizeIterator::len).sum());
        text.extend(ranges.iter().map(|range| &self.text[range.clone()]));
        // Few pages have one, and the others need not be copied.
        if text.contains(SOFT_HYPHEN) { text.replace(SOFT_HYPHEN, "") } else { text }
    }

    /// Ends the word before a tag, unless the element is an inline one.
    pub(super) fn separate(&mut self, name: &[u8]) {
        if !elements::joins(name) {
            self.separate_always();
        }
    }

    fn separate_always(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

fn is_hidden(why: Dropped) -> bool {
    matches!(why, Dropped::Hidden | Dropped::Image)
}
