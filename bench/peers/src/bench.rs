//! Measures one peer: arguments in, checked answers and times, one line of JSON out.
//!
//! Times are those of the process on its core, so that what else the machine does counts as little
//! as possible; the wall clock is noted as well. No query is asked twice in what is timed: a
//! repeated one would find its cache lines loaded. The first pass checks every answer, is not
//! timed, and warms up; it also finds out how many queries a slow peer can be asked in the time.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use crate::{DISTANCE, Data, Listed, Query};

/// Why there is no measurement.
pub type Failure = Box<dyn Error>;

/// Queries come in eights, so that all distances are asked for alike.
const TOGETHER: u64 = 8;

/// A measurement under way.
#[derive(Debug)]
pub struct Bench {
    data: Data,
    queries: u64,
    repetitions: u64,
    seconds: f64,
    settings: Option<String>,
    resident_before: u64,
    report: Map<String, Value>,
}

impl Bench {
    /// Begins one from the arguments of the program.
    ///
    /// # Errors
    /// When they are not `COUNT DATA QUERIES REPETITIONS SECONDS [SETTINGS]`. `DATA` is the seed of
    /// random fingerprints, or a folder with drawn ones.
    pub fn from_arguments() -> Result<Self, Failure> {
        let mut arguments = std::env::args().skip(1);
        let mut next = |name| arguments.next().ok_or(format!("{name} is missing"));
        let count = parsed("COUNT", &next("COUNT")?)?;
        let data = match next("DATA")? {
            seed if seed.parse::<u64>().is_ok() => {
                Data { count, seed: parsed("DATA", &seed)?, listed: None }
            }
            folder => {
                // Lives as long as the process.
                let listed = Box::leak(Box::new(Listed::read(Path::new(&folder))?));
                Data { count, seed: 0, listed: Some(listed) }
            }
        };
        let queries = parsed::<u64>("QUERIES", &next("QUERIES")?)?;
        let repetitions = parsed("REPETITIONS", &next("REPETITIONS")?)?;
        let seconds = parsed("SECONDS", &next("SECONDS")?)?;
        let report = [("digest".to_owned(), json!(format!("{:016x}", data.digest())))];
        Ok(Self {
            data,
            queries: queries.next_multiple_of(TOGETHER).max(TOGETHER),
            repetitions,
            seconds,
            settings: arguments.next(),
            resident_before: memory("Rss:")?,
            report: report.into_iter().collect(),
        })
    }

    /// What is to be stored.
    pub fn data(&self) -> Data {
        self.data
    }

    /// The settings of the peer, where the last argument names some.
    pub fn settings(&self) -> Option<&str> {
        self.settings.as_deref()
    }

    /// Builds the index; takes the time and the memory.
    ///
    /// # Errors
    /// When the kernel does not tell the memory, or the index cannot be built.
    pub fn build<I>(
        &mut self,
        build: impl FnOnce(Data) -> Result<I, Failure>,
    ) -> Result<I, Failure> {
        let clock = Clock::start();
        let index = build(self.data)?;
        let (seconds, wall) = clock.seconds();
        self.note("build_seconds", seconds);
        self.note("build_wall_seconds", wall);
        self.note("bytes", memory("Rss:")?.saturating_sub(self.resident_before));
        self.note("peak_bytes", peak()?.saturating_sub(self.resident_before));
        Ok(index)
    }

    /// Checks the answers of a peer, which appends the stored fingerprints that it finds.
    pub fn check(&mut self, mut find: impl FnMut(u64, &mut Vec<u64>)) {
        let (mut planted, mut found, mut wrong) = (0, 0, 0_u64);
        let mut answer = Vec::new();
        let mut asked = 0;
        let clock = Clock::start();
        while asked < self.queries && (asked % TOGETHER != 0 || clock.seconds().0 < self.seconds) {
            let query = self.data.query(asked);
            answer.clear();
            find(query.fingerprint, &mut answer);
            asked += 1;
            if let Some(stored) = query.planted {
                planted += 1;
                found += u64::from(answer.contains(&stored));
            }
            wrong += answer.iter().filter(|&&other| self.is_false(query, other)).count() as u64;
        }
        self.queries = asked;
        self.note("queries", asked);
        self.note("planted", planted);
        self.note("found", found);
        self.note("false_hits", wrong);
    }

    /// Times queries that come one by one; the peer returns how many it has found.
    pub fn one_by_one(&mut self, mut find: impl FnMut(u64) -> usize) {
        let mut times = Vec::new();
        for repetition in 1..=self.repetitions {
            let queries = self.fingerprints(repetition);
            let clock = Clock::start();
            let found: usize = queries.iter().map(|&query| find(black_box(query))).sum();
            times.push(clock.nanoseconds(queries.len()));
            black_box(found);
        }
        self.note_times("one", &times);
    }

    /// Checks and times queries that come all at once; the peer appends for each, in order, whether
    /// it has found any.
    pub fn batch(&mut self, mut find: impl FnMut(&[u64], &mut Vec<bool>)) {
        let (mut times, mut hits) = (Vec::new(), Vec::new());
        for repetition in 0..=self.repetitions {
            // Behind those that were asked one by one.
            let slice = self.repetitions + 1 + repetition;
            let queries = self.fingerprints(slice);
            hits.clear();
            let clock = Clock::start();
            find(black_box(&queries), &mut hits);
            if repetition > 0 {
                times.push(clock.nanoseconds(queries.len()));
            }
            assert_eq!(hits.len(), queries.len(), "an answer for each query");
            if repetition == 0 {
                let numbers = self.numbers(slice);
                let hit = numbers.zip(&hits).filter(|&(_, &hit)| hit);
                let (found, stray): (Vec<_>, Vec<_>) =
                    hit.partition(|&(number, _)| self.data.query(number).planted.is_some());
                self.note("batch_found", found.len());
                // What is drawn from a model of text has neighbours of its own.
                if self.data.listed.is_none() {
                    self.note("batch_stray", stray.len());
                }
            }
        }
        self.note_times("batch", &times);
    }

    /// Prints what was measured, with the settings in words.
    #[expect(clippy::print_stdout, reason = "the line that the driver reads")]
    pub fn report(mut self, peer: &str, settings: impl Display) {
        self.note("peer", peer);
        self.note("settings", settings.to_string());
        self.note("count", self.data.count);
        println!("{}", Value::Object(self.report));
    }

    /// An answer that is not stored, or not near.
    fn is_false(&self, query: Query, answer: u64) -> bool {
        (query.fingerprint ^ answer).count_ones() > DISTANCE || !self.data.holds(answer)
    }

    /// The numbers of a slice of the queries.
    fn numbers(&self, slice: u64) -> Range<u64> {
        slice * self.queries..(slice + 1) * self.queries
    }

    fn fingerprints(&self, slice: u64) -> Vec<u64> {
        self.numbers(slice).map(|number| self.data.query(number).fingerprint).collect()
    }

    fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.report.insert(name.to_owned(), value.into());
    }

    fn note_times(&mut self, name: &str, times: &[(f64, f64)]) {
        let (core, wall): (Vec<f64>, Vec<f64>) = times.iter().copied().unzip();
        self.note(&format!("{name}_ns"), core);
        self.note(&format!("{name}_wall_ns"), wall);
    }
}

/// The time of the process on a core, and the wall clock.
struct Clock {
    core: f64,
    wall: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    fn start() -> Self {
        Self { core: core_seconds(), wall: Instant::now() }
    }

    fn seconds(&self) -> (f64, f64) {
        (core_seconds() - self.core, self.wall.elapsed().as_secs_f64())
    }

    fn nanoseconds(&self, queries: usize) -> (f64, f64) {
        let (core, wall) = self.seconds();
        (core * 1e9 / queries as f64, wall * 1e9 / queries as f64)
    }
}

fn core_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The memory of this process under a name of the kernel's, in bytes.
///
/// `smaps_rollup` counts pages; `status` would do, but lags behind by some.
fn memory(name: &str) -> Result<u64, Failure> {
    kibibytes("/proc/self/smaps_rollup", name)
}

fn peak() -> Result<u64, Failure> {
    kibibytes("/proc/self/status", "VmHWM:")
}

fn kibibytes(file: &str, name: &str) -> Result<u64, Failure> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(parsed::<u64>(name, number.ok_or(format!("{file} has no {name}"))?.trim())? * 1024)
}

fn parsed<T: FromStr>(name: &str, text: &str) -> Result<T, Failure>
where
    T::Err: Display,
{
    text.parse().map_err(|error| format!("{name} {text:?}: {error}").into())
}
