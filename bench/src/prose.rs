//! Generated texts to measure recipes with: without meaning, but with the statistics of texts.
//!
//! Common words are more frequent than rare ones, sentences and paragraphs have ordinary lengths,
//! and each script has its punctuation. HTML has the usual parts around the text. The word lists
//! are small, so the texts have fewer distinct features than real ones of their length, and real
//! documents are a little slower.

use std::fmt::Write;

use crate::data::Dice;

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words of Latin letters.
    English,
    /// Characters without spaces, three bytes each.
    Chinese,
    /// A page with head, navigation, scripts, and English paragraphs.
    Html,
}

/// The common ones first.
const WORDS: &str = "the of and a to in is was that it for on with as his he be at by had this not \
    but from have are which her she or an they were been one all their has would there what will \
    no when more who him some could into them then two out time may water people made over year \
    down only way find use long little very after words called just where most know get through \
    back much before good new write our used me man too any day same right look think also around \
    another came come work three must because does part even place well such here take why things \
    help put years different away again off went old number great tell men say small every found \
    still between name should home big give air line set own under read last never us left end \
    along while might next sound below saw something thought both few those always looked show \
    large often together asked house don world going want school important until form food keep \
    children feet land side without boy once animals life enough took sometimes four head above \
    kind began almost live page got earth need far hand high mother light parts country father let \
    night following picture being study second eyes soon times story boys since white days ever \
    paper hard near sentence better best across during today others however sure means knew try \
    told young miles sun ways thing whole hear example heard several change answer room sea against \
    top turned learn point city play toward five using himself usually harbour lantern orchard \
    compass granite meadow whistle thunder cabinet saffron quarry violet hammock pepper glacier";

/// Common characters, the most common first.
const CHARACTERS: &str = "\u{7684}\u{4e00}\u{662f}\u{4e86}\u{6211}\u{4e0d}\u{4eba}\u{5728}\u{4ed6}\
    \u{6709}\u{8fd9}\u{4e2a}\u{4e0a}\u{4eec}\u{6765}\u{5230}\u{65f6}\u{5927}\u{5730}\u{4e3a}\u{5b50}\
    \u{4e2d}\u{4f60}\u{8bf4}\u{751f}\u{56fd}\u{5e74}\u{7740}\u{5c31}\u{90a3}\u{548c}\u{8981}\u{5979}\
    \u{51fa}\u{4e5f}\u{5f97}\u{91cc}\u{540e}\u{81ea}\u{4ee5}\u{4f1a}\u{5bb6}\u{53ef}\u{4e0b}\u{800c}\
    \u{8fc7}\u{5929}\u{53bb}\u{80fd}\u{5bf9}\u{5c0f}\u{591a}\u{7136}\u{4e8e}\u{5fc3}\u{5b66}\u{4e48}\
    \u{4e4b}\u{90fd}\u{597d}\u{770b}\u{8d77}\u{53d1}\u{5f53}\u{6ca1}\u{6210}\u{53ea}\u{5982}\u{4e8b}\
    \u{628a}\u{8fd8}\u{7528}\u{7b2c}\u{6837}\u{9053}\u{60f3}\u{4f5c}\u{79cd}\u{5f00}\u{7f8e}\u{603b}\
    \u{4ece}\u{65e0}\u{60c5}\u{5df1}\u{9762}\u{6700}\u{5973}\u{4f46}\u{73b0}\u{524d}\u{4e9b}\u{6240}\
    \u{540c}\u{65e5}\u{624b}\u{53c8}\u{884c}\u{610f}\u{52a8}\u{65b9}\u{671f}\u{5b83}\u{5934}\u{7ecf}";

const COMMA: char = '\u{ff0c}';
const STOP: char = '\u{3002}';

/// A text of at least `bytes` bytes, and at most one sentence more.
pub fn document(kind: Kind, bytes: usize, seed: u64) -> String {
    let mut dice = Dice::of("prose", seed);
    match kind {
        Kind::English => english(bytes, &mut dice),
        Kind::Chinese => chinese(bytes, &mut dice),
        Kind::Html => html(bytes, &mut dice),
    }
}

/// A document of English whose letters are exchanged, other ones in each: as far from the next as
/// pages of different sites, while documents of the same few words are all near each other.
pub fn unlike(bytes: usize, seed: u64) -> String {
    let mut dice = Dice::of("letters", seed);
    let mut letters: Vec<char> = ('a'..='z').collect();
    for i in (1..letters.len()).rev() {
        letters.swap(i, dice.within(0..i as u64 + 1) as usize);
    }
    let exchanged = |c: char| match c {
        'a'..='z' => letters[c as usize - 'a' as usize],
        other => other,
    };
    document(Kind::English, bytes, seed).chars().map(exchanged).collect()
}

fn english(bytes: usize, dice: &mut Dice) -> String {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut text = String::with_capacity(bytes + 256);
    while text.len() < bytes {
        let start = text.len();
        for word in 0..dice.within(5..24) {
            if word > 0 {
                text.push_str(if dice.within(0..12) == 0 { ", " } else { " " });
            }
            text.push_str(words[skewed(words.len(), dice)]);
        }
        text[start..=start].make_ascii_uppercase();
        text.push_str(if dice.within(0..6) == 0 { ".\n\n" } else { ". " });
    }
    text
}

fn chinese(bytes: usize, dice: &mut Dice) -> String {
    let characters: Vec<char> = CHARACTERS.chars().collect();
    let mut text = String::with_capacity(bytes + 256);
    while text.len() < bytes {
        for character in 0..dice.within(6..40) {
            if character > 0 && dice.within(0..10) == 0 {
                text.push(COMMA);
            }
            text.push(characters[skewed(characters.len(), dice)]);
        }
        text.push(STOP);
    }
    text
}

fn html(bytes: usize, dice: &mut Dice) -> String {
    let mut page = String::with_capacity(bytes + 2_048);
    page.push_str(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page</title>\n\
         <style>body { margin: 0 auto; max-width: 40em } p.note { color: #333 }</style>\n\
         <script>var tracked = {\"page\": 7, \"at\": Date.now() < 1e13};</script></head><body>\n\
         <nav><ul><li><a href=\"/\">Home</a></li><li><a href=\"/about\">About</a></li></ul></nav>\n",
    );
    let mut number = 0;
    while page.len() < bytes {
        number += 1;
        let paragraph = english(300, dice);
        let (head, rest) = paragraph.split_once(' ').unwrap_or((&paragraph, ""));
        writeln!(
            page,
            "<p class=\"note\" id=\"p{number}\" data-at=\"{}\"><b>{head}</b>&nbsp;{rest} &amp; so on \
             <a href=\"/note/{number}?from=page\"><em>more</em></a></p>",
            dice.within(0..1_000_000)
        )
        .expect("a string takes everything");
    }
    page.push_str("</body></html>\n");
    page
}

/// A place below `count`, the first ones more likely: what the frequencies of words look like.
fn skewed(count: usize, dice: &mut Dice) -> usize {
    let ends = [(); 3].map(|()| dice.within(0..count as u64));
    let end = ends.into_iter().min().unwrap_or_default();
    end as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlike_documents_are_far_apart() {
        let print = |seed| analyse_text(&unlike(2_000, seed)).unwrap().fingerprint;
        for seed in 1..40 {
            assert!(print(0).distance(print(seed)).get() > 8, "{seed}");
        }
    }

    use nearprint_text::{analyse_text, text_of_html};

    #[test]
    fn texts_have_the_length_and_the_script_they_should() {
        for kind in [Kind::English, Kind::Chinese, Kind::Html] {
            let text = document(kind, 5_000, 1);
            assert!((5_000..6_000).contains(&text.len()), "{kind:?}: {}", text.len());
            assert_eq!(text, document(kind, 5_000, 1));
            assert_ne!(text, document(kind, 5_000, 2));
        }
        let ideographs = |c: &char| ('\u{4e00}'..'\u{a000}').contains(c);
        let chinese = document(Kind::Chinese, 3_000, 1);
        assert!(chinese.chars().filter(ideographs).count() > 800);
    }

    #[test]
    fn texts_have_fingerprints_that_differ() {
        let of = |kind, seed| {
            let text = document(kind, 5_000, seed);
            let analysis = if kind == Kind::Html {
                analyse_text(&text_of_html(&text))
            } else {
                analyse_text(&text)
            };
            analysis.unwrap()
        };
        for kind in [Kind::English, Kind::Chinese, Kind::Html] {
            let (one, other) = (of(kind, 1), of(kind, 2));
            assert!(one.tokens > 300 && !one.short && one.sketch.is_some(), "{kind:?}: {one:?}");
            assert_ne!(one.fingerprint, other.fingerprint);
        }
    }
}
