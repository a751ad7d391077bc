//! Images: segments and tables as bytes, as a snapshot stores them.
//!
//! Tables and postings are written as they lie in memory, so that loading needs no sorting. A small
//! segment is written as its fingerprints alone; its tables are rebuilt. All numbers are
//! little-endian. The image has no checksum, since the sealed file around it has one, but
//! references from one part to another are checked nevertheless.
//!
//! A part can also be opened in its file ([`open_segment`], [`open_table`]): then its large arrays
//! stay there.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use nearprint_fingerprint::{Distance, LABELS};

use crate::buckets::{self, Buckets};
use crate::document::{Expiry, Sequence};
use crate::id_key::IdKey;
use crate::kernel::scan::Line;
use crate::labels::table::LabelTable;
use crate::labels::tables::LabelTables;
use crate::levels::ids::{self, IdTable};
use crate::levels::posting::{Common, Posting, Postings, Words};
use crate::levels::segment::{NamespaceGroup, Removal, ResetEntry, Segment};
use crate::levels::sorted::Sorted;
use crate::memory::array::Array;
use crate::memory::column::PackedColumn;
use crate::memory::file::{FileArray, FileBody};
use crate::memory::placed::PlacedArray;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::plan::{Plan, Plans};
use crate::tables::cells::{CellGroup, CrowdedGroup};
use crate::tables::geometry::Geometry;
use crate::tables::table::Table;

#[cfg(target_endian = "big")]
compile_error!("images are memory as it lies, and little-endian");

/// The first word of a small segment; a large one begins with the role of its table, which is 0.
const SMALL: u64 = 1;

/// Bytes read at a time, so that a false count does not allocate memory that is never filled.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes a segment.
///
/// # Errors
/// Those of the sink.
pub fn write_segment(segment: &Segment, sink: &mut dyn Write) -> io::Result<()> {
    match segment.sorted() {
        Sorted::Large(table) => write_table(table, sink)?,
        Sorted::Small(buckets) => {
            sink.write_all(bytemuck::bytes_of(&SMALL))?;
            let values: Vec<Permuted> = buckets.entries().map(|(value, _)| value).collect();
            write_list(values.into_iter(), sink)?;
        }
    }
    let (oldest, groups, later) = segment.postings_parts();
    write_postings(oldest, sink)?;
    write_postings(later, sink)?;
    let groups = groups.iter();
    write_list(groups.map(|g| [g.number, g.start, g.listed, u32::from(g.is_uniform)]), sink)?;
    let ids = segment.ids().iter();
    write_list(ids.map(|(key, number)| ids::pack(key, number)), sink)?;
    for table in segment.labels().all() {
        let (directory_bits, directory, rows) = table.parts();
        sink.write_all(bytemuck::bytes_of(&u64::from(directory_bits)))?;
        write_array(directory, sink)?;
        write_placed(rows, sink)?;
    }
    let removals = segment.removals().iter();
    let packed = removals.map(|Removal { value, posting }| {
        let [sequence, namespace, expiry, sample] = posting.pack();
        [*value, sequence, namespace, expiry, sample]
    });
    write_list(packed, sink)?;
    let resets = segment.resets().iter();
    write_list(resets.map(|reset| [reset.value, reset.sequence.get()]), sink)
}

/// Reads a segment of an index with these plans.
///
/// # Errors
/// Those of the source, and `InvalidData` where the bytes are not such a segment.
pub fn read_segment(source: &mut dyn Read, plans: &Plans) -> io::Result<Segment> {
    segment_of(&mut Source::Read(source), plans)
}

/// Opens a segment in its file, of an index with these plans: arrays of at least `stay_bytes_min`
/// bytes stay there, unless they are directories. Reads all ids once, to make their filter. A small
/// segment is read into memory.
///
/// # Errors
/// As [`read_segment`].
pub fn open_segment(
    file: Arc<dyn FileBody>,
    plans: &Plans,
    stay_bytes_min: u64,
) -> io::Result<Segment> {
    segment_of(&mut Source::File { file, position: 0, stay_bytes_min }, plans)
}

fn segment_of(source: &mut Source<'_>, plans: &Plans) -> io::Result<Segment> {
    let sorted = match read_one(source)? {
        SMALL => {
            // It is soon merged into another one.
            source.leave_nothing();
            Sorted::Small(read_buckets(source, plans.small.distance_max())?)
        }
        0 => Sorted::Large(read_table_of(0, source, &plans.large)?),
        _ => return Err(invalid("there is no segment of this form")),
    };
    let (oldest, later) = (read_postings(source)?, read_postings(source)?);
    let groups = read_list(source, |[number, start, listed, is_uniform]: [u32; 4]| {
        NamespaceGroup { number, start, listed, is_uniform: is_uniform == 1 }
    })?;
    let ids = read_ids(source)?;
    let labels = read_labels(source, sorted.numbers())?;
    let removals = read_list(source, |[value, posting @ ..]: [u64; 5]| Removal {
        value,
        posting: Posting::unpack(posting),
    })?;
    let resets = read_list(source, |[value, sequence]: [u64; 2]| ResetEntry {
        value,
        sequence: Sequence::new(sequence),
    })?;
    Segment::from_parts(sorted, (oldest, groups, later), (ids, labels), (removals, resets))
        .ok_or_else(|| invalid("the parts of the segment do not fit each other"))
}

/// Writes a table.
///
/// # Errors
/// Those of the sink.
pub fn write_table(table: &Table, sink: &mut dyn Write) -> io::Result<()> {
    let shape = [
        table.role() as u64,
        u64::from(table.geometry().cell_bits),
        table.partition().map_or(WHOLE, |partition| partition as u64),
    ];
    sink.write_all(bytemuck::bytes_of(&shape))?;
    let (groups, crowded, lines, rests) = table.parts();
    write_array(groups, sink)?;
    write_list(crowded.iter().copied(), sink)?;
    write_placed(lines, sink)?;
    let words = PackedColumn::words_for(rests.bits(), table.numbers());
    sink.write_all(&(words as u64).to_le_bytes())?;
    rests.write(table.numbers(), sink)
}

/// Stands for the partition of a whole table.
const WHOLE: u64 = u64::MAX;

/// Reads a table of an index with this plan.
///
/// # Errors
/// Those of the source, and `InvalidData` where the bytes are not such a table.
pub fn read_table(source: &mut dyn Read, plan: &Plan) -> io::Result<Table> {
    table_of(&mut Source::Read(source), plan)
}

/// Opens a table in its file, of an index with this plan: arrays of at least `stay_bytes_min` bytes
/// stay there, unless they are directories.
///
/// # Errors
/// As [`read_table`].
pub fn open_table(file: Arc<dyn FileBody>, plan: &Plan, stay_bytes_min: u64) -> io::Result<Table> {
    table_of(&mut Source::File { file, position: 0, stay_bytes_min }, plan)
}

fn table_of(source: &mut Source<'_>, plan: &Plan) -> io::Result<Table> {
    let role: u64 = read_one(source)?;
    read_table_of(usize::try_from(role).unwrap_or(usize::MAX), source, plan)
}

fn read_table_of(role: usize, source: &mut Source<'_>, plan: &Plan) -> io::Result<Table> {
    let [cell_bits, partition]: [u64; 2] = read_one(source)?;
    let table_plan =
        *plan.tables().get(role).ok_or_else(|| invalid("the index has no such table"))?;
    let geometry = Geometry::stored(table_plan, cell_bits)
        .ok_or_else(|| invalid("there is no table of this shape"))?;
    let partition = (partition != WHOLE).then(|| usize::try_from(partition).unwrap_or(usize::MAX));
    let groups: Array<CellGroup> = read_array(source)?;
    let crowded: Vec<CrowdedGroup> = read_list(source, |crowded| crowded)?;
    let (lines, rests) = (read_placed::<Line>(source)?, read_placed::<u64>(source)?);
    let of = (table_plan, role, geometry, partition);
    Table::from_parts(of, (groups, crowded), (lines, rests))
        .ok_or_else(|| invalid("the parts of the table do not fit each other"))
}

fn read_buckets(source: &mut Source<'_>, distance_max: Distance) -> io::Result<Buckets> {
    let values: Vec<Permuted> = read_list(source, |value| value)?;
    if !values.is_sorted_by(|a, b| a < b) || values.len() > buckets::COUNT_MAX {
        return Err(invalid("the fingerprints of the segment are too many or not in order"));
    }
    Ok(Buckets::build(distance_max, &values))
}

fn read_ids(source: &mut Source<'_>) -> io::Result<IdTable> {
    if let Some(pairs) = source.take_array()? {
        return Ok(IdTable::of_file(pairs));
    }
    let pairs: Vec<(IdKey, u32)> = read_list(source, ids::unpack)?;
    if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(invalid("the ids of the segment are not in order"));
    }
    Ok(IdTable::from_sorted(pairs.into_iter()))
}

fn read_labels(source: &mut Source<'_>, numbers: usize) -> io::Result<LabelTables> {
    let mut tables: [LabelTable; LABELS] = Default::default();
    for table in &mut tables {
        let directory_bits: u64 = read_one(source)?;
        let (directory, rows) = (read_array(source)?, read_placed(source)?);
        let directory_bits = u32::try_from(directory_bits).unwrap_or(u32::MAX);
        *table = LabelTable::from_parts(directory_bits, directory, rows, numbers)
            .ok_or_else(|| invalid("the labels do not fit the segment"))?;
    }
    Ok(LabelTables::from_tables(tables))
}

fn write_postings(postings: &Postings, sink: &mut dyn Write) -> io::Result<()> {
    let Common { first, last, flags, namespaces, expiries, all_expire, any_sketch } =
        postings.common();
    let flags = flags.map_or(u64::MAX, u64::from);
    let second = |expiry: Expiry| u64::from(expiry.second());
    let (first_expiry, last_expiry) =
        expiries.map_or((0, 0), |(first, last)| (second(first), second(last)));
    let head: [u64; 10] = [
        first.get(),
        last.get(),
        flags,
        namespaces.0.get(),
        namespaces.1.get(),
        first_expiry,
        last_expiry,
        u64::from(all_expire),
        u64::from(any_sketch),
        postings.len() as u64,
    ];
    sink.write_all(bytemuck::bytes_of(&head))?;
    postings.write(sink)
}

fn read_postings(source: &mut Source<'_>) -> io::Result<Postings> {
    let [first, last, flags, first_namespace, last_namespace]: [u64; 5] = read_one(source)?;
    let [first_expiry, last_expiry, all_expire, any_sketch, len]: [u64; 5] = read_one(source)?;
    let common = Common {
        first: Sequence::new(first),
        last: Sequence::new(last),
        flags: (flags != u64::MAX).then_some(u8::try_from(flags).unwrap_or(u8::MAX)),
        namespaces: (NamespaceNumber::new(first_namespace), NamespaceNumber::new(last_namespace)),
        expiries: Expiry::at(first_expiry).zip(Expiry::at(last_expiry)),
        all_expire: all_expire == 1,
        any_sketch: any_sketch == 1,
    };
    let words: Words<PlacedArray<u64>> = Words {
        sequences: read_placed(source)?,
        namespaces: read_placed(source)?,
        expiries: read_placed(source)?,
        samples: read_placed(source)?,
    };
    let lengths = Words {
        sequences: words.sequences.len(),
        namespaces: words.namespaces.len(),
        expiries: words.expiries.len(),
        samples: words.samples.len(),
    };
    // A number's bits are less than its words'.
    let len = u32::try_from(len).ok().map(|len| len as usize);
    match len {
        Some(len) if Postings::words_of(common, len) == Some(lengths) => {
            Ok(Postings::from_words(common, len, words))
        }
        _ => Err(invalid("the postings do not fit their list")),
    }
}

/// Where an image is read from.
enum Source<'a> {
    /// From its beginning to its end, into memory.
    Read(&'a mut dyn Read),
    /// In a file, in which arrays of at least so many bytes stay.
    File { file: Arc<dyn FileBody>, position: u64, stay_bytes_min: u64 },
}

impl Source<'_> {
    /// From now on everything is read into memory.
    fn leave_nothing(&mut self) {
        if let Self::File { stay_bytes_min, .. } = self {
            *stay_bytes_min = u64::MAX;
        }
    }

    /// Passes over an array that stays in its file; `None`, without reading its length, if the next
    /// one does not.
    fn take_array<T: Pod>(&mut self) -> io::Result<Option<FileArray<T>>> {
        let Self::File { file, position, stay_bytes_min } = self else { return Ok(None) };
        let mut count = [0; 8];
        file.read(*position, &mut count)?;
        let count = u64::from_le_bytes(count);
        let bytes = count.checked_mul(size_of::<T>() as u64);
        let bytes = bytes.ok_or_else(|| invalid("an array is too long for its file"))?;
        if bytes < *stay_bytes_min {
            return Ok(None);
        }
        let begin = *position + 8;
        let end = begin.checked_add(bytes);
        *position = end.ok_or_else(|| invalid("an array is too long for its file"))?;
        Ok(Some(FileArray::new(Arc::clone(file), begin, count as usize)))
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Read(source) => source.read(into),
            Self::File { file, position, .. } => {
                file.read(*position, into)?;
                *position += into.len() as u64;
                Ok(into.len())
            }
        }
    }
}

fn write_placed<T: Pod>(array: &PlacedArray<T>, sink: &mut dyn Write) -> io::Result<()> {
    sink.write_all(&(array.len() as u64).to_le_bytes())?;
    array.write(array.len(), sink)
}

fn read_placed<T: Pod>(source: &mut Source<'_>) -> io::Result<PlacedArray<T>> {
    match source.take_array()? {
        Some(array) => Ok(PlacedArray::File(array)),
        None => read_array(source).map(PlacedArray::Memory),
    }
}

fn write_array<T: Pod>(array: &[T], sink: &mut dyn Write) -> io::Result<()> {
    sink.write_all(&(array.len() as u64).to_le_bytes())?;
    sink.write_all(bytemuck::cast_slice(array))
}

fn write_list<T: Pod>(
    items: impl ExactSizeIterator<Item = T>,
    sink: &mut dyn Write,
) -> io::Result<()> {
    sink.write_all(&(items.len() as u64).to_le_bytes())?;
    let mut chunk: Vec<T> = Vec::new();
    for item in items {
        chunk.push(item);
        if size_of_val(&*chunk) >= CHUNK_BYTES {
            sink.write_all(bytemuck::cast_slice(&chunk))?;
            chunk.clear();
        }
    }
    sink.write_all(bytemuck::cast_slice(&chunk))
}

fn read_one<T: Pod + Zeroable>(source: &mut dyn Read) -> io::Result<T> {
    let mut one = T::zeroed();
    source.read_exact(bytemuck::bytes_of_mut(&mut one))?;
    Ok(one)
}

fn read_array<T: Pod>(source: &mut dyn Read) -> io::Result<Array<T>> {
    let count: u64 = read_one(source)?;
    // Pages that are never written take no memory, so a false count does no harm.
    let array = usize::try_from(count).ok().and_then(Array::try_zeros);
    let mut array = array.ok_or_else(|| invalid("an array is too long for the memory"))?;
    for chunk in array.chunks_mut((CHUNK_BYTES / size_of::<T>()).max(1)) {
        source.read_exact(bytemuck::cast_slice_mut(chunk))?;
    }
    Ok(array)
}

fn read_list<T: Pod, I>(source: &mut dyn Read, item: impl Fn(T) -> I) -> io::Result<Vec<I>> {
    let mut left: u64 = read_one(source)?;
    let chunk_max = (CHUNK_BYTES / size_of::<T>()) as u64;
    let (mut items, mut chunk) = (Vec::new(), Vec::new());
    while left > 0 {
        let now = left.min(chunk_max);
        chunk.resize(now as usize, T::zeroed());
        source.read_exact(bytemuck::cast_slice_mut(&mut chunk))?;
        items.extend(chunk.iter().map(|&raw| item(raw)));
        left -= now;
    }
    items.shrink_to_fit();
    Ok(items)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_lies_is_refused_without_taking_its_memory() {
        let claimed = u64::from(u32::MAX).to_le_bytes();
        assert!(read_array::<Line>(&mut &claimed[..]).is_err());
        assert!(read_list(&mut &u64::MAX.to_le_bytes()[..], |raw: [u64; 2]| raw).is_err());
        assert!(read_array::<u64>(&mut &u64::MAX.to_le_bytes()[..]).is_err());
    }
}
