//! Facts about the recipe `np2` that similar systems get wrong; and its plainest form (`naive`).

mod naive;
mod pages;

use std::collections::BTreeSet;

use nearprint_fingerprint::Fingerprint;

use crate::recipes::np2::{WINDOW, analyse_windows};
use crate::{EmptyDocument, Wanted, analyse_text, text_of_html};

fn fingerprint(text: &str) -> Fingerprint {
    analyse_text(text).unwrap().fingerprint
}

/// A made-up word of three to eight letters for each number.
fn word(number: u64) -> String {
    let mut rest = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    let mut word = String::new();
    for _ in 0..3 + rest % 6 {
        word.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    word
}

#[test]
fn different_sentences_of_any_script_are_far_apart() {
    for (one, other) in [
        // Chinese
        (
            "\u{4eca}\u{5929}\u{4e0b}\u{5348}\u{6211}\u{4eec}\u{53bb}\u{6cb3}\u{8fb9}\
                \u{6563}\u{6b65}",
            "\u{5e02}\u{653f}\u{5e9c}\u{516c}\u{5e03}\u{65b0}\u{7684}\u{5783}\u{573e}\
                \u{5206}\u{7c7b}\u{529e}\u{6cd5}",
        ),
        // Thai
        (
            "\u{e40}\u{e21}\u{e37}\u{e48}\u{e2d}\u{e27}\u{e32}\u{e19}\u{e1d}\u{e19}\
                \u{e15}\u{e01}\u{e2b}\u{e19}\u{e31}\u{e01}\u{e21}\u{e32}\u{e01}\u{e17}\
                \u{e35}\u{e48}\u{e40}\u{e0a}\u{e35}\u{e22}\u{e07}\u{e43}\u{e2b}\u{e21}\
                \u{e48}",
            "\u{e23}\u{e49}\u{e32}\u{e19}\u{e2b}\u{e19}\u{e31}\u{e07}\u{e2a}\u{e37}\
                \u{e2d}\u{e40}\u{e1b}\u{e34}\u{e14}\u{e17}\u{e38}\u{e01}\u{e27}\u{e31}\
                \u{e19}\u{e22}\u{e01}\u{e40}\u{e27}\u{e49}\u{e19}\u{e27}\u{e31}\u{e19}\
                \u{e08}\u{e31}\u{e19}\u{e17}\u{e23}\u{e4c}",
        ),
        // Japanese
        (
            "\u{304d}\u{306e}\u{3046}\u{306e}\u{591c}\u{306f}\u{96ea}\u{304c}\u{964d}\
                \u{308a}\u{307e}\u{3057}\u{305f}",
            "\u{56f3}\u{66f8}\u{9928}\u{306e}\u{30ab}\u{30fc}\u{30c9}\u{3092}\u{306a}\
                \u{304f}\u{3057}\u{3066}\u{3057}\u{307e}\u{3063}\u{305f}",
        ),
        // Korean
        (
            "\u{c5b4}\u{c81c}\u{b294} \u{d558}\u{b8e8} \u{c885}\u{c77c} \u{be44}\
                \u{ac00} \u{b0b4}\u{b838}\u{b2e4}",
            "\u{b3c4}\u{c11c}\u{ad00} \u{d68c}\u{c6d0}\u{c99d}\u{c744} \u{c783}\
                \u{c5b4}\u{bc84}\u{b838}\u{c5b4}\u{c694}",
        ),
        // Arabic
        (
            "\u{646}\u{632}\u{644} \u{627}\u{644}\u{645}\u{637}\u{631} \u{637}\u{648}\
                \u{627}\u{644} \u{627}\u{644}\u{644}\u{64a}\u{644} \u{641}\u{64a} \
                \u{627}\u{644}\u{645}\u{62f}\u{64a}\u{646}\u{629}",
            "\u{623}\u{63a}\u{644}\u{642} \u{627}\u{644}\u{645}\u{62a}\u{62c}\u{631} \
                \u{623}\u{628}\u{648}\u{627}\u{628}\u{647} \u{64a}\u{648}\u{645} \u{627}\
                \u{644}\u{62c}\u{645}\u{639}\u{629}",
        ),
    ] {
        let distance = fingerprint(one).distance(fingerprint(other)).get();
        assert!(distance >= 16, "{one} and {other}: {distance}");
    }
}

#[test]
fn every_bit_is_set_in_30_to_70_percent_of_texts() {
    let fingerprints: Vec<u64> = (0..1_000_u64)
        .map(|text| {
            let words: Vec<_> = (0..40).map(|i| word(1_000 * i + text)).collect();
            fingerprint(&words.join(" ")).bits()
        })
        .collect();
    for bit in 0..64 {
        let ones: u64 = fingerprints.iter().map(|bits| bits >> bit & 1).sum();
        assert!((300..=700).contains(&ones), "bit {bit}: {ones} of 1,000");
    }
}

#[test]
fn texts_without_a_letter_or_number_have_no_fingerprint() {
    for text in
        ["", "\u{301}\u{ad}", " \n\t", "?! ... --", "\u{1f600}\u{200d}\u{20ac}", "\u{3002}\u{300c}"]
    {
        assert_eq!(analyse_text(text), Err(EmptyDocument), "{text:?}");
    }
    for html in ["", "<p></p>", "<!-- a -->", "<script>a</script>", "<img alt='a'>&nbsp;"] {
        assert_eq!(analyse_text(&text_of_html(html)), Err(EmptyDocument), "{html:?}");
    }
}

#[test]
fn a_text_is_short_below_ten_tokens() {
    let nine = analyse_text("one two three four five six seven eight nine").unwrap();
    assert_eq!((nine.tokens, nine.short), (9, true));
    let ten = analyse_text("one two three four five six seven eight 9 10").unwrap();
    assert_eq!((ten.tokens, ten.short), (10, false));
    let cjk = analyse_text("\u{8336}".repeat(10).as_str()).unwrap();
    assert_eq!((cjk.tokens, cjk.short), (10, false));
}

#[test]
fn short_texts_that_differ_do_not_collide() {
    let words: BTreeSet<String> = (0..2_000).map(word).collect();
    let fingerprints: BTreeSet<u64> = words.iter().map(|word| fingerprint(word).bits()).collect();
    assert_eq!(fingerprints.len(), words.len());
    assert!(!fingerprints.contains(&0));
    let distance = fingerprint("Hello!").distance(fingerprint("Page not found")).get();
    assert!(distance >= 16, "{distance}");
}

#[test]
fn repetition_makes_a_difference() {
    let once = "apples pears plums cherries";
    let more = "apples apples apples apples apples pears plums cherries";
    assert_ne!(fingerprint(once), fingerprint(more));
    assert_ne!(analyse_text(once).unwrap().sketch, analyse_text(more).unwrap().sketch);
}

#[test]
fn spacing_punctuation_and_case_make_no_difference() {
    let plain = analyse_text("the cafe\u{301} opens at seven");
    let dressed = analyse_text("  The \u{201c}CAF\u{c9}\u{201d}\r\n opens \u{2014} at\tSEVEN!");
    assert_eq!(plain, dressed);
}

/// Each of these would take minutes if work grew with the square of the length.
#[test]
fn a_large_text_of_anything_gets_an_answer() {
    for piece in [
        "a",
        "a ",
        "1",
        "1 ",
        "12-345-678901234567 ",
        "\u{967} ",
        "\u{301}a",
        "a\u{301}\u{323}\u{f72}",
        "\u{fdfa}",
        "\u{8336}",
        "\u{3068}\u{8336} ",
        "\u{1112}\u{1161}\u{11ab}",
    ] {
        let text = piece.repeat(512 * 1024 / piece.len() / 4);
        assert!(analyse_text(&text).is_ok(), "{piece:?}");
    }
    // Marks that are not a word until their letter comes, after all of them.
    let marks = "\u{301}".repeat(128 * 1024);
    assert_eq!(analyse_text(&marks), Err(EmptyDocument));
    assert_eq!(analyse_text(&format!("tea {marks}1")).unwrap().tokens, 2);
    assert_eq!(analyse_text(&format!("tea {marks} 1")), analyse_text("tea 1"));
    let words: String = (0..40_000).map(word).collect();
    let all = analyse_windows::<WINDOW>(&words, Wanted::ALL).unwrap();
    assert!(all.features > Some(100_000));
}

/// Whether two texts have the same numbers.
fn same_numbers(one: &str, other: &str) -> bool {
    let numbers = |text| analyse_text(text).unwrap().sketch.unwrap().numbers();
    numbers(one) == numbers(other)
}

#[test]
fn numbers_are_the_distinct_tokens_with_digits() {
    assert!(same_numbers("gate 7 at noon, gate 7", "7 boats"));
    assert!(!same_numbers("gate 7", "gate 8") && !same_numbers("7", "gate"));
    // A digit of a word counts with its word.
    assert!(!same_numbers("b2b", "2") && same_numbers("a B2B shop", "b2b"));
    // Compatibility forms are the same digits; those of other scripts are digits too.
    assert!(same_numbers("\u{ff11}\u{ff12}", "12") && same_numbers("\u{2466}", "7"));
    assert!(!same_numbers("\u{967}\u{968}", "x") && !same_numbers("\u{967}\u{968}", "12"));
    assert!(same_numbers("\u{4e03} \u{bd} VII", "1/2"));
}

#[test]
fn a_number_right_after_another_counts_with_it() {
    assert!(!same_numbers("version 2.13", "version 13.2"));
    assert!(!same_numbers("2, 13", "2 and 13") && same_numbers("2, 13", "2.13"));
}

/// The beginning of a long word is hashed before the word ends.
#[test]
fn a_digit_anywhere_in_a_long_word_counts() {
    let long = "a".repeat(200_000);
    for (text, other) in [
        (format!("7{long}"), format!("x{long}")),
        (format!("{long}7{long}"), format!("{long}x{long}")),
        (format!("{long}7 {long}"), format!("{long}x {long}")),
        (format!("{long}\u{967}\u{e9} {long}"), format!("{long}\u{e9} {long}")),
        (format!("{long}\u{967} {long}"), format!("{long} {long}")),
    ] {
        assert!(same_numbers(&other, "none") && !same_numbers(&text, "none"));
    }
    assert!(same_numbers("abcdefgh7 x abcdefghijklmnopqrst", "abcdefgh7"));
}

#[test]
fn invisible_characters_make_no_difference() {
    let plain = analyse_text("zero width coop \u{8336}\u{98f2} 1\u{20e3}").unwrap();
    let dressed = "\u{feff}ze\u{200b}ro wi\u{ad}dth\u{200e} co\u{2060}op \u{8336}\u{e0100}\u{200d}\u{98f2} \
        1\u{fe0f}\u{20e3}";
    assert_eq!(analyse_text(dressed), Ok(plain));
}

#[test]
fn line_breaks_between_han_or_kana_make_no_difference() {
    let plain = analyse_text("\u{8336}\u{3068}\u{30a2}\u{20000}").unwrap();
    assert_eq!(analyse_text("\u{8336}\n\u{3068}\u{3000}\u{30a2} \r\n \u{20000}"), Ok(plain));
    let korean = analyse_text("\u{d55c}\u{ae00}").unwrap().fingerprint;
    assert_ne!(fingerprint("\u{d55c} \u{ae00}"), korean);
}

#[test]
fn more_than_eight_occurrences_make_no_difference_to_the_fingerprint() {
    let (eight, many) = ("ab, ".repeat(10), "ab, ".repeat(5_000));
    assert_eq!(fingerprint(&eight), fingerprint(&many));
    let (eight, many) = ("\u{8336}".repeat(9), "\u{8336}".repeat(5_000));
    assert_eq!(fingerprint(&eight), fingerprint(&many));
}
