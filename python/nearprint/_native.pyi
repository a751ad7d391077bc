# The types of the native half; its documentation is in the module itself: help(nearprint).

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import (
    Any,
    Literal,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypedDict,
    final,
    overload,
)

import numpy as np
import numpy.typing as npt

from nearprint._deduplicated import Deduplicated

__all__ = [
    "Checked",
    "FingerprintArray",
    "Hit",
    "Index",
    "Sketch",
    "SpectralModel",
    "_decode",
    "_panic",
    "dedup",
    "distance",
    "explain",
    "fingerprint",
    "fingerprint_many",
    "similarity",
    "sketch",
]

_Extract: TypeAlias = Literal["content", "visible", "main"]
_Search: TypeAlias = Literal["likely", "exact"]
_Errors: TypeAlias = Literal["raise", "null", "replace"]
_Outcome: TypeAlias = Literal["inserted", "replaced", "already_present", "duplicate"]
_Vector: TypeAlias = Sequence[SupportsFloat] | npt.NDArray[np.number[Any]]
_Document: TypeAlias = str | bytes | bytearray | Mapping[str, SupportsFloat] | _Vector

class _ArrowArray(Protocol):
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Ids: TypeAlias = Iterable[str | SupportsIndex] | _ArrowArray | _ArrowStream
_Documents: TypeAlias = Iterable[_Document | None] | npt.NDArray[Any] | _ArrowArray | _ArrowStream
_DocumentsOrFingerprints: TypeAlias = _Documents | Iterable[SupportsIndex | None]

class _Heavy(TypedDict):
    feature: str
    weight: float
    hash: str

class _Bit(TypedDict):
    bit: int
    sum: float
    rank: int

class _Explanation(TypedDict):
    fingerprint: int
    features: int | None
    short: bool
    heaviest: list[_Heavy]
    sums: list[float]
    near_zero: list[_Bit]
    tokens: int

class _Deciding(TypedDict):
    feature: str
    weight_a: float
    weight_b: float

class _Differing(TypedDict):
    bit: int
    sum_a: float
    sum_b: float
    rank_a: int
    rank_b: int
    features: list[_Deciding]

class _Comparison(TypedDict):
    a: _Explanation
    b: _Explanation
    distance: int
    similarity: float | None
    differing_bits: list[_Differing]

def fingerprint(
    document: _Document,
    *,
    recipe: str | SpectralModel = "np2",
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
) -> int: ...
def fingerprint_many(
    documents: _Documents,
    *,
    recipe: str | SpectralModel = "np2",
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
    errors: _Errors = "raise",
    threads: int | None = None,
) -> FingerprintArray: ...
def sketch(
    document: str | bytes | bytearray,
    *,
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
) -> Sketch: ...
def similarity(
    a: str | bytes | bytearray | Sketch,
    b: str | bytes | bytearray | Sketch,
    *,
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
) -> float: ...
def distance(
    a: SupportsIndex | _Document,
    b: SupportsIndex | _Document,
    *,
    recipe: str | SpectralModel = "np2",
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
) -> int: ...
@overload
def explain(
    document: _Document,
    other: None = None,
    *,
    recipe: str | SpectralModel = "np2",
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
) -> _Explanation: ...
@overload
def explain(
    document: _Document,
    other: _Document,
    *,
    recipe: str | SpectralModel = "np2",
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
) -> _Comparison: ...
def dedup(
    documents: _DocumentsOrFingerprints,
    *,
    distance: int = 3,
    min_similarity: float = 0.83,
    min_numbers: float = 0.0,
    search: _Search = "likely",
    recipe: str | SpectralModel = "np2",
    html: bool = False,
    charset: str | None = None,
    extract: _Extract = "content",
    threads: int | None = None,
) -> Deduplicated: ...
def _decode(body: bytes | bytearray, charset: str | None, *, html: bool) -> str: ...
def _panic() -> None: ...

@final
class Sketch:
    def __new__(cls, data: bytes, /) -> Sketch: ...
    def similarity(self, other: Sketch, /) -> float: ...
    def __bytes__(self) -> bytes: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class SpectralModel:
    def __new__(cls, data: bytes, /) -> SpectralModel: ...
    @property
    def recipe(self) -> str: ...

@final
class FingerprintArray:
    def __new__(cls, fingerprints: Iterable[SupportsIndex | None], /) -> FingerprintArray: ...
    @property
    def null_count(self) -> int: ...
    def to_numpy(self, null: int | None = None) -> npt.NDArray[np.uint64]: ...
    def to_masked(self) -> np.ma.MaskedArray[Any, np.dtype[np.uint64]]: ...
    def tolist(self, *, signed: bool = False) -> list[int | None]: ...
    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int | None]: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int | None: ...
    @overload
    def __getitem__(self, index: slice, /) -> FingerprintArray: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Hit:
    def __new__(
        cls,
        id: str,
        fingerprint: int,
        distance: int,
        similarity: float | None = None,
        numbers: float | None = None,
    ) -> Hit: ...
    def __reduce__(
        self,
    ) -> tuple[type[Hit], tuple[str, int, int, float | None, float | None]]: ...
    @property
    def id(self) -> str: ...
    @property
    def fingerprint(self) -> int: ...
    @property
    def distance(self) -> int: ...
    @property
    def similarity(self) -> float | None: ...
    @property
    def numbers(self) -> float | None: ...

@final
class Checked:
    def __new__(cls, outcome: _Outcome, hit: Hit | None = None) -> Checked: ...
    def __reduce__(self) -> tuple[type[Checked], tuple[_Outcome, Hit | None]]: ...
    @property
    def outcome(self) -> _Outcome: ...
    @property
    def hit(self) -> Hit | None: ...
    @property
    def duplicate(self) -> bool: ...

@final
class Index:
    def __new__(
        cls,
        *,
        recipe: str | SpectralModel = "np2",
        distance_max: int = 3,
        min_similarity: float = 0.83,
        min_numbers: float = 0.0,
        search: _Search = "likely",
        extract: _Extract = "content",
    ) -> Index: ...
    @property
    def recipe(self) -> str: ...
    @property
    def distance_max(self) -> int: ...
    def insert(
        self,
        id: str | SupportsIndex,
        document: SupportsIndex | _Document,
        *,
        html: bool = False,
        charset: str | None = None,
        sketch: Sketch | None = None,
        recipe: str | None = None,
    ) -> _Outcome: ...
    def check_and_insert(
        self,
        id: str | SupportsIndex,
        document: SupportsIndex | _Document,
        *,
        distance: int | None = None,
        min_similarity: float | None = None,
        min_numbers: float | None = None,
        search: _Search | None = None,
        html: bool = False,
        charset: str | None = None,
        sketch: Sketch | None = None,
        recipe: str | None = None,
    ) -> Checked: ...
    def query(
        self,
        document: SupportsIndex | _Document,
        *,
        distance: int | None = None,
        min_similarity: float | None = None,
        min_numbers: float | None = None,
        search: _Search | None = None,
        limit: int = 10,
        id: str | SupportsIndex | None = None,
        html: bool = False,
        charset: str | None = None,
        sketch: Sketch | None = None,
        recipe: str | None = None,
    ) -> list[Hit]: ...
    def delete(self, id: str | SupportsIndex) -> bool: ...
    def get(self, id: str | SupportsIndex) -> int | None: ...
    def insert_many(
        self,
        ids: _Ids,
        documents: _DocumentsOrFingerprints,
        *,
        html: bool = False,
        charset: str | None = None,
        errors: _Errors = "raise",
        threads: int | None = None,
    ) -> list[_Outcome | None]: ...
    def check_and_insert_many(
        self,
        ids: _Ids,
        documents: _DocumentsOrFingerprints,
        *,
        distance: int | None = None,
        min_similarity: float | None = None,
        min_numbers: float | None = None,
        search: _Search | None = None,
        html: bool = False,
        charset: str | None = None,
        errors: _Errors = "raise",
        threads: int | None = None,
    ) -> list[Checked | None]: ...
    def query_many(
        self,
        documents: _DocumentsOrFingerprints,
        *,
        distance: int | None = None,
        min_similarity: float | None = None,
        min_numbers: float | None = None,
        search: _Search | None = None,
        limit: int = 10,
        html: bool = False,
        charset: str | None = None,
        errors: _Errors = "raise",
        threads: int | None = None,
    ) -> list[list[Hit] | None]: ...
    def items(self) -> list[tuple[str, int]]: ...
    def groups(
        self,
        *,
        distance: int | None = None,
        min_similarity: float | None = None,
        min_numbers: float | None = None,
        search: _Search | None = None,
        threads: int | None = None,
    ) -> list[list[str]]: ...
    def merge(self, other: Index, /) -> None: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Index: ...
    @classmethod
    def from_bytes(cls, data: bytes | bytearray, /) -> Index: ...
    def __bytes__(self) -> bytes: ...
    def __reduce__(self) -> tuple[Callable[[bytes], Index], tuple[bytes]]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, id: str | SupportsIndex, /) -> bool: ...
