//! The recipe `np2` in its plainest form: the oracle for the fast implementation.
//!
//! Strings for features, a map for counts, one sum after the other. It shares only the Unicode
//! tables and the hash with the fast implementation.

use std::collections::{BTreeMap, BTreeSet};

use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizer;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};
use nearprint_fingerprint::{BINS, Fingerprint, Label, Numbers, Sketch};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::analysis::{Analysis, EmptyDocument, Wanted};
use crate::features::walk::{is_character, walk};
use crate::recipes::np2::analyse_windows;

fn is_cjk(character: char) -> bool {
    let code = u32::from(character);
    [
        0x3400..=0x4DBF,
        0x4E00..=0x9FFF,
        0xF900..=0xFAFF,
        0x3040..=0x30FF,
        0x31F0..=0x31FF,
        0xAC00..=0xD7AF,
        0x20000..=0x2FA1F,
        0x30000..=0x323AF,
    ]
    .iter()
    .any(|range| range.contains(&code))
}

fn is_kana(character: char) -> bool {
    ('\u{3040}'..='\u{30ff}').contains(&character)
}

fn is_hangul(character: char) -> bool {
    ('\u{ac00}'..='\u{d7af}').contains(&character)
}

fn category_is(groups: &[GeneralCategoryGroup], character: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    groups.iter().any(|group| group.contains(category))
}

/// A letter or number of a word.
fn is_letter(character: char) -> bool {
    let groups = [GeneralCategoryGroup::Letter, GeneralCategoryGroup::Number];
    !is_cjk(character) && category_is(&groups, character)
}

fn is_mark(character: char) -> bool {
    !is_cjk(character) && category_is(&[GeneralCategoryGroup::Mark], character)
}

fn normal_form(text: &str) -> Vec<char> {
    let composed = ComposingNormalizer::new_nfkc().normalize(text).into_owned();
    let folded = CaseMapper::new().fold_string(&composed).into_owned();
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    folded.chars().filter(|&character| !ignorable.contains(character)).collect()
}

/// Without white space between two characters that are both kana or Han.
fn without_inner_space(text: &[char]) -> Vec<char> {
    let joins = |c: Option<&char>| c.is_some_and(|&c| is_cjk(c) && !is_hangul(c));
    let mut kept = Vec::new();
    for stretch in text.chunk_by(|a, b| a.is_whitespace() == b.is_whitespace()) {
        let next = stretch.as_ptr_range().end;
        let after = text.iter().find(|c| std::ptr::from_ref(*c) == next);
        if !(stretch[0].is_whitespace() && joins(kept.last()) && joins(after)) {
            kept.extend_from_slice(stretch);
        }
    }
    kept
}

/// The runs of a text: whether each is CJK, and its characters.
fn runs(text: &str) -> Vec<(bool, Vec<char>)> {
    let text = without_inner_space(&normal_form(text));
    // 0 separates, 1 is part of a word, 2 is CJK.
    let class = |c: char| match c {
        _ if is_cjk(c) => 2,
        _ if is_letter(c) || is_mark(c) => 1,
        _ => 0,
    };
    text.chunk_by(|&a, &b| class(a) == class(b))
        .filter(|run| is_cjk(run[0]) || run.iter().any(|&c| is_letter(c)))
        .map(|run| (is_cjk(run[0]), run.to_vec()))
        .collect()
}

/// All occurrences of features, in the order of the text.
fn occurrences(runs: &[(bool, Vec<char>)], window: usize) -> Vec<String> {
    let mut features = Vec::new();
    let mut add = |feature: &[char]| features.push(String::from_iter(feature));
    for joined in runs.chunk_by(|(a, _), (b, _)| !a && !b) {
        let (cjk, ref first) = joined[0];
        if !cjk {
            let words: Vec<&[char]> = joined.iter().map(|(_, word)| &word[..]).collect();
            let segment = words.join(&' ');
            if segment.len() < window {
                add(&segment);
            }
            segment.windows(window).for_each(&mut add);
        } else if first.len() == 1 {
            add(first);
        } else {
            first.iter().filter(|&&c| !is_kana(c)).for_each(|&c| add(&[c]));
            first.windows(2).for_each(&mut add);
        }
    }
    features
}

/// The weight of each feature: its occurrences that count.
fn features(occurrences: &[String]) -> BTreeMap<String, i64> {
    let mut weights = BTreeMap::new();
    let mut counters = BTreeMap::new();
    for feature in occurrences {
        let characters: Vec<char> = feature.chars().collect();
        let is_character = matches!(characters[..], [c] if is_cjk(c) && !is_kana(c));
        let counter = (is_character, xxh3_64(feature.as_bytes()) >> 48);
        let count = counters.entry(counter).or_insert(0);
        let weight = weights.entry(feature.clone()).or_insert(0);
        if *count < 8 {
            *count += 1;
            *weight += 1;
        }
    }
    weights
}

fn tokens(runs: &[(bool, Vec<char>)]) -> Vec<String> {
    runs.iter()
        .flat_map(|(cjk, run)| {
            if *cjk {
                run.iter().map(char::to_string).collect()
            } else {
                vec![String::from_iter(run)]
            }
        })
        .collect()
}

/// The sums of the features' SimHash, bit 0 first.
fn sums(features: &BTreeMap<String, i64>) -> [i64; 64] {
    std::array::from_fn(|bit| {
        let signed = |(feature, weight): (&String, &i64)| {
            if xxh3_64(feature.as_bytes()) >> bit & 1 == 1 { *weight } else { -weight }
        };
        features.iter().map(signed).sum()
    })
}

fn fingerprint(sums: &[i64; 64]) -> Fingerprint {
    let mut bits = 0;
    for (bit, &sum) in sums.iter().enumerate() {
        if sum > 0 {
            bits |= 1 << bit;
        }
    }
    Fingerprint::new(bits)
}

fn fmix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    h
}

const P: u64 = 0x9E37_79B9_7F4A_7C15;

fn sketch(tokens: &[String]) -> Sketch {
    let hashes: Vec<_> = tokens.iter().map(|t| xxh3_64(t.as_bytes())).collect();
    let mut shingles: Vec<_> =
        hashes.windows(2).map(|pair| fmix(pair[0].wrapping_mul(P).wrapping_add(pair[1]))).collect();
    if let [only] = hashes[..] {
        shingles.push(fmix(only));
    }
    let mut values = vec![BTreeSet::new(); BINS];
    for (i, shingle) in shingles.iter().enumerate() {
        let earlier = shingles[..i].iter().filter(|other| *other == shingle).count();
        let element = fmix(shingle.wrapping_add((earlier as u64).wrapping_mul(P)));
        values[(element >> 55) as usize].insert((element & 0xFFFF_FFFF).min(0xFFFF_FFFE));
    }
    let mut codes = [0; BINS];
    for (code, values) in codes.iter_mut().zip(&values) {
        *code = values.first().map_or(0, |least| 1 + (least % 3) as u8);
    }
    // Wide bins of 32 bins each; an empty one borrows from the next that is not.
    let wide: Vec<Option<u64>> =
        values.chunks(32).map(|bins| bins.iter().flatten().min().copied()).collect();
    let minimum = |bin: usize| (0..16).find_map(|further| wide[(bin + further) % 16]).unwrap_or(0);
    let label = |number: usize| {
        let [first, second, third] = [0, 1, 2].map(|at| minimum(4 * number + at));
        Label::from_bits((first % 65_536) << 24 | (second % 65_536) << 8 | (third % 256))
    };
    let labelled = Sketch::from_codes(&codes).with_labels([0, 1, 2, 3].map(label));
    labelled.with_numbers(numbers(tokens, &hashes))
}

/// A token with a digit, or after another such token, the two of them, is a number.
fn numbers(tokens: &[String], hashes: &[u64]) -> Numbers {
    let category = CodePointMapData::<GeneralCategory>::new();
    let is_digit = |c| category.get(c) == GeneralCategory::DecimalNumber;
    let is_number = |at: usize| tokens[at].contains(is_digit);
    let mut values = vec![BTreeSet::new(); 16];
    for at in (0..tokens.len()).filter(|&at| is_number(at)) {
        let is_pair = at > 0 && is_number(at - 1);
        let joined = |at: usize| hashes[at - 1].wrapping_mul(P).wrapping_add(hashes[at]);
        let element = fmix(if is_pair { fmix(joined(at)) } else { hashes[at] });
        values[(element >> 60) as usize].insert((element & 0xFFFF_FFFF).min(0xFFFF_FFFE));
    }
    let code = |values: &BTreeSet<u64>| values.first().map_or(0, |least| 1 + least % 15);
    let codes = values.iter().map(code);
    Numbers::from_bits(codes.enumerate().map(|(bin, code)| code << (4 * bin)).sum())
}

/// The analysis of a text by the definition.
fn analysis(text: &str, window: usize) -> Result<Analysis, EmptyDocument> {
    let runs = runs(text);
    if runs.is_empty() {
        return Err(EmptyDocument);
    }
    let (features, tokens) = (features(&occurrences(&runs, window)), tokens(&runs));
    let sums = sums(&features);
    Ok(Analysis {
        fingerprint: fingerprint(&sums),
        features: Some(features.len()),
        tokens: tokens.len(),
        short: tokens.len() < 10,
        sketch: Some(Box::new(sketch(&tokens))),
    })
}

/// Texts of every script mixed, with all that is special to the recipe in them.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-c]{1,3}",
        2 => "[A-C0-2 .,]{1,3}",
        2 => prop::sample::select(vec![" ", "\n", "-", ". ", "_", "\u{200d}", "\u{ad}"])
            .prop_map(str::to_owned),
        2 => "[\u{3041}-\u{3043}\u{30a2}\u{30fb}\u{3099}\u{8336}\u{98f2}\u{ac00}]{1,4}",
        1 => "[\u{20000}\u{2fa1f}\u{30000}\u{f900}\u{31f0}\u{ff76}\u{ff9e}]{1,2}",
        2 => "[\u{200d}\u{ad}\u{fe0f}\u{e0100}\u{feff}\u{34f}\u{3164}\u{200b}\u{115f}]{1,2}",
        2 => "[\u{8336}\u{3042}\u{d55c}\u{20000}\u{301} \n\u{3000}\u{2028}\u{b}\u{1c}\u{fe00}]{1,6}",
        2 => "[\u{301}\u{64b}\u{e49}\u{20e3}\u{345}\u{3099} a]{1,4}",
        2 => "[\u{e01}\u{e49}\u{e33}\u{915}\u{94d}\u{301}\u{627}\u{64b}\u{651}\u{653}\u{5b4}\u{e9}]{1,6}",
        1 => "[\u{390}\u{df}\u{130}\u{fb01}\u{2460}\u{ff34}\u{e9}\u{fdfa}]{1,3}",
        2 => "[0-9\u{660}-\u{669}\u{967}\u{ff13}\u{b2}\u{1d7d8} .,a\u{416}]{1,12}",
        1 => "\\PC{0,6}",
        1 => ".{0,6}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn walked_features_agree_with_the_definition(text in texts()) {
        let mut walked = Vec::new();
        walk::<4>(&text, &mut |feature| {
            walked.push(String::from_utf8(feature.to_vec()).unwrap());
        });
        // Single characters are counted apart from other features: only the order of each matters.
        let apart = |all: Vec<String>| -> (Vec<String>, Vec<String>) {
            all.into_iter().partition(|feature| is_character(feature.as_bytes()))
        };
        prop_assert_eq!(apart(walked), apart(occurrences(&runs(&text), 4)));
    }

    #[test]
    fn the_recipe_agrees_with_its_definition(text in texts()) {
        prop_assert_eq!(analyse_windows::<4>(&text, Wanted::ALL), analysis(&text, 4));
        prop_assert_eq!(analyse_windows::<5>(&text, Wanted::ALL), analysis(&text, 5));
        // Without sketch and count, another code path gives the same fingerprint and number of
        // tokens.
        let bare = Wanted { sketch: false, features: false };
        let expected = analysis(&text, 4)
            .map(|all| Analysis { sketch: None, features: None, ..all });
        prop_assert_eq!(analyse_windows::<4>(&text, bare), expected);
    }

    #[test]
    fn the_recipe_agrees_with_its_definition_on_repeated_words(
        words in prop::collection::vec("[ab]{1,2}|[ab\u{e9}]{1,2}|\u{8336}[\u{8336}\u{98f2}\u{3042}]", 0..700),
    ) {
        let text = words.join(" ");
        prop_assert_eq!(analyse_windows::<4>(&text, Wanted::ALL), analysis(&text, 4));
        prop_assert_eq!(analyse_windows::<5>(&text, Wanted::ALL), analysis(&text, 5));
    }
}
