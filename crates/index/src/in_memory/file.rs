//! An index in a file: its parts as they lie in memory, so that loading sorts nothing.

use std::io::{self, Read, Write};
use std::sync::Arc;

use nearprint_fingerprint::Distance;

use super::chunks::{ChunkReader, ChunkWriter};
use super::{DELTA_EVENTS, InMemoryIndex, Secrets};
use crate::document::Sequence;
use crate::image;
use crate::permutation::Permutation;
use crate::plan::Plans;
use crate::tables::secondary::SecondaryTable;
use crate::view::{Counts, Parts, Shape, View};

/// What a file begins with; the last character is the version of the format.
const MAGIC: [u8; 8] = *b"NPINDEX3";

const VERSION_AT: usize = MAGIC.len() - 1;

const OTHER_VERSION: &str = "another version of nearprint made this index; next: use that version, or build the index again";

/// The count of the numbers that come before the parts.
const NUMBERS: usize = 11;

impl InMemoryIndex {
    /// Writes the index, so that [`Self::load`] restores it. Costs about as much as writing its
    /// memory to the sink; the index is not changed.
    ///
    /// To replace a file, write a temporary one in the same folder, sync it, and rename it.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn save(&self, sink: impl Write) -> io::Result<()> {
        self.save_with(sink, |_| Ok(()))
    }

    /// The same, followed by what the caller keeps of the documents.
    ///
    /// # Errors
    /// Those of the sink and of `more`.
    pub fn save_with(
        &self,
        sink: impl Write,
        more: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut view = self.view.clone();
        view.rotate();
        while let Some(work) = view.next_flush() {
            view.complete(work);
        }
        let (shape, parts) = (view.shape().clone(), view.parts_of(&view));
        let Counts { sequence, documents } = parts.counts;
        let [high, low] = [self.secrets.of_ids >> 64, self.secrets.of_ids].map(|half| half as u64);
        let numbers: [u64; NUMBERS] = [
            u64::from(shape.distance_max.get()),
            shape.small_max,
            self.secrets.of_permutation,
            high,
            low,
            sequence.get(),
            documents,
            // Once the number of distinct fingerprints, which is at most this.
            documents,
            parts.dropped,
            parts.segments.len() as u64,
            parts.secondary_tables.len() as u64,
        ];
        let mut sink = ChunkWriter::new(sink);
        sink.write_all(&MAGIC)?;
        for number in numbers {
            sink.write_all(&number.to_le_bytes())?;
        }
        for segment in &parts.segments {
            image::write_segment(segment, &mut sink)?;
        }
        for other in &parts.secondary_tables {
            sink.write_all(&other.cleaned_at.to_le_bytes())?;
            image::write_table(&other.table, &mut sink)?;
        }
        more(&mut sink)?;
        sink.finish()
    }

    /// Reads an index that [`Self::save`] has written. Takes about as long as reading the file.
    ///
    /// # Errors
    /// Those of the source; `InvalidData` if the bytes are not such an index or were changed, and
    /// `UnexpectedEof` if some are missing.
    pub fn load(source: impl Read) -> io::Result<Self> {
        Self::load_with(source, |_, _| Ok(())).map(|(index, ())| index)
    }

    /// The same for [`Self::save_with`]: `more` reads what follows the index. No byte reaches it
    /// before its checksum was verified.
    ///
    /// # Errors
    /// Those of [`Self::load`] and of `more`.
    pub fn load_with<T>(
        source: impl Read,
        more: impl FnOnce(&Self, &mut dyn Read) -> io::Result<T>,
    ) -> io::Result<(Self, T)> {
        let mut source = ChunkReader::new(source);
        let mut magic = [0; MAGIC.len()];
        source.read_exact(&mut magic)?;
        if magic != MAGIC {
            let is_index = magic[..VERSION_AT] == MAGIC[..VERSION_AT];
            return Err(invalid(if is_index { OTHER_VERSION } else { "this is not an index" }));
        }
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = read_number(&mut source)?;
        }
        let [
            distance_max,
            small_max,
            of_permutation,
            high,
            low,
            sequence,
            documents,
            _,
            dropped,
            segments,
            tables,
        ] = numbers;
        let distance_max = u8::try_from(distance_max).ok().and_then(Distance::new);
        let distance_max = distance_max
            .filter(|distance| *distance <= Distance::LOOKUP_MAX)
            .ok_or_else(|| invalid("its largest distance is not 0 to 12"))?;
        let shape = Shape {
            distance_max,
            delta_events: DELTA_EVENTS,
            small_max,
            permutation: Arc::new(Permutation::from_secret(of_permutation)),
            has_labels: true,
        };
        let plans = shape.plans();
        let segments =
            (0..segments).map(|_| image::read_segment(&mut source, &plans).map(Arc::new));
        let segments = segments.collect::<io::Result<_>>()?;
        let tables = (0..tables).map(|_| read_table(&mut source, &plans));
        let secondary_tables = tables.collect::<io::Result<_>>()?;
        let counts = Counts { sequence: Sequence::new(sequence), documents };
        let parts = Parts { segments, secondary_tables, dropped, counts, ..Parts::default() };
        let secrets = Secrets { of_permutation, of_ids: u128::from(high) << 64 | u128::from(low) };
        let index = Self { view: View::restored(shape, parts), secrets };
        let more = more(&index, &mut source)?;
        if !source.ends()? {
            return Err(invalid("bytes follow its end"));
        }
        Ok((index, more))
    }
}

fn read_table(source: &mut impl Read, plans: &Plans) -> io::Result<SecondaryTable> {
    let cleaned_at = read_number(source)?;
    let table = Arc::new(image::read_table(source, &plans.large)?);
    Ok(SecondaryTable { table, cleaned_at })
}

fn read_number(source: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
