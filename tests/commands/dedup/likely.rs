//! Near-duplicates beyond the distance: found from either side, and judged by their sketches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::support::{done, folder, read, write};

const TEXTS: u64 = 60;

/// Forty words that another number makes others.
fn words(number: u64) -> Vec<String> {
    let mix = |at: u64| (number * 1_000 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..40).map(|at| format!("{:06x}", mix(at))).collect()
}

/// Texts, each with a copy in which one word is another.
fn pairs_of_texts() -> String {
    let line = |id: String, words: &[String]| {
        format!("{{\"id\":\"{id}\",\"text\":\"{}\"}}\n", words.join(" "))
    };
    let both = |number: u64| {
        let mut edited = words(number);
        "harbour".clone_into(&mut edited[number as usize % 40]);
        line(format!("{number}"), &words(number)) + &line(format!("{number}e"), &edited)
    };
    (0..TEXTS).map(both).collect()
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The groups that pairs connect, as sets of ids.
fn connected(pairs: &[Value]) -> BTreeSet<BTreeSet<String>> {
    let mut group_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pair in pairs {
        let ids = ["id_a", "id_b"].map(|id| pair[id].as_str().unwrap().to_owned());
        let mut group: BTreeSet<String> = ids.iter().cloned().collect();
        for id in &ids {
            group.extend(group_of.get(id).cloned().unwrap_or_default());
        }
        for id in group.clone() {
            group_of.insert(id, group.clone());
        }
    }
    group_of.into_values().collect()
}

#[test]
fn texts_with_a_changed_word_are_found_and_groups_are_those_of_the_pairs() {
    let folder = folder();
    write(folder.path(), "in.jsonl", pairs_of_texts());
    let mut found = Vec::new();
    for search in ["likely", "exact"] {
        let files = ["--groups", "groups.jsonl", "--pairs", "pairs.jsonl", "--search", search];
        done(folder.path(), &[&["in.jsonl"][..], &files].concat());
        let pairs = rows(&read(folder.path(), "pairs.jsonl"));
        for pair in &pairs {
            let (one, other) = (pair["id_a"].as_str().unwrap(), pair["id_b"].as_str().unwrap());
            assert_eq!(format!("{one}e"), other, "{pair}");
            let distance = pair["distance"].as_u64().unwrap();
            assert!(distance <= if search == "exact" { 3 } else { 10 }, "{pair}");
            assert!(pair["similarity"].as_f64().unwrap() >= 0.83, "{pair}");
        }
        let groups: BTreeSet<BTreeSet<String>> = rows(&read(folder.path(), "groups.jsonl"))
            .iter()
            .map(|group| serde_json::from_value(group["documents"].clone()).unwrap())
            .collect();
        assert_eq!(groups, connected(&pairs), "{search}");
        found.push(pairs.len());
    }
    // The permutation is the same in every run, so these numbers do not vary.
    assert!(found[0] as u64 > TEXTS * 9 / 10 && found[1] < found[0], "{found:?}");
    done(folder.path(), &["in.jsonl", "-o", "out.jsonl"]);
    let kept = read(folder.path(), "out.jsonl").lines().count();
    assert_eq!(kept, 2 * TEXTS as usize - found[0]);
}
