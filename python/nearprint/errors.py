"""What can go wrong, as exceptions.

Each code of the service has a class here, with or without a service: a text without a letter raises
:class:`EmptyDocument` from :func:`nearprint.fingerprint` as from a client. Those that are about a
value that the caller gave are also :class:`ValueError`. Catch :class:`NearprintError` for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class NearprintError(Exception):
    """Something that nearprint refuses or cannot do.

    :ivar code: The stable name of the error, as the service has it.
    :ivar detail: What is wrong, and what to do next.
    :ivar status: The status of the service's reply; ``None`` without a service.
    :ivar field: The argument or the field that is wrong, if it is known.
    :ivar line: The line of a batch, counted from 1; ``None`` outside of one.
    """

    code: str = "unknown"

    def __init__(
        self,
        detail: str = "",
        *,
        status: int | None = None,
        field: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.field = field
        self.line = line

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle their positional arguments alone; these cross processes in Spark and datatrove.
        return _restored, (type(self), self.__dict__)


def _restored(kind: type[NearprintError], facts: dict[str, Any]) -> NearprintError:
    error = kind(facts["detail"])
    error.__dict__.update(facts)
    return error


class MalformedJson(NearprintError, ValueError):
    """The body is not JSON."""

    code = "malformed_json"


class InvalidValue(NearprintError, ValueError):
    """A value is not acceptable."""

    code = "invalid_value"


class UnknownField(NearprintError, ValueError):
    """A field is not known."""

    code = "unknown_field"


class RepeatedField(NearprintError, ValueError):
    """A field was given twice."""

    code = "repeated_field"


class DocumentMissing(NearprintError, ValueError):
    """There is no document."""

    code = "document_missing"


class DocumentAmbiguous(NearprintError, ValueError):
    """A document came in more than one form."""

    code = "document_ambiguous"


class DistanceAboveMax(NearprintError, ValueError):
    """The distance is above the configured maximum."""

    code = "distance_above_max"


class DimensionMismatch(NearprintError, ValueError):
    """The vector has another number of dimensions."""

    code = "dimension_mismatch"


class PackedLength(NearprintError, ValueError):
    """Packed fingerprints have 8 bytes each."""

    code = "packed_length"


class BodyIncomplete(NearprintError):
    """The body broke off."""

    code = "body_incomplete"


class MalformedEncoding(NearprintError, ValueError):
    """The body is not what its Content-Encoding says."""

    code = "malformed_encoding"


class InvalidHost(NearprintError):
    """The Host header is not valid."""

    code = "invalid_host"


class TokenMissing(NearprintError):
    """A token is needed."""

    code = "token_missing"


class TokenUnknown(NearprintError):
    """The token is not known."""

    code = "token_unknown"


class ScopeMissing(NearprintError):
    """The token does not allow this."""

    code = "scope_missing"


class NamespaceNotAllowed(NearprintError):
    """The token does not reach this namespace."""

    code = "namespace_not_allowed"


class CrossSite(NearprintError):
    """Another site sent this request."""

    code = "cross_site"


class NotFound(NearprintError):
    """There is no such resource."""

    code = "not_found"


class DocumentNotFound(NearprintError):
    """No document has this id."""

    code = "document_not_found"


class JobNotFound(NearprintError):
    """No job has this number."""

    code = "job_not_found"


class GroupsNotFound(NearprintError):
    """There are no such groups."""

    code = "groups_not_found"


class GroupsNotReady(NearprintError):
    """The groups are not found yet."""

    code = "groups_not_ready"


class MethodNotAllowed(NearprintError):
    """The resource does not take this method."""

    code = "method_not_allowed"


class RequestTimeout(NearprintError):
    """The body came too slowly."""

    code = "request_timeout"


class ReplyNotRead(NearprintError):
    """The reply was not read."""

    code = "reply_not_read"


class RecipeMismatch(NearprintError, ValueError):
    """The fingerprint was made by another recipe."""

    code = "recipe_mismatch"


class NotANode(NearprintError):
    """This service is not a node of a cluster."""

    code = "not_a_node"


class Diverged(NearprintError):
    """The follower has another history than this service."""

    code = "diverged"


class ChangesPacked(NearprintError):
    """The changes are no longer in the journal."""

    code = "changes_packed"


class LengthRequired(NearprintError):
    """A packed body of this size must say its length."""

    code = "length_required"


class BodyTooLarge(NearprintError, ValueError):
    """The body is too large."""

    code = "body_too_large"


class LineTooLarge(NearprintError, ValueError):
    """The line is too large."""

    code = "line_too_large"


class MetadataTooLarge(NearprintError, ValueError):
    """The metadata is too large."""

    code = "metadata_too_large"


class UnsupportedMediaType(NearprintError):
    """The Content-Type is not one this resource takes."""

    code = "unsupported_media_type"


class UnsupportedCharset(NearprintError, ValueError):
    """The charset is not known."""

    code = "unsupported_charset"


class UnsupportedEncoding(NearprintError):
    """The body is compressed."""

    code = "unsupported_encoding"


class HostNotAllowed(NearprintError):
    """The request is for another host."""

    code = "host_not_allowed"


class EmptyDocument(NearprintError, ValueError):
    """The document has nothing to make a fingerprint from."""

    code = "empty_document"


class TooManyJobs(NearprintError):
    """Too many jobs run already."""

    code = "too_many_jobs"


class RateLimited(NearprintError):
    """Too many requests with this token."""

    code = "rate_limited"


class Internal(NearprintError):
    """Something is broken here."""

    code = "internal"


class UnreadableRecord(NearprintError):
    """A stored record could not be read."""

    code = "unreadable_record"


class ClockBeyondExpiries(NearprintError):
    """The clock of the service is past every expiry."""

    code = "clock_beyond_expiries"


class UnsupportedTransferCoding(NearprintError):
    """The transfer coding is not supported."""

    code = "unsupported_transfer_coding"


class UnreadableIndex(NearprintError):
    """A part of the index could not be read."""

    code = "unreadable_index"


class Overloaded(NearprintError):
    """Too much at one time.

    :ivar done: How many documents of a long input, or of a batch, were answered before.
    """

    code = "overloaded"

    def __init__(self, detail: str = "", *, done: int = 0, **facts: Any) -> None:
        super().__init__(detail, **facts)
        self.done = done


class Stopping(NearprintError):
    """The service is stopping."""

    code = "stopping"


class Follower(NearprintError):
    """Only the primary of this copy can do this."""

    code = "follower"


class PrimaryUnreachable(NearprintError):
    """The primary does not answer."""

    code = "primary_unreachable"


class OutcomeUnknown(NearprintError):
    """It is not known whether the request was carried out."""

    code = "outcome_unknown"


class NoLeader(NearprintError):
    """No node of the cluster leads now."""

    code = "no_leader"


class LeaderUnreachable(NearprintError):
    """The leader of the cluster does not answer."""

    code = "leader_unreachable"


class Behind(NearprintError):
    """This copy does not have the change yet."""

    code = "behind"


class FollowerHalted(NearprintError):
    """This follower has stopped following its primary."""

    code = "follower_halted"


class NodeHalted(NearprintError):
    """This node has stopped reading the log of its cluster."""

    code = "node_halted"


class StorageFailed(NearprintError):
    """Storage failed and writes have stopped."""

    code = "storage_failed"


class DirectoryUnusable(NearprintError):
    """The data directory cannot be used."""

    code = "directory_unusable"


class DiskFull(NearprintError):
    """The disk is full."""

    code = "disk_full"


class MemoryFull(NearprintError):
    """The memory limit is reached."""

    code = "memory_full"


BY_CODE: Mapping[str, type[NearprintError]] = {
    error.code: error for error in NearprintError.__subclasses__()
}
"""The class of each code of the service."""


class Unreachable(NearprintError):
    """A client gets no reply of the service: the message names the address and the cause.

    :ivar done: How many documents of a long input were answered before.
    """

    code = "unreachable"

    def __init__(self, detail: str = "", *, done: int = 0, **facts: Any) -> None:
        super().__init__(detail, **facts)
        self.done = done


def of_problem(problem: Mapping[str, Any]) -> NearprintError:
    """Make the exception of a problem document of the service (RFC 9457).

    >>> of_problem({"code": "empty_document", "detail": "No letter.", "status": 422})
    EmptyDocument('No letter.')

    A code of a newer service becomes a plain :class:`NearprintError` with that code.
    """
    code = str(problem.get("code", NearprintError.code))
    detail, field = str(problem.get("detail") or problem.get("title") or code), problem.get("field")
    # The columns are those of JSON that the caller never saw.
    detail = re.sub(r" \(column \d+\)$", "", detail)
    if code == UnknownField.code and field:
        detail = f"{field!r} is not known: {detail}"
    elif field and str(field) not in detail:
        detail = f"{field}: {detail}"
    error = BY_CODE.get(code, NearprintError)(
        detail,
        status=problem.get("status"),
        field=field,
        line=problem.get("line"),
    )
    if error.code != code:
        error.code = code
    return error
