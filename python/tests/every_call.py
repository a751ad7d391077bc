"""A program with every call of the package, for `mypy --strict`; test_package.py also runs the part
that needs no service."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, assert_type

import nearprint
import numpy as np
import numpy.typing as npt
from nearprint import AsyncClient, Client, NearprintError
from nearprint.client import messages as m

TEXT = "The ferry to the island leaves at seven in the morning and returns at noon, but not today."


def functions() -> None:
    assert_type(nearprint.fingerprint(TEXT), int)
    nearprint.fingerprint(b"<p>tea", recipe="np2", html=True, charset="latin1", extract="visible")
    nearprint.fingerprint({"lamp": 3, "wire": 1.5})
    nearprint.fingerprint([0.5, -1.25], recipe="hyperplanes-2")
    column = nearprint.fingerprint_many([TEXT, None], recipe="np2", threads=1)
    assert_type(column, nearprint.FingerprintArray)
    nearprint.fingerprint_many(np.ones((2, 3)), recipe="hyperplanes-3")
    assert_type(column.null_count, int)
    assert_type(column.tolist(), list[int | None])
    assert_type(column.to_numpy(null=0), npt.NDArray[np.uint64])
    print(column.to_masked().mask)
    assert_type(column[0], int | None)
    assert_type(column[:1], nearprint.FingerprintArray)
    assert_type(list(column), list[int | None])
    assert_type(column == nearprint.FingerprintArray(column), bool)
    assert_type(np.asarray(column), npt.NDArray[Any])
    assert_type(len(column), int)
    sketch = nearprint.sketch(TEXT, html=False, charset=None, extract="content")
    assert_type(sketch, nearprint.Sketch)
    assert_type(nearprint.Sketch(bytes(sketch)).similarity(sketch), float)
    assert_type(nearprint.similarity(TEXT, sketch), float)
    assert_type(nearprint.distance(7, TEXT, recipe="np2"), int)
    assert_type(nearprint.explain(TEXT)["heaviest"][0]["feature"], str)
    assert_type(nearprint.explain(TEXT, "tea")["differing_bits"][0]["bit"], int)
    found = nearprint.dedup(
        [TEXT, None, TEXT],
        distance=3,
        min_similarity=0.83,
        min_numbers=0.0,
        search="likely",
        recipe="np2",
        html=False,
        charset=None,
        extract="content",
        threads=1,
    )
    assert_type(found, nearprint.Deduplicated)
    keep, group, original = nearprint.dedup(column)
    assert_type(keep, npt.NDArray[np.bool_])
    assert_type(group, npt.NDArray[np.int64])
    assert_type(original, npt.NDArray[np.int64])


def index() -> None:
    index = nearprint.Index(
        recipe="np2",
        distance_max=6,
        min_similarity=0.8,
        min_numbers=0.0,
        search="exact",
        extract="main",
    )
    assert_type(index.recipe, str)
    assert_type(index.distance_max, int)
    outcome = index.insert("a", TEXT, html=False, charset=None)
    print(outcome, index.insert(7, 7, sketch=nearprint.sketch(TEXT), recipe="np2"))
    checked = index.check_and_insert("b", TEXT, distance=3, min_similarity=0.9, search="likely")
    assert_type(checked, nearprint.Checked)
    assert_type(checked.duplicate, bool)
    assert_type(checked.hit, nearprint.Hit | None)
    [hit] = index.query(TEXT, distance=2, min_numbers=0.5, limit=3, id="b")
    assert_type(hit, nearprint.Hit)
    assert_type((hit.id, hit.fingerprint, hit.distance), tuple[str, int, int])
    assert_type((hit.similarity, hit.numbers), tuple[float | None, float | None])
    assert_type(nearprint.Checked("duplicate", nearprint.Hit("a", 11, 1)).outcome == outcome, bool)
    print(index.insert_many([1, "2"], ["tea", None], threads=1))
    assert_type(index.check_and_insert_many("cd", [TEXT, None]), list[nearprint.Checked | None])
    assert_type(index.query_many([TEXT], limit=1), list[list[nearprint.Hit] | None])
    assert_type(index.get("a"), int | None)
    assert_type(index.delete(7), bool)
    assert_type("a" in index, bool)
    assert_type(len(index), int)
    assert_type(list(index), list[str])
    assert_type(index.items(), list[tuple[str, int]])
    groups = index.groups(distance=1, min_similarity=0.9, min_numbers=0.1, search="exact")
    assert_type(groups, list[list[str]])
    index.groups(threads=1)
    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/index")
        index.save(Path(folder, "index"))
        assert_type(nearprint.Index.load(Path(folder, "index")), nearprint.Index)
    other = nearprint.Index.from_bytes(bytes(index))
    assert_type(other, nearprint.Index)
    index.merge(other)
    assert_type(copy.deepcopy(index), nearprint.Index)
    assert_type(pickle.loads(pickle.dumps(index)), Any)


def model(data: bytes) -> None:
    model = nearprint.SpectralModel(data)
    assert_type(model.recipe, str)
    nearprint.Index(recipe=model)


def errors() -> None:
    try:
        nearprint.fingerprint("...")
    except nearprint.EmptyDocument as error:
        assert_type(error.field, str | None)
        assert_type(error.code, str)
    assert issubclass(nearprint.errors.InvalidValue, NearprintError)


def client(client: Client) -> None:
    with client:
        assert_type(client.fingerprint(TEXT), m.FingerprintReply)
        assert_type(client.query(TEXT, distance=3), m.QueryReply)
        assert_type(client.insert(TEXT, id="a"), m.InsertReply)
        assert_type(client.check_and_insert(TEXT, id="b"), m.CheckReply)
        assert_type(client.compare(TEXT, {"text": "tea"}), m.CompareReply)
        assert_type(client.get("a", namespace="n", fresh=True), m.StoredDocument | None)
        assert_type(client.delete(7), bool)
        assert_type(client.delete_fingerprint(7, namespace="n"), int)
        assert_type(client.fingerprint_many([TEXT]), Iterator[m.FingerprintReply | NearprintError])
        assert_type(client.query_many([TEXT]), Iterator[m.QueryReply | NearprintError])
        assert_type(client.insert_many([TEXT]), Iterator[m.InsertReply | NearprintError])
        assert_type(client.check_and_insert_many([TEXT]), Iterator[m.CheckReply | NearprintError])
        assert_type(client.delete_many(["a", 7]), Iterator[m.DeleteReply | NearprintError])
        packed = np.arange(3, dtype=np.uint64)
        assert_type(client.query_packed(packed), npt.NDArray[np.uint8])
        assert_type(client.insert_packed(packed), int)
        assert_type(client.check_and_insert_packed(packed), npt.NDArray[np.uint8])
        assert_type(client.documents(), Iterator[m.StoredDocument])
        assert_type(client.documents_of(7), Iterator[m.StoredDocument])
        assert_type(client.namespaces(), Iterator[m.Namespace])
        assert_type(client.originals(), Iterator[m.StoredDocument])
        assert_type(client.purge(namespace="n"), m.Job)
        assert_type(client.find_groups(), m.Job)
        assert_type(client.groups("1"), Iterator[m.Group])
        assert_type(client.group("1", 1), Iterator[m.Member])
        assert_type(client.jobs(), Iterator[m.Job])
        assert_type(client.job("1"), m.Job)
        assert_type(client.wait_for_job("1", timeout=3), m.Job)
        assert_type(client.cancel_job("1"), m.Job)
        client.wait_until_ready()
        assert_type(client.stats(), dict[str, Any])
        assert_type(client.count("n"), int)
        assert_type(client.take_snapshot(), m.Snapshot)
        assert_type(client.snapshots(), list[m.Snapshot])
    client.close()


async def asynchronous(client: AsyncClient) -> None:
    async with client:
        assert_type(await client.query(TEXT, distance=3), m.QueryReply)
        assert_type(await client.check_and_insert(TEXT, id="b"), m.CheckReply)
        assert_type(client.query_many([TEXT]), AsyncIterator[m.QueryReply | NearprintError])
        assert_type(client.documents(), AsyncIterator[m.StoredDocument])
        assert_type(await client.count("n"), int)


if __name__ == "__main__":
    functions()
    index()
    errors()
