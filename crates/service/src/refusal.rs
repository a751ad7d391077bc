//! Why something is refused, whoever asked for it.
//!
//! The text is about what was asked alone; the cause of an internal fault is for the log.

use std::borrow::Cow;
use std::time::Duration;

use nearprint_engine::Refused;
use nearprint_engine::document::{BadDocumentId, BadNamespace, DocumentId, Namespace};
use nearprint_text::{BadFeatures, BadVector, EmptyDocument, NoFingerprint};
use nearprint_wire::answer::ProblemReply;
use nearprint_wire::code::Code;

/// The longest piece of a request that an answer repeats, in bytes.
const QUOTED_BYTES_MAX: usize = 200;

// What the refusals of the engine mean to who has asked.
const OVERLOADED: &str =
    "The write queue is full; nothing was changed. Try again after the time in Retry-After.";
const STOPPING: &str = "The service is stopping; nothing was changed.";
const FOLLOWER: &str =
    "This service follows a primary, which takes the writes; nothing was changed.";
const NO_LEADER: &str = "This node no longer leads the cluster; nothing was changed. The next request is passed \
    on to the new leader.";
const OUTCOME_UNKNOWN: &str = "The log of the cluster has not confirmed the change in time. Whether it will be carried \
    out is not known; a document with an id may be sent again.";
const FAILED: &str = "A write or sync failed, and the service must be restarted. Whether this change was kept \
    will show then; it may be sent again.";
const DISK_FULL: &str = "The disk has less free space than the service must keep; nothing was changed. Look-ups \
    go on, and removals free space.";
const DIRECTORY_UNUSABLE: &str = "The data directory or files of it are gone, or cannot be written; nothing was changed. \
    Look-ups go on.";
const MEMORY_FULL: &str =
    "The index has reached its configured memory; nothing was changed. Look-ups go on.";
const CLOCK_BEYOND_EXPIRIES: &str = "The clock of the service is past the year 2106, in which every expiry ends: the document \
    would be gone at once, and was not stored. Set the clock right, or store it without an \
    expiry.";
const UNREADABLE: &str =
    "A stored record failed its checksum or could not be read; it was not served.";

const UNREADABLE_INDEX: &str = "A part of the index failed its checksum or could not be read in its file; the log of the \
     service names the file. `nearprint snapshot verify` looks at all of them, and `nearprint repair` makes \
     the index anew from the records.";

/// Why something is refused.
#[derive(Debug, Clone)]
pub struct Refusal(Box<Facts>);

#[derive(Debug, Clone)]
struct Facts {
    code: Code,
    detail: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    cause: Option<String>,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// With one or two sentences for the developer on the other side.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let (detail, retry_after) = (detail.into(), code.retry_after());
        Self(Box::new(Facts { code, detail, field: None, cause: None, retry_after }))
    }

    /// A value that its field does not take.
    pub fn invalid(
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(Code::InvalidValue, detail).of_field(field)
    }

    /// An internal fault; its cause is for the log, not for the client.
    pub fn internal(cause: impl Into<String>) -> Self {
        let mut refusal = Self::new(Code::Internal, "The fault was logged under the request's id.");
        refusal.0.cause = Some(cause.into());
        refusal
    }

    /// Names the field that is wrong.
    #[must_use]
    pub fn of_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Puts the field inside the object it belongs to: `text` of `a` is `a.text`.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        self.0.field = Some(match self.0.field.take() {
            Some(field) => format!("{outer}.{field}").into(),
            None => outer.to_owned().into(),
        });
        self
    }

    /// A line of a batch has more than `max` bytes.
    pub fn line_too_large(max: usize) -> Self {
        let detail = format!("A line may have {max} bytes (server.line_bytes_max).");
        Self::new(Code::LineTooLarge, detail)
    }

    /// When the same request may succeed, if the code alone does not say that; `None` for never.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    /// Adds sentences to the detail.
    #[must_use]
    pub fn explained(mut self, explanation: Option<String>) -> Self {
        if let Some(explanation) = explanation {
            self.0.detail = format!("{} {explanation}", self.0.detail).into();
        }
        self
    }

    /// Replaces the sentences for the developer.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// What went wrong.
    pub const fn code(&self) -> Code {
        self.0.code
    }

    /// When the same request may succeed; `None` if time alone does not help.
    pub const fn wait(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The cause, for the log.
    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// As it travels.
    pub fn problem(&self) -> ProblemReply<'_> {
        let Facts { code, detail, field, .. } = &*self.0;
        let (status, name, title) = code.row();
        ProblemReply {
            kind: format!("urn:nearprint:problem:{name}").into(),
            title: title.into(),
            status,
            detail: detail.as_ref().into(),
            code: name.into(),
            field: field.as_deref().map(Cow::Borrowed),
            line: None,
        }
    }
}

/// A piece of the request, short enough to repeat.
pub fn quoted(text: &str) -> &str {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    text.get(..end).unwrap_or_default()
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooManyJobs { max, is_of_owner } => too_many("jobs", max, is_of_owner),
            Refused::TooManyGroups { max, is_of_owner } => {
                too_many("jobs that find groups", max, is_of_owner)
            }
            Refused::DistanceAboveMax { asked, max } => {
                let detail = format!("distance is {asked}; this service looks up at most {max}.");
                Self::new(Code::DistanceAboveMax, detail).of_field("distance")
            }
            Refused::Overloaded => Self::new(Code::Overloaded, OVERLOADED),
            Refused::Stopping => Self::new(Code::Stopping, STOPPING),
            Refused::Follower => Self::new(Code::Follower, FOLLOWER),
            Refused::NoLeader => Self::new(Code::NoLeader, NO_LEADER),
            Refused::OutcomeUnknown => Self::new(Code::OutcomeUnknown, OUTCOME_UNKNOWN),
            Refused::Failed => Self::new(Code::StorageFailed, FAILED),
            Refused::DiskFull => Self::new(Code::DiskFull, DISK_FULL),
            Refused::DirectoryUnusable => Self::new(Code::DirectoryUnusable, DIRECTORY_UNUSABLE),
            Refused::MemoryFull => Self::new(Code::MemoryFull, MEMORY_FULL),
            Refused::ClockBeyondExpiries => {
                Self::new(Code::ClockBeyondExpiries, CLOCK_BEYOND_EXPIRIES)
            }
            Refused::Unreadable => Self::new(Code::UnreadableRecord, UNREADABLE),
            Refused::UnreadableIndex => Self::new(Code::UnreadableIndex, UNREADABLE_INDEX),
        }
    }
}

fn too_many(jobs: &str, max: usize, is_of_owner: bool) -> Refusal {
    let whose = if is_of_owner {
        " of this client, its share of all (half of what others leave),"
    } else {
        ""
    };
    let detail = format!(
        "{max} {jobs}{whose} run or wait already. Wait for one to end, or cancel one: DELETE \
         /v1/jobs/{{job}}."
    );
    Refusal::new(Code::TooManyJobs, detail)
}

impl From<EmptyDocument> for Refusal {
    fn from(_: EmptyDocument) -> Self {
        Self::new(
            Code::EmptyDocument,
            "The document has nothing that the recipe counts (a letter, a number, a word), so it has no \
             fingerprint.",
        )
    }
}

impl From<BadFeatures> for Refusal {
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

impl From<BadVector> for Refusal {
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

impl From<NoFingerprint> for Refusal {
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

impl From<BadDocumentId> for Refusal {
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

impl From<BadNamespace> for Refusal {
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
