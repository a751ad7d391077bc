//! The figures of the last minutes, which are taken more often here.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Server, hex, until};

fn quick() -> Server {
    Server::tuned(|_| {}, |settings| settings.http.history_interval = Duration::from_millis(20))
}

/// The figures with this name, of all rows.
fn figures(history: &Value, name: &str) -> Vec<Value> {
    let mut columns = history["columns"].as_array().unwrap().iter();
    let at = columns.position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
    let rows = history["rows"].as_array().unwrap().iter();
    rows.map(|row| row[at].clone()).collect()
}

/// How much was counted, in all rows. Other tests of this process count, too.
fn counted(history: &Value, name: &str) -> u64 {
    figures(history, name).iter().filter_map(Value::as_u64).sum()
}

#[test]
fn a_service_that_has_just_started_has_no_minute_yet() {
    let server = Server::start();
    let history = server.get("/v1/history").json();
    assert_eq!((&history["interval_ms"], &history["rows"]), (&json!(60_000), &json!([])));
    assert!(history["started_at"].as_str().unwrap().ends_with('Z'), "{history}");
    assert_eq!(history["columns"][0], "at");
}

#[test]
fn what_is_stored_and_what_was_counted_are_in_the_rows() {
    let server = quick();
    // What came before the first sample is in no row.
    until("it has begun to count", || {
        !server.get("/v1/history").json()["rows"].as_array().unwrap().is_empty()
    });
    for number in 1..=3 {
        server.insert(&format!("{number}"), &hex(number << 20));
    }
    server.insert("1", &hex(1 << 20));
    server.query(&hex(7));
    server.post("/v1/query", &json!({}));
    let mut history = Value::Null;
    until("all of it was counted", || {
        history = server.get("/v1/history?minutes=1440").json();
        let counts = [("inserted", 3), ("already_present", 1), ("requests", 6), ("refused", 1)];
        let is_stored = figures(&history, "documents").last() == Some(&json!(3));
        is_stored && counts.iter().all(|(name, least)| counted(&history, name) >= *least)
    });
    let last = |name: &str| figures(&history, name).pop().unwrap();
    for name in ["memory_bytes", "resident_bytes", "journal_bytes", "disk_free_bytes"] {
        assert!(last(name).as_u64().is_some_and(|bytes| bytes > 0), "{name}: {history}");
    }
    let times = |name: &str| figures(&history, name).into_iter().filter_map(|time| time.as_u64());
    let pairs: Vec<_> = times("p50_us").zip(times("p99_us")).collect();
    assert!(!pairs.is_empty() && pairs.iter().all(|(p50, p99)| p50 <= p99), "{pairs:?}");
    let at = figures(&history, "at");
    let ascends = |pair: &[Value]| pair[0].as_str().unwrap() <= pair[1].as_str().unwrap();
    assert!(at.windows(2).all(ascends), "{at:?}");
}

#[test]
fn a_request_gets_the_newest_rows_that_it_asks_for() {
    let server = quick();
    until("there are some", || {
        server.get("/v1/history").json()["rows"].as_array().unwrap().len() > 2
    });
    let two = server.get("/v1/history?minutes=2").json();
    assert_eq!(two["rows"].as_array().unwrap().len(), 2);
    for minutes in ["0", "1441", "-1", "x"] {
        let refused = server.get(&format!("/v1/history?minutes={minutes}"));
        let expected = (400, "invalid_value".to_owned(), "minutes".to_owned());
        assert_eq!(refused.problem_at(), expected, "{minutes}");
    }
}

/// A chart and the metrics say the same with the same word.
#[test]
fn every_outcome_of_the_metrics_is_a_column() {
    let server = Server::start();
    let page = server.get("/metrics").text();
    let series = "nearprint_write_outcomes_total{outcome=\"";
    let outcomes = page.lines().filter_map(|line| line.strip_prefix(series)?.split('"').next());
    let history = server.get("/v1/history").json();
    let mut count = 0;
    for outcome in outcomes {
        figures(&history, outcome);
        count += 1;
    }
    assert!(count >= 6, "{page}");
}
