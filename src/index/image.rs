//! A segment as bytes: what a snapshot keeps of it.
//!
//! Written are the distinct fingerprints in the order of the first table, the postings, the ids and
//! the removals; tables are derived and built again. All numbers are little-endian. The bytes carry
//! no checksum: the sealed file around them does.

use std::io::{self, Read, Write};

use crate::document::Sequence;
use crate::fingerprint::Distance;
use crate::index::array::Filling;
use crate::index::ids::IdKey;
use crate::index::posting::{PackedPosting, Posting};
use crate::index::segment::{Builder, Group, Removal, Reset, Segment};

/// Bytes read or written at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writes the segment.
///
/// # Errors
/// Those of the sink.
pub fn write(segment: &Segment, sink: &mut dyn Write) -> io::Result<()> {
    let (values, oldest, groups, later) = segment.parts();
    let counts = [
        values.len(),
        groups.len(),
        later.len(),
        segment.ids().len(),
        segment.removals().len(),
        segment.resets().len(),
    ];
    write_all(sink, counts.iter(), |count| (**count as u64).to_le_bytes())?;
    write_all(sink, values.iter(), |value| value.to_le_bytes())?;
    write_all(sink, oldest.packed().iter(), |posting| **posting)?;
    write_all(sink, groups.iter(), |group| {
        pack::<12>(&[
            &group.rank.to_le_bytes(),
            &group.start.to_le_bytes(),
            &group.with_id.to_le_bytes(),
        ])
    })?;
    write_all(sink, later.packed().iter(), |posting| **posting)?;
    write_all(sink, segment.ids().iter(), |(key, number)| {
        pack::<16>(&[&key.high.to_le_bytes(), &key.low.to_le_bytes(), &number.to_le_bytes()])
    })?;
    write_all(sink, segment.removals().iter(), |removal| removal.value.to_le_bytes())?;
    write_all(sink, segment.removals().iter(), |removal| removal.posting.pack())?;
    write_all(sink, segment.resets().iter(), |reset| {
        pack::<16>(&[&reset.value.to_le_bytes(), &reset.sequence.get().to_le_bytes()])
    })
}

/// Reads a segment and builds its tables.
///
/// # Errors
/// Those of the source, and `InvalidData` where the bytes are no segment.
pub fn read(source: &mut dyn Read, distance_max: Distance) -> io::Result<Segment> {
    let counts: Vec<u64> = read_all(source, 6, u64::from_le_bytes)?;
    let [values, groups, later, ids, removals, resets]: [u64; 6] =
        counts.try_into().expect("six were read");
    if [values, groups, later, ids].iter().any(|&count| count > u64::from(u32::MAX)) {
        return Err(invalid("a segment has at most 2^32 documents"));
    }
    let documents = values + later;
    let mut filling = Filling::with_capacity(capacity(values));
    read_each(source, values, |bytes| filling.push(u64::from_le_bytes(bytes)))?;
    let values = filling;
    let mut oldest: Filling<PackedPosting> = Filling::with_capacity(values.len());
    read_each(source, values.len() as u64, |bytes| oldest.push(bytes))?;
    let groups = read_all(source, groups, |bytes: [u8; 12]| Group {
        rank: u32_at(&bytes, 0),
        start: u32_at(&bytes, 4),
        with_id: u32_at(&bytes, 8),
    })?;
    let later: Vec<PackedPosting> = read_all(source, later, |bytes| bytes)?;
    let ids = read_all(source, ids, |bytes: [u8; 16]| {
        (IdKey { high: u64_at(&bytes, 0), low: u32_at(&bytes, 8) }, u32_at(&bytes, 12))
    })?;
    let removed: Vec<u64> = read_all(source, removals, u64::from_le_bytes)?;
    let postings: Vec<PackedPosting> = read_all(source, removals, |bytes| bytes)?;
    let removals = removed.iter().zip(&postings);
    let removal = |(&value, &packed)| Removal { value, posting: Posting::unpack(packed) };
    let removals = removals.map(removal).collect();
    let resets = read_all(source, resets, |bytes: [u8; 16]| Reset {
        value: u64_at(&bytes, 0),
        sequence: Sequence::new(u64_at(&bytes, 8)),
    })?;
    let ascending = values.is_sorted_by(|a, b| a < b)
        && groups.is_sorted_by(|a, b| a.rank < b.rank && a.start < b.start)
        && groups.last().is_none_or(|group| (group.rank as usize) < values.len())
        && groups.last().is_none_or(|group| (group.start as usize) < later.len())
        && ids.is_sorted_by(|a, b| a.0 < b.0)
        && ids.iter().all(|(_, number)| u64::from(*number) < documents);
    if !ascending {
        return Err(invalid("the parts of the segment are not in order"));
    }
    let located: Vec<(IdKey, u64, Sequence)> = {
        let document = |number: u32| -> (u64, Posting) {
            match (number as usize).checked_sub(values.len()) {
                None => (values[number as usize], Posting::unpack(oldest[number as usize])),
                Some(at) => {
                    let group = groups.partition_point(|group| group.start as usize <= at) - 1;
                    (values[groups[group].rank as usize], Posting::unpack(later[at]))
                }
            }
        };
        ids.iter()
            .map(|&(key, number)| (key, document(number).0, document(number).1.sequence))
            .collect()
    };
    let parts = (values, oldest, groups, later);
    Ok(Builder::from_parts(parts, removals, resets).finish(distance_max, located))
}

fn write_all<T, const N: usize>(
    sink: &mut dyn Write,
    items: impl Iterator<Item = T>,
    bytes: impl Fn(&T) -> [u8; N],
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(CHUNK_BYTES + N);
    for item in items {
        buffer.extend_from_slice(&bytes(&item));
        if buffer.len() >= CHUNK_BYTES {
            sink.write_all(&buffer)?;
            buffer.clear();
        }
    }
    sink.write_all(&buffer)
}

fn read_all<T, const N: usize>(
    source: &mut dyn Read,
    count: u64,
    item: impl Fn([u8; N]) -> T,
) -> io::Result<Vec<T>> {
    let mut items = Vec::with_capacity(capacity(count));
    read_each(source, count, |bytes| items.push(item(bytes)))?;
    Ok(items)
}

/// What is made ready for a claimed count: more is made as it is really read.
fn capacity(count: u64) -> usize {
    count.min(1 << 26) as usize
}

fn read_each<const N: usize>(
    source: &mut dyn Read,
    count: u64,
    mut take: impl FnMut([u8; N]),
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES / N * N];
    let mut left = usize::try_from(count).map_err(|_| invalid("a count is too large"))?;
    while left > 0 {
        let now = left.min(buffer.len() / N);
        source.read_exact(&mut buffer[..now * N])?;
        buffer[..now * N].as_chunks::<N>().0.iter().for_each(|&bytes| take(bytes));
        left -= now;
    }
    Ok(())
}

fn pack<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut all = [0; N];
    let mut at = 0;
    for part in parts {
        all[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    all
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
