//! Errors as clients see them: RFC 9457 problem documents with a stable code.
//!
//! The table of [`Code`] is the only place that knows a status. The text of a reply is about the
//! request alone; the cause of a 5xx goes into the log line of the request and nowhere else.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use nearprint_engine::Refused;
use nearprint_engine::document::{BadDocumentId, BadNamespace, DocumentId, Namespace};
use nearprint_text::{BadFeatures, BadVector, EmptyDocument, NoFingerprint};
use serde::Serialize;
use utoipa::ToSchema;

/// The longest piece of a request that a reply repeats, in bytes.
const QUOTED_BYTES_MAX: usize = 200;

/// Declares the table of all errors: variant, status, stable code, title, and after how many
/// seconds the same request may succeed, where time alone may help.
macro_rules! codes {
    (@seconds) => { None };
    (@seconds $seconds:literal) => { Some(Duration::from_secs($seconds)) };
    ($($variant:ident = $status:ident, $code:literal, $title:literal $(, again after $wait:literal)?;)*) => {
        /// What went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Code {
            $($variant,)*
        }

        impl Code {
            /// Every code, for the documentation.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The status, the stable code and the title.
            pub(crate) const fn row(self) -> (StatusCode, &'static str, &'static str) {
                match self {
                    $(Self::$variant => (StatusCode::$status, $code, $title),)*
                }
            }

            /// After how long the same request may succeed, if the problem has no time of its own.
            pub(crate) const fn retry_after(self) -> Option<Duration> {
                match self {
                    $(Self::$variant => codes!(@seconds $($wait)?),)*
                }
            }
        }
    };
}

codes! {
    MalformedJson = BAD_REQUEST, "malformed_json", "The body is not JSON";
    InvalidValue = BAD_REQUEST, "invalid_value", "A value is not acceptable";
    UnknownField = BAD_REQUEST, "unknown_field", "A field is not known";
    RepeatedField = BAD_REQUEST, "repeated_field", "A field was given twice";
    DocumentMissing = BAD_REQUEST, "document_missing", "There is no document";
    DocumentAmbiguous = BAD_REQUEST, "document_ambiguous", "A document came in more than one form";
    DistanceAboveMax = BAD_REQUEST, "distance_above_max",
        "The distance is above the configured maximum";
    DimensionMismatch = BAD_REQUEST, "dimension_mismatch",
        "The vector has another number of dimensions";
    PackedLength = BAD_REQUEST, "packed_length", "Packed fingerprints have 8 bytes each";
    BodyIncomplete = BAD_REQUEST, "body_incomplete", "The body broke off";
    MalformedEncoding = BAD_REQUEST, "malformed_encoding",
        "The body is not what its Content-Encoding says";
    InvalidHost = BAD_REQUEST, "invalid_host", "The Host header is not valid";
    TokenMissing = UNAUTHORIZED, "token_missing", "A token is needed";
    TokenUnknown = UNAUTHORIZED, "token_unknown", "The token is not known";
    ScopeMissing = FORBIDDEN, "scope_missing", "The token does not allow this";
    NamespaceNotAllowed = FORBIDDEN, "namespace_not_allowed",
        "The token does not reach this namespace";
    CrossSite = FORBIDDEN, "cross_site", "Another site sent this request";
    NotFound = NOT_FOUND, "not_found", "There is no such resource";
    DocumentNotFound = NOT_FOUND, "document_not_found", "No document has this id";
    JobNotFound = NOT_FOUND, "job_not_found", "No job has this name";
    GroupsNotFound = NOT_FOUND, "groups_not_found", "There are no such groups";
    GroupsNotReady = CONFLICT, "groups_not_ready", "The groups are not found yet", again after 1;
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed",
        "The resource does not take this method";
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout", "The body came too slowly";
    ReplyNotRead = REQUEST_TIMEOUT, "reply_not_read", "The reply was not read";
    RecipeMismatch = CONFLICT, "recipe_mismatch", "The fingerprint was made by another recipe";
    Diverged = CONFLICT, "diverged", "The follower has another history than this service";
    ChangesPacked = GONE, "changes_packed", "The changes are no longer in the journal";
    LengthRequired = LENGTH_REQUIRED, "length_required",
        "A packed body of this size must say its length";
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large";
    LineTooLarge = PAYLOAD_TOO_LARGE, "line_too_large", "The line is too large";
    MetadataTooLarge = PAYLOAD_TOO_LARGE, "metadata_too_large", "The metadata is too large";
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type",
        "The Content-Type is not one this resource takes";
    UnsupportedCharset = UNSUPPORTED_MEDIA_TYPE, "unsupported_charset", "The charset is not known";
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding",
        "The Content-Encoding is not one that is taken";
    HostNotAllowed = MISDIRECTED_REQUEST, "host_not_allowed", "The request is for another host";
    EmptyDocument = UNPROCESSABLE_ENTITY, "empty_document",
        "The document has nothing to make a fingerprint from";
    TooManyJobs = CONFLICT, "too_many_jobs", "Too many jobs run already", again after 10;
    RateLimited = TOO_MANY_REQUESTS, "rate_limited", "Too many requests with this token",
        again after 1;
    Internal = INTERNAL_SERVER_ERROR, "internal", "Something is broken here";
    UnreadableRecord = INTERNAL_SERVER_ERROR, "unreadable_record",
        "A stored record could not be read";
    ClockBeyondExpiries = INTERNAL_SERVER_ERROR, "clock_beyond_expiries",
        "The clock of the service is past every expiry";
    UnsupportedTransferCoding = NOT_IMPLEMENTED, "unsupported_transfer_coding",
        "The transfer coding is not supported";
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "Too much at one time", again after 1;
    Stopping = SERVICE_UNAVAILABLE, "stopping", "The service is stopping", again after 1;
    Follower = SERVICE_UNAVAILABLE, "follower", "Only the primary of this copy can do this",
        again after 5;
    PrimaryUnreachable = SERVICE_UNAVAILABLE, "primary_unreachable",
        "The primary does not answer", again after 1;
    OutcomeUnknown = SERVICE_UNAVAILABLE, "outcome_unknown",
        "It is not known whether the request was carried out", again after 1;
    NoLeader = SERVICE_UNAVAILABLE, "no_leader", "No node of the cluster leads now",
        again after 1;
    Behind = SERVICE_UNAVAILABLE, "behind", "This copy does not have the change yet", again after 1;
    FollowerHalted = SERVICE_UNAVAILABLE, "follower_halted",
        "This follower has stopped following its primary", again after 10;
    NodeHalted = SERVICE_UNAVAILABLE, "node_halted",
        "This node has stopped reading the log of its cluster", again after 10;
    StorageFailed = SERVICE_UNAVAILABLE, "storage_failed", "Storage failed and writes have stopped",
        again after 5;
    DirectoryUnusable = SERVICE_UNAVAILABLE, "directory_unusable",
        "The data directory cannot be used", again after 10;
    DiskFull = INSUFFICIENT_STORAGE, "disk_full", "The disk is full", again after 10;
    MemoryFull = INSUFFICIENT_STORAGE, "memory_full", "The memory limit is reached",
        again after 10;
}

/// One error, on its way to the client.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<Facts>);

#[derive(Debug, Clone)]
struct Facts {
    code: Code,
    detail: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    line: Option<u64>,
    status: StatusCode,
    cause: Option<String>,
    retry_after: Option<Duration>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem with one or two sentences for the developer on the other side.
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Facts {
            code,
            detail: detail.into(),
            field: None,
            line: None,
            status: code.row().0,
            cause: None,
            retry_after: code.retry_after(),
            headers: Vec::new(),
        }))
    }

    /// A value that its field does not take.
    pub(crate) fn invalid(
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(Code::InvalidValue, detail).of_field(field)
    }

    /// An internal fault; its cause is for the log, not for the client.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        let mut problem = Self::new(Code::Internal, "The fault was logged under the request's id.");
        problem.0.cause = Some(cause.into());
        problem
    }

    pub(crate) fn of_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Puts the field inside the object it belongs to: `text` of `a` is `a.text`.
    pub(crate) fn inside(mut self, outer: &str) -> Self {
        self.0.field = Some(match self.0.field.take() {
            Some(field) => format!("{outer}.{field}").into(),
            None => outer.to_owned().into(),
        });
        self
    }

    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.0.line = Some(line);
        self
    }

    /// Adds a header to those that every problem has.
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// When the same request may succeed, if the code alone does not say that; `None` for never.
    pub(crate) fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    /// Adds sentences to the detail.
    #[must_use]
    pub(crate) fn explained(mut self, explanation: Option<String>) -> Self {
        if let Some(explanation) = explanation {
            self.0.detail = format!("{} {explanation}", self.0.detail).into();
        }
        self
    }

    /// Makes the status 503, for the reply of a readiness probe.
    pub(crate) fn unavailable(mut self) -> Self {
        self.0.status = StatusCode::SERVICE_UNAVAILABLE;
        self
    }

    pub(crate) fn is(&self, code: Code) -> bool {
        self.0.code == code
    }

    /// Replaces the sentences for the developer.
    pub(crate) fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// The document that is sent.
    pub(crate) fn body(&self) -> ProblemBody<'_> {
        let (_, code, title) = self.0.code.row();
        ProblemBody {
            kind: format!("urn:nearprint:problem:{code}"),
            title,
            status: self.0.status.as_u16(),
            detail: &self.0.detail,
            code,
            field: self.0.field.as_deref(),
            line: self.0.line,
        }
    }

    /// Its part of the log line.
    pub(crate) fn logged(&self) -> Failure {
        Failure { code: self.0.code.row().1, cause: self.0.cause.clone() }
    }
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

/// A piece of the request, short enough to repeat.
pub(crate) fn quoted(text: &str) -> &str {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    text.get(..end).unwrap_or_default()
}

/// The error in the log line of a request; an extension of the reply.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) cause: Option<String>,
}

/// An error, `application/problem+json` (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// A URI for the kind of error, made of its code.
    #[serde(rename = "type")]
    #[schema(example = "urn:nearprint:problem:invalid_value")]
    kind: String,
    /// The kind of error in words.
    title: &'static str,
    /// The status of the reply (in a batch: the status this line would have had alone).
    #[schema(example = 400)]
    pub(crate) status: u16,
    /// What is wrong with this request.
    pub(crate) detail: &'a str,
    /// The stable name of the error.
    #[schema(example = "invalid_value")]
    pub(crate) code: &'static str,
    /// The field of the body, or the query parameter, that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    field: Option<&'a str>,
    /// The line of the batch, counted from 1, blank lines included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    line: Option<u64>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.body()).expect("strings and numbers are JSON");
        let mut response = Response::new(Body::from(body));
        let status = self.0.status;
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.0.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        for (name, value) in &self.0.headers {
            headers.append(name.clone(), value.clone());
        }
        response.extensions_mut().insert(self.logged());
        response
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Overloaded => Self::new(
                Code::Overloaded,
                "The write queue is full; nothing was changed. Try again after the time in Retry-After.",
            ),
            Refused::Stopping => {
                Self::new(Code::Stopping, "The service is stopping; nothing was changed.")
            }
            Refused::Follower => Self::new(
                Code::Follower,
                "This service follows a primary, which takes the writes; nothing was changed.",
            ),
            Refused::NoLeader => Self::new(
                Code::NoLeader,
                "This node no longer leads the cluster; nothing was changed. The next request is passed on to the new leader.",
            ),
            Refused::OutcomeUnknown => Self::new(
                Code::OutcomeUnknown,
                "The log of the cluster has not confirmed the change in time. Whether it will be carried out is not known; a document with an id may be sent again.",
            ),
            Refused::Failed => Self::new(
                Code::StorageFailed,
                "A write or sync failed, and the service must be restarted. Whether this change was kept will show then; it may be sent again.",
            ),
            Refused::DiskFull => Self::new(
                Code::DiskFull,
                "The disk has less free space than the service must keep; nothing was changed. Look-ups go on, and removals free space.",
            ),
            Refused::DirectoryUnusable => Self::new(
                Code::DirectoryUnusable,
                "The data directory or files of it are gone, or cannot be written; nothing was changed. Look-ups go on.",
            ),
            Refused::MemoryFull => Self::new(
                Code::MemoryFull,
                "The index has reached its configured memory; nothing was changed. Look-ups go on.",
            ),
            Refused::ClockBeyondExpiries => Self::new(
                Code::ClockBeyondExpiries,
                "The clock of the service is past the year 2106, in which every expiry ends: the document would be gone at once, and was not stored. Set the clock right, or store it without an expiry.",
            ),
            Refused::Unreadable => Self::new(
                Code::UnreadableRecord,
                "A stored record failed its checksum or could not be read; it was not served.",
            ),
            Refused::TooManyJobs { max, is_of_owner } => {
                let whose = if is_of_owner {
                    " of this client, its share of all (half of what others leave),"
                } else {
                    ""
                };
                Self::new(
                    Code::TooManyJobs,
                    format!(
                        "{max} jobs{whose} run or wait already. Wait for one to end, or cancel one: DELETE /v1/jobs/{{job}}."
                    ),
                )
            }
            Refused::TooManyGroups { max, is_of_owner } => too_many_groups(max, is_of_owner),
            Refused::DistanceAboveMax { asked, max } => Self::new(
                Code::DistanceAboveMax,
                format!("distance is {asked}; this service looks up at most {max}."),
            )
            .of_field("distance"),
        }
    }
}

fn too_many_groups(max: usize, is_of_owner: bool) -> Problem {
    let which = if is_of_owner {
        "of this client run or wait already, its share of groups.kept_max (half of what others leave)"
    } else {
        "run or wait already (groups.kept_max)"
    };
    let next = "Wait for one to end, or cancel one: DELETE /v1/jobs/{job}.";
    Problem::new(Code::TooManyJobs, format!("{max} jobs that find groups {which}. {next}"))
}

impl From<EmptyDocument> for Problem {
    fn from(_: EmptyDocument) -> Self {
        Self::new(
            Code::EmptyDocument,
            "The document has nothing that the recipe counts (a letter, a number, a word), so it has no \
             fingerprint.",
        )
    }
}

impl From<BadFeatures> for Problem {
    fn from(bad: BadFeatures) -> Self {
        match bad {
            BadFeatures::Empty | BadFeatures::AllZero => Self::new(
                Code::EmptyDocument,
                "features needs a token whose weights do not add up to 0.",
            )
            .of_field("features"),
            BadFeatures::NotFinite { .. } => Self::invalid(
                "features",
                "The weights of features, and the sum of their sizes, must be finite numbers.",
            ),
        }
    }
}

impl From<BadVector> for Problem {
    fn from(bad: BadVector) -> Self {
        let problem = match bad {
            BadVector::Dimensions { expected, got } => Self::new(
                Code::DimensionMismatch,
                format!(
                    "The vector has {got} dimensions; the recipe of this service takes {expected}."
                ),
            ),
            BadVector::NotFinite { component } => Self::new(
                Code::InvalidValue,
                format!(
                    "Component {component} (the first is 0) is beyond the numbers of single precision."
                ),
            ),
            BadVector::AllZero => Self::new(
                Code::EmptyDocument,
                "All components are zero in single precision, so the vector has no direction.",
            ),
        };
        problem.of_field("vector")
    }
}

impl From<NoFingerprint> for Problem {
    fn from(none: NoFingerprint) -> Self {
        match none {
            NoFingerprint::Empty(empty) => empty.into(),
            NoFingerprint::Features(bad) => bad.into(),
            NoFingerprint::OnlyFeatures => Self::new(
                Code::RecipeMismatch,
                "The recipe of this service is features: send features or a fingerprint, no text.",
            ),
            NoFingerprint::Vector(bad) => bad.into(),
            NoFingerprint::NoModel { recipe } => {
                Self::internal(format!("the service of the recipe {recipe} has no model"))
            }
            NoFingerprint::NoVectors { recipe } => Self::new(
                Code::RecipeMismatch,
                format!("The recipe of this service is {recipe}, which takes no vectors."),
            )
            .of_field("vector"),
            NoFingerprint::OnlyVectors { recipe } => Self::new(
                Code::RecipeMismatch,
                format!(
                    "The recipe of this service is {recipe}: send a vector or a fingerprint, no text and no features."
                ),
            ),
        }
    }
}

impl From<BadDocumentId> for Problem {
    fn from(bad: BadDocumentId) -> Self {
        Self::invalid(
            "id",
            format!(
                "id must have 1 to {} bytes of UTF-8; this one has {}.",
                DocumentId::BYTES_MAX,
                bad.bytes
            ),
        )
    }
}

impl From<BadNamespace> for Problem {
    fn from(bad: BadNamespace) -> Self {
        Self::invalid(
            "namespace",
            format!(
                "namespace must have 1 to {} bytes of UTF-8; this one has {}.",
                Namespace::BYTES_MAX,
                bad.bytes
            ),
        )
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
            let (status, name, _) = code.row();
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
