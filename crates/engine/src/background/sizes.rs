//! The sizes of the records of stored documents. They bound the bytes that become garbage when a
//! number of these documents is removed, whichever they are.

/// The width of a class of sizes in bytes.
const CLASS_BYTES: u64 = 64;
/// The last class contains the longest possible records.
const CLASSES: usize = (RECORD_BYTES_MAX / CLASS_BYTES) as usize + 1;

/// The longest record of one change: frame, kind, time, flags, fingerprint, sketch, id of 2,048
/// bytes.
pub(crate) const RECORD_BYTES_MAX: u64 = 60 + 1 + 8 + 1 + 8 + 128 + 2_048;

/// The number of documents for each class of record sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes {
    documents: [u64; CLASSES],
}

impl Sizes {
    /// Without documents.
    pub(crate) fn new() -> Self {
        Self { documents: [0; CLASSES] }
    }

    /// Adds a record of a size that stores a number of documents.
    pub(crate) fn add(&mut self, bytes: u64, documents: u64) {
        let each = bytes.checked_div(documents).unwrap_or(0);
        self.documents[(each / CLASS_BYTES).min(CLASSES as u64 - 1) as usize] += documents;
    }

    /// The maximum bytes in the records of any `documents` of these documents.
    pub(crate) fn largest(&self, documents: u64) -> u64 {
        let mut left = documents;
        let classes = self.documents.iter().enumerate().rev();
        let bytes = classes.map(|(class, &documents)| {
            let taken = documents.min(left);
            left -= taken;
            taken * (class as u64 + 1) * CLASS_BYTES
        });
        bytes.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_documents_go_no_more_bytes_go_than_said() {
        let mut sizes = Sizes::new();
        let records = [(2_254, 1), (90, 3), (300, 1), (65_605, 8_192), (140, 1)];
        for (bytes, documents) in records {
            sizes.add(bytes, documents);
        }
        assert_eq!(sizes.largest(0), 0);
        assert!((2_254..2_400).contains(&sizes.largest(1)));
        assert!((2_254 + 300..2_254 + 300 + 128).contains(&sizes.largest(2)));
        let all: u64 = records.iter().map(|(bytes, _)| bytes).sum();
        assert!(sizes.largest(u64::MAX) >= all);
        assert_eq!(sizes.largest(8_198), sizes.largest(u64::MAX));
    }
}
