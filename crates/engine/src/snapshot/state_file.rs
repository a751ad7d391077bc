//! The file of a snapshot with the namespaces, the times of changes, the jobs, and how often
//! documents were named as originals.
//!
//! All numbers are little-endian words of 64 bits. The file has no checksum of its own, since the
//! sealed file around it has one.

use std::io::{self, Read, Write};
use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespaces::{NUMBER_MAX, NamespaceEntry, NamespaceNumber, Namespaces};
use nearprint_index::times::Times;
use nearprint_machine::change::{Change, Record};
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::{Job, JobState, Jobs, PurgeWork};
use nearprint_machine::query::Touch;

/// Stands for what has not come yet.
const NEVER: u64 = u64::MAX;
/// The longest record of a job: a prefix is as long as an id.
const JOB_BYTES_MAX: u64 = 8 << 10;

/// What a snapshot has besides segments and tables.
#[derive(Debug, Clone)]
pub struct StateFile {
    pub(crate) namespaces: Namespaces,
    pub(crate) times: Times,
    pub(crate) jobs: Arc<Jobs>,
    /// How often documents were named as originals, by sequence. The file ends before them if there
    /// are none.
    pub(crate) touches: Vec<Touch>,
}

impl StateFile {
    /// Writes it.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        let Self { namespaces, times, jobs, touches } = self;
        write_numbers([namespaces.last_number(), namespaces.len() as u64], sink)?;
        for NamespaceEntry { key, number, named_by, documents } in namespaces.iter() {
            let low = u64::from(key.low);
            write_numbers([key.high, low, number.get(), named_by.get(), documents], sink)?;
        }
        write_numbers([times.now_ms(), times.len() as u64], sink)?;
        for (second, first) in times.iter() {
            write_numbers([second.into(), first.get()], sink)?;
        }
        write_numbers([jobs.all().len() as u64], sink)?;
        jobs.all().iter().try_for_each(|job| write_job(job, sink))?;
        if touches.is_empty() {
            return Ok(());
        }
        write_numbers([touches.len() as u64], sink)?;
        touches.iter().try_for_each(|touch| {
            let Touch { sequence, masked, duplicates, last_s } = touch;
            let count = u64::from(*duplicates) << 32 | u64::from(*last_s);
            write_numbers([sequence.get(), masked.bits(), count], sink)
        })
    }

    /// Reads it.
    ///
    /// # Errors
    /// Those of the source, and `InvalidData` where the bytes are not such a file.
    pub fn read(source: &mut dyn Read) -> io::Result<Self> {
        let [last_number, count] = read_numbers(source)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let [high, low, number, named_by, documents] = read_numbers(source)?;
            let low = u32::try_from(low).map_err(|_| invalid())?;
            if [number, named_by, documents].iter().any(|&number| number > NUMBER_MAX) {
                return Err(invalid());
            }
            entries.push(NamespaceEntry {
                key: IdKey { high, low },
                number: NamespaceNumber::new(number),
                named_by: Sequence::new(named_by),
                documents,
            });
        }
        let [now_ms, count] = read_numbers(source)?;
        let mut firsts = Vec::new();
        for _ in 0..count {
            let [second, first] = read_numbers(source)?;
            firsts.push((u32::try_from(second).map_err(|_| invalid())?, Sequence::new(first)));
        }
        let [count] = read_numbers(source)?;
        let mut jobs = Jobs::default();
        for _ in 0..count {
            jobs.add(read_job(source)?);
        }
        Ok(Self {
            namespaces: Namespaces::restored(last_number, entries.into_iter()),
            times: Times::restored(now_ms, firsts.into_iter()),
            jobs: Arc::new(jobs),
            touches: read_touches(source)?,
        })
    }
}

fn read_touches(source: &mut dyn Read) -> io::Result<Vec<Touch>> {
    let mut count = Vec::new();
    source.take(8).read_to_end(&mut count)?;
    if count.is_empty() {
        return Ok(Vec::new());
    }
    let count = u64::from_le_bytes(count.try_into().map_err(|_| invalid())?);
    let mut touches = Vec::new();
    for _ in 0..count {
        let [sequence, masked, count] = read_numbers(source)?;
        touches.push(Touch {
            sequence: Sequence::new(sequence),
            masked: Fingerprint::new(masked),
            duplicates: (count >> 32) as u32,
            last_s: count as u32,
        });
    }
    Ok(touches)
}

/// Numbers, and what the job does as the record that began it.
fn write_job(job: &Job<PurgeWork>, sink: &mut dyn Write) -> io::Result<()> {
    let Job { number, work, state, begun_ms, ended_ms } = job;
    let PurgeWork { purge, through, matched, removed, last_step } = work;
    let record = Record { at_ms: *begun_ms, change: Change::PurgeBegun { purge: purge.clone() } };
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    let ended_ms = ended_ms.unwrap_or(NEVER);
    let numbers = [*number, state.code().into(), ended_ms, through.get(), *matched, *removed];
    write_numbers(numbers, sink)?;
    write_numbers([last_step.map_or(NEVER, Sequence::get), bytes.len() as u64], sink)?;
    sink.write_all(&bytes)
}

fn read_job(source: &mut dyn Read) -> io::Result<Job<PurgeWork>> {
    let [number, state, ended_ms, through, matched, removed] = read_numbers(source)?;
    let [last_step, length] = read_numbers(source)?;
    if length > JOB_BYTES_MAX {
        return Err(invalid());
    }
    let mut bytes = vec![0; length as usize];
    source.read_exact(&mut bytes)?;
    let Ok(Record { at_ms, change: Change::PurgeBegun { purge } }) = Record::decode(&bytes) else {
        return Err(invalid());
    };
    let state = u8::try_from(state).ok().and_then(JobState::of_code).ok_or_else(invalid)?;
    let (through, last_step) =
        (Sequence::new(through), (last_step != NEVER).then_some(Sequence::new(last_step)));
    let work = PurgeWork { purge, through, matched, removed, last_step };
    let ended_ms = (ended_ms != NEVER).then_some(ended_ms);
    Ok(Job { number, work, state, begun_ms: at_ms, ended_ms })
}

fn write_numbers<const N: usize>(numbers: [u64; N], sink: &mut dyn Write) -> io::Result<()> {
    numbers.iter().try_for_each(|number| sink.write_all(&number.to_le_bytes()))
}

fn read_numbers<const N: usize>(source: &mut dyn Read) -> io::Result<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        source.read_exact(&mut bytes)?;
        *number = u64::from_le_bytes(bytes);
    }
    Ok(numbers)
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the bytes are not the state of a snapshot")
}

#[cfg(test)]
mod tests {
    use nearprint_machine::jobs::{NamespaceFilter, Progress, Purge};

    use super::*;

    #[test]
    fn it_comes_back_as_it_went_in_and_any_cut_is_refused() {
        let (mut namespaces, mut times, mut jobs) =
            (Namespaces::default(), Times::default(), Jobs::default());
        for number in 1..200 {
            namespaces.add(IdKey { high: number << 50, low: 3 }, Sequence::new(number));
            // A clock that is set back on its way.
            times.set(number * 700 - if number > 150 { 20_000 } else { 0 });
            times.note(Sequence::new(number));
        }
        let purge = |reach| Purge {
            reach,
            prefix: Some("https://".into()),
            stored_before_ms: Some(7),
            dry_run: false,
        };
        jobs.begin(Sequence::new(5), purge(NamespaceFilter::All), 40);
        jobs.begin(Sequence::new(9), purge(NamespaceFilter::Namespace(None)), 50);
        let progress = Progress { job: 9, through: Sequence::new(8), matched: 4, removed: 3 };
        jobs.note(progress, Sequence::new(10));
        jobs.end(5, JobState::Cancelled, 60);
        let touch = |number| Touch {
            sequence: Sequence::new(number),
            masked: Fingerprint::new(!number),
            duplicates: u32::MAX,
            last_s: number as u32,
        };
        let touches: Vec<Touch> = (1..20).map(touch).collect();
        let without = 8 + 24 * touches.len();
        let state = StateFile { namespaces, times, jobs: Arc::new(jobs), touches };
        let mut bytes = Vec::new();
        state.write(&mut bytes).unwrap();
        let again = StateFile::read(&mut &bytes[..]).unwrap();
        assert!(again.namespaces.iter().eq(state.namespaces.iter()));
        assert_eq!(again.namespaces.last_number(), state.namespaces.last_number());
        assert_eq!((again.times, again.jobs), (state.times, state.jobs));
        assert_eq!(again.touches, state.touches);
        let without = bytes.len() - without;
        assert!(StateFile::read(&mut &bytes[..without]).unwrap().touches.is_empty());
        for length in (0..bytes.len()).filter(|length| *length != without) {
            assert!(StateFile::read(&mut &bytes[..length]).is_err(), "{length}");
        }
    }
}
