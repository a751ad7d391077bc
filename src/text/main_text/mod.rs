//! The main text of a page: its article, without what surrounds it on every page of a site.
//!
//! Navigation, related links and footers drown a short page: two pages of a site are then near
//! whatever they say. Mozilla's Readability, as `dom_smoothie` has it, scores the elements of a page
//! by their text, commas and links, and cuts out the best. Some pages would take it minutes; those, and
//! pages without an article, count by all their visible text ([`gates`], [`tree`]).
//!
//! Measured in `docs/quality.md`. About 25 us a KiB, thirty times what visible text takes.

mod article;
mod gates;
mod tree;

use dom_smoothie::{Config, Readability};

/// A page of more bytes has no main text.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// An article of fewer letters and numbers is not believed: on pages that are lists of links it is
/// the menu, the same on all of them.
const ARTICLE_LETTERS_MIN: usize = 400;

/// The visible text of the article of a page; `None` where there is none, or the page is beyond the
/// gates.
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
