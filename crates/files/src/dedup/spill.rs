//! Sketches in a temporary file, because few of them are ever compared.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;

use nearprint_fingerprint::{Margins, Sketch};
use nearprint_index::groups::Evidence;

/// Flags, and the sketch and the ranks of the margins if there are any.
const BYTES: usize = 1 + Sketch::BYTES + RANKS;
const RANKS: usize = 64;
const IS_SHORT: u8 = 1;
const HAS_SKETCH: u8 = 2;
const HAS_MARGINS: u8 = 4;

/// Writes the evidence of one document after the other. There is no file until the first sketch.
#[derive(Debug, Default)]
pub(super) struct SpillWriter {
    file: Option<BufWriter<File>>,
    documents: u64,
}

/// Reads the evidence of any document. The file has no name, and ends with the process.
#[derive(Debug)]
pub(super) struct Spill(File);

impl SpillWriter {
    pub(super) fn add(
        &mut self,
        is_short: bool,
        sketch: Option<&Sketch>,
        margins: Option<&Margins>,
    ) -> io::Result<()> {
        let before = self.documents;
        self.documents += 1;
        if self.file.is_none() && sketch.is_some() {
            // What was skipped reads as zeros, and takes no space.
            let mut file = tempfile::tempfile()?;
            file.seek(SeekFrom::Start(before * BYTES as u64))?;
            self.file = Some(BufWriter::with_capacity(1 << 20, file));
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut bytes = [0; BYTES];
        bytes[0] = if is_short { IS_SHORT } else { 0 };
        if let Some(sketch) = sketch {
            bytes[0] |= HAS_SKETCH;
            bytes[1..=Sketch::BYTES].copy_from_slice(&sketch.to_bytes());
        }
        if let Some(margins) = margins {
            bytes[0] |= HAS_MARGINS;
            bytes[1 + Sketch::BYTES..].copy_from_slice(&margins.ranks());
        }
        file.write_all(&bytes)
    }

    /// `None` if no document has a sketch.
    pub(super) fn finish(self) -> io::Result<Option<Spill>> {
        let file = self.file.map(BufWriter::into_inner).transpose();
        file.map(|file| file.map(Spill)).map_err(io::IntoInnerError::into_error)
    }
}

impl Spill {
    /// The evidence of a document, counted from 0. Before the first sketch, no document is short.
    pub(super) fn get(&self, document: usize) -> io::Result<Evidence> {
        let mut bytes = [0; BYTES];
        self.0.read_exact_at(&mut bytes, (document * BYTES) as u64)?;
        let has = |flag| bytes[0] & flag != 0;
        let sketch = bytes[1..].first_chunk().filter(|_| has(HAS_SKETCH)).map(Sketch::from_bytes);
        let ranks = bytes.last_chunk().filter(|_| has(HAS_MARGINS));
        let margins = ranks.map(Margins::from_ranks);
        Ok(Evidence { is_short: has(IS_SHORT), sketch, margins })
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::BINS;

    use super::*;

    #[test]
    fn what_was_added_is_read_in_any_order() {
        assert!(SpillWriter::default().finish().unwrap().is_none());
        let sketch = |code| Sketch::from_codes(&[code; BINS]);
        let mut writer = SpillWriter::default();
        let margins = Margins::new(std::array::from_fn(|bit| 900 - 10 * (bit as u32 / 2)));
        writer.add(true, None, None).unwrap();
        writer.add(false, Some(&sketch(2)), Some(&margins)).unwrap();
        writer.add(true, Some(&sketch(3)), None).unwrap();
        let spill = writer.finish().unwrap().unwrap();
        let got = |document| spill.get(document).map(|e| (e.is_short, e.sketch)).unwrap();
        assert_eq!(got(2), (true, Some(sketch(3))));
        assert_eq!(got(0), (false, None));
        assert_eq!(got(1), (false, Some(sketch(2))));
        let ranks =
            [0, 1, 2].map(|document| spill.get(document).unwrap().margins.map(|m| m.ranks()));
        assert_eq!(ranks, [None, Some(margins.ranks()), None]);
        assert!(spill.get(3).is_err());
    }
}
