//! Pages of real text: passages of the documents on this machine.
//!
//! Readmes, licences and other documents are read as `nearprint import` reads them,
//! in the order of their paths, so that the same machine gives the same pages. A page that is a
//! near-copy of an earlier one is left out.

use std::env;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use nearprint_files::{Documents, ReadOptions};
use nearprint_fingerprint::{Fingerprint, Sketch, Threshold};
use nearprint_text::{analyse_text, text_of_html};
use nearprint_wire::offer::Content;

use crate::data::Dice;

/// A page has so many bytes, up to the end of a word.
pub(super) const BYTES: Range<u64> = 6_144..8_192;

/// Pages of one document, so that no long one is most of them.
const OF_A_DOCUMENT: usize = 3;

/// Pages whose fingerprints are within this distance may be near-copies.
const NEAR: u8 = 12;

/// Pages that are more similar than this are near-copies, whatever the service would say.
const SIMILARITY: f64 = 0.5;

/// The folders that `make run` imports.
pub(super) fn folders() -> Vec<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "a bench reads no configuration")]
    let cargo = env::var("CARGO_HOME").map(PathBuf::from).ok().or_else(|| {
        let home = env::home_dir()?;
        Some(home.join(".cargo"))
    });
    let registry = cargo.map(|cargo| cargo.join("registry/src"));
    let system = PathBuf::from("/usr/share/doc");
    registry.into_iter().chain([system]).filter(|folder| folder.is_dir()).collect()
}

/// At least one page, and at most `count`, of the documents of some files and folders.
pub(super) fn found(paths: &[PathBuf], count: usize, bytes: &Range<u64>) -> Result<Vec<String>> {
    let mut dice = Dice::of("pages", 1);
    let mut known = Vec::new();
    let mut pages = Vec::new();
    // An equal part of each path: some have far more documents than others.
    for (done, path) in (1..).zip(paths) {
        let enough = count * done / paths.len();
        for entry in Documents::new(vec![path.clone()], ReadOptions::default()) {
            // Among many files some cannot be read.
            let text = match entry.map(|entry| entry.content) {
                Ok(Content::Text(text)) => text.into_owned(),
                Ok(Content::Html(html)) => text_of_html(&html),
                Ok(Content::Features(_) | Content::Vector(_) | Content::Fingerprint(_))
                | Err(_) => continue,
            };
            let new = |page: &&str| is_new(page, &mut known);
            pages.extend(passages(&text, bytes, &mut dice).filter(new).map(str::to_owned));
            if pages.len() >= enough {
                pages.truncate(enough);
                break;
            }
        }
    }
    ensure!(!pages.is_empty(), "no texts of {} bytes in {paths:?}: name others", bytes.end);
    Ok(pages)
}

/// The first passages of a text.
fn passages<'a>(
    text: &'a str,
    bytes: &Range<u64>,
    dice: &mut Dice,
) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let least = rest.floor_char_boundary(dice.within(bytes.clone()) as usize);
        let end = least + rest.get(least..)?.find(char::is_whitespace)?;
        let page;
        (page, rest) = rest.split_at(end);
        (page.len() as u64 >= bytes.start).then_some(page)
    })
    .take(OF_A_DOCUMENT)
}

/// Whether a page is not a near-copy of a known one; it is known from then on.
fn is_new(page: &str, known: &mut Vec<(Fingerprint, Option<Box<Sketch>>)>) -> bool {
    let Ok(analysis) = analyse_text(page) else { return false };
    let (fingerprint, sketch) = (analysis.fingerprint, analysis.sketch);
    let threshold = Threshold::of_similarity(SIMILARITY).expect("above 0");
    let is_copy = |(other, others): &(Fingerprint, Option<Box<Sketch>>)| {
        let similar = || match (&sketch, others) {
            (Some(one), Some(other)) => one.resemblance(other).reaches(threshold.resemblance),
            _ => true,
        };
        fingerprint.distance(*other).get() <= NEAR && similar()
    };
    let new = !known.iter().any(is_copy);
    if new {
        known.push((fingerprint, sketch));
    }
    new
}

/// A near-copy: one word in two hundred is another one.
pub(super) fn edited(page: &str, seed: u64) -> String {
    let mut dice = Dice::of("edits", seed);
    let mut copy = String::with_capacity(page.len() + 64);
    for word in page.split_inclusive(char::is_whitespace) {
        if dice.within(0..200) == 0 {
            copy.push_str(
                ["edited ", "changed ", "revised ", "another "][dice.within(0..4) as usize],
            );
        } else {
            copy.push_str(word);
        }
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docs() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"))
    }

    #[test]
    fn pages_are_the_same_again_and_none_is_a_near_copy() {
        let pages = found(&[docs()], 12, &BYTES).unwrap();
        assert_eq!(pages, found(&[docs()], 12, &BYTES).unwrap());
        assert_eq!(pages.len(), 12);
        let sketches: Vec<_> =
            pages.iter().map(|page| analyse_text(page).unwrap().sketch).collect();
        for (at, one) in sketches.iter().flatten().enumerate() {
            let similar = |other: &Sketch| one.resemblance(other).similarity() > 0.9;
            assert!(!sketches[..at].iter().flatten().any(|other| similar(other)), "{at}");
        }
        for page in &pages {
            // Up to the end of a word, which may be as long as the path of a picture.
            let last = page.split_whitespace().next_back().unwrap();
            let begins = (page.len() - last.len()) as u64;
            assert!(page.len() as u64 >= BYTES.start && begins < BYTES.end, "{}", page.len());
        }
    }

    #[test]
    fn an_edited_page_is_a_near_copy() {
        let page = &found(&[docs()], 1, &BYTES).unwrap()[0];
        let mut known = Vec::new();
        assert!(is_new(page, &mut known));
        assert_ne!(&edited(page, 1), page);
        assert!(!is_new(&edited(page, 1), &mut known));
    }

    #[test]
    fn a_folder_without_texts_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        assert!(found(&[empty.path().into()], 1, &BYTES).is_err());
    }
}
