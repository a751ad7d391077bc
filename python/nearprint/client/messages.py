"""Documents, options and replies, as the service spells them.

They are plain dictionaries at run time, with the fields that proto-free-api.md describes, so a
field that a newer service adds is there at once. An option that is ``None`` counts as not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Fingerprint = int | str
"""A 64-bit integer, signed or not, or 16 hex digits. Replies have 16 lower-case hex digits."""

IdSource = TypedDict("IdSource", {"from": Literal["text-hash", "fingerprint"]})
"""Lets the service make the id, of the text as it was sent or of the fingerprint."""

Id = str | int | IdSource
Include = Sequence[Literal["metadata", "sketch"]]


class Content(TypedDict, total=False):
    """What a document can consist of instead of a text: exactly one of the first four.

    A page as bytes is decoded before it is sent, by its ``charset`` or as browsers do.
    """

    html: str | bytes | bytearray | None
    features: Mapping[str, float] | Sequence[tuple[str, float]] | None
    vector: Sequence[float] | None
    fingerprint: Fingerprint | None
    charset: str | None
    recipe: str | None
    sketch: str | None
    extract: Literal["content", "visible", "main"] | None


class FingerprintOptions(Content, total=False):
    explain: bool | None


class _LookOptions(Content, total=False):
    id: Id | None
    namespace: str | None
    distance: int | None
    limit: int | None
    min_similarity: float | None
    min_numbers: float | None
    search: Literal["likely", "exact"] | None
    counts: bool | None
    max_age: int | None
    include: Include | None


class ReadOptions(TypedDict, total=False):
    """How new an answer must be, for a service that has copies: it contains the change with this
    ``sequence``, or with ``fresh`` every write that was answered before.
    """

    min_sequence: int | None
    fresh: bool | None


class QueryOptions(_LookOptions, ReadOptions, total=False):
    explain: bool | None


class InsertOptions(Content, total=False):
    id: Id | None
    namespace: str | None
    metadata: Mapping[str, Any] | None
    expires_in: int | Literal["never"] | None
    expires_at: int | None


class CheckOptions(_LookOptions, total=False):
    metadata: Mapping[str, Any] | None
    expires_in: int | Literal["never"] | None
    expires_at: int | None
    on_duplicate: Literal["skip", "insert"] | None
    touch: bool | None


class FingerprintDocument(FingerprintOptions, total=False):
    text: str | None


class ComparedDocument(FingerprintDocument, total=False):
    """A document; with an id and no content, the one that is stored."""

    id: str | int | None
    namespace: str | None


class QueryDocument(_LookOptions, total=False):
    text: str | None
    explain: bool | None


class InsertDocument(InsertOptions, total=False):
    text: str | None


class CheckDocument(CheckOptions, total=False):
    text: str | None


class _PackedLookOptions(TypedDict, total=False):
    namespace: str | None
    distance: int | None
    max_age: int | None


class PackedQueryOptions(_PackedLookOptions, ReadOptions, total=False):
    pass


class PackedInsertOptions(TypedDict, total=False):
    namespace: str | None
    expires_in: int | Literal["never"] | None
    expires_at: int | None


class PackedCheckOptions(_PackedLookOptions, PackedInsertOptions, total=False):
    on_duplicate: Literal["skip", "insert"] | None


class _RequiredId(TypedDict):
    id: str | int


class DocumentName(_RequiredId, total=False):
    """The name of a document to delete."""

    namespace: str | None


class CompareOptions(TypedDict, total=False):
    distance: int | None
    min_similarity: float | None
    min_numbers: float | None
    extract: Literal["content", "visible", "main"] | None
    explain: bool | None


class ListOptions(ReadOptions, total=False):
    namespace: str | None
    all_namespaces: bool | None
    prefix: str | None
    include: Include | None
    after: str | None


class FingerprintListOptions(ReadOptions, total=False):
    namespace: str | None
    include: Include | None
    after: str | None


class OriginalsOptions(ReadOptions, total=False):
    namespace: str | None
    all_namespaces: bool | None
    order: Literal["duplicates", "recent"] | None
    include: Include | None


class PurgeOptions(TypedDict, total=False):
    namespace: str | None
    all_namespaces: bool | None
    prefix: str | None
    stored_before: int | None
    dry_run: bool | None


class GroupsOptions(TypedDict, total=False):
    distance: int | None
    min_similarity: float | None
    min_numbers: float | None
    verified: bool | None
    namespace: str | None
    all_namespaces: bool | None
    search: Literal["likely", "exact"] | None
    min_size: int | None


# Replies. Fields that may be missing are in the class with `total=False`.


class _HitDocument(TypedDict):
    id: str | None
    stored_at_ms: int


class HitDocument(_HitDocument, total=False):
    expires_at: int
    metadata: dict[str, Any]


class _Hit(TypedDict):
    fingerprint: str
    distance: int
    similarity: float | None
    numbers: float | None
    confirmed: bool | None
    documents: list[HitDocument]
    document_count: int


class Hit(_Hit, total=False):
    """A stored fingerprint near the one of the request."""

    document_count_is_at_least: bool
    differing_bits: list[dict[str, Any]]


class _FingerprintReply(TypedDict):
    fingerprint: str
    recipe: str
    features: int | None
    short: bool


class FingerprintReply(_FingerprintReply, total=False):
    explanation: dict[str, Any]


class _Look(TypedDict):
    fingerprint: str
    short: bool
    duplicate: bool
    hits: list[Hit]
    hit_count: int
    truncated: bool


class QueryReply(_Look, total=False):
    unverified_matches: int
    explanation: dict[str, Any]


class _Write(TypedDict):
    outcome: Literal["inserted", "duplicate", "already_present", "refreshed", "replaced"]
    stored: bool


class Previous(TypedDict):
    """The document that was stored under the id before, compared with the one that was sent."""

    distance: int
    similarity: float | None
    numbers: float | None
    stored_at_ms: int


class _Insert(_Write):
    fingerprint: str
    short: bool


class InsertReply(_Insert, total=False):
    sequence: int
    previous: Previous


class CheckReply(_Look, _Write, total=False):
    sequence: int
    numbers_differ: bool
    unverified_matches: int
    previous: Previous


class _Delete(TypedDict):
    removed: int
    stored: bool


class DeleteReply(_Delete, total=False):
    sequence: int


class _Compare(TypedDict):
    a: dict[str, Any]
    b: dict[str, Any]
    distance: int
    similarity: float | None
    numbers: float | None
    confirmed: bool | None
    duplicate: bool
    found_by: Literal["distance", "likely"] | None
    kept_apart_by: Literal["distance", "labels", "similarity", "numbers", "length"] | None


class CompareReply(_Compare, total=False):
    explanation: dict[str, Any]


class _Stored(TypedDict):
    namespace: str | None
    id: str | None
    fingerprint: str
    short: bool
    verifiable: bool
    stored_at_ms: int


class StoredDocument(_Stored, total=False):
    recipe: str
    sequence: int
    expires_at: int
    metadata: dict[str, Any]
    sketch: str
    duplicates: int
    last_duplicate_at_ms: int


class Namespace(TypedDict):
    namespace: str
    documents: int


class _Job(TypedDict):
    job: str
    kind: Literal["purge", "groups"]
    state: Literal["waiting", "running", "done", "cancelled", "failed"]
    begun_at_ms: int
    ended_at_ms: int | None


class Job(_Job, total=False):
    """Work that goes on after the reply to the request that began it."""

    namespace: str | None
    all_namespaces: bool
    progress: float
    error: str
    # A purge:
    prefix: str
    stored_before: int
    dry_run: bool
    matched: int
    removed: int
    # A search for groups:
    distance: int
    verified: bool
    min_size: int
    sequence: int | None
    groups: int
    documents: int
    partly_compared: int


class Group(TypedDict):
    group: int
    size: int
    namespace: str | None
    oldest: dict[str, Any]


class _Member(TypedDict):
    fingerprint: str
    id: str | None
    stored_at_ms: int | None


class Member(_Member, total=False):
    """A document of a group; of one that is gone, the rest is missing or null."""

    sequence: int
    gone: bool
    expires_at: int
    metadata: dict[str, Any]


class Snapshot(TypedDict):
    sequence: int
    taken_at_ms: int
    bytes: int
    documents: int


class Reply(TypedDict):
    """Any reply."""


class Page(TypedDict):
    """A page of a list, next to its items."""

    next: str | None


class _PackedInsert(TypedDict):
    received: int
    inserted: int
    stored: bool


class PackedInsertReply(_PackedInsert, total=False):
    sequence: int


class Count(TypedDict):
    """What the numbers of a service and of a namespace have in common."""

    documents: int


class Health(TypedDict):
    status: str


class Snapshots(TypedDict):
    snapshots: list[Snapshot]


class Problem(TypedDict):
    """An error of the service, which becomes an exception."""

    status: int
    code: str
    detail: str
