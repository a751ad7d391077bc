//! The recipe `np2` gives the fingerprints and sketches that are published for it.
//!
//! Two sets. `tests/corpus`, written for this project, has the test vectors of `docs/recipe-np2.md`
//! for implementations in any language; `np2.py` there made them. The labelled quality set, if it
//! is next to the project, has references that another program made by `np1`, the recipe before
//! this one: 4,692 fingerprints and 3,098 sketches. They must be equal in every bit wherever none
//! of the four changes from `np1` to `np2` concerns the text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};
use nearprint_text::{Analysis, Explained, Method, Source, Wanted, analyse, analyse_text};

/// What an analysis is compared by: fingerprint or sketch, as text, `-` for none.
type Aspect = fn(Option<&Analysis>) -> String;

fn fingerprint(analysis: Option<&Analysis>) -> String {
    analysis.map_or("-".to_owned(), |analysis| analysis.fingerprint.to_string())
}

/// The bit planes of a sketch, which are all that the references have.
fn planes(analysis: Option<&Analysis>) -> String {
    let sketch = sketch(analysis);
    sketch.get(..256).unwrap_or(&sketch).to_owned()
}

fn sketch(analysis: Option<&Analysis>) -> String {
    let sketch = analysis.and_then(|analysis| analysis.sketch.as_ref());
    sketch.map_or("-".to_owned(), |sketch| hex(&sketch.to_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in bytes {
        write!(hex, "{byte:02x}").expect("a string takes all");
    }
    hex
}

fn quality_set() -> Option<PathBuf> {
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/quality");
    set.is_dir().then_some(set)
}

/// Lines of `{"id": ..., "text": ...}`.
fn documents(path: &Path) -> Vec<(String, String)> {
    let lines = fs::read_to_string(path).expect("the set has this file");
    lines
        .lines()
        .map(|line| {
            let document: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
            let field = |name: &str| document[name].as_str().expect("a string").to_owned();
            (field("id"), field("text"))
        })
        .collect()
}

/// Lines of an id, a tab and a value.
fn table(path: &Path) -> BTreeMap<String, String> {
    let lines = fs::read_to_string(path).expect("the set has this file");
    lines
        .lines()
        .map(|line| line.split_once('\t').expect("two columns"))
        .map(|(id, value)| (id.to_owned(), value.to_owned()))
        .collect()
}

/// Whether a text has invisible characters or combining marks. (The program that made the
/// references ended words at marks.)
fn has_invisible_or_marks(text: &str) -> bool {
    let invisible = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let category = CodePointMapData::<GeneralCategory>::new();
    let is_kana = |c: char| ('\u{3040}'..='\u{30ff}').contains(&c);
    let is_mark = |c| GeneralCategoryGroup::Mark.contains(category.get(c)) && !is_kana(c);
    text.contains(|c| invisible.contains(c) || is_mark(c))
}

/// Whether a text has white space after kana or Han; a little more than the recipe asks for.
fn has_space_after_cjk(text: &str) -> bool {
    let is_cjk = |c: char| matches!(c, '\u{3040}'..='\u{9fff}' | '\u{f900}'..='\u{ffef}');
    text.chars().zip(text.chars().skip(1)).any(|(c, next)| is_cjk(c) && next.is_whitespace())
}

/// Whether a feature of a text has the largest weight.
fn has_capped_features(text: &str) -> bool {
    let explained = Explained::of(&Source::Text(text.into()), Method::default());
    let heaviest = explained.map(|explained| explained.explanation().heaviest).unwrap_or_default();
    heaviest.first().is_some_and(|feature| feature.weight >= 8.0)
}

/// Compares documents with their references. Those that differ must be touched by a change of the
/// recipe; returns how many agree.
fn agreeing(
    documents_in: &str,
    reference_in: &str,
    aspect: Aspect,
    is_touched: impl Fn(&str) -> bool,
) -> Option<usize> {
    let set = quality_set()?;
    let reference = table(&set.join(reference_in));
    let documents = documents(&set.join(documents_in));
    assert_eq!(documents.len(), reference.len());
    let agrees = |(id, text): &(String, String)| {
        let agrees = aspect(analyse_text(text).ok().as_ref()) == reference[id];
        assert!(agrees || is_touched(text), "{id} in {documents_in}");
        agrees
    };
    Some(documents.iter().filter(|document| agrees(document)).count())
}

#[test]
fn reference_fingerprints_come_out_where_the_recipe_has_not_changed() {
    let is_touched = |text: &str| {
        has_invisible_or_marks(text) || has_space_after_cjk(text) || has_capped_features(text)
    };
    let of = |documents, reference| agreeing(documents, reference, fingerprint, is_touched);
    // Most documents repeat a window more than eight times, and few paragraphs do.
    let documents = of("dev/docs.jsonl", "reference/dev.docs.fp.tsv");
    assert!(documents.is_none_or(|agree| agree > 300), "{documents:?}");
    let paragraphs = of("dev/short.jsonl", "reference/dev.short.fp.tsv");
    assert!(paragraphs.is_none_or(|agree| agree > 1_550), "{paragraphs:?}");
}

/// The cap and white space change no token, and so no sketch.
#[test]
fn reference_sketches_come_out_bit_for_bit() {
    let of = |documents, reference| agreeing(documents, reference, planes, has_invisible_or_marks);
    let documents = of("dev/docs.jsonl", "reference/dev.sketch.tsv");
    assert!(documents.is_none_or(|agree| agree > 3_080), "{documents:?}");
    assert!(of("reference/tiny.jsonl", "reference/tiny.sketch.tsv").is_none_or(|agree| agree == 6));
}

#[test]
fn over_mixed_paragraphs_every_bit_is_set_in_30_to_70_percent() {
    let Some(set) = quality_set() else { return };
    let fingerprints: Vec<u64> = documents(&set.join("dev/short.jsonl"))
        .iter()
        .filter_map(|(_, text)| analyse_text(text).ok())
        .map(|analysis| analysis.fingerprint.bits())
        .collect();
    for bit in 0..64 {
        let ones: u64 = fingerprints.iter().map(|bits| bits >> bit & 1).sum();
        let percent = 100 * ones / fingerprints.len() as u64;
        assert!((30..70).contains(&percent), "bit {bit}: {percent} %");
    }
}

/// The texts of the project's own corpus with their names.
fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let mut texts: Vec<_> = fs::read_dir(folder)
        .expect("the corpus is part of the project")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            let text = fs::read_to_string(&path).expect("UTF-8");
            (name.into_owned(), text)
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn the_published_vectors_come_out() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/fingerprints.tsv");
    let mut made = "name\tfingerprint\tfeatures\ttokens\tshort\tsketch\n".to_owned();
    for (name, text) in corpus() {
        let analysis = analyse(&Source::Text(text.into()), Method::default(), Wanted::ALL)
            .expect("every text has words");
        writeln!(
            made,
            "{name}\t{}\t{}\t{}\t{}\t{}",
            analysis.fingerprint,
            analysis.features.unwrap_or_default(),
            analysis.tokens,
            analysis.short,
            sketch(Some(&analysis))
        )
        .expect("a string takes all");
    }
    assert_eq!(made, fs::read_to_string(path).unwrap_or_default());
}

/// The recipes other than `np2`, as the vectors name them.
const RECIPES: [&str; 8] = [
    "np2-5",
    "words-1",
    "words-3",
    "words-1-stop",
    "keywords-11",
    "keywords-22-w5",
    "textrank-11",
    "textrank-22-w5",
];

#[test]
fn the_vectors_of_the_other_recipes_come_out() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recipes.tsv");
    let mut made = format!("name\t{}\n", RECIPES.join("\t"));
    for (name, text) in corpus() {
        made += &name;
        for recipe in RECIPES {
            let recipe = recipe.parse().expect("an id");
            let source = Source::Text(text.as_str().into());
            let analysis = analyse(&source, Method { recipe, ..Method::default() }, Wanted::STORED);
            made += "\t";
            made += &analysis.map_or("-".to_owned(), |analysis| analysis.fingerprint.to_string());
        }
        made += "\n";
    }
    assert_eq!(made, fs::read_to_string(path).unwrap_or_default());
}

#[test]
fn the_vectors_of_the_recipes_of_vectors_come_out() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vectors.tsv");
    let table = fs::read_to_string(path).expect("the fixtures are part of the project");
    let mut rows = 0;
    for row in table.lines().skip(1) {
        let [recipe, vector, expected] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a row has three columns")
        };
        let numbers: Vec<f64> = serde_json::from_str(vector).expect("an array of numbers");
        let vector: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
        let method = Method { recipe: recipe.parse().expect("an id"), ..Method::default() };
        let analysis = analyse(&Source::Vector(vector.into()), method, Wanted::STORED);
        assert_eq!(analysis.expect("it has a direction").fingerprint.to_string(), expected);
        rows += 1;
    }
    assert!(rows >= 12);
}

#[test]
fn revisions_of_a_text_are_near_and_different_texts_of_any_script_are_far() {
    let texts: Vec<_> = corpus()
        .into_iter()
        .map(|(name, text)| (name, analyse_text(&text).expect("every text has words")))
        .collect();
    for (i, (name, analysis)) in texts.iter().enumerate() {
        for (other_name, other) in &texts[..i] {
            let distance = analysis.fingerprint.distance(other.fingerprint).get();
            let stem = |name: &str| name.trim_end_matches(['-', '1', '2']).to_owned();
            if stem(name) == stem(other_name) {
                assert!(distance <= 8, "{name}, {other_name}: {distance}");
            } else {
                assert!(distance >= 16, "{name}, {other_name}: {distance}");
            }
        }
    }
}
