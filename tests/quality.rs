//! The recipe `np2` gives the fingerprints and sketches that are published for it.
//!
//! Two sets. `tests/corpus`, written for this project, has the test vectors of `docs/recipe-np2.md`
//! for implementations in any language. The labelled quality set, if it is next to the project, has
//! references that another program made: 4,692 fingerprints and 3,098 sketches must be equal in
//! every bit. That program ended words at combining marks, so that the few documents with marks in
//! them differ; they are listed, and with their marks made into separators they agree as well.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use nearprint::text::{Analysis, Method, Source, Wanted, analyse, analyse_text, normalise};

/// Documents that name Bengali in Bengali, in a list of translations: U+09BE twice, U+0982 once.
const FINGERPRINT_DIFFERS_BY_MARKS: [&str; 7] = [
    "vue-en/af523531@bef7037f",
    "vue-en/af523531@ec1d44c7",
    "vue-ja/af523531@236a0345",
    "vue-ja/af523531@7952a038",
    "vue-zh/af523531@0c9ff60d",
    "vue-zh/af523531@48b14b11",
    "vue-zh/af523531@e9f2bda3",
];

/// Those, and two of the same page whose fingerprints the marks do not tip.
const SKETCH_DIFFERS_BY_MARKS: [&str; 9] = [
    "vue-en/af523531@bef7037f",
    "vue-en/af523531@ec1d44c7",
    "vue-ja/af523531@236a0345",
    "vue-ja/af523531@5800d0f4",
    "vue-ja/af523531@5abcc01d",
    "vue-ja/af523531@7952a038",
    "vue-zh/af523531@0c9ff60d",
    "vue-zh/af523531@48b14b11",
    "vue-zh/af523531@e9f2bda3",
];

/// What an analysis is compared by: fingerprint or sketch, as text, `-` for none.
type Aspect = fn(Option<&Analysis>) -> String;

fn fingerprint(analysis: Option<&Analysis>) -> String {
    analysis.map_or("-".to_owned(), |analysis| analysis.fingerprint.to_string())
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

/// The quality set, where it is.
fn quality_set() -> Option<PathBuf> {
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/quality");
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

/// The text as a program reads it to which combining marks are separators.
fn with_marks_as_separators(text: &str) -> String {
    let category = CodePointMapData::<GeneralCategory>::new();
    normalise(text)
        .chars()
        .map(|c| match c {
            '\u{3040}'..='\u{30ff}' => c,
            _ if GeneralCategoryGroup::Mark.contains(category.get(c)) => ' ',
            _ => c,
        })
        .collect()
}

/// The ids whose aspect is not that of the reference. Each of them agrees without its marks.
fn differing(set: &Path, documents_in: &str, reference_in: &str, aspect: Aspect) -> Vec<String> {
    let reference = table(&set.join(reference_in));
    let documents = documents(&set.join(documents_in));
    assert_eq!(documents.len(), reference.len());
    let mut differing = Vec::new();
    for (id, text) in documents {
        if aspect(analyse_text(&text).ok().as_ref()) != reference[&id] {
            let without_marks = analyse_text(&with_marks_as_separators(&text)).ok();
            assert_eq!(aspect(without_marks.as_ref()), reference[&id], "{id}");
            differing.push(id);
        }
    }
    differing.sort();
    differing
}

#[test]
fn reference_fingerprints_come_out_bit_for_bit() {
    let Some(set) = quality_set() else { return };
    let of_documents = differing(&set, "dev/docs.jsonl", "reference/dev.docs.fp.tsv", fingerprint);
    assert_eq!(of_documents, FINGERPRINT_DIFFERS_BY_MARKS);
    let of_paragraphs =
        differing(&set, "dev/short.jsonl", "reference/dev.short.fp.tsv", fingerprint);
    assert!(of_paragraphs.is_empty(), "{of_paragraphs:?}");
}

#[test]
fn reference_sketches_come_out_bit_for_bit() {
    let Some(set) = quality_set() else { return };
    let of_documents = differing(&set, "dev/docs.jsonl", "reference/dev.sketch.tsv", sketch);
    assert_eq!(of_documents, SKETCH_DIFFERS_BY_MARKS);
    let of_example = differing(&set, "reference/tiny.jsonl", "reference/tiny.sketch.tsv", sketch);
    assert!(of_example.is_empty(), "{of_example:?}");
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fingerprints.tsv");
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recipes.tsv");
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors.tsv");
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
