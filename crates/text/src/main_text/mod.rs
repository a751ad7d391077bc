//! The main text of a page: its article, without what surrounds it on every page of a site.
//!
//! Navigation, related links and footers outweigh a short article, so that two pages of a site look
//! alike whatever they say. Mozilla's Readability (`dom_smoothie`) scores the elements of a page by
//! their text, commas and links, and cuts out the best. It would take minutes on some pages
//! ([`gates`], [`tree`]); for those, and for pages without an article, all visible text counts.
//!
//! Measured in `docs/quality.md`. About 25 us a KiB, thirty times as much as visible text.

mod article;
mod gates;
mod tree;

use dom_smoothie::{Config, Readability};

/// A larger page has no main text.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// An article of fewer letters and numbers is not trusted: on pages that are lists of links it is
/// the menu, which is the same on all of them.
const ARTICLE_LETTERS_MIN: usize = 400;

/// The visible text of the article of a page; `None` if there is none, or if the page exceeds a
/// limit.
pub(crate) fn main_text_of_html(page: &str) -> Option<String> {
    if page.len() > BYTES_MAX {
        return None;
    }
    let tree = tree::of(page).filter(|tree| gates::is_cheap(tree, page.len()))?;
    let config = Config { disable_json_ld: true, ..Config::default() };
    let mut readability = Readability::with_document(tree, None, Some(config)).ok()?;
    readability.parse().ok()?;
    let text = article::text_in(&readability.doc)?;
    let letters = text.chars().filter(|c| c.is_alphanumeric()).take(ARTICLE_LETTERS_MIN).count();
    (letters == ARTICLE_LETTERS_MIN).then_some(text)
}

#[cfg(test)]
mod tests;
