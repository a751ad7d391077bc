//! The errors of the service: the only table that knows their codes, their statuses, and after
//! which time a request may be sent again.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// Declares the table of all errors: variant, status, stable code, title, and after how many
/// seconds the same request may succeed, where time alone may help.
macro_rules! codes {
    (@seconds) => { None };
    (@seconds $seconds:literal) => { Some(Duration::from_secs($seconds)) };
    ($($variant:ident = $status:literal, $code:literal, $title:literal $(, again after $wait:literal)?;)*) => {
        /// What went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code, for the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The status of a reply in HTTP (RFC 9110), the stable code and the title.
            pub const fn row(self) -> (u16, &'static str, &'static str) {
                match self {
                    $(Self::$variant => ($status, $code, $title),)*
                }
            }

            /// After how long the same request may succeed, if the problem has no time of its own.
            pub const fn retry_after(self) -> Option<Duration> {
                match self {
                    $(Self::$variant => codes!(@seconds $($wait)?),)*
                }
            }
        }
    };
}

codes! {
    MalformedJson = 400, "malformed_json", "The body is not JSON";
    InvalidValue = 400, "invalid_value", "A value is not acceptable";
    UnknownField = 400, "unknown_field", "A field is not known";
    RepeatedField = 400, "repeated_field", "A field was given twice";
    DocumentMissing = 400, "document_missing", "There is no document";
    DocumentAmbiguous = 400, "document_ambiguous", "A document came in more than one form";
    DistanceAboveMax = 400, "distance_above_max",
        "The distance is above the configured maximum";
    DimensionMismatch = 400, "dimension_mismatch",
        "The vector has another number of dimensions";
    PackedLength = 400, "packed_length", "Packed fingerprints have 8 bytes each";
    BodyIncomplete = 400, "body_incomplete", "The body broke off";
    MalformedEncoding = 400, "malformed_encoding",
        "The body is not what its Content-Encoding says";
    InvalidHost = 400, "invalid_host", "The Host header is not valid";
    TokenMissing = 401, "token_missing", "A token is needed";
    TokenUnknown = 401, "token_unknown", "The token is not known";
    ScopeMissing = 403, "scope_missing", "The token does not allow this";
    NamespaceNotAllowed = 403, "namespace_not_allowed",
        "The token does not reach this namespace";
    CrossSite = 403, "cross_site", "Another site sent this request";
    NotFound = 404, "not_found", "There is no such resource";
    DocumentNotFound = 404, "document_not_found", "No document has this id";
    JobNotFound = 404, "job_not_found", "No job has this name";
    GroupsNotFound = 404, "groups_not_found", "There are no such groups";
    GroupsNotReady = 409, "groups_not_ready", "The groups are not found yet", again after 1;
    MethodNotAllowed = 405, "method_not_allowed",
        "The resource does not take this method";
    RequestTimeout = 408, "request_timeout", "The body came too slowly";
    ReplyNotRead = 408, "reply_not_read", "The reply was not read";
    RecipeMismatch = 409, "recipe_mismatch", "The fingerprint was made by another recipe";
    NotANode = 409, "not_a_node", "This service is not a node of a cluster";
    Diverged = 409, "diverged", "The follower has another history than this service";
    ChangesPacked = 410, "changes_packed", "The changes are no longer in the journal";
    LengthRequired = 411, "length_required",
        "A packed body of this size must say its length";
    BodyTooLarge = 413, "body_too_large", "The body is too large";
    LineTooLarge = 413, "line_too_large", "The line is too large";
    MetadataTooLarge = 413, "metadata_too_large", "The metadata is too large";
    UnsupportedMediaType = 415, "unsupported_media_type",
        "The Content-Type is not one this resource takes";
    UnsupportedCharset = 415, "unsupported_charset", "The charset is not known";
    UnsupportedEncoding = 415, "unsupported_encoding",
        "The Content-Encoding is not one that is taken";
    HostNotAllowed = 421, "host_not_allowed", "The request is for another host";
    EmptyDocument = 422, "empty_document",
        "The document has nothing to make a fingerprint from";
    TooManyJobs = 409, "too_many_jobs", "Too many jobs run already", again after 10;
    RateLimited = 429, "rate_limited", "Too many requests with this token",
        again after 1;
    Internal = 500, "internal", "Something is broken here";
    UnreadableRecord = 500, "unreadable_record",
        "A stored record could not be read";
    ClockBeyondExpiries = 500, "clock_beyond_expiries",
        "The clock of the service is past every expiry";
    UnsupportedTransferCoding = 501, "unsupported_transfer_coding",
        "The transfer coding is not supported";
    UnreadableIndex = 503, "unreadable_index",
        "A part of the index could not be read", again after 10;
    Overloaded = 503, "overloaded", "Too much at one time", again after 1;
    Stopping = 503, "stopping", "The service is stopping", again after 1;
    Follower = 503, "follower", "Only the primary of this copy can do this",
        again after 5;
    PrimaryUnreachable = 503, "primary_unreachable",
        "The primary does not answer", again after 1;
    OutcomeUnknown = 503, "outcome_unknown",
        "It is not known whether the request was carried out", again after 1;
    NoLeader = 503, "no_leader", "No node of the cluster leads now",
        again after 1;
    LeaderUnreachable = 503, "leader_unreachable",
        "The leader of the cluster does not answer", again after 1;
    Behind = 503, "behind", "This copy does not have the change yet", again after 1;
    FollowerHalted = 503, "follower_halted",
        "This follower has stopped following its primary", again after 10;
    NodeHalted = 503, "node_halted",
        "This node has stopped reading the log of its cluster", again after 10;
    StorageFailed = 503, "storage_failed", "Storage failed and writes have stopped",
        again after 5;
    DirectoryUnusable = 503, "directory_unusable",
        "The data directory cannot be used", again after 10;
    DiskFull = 507, "disk_full", "The disk is full", again after 10;
    MemoryFull = 507, "memory_full", "The memory limit is reached",
        again after 10;
}

impl Code {
    /// The stable name.
    pub const fn name(self) -> &'static str {
        self.row().1
    }

    /// The code with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
