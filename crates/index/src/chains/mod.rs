//! The hash chains of a delta: for each table and key, the nodes whose fingerprints have that key.
//! Readers follow them while the one writer appends.
//!
//! The fingerprints of real texts are crowded: a key may have a hundred times as many nodes as with
//! random ones. So a chain consists of chunks that double in size, the newest first. A chunk stores
//! the 32 bits after the key of all of its fingerprints next to each other, so that the kernel
//! compares many at a time, and only nodes whose bits are near are read. A chain of one node has no
//! chunk: its head leads to the node. With random fingerprints, most chains are such.

pub(crate) mod cells;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::kernel;
use crate::kernel::Simd;
use crate::kernel::scan;
use crate::kernel::scan::WORDS_MAX;
use crate::permutation::Permuted;
use crate::plan::{Plan, TablePlan};

/// The numbers of nodes of the first chunk of a chain, and of the largest ones.
const CHUNK_MIN: u32 = 1 << 2;
const CHUNK_MAX: u32 = 1 << 10;

/// The number of words of a chunk before those of its nodes: the link to the next older chunk, and
/// one word with the capacity of the chunk and the number of its nodes.
const HEADER_WORDS: u32 = 2;

/// The number of words of a piece. Pieces are allocated whole and cut into chunks.
const PIECE: u32 = 1 << 13;

/// The largest number of words that the chunks of a table take for a node: 28 words for a chain of
/// five nodes, plus the unused end of a piece where the next chunk does not fit, at most a quarter.
const WORDS_OF_NODE: usize = 8;

/// Chains of nodes, for each table of a plan.
#[derive(Debug)]
pub(crate) struct Chains {
    tables: Vec<TablePlan>,
    /// For each table and key, the link to the newest chunk or node.
    heads: Vec<Box<[AtomicU32]>>,
    /// Each is allocated when its first chunk is made.
    pieces: Box<[OnceLock<Box<[AtomicU32]>>]>,
    piece_words: u32,
    /// Where the next chunk begins. Only the writer uses it.
    end: AtomicU32,
}

/// A part of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    End,
    /// A single node, without a chunk.
    Node(u32),
    /// The chunk that begins at a word.
    Chunk(u32),
}

impl Link {
    const CHUNK: u32 = 1 << 31;

    #[inline]
    fn unpack(packed: u32) -> Self {
        match packed {
            u32::MAX => Self::End,
            node if node & Self::CHUNK == 0 => Self::Node(node),
            chunk => Self::Chunk(chunk & !Self::CHUNK),
        }
    }

    fn pack(self) -> u32 {
        match self {
            Self::End => u32::MAX,
            Self::Node(node) => node,
            Self::Chunk(at) => at | Self::CHUNK,
        }
    }
}

/// The words of a chunk and of those after it in its piece.
#[derive(Clone, Copy)]
struct Chunk<'a>(&'a [AtomicU32]);

impl<'a> Chunk<'a> {
    #[inline]
    fn older(self) -> Link {
        Link::unpack(self.0[0].load(Ordering::Relaxed))
    }

    #[inline]
    fn capacity(self) -> u32 {
        self.0[1].load(Ordering::Relaxed) >> 16
    }

    /// The number of its nodes; all of them have been written.
    #[inline]
    fn count(self) -> u32 {
        self.0[1].load(Ordering::Acquire) & 0xffff
    }

    fn begin(self, capacity: u32, older: Link) {
        self.0[0].store(older.pack(), Ordering::Relaxed);
        self.0[1].store(capacity << 16, Ordering::Relaxed);
    }

    /// Appends a node; there is room for it.
    fn push(self, bits: u32, node: u32) {
        let (capacity, count) = (self.capacity(), self.count());
        self.bits()[count as usize].store(bits, Ordering::Relaxed);
        self.nodes()[count as usize].store(node, Ordering::Relaxed);
        self.0[1].store(capacity << 16 | (count + 1), Ordering::Release);
    }

    #[inline]
    fn bits(self) -> &'a [AtomicU32] {
        &self.0[HEADER_WORDS as usize..][..self.capacity() as usize]
    }

    #[inline]
    fn nodes(self) -> &'a [AtomicU32] {
        let capacity = self.capacity() as usize;
        &self.0[HEADER_WORDS as usize + capacity..][..capacity]
    }

    fn words(capacity: u32) -> u32 {
        HEADER_WORDS + 2 * capacity
    }

    /// The first node that `is_it` accepts, among those whose bits differ in at most `within`.
    #[inline]
    fn find(self, bits: u32, within: u32, is_it: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let there = &self.bits()[..self.count() as usize];
        let nodes = self.nodes();
        // The writer may be writing these words, so the kernel gets copies.
        let (simd, mut copies) = (Simd::best(), [0; WORDS_MAX]);
        for (words, nodes) in there.chunks(WORDS_MAX).zip(nodes.chunks(WORDS_MAX)) {
            for (copy, word) in copies.iter_mut().zip(words) {
                *copy = word.load(Ordering::Relaxed);
            }
            let mut near = scan::scan_words(simd, &copies[..words.len()], bits, within);
            while near != 0 {
                let node = nodes[near.trailing_zeros() as usize].load(Ordering::Relaxed);
                if is_it(node) {
                    return Some(node);
                }
                near &= near - 1;
            }
        }
        None
    }
}

impl Chains {
    /// Empty chains for at most `capacity` nodes.
    pub(crate) fn new(plan: &Plan, capacity: usize) -> Self {
        let empty =
            |bits: u32| (0..1_usize << bits).map(|_| AtomicU32::new(u32::MAX)).collect::<Box<_>>();
        let tables = plan.tables().to_vec();
        let words = capacity * tables.len() * WORDS_OF_NODE;
        let pieces = words.div_ceil(PIECE as usize);
        assert!(pieces * (PIECE as usize) < Link::CHUNK as usize, "a link leads to every word");
        Self {
            heads: tables.iter().map(|table| empty(table.key_bits)).collect(),
            tables,
            pieces: (0..pieces).map(|_| OnceLock::new()).collect(),
            piece_words: PIECE.min(words as u32),
            end: AtomicU32::new(0),
        }
    }

    /// The key of a fingerprint in a table.
    #[inline]
    pub(crate) fn key(&self, table: usize, value: Permuted) -> usize {
        let plan = self.tables[table];
        (value.rotate_left(plan.first_bit) >> (64 - plan.key_bits)) as usize
    }

    /// The 32 bits after the key, which a chunk has of each fingerprint.
    #[inline]
    fn bits(&self, table: usize, value: Permuted) -> u32 {
        let plan = self.tables[table];
        (value.rotate_left(plan.first_bit + plan.key_bits) >> 32) as u32
    }

    /// Prefetches the head of a chain.
    #[inline]
    pub(crate) fn prefetch(&self, table: usize, key: usize) {
        kernel::prefetch(&self.heads[table], key as u32);
    }

    /// Prefetches the newest chunk of a chain, or calls `prefetch_node` with its only node.
    #[inline]
    pub(crate) fn locate(&self, table: usize, key: usize, prefetch_node: impl FnOnce(u32)) {
        match Link::unpack(self.heads[table][key].load(Ordering::Relaxed)) {
            Link::End => {}
            Link::Node(node) => prefetch_node(node),
            Link::Chunk(at) => {
                if let Some(piece) = self.pieces[(at / PIECE) as usize].get() {
                    kernel::prefetch(piece, at % PIECE);
                }
            }
        }
    }

    /// The first node that `is_it` accepts, among those of a chain whose fingerprints are within a
    /// distance of `value` in the 32 bits after the key. The only node of a chain is passed to
    /// `is_it` at any distance. The newest chunks come first. Cost: about a nanosecond for each
    /// node of the chain.
    #[inline]
    pub(crate) fn find(
        &self,
        (table, key): (usize, usize),
        value: Permuted,
        within: u32,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let bits = self.bits(table, value);
        let mut link = Link::unpack(self.heads[table][key].load(Ordering::Acquire));
        loop {
            match link {
                Link::End => return None,
                Link::Node(node) => return is_it(node).then_some(node),
                Link::Chunk(at) => {
                    let chunk = self.chunk(at);
                    if let Some(node) = chunk.find(bits, within, &mut is_it) {
                        return Some(node);
                    }
                    link = chunk.older();
                }
            }
        }
    }

    /// Appends a node to the chain of its fingerprint in each table. Only the one writer may.
    /// `value_of` is asked for the fingerprint of a node that was appended before.
    ///
    /// # Panics
    /// When there are more nodes than the chains have room for.
    pub(crate) fn push(&self, value: Permuted, node: u32, value_of: impl Fn(u32) -> Permuted) {
        for (table, heads) in self.heads.iter().enumerate() {
            let head = &heads[self.key(table, value)];
            let at = match Link::unpack(head.load(Ordering::Relaxed)) {
                Link::End => {
                    head.store(Link::Node(node).pack(), Ordering::Release);
                    continue;
                }
                Link::Node(first) => {
                    let at = self.new_chunk(CHUNK_MIN, Link::End);
                    self.chunk(at).push(self.bits(table, value_of(first)), first);
                    at
                }
                newest @ Link::Chunk(at) => match self.chunk(at) {
                    full if full.count() == full.capacity() => {
                        self.new_chunk((2 * full.capacity()).min(CHUNK_MAX), newest)
                    }
                    _ => at,
                },
            };
            self.chunk(at).push(self.bits(table, value), node);
            head.store(Link::Chunk(at).pack(), Ordering::Release);
        }
    }

    /// Makes a chunk without nodes, to which no link leads yet.
    fn new_chunk(&self, capacity: u32, older: Link) -> u32 {
        let mut at = self.end.load(Ordering::Relaxed);
        if at % PIECE + Chunk::words(capacity) > self.piece_words {
            at = at.next_multiple_of(PIECE);
        }
        let empty = || (0..self.piece_words).map(|_| AtomicU32::new(0)).collect();
        self.pieces[(at / PIECE) as usize].get_or_init(empty);
        self.end.store(at + Chunk::words(capacity), Ordering::Relaxed);
        self.chunk(at).begin(capacity, older);
        at
    }

    #[inline]
    fn chunk(&self, at: u32) -> Chunk<'_> {
        let piece = self.pieces[(at / PIECE) as usize].get().expect("a link leads to a chunk");
        Chunk(&piece[(at % PIECE) as usize..])
    }

    pub(crate) fn bytes_of_memory(&self) -> usize {
        let heads = self.heads.iter().map(|heads| size_of_val(&**heads)).sum::<usize>();
        let pieces = self.pieces.iter().filter_map(OnceLock::get);
        heads
            + size_of_val(&*self.pieces)
            + pieces.map(|piece| size_of_val(&**piece)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use nearprint_fingerprint::Distance;
    use proptest::prelude::*;

    use super::*;

    fn chains(distance_max: u8, key_bits: u32, capacity: usize) -> Chains {
        let plan = Plan::blocks(key_bits, Distance::new(distance_max).unwrap());
        Chains::new(&plan, capacity)
    }

    /// All nodes that a look-up meets in a chain, ascending.
    fn met(chains: &Chains, (table, key): (usize, usize), value: u64, within: u32) -> Vec<u32> {
        let mut all = Vec::new();
        let found = chains.find((table, key), value, within, |node| {
            all.push(node);
            false
        });
        assert_eq!(found, None);
        all.sort_unstable();
        all
    }

    proptest! {
        /// Fingerprints that crowd in one chain, some chains with a few, many with one.
        #[test]
        fn a_chain_has_the_nodes_of_its_key_that_are_near(
            crowded in prop::collection::vec((0..3_u64, 0..64_u32, 0..64_u32), 0..3_000),
            scattered in prop::collection::vec(any::<u64>(), 0..200),
            distance_max in 0..=12_u8,
            key_bits in 4..=16_u32,
            within in 0..=10_u32,
        ) {
            let crowded = crowded.iter().map(|&(base, one, other)| {
                base.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1 << one ^ 1 << other
            });
            let mut values: Vec<u64> = crowded.chain(scattered).collect();
            values.sort_unstable();
            values.dedup();
            let chains = chains(distance_max, key_bits, values.len());
            for (node, &value) in values.iter().enumerate() {
                chains.push(value, node as u32, |node| values[node as usize]);
            }
            let queries = values.iter().copied().step_by(97).chain([0, 1, u64::MAX]);
            for (query, table) in queries.flat_map(|query| (0..chains.tables.len()).map(move |t| (query, t))) {
                let key = chains.key(table, query);
                let all = met(&chains, (table, key), query, within);
                let of_key: Vec<u32> = (0..values.len() as u32)
                    .filter(|&node| chains.key(table, values[node as usize]) == key)
                    .collect();
                prop_assert_eq!(&met(&chains, (table, key), query, 32), &of_key);
                // A single node is met wherever it is.
                let is_near = |node: &u32| {
                    let other = chains.bits(table, values[*node as usize]);
                    (other ^ chains.bits(table, query)).count_ones() <= within
                };
                prop_assert!(all.iter().all(|node| of_key.contains(node)));
                prop_assert!(of_key.iter().filter(|node| is_near(node)).all(|node| all.contains(node)));
                prop_assert!(all.iter().filter(|node| !is_near(node)).count() <= 1);
                let last = of_key.last().copied();
                prop_assert_eq!(
                    chains.find((table, key), query, 32, |node| Some(node) == last),
                    last
                );
            }
        }
    }

    #[test]
    fn there_is_room_for_chains_of_every_length() {
        for length in (1..=20).chain([255, 2_048, 3_000]) {
            for capacity in (1..40).chain([4_096, 32_768]) {
                let chains = chains(3, 12, capacity);
                let value = |node| u64::from(node) / length % 4_096 * 0x0010_0100_1001_0000;
                (0..capacity as u32).for_each(|node| chains.push(value(node), node, value));
            }
        }
    }

    #[test]
    fn a_chain_of_one_node_takes_no_memory_but_its_head() {
        let chains = chains(3, 16, 100);
        let empty = chains.bytes_of_memory();
        chains.push(1, 0, |_| unreachable!("it is the first"));
        assert_eq!(chains.bytes_of_memory(), empty);
        chains.push(3, 1, |_| 1);
        let of_piece = 100 * 4 * WORDS_OF_NODE * size_of::<u32>();
        assert_eq!(chains.bytes_of_memory(), empty + of_piece);
    }

    /// What was appended before a reader began is there, whatever the writer does meanwhile.
    #[test]
    fn a_reader_meets_all_that_was_appended_before() {
        let (chains, appended) = (chains(3, 16, 20_000), AtomicUsize::new(0));
        let value = |node| u64::from(node % 3) << 20;
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for node in 0..20_000_u32 {
                    chains.push(value(node), node, value);
                    appended.store(node as usize + 1, Ordering::Release);
                }
            });
            let mut before = 0;
            while before < 20_000 {
                before = appended.load(Ordering::Acquire);
                let all = met(&chains, (0, 0), 0, 32);
                assert!(all.len() >= before, "{before}");
                assert!(all.iter().enumerate().all(|(i, &node)| i as u32 == node));
            }
        });
    }
}
