//! TextRank (Mihalcea, Tarau 2004): the rank of each word among the words near it.
//!
//! The same ranks as those of the crate `jieba-rs`, but in a defined order of summation: the crate
//! sums in the order of a hash map, which differs between platforms. `docs/recipes.md` defines
//! them. Linear in the tokens except for a sort; at most 64 bytes a token. Tested against a plain
//! version with a matrix, a worked example, and the crate's own ranks.

use std::collections::HashMap;

/// Words at most this many tokens apart are near each other.
const REACH: usize = 4;

/// How often all ranks are computed.
const SWEEPS: usize = 20;

/// How much of a rank comes from other words.
const DAMPING: f64 = 0.85;

/// The words with their ranks, highest first, then in the order of their characters. A token is
/// `None` if its word does not count.
pub(crate) fn ranked<'a>(tokens: impl Iterator<Item = Option<&'a str>>) -> Vec<(&'a str, f64)> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut words = Vec::new();
    let tokens: Vec<Option<u32>> = tokens
        .map(|word| {
            word.map(|word| {
                *numbers.entry(word).or_insert_with(|| {
                    words.push(word);
                    words.len() as u32 - 1
                })
            })
        })
        .collect();
    let ranks = Graph::of(words.len(), &tokens).ranks();
    let mut ranked: Vec<(&str, f64)> = words.into_iter().zip(ranks).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    ranked
}

/// Which words are near each other, and how often.
struct Graph {
    /// The neighbours of a word are those from its start to the next one's.
    starts: Vec<usize>,
    /// The number of each neighbour, in order, and how often it is near.
    neighbours: Vec<(u32, u32)>,
}

impl Graph {
    fn of(words: usize, tokens: &[Option<u32>]) -> Self {
        let mut pairs = Vec::new();
        for (at, &token) in tokens.iter().enumerate() {
            let near = tokens.iter().skip(at + 1).take(REACH).copied().flatten();
            for (a, b) in token.into_iter().flat_map(|a| near.clone().map(move |b| (a, b))) {
                pairs.extend([(a, b), (b, a)]);
            }
        }
        pairs.sort_unstable();
        let mut starts = vec![0; words + 1];
        let mut neighbours: Vec<(u32, u32)> = Vec::new();
        for same in pairs.chunk_by(|a, b| a == b) {
            let (word, neighbour) = same[0];
            neighbours.push((neighbour, same.len() as u32));
            starts[word as usize + 1] = neighbours.len();
        }
        // A word without neighbours starts where the one before it ends.
        for word in 0..words {
            starts[word + 1] = starts[word + 1].max(starts[word]);
        }
        Self { starts, neighbours }
    }

    /// The rank of each word.
    #[expect(clippy::cast_precision_loss, reason = "a text has fewer than 2^53 words")]
    fn ranks(&self) -> Vec<f64> {
        let words = self.starts.len() - 1;
        let near = |word: usize| &self.neighbours[self.starts[word]..self.starts[word + 1]];
        let out = |word| near(word).iter().map(|&(_, count)| u64::from(count)).sum::<u64>() as f64;
        let outs: Vec<f64> = (0..words).map(out).collect();
        let mut ranks = vec![1.0 / words as f64; words];
        for _ in 0..SWEEPS {
            for word in 0..words {
                let mut sum = 0.0;
                for &(neighbour, count) in near(word) {
                    let neighbour = neighbour as usize;
                    sum += f64::from(count) / outs[neighbour] * ranks[neighbour];
                }
                ranks[word] = (1.0 - DAMPING) + DAMPING * sum;
            }
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

    use proptest::prelude::*;

    use super::*;

    /// The definition, with a matrix.
    fn plain<'a>(tokens: &[Option<&'a str>]) -> Vec<(&'a str, f64)> {
        let mut words: Vec<&str> = Vec::new();
        for word in tokens.iter().flatten() {
            if !words.contains(word) {
                words.push(word);
            }
        }
        let n = words.len();
        let mut near = vec![vec![0.0; n]; n];
        for i in 0..tokens.len() {
            for j in i + 1..tokens.len().min(i + 5) {
                if let (Some(a), Some(b)) = (tokens[i], tokens[j]) {
                    let at = |word| words.iter().position(|&known| known == word).unwrap();
                    near[at(a)][at(b)] += 1.0;
                    near[at(b)][at(a)] += 1.0;
                }
            }
        }
        let mut ranks = vec![1.0 / n as f64; n];
        for _ in 0..20 {
            for u in 0..n {
                let mut sum = 0.0;
                for v in 0..n {
                    if near[u][v] > 0.0 {
                        sum += near[u][v] / near[v].iter().sum::<f64>() * ranks[v];
                    }
                }
                ranks[u] = (1.0 - 0.85) + 0.85 * sum;
            }
        }
        let mut ranked: Vec<_> = words.into_iter().zip(ranks).collect();
        ranked.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(b.0)));
        ranked
    }

    #[test]
    fn a_word_near_others_has_the_highest_rank() {
        let tokens = [Some("ab"), None, Some("cd"), None, Some("ab"), None, Some("ef")];
        let ranked = ranked(tokens.into_iter());
        let shown: Vec<String> =
            ranked.iter().map(|(word, rank)| format!("{word} {rank:.6}")).collect();
        assert_eq!(shown, ["ab 1.427504", "cd 0.911821", "ef 0.651025"]);
        // Alone, a word has what no neighbour gives it; of equal ones the first comes first.
        let alone = super::ranked([Some("b"), None, None, None, None, Some("a")].into_iter());
        assert_eq!(alone, [("a", 1.0 - 0.85), ("b", 1.0 - 0.85)]);
        assert!(super::ranked([None].into_iter()).is_empty());
    }

    proptest! {
        #[test]
        fn ranks_are_those_of_the_matrix_in_every_bit(
            tokens in prop::collection::vec(prop::option::of("[a-f]"), 0..60),
        ) {
            let tokens: Vec<Option<&str>> = tokens.iter().map(|token| token.as_deref()).collect();
            prop_assert_eq!(ranked(tokens.iter().copied()), plain(&tokens));
        }
    }
}
