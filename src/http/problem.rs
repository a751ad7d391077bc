//! Refusals as replies: RFC 9457 problem documents with a stable code.
//!
//! The table of [`Code`] is the only place that knows a status. The text of a reply is about the
//! request alone; the cause of a 5xx goes into the log line of the request and nowhere else.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use nearprint_service::Refusal;
pub(crate) use nearprint_service::quoted;
use nearprint_wire::answer;
pub(crate) use nearprint_wire::code::Code;

/// One refusal, on its way to the client.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    refusal: Refusal,
    line: Option<u64>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The status is 503, whatever that of the code is.
    is_of_probe: bool,
}

impl<R: Into<Refusal>> From<R> for Problem {
    fn from(refusal: R) -> Self {
        let refusal = refusal.into();
        Self { refusal, line: None, headers: Vec::new(), is_of_probe: false }
    }
}

impl Problem {
    /// A problem with one or two sentences for the developer on the other side.
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Refusal::new(code, detail).into()
    }

    /// A value that its field does not take.
    pub(crate) fn invalid(
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Refusal::invalid(field, detail).into()
    }

    /// An internal fault; its cause is for the log, not for the client.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Refusal::internal(cause).into()
    }

    pub(crate) fn of_field(self, field: impl Into<Cow<'static, str>>) -> Self {
        Self { refusal: self.refusal.of_field(field), ..self }
    }

    /// Puts the field inside the object it belongs to: `text` of `a` is `a.text`.
    pub(crate) fn inside(self, outer: &str) -> Self {
        Self { refusal: self.refusal.inside(outer), ..self }
    }

    pub(crate) fn at_line(self, line: u64) -> Self {
        Self { line: Some(line), ..self }
    }

    /// Adds a header to those that every problem has.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// When the same request may succeed, if the code alone does not say that; `None` for never.
    pub(crate) fn retry_after(self, wait: Option<Duration>) -> Self {
        Self { refusal: self.refusal.retry_after(wait), ..self }
    }

    /// Makes the status 503, for the reply of a readiness probe.
    pub(crate) fn unavailable(self) -> Self {
        Self { is_of_probe: true, ..self }
    }

    pub(crate) fn is(&self, code: Code) -> bool {
        self.refusal.code() == code
    }

    /// Replaces the sentences for the developer.
    pub(crate) fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { refusal: self.refusal.with_detail(detail), ..self }
    }

    fn status(&self) -> StatusCode {
        if self.is_of_probe { StatusCode::SERVICE_UNAVAILABLE } else { status(self.refusal.code()) }
    }

    /// The document that is sent.
    pub(crate) fn body(&self) -> answer::ProblemReply<'_> {
        let status = self.status().as_u16();
        answer::ProblemReply { status, line: self.line, ..self.refusal.problem() }
    }

    /// Its part of the log line.
    pub(crate) fn logged(&self) -> Failure {
        let cause = self.refusal.cause().map(str::to_owned);
        Failure { code: self.refusal.code().name(), cause }
    }
}

/// The status of a code.
pub(crate) fn status(code: Code) -> StatusCode {
    let (status, ..) = code.row();
    StatusCode::from_u16(status).expect("the table has statuses")
}

/// The reply to a request on a connection above `server.connections_max`.
pub(crate) fn too_many_connections(max: usize) -> Response {
    let detail = format!("The service has {max} connections already (server.connections_max).");
    Problem::new(Code::Overloaded, detail).into_response()
}

/// The seconds of a header, which has no fractions: at least as long, and never none.
fn whole_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

/// The error in the log line of a request; an extension of the reply.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) cause: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.body()).expect("strings and numbers are JSON");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.refusal.wait() {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
        response.extensions_mut().insert(self.logged());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(problem: Problem) -> Option<String> {
        let response = problem.into_response();
        let mut values = response.headers().get_all(RETRY_AFTER).iter();
        let (value, more) = (values.next(), values.next());
        assert!(more.is_none(), "twice");
        value.map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn whatever_passes_with_time_says_when_to_try_again() {
        // The statuses of RFC 9110 and RFC 6585 that ask for the header, and what else time may
        // mend.
        let passing = [
            (StatusCode::CONFLICT, "groups_not_ready"),
            (StatusCode::CONFLICT, "too_many_jobs"),
            (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            (StatusCode::INSUFFICIENT_STORAGE, "memory_full"),
        ];
        for code in Code::ALL {
            let (status, name) = (status(*code), code.name());
            let passes = matches!(status.as_u16(), 429 | 503) || passing.contains(&(status, name));
            let wait = seconds(Problem::new(*code, "why"));
            assert_eq!(wait.is_some(), passes, "{name}");
            assert!(wait.is_none_or(|wait| wait.parse::<u64>().is_ok_and(|s| s > 0)), "{name}");
        }
    }

    #[test]
    fn a_problem_may_say_itself_when_to_try_again() {
        let after = |wait| seconds(Problem::new(Code::RateLimited, "why").retry_after(wait));
        assert_eq!(after(Some(Duration::from_millis(1_001))).as_deref(), Some("2"));
        assert_eq!(after(Some(Duration::ZERO)).as_deref(), Some("1"));
        assert_eq!(after(None), None);
    }
}
