//! Circles in a graph of files, and in the graph of their folders.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Edges;

/// The files of one circle, or of several that share a file, with the edges between them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) edges: Edges,
}

impl Circle {
    /// One line for each member: what it uses of the others.
    pub(crate) fn describe(&self) -> String {
        let line = |(from, to): (&String, &BTreeSet<String>)| {
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            format!("  {from} -> {}\n", to.join(", "))
        };
        self.edges.iter().map(line).collect()
    }
}

/// The strongly connected groups of more than one member.
pub(crate) fn circles(edges: &Edges) -> Vec<Circle> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|from| (from, reachable(edges, from))).collect();
    let mut found: Vec<Circle> = Vec::new();
    for from in edges.keys() {
        if found.iter().any(|circle| circle.edges.contains_key(from)) {
            continue;
        }
        let is_together = |other: &&String| {
            reach[from].contains(*other) && reach.get(*other).is_some_and(|to| to.contains(from))
        };
        let members: BTreeSet<&String> = edges.keys().filter(is_together).collect();
        if members.len() > 1 {
            let inside = |to: &BTreeSet<String>| {
                to.iter().filter(|to| members.contains(to)).cloned().collect()
            };
            let edges = members.iter().map(|&from| (from.clone(), inside(&edges[from]))).collect();
            found.push(Circle { edges });
        }
    }
    found
}

fn reachable<'a>(edges: &'a Edges, from: &String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&String> = edges.get(from).into_iter().flatten().collect();
    while let Some(next) = waiting.pop() {
        if seen.insert(next) {
            waiting.extend(edges.get(next).into_iter().flatten());
        }
    }
    seen
}

/// The graph of the folders: an edge leads from the folder of a file to that of another one, as seen
/// from the innermost folder that holds both. A file next to folders is no folder.
pub(crate) fn folder_edges(files: &Edges) -> Edges {
    let mut folders = Edges::new();
    for (from, to) in files.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        let (from, to): (Vec<_>, Vec<_>) = (from.split('/').collect(), to.split('/').collect());
        let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
        let is_folder = |path: &[&str]| path.len() > shared + 1;
        if is_folder(&from) && is_folder(&to) {
            let (from, to) = (from[..=shared].join("/"), to[..=shared].join("/"));
            folders.entry(to.clone()).or_default();
            folders.entry(from).or_default().insert(to);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(lines: &[(&str, &[&str])]) -> Edges {
        let set = |to: &[&str]| to.iter().map(|to| (*to).to_owned()).collect();
        lines.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect()
    }

    #[test]
    fn a_graph_without_a_way_back_has_no_circle() {
        assert_eq!(circles(&edges(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), []);
    }

    #[test]
    fn each_group_is_found_with_the_edges_inside_it() {
        let found = circles(&edges(&[
            ("a", &["b", "d"]),
            ("b", &["c"]),
            ("c", &["a"]),
            ("d", &["e"]),
            ("e", &["d"]),
            ("f", &["a"]),
        ]));
        let first = edges(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"])]);
        let second = edges(&[("d", &["e"]), ("e", &["d"])]);
        assert_eq!(found, [Circle { edges: first }, Circle { edges: second }]);
        assert_eq!(found[1].describe(), "  d -> e\n  e -> d\n");
    }

    #[test]
    fn folders_are_compared_where_their_paths_part() {
        let files = edges(&[
            ("src/http/routes/query.rs", &["src/http/reply/wire.rs", "src/text/mod.rs"]),
            ("src/http/reply/wire.rs", &["src/http/router.rs", "src/lib.rs"]),
            ("src/text/walk/mod.rs", &["src/http/mod.rs", "src/text/source.rs"]),
        ]);
        let expected = edges(&[
            ("src/http", &["src/text"]),
            ("src/http/reply", &[]),
            ("src/http/routes", &["src/http/reply"]),
            ("src/text", &["src/http"]),
        ]);
        assert_eq!(folder_edges(&files), expected);
    }
}
