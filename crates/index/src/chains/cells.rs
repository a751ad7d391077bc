//! Write-once cells that readers see while one writer fills them; a delta consists of them.
//!
//! The cells are allocated in pieces, each when its first cell is filled. So a new delta costs
//! little time and memory, and its pieces are small enough for the allocator to keep and reuse (a
//! second's inserts begin thirty deltas).

use std::sync::OnceLock;

use crate::kernel;

/// Cells of a piece; the last piece has the rest.
const PIECE: usize = 1 << 10;

/// A fixed number of cells.
#[derive(Debug)]
pub(crate) struct ChainCells<T> {
    pieces: Box<[OnceLock<Piece<T>>]>,
    count: usize,
}

type Piece<T> = Box<[OnceLock<T>]>;

impl<T> ChainCells<T> {
    pub(crate) fn empty(count: usize) -> Self {
        Self { pieces: (0..count.div_ceil(PIECE)).map(|_| OnceLock::new()).collect(), count }
    }

    /// The number of cells, filled or not.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The value of a cell that was filled.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.pieces.get(index as usize / PIECE)?.get()?[index as usize % PIECE].get()
    }

    /// Fills a cell. The one writer fills each cell once.
    ///
    /// # Panics
    /// When there is no such cell, or it is filled.
    pub(crate) fn fill(&self, index: u32, with: T) {
        let (number, place) = (index as usize / PIECE, index as usize % PIECE);
        let cells = PIECE.min(self.count.saturating_sub(number * PIECE));
        assert!(place < cells, "there is room");
        let empty = || (0..cells).map(|_| OnceLock::new()).collect();
        let filled = self.pieces[number].get_or_init(empty)[place].set(with);
        assert!(filled.is_ok(), "one writer fills each cell once");
    }

    /// Prefetches a cell, if its piece is allocated.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(piece) = self.pieces.get(index as usize / PIECE).and_then(OnceLock::get) {
            kernel::prefetch(piece, index % PIECE as u32);
        }
    }

    /// Memory of the allocated pieces, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let pieces = self.pieces.iter().filter_map(OnceLock::get);
        size_of_val(&*self.pieces) + pieces.map(|piece| size_of_val(&**piece)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_holds_what_it_was_filled_with_and_pieces_come_as_they_are_needed() {
        let cells = ChainCells::empty(2 * PIECE + 1);
        let numbers = [0, 1, PIECE as u32 - 1, PIECE as u32, 2 * PIECE as u32];
        assert_eq!((cells.count(), cells.get(0), cells.get(u32::MAX)), (2 * PIECE + 1, None, None));
        let empty = cells.bytes();
        for number in numbers {
            cells.prefetch(number);
            assert_eq!(cells.get(number), None);
            cells.fill(number, u64::from(number) + 7);
            assert_eq!(cells.get(number), Some(&(u64::from(number) + 7)));
            let made = ((number as usize / PIECE + 1) * PIECE).min(cells.count());
            assert_eq!(cells.bytes(), empty + made * size_of::<OnceLock<u64>>());
        }
        assert_eq!(cells.get(2), None);
    }

    #[test]
    #[should_panic(expected = "one writer fills each cell once")]
    fn a_cell_is_filled_once() {
        let cells = ChainCells::empty(1);
        cells.fill(0, 'a');
        cells.fill(0, 'b');
    }

    #[test]
    #[should_panic(expected = "there is room")]
    fn there_are_no_more_cells_than_asked_for() {
        ChainCells::empty(3).fill(3, 'a');
    }
}
