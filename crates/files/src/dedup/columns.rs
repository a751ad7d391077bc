//! What is kept of every document, a column each: a struct a document would take twice the memory.

use nearprint_fingerprint::Fingerprint;

/// A bit for each item.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub(super) fn push(&mut self, bit: bool) {
        self.words.resize(self.len / 64 + 1, 0);
        self.words[self.len / 64] |= u64::from(bit) << (self.len % 64);
        self.len += 1;
    }

    /// That of an item; `None` after the last one.
    pub(super) fn get(&self, at: usize) -> Option<bool> {
        (at < self.len).then(|| self.words[at / 64] >> (at % 64) & 1 == 1)
    }

    pub(super) fn clear(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
    }

    /// How many are set.
    pub(super) fn ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// A fingerprint for each document, or none. 8 bytes and a bit each.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    bits: Vec<u64>,
    /// Whether a document has one.
    present: Bits,
}

impl Fingerprints {
    pub(super) fn push(&mut self, fingerprint: Option<Fingerprint>) {
        self.bits.push(fingerprint.map_or(0, Fingerprint::bits));
        self.present.push(fingerprint.is_some());
    }

    /// That of a document.
    pub(super) fn get(&self, document: u32) -> Option<Fingerprint> {
        let at = document as usize;
        self.present.get(at)?.then(|| Fingerprint::new(self.bits[at]))
    }

    /// Takes it from a document.
    pub(super) fn take(&mut self, document: u32) {
        self.present.clear(document as usize);
    }

    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }

    /// The documents that have none.
    pub(super) fn absent(&self) -> usize {
        self.len() - self.present.ones()
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
