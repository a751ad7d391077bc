//! The links of the documents lead somewhere: to a file, and to a heading in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::{root, texts};

/// The first screens of the project are read by people with two minutes.
const README_LINES_MAX: usize = 120;

/// Pages of `docs/` are written out of templates in this folder, so its links are seen from there.
const TEMPLATES: &str = "bench/quality";

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let pages = texts(".", &["md"]);
    let headings: BTreeMap<PathBuf, BTreeSet<String>> =
        pages.iter().map(|page| (root().join(&page.path), anchors(&page.text))).collect();
    for page in &pages {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = root().join(if folder == TEMPLATES { "docs" } else { folder });
        for link in links(&page.text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let file = if path.is_empty() { root().join(&page.path) } else { folder.join(path) };
            let file = file.canonicalize().unwrap_or_default();
            let has_anchor = headings.get(&file).is_none_or(|all| all.contains(anchor));
            if !file.exists() || !(anchor.is_empty() || has_anchor) {
                broken.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "no such file or heading");
}

#[test]
fn every_page_is_in_the_contents() {
    let contents = std::fs::read_to_string(root().join("docs/README.md")).expect("it is there");
    let named: BTreeSet<String> = links(&contents).into_iter().collect();
    let pages = texts("docs", &["md"]).into_iter().map(|page| page.path.replace("docs/", ""));
    let missing: Vec<_> = pages
        .filter(|page| page != "README.md" && !page.starts_with("decisions/0"))
        .filter(|page| !named.contains(page))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "name it in docs/README.md");
}

#[test]
fn the_readme_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    assert!(text.lines().count() <= README_LINES_MAX, "more than {README_LINES_MAX} lines");
}

/// The targets of all links and pictures in the prose of a page that are not addresses.
fn links(page: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        // What is in backticks shows a link, and is none.
        line.split('`').step_by(2).filter(|_| !is_code).for_each(|part| prose.push_str(part));
        prose.push(' ');
    }
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains(':')).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        let Some((_, heading)) = line
            .split_once("# ")
            .filter(|(marks, _)| !is_code && marks.bytes().all(|mark| mark == b'#'))
        else {
            continue;
        };
        let plain = heading.to_lowercase().replace(' ', "-");
        let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
        let anchor: String = kept.collect();
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let mut names = std::iter::once(anchor.clone()).chain(again);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

#[test]
fn links_and_anchors_are_read_as_on_github() {
    let page = "# A `b`, c\n[x](y.md#z) `[a](b)` ![p](q.svg)\n```\n# no\n[n](m)\n```\n## A b c\n\
                [w](https://a.example) [two\nlines](l.md)\n";
    assert_eq!(links(page), ["y.md#z", "q.svg", "l.md"]);
    assert_eq!(anchors(page), ["a-b-c", "a-b-c-1"].map(str::to_owned).into());
    assert!(anchors("### 11. A limit\n").contains("11-a-limit"));
}
