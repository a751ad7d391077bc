//! `/v1/history`: the figures of the last minutes, for charts.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use nearprint_wire::fields;
use nearprint_wire::offer::FieldKind;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::history::{self, COLUMNS, ROWS_MAX, Row};
use crate::http::problem::Problem;
use crate::http::request::parameters;
use crate::http::request::schema::describe;
use crate::http::service::HttpService;

/// As many rows as a request gets that does not say.
const MINUTES: u64 = 60;

fields! {
    /// What `/v1/history` takes in its query string.
    pub(crate) struct HistoryParameters {
        /// How many minutes back; 60 without it. There are none before the service was started.
        minutes: u64 [FieldKind::Whole(1, ROWS_MAX as u64)],
    }
}

describe! { parameters HistoryParameters }

/// The figures of the last minutes, for at most a day.
///
/// Each service has its own, in memory: they begin anew when it is started.
#[utoipa::path(get, path = "/v1/history", tag = "operations",
    params(HistoryParameters),
    responses((status = 200, description = "A row for each minute", body = HistoryReply)))]
pub(crate) async fn get_history(
    State(http): State<Arc<HttpService>>,
    RawQuery(query): RawQuery,
) -> Result<Json<HistoryReply>, Problem> {
    let HistoryParameters { minutes } = parameters::read(query.as_deref())?;
    let minutes = minutes.unwrap_or(MINUTES);
    let count = usize::try_from(minutes).ok().filter(|count| (1..=ROWS_MAX).contains(count));
    let count = count.ok_or_else(|| {
        let detail = format!("minutes is {minutes}; it takes 1 to {ROWS_MAX}.");
        Problem::invalid("minutes", detail)
    })?;
    Ok(Json(HistoryReply {
        interval_ms: u64::try_from(http.options.history_interval.as_millis()).unwrap_or(u64::MAX),
        started_at: history::written(started_ms(&http)),
        columns: COLUMNS,
        rows: http.history.last(count),
    }))
}

/// When the service was started, by the clock of now.
fn started_ms(http: &HttpService) -> u64 {
    let uptime_ms = http.started.elapsed().as_millis() as u64;
    http.service.engine().stats().clock_ms.saturating_sub(uptime_ms)
}

/// The figures of the last minutes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryReply {
    /// The time from one row to the next.
    #[schema(example = 60_000)]
    interval_ms: u64,
    /// When the service was started (RFC 3339); null if the clock is beyond what that can say.
    #[schema(example = "2026-05-01T08:00:00Z")]
    started_at: Option<String>,
    /// What each row has, in this order. `at` is when it was taken (RFC 3339); the documents, bytes
    /// of the index, of the process, of the journal and of free disk are those of that time. Then
    /// what was counted in the minute before: the outcomes of writes as `/metrics` has them,
    /// `requests` below `/v1/` other than those of consoles, and those of them with a status of 4xx
    /// (`refused`) and 5xx (`errors`). `p50_us` and `p99_us` are estimates of the time in which
    /// half and 99 % of the requests to query, insert or check-and-insert one document were done.
    #[schema(value_type = Vec<String>)]
    columns: [&'static str; COLUMNS.len()],
    /// Oldest first; null where something is not known.
    #[schema(value_type = Vec<Vec<Figure>>)]
    rows: Vec<Row>,
}

/// A time, or a number; null where it is not known.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum Figure {
    Time(String),
    Number(Option<u64>),
}
