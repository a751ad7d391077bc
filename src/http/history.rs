//! The figures of the last day by minute, in memory.
//!
//! One task takes a sample each minute, from the statistics of the engine and from the page of
//! metrics, so a request pays nothing for it. A row has what is there at the end of its minute,
//! what was counted in it, and how long the look-ups and writes of single documents took.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nearprint_engine::Stats;
use serde::ser::{Serialize, SerializeSeq as _, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::MissedTickBehavior;

use crate::http::routes::stats;
use crate::http::service::HttpService;
use crate::metrics;
use crate::process;

/// A day.
pub(crate) const ROWS_MAX: usize = 1_440;

/// What a row has, in its order: `at`, what is there then, what was counted in the minute before,
/// and the time that half and 99 % of the requests for one document have taken at most.
pub(crate) const COLUMNS: [&str; 1 + LEVELS + COUNTS.len() + 2] = [
    "at",
    "documents",
    "memory_bytes",
    "resident_bytes",
    "journal_bytes",
    "disk_free_bytes",
    COUNTS[0],
    COUNTS[1],
    COUNTS[2],
    COUNTS[3],
    COUNTS[4],
    COUNTS[5],
    COUNTS[6],
    COUNTS[7],
    COUNTS[8],
    "p50_us",
    "p99_us",
];

const LEVELS: usize = 5;

/// The outcomes of writes as the metrics name them; then requests below `/v1/`, and those with a
/// status of 4xx and of 5xx.
const COUNTS: [&str; 9] = [
    "inserted",
    "duplicate",
    "already_present",
    "refreshed",
    "replaced",
    "removed",
    "requests",
    "refused",
    "errors",
];

/// Consoles ask for these all the time.
const OF_SERVICE: [&str; 4] = ["/v1/stats", "/v1/me", "/v1/nodes", "/v1/history"];

/// Requests for one document: the times of others depend on how much they ask for.
const OF_ONE_DOCUMENT: [&str; 3] = ["/v1/query", "/v1/insert", "/v1/check-and-insert"];

const _: () = assert!(size_of::<Row>() * ROWS_MAX <= 1 << 20, "at most 1 MiB");

/// The figures of a minute; `None` where they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    at_ms: u64,
    figures: [Option<u64>; COLUMNS.len() - 1],
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_seq(Some(COLUMNS.len()))?;
        row.serialize_element(&written(self.at_ms))?;
        self.figures.iter().try_for_each(|figure| row.serialize_element(figure))?;
        row.end()
    }
}

/// A time of the clock as RFC 3339 has it, to the second, in UTC.
pub(crate) fn written(at_ms: u64) -> Option<String> {
    let second = i64::try_from(at_ms / 1_000).ok()?;
    OffsetDateTime::from_unix_timestamp(second).ok()?.format(&Rfc3339).ok()
}

/// The last rows, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<VecDeque<Row>>);

impl History {
    fn push(&self, row: &Row) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() == ROWS_MAX {
            rows.pop_front();
        }
        rows.push_back(*row);
    }

    /// The last `count` rows, or as many as there are.
    pub(crate) fn last(&self, count: usize) -> Vec<Row> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().skip(rows.len().saturating_sub(count)).copied().collect()
    }
}

/// Adds a row each minute, until the service stops.
pub(crate) async fn record(http: Arc<HttpService>) {
    let mut ticks = tokio::time::interval(http.options.history_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first one is due at once.
    ticks.tick().await;
    let (_, mut before) = sample(&http);
    loop {
        tokio::select! {
            () = http.stopped() => return,
            _ = ticks.tick() => {}
        }
        let (stats, now) = sample(&http);
        let counted = now.as_ref().zip(before.as_ref()).map(|(now, before)| now.since(before));
        http.history.push(&row(&stats, counted.as_ref()));
        before = now;
    }
}

fn sample(http: &HttpService) -> (Stats, Option<Totals>) {
    let stats = http.service.engine().stats();
    let totals = Totals::of(&metrics::render(stats.space.reclaimed_bytes));
    (stats, totals)
}

fn row(stats: &Stats, counted: Option<&Totals>) -> Row {
    let mut figures = [None; COLUMNS.len() - 1];
    let levels = [
        Some(stats.documents),
        Some(stats::memory_bytes(&stats.memory)),
        process::resident_bytes(),
        Some(stats.journal_bytes),
        Some(stats.disk.free_bytes),
    ];
    let counts = counted.map(|counted| counted.counts.map(Some)).unwrap_or_default();
    let times = [0.5, 0.99].map(|share| counted?.quantile_us(share));
    let known = levels.into_iter().chain(counts).chain(times);
    figures.iter_mut().zip(known).for_each(|(figure, known)| *figure = known);
    Row { at_ms: stats.clock_ms, figures }
}

/// What was counted since the process was started, or since an earlier time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Totals {
    counts: [u64; COUNTS.len()],
    /// For each limit in seconds, in ascending order: the requests for one document that took no
    /// longer.
    within: Vec<(f64, u64)>,
}

impl Totals {
    /// Those of a page of metrics; `None` if it has none.
    fn of(page: &str) -> Option<Self> {
        let mut totals = Self::default();
        for line in page.lines() {
            totals.add(line);
        }
        totals.within.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        (!page.is_empty()).then_some(totals)
    }

    /// Adds the number of a line, if it is one of those that count.
    fn add(&mut self, line: &str) -> Option<()> {
        let (name, rest) = line.split_once('{')?;
        let (labels, number) = rest.rsplit_once("} ")?;
        let label = |name: &str| {
            let mut labels = labels.split(',').filter_map(|label| label.split_once('='));
            labels.find(|(found, _)| *found == name).map(|(_, value)| value.trim_matches('"'))
        };
        let number: u64 = number.parse().ok()?;
        match name {
            "nearprint_write_outcomes_total" => self.count(label("outcome")?, number),
            "nearprint_requests_total" => {
                let route = label("route")?;
                if !route.starts_with("/v1/") || OF_SERVICE.contains(&route) {
                    return None;
                }
                self.count("requests", number);
                match label("status")? {
                    "4xx" => self.count("refused", number),
                    "5xx" => self.count("errors", number),
                    _ => {}
                }
            }
            "nearprint_request_seconds_bucket" if OF_ONE_DOCUMENT.contains(&label("route")?) => {
                let limit: f64 = label("le")?.parse().ok()?;
                let found =
                    self.within.iter_mut().find(|(known, _)| known.total_cmp(&limit).is_eq());
                match found {
                    Some((_, count)) => *count = count.saturating_add(number),
                    None => self.within.push((limit, number)),
                }
            }
            _ => {}
        }
        Some(())
    }

    fn count(&mut self, name: &str, number: u64) {
        let counts = COUNTS.iter().zip(&mut self.counts);
        for (_, count) in counts.filter(|(known, _)| **known == name) {
            *count = count.saturating_add(number);
        }
    }

    /// What was counted since an earlier time.
    fn since(&self, before: &Self) -> Self {
        let mut counted = self.clone();
        for (now, before) in counted.counts.iter_mut().zip(&before.counts) {
            *now = now.saturating_sub(*before);
        }
        for (limit, now) in &mut counted.within {
            let before = before.within.iter().find(|(known, _)| known.total_cmp(limit).is_eq());
            *now = now.saturating_sub(before.map_or(0, |(_, count)| *count));
        }
        counted
    }

    /// How many microseconds that share of the requests have taken at most, as Prometheus estimates
    /// it: evenly spread between two limits. `None` without requests.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an estimate of a time, which is not negative"
    )]
    fn quantile_us(&self, share: f64) -> Option<u64> {
        let (_, all) = self.within.last().filter(|(_, all)| *all > 0)?;
        let rank = share * *all as f64;
        let mut below = (0.0, 0);
        for &(limit, count) in &self.within {
            if count as f64 >= rank && count > below.1 {
                let (from, before) = below;
                // Above the last limit nothing more is known.
                let width = if limit.is_finite() { limit - from } else { 0.0 };
                let part = (rank - before as f64) / count.saturating_sub(before) as f64;
                return Some(((from + width * part.max(0.0)) * 1e6).round() as u64);
            }
            below = (limit, count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row_of(number: u64) -> Row {
        Row { at_ms: number, figures: [Some(number); COLUMNS.len() - 1] }
    }

    proptest! {
        #[test]
        fn the_ring_has_the_last_rows_of_a_list_of_all(
            pushed in 0..5_000_u64, count in 0..3_000_usize
        ) {
            let (history, mut all) = (History::default(), Vec::new());
            for number in 0..pushed {
                history.push(&row_of(number));
                all.push(row_of(number));
            }
            let first = all.len().saturating_sub(count.min(ROWS_MAX));
            prop_assert_eq!(&history.last(count), &all[first..]);
        }

        #[test]
        fn a_quantile_lies_between_the_limits_of_the_true_one(
            mut micros in prop::collection::vec(1_u64..20_000_000, 1..200), parts in 1..16_u32
        ) {
            let mut page = String::new();
            for (seconds, limit) in LIMITS {
                let within = micros.iter().filter(|&&took| took <= limit).count();
                page.push_str(&bucket(seconds, within as u64));
            }
            page.push_str(&bucket("+Inf", micros.len() as u64));
            let found = Totals::of(&page).unwrap().quantile_us(f64::from(parts) / 16.0).unwrap();
            micros.sort_unstable();
            let rank = micros.len().saturating_mul(parts as usize).div_ceil(16);
            let exact = *micros.iter().take(rank).next_back().unwrap();
            let limits = LIMITS.map(|(_, limit)| limit);
            let above = limits.into_iter().find(|limit| exact <= *limit).unwrap_or(10_000_000);
            let below = limits.into_iter().rev().find(|limit| *limit < exact).unwrap_or(0);
            prop_assert!((below..=above).contains(&found), "{found} is not near {exact}");
        }
    }

    /// In seconds, and in microseconds.
    const LIMITS: [(&str, u64); 5] =
        [("0.0001", 100), ("0.002", 2_000), ("0.05", 50_000), ("1", 1_000_000), ("10", 10_000_000)];

    fn bucket(limit: &str, count: u64) -> String {
        let labels = format!("route=\"/v1/query\",le=\"{limit}\"");
        format!("nearprint_request_seconds_bucket{{{labels}}} {count}\n")
    }

    #[test]
    fn a_minute_has_what_was_counted_in_it() {
        let page = |inserted: u64, ok: u64, failed: u64| {
            format!(
                "# TYPE nearprint_requests_total counter\n\
                 nearprint_write_outcomes_total{{outcome=\"inserted\"}} {inserted}\n\
                 nearprint_write_outcomes_total{{outcome=\"removed\"}} 7\n\
                 nearprint_requests_total{{route=\"/v1/query\",status=\"2xx\"}} {ok}\n\
                 nearprint_requests_total{{route=\"/v1/insert\",status=\"4xx\"}} 3\n\
                 nearprint_requests_total{{route=\"/v1/insert\",status=\"5xx\"}} {failed}\n\
                 nearprint_requests_total{{route=\"/v1/stats\",status=\"2xx\"}} 1{ok}\n\
                 nearprint_requests_total{{route=\"/healthz\",status=\"5xx\"}} 1{ok}\n\
                 nearprint_documents 5\n{}{}",
                bucket("0.001", ok),
                bucket("+Inf", ok),
            )
        };
        let totals = |inserted, ok, failed| Totals::of(&page(inserted, ok, failed)).unwrap();
        let counted = totals(5, 30, 2).since(&totals(1, 10, 2));
        assert_eq!(counted.counts, [4, 0, 0, 0, 0, 0, 20, 0, 0]);
        assert_eq!(counted.quantile_us(0.5), Some(500));
        assert_eq!(totals(5, 30, 2).counts, [5, 0, 0, 0, 0, 7, 35, 3, 2]);
        let nothing = totals(5, 30, 2).since(&totals(5, 30, 2));
        assert_eq!(nothing.quantile_us(0.5), None, "no request");
        assert_eq!(Totals::of(""), None);
    }

    #[test]
    fn a_row_is_written_with_its_time() {
        let row = serde_json::to_value(Row { at_ms: 86_399_999, ..row_of(1) }).unwrap();
        assert_eq!(row[0], "1970-01-01T23:59:59Z");
        assert_eq!(row.as_array().unwrap().len(), COLUMNS.len());
    }
}
