"""An index that outlives its process: files, pickles, copies."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import random
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import nearprint
import numpy as np
import pytest
from nearprint import errors

WORDS = [
    "lamp",
    "stair",
    "kettle",
    "harbour",
    "ferry",
    "baker",
    "wire",
    "panel",
    "lift",
    "morning",
    "noon",
    "bread",
]


def texts(count: int, seed: int) -> list[str]:
    """Texts of which some are near-duplicates of one before."""
    draw = random.Random(seed)
    made: list[str] = []
    for number in range(count):
        if made and draw.random() < 0.3:
            words = draw.choice(made).split()
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        else:
            words = [f"{draw.choice(WORDS)}{draw.randrange(900)}" for _ in range(24)]
        made.append(" ".join([*words, str(number % 7)]))
    return made


def filled(count: int, seed: int = 1) -> nearprint.Index:
    """An index that documents were inserted into, replaced in and removed from."""
    index = nearprint.Index(distance_max=5, min_similarity=0.8, min_numbers=0.25)
    made = texts(count, seed)
    index.insert_many(range(count), made)
    for number in range(0, count, 17):
        index.delete(number)
    for number in range(3, count, 17):
        index.insert(number, made[number] + " and more words that were added")
    index.insert("bare", 2**64 - 1)
    index.insert("short", "black tea")
    return index


def assert_same(index: nearprint.Index, other: nearprint.Index) -> None:
    """Both answer alike."""
    assert other.items() == index.items() and len(other) == len(index)
    assert (other.recipe, other.distance_max) == (index.recipe, index.distance_max)
    queries = [*texts(150, 1), "black tea", "black tee", *(bits for _, bits in index.items())]
    assert other.query_many(queries) == index.query_many(queries)
    assert any(hit.similarity for hits in index.query_many(queries) for hit in hits or ())
    assert other.query_many(queries, distance=5) == index.query_many(queries, distance=5)
    checks = range(10_000, 10_000 + len(queries))
    apart = [copy.copy(index), copy.copy(other)]
    assert (
        apart[0].check_and_insert_many(checks, queries)
        == apart[1].check_and_insert_many(checks, queries)
    )  # fmt: skip
    assert apart[0].items() == apart[1].items()


@pytest.mark.parametrize("count", [0, 200, 40_000])
def test_a_saved_index_answers_as_before(count: int, tmp_path: Path) -> None:
    index = filled(count)
    assert index.save(tmp_path / "index") is None
    loaded = nearprint.Index.load(str(tmp_path / "index"))
    assert_same(index, loaded)
    loaded.save(tmp_path / "again")
    assert_same(index, nearprint.Index.load(tmp_path / "again"))
    assert sorted(os.listdir(tmp_path)) == ["again", "index"]


def test_every_option_comes_back(tmp_path: Path, lamp: str, cable: str) -> None:
    strict = nearprint.Index(min_similarity=0.99, search="exact", extract="visible")
    loose = nearprint.Index(min_similarity=0.0, distance_max=12)
    page = "<nav>Home and more</nav><p>{}</p>"
    for index in (strict, loose, nearprint.Index(min_numbers=1.0)):
        index.insert("a", lamp + " in 1990")
        index.insert("page", page.format(lamp), html=True)
        index.save(tmp_path / "index")
        loaded = nearprint.Index.load(tmp_path / "index")
        for query in (cable + " in 1990", lamp + " in 1991", lamp):
            assert loaded.query(query) == index.query(query)
        for query in (page.format(lamp), page.format(lamp).replace("Home", "Start")):
            assert loaded.query(query, html=True) == index.query(query, html=True)
    vectors = nearprint.Index(recipe="hyperplanes-3")
    vectors.insert_many("ab", np.array([[1.0, 2.0, 3.0], [-3.0, 1.0, 0.5]]))
    vectors.save(tmp_path / "index")
    loaded = nearprint.Index.load(tmp_path / "index")
    assert loaded.recipe == "hyperplanes-3"
    assert [hit.id for hit in loaded.query([-3.0, 1.0, 0.5])] == ["b"]
    with pytest.raises(errors.RecipeMismatch):
        loaded.insert("c", lamp)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    index = filled(30)
    path = tmp_path / "index"
    index.save(path)
    whole = path.read_bytes()
    draw = random.Random(3)
    for at in {0, 5, 12, 19, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(200))}:
        changed = bytearray(whole)
        changed[at] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(errors.InvalidValue) as caught:
            nearprint.Index.load(path)
        assert str(path) in str(caught.value) and caught.value.field == "path"
        path.write_bytes(whole[:at])
        with pytest.raises(errors.InvalidValue, match="cannot be read: it ends too early"):
            nearprint.Index.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(errors.InvalidValue, match="bytes follow its end"):
        nearprint.Index.load(path)


@pytest.mark.parametrize("foreign", [b"", b"{}\n", b"PK\x03\x04" * 400, bytes(100), b"text " * 99])
def test_a_foreign_file_is_refused(foreign: bytes, tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(foreign)
    with pytest.raises(errors.InvalidValue, match="not an index|too early to be a whole index"):
        nearprint.Index.load(path)
    with pytest.raises(errors.InvalidValue, match="data: "):
        nearprint.Index.from_bytes(foreign)


def test_the_system_says_why_a_file_cannot_be_used(tmp_path: Path) -> None:
    index = filled(3)
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught:
        nearprint.Index.load(missing)
    assert caught.value.filename == str(missing)
    with pytest.raises(FileNotFoundError):
        index.save(missing / "index")
    with pytest.raises(OSError, match="no regular file"):
        index.save(tmp_path)
    with pytest.raises(IsADirectoryError):
        nearprint.Index.load(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_the_file_before(tmp_path: Path) -> None:
    """A process that may write 64 KiB to a file fails in the middle."""
    path = tmp_path / "index"
    filled(3).save(path)
    before = path.read_bytes()
    program = """
import resource, signal, sys
import nearprint
index = nearprint.Index()
index.insert_many(range(9_000), range(9_000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))
try:
    index.save(sys.argv[1])
except OSError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert "File too large" in run.stdout and str(path) in run.stdout
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["index"]


def test_a_file_that_is_there_keeps_its_link_and_permissions(tmp_path: Path) -> None:
    index, path, link = filled(3), tmp_path / "index", tmp_path / "link"
    mask = os.umask(0o027)
    try:
        index.save(path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    index.insert("another", 7)
    index.save(link)
    assert link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o604
    assert "another" in nearprint.Index.load(path)


def test_a_file_has_what_the_index_held_at_one_moment(tmp_path: Path) -> None:
    """Another thread inserts and removes pairs of documents meanwhile."""
    index = nearprint.Index()
    index.insert_many(range(20_000), np.arange(20_000, dtype=np.uint64) << 20)
    stop = threading.Event()

    def write() -> None:
        number = 100_000
        while not stop.is_set():
            index.insert_many([number, -number], [number << 30, number << 31])
            index.delete(number)
            index.insert_many([number], [number << 32])
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            before = len(index)
            index.save(tmp_path / "index")
            loaded = nearprint.Index.load(tmp_path / "index")
            items = dict(loaded.items())
            assert before - 1 <= len(loaded) == len(items)
            assert all(loaded.query(bits, distance=0) for bits in [*items.values()][-50:])
            new = {id for id in items if int(id) >= 100_000}
            assert len({id for id in items if int(id) < 0} - {f"-{id}" for id in new}) <= 1
            time.sleep(0.01)
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_index_is_pickled(protocol: int) -> None:
    index = filled(60)
    assert_same(index, pickle.loads(pickle.dumps(index, protocol)))
    assert bytes(nearprint.Index.from_bytes(bytes(index))) == bytes(index)


def test_a_copy_is_an_index_of_its_own() -> None:
    index = filled(60)
    for other in (copy.copy(index), copy.deepcopy({"an": [index]})["an"][0]):
        assert_same(index, other)
        other.insert("new", 9)
        other.delete("bare")
        assert "new" not in index and "bare" in index
        index.insert("own", 11)
        assert "own" not in other
        index.delete("own")


def found_by(index: nearprint.Index, text: str) -> list[str]:
    return [hit.id for hit in index.query(text)]


def test_a_process_that_is_started_anew_gets_an_index(lamp: str, cable: str) -> None:
    index = nearprint.Index()
    index.insert("a", lamp)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(found_by, (index, cable)) == ["a"]


def test_an_index_of_a_model_has_it(tmp_path: Path, root: Path) -> None:
    data = (root / "tests" / "fixtures" / "storage" / "model-v1").read_bytes()
    model = nearprint.SpectralModel(data)
    index = nearprint.Index(recipe=model)
    vector = np.linspace(-1, 1, int(model.recipe.removeprefix("spectral-")))
    index.insert("a", vector)
    index.save(tmp_path / "index")
    loaded = nearprint.Index.load(tmp_path / "index")
    assert loaded.recipe == model.recipe
    assert [hit.id for hit in loaded.query(vector)] == ["a"]
    loaded.merge(index)
    program = """
import sys
import nearprint
import numpy as np
index = nearprint.Index.load(sys.argv[1])
size = int(index.recipe.removeprefix("spectral-"))
assert [hit.id for hit in index.query(np.linspace(-1, 1, size))] == ["a"]
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "index")], check=True)
