//! TextRank (Mihalcea, Tarau 2004): the rank of each word among the words near it.
//!
//! The same ranks as those of the crate `jieba-rs`, but in a defined order of summation: the crate
//! sums in the order of a hash map, which differs between platforms. `docs/recipes.md` defines
//! them. Linear in the tokens except for a sort; about 40 bytes a token and 30 a word at most.
//! Tested against a plain version with a matrix, a worked example, and the crate's own ranks.

use std::ops::Range;

use crate::recipes::numbered::NONE;

/// Words at most this many tokens apart are near each other.
const REACH: usize = 4;

/// How often all ranks are computed.
const SWEEPS: usize = 20;

/// How much of a rank comes from other words.
const DAMPING: f64 = 0.85;

/// The pairs that are sorted at a time.
const PAIRS_AT_A_TIME: usize = if cfg!(test) { 50 } else { 1 << 20 };

/// The tokens of a text: the number of each word that counts, and [`NONE`] for other tokens. More
/// than [`REACH`] of these in a row are as many as [`REACH`].
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    numbers: Vec<u32>,
    /// The tokens at the end that do not count.
    others: usize,
}

impl Tokens {
    pub(crate) fn push(&mut self, word: Option<u32>) {
        self.others = if word.is_some() { 0 } else { self.others + 1 };
        if self.others <= REACH {
            self.numbers.push(word.unwrap_or(NONE));
        }
    }
}

/// The rank of each of `words` words, by their numbers.
pub(crate) fn ranks(words: usize, tokens: Tokens) -> Vec<f64> {
    let graph = Graph::of(words, &tokens.numbers);
    drop(tokens);
    graph.ranks()
}

/// Which words are near each other, and how often.
struct Graph {
    /// The neighbours of a word are those from its start to the next one's.
    starts: Vec<usize>,
    /// The number of each neighbour, as the distance from the one before it, and how often it is
    /// near, as varints.
    neighbours: Vec<u8>,
}

impl Graph {
    /// Sorts the pairs of some words at a time, so that they are not all in memory, and only counts
    /// those of a word that has more.
    fn of(words: usize, tokens: &[u32]) -> Self {
        let mut graph = Self { starts: vec![0], neighbours: Vec::new() };
        let mut pairs_of = vec![0_u32; words];
        each_pair(tokens, |a, _| pairs_of[a as usize] += 1);
        let mut pairs: Vec<u64> = Vec::new();
        while graph.starts.len() <= words {
            let first = graph.starts.len() - 1;
            let (mut last, mut count) = (first, 0);
            while last < words && (count == 0 || count + pairs_of[last] as usize <= PAIRS_AT_A_TIME)
            {
                count += pairs_of[last] as usize;
                last += 1;
            }
            if count > PAIRS_AT_A_TIME {
                graph.add_frequent(first, words, tokens);
                continue;
            }
            each_pair(tokens, |a, b| {
                if (first..last).contains(&(a as usize)) {
                    pairs.push(u64::from(a) << 32 | u64::from(b));
                }
            });
            pairs.sort_unstable();
            graph.add(first..last, &pairs);
            pairs.clear();
        }
        graph
    }

    /// Adds the neighbours of the next word, which has many.
    fn add_frequent(&mut self, word: usize, words: usize, tokens: &[u32]) {
        let mut counts = vec![0_u32; words];
        each_pair(tokens, |a, b| counts[b as usize] += u32::from(a as usize == word));
        let mut before = 0;
        for (neighbour, count) in (0..).zip(counts).filter(|&(_, count)| count > 0) {
            put(&mut self.neighbours, neighbour - before);
            put(&mut self.neighbours, u64::from(count));
            before = neighbour;
        }
        self.starts.push(self.neighbours.len());
    }

    /// Adds the neighbours of the next words, from their pairs in order.
    fn add(&mut self, words: Range<usize>, pairs: &[u64]) {
        let mut same = pairs.chunk_by(|a, b| a == b).peekable();
        for word in words {
            let mut before = 0;
            while let Some(pair) = same.next_if(|pair| pair[0] >> 32 == word as u64) {
                let neighbour = pair[0] & u64::from(u32::MAX);
                put(&mut self.neighbours, neighbour - before);
                put(&mut self.neighbours, pair.len() as u64);
                before = neighbour;
            }
            self.starts.push(self.neighbours.len());
        }
    }

    /// The neighbours of a word in order, and how often they are near.
    fn near(&self, word: usize) -> impl Iterator<Item = (usize, u64)> {
        let mut rest = &self.neighbours[self.starts[word]..self.starts[word + 1]];
        let mut neighbour = 0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            neighbour += get(&mut rest);
            Some((neighbour as usize, get(&mut rest)))
        })
    }

    /// The rank of each word.
    #[expect(clippy::cast_precision_loss, reason = "a text has fewer than 2^53 words")]
    fn ranks(&self) -> Vec<f64> {
        let words = self.starts.len() - 1;
        let out = |word| self.near(word).map(|(_, count)| count).sum::<u64>() as f64;
        let outs: Vec<f64> = (0..words).map(out).collect();
        let mut ranks = vec![1.0 / words as f64; words];
        for _ in 0..SWEEPS {
            for word in 0..words {
                let mut sum = 0.0;
                for (neighbour, count) in self.near(word) {
                    sum += count as f64 / outs[neighbour] * ranks[neighbour];
                }
                ranks[word] = (1.0 - DAMPING) + DAMPING * sum;
            }
        }
        ranks
    }
}

/// Each pair of words that are near each other, in both orders.
fn each_pair(tokens: &[u32], mut take: impl FnMut(u32, u32)) {
    for (at, &a) in tokens.iter().enumerate().filter(|&(_, &token)| token != NONE) {
        for &b in tokens[at + 1..].iter().take(REACH).filter(|&&token| token != NONE) {
            take(a, b);
            take(b, a);
        }
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn get(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

    use proptest::prelude::*;

    use super::*;
    use crate::recipes::numbered::NumberedWords;

    fn ranked<'a>(tokens: impl Iterator<Item = Option<&'a str>>) -> Vec<(String, f64)> {
        let (mut words, mut numbers) = (NumberedWords::default(), Tokens::default());
        tokens.for_each(|token| numbers.push(token.map(|word| words.number(word))));
        let ranks = ranks(words.len(), numbers);
        let word = |(number, rank)| (words.word(number).to_owned(), rank);
        let mut ranked: Vec<(String, f64)> = (0..).zip(ranks).map(word).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked
    }

    /// The definition, with a matrix.
    fn plain(tokens: &[Option<&str>]) -> Vec<(String, f64)> {
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
        let mut ranked: Vec<_> = words.into_iter().map(str::to_owned).zip(ranks).collect();
        ranked.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        ranked
    }

    #[test]
    fn a_word_near_others_has_the_highest_rank() {
        let tokens = [Some("ab"), None, Some("cd"), None, Some("ab"), None, Some("ef")];
        let shown: Vec<String> = ranked(tokens.into_iter())
            .iter()
            .map(|(word, rank)| format!("{word} {rank:.6}"))
            .collect();
        assert_eq!(shown, ["ab 1.427504", "cd 0.911821", "ef 0.651025"]);
        // Alone, a word has what no neighbour gives it; of equal ones the first comes first.
        let alone = ranked([Some("b"), None, None, None, None, Some("a")].into_iter());
        assert_eq!(alone, [("a".to_owned(), 1.0 - 0.85), ("b".to_owned(), 1.0 - 0.85)]);
        assert!(ranked([None].into_iter()).is_empty());
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
