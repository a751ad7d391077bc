//! What is kept of every document, a column each: a struct a document would take twice the memory.

use crate::fingerprint::Fingerprint;

/// A fingerprint for each document, or none. 8 bytes and a bit each.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    bits: Vec<u64>,
    /// A bit for each document, whether it has one.
    present: Vec<u64>,
}

impl Fingerprints {
    pub(super) fn push(&mut self, fingerprint: Option<Fingerprint>) {
        let at = self.bits.len();
        self.bits.push(fingerprint.map_or(0, Fingerprint::bits));
        self.present.resize(at / 64 + 1, 0);
        self.present[at / 64] |= u64::from(fingerprint.is_some()) << (at % 64);
    }

    /// That of a document.
    pub(super) fn get(&self, document: u32) -> Option<Fingerprint> {
        let at = document as usize;
        let is_present = self.present[at / 64] >> (at % 64) & 1 == 1;
        is_present.then(|| Fingerprint::new(self.bits[at]))
    }

    /// Takes it from a document.
    pub(super) fn take(&mut self, document: u32) {
        let at = document as usize;
        self.present[at / 64] &= !(1 << (at % 64));
    }

    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }

    /// The documents that have none.
    pub(super) fn absent(&self) -> usize {
        let present: u32 = self.present.iter().map(|word| word.count_ones()).sum();
        self.len() - present as usize
    }
}

/// A text for each document, in one buffer. 8 bytes and the text each.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: String,
    ends: Vec<usize>,
}

impl Texts {
    pub(super) fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
    }

    /// That of a document; `None` if no texts were kept.
    pub(super) fn get(&self, document: u32) -> Option<&str> {
        let at = document as usize;
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.bytes.len() + self.ends.len() * size_of::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_give_back_what_was_added() {
        let (mut fingerprints, mut texts) = (Fingerprints::default(), Texts::default());
        let has = |number: u32| !number.is_multiple_of(3);
        for number in 0..200 {
            fingerprints.push(has(number).then(|| Fingerprint::new(number.into())));
            texts.push(&"x".repeat(number as usize % 5));
        }
        fingerprints.take(100);
        for number in 0..200 {
            let expected = has(number).then(|| Fingerprint::new(number.into()));
            assert_eq!(fingerprints.get(number), expected.filter(|_| number != 100));
            assert_eq!(texts.get(number).unwrap().len(), number as usize % 5);
        }
        assert_eq!((fingerprints.len(), fingerprints.absent()), (200, 68));
        assert_eq!(texts.get(200), None);
    }
}
