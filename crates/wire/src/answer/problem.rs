//! Errors as they travel.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// An error, `application/problem+json` (RFC 9457).
// Each field may be missing from what is read: proxies before the service write their own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Problem))]
pub struct ProblemReply<'a> {
    /// A URI for the kind of error, made of its code.
    #[serde(default, rename = "type")]
    #[cfg_attr(
        feature = "openapi",
        schema(required, example = "urn:nearprint:problem:invalid_value")
    )]
    pub kind: Cow<'a, str>,
    /// The kind of error in words.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub title: Cow<'a, str>,
    /// The status of the reply (in a batch: the status this line would have had alone).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = 400))]
    pub status: u16,
    /// What is wrong with this request.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub detail: Cow<'a, str>,
    /// The stable name of the error.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, example = "invalid_value"))]
    pub code: Cow<'a, str>,
    /// The field of the body, or the query parameter, that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub field: Option<Cow<'a, str>>,
    /// The line of the batch, counted from 1, blank lines included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub line: Option<u64>,
}

impl ProblemReply<'_> {
    /// The same with texts of its own.
    pub fn into_owned(self) -> ProblemReply<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        ProblemReply {
            kind: owned(self.kind),
            title: owned(self.title),
            detail: owned(self.detail),
            field: self.field.map(owned),
            code: owned(self.code),
            status: self.status,
            line: self.line,
        }
    }

    /// Reads a line that has an error in the place of an answer; `None` if it is no such line.
    pub fn of_line(line: &[u8]) -> Option<ProblemReply<'static>> {
        let Refused { error } = serde_json::from_slice(line).ok()?;
        (error.status != 0 && !error.code.is_empty()).then_some(error)
    }

    /// Its code; `None` for one that this version does not know, and for none.
    pub fn code(&self) -> Option<Code> {
        Code::named(&self.code)
    }

    /// Whether the service was busy, so that the same request may succeed later. A follower takes
    /// writes only once somebody has made it a primary, and what may have been done is not done
    /// again.
    pub fn is_temporary(&self) -> bool {
        let is_lasting = matches!(self.code(), Some(Code::Follower | Code::OutcomeUnknown));
        matches!(self.status, 429 | 503) && !is_lasting
    }

    /// Whether it is not that of a nearprint service, which refuses with a code, never redirects,
    /// and knows the methods of its clients. Proxies before one refuse for other reasons.
    pub fn is_foreign(&self) -> bool {
        self.code.is_empty() && (self.status < 400 || matches!(self.status, 404 | 405 | 501))
    }
}

/// A line that has an error in the place of an answer.
#[derive(Deserialize)]
struct Refused {
    error: ProblemReply<'static>,
}

impl std::error::Error for ProblemReply<'_> {}

impl fmt::Display for ProblemReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.detail, &*self.code) {
            ("", "") => write!(f, "status {}", self.status),
            (text, "") | ("", text) => f.write_str(text),
            (detail, code) => write!(f, "{detail} ({code})"),
        }
    }
}
