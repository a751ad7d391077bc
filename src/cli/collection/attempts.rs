//! When a request is sent again: as the other clients do it (`docs/clients.md`).

use std::time::{Duration, SystemTime};

use anyhow::Error;
use axum::http::HeaderMap;
use axum::http::header::RETRY_AFTER;
use nearprint_wire::answer::ProblemReply;
use nearprint_wire::code::Code;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::time::Instant;

use crate::cli::error_report::ErrorReport;

/// The first wait where the service does not say how long; it doubles with each attempt.
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// An attempt that brought no reply.
pub(super) struct FailedAttempt {
    pub(super) kind: FailureKind,
    pub(super) error: Error,
}

/// What another attempt may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// It would fail in the same way, or must not be made.
    Final,
    /// There was nobody to send the request to.
    Unsent,
    /// The request may have been carried out, and may be sent again.
    Lost,
    /// The service refused it for now, and may say for how long.
    Busy(Option<Duration>),
    /// The same, although it may have been carried out.
    Unknown(Option<Duration>),
}

impl FailureKind {
    /// That of a request that was refused.
    pub(super) fn of(
        problem: &ProblemReply<'_>,
        told: Option<Duration>,
        is_repeatable: bool,
    ) -> Self {
        match problem.code() {
            Some(Code::OutcomeUnknown) if is_repeatable => Self::Unknown(told),
            // Of a line of a batch, which was not taken.
            Some(Code::ReplyNotRead) => Self::Busy(told),
            _ if problem.is_temporary() => Self::Busy(told),
            _ => Self::Final,
        }
    }
}

impl From<Error> for FailedAttempt {
    fn from(error: Error) -> Self {
        Self { kind: FailureKind::Final, error }
    }
}

impl From<ErrorReport> for FailedAttempt {
    fn from(report: ErrorReport) -> Self {
        Self { kind: FailureKind::Final, error: report.into() }
    }
}

/// The attempts at one request, which share a deadline.
pub(super) struct Attempts {
    end: Instant,
    failed: u32,
    /// One of them may have been carried out without a reply.
    pub(super) may_be_done: bool,
}

impl Attempts {
    pub(super) fn within(time: Duration) -> Self {
        Self { end: Instant::now() + time, failed: 0, may_be_done: false }
    }

    /// The time until the deadline.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// How long to wait before the next attempt; `None` if the one that failed was the last. A
    /// service is waited for only if it was there before.
    pub(super) fn pause(&mut self, kind: FailureKind, was_there: bool) -> Option<Duration> {
        let earlier = self.failed;
        self.failed = earlier.saturating_add(1);
        self.may_be_done |= matches!(kind, FailureKind::Lost | FailureKind::Unknown(_));
        let pause = match kind {
            FailureKind::Final => return None,
            FailureKind::Unsent if !was_there => return None,
            FailureKind::Unsent | FailureKind::Lost => {
                earlier.checked_sub(1).map_or(Duration::ZERO, backoff)
            }
            FailureKind::Busy(told) | FailureKind::Unknown(told) => {
                told.filter(|told| !told.is_zero()).unwrap_or_else(|| backoff(earlier))
            }
        };
        (pause < self.left()).then_some(pause)
    }
}

/// The wait after so many others.
fn backoff(earlier: u32) -> Duration {
    let most = BACKOFF.saturating_mul(1 << earlier.min(10)).min(BACKOFF_MAX);
    // Not all at one time: what was refused together should not come back together.
    let random = getrandom::u32().unwrap_or_default();
    most.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

/// The time of a `Retry-After`, in seconds or until a date; `None` for anything else.
#[expect(clippy::disallowed_methods, reason = "a service says until when it is busy")]
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = OffsetDateTime::parse(value, &Rfc2822).ok()?;
    let since_1970 = Duration::from_secs(date.unix_timestamp().try_into().ok()?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(since_1970.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn what_was_lost_is_sent_again_at_once_and_then_at_growing_intervals() {
        let mut attempts = Attempts::within(MINUTE);
        assert_eq!(attempts.pause(FailureKind::Lost, false), Some(Duration::ZERO));
        for most in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            let pause = attempts.pause(FailureKind::Unsent, true).unwrap();
            let most = Duration::from_millis(most);
            assert!(most / 2 <= pause && pause <= most, "{pause:?} of {most:?}");
        }
        assert!(attempts.may_be_done);
        let mut late = Attempts::within(Duration::ZERO);
        assert_eq!(late.pause(FailureKind::Lost, true), None);
    }

    #[test]
    fn what_cannot_succeed_is_not_sent_again() {
        let mut attempts = Attempts::within(MINUTE);
        assert_eq!(attempts.pause(FailureKind::Final, true), None);
        assert_eq!(attempts.pause(FailureKind::Unsent, false), None);
        assert_eq!(attempts.pause(FailureKind::Busy(Some(MINUTE)), true), None);
        assert!(!attempts.may_be_done);
    }

    #[test]
    fn a_busy_service_is_asked_again_when_it_says() {
        let mut attempts = Attempts::within(MINUTE);
        let told = Some(Duration::from_secs(7));
        assert_eq!(attempts.pause(FailureKind::Busy(told), true), told);
        assert!(!attempts.may_be_done);
        assert_eq!(attempts.pause(FailureKind::Unknown(told), true), told);
        assert!(attempts.may_be_done);
        for told in [None, Some(Duration::ZERO)] {
            let pause = attempts.pause(FailureKind::Busy(told), true).unwrap();
            assert!(BACKOFF < pause && pause <= BACKOFF_MAX, "{pause:?}");
        }
    }

    #[test]
    fn a_time_is_a_number_of_seconds_or_a_date() {
        let read = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            retry_after(&[(RETRY_AFTER, value)].into_iter().collect())
        };
        assert_eq!(read(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(read("Wed, 21 Oct 2115 07:28:00 GMT") > Some(Duration::from_hours(24)));
        for other in ["-5", "soon", "1.5", &"9".repeat(400)] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
