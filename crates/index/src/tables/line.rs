//! A line: the 64 bytes of a cache line with some entries of a table.
//!
//! ```text
//!   words 0 to slots-1      the low halves of the entries' keys, compared 16 lanes at a time
//!   then, packed            what is kept of their heads: the lowest `kept_bits` each
//!   the last 16 bits        bits 0-3 count, bits 4-5 span, bit 14 extra, bit 15 more
//! ```
//!
//! *Span*: the number of following lines that still have entries of this one. *Extra*: more of them
//! lie in lines after the table. *More*: one of the two. The higher bits of a head follow from
//! where its line lies (see [`crate::tables::table`]), so the larger a table, the fewer are kept.

pub use crate::kernel::scan::{Line, MORE};
use crate::plan::fold::Head;
use crate::plan::{Key, head, low};

/// The largest number of following lines that take the entries that do not fit into a line.
pub(crate) const SPAN_MAX: u32 = 2;

/// No line has more entries.
pub(crate) const SLOTS_MAX: usize = 15;

const HEADER_BITS: u32 = 16;
const COUNT: u32 = 0x0f;
const SPAN_SHIFT: u32 = 4;
const EXTRA: u32 = 1 << 14;

/// How the lines of a table are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLayout {
    /// Entries a line.
    pub slots: u32,
    /// Bits kept of each head: 1 to 32.
    pub kept_bits: u32,
}

impl LineLayout {
    /// The layout with this many slots (1 to 15), which keeps as many bits as fit.
    pub fn with_slots(slots: u32) -> Self {
        Self { slots, kept_bits: ((512 - HEADER_BITS) / slots - 32).clamp(1, 32) }
    }

    /// The head with these kept bits that is nearest to another head.
    #[inline]
    fn nearest(self, kept: u32, near: Head) -> Head {
        let unused = 32 - self.kept_bits;
        let difference = kept.wrapping_sub(near) << unused;
        near.wrapping_add((difference.cast_signed() >> unused).cast_unsigned())
    }

    #[inline]
    fn kept_at(self, slot: u32) -> (usize, u32) {
        let bit = 32 * self.slots + slot * self.kept_bits;
        ((bit / 32) as usize, bit % 32)
    }

    fn mask(self) -> u64 {
        (1 << self.kept_bits) - 1
    }
}

impl Line {
    /// The number of entries.
    pub(crate) fn count(&self) -> u32 {
        self.header() & COUNT
    }

    /// The number of following lines that have entries of this one.
    pub(crate) fn span(&self) -> u32 {
        self.header() >> SPAN_SHIFT & 3
    }

    /// Whether entries that belong here lie in extra lines.
    pub(crate) fn extra(&self) -> bool {
        self.header() & EXTRA != 0
    }

    /// Whether entries that belong here lie elsewhere.
    pub(crate) fn has_more(&self) -> bool {
        self.0[15] & MORE != 0
    }

    /// The low half of an entry's key.
    pub(crate) fn low(&self, slot: u32) -> u32 {
        self.0[slot as usize]
    }

    /// The head of an entry, given another one that is near it.
    #[inline]
    pub(crate) fn head(&self, layout: LineLayout, slot: u32, near: Head) -> Head {
        let (word, shift) = layout.kept_at(slot);
        let two = u64::from(self.0[word]) | u64::from(self.0[(word + 1).min(15)]) << 32;
        layout.nearest((two >> shift & layout.mask()) as u32, near)
    }

    /// The heads of its entries, given another one that is near them; the rest are of no entry.
    #[inline]
    pub(crate) fn heads(&self, layout: LineLayout, near: Head) -> [Head; SLOTS_MAX] {
        let mut heads = [0; SLOTS_MAX];
        let (mut word, mut bits, mut count) = (layout.slots as usize, 0_u64, 0);
        for head in &mut heads[..layout.slots as usize] {
            if count < layout.kept_bits {
                bits |= u64::from(self.0[word]) << count;
                (word, count) = (word + 1, count + 32);
            }
            *head = layout.nearest((bits & layout.mask()) as u32, near);
            (bits, count) = (bits >> layout.kept_bits, count - layout.kept_bits);
        }
        heads
    }

    /// Fills an empty line with the first `count` of these keys; the rest of `keys` is zero.
    #[inline]
    pub(crate) fn fill(&mut self, layout: LineLayout, keys: &[Key; SLOTS_MAX], count: u32) {
        debug_assert!(self.count() == 0 && count <= layout.slots, "the line has room");
        let (mut word, mut bits, mut ready) = (layout.slots as usize, 0_u64, 0);
        for (slot, &key) in keys[..layout.slots as usize].iter().enumerate() {
            self.0[slot] = low(key);
            bits |= (u64::from(head(key)) & layout.mask()) << ready;
            ready += layout.kept_bits;
            if ready >= 32 {
                self.0[word] = bits as u32;
                (word, bits, ready) = (word + 1, bits >> 32, ready - 32);
            }
        }
        // The upper half of the last word is the header.
        self.0[word] |= bits as u32;
        self.0[15] |= count << HEADER_BITS;
    }

    pub(crate) fn push(&mut self, layout: LineLayout, head: Head, low: u32) {
        let slot = self.count();
        debug_assert!(slot < layout.slots, "the line has room");
        let (word, shift) = layout.kept_at(slot);
        let two = (u64::from(head) & layout.mask()) << shift;
        self.0[word] |= two as u32;
        if word < 15 {
            self.0[word + 1] |= (two >> 32) as u32;
        }
        self.0[slot as usize] = low;
        self.0[15] += 1 << HEADER_BITS;
    }

    /// Sets the number of following lines that have entries of this one.
    pub(crate) fn set_span(&mut self, span: u32) {
        debug_assert!(span <= SPAN_MAX, "a span is bounded");
        self.0[15] |= span << (HEADER_BITS + SPAN_SHIFT) | if span > 0 { MORE } else { 0 };
    }

    /// Notes that entries that belong here lie in extra lines.
    pub(crate) fn set_extra(&mut self) {
        self.0[15] |= EXTRA << HEADER_BITS | MORE;
    }

    fn header(&self) -> u32 {
        self.0[15] >> HEADER_BITS
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable as _;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_gives_back_what_was_put_into_it(
            slots in 1..=15_u32,
            near: u32,
            entries in prop::collection::vec((any::<i32>(), any::<u32>()), 15),
            span in 0..=SPAN_MAX,
            extra: bool,
        ) {
            let layout = LineLayout::with_slots(slots);
            let kept_bits = layout.kept_bits;
            let mut line = Line::zeroed();
            let heads: Vec<(u32, u32)> = entries[..layout.slots as usize]
                .iter()
                .map(|&(offset, low)| {
                    (near.wrapping_add((offset >> (32 - kept_bits)).cast_unsigned()), low)
                })
                .collect();
            for &(head, low) in &heads {
                line.push(layout, head, low);
            }
            let mut filled = Line::zeroed();
            let mut keys = [0; SLOTS_MAX];
            for (key, &(head, low)) in keys.iter_mut().zip(&heads) {
                *key = u64::from(head) << 32 | u64::from(low);
            }
            filled.fill(layout, &keys, slots);
            prop_assert_eq!(filled, line, "at once and one after the other");
            line.set_span(span);
            if extra {
                line.set_extra();
            }
            prop_assert_eq!(line.count(), layout.slots);
            prop_assert_eq!((line.span(), line.extra()), (span, extra));
            prop_assert_eq!(line.0[15] & MORE != 0, span > 0 || extra);
            let all = line.heads(layout, near);
            prop_assert!(all[..heads.len()].iter().eq(heads.iter().map(|(head, _)| head)));
            for (slot, &(head, low)) in (0..).zip(&heads) {
                prop_assert_eq!((line.head(layout, slot, near), line.low(slot)), (head, low));
            }
        }
    }

    #[test]
    fn a_line_of_a_large_table_holds_eleven() {
        assert_eq!(LineLayout::with_slots(11), LineLayout { slots: 11, kept_bits: 13 });
        assert_eq!(LineLayout::with_slots(10), LineLayout { slots: 10, kept_bits: 17 });
        assert_eq!(LineLayout::with_slots(7), LineLayout { slots: 7, kept_bits: 32 });
    }
}
