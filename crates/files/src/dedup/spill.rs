//! Sketches in a temporary file, because few of them are ever compared.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;

use nearprint_fingerprint::Sketch;
use nearprint_index::groups::Evidence;

/// Flags, and the sketch if there is one.
const BYTES: usize = 1 + Sketch::BYTES;
const IS_SHORT: u8 = 1;
const HAS_SKETCH: u8 = 2;
/// Documents that are read at a time in their order.
const DOCUMENTS_AHEAD: usize = 1 << 12;

/// Writes the evidence of one document after the other. There is no file until the first sketch.
#[derive(Debug, Default)]
pub(super) struct SpillWriter {
    file: Option<BufWriter<File>>,
    documents: u64,
}

/// Reads the evidence of any document. The file has no name, and ends with the process.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    /// How often a document was asked for.
    #[cfg(test)]
    pub(super) asked: std::sync::atomic::AtomicU64,
}

impl SpillWriter {
    pub(super) fn add(&mut self, is_short: bool, sketch: Option<&Sketch>) -> io::Result<()> {
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
        file.write_all(&bytes)
    }

    /// `None` if no document has a sketch.
    pub(super) fn finish(self) -> io::Result<Option<Spill>> {
        let file = self.file.map(BufWriter::into_inner).transpose();
        let file = file.map_err(io::IntoInnerError::into_error)?;
        Ok(file.map(|file| Spill {
            file,
            #[cfg(test)]
            asked: std::sync::atomic::AtomicU64::default(),
        }))
    }
}

impl Spill {
    /// The evidence of a document, counted from 0. Before the first sketch, no document is short.
    pub(super) fn get(&self, document: usize) -> io::Result<Evidence> {
        #[cfg(test)]
        self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut bytes = [0; BYTES];
        self.file.read_exact_at(&mut bytes, (document * BYTES) as u64)?;
        Ok(evidence(&bytes))
    }

    /// The sketches of documents that are asked for in their order.
    pub(super) fn sketches(&self) -> SketchReader<'_> {
        SketchReader { spill: self, ahead: Vec::new(), first: 0 }
    }
}

/// Reads the sketches of ascending documents, many at a time.
#[derive(Debug)]
pub(super) struct SketchReader<'a> {
    spill: &'a Spill,
    /// The bytes of the documents from `first` on that were read.
    ahead: Vec<u8>,
    first: usize,
}

impl SketchReader<'_> {
    /// The sketch of a document, if it has one.
    pub(super) fn get(&mut self, document: u32) -> io::Result<Option<Sketch>> {
        let document = document as usize;
        let end = self.first + self.ahead.len() / BYTES;
        if !(self.first..end).contains(&document) {
            self.read_from(document)?;
        }
        let bytes = self.ahead.get((document - self.first) * BYTES..);
        let bytes = bytes.and_then(<[u8]>::first_chunk);
        let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(evidence(bytes).sketch)
    }

    fn read_from(&mut self, document: usize) -> io::Result<()> {
        self.first = document;
        self.ahead.resize(DOCUMENTS_AHEAD * BYTES, 0);
        let mut read = 0;
        while read < self.ahead.len() {
            let at = (document * BYTES + read) as u64;
            match self.spill.file.read_at(&mut self.ahead[read..], at) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.ahead.truncate(read);
        Ok(())
    }
}

fn evidence(bytes: &[u8; BYTES]) -> Evidence {
    let has = |flag| bytes[0] & flag != 0;
    let sketch = bytes[1..].first_chunk().filter(|_| has(HAS_SKETCH)).map(Sketch::from_bytes);
    Evidence { is_short: has(IS_SHORT), sketch }
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
        writer.add(true, None).unwrap();
        writer.add(false, Some(&sketch(2))).unwrap();
        writer.add(true, Some(&sketch(3))).unwrap();
        let spill = writer.finish().unwrap().unwrap();
        let got = |document| spill.get(document).map(|e| (e.is_short, e.sketch)).unwrap();
        assert_eq!(got(2), (true, Some(sketch(3))));
        assert_eq!(got(0), (false, None));
        assert_eq!(got(1), (false, Some(sketch(2))));
        let (mut all, mut last) = (spill.sketches(), spill.sketches());
        let all = [0, 1, 2].map(|document| all.get(document).unwrap());
        assert_eq!(all, [None, Some(sketch(2)), Some(sketch(3))]);
        assert_eq!(last.get(2).unwrap(), Some(sketch(3)));
        assert!(last.get(3).is_err());
        assert!(spill.get(3).is_err());
    }
}
