//! The errors that each operation can give, which the list of routes ([`crate::http::router()`])
//! names by these groups. `tests/http_contract` compares every error that it gets with the
//! description.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, Response, ResponseBuilder};

use crate::access::{Need, Permission};
use crate::http::middleware::access::{Concerned, Rule};
use crate::http::problem::{Code, status};

/// Some of the errors of an operation.
pub(crate) type ErrorGroup = &'static [Code];

/// Those of the head of any request.
const ANY: ErrorGroup = &[
    Code::InvalidHost,
    Code::CrossSite,
    Code::HostNotAllowed,
    Code::UnsupportedTransferCoding,
    Code::Internal,
];

/// Errors of every request except probes.
pub(crate) const BUSY: ErrorGroup = &[Code::Overloaded];

/// Errors of parameters in the path or the query string.
pub(crate) const PARAMETERS: ErrorGroup =
    &[Code::InvalidValue, Code::UnknownField, Code::RepeatedField];

/// Errors of the media type, charset and coding of a body.
pub(crate) const TYPES: ErrorGroup =
    &[Code::UnsupportedMediaType, Code::UnsupportedCharset, Code::UnsupportedEncoding];

/// Errors of a body that is read whole.
pub(crate) const BODY: ErrorGroup = &[
    Code::BodyIncomplete,
    Code::MalformedEncoding,
    Code::RequestTimeout,
    Code::BodyTooLarge,
    Code::Stopping,
];

/// Those of JSON.
pub(crate) const JSON: ErrorGroup =
    &[Code::MalformedJson, Code::InvalidValue, Code::UnknownField, Code::RepeatedField];

/// Those of a packed batch, which comes in a body or in pieces.
pub(crate) const PACKED: ErrorGroup = &[
    Code::PackedLength,
    Code::LengthRequired,
    Code::BodyIncomplete,
    Code::MalformedEncoding,
    Code::RequestTimeout,
    Code::Stopping,
];

/// Those of a document and the recipe of the service.
pub(crate) const DOCUMENT: ErrorGroup = &[
    Code::DocumentMissing,
    Code::DocumentAmbiguous,
    Code::DimensionMismatch,
    Code::RecipeMismatch,
    Code::EmptyDocument,
];

/// Those of a bare fingerprint.
pub(crate) const FINGERPRINT: ErrorGroup = &[Code::DocumentMissing, Code::RecipeMismatch];

/// Those of the distance of a look-up.
pub(crate) const DISTANCE: ErrorGroup = &[Code::DistanceAboveMax];

/// Those of reading what is stored.
pub(crate) const READ: ErrorGroup =
    &[Code::UnreadableRecord, Code::UnreadableIndex, Code::StorageFailed];

/// Those of a request that concerns a namespace.
pub(crate) const NAMESPACE: ErrorGroup = &[Code::NamespaceNotAllowed];

/// Those of a change.
pub(crate) const CHANGE: ErrorGroup =
    &[Code::Stopping, Code::StorageFailed, Code::DirectoryUnusable, Code::DiskFull];

/// Those of a change that adds documents.
pub(crate) const ADDITION: ErrorGroup = &[Code::MemoryFull, Code::ClockBeyondExpiries];

/// Why a service is not ready, which a probe gets as 503 whatever the status of a write would be.
pub(crate) const READINESS: ErrorGroup = &[
    Code::Behind,
    Code::FollowerHalted,
    Code::NodeHalted,
    Code::Stopping,
    Code::StorageFailed,
    Code::DirectoryUnusable,
    Code::DiskFull,
    Code::MemoryFull,
];

/// Why a service passes no writes on.
pub(crate) const PASSES_ON: ErrorGroup =
    &[Code::Follower, Code::PrimaryUnreachable, Code::NoLeader, Code::LeaderUnreachable];

/// Of what only a node of a cluster does.
pub(crate) const OF_NODE: ErrorGroup = &[Code::NotANode];

/// Those of a follower's request for changes.
pub(crate) const CHANGES: ErrorGroup =
    &[Code::Diverged, Code::ChangesPacked, Code::UnreadableRecord];

/// Those of any request that reads what is stored, and may have to be answered elsewhere.
const READING: ErrorGroup = &[
    Code::Follower,
    Code::PrimaryUnreachable,
    Code::NoLeader,
    Code::LeaderUnreachable,
    Code::Behind,
    Code::Overloaded,
];

/// Those of any request that changes what is stored, and may have to be answered elsewhere.
const WRITING: ErrorGroup = &[
    Code::Follower,
    Code::PrimaryUnreachable,
    Code::NoLeader,
    Code::LeaderUnreachable,
    Code::OutcomeUnknown,
];

/// Those of metadata.
pub(crate) const METADATA: ErrorGroup = &[Code::MetadataTooLarge];

/// Those of operations that stop with the service.
pub(crate) const WHILE_RUNNING: ErrorGroup = &[Code::Stopping, Code::StorageFailed];

/// Those of a request for one document.
pub(crate) const ONE_DOCUMENT: ErrorGroup = &[Code::DocumentNotFound];

/// Those of a request for a file.
pub(crate) const ONE_FILE: ErrorGroup = &[Code::NotFound];

/// Those of a request for a job.
pub(crate) const ONE_JOB: ErrorGroup = &[Code::JobNotFound];

/// Those of a request for a job that finds groups.
pub(crate) const ONE_SEARCH: ErrorGroup = &[Code::GroupsNotFound];

/// Those of a request for the result of one.
pub(crate) const FOUND_GROUPS: ErrorGroup = &[Code::GroupsNotReady];

/// Those of a request that begins a job.
pub(crate) const NEW_JOB: ErrorGroup = &[Code::TooManyJobs];

/// Describes the errors of an operation: its own groups, and those that its rule may bring.
pub(crate) fn describe(operation: &mut Operation, groups: &[ErrorGroup], rule: Rule) {
    let of_token: ErrorGroup = match rule.need {
        Need::Nothing => &[],
        Need::Token => &[Code::TokenMissing, Code::TokenUnknown, Code::RateLimited],
        Need::Permission(_) => {
            &[Code::TokenMissing, Code::TokenUnknown, Code::RateLimited, Code::ScopeMissing]
        }
    };
    let concerns_all: ErrorGroup = if rule.namespaces == Concerned::All { NAMESPACE } else { &[] };
    let of_permission: ErrorGroup = match rule.need {
        Need::Permission(Permission::Read) => READING,
        Need::Permission(Permission::Write) => WRITING,
        Need::Permission(Permission::Admin) | Need::Token | Need::Nothing => &[],
    };
    let all = [ANY, of_token, concerns_all, of_permission];
    let given = |code: &&Code| all.iter().chain(groups).any(|group| group.contains(code));
    let is_probe = groups.contains(&READINESS);
    let mut by_status: BTreeMap<StatusCode, Vec<Code>> = BTreeMap::new();
    // In the order of the table of all errors.
    for code in Code::ALL.iter().filter(given) {
        let is_of_probe = is_probe && READINESS.contains(code);
        let status = if is_of_probe { StatusCode::SERVICE_UNAVAILABLE } else { status(*code) };
        by_status.entry(status).or_default().push(*code);
    }
    for (status, codes) in by_status {
        let response = response(status, &codes).into();
        operation.responses.responses.insert(status.as_str().to_owned(), response);
    }
}

fn response(status: StatusCode, codes: &[Code]) -> Response {
    let names: Vec<String> = codes.iter().map(|code| format!("`{}`", code.name())).collect();
    let names = names.join(", ");
    let description = match status.as_u16() {
        400 => format!("Malformed or contradictory: {names}"),
        507 => format!("{names}; look-ups go on"),
        _ => names,
    };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content);
    if codes.iter().any(|code| code.retry_after().is_some()) {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
        let header = HeaderBuilder::new()
            .schema(Some(seconds))
            .description(Some("After how many seconds the same request may succeed"));
        response = response.header("Retry-After", header.build());
    }
    if status == StatusCode::UNAUTHORIZED {
        let text = ObjectBuilder::new().schema_type(Type::String);
        response =
            response.header("WWW-Authenticate", HeaderBuilder::new().schema(Some(text)).build());
    }
    response.build()
}
