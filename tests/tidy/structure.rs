//! Ratchets: what the structure has won is not lost again.
//!
//! The lists of exceptions may only shrink. A layer may grow in the commit that raises its number
//! and says why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::PRODUCT;
use crate::tokens::{Product, read_product};

/// Modules of the first level that import one another in circles, by the sources of their crate.
const CIRCLES: &[(&str, &str)] = &[];

/// Names that stand for two visible types or more.
const NAMES_OF_SEVERAL_TYPES: &[&str] = &[
    "Checked",
    "Comparison",
    "Explanation",
    "Hit",
    "Index",
    "Job",
    "Log",
    "Sketch",
    "SpectralModel",
];

/// The most lines of code of a function, from `fn` to its closing bracket.
const FUNCTION_LINES_MAX: usize = 60;

/// Functions that are longer.
const LONG_FUNCTIONS: &[&str] = &[
    "crates/engine/src/threads/lifecycle.rs: start",
    "crates/storage/src/journal/recovery.rs: read_files",
    "crates/files/src/dedup/layout/types.rs: converted",
    "src/cli/commands/files/import.rs: run",
    "src/http/router.rs: routes",
];

/// The most lines of code of each layer, in the order in which a document passes them.
const LAYERS: &[(&str, usize)] = &[
    ("src/server", 1_400),
    ("src/http", 7_290),
    ("src/access", 440),
    ("src/cli", 7_830),
    ("python", 3_240),
    ("crates/files", 8_530),
    ("crates/wire", 2_060),
    ("crates/text", 6_050),
    ("crates/engine", 11_450),
    ("crates/service", 2_690),
    ("crates/client", 500),
    ("crates/machine", 2_130),
    ("crates/storage", 3_790),
    ("crates/index", 10_660),
    ("crates/fingerprint", 710),
    ("src/replicas", 1_300),
    ("src/config", 1_000),
    ("src", 690),
];

/// A layer this far below its number shows that the number can be lowered.
const SLACK: usize = 200;

/// The most columns of a line that is a comment.
const COMMENT_COLUMNS_MAX: usize = 100;

#[test]
fn modules_of_the_first_level_import_one_another_in_no_new_circle() {
    let files = product();
    let layers: BTreeSet<&str> = files.iter().map(|file| crate_of(&file.path)).collect();
    let mut found = Vec::new();
    for layer in layers {
        let imports = imports(files.iter().filter(|file| crate_of(&file.path) == layer));
        found.extend(circles(&imports).into_iter().map(|circle| (layer, circle.join(" "))));
    }
    let known = CIRCLES.iter().map(|(layer, circle)| (*layer, (*circle).to_owned()));
    assert_eq!(found, known.collect::<Vec<_>>(), "break the circle, or shorten the list");
}

#[test]
fn a_visible_name_stands_for_one_type() {
    let files = product();
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for name in files.iter().flat_map(visible_types) {
        *types.entry(name).or_default() += 1;
    }
    types.retain(|_, count| *count > 1);
    let found: Vec<_> = types.into_keys().collect();
    assert_eq!(found, NAMES_OF_SEVERAL_TYPES, "find a name of its own, or shorten the list");
}

#[test]
fn functions_fit_on_a_page() {
    let files = product();
    let long = files.iter().flat_map(|file| {
        let functions = functions(file).into_iter();
        functions
            .filter(|(_, lines)| *lines > FUNCTION_LINES_MAX)
            .map(move |(name, _)| format!("{}: {name}", file.path))
    });
    let long: BTreeSet<_> = long.collect();
    let known = LONG_FUNCTIONS.iter().map(ToString::to_string).collect();
    assert_eq!(long, known, "more than {FUNCTION_LINES_MAX} lines; shorten it, or the list");
}

#[test]
fn layers_keep_to_their_lines() {
    let files = product();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        *lines.entry(layer_of(&file.path)).or_default() += file.lines();
    }
    let mut broken = Vec::new();
    for (layer, max) in LAYERS {
        let lines = lines.remove(layer).unwrap_or_default();
        if lines > *max || lines + SLACK < *max {
            broken.push(format!("{layer}: {lines} lines, its number is {max}"));
        }
    }
    broken.extend(lines.iter().map(|(layer, lines)| format!("{layer}: {lines} lines, not listed")));
    assert_eq!(broken, Vec::<String>::new(), "say in the commit why a layer grows");
}

#[test]
fn comments_keep_to_the_width_of_the_code() {
    let mut broken = Vec::new();
    for file in crate::texts(".", &["rs"]) {
        for (line, text) in (1..).zip(file.text.lines()) {
            if crate::is_comment(text) && text.len() > COMMENT_COLUMNS_MAX {
                broken.push(format!("{}:{line}", file.path));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "more than {COMMENT_COLUMNS_MAX} columns");
}

/// The product, read once.
fn product() -> &'static [Product] {
    static FILES: LazyLock<Vec<Product>> = LazyLock::new(|| {
        let files = PRODUCT.iter().flat_map(|folder| crate::texts(folder, &["rs"]));
        let files = files.filter(|file| !file.is_test && !file.path.contains("/examples/"));
        read_product(files.map(|file| (file.path, file.text)).collect())
    });
    &FILES
}

/// The folder of a crate's sources.
fn crate_of(path: &str) -> &str {
    let end = path.find("src/").map_or(0, |at| at + "src".len());
    &path[..end]
}

/// A crate, or a folder of the program; files directly in `src` belong to the layer `src`.
fn layer_of(path: &str) -> &str {
    let mut ends = path.match_indices('/').map(|(at, _)| at);
    let first = ends.next().unwrap_or(path.len());
    let end = if path.starts_with("python/") { first } else { ends.next().unwrap_or(first) };
    &path[..end]
}

/// The modules of a file, from the root of its crate.
fn modules_of(path: &str) -> Vec<&str> {
    let path = path[crate_of(path).len()..].trim_start_matches('/').trim_end_matches(".rs");
    path.split('/').filter(|name| !["mod", "lib", "main"].contains(name)).collect()
}

/// Which module of the first level imports which others.
fn imports<'a>(files: impl Iterator<Item = &'a Product>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let files: Vec<_> = files.collect();
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        if let Some(module) = modules_of(&file.path).first() {
            found.entry(module).or_default().extend(named_at_the_root(file));
        }
    }
    let modules: BTreeSet<&str> = found.keys().copied().collect();
    for (module, imported) in &mut found {
        imported.retain(|other| other != module && modules.contains(other));
    }
    found
}

/// The names that a file takes from the root of its crate, by `crate::` or by enough `super::`.
fn named_at_the_root(file: &Product) -> Vec<&str> {
    let depth = modules_of(&file.path).len();
    let mut names = Vec::new();
    for at in 0..file.tokens.len() {
        let mut path = at;
        if file.has(path, &["crate", ":", ":"]) {
            path += 3;
        } else {
            while file.has(path, &["super", ":", ":"]) {
                path += 3;
            }
            if path != at + 3 * depth || depth == 0 {
                continue;
            }
        }
        if file.text(path) == "{" {
            let within = path + 1..file.after_closing(path);
            names.extend(within.filter(|at| file.has(at + 1, &[":", ":"])).map(|at| file.text(at)));
        } else {
            names.push(file.text(path));
        }
    }
    names
}

/// The sets of modules that reach one another.
fn circles(imports: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (*module, reached_from(module, imports))).collect();
    let circles: BTreeSet<Vec<String>> = reached
        .iter()
        .filter(|(module, reached)| reached.contains(*module))
        .map(|(module, from_here)| {
            let in_circle = from_here.iter().filter(|other| reached[*other].contains(module));
            in_circle.map(ToString::to_string).collect()
        })
        .collect();
    circles.into_iter().collect()
}

fn reached_from<'a>(
    module: &str,
    imports: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = imports[module].iter().copied().collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(&imports[next]);
        }
    }
    reached
}

/// The names of the types that other modules can see.
fn visible_types(file: &Product) -> Vec<&str> {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let visible = (0..file.tokens.len()).filter(|at| file.text(*at) == "pub").map(|at| {
        let after = if file.text(at + 1) == "(" { file.after_closing(at + 1) } else { at + 1 };
        if file.text(after) == "unsafe" { after + 1 } else { after }
    });
    let names = visible.filter(|at| kinds.contains(&file.text(*at))).map(|at| file.text(at + 1));
    // The name is an argument of a macro.
    names.filter(|name| *name != "$").collect()
}

/// The functions with a body, and the lines from `fn` to the end of the body.
fn functions(file: &Product) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for at in 0..file.tokens.len() {
        // `fn(` is the type of a pointer.
        if file.text(at) == "fn"
            && file.text(at + 1) != "("
            && let Some(end) = end_of_body(file, at + 1)
        {
            let lines = file.tokens[at..end].iter().flat_map(|it| it.first_line..=it.last_line);
            found.push((file.text(at + 1), lines.collect::<BTreeSet<_>>().len()));
        }
    }
    found
}

/// The index after the body of a function, whose name stands at an index.
fn end_of_body(file: &Product, mut at: usize) -> Option<usize> {
    loop {
        match file.text(at) {
            "{" => return Some(file.after_closing(at)),
            "(" | "[" => at = file.after_closing(at),
            ";" | "" => return None,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Vec<Product> {
        let owned = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        read_product(owned.collect())
    }

    #[test]
    fn a_circle_is_found_in_every_form_of_an_import() {
        let files = read(&[
            ("src/a/mod.rs", "use crate::{b::B, c};"),
            ("src/b.rs", "fn f() { super::d::g() }"),
            ("src/c/deep.rs", "use super::own; use super::super::b::B;"),
            ("src/d/mod.rs", "use super::a::A;"),
            ("src/e.rs", "use crate::a::A; // crate::e"),
        ]);
        assert_eq!(circles(&imports(files.iter())), [["a", "b", "d"]]);
        let open = read(&[("src/a.rs", "use crate::b::B;"), ("src/b.rs", "use crate::b::C;")]);
        assert_eq!(circles(&imports(open.iter())), Vec::<Vec<String>>::new());
    }

    #[test]
    fn visible_types_and_functions_are_found() {
        let files = read(&[(
            "src/a.rs",
            "pub struct A; struct B; pub(in crate::x) enum C {} impl T for A { type D = B; }\n\
             pub trait T {\n fn declared(f: fn()) -> [u8; 2];\n fn given(&self) {\n\n // why\n }\n}",
        )]);
        assert_eq!(visible_types(&files[0]), ["A", "C", "T"]);
        assert_eq!(functions(&files[0]), [("given", 2)]);
    }

    #[test]
    fn paths_are_split_into_crates_layers_and_modules() {
        assert_eq!(crate_of("crates/index/src/view/mod.rs"), "crates/index/src");
        assert_eq!(layer_of("crates/index/src/view/mod.rs"), "crates/index");
        assert_eq!(layer_of("src/http/mod.rs"), "src/http");
        assert_eq!(layer_of("src/lib.rs"), "src");
        assert_eq!(layer_of("python/src/lib.rs"), "python");
        assert_eq!(modules_of("crates/index/src/view/mod.rs"), ["view"]);
        assert_eq!(modules_of("src/lib.rs"), Vec::<&str>::new());
    }
}
