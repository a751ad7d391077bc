//! The records of files that are near one of a set of queries: the batch of Manku, Jain and Das
//! Sarma (2007, section 4).
//!
//! The queries are in memory, with an index of their fingerprints. The records are read once, in
//! the order of their files, and each is looked up in it: two fingerprints are as far apart
//! whichever is looked up. So memory depends on the queries alone, and the files may have any size.
//!
//! Every pair within the distance is found, and beyond it the pairs of similar texts, as by
//! `dedup`. A pair of texts whose sketches refute it does not count, and neither does a pair of
//! different namespaces.
//!
//! Tested against the comparison of all pairs.

use std::io;
use std::ops::Range;

use nearprint_fingerprint::{Distance, Fingerprint, Threshold};
use nearprint_index::compaction::policy::Load;
use nearprint_index::groups::{Evidence, settle, shape};
use nearprint_index::lookup::Lookup;
use nearprint_index::permutation::Permuted;
use nearprint_index::view::{Put, View};
use nearprint_index::visibility::Visibility;
use nearprint_text::Method;

use super::grouping::{are_similar, counts, similar, similarity};
use super::scan::{BAD_KEPT, BATCH, Made, Scanned, Watcher, made, name, namespace};
use crate::batch::in_order;
use crate::{BadEntry, BatchOptions, Documents, Entry};

/// Records that are looked up together, so that the memory they need is fetched at the same time.
const LOOKED_UP_TOGETHER: usize = 64;
/// The most fingerprints near those of a batch that wait, 16 bytes each. If there are more, each
/// record is looked up once more when its pairs are passed on.
const NEAR_WAITING_MAX: usize = 1 << 16;

/// The most pairs of fingerprints that are compared to tell how near the nearest is, which takes
/// less than a second.
const COMPARED_MAX: u64 = 1 << 28;

/// Queries after which the index is merged.
const SETTLED_AT_A_TIME: usize = 1 << 14;

/// What counts as a pair, and how it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct MatchOptions {
    /// How texts become fingerprints: as those of the queries did.
    pub method: Method,
    /// The largest distance of a pair.
    pub distance: Distance,
    /// What two sketches must reach; `None` does not compare them.
    pub threshold: Option<Threshold>,
    /// Whether texts are also searched beyond the distance, for what their sketches confirm.
    pub is_likely: bool,
    /// Threads that make fingerprints and look them up.
    pub threads: usize,
    /// The first record that cannot be read ends the run.
    pub stops_at_errors: bool,
}

/// A record near a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileMatch<'a> {
    /// The id of the query, or else its file and number.
    pub query: &'a str,
    /// The id of the record, or else its file and number.
    pub record: &'a str,
    /// The distance of their fingerprints.
    pub distance: Distance,
    /// The similarity of their texts, 0 to 1, if both have sketches.
    pub similarity: Option<f64>,
}

/// What became of the records.
#[derive(Debug, Default)]
pub struct Matched {
    /// Records that were read.
    pub records: u64,
    /// Those of them that have no fingerprint.
    pub without_fingerprint: u64,
    /// Those that are in a pair.
    pub in_pairs: u64,
    /// Pairs.
    pub pairs: u64,
    /// Records that could not be read.
    pub failed: u64,
    /// The first ones of these.
    pub bad: Vec<BadEntry>,
    /// Without a pair: how near a record comes to a query.
    pub nearest: Option<Nearest>,
}

/// How near a record comes to a query of its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nearest {
    /// The least distance of their fingerprints.
    pub distance: Distance,
    /// How many records were compared with all queries: the first ones, if these are many.
    pub records: u64,
}

/// Queries that records are compared with.
#[derive(Debug)]
pub struct Queries {
    scanned: Scanned,
    /// Those with a fingerprint, by fingerprint; equal ones in the order of their files.
    sorted: Vec<u32>,
    view: View,
    options: MatchOptions,
    /// [`NEAR_WAITING_MAX`], but for tests.
    near_waiting_max: usize,
    /// [`COMPARED_MAX`], but for tests.
    compared_max: u64,
}

/// The records of a batch that have a fingerprint near one of the queries, and what else there is
/// to count.
struct Found {
    records: u64,
    without_fingerprint: u64,
    near: Vec<Record>,
    /// All fingerprints, each with the number of its namespace, which queries have too.
    compared: Vec<(Fingerprint, u32)>,
}

/// A record that may be in a pair.
struct Record {
    name: Box<str>,
    namespace: Box<str>,
    fingerprint: Fingerprint,
    evidence: Evidence,
    /// The fingerprints of queries near it; `None` if there are too many to keep.
    near: Option<Vec<Fingerprint>>,
    /// The fingerprints of queries beyond the distance that may be similar.
    similar: Vec<Fingerprint>,
}

impl Queries {
    /// Indexes documents whose names were kept. A million fingerprints take about 24 MB more, and
    /// 0.3 s; texts 34 bytes more each.
    ///
    /// # Errors
    /// The temporary file of sketches cannot be read.
    pub fn new(scanned: Scanned, options: MatchOptions) -> io::Result<Self> {
        let fingerprint = |query: u32| scanned.fingerprints.get(query);
        let has_one = |query: &u32| fingerprint(*query).is_some();
        let mut sorted: Vec<u32> = (0..scanned.len() as u32).filter(has_one).collect();
        sorted.sort_by_key(|&query| fingerprint(query).map(Fingerprint::bits));
        let is_likely = options.is_likely && options.threshold.is_some();
        let view = match scanned.spill.as_ref().filter(|_| is_likely) {
            Some(_) => labelled(&scanned, &sorted, options.distance)?,
            None if sorted.is_empty() => View::new(shape(options.distance, false)),
            None => {
                let fingerprints = sorted.iter().filter_map(|&query| fingerprint(query));
                View::filled(shape(options.distance, false), sorted.len() as u64, fingerprints)
            }
        };
        let (near_waiting_max, compared_max) = (NEAR_WAITING_MAX, COMPARED_MAX);
        Ok(Self { scanned, sorted, view, options, near_waiting_max, compared_max })
    }

    /// Passes on every pair, by its record in the order of the files, and then by distance and by
    /// fingerprint of the query.
    ///
    /// # Errors
    /// Those of `take`, and the temporary file of sketches cannot be read.
    pub fn run(
        &self,
        documents: &mut Documents,
        watcher: &mut dyn Watcher,
        take: &mut dyn FnMut(FileMatch<'_>) -> io::Result<()>,
    ) -> io::Result<Matched> {
        let MatchOptions { threads, stops_at_errors, .. } = self.options;
        let options = BatchOptions { stops_at_errors, ..BATCH };
        let (mut matched, mut left) = (Matched::default(), self.compared_max);
        in_order(
            documents,
            (options, threads),
            |entries| self.find(&entries),
            |batch, found| {
                batch.notes.iter().for_each(|note| watcher.note(note));
                matched.failed += batch.bad.len() as u64;
                let room = BAD_KEPT.saturating_sub(matched.bad.len());
                matched.bad.extend(batch.bad.into_iter().take(room));
                matched.records += found.records;
                matched.without_fingerprint += found.without_fingerprint;
                for record in &found.near {
                    let pairs = self.pass_on(record, take)?;
                    matched.pairs += pairs;
                    matched.in_pairs += u64::from(pairs > 0);
                }
                if matched.pairs == 0 {
                    self.compare(&found.compared, &mut left, &mut matched.nearest);
                } else {
                    matched.nearest = None;
                }
                watcher.at(matched.records);
                Ok::<bool, io::Error>(watcher.goes_on())
            },
        )?;
        // Those of files at the end that have no documents.
        documents.records().notes().iter().for_each(|note| watcher.note(note));
        Ok(matched)
    }

    /// Looks the records of a batch up.
    fn find(&self, entries: &[Entry]) -> Found {
        let wants_sketches = self.scanned.spill.is_some();
        let make =
            |entry: &Entry| made(entry.content.borrowed(), self.options.method, wants_sketches);
        let mut made: Vec<(&Entry, Made, Fingerprint)> = Vec::with_capacity(entries.len());
        made.extend(entries.iter().filter_map(|entry| {
            let made = make(entry);
            let fingerprint = made.fingerprint?;
            Some((entry, made, fingerprint))
        }));
        let without_fingerprint = (entries.len() - made.len()) as u64;
        let fingerprints: Vec<Fingerprint> = made.iter().map(|made| made.2).collect();
        let near = self.near(&fingerprints, self.near_waiting_max);
        let mut near = near.as_deref();
        let record = |(at, (entry, made, fingerprint)): (usize, (&Entry, Made, Fingerprint))| {
            let own = near.as_mut().map(|near| {
                let end = near.partition_point(|(of, _)| *of <= at);
                let (own, rest) = near.split_at(end);
                *near = rest;
                own.iter().map(|(_, query)| *query).collect::<Vec<_>>()
            });
            let sketch = made.sketch.map(|sketch| *sketch);
            let evidence = Evidence { is_short: made.is_short, sketch };
            let similar = self.similar(fingerprint, &evidence);
            if own.as_ref().is_some_and(Vec::is_empty) && similar.is_empty() {
                return None;
            }
            let namespace = namespace(entry).unwrap_or_default();
            Some(Record { name: name(entry), namespace, fingerprint, evidence, near: own, similar })
        };
        let compared = made.iter().filter_map(|(entry, _, fingerprint)| {
            Some((*fingerprint, self.number_of(&namespace(entry).unwrap_or_default())?))
        });
        let compared = compared.collect();
        let near = made.into_iter().enumerate().filter_map(record).collect();
        Found { records: entries.len() as u64, without_fingerprint, near, compared }
    }

    /// The number of a namespace that queries have.
    fn number_of(&self, namespace: &str) -> Option<u32> {
        let number = self.scanned.all_namespaces.iter().position(|name| **name == *namespace)?;
        u32::try_from(number).ok()
    }

    /// The number of the namespace of a query.
    fn namespace_of(&self, query: u32) -> u32 {
        self.scanned.namespaces.get(query as usize).copied().unwrap_or_default()
    }

    /// Compares records with all queries, as long as `left` pairs of fingerprints may be compared.
    fn compare(
        &self,
        records: &[(Fingerprint, u32)],
        left: &mut u64,
        nearest: &mut Option<Nearest>,
    ) {
        for &(fingerprint, namespace) in records {
            let Some(less) = left.checked_sub(self.scanned.len() as u64) else { return };
            *left = less;
            let queries = (0..self.scanned.len() as u32)
                .filter(|&query| self.namespace_of(query) == namespace)
                .filter_map(|query| self.scanned.fingerprints.get(query));
            let Some(distance) = queries.map(|query| query.distance(fingerprint)).min() else {
                continue;
            };
            let before = nearest.unwrap_or(Nearest { distance, records: 0 });
            let distance = distance.min(before.distance);
            *nearest = Some(Nearest { distance, records: before.records + 1 });
        }
    }

    /// The fingerprints of queries near some of records, each with the number of the record, by
    /// both; `None` if there are more than `max`.
    fn near(&self, records: &[Fingerprint], max: usize) -> Option<Vec<(usize, Fingerprint)>> {
        let permutation = &self.view.shape().permutation;
        let (mut lookup, mut found, mut is_whole) = (Lookup::default(), Vec::new(), true);
        for (number, together) in records.chunks(LOOKED_UP_TOGETHER).enumerate() {
            let mut room = [Permuted::default(); LOOKED_UP_TOGETHER];
            let values = permutation.apply_all(together, &mut room);
            let first = number * LOOKED_UP_TOGETHER;
            self.view.near_values(&mut lookup, values, self.options.distance, &mut |at, value| {
                is_whole &= found.len() < max;
                if is_whole {
                    found.push((first + at, permutation.restore(value)));
                }
            });
            if !is_whole {
                return None;
            }
        }
        // A fingerprint may be found in several tables.
        found.sort_unstable();
        found.dedup();
        Some(found)
    }

    /// The fingerprints of queries beyond the distance that may be similar to a record.
    fn similar(&self, fingerprint: Fingerprint, evidence: &Evidence) -> Vec<Fingerprint> {
        let text = evidence.sketch.as_ref().zip(self.options.threshold);
        let Some((sketch, threshold)) = text.filter(|_| self.options.is_likely) else {
            return Vec::new();
        };
        let (text, limits) = ((fingerprint, sketch), (threshold, self.options.distance));
        similar(&self.view, text, &Visibility::DEFAULT, limits)
    }

    /// Passes the pairs of a record on; returns how many they are.
    fn pass_on(
        &self,
        record: &Record,
        take: &mut dyn FnMut(FileMatch<'_>) -> io::Result<()>,
    ) -> io::Result<u64> {
        let again = || {
            let near = self.near(&[record.fingerprint], usize::MAX).unwrap_or_default();
            near.into_iter().map(|(_, query)| query).collect()
        };
        let mut near: Vec<Fingerprint> = record.near.clone().unwrap_or_else(again);
        near.extend(&record.similar);
        near.sort_by_key(|query| (query.distance(record.fingerprint), *query));
        let mut pairs = 0;
        for fingerprint in near {
            let distance = fingerprint.distance(record.fingerprint);
            for &query in &self.sorted[self.queries_of(fingerprint)] {
                if let Some(pair) = self.judged(query, record, distance)? {
                    take(pair)?;
                    pairs += 1;
                }
            }
        }
        Ok(pairs)
    }

    /// The places of the queries with a fingerprint.
    fn queries_of(&self, fingerprint: Fingerprint) -> Range<usize> {
        let bits = |query: &u32| self.scanned.fingerprints.get(*query).map(Fingerprint::bits);
        let start = self.sorted.partition_point(|query| bits(query) < Some(fingerprint.bits()));
        let equal =
            self.sorted[start..].partition_point(|query| bits(query) == Some(fingerprint.bits()));
        start..start + equal
    }

    /// The pair, if it counts.
    fn judged<'a>(
        &'a self,
        query: u32,
        record: &'a Record,
        distance: Distance,
    ) -> io::Result<Option<FileMatch<'a>>> {
        let scanned = &self.scanned;
        let pair = |similarity| FileMatch {
            query: scanned.name(query),
            record: &record.name,
            distance,
            similarity,
        };
        if scanned.all_namespaces[self.namespace_of(query) as usize] != record.namespace {
            return Ok(None);
        }
        let Some(spill) = &scanned.spill else { return Ok(Some(pair(None))) };
        let (one, other) = (&spill.get(query as usize)?, &record.evidence);
        let MatchOptions { distance: within, threshold, .. } = self.options;
        let counts = if distance <= within {
            counts([one, other], distance, threshold)
        } else {
            let sketches = one.sketch.as_ref().zip(other.sketch.as_ref()).zip(threshold);
            sketches.is_some_and(|((one, other), least)| are_similar(one, other, least))
        };
        Ok(counts.then(|| pair(similarity(one, other))))
    }
}

/// An index of the queries in this order, with the labels of their texts.
fn labelled(scanned: &Scanned, sorted: &[u32], distance: Distance) -> io::Result<View> {
    let mut view = View::new(shape(distance, true));
    for (number, &query) in sorted.iter().enumerate() {
        if number.is_multiple_of(SETTLED_AT_A_TIME) {
            settle(&mut view, Load::Writing);
        }
        let spill = scanned.spill.as_ref().map(|spill| spill.get(query as usize)).transpose()?;
        let sketch = spill.and_then(|evidence| evidence.sketch).map(Box::new);
        if let Some(fingerprint) = scanned.fingerprints.get(query) {
            view.put(fingerprint, Put { sketch, ..Put::default() });
        }
    }
    view.rotate();
    settle(&mut view, Load::Idle);
    Ok(view)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;
    use crate::ReadOptions;
    use crate::dedup::scan::{Silent, Wishes};

    fn options(distance: u8, min_similarity: f64) -> MatchOptions {
        MatchOptions {
            method: Method::default(),
            distance: Distance::new(distance).unwrap(),
            threshold: Threshold::of_similarity(min_similarity),
            is_likely: true,
            threads: 2,
            stops_at_errors: false,
        }
    }

    fn queries(path: &Path, options: MatchOptions) -> Queries {
        let wishes = Wishes {
            method: options.method,
            sketches: options.threshold.is_some(),
            names: true,
            metadata: false,
            score: None,
            threads: 2,
            stops_at_errors: false,
            memory_max: u64::MAX,
            document_bytes: 0,
        };
        let mut documents = Documents::new(vec![path.to_owned()], ReadOptions::default());
        let scanned = Scanned::of(&mut documents, &wishes, &mut Silent).unwrap();
        Queries::new(scanned, options).unwrap()
    }

    /// A pair as the tests compare it.
    type Pair = (String, String, u8, Option<f64>);

    fn pairs(queries: &Queries, path: PathBuf) -> (Vec<Pair>, Matched) {
        let mut found = Vec::new();
        let mut documents = Documents::new(vec![path], ReadOptions::default());
        let matched = queries.run(&mut documents, &mut Silent, &mut |pair| {
            let FileMatch { query, record, distance, similarity } = pair;
            found.push((query.to_owned(), record.to_owned(), distance.get(), similarity));
            Ok(())
        });
        (found, matched.unwrap())
    }

    /// Lines of hex, each with its number as its id.
    fn hex(folder: &Path, name: &str, fingerprints: &[u64]) -> PathBuf {
        let line = |(number, bits): (usize, &u64)| format!("{bits:016x}\t{name}{number}\n");
        let path = folder.join(format!("{name}.hex"));
        let lines: String = fingerprints.iter().enumerate().map(line).collect();
        std::fs::write(&path, lines).unwrap();
        path
    }

    /// Fingerprints near each other and far from each other, some of them equal.
    fn fingerprint() -> impl Strategy<Value = u64> {
        let bits = prop::collection::vec(0..64_u32, 0..8);
        let center = prop::sample::select(vec![0, u64::MAX, 0x0123_4567_89ab_cdef]);
        (center, bits)
            .prop_map(|(center, bits)| bits.iter().fold(center, |all, bit| all ^ 1 << bit))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_finds_the_pairs_that_nested_loops_find(
            asked in prop::collection::vec(fingerprint(), 1..80),
            records in prop::collection::vec(fingerprint(), 1..1_300),
            distance in 0..=12_u8,
            near_waiting_max in prop::sample::select(vec![0, 3, NEAR_WAITING_MAX]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut queries = queries(&hex(folder.path(), "q", &asked), options(distance, 0.83));
            queries.near_waiting_max = near_waiting_max;
            let (found, matched) = pairs(&queries, hex(folder.path(), "r", &records));
            let mut expected = Vec::new();
            let mut in_pairs = 0;
            for (number, record) in records.iter().enumerate() {
                let mut near: Vec<_> = asked.iter().enumerate().map(|(query, bits)| {
                    ((bits ^ record).count_ones() as u8, bits, query)
                }).filter(|(bits, ..)| *bits <= distance).collect();
                near.sort_unstable();
                in_pairs += u64::from(!near.is_empty());
                expected.extend(near.into_iter().map(|(distance, _, query)| {
                    (format!("q{query}"), format!("r{number}"), distance, None)
                }));
            }
            prop_assert_eq!(matched.pairs, expected.len() as u64);
            prop_assert_eq!(found, expected);
            prop_assert_eq!((matched.records, matched.in_pairs), (records.len() as u64, in_pairs));
            let least = asked.iter().flat_map(|query| {
                records.iter().map(move |record| (query ^ record).count_ones() as u8)
            });
            let nearest = matched.nearest.map(|nearest| nearest.distance.get());
            prop_assert_eq!(nearest, least.min().filter(|_| in_pairs == 0));
        }
    }

    const TEXT: &str = "The ferry to the island leaves at seven in the morning and returns at noon, \
        but in winter, when the wind blows from the north, it often stays in the harbour until the \
        afternoon, and whoever wants to come back the same day takes the small boat of the baker";

    fn lines(folder: &Path, name: &str, lines: &[serde_json::Value]) -> PathBuf {
        let path = folder.join(format!("{name}.jsonl"));
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    }

    #[test]
    fn sketches_refute_pairs_of_texts_and_namespaces_part_them() {
        let folder = tempfile::tempdir().unwrap();
        let fingerprint = {
            let made =
                made(nearprint_wire::offer::Content::Text(TEXT.into()), Method::default(), false);
            made.fingerprint.unwrap().to_string()
        };
        // A text with another sketch, and the fingerprint of the first.
        let refuted = serde_json::json!({"id": "other", "fingerprint": fingerprint});
        let asked = lines(
            folder.path(),
            "asked",
            &[
                serde_json::json!({"id": "q", "text": TEXT}),
                serde_json::json!({"id": "elsewhere", "text": TEXT, "namespace": "a"}),
                serde_json::json!({"text": " ... "}),
            ],
        );
        let records = lines(
            folder.path(),
            "records",
            &[
                serde_json::json!({"text": TEXT}),
                refuted,
                serde_json::json!({"id": "a", "text": TEXT, "namespace": "a"}),
                serde_json::json!({"id": "none", "text": "..."}),
                serde_json::json!({"id": "broken"}),
            ],
        );
        let (found, matched) = pairs(&queries(&asked, options(3, 0.83)), records.clone());
        let first = format!("{}:1", records.display());
        let pair = |query: &str, record: &str, similarity| {
            (query.to_owned(), record.to_owned(), 0, similarity)
        };
        let expected = [
            pair("q", &first, Some(1.0)),
            pair("q", "other", None),
            pair("elsewhere", "a", Some(1.0)),
        ];
        assert_eq!(found, expected);
        assert_eq!((matched.records, matched.without_fingerprint, matched.failed), (4, 1, 1));
        assert!(matched.bad[0].to_string().contains("records.jsonl line 5"), "{}", matched.bad[0]);
    }

    #[test]
    fn a_changed_text_is_matched_beyond_the_distance() {
        let folder = tempfile::tempdir().unwrap();
        let changed = TEXT.replace("seven", "eight").replace("baker", "smith");
        let asked =
            lines(folder.path(), "asked", &[serde_json::json!({"id": "q", "text": changed})]);
        let record = [serde_json::json!({"id": "r", "text": TEXT})];
        let records = lines(folder.path(), "records", &record);
        let found = |is_likely| {
            let options = MatchOptions { is_likely, ..options(0, 0.83) };
            pairs(&queries(&asked, options), records.clone()).0
        };
        let likely = found(true);
        let [(query, record, distance, similarity)] = &likely[..] else { panic!("{likely:?}") };
        assert_eq!((&**query, &**record), ("q", "r"));
        assert!(*distance > 0 && similarity.is_some_and(|similarity| similarity > 0.83));
        assert_eq!(found(false), []);
    }

    #[test]
    fn a_pair_of_texts_counts_by_the_rule_of_dedup() {
        let evidence = |code, is_short| Evidence {
            is_short,
            sketch: Some(nearprint_fingerprint::Sketch::from_codes(
                &[code; nearprint_fingerprint::BINS],
            )),
        };
        let bare = Evidence::default();
        let [zero, two] = [0, 2].map(|bits| Distance::new(bits).unwrap());
        let threshold = Threshold::of_similarity(0.83);
        let [one, other] = [evidence(1, false), evidence(2, false)];
        assert!(counts([&one, &one], two, threshold));
        assert!(!counts([&one, &other], two, threshold), "the sketches refute it");
        assert!(counts([&one, &other], two, None), "they are not compared");
        assert!(counts([&one, &other], zero, threshold), "equal fingerprints count");
        assert!(counts([&one, &bare], two, threshold), "there is nothing to compare");
    }

    #[test]
    fn without_a_pair_it_tells_how_near_the_first_records_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut queries = queries(&hex(folder.path(), "q", &[0, 0xffff]), options(3, 0.83));
        let records = hex(folder.path(), "r", &[0x0f_ff00, 0x1f_0000, 0xf0_0000]);
        let nearest = |queries: &Queries| {
            let nearest = pairs(queries, records.clone()).1.nearest;
            nearest.map(|nearest| (nearest.distance.get(), nearest.records))
        };
        assert_eq!(nearest(&queries), Some((4, 3)));
        queries.compared_max = 5;
        assert_eq!(nearest(&queries), Some((5, 2)), "the third is not compared");
        queries.compared_max = 1;
        assert_eq!(nearest(&queries), None);
        let elsewhere =
            serde_json::json!({"id": "r", "namespace": "a", "fingerprint": "0000000000000000"});
        let (found, matched) = pairs(&queries, lines(folder.path(), "elsewhere", &[elsewhere]));
        assert_eq!((found, matched.nearest), (Vec::new(), None));
    }

    #[test]
    fn queries_without_a_fingerprint_are_near_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let asked = lines(folder.path(), "asked", &[serde_json::json!({"text": "..."})]);
        let (found, matched) =
            pairs(&queries(&asked, options(3, 0.83)), hex(folder.path(), "r", &[0, 1]));
        assert_eq!((found, matched.records), (Vec::new(), 2));
    }
}
