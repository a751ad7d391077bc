"""Fingerprints and sketches of single documents."""

from __future__ import annotations

import csv
import json
import pathlib
import pickle
import subprocess
import sys
import threading

import nearprint
import numpy as np
import pytest
from nearprint import errors


def corpus(root: pathlib.Path) -> dict[str, str]:
    folder = root / "tests" / "corpus"
    texts = {path.stem: path.read_text("utf-8") for path in folder.glob("*.txt")}
    assert len(texts) > 30
    return texts


def table(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_published_vectors_of_np2_come_out(root: pathlib.Path) -> None:
    texts = corpus(root)
    rows = table(root / "tests" / "corpus" / "fingerprints.tsv")
    assert len(rows) == len(texts)
    for row in rows:
        text = texts[row["name"]]
        assert f"{nearprint.fingerprint(text):016x}" == row["fingerprint"], row["name"]
        assert bytes(nearprint.sketch(text)).hex() == row["sketch"], row["name"]
        why = nearprint.explain(text)
        assert why["features"] == int(row["features"])
        assert why["tokens"] == int(row["tokens"])
        assert why["short"] == (row["short"] == "true")


def test_the_vectors_of_the_other_recipes_come_out(root: pathlib.Path) -> None:
    texts = corpus(root)
    rows = table(root / "tests" / "fixtures" / "recipes.tsv")
    recipes = [name for name in rows[0] if name != "name"]
    assert len(rows) == len(texts) and len(recipes) == 8
    documents = [texts[row["name"]] for row in rows]
    for recipe in recipes:
        expected = [None if row[recipe] == "-" else int(row[recipe], 16) for row in rows]
        assert nearprint.fingerprint_many(documents, recipe=recipe).tolist() == expected
        for text, bits in zip(documents, expected, strict=True):
            if bits is None:
                with pytest.raises(nearprint.EmptyDocument):
                    nearprint.fingerprint(text, recipe=recipe)
            else:
                assert nearprint.fingerprint(text, recipe=recipe) == bits


def test_the_vectors_of_the_recipes_of_vectors_come_out(root: pathlib.Path) -> None:
    rows = table(root / "tests" / "fixtures" / "vectors.tsv")
    assert len(rows) >= 12
    for row in rows:
        vector, bits = json.loads(row["vector"]), int(row["fingerprint"], 16)
        for form in (vector, tuple(vector), np.array(vector), np.array(vector, "float32")):
            assert nearprint.fingerprint(form, recipe=row["recipe"]) == bits
        rows_of_two = np.array([vector, vector])
        batch = nearprint.fingerprint_many(rows_of_two, recipe=row["recipe"])
        assert batch.tolist() == [bits, bits]


def test_a_spectral_model_stands_for_its_recipe(root: pathlib.Path) -> None:
    data = (root / "tests" / "fixtures" / "storage" / "model-v1").read_bytes()
    model = nearprint.SpectralModel(data)
    family, dimensions = model.recipe.split("-")
    assert family == "spectral"
    vector = np.linspace(-1, 1, int(dimensions))
    bits = nearprint.fingerprint(vector, recipe=model)
    assert nearprint.fingerprint(vector, recipe=pickle.loads(pickle.dumps(model))) == bits
    with pytest.raises(errors.InvalidValue, match="needs its model"):
        nearprint.fingerprint(vector, recipe=model.recipe)
    with pytest.raises(errors.InvalidValue, match="data: "):
        nearprint.SpectralModel(data[:-1])


def test_features_are_those_of_the_api_manual() -> None:
    features = {"lamp": 3, "wire": 1.5, "lift": 1}
    assert f"{nearprint.fingerprint(features):016x}" == "ec70fc4c61015a4d"
    assert nearprint.fingerprint(features, recipe="features") == nearprint.fingerprint(features)


def test_a_page_counts_by_its_text_and_bytes_by_their_charset() -> None:
    text = nearprint.fingerprint("Café & tea")
    page = "<nav>Home</nav><p>Café &amp; tea</p>"
    assert nearprint.fingerprint(page, html=True) == text
    assert nearprint.fingerprint(page) != text
    for charset in ("latin1", "windows-1252", "utf-8"):
        encoded = page.encode(charset)
        assert nearprint.fingerprint(encoded, html=True, charset=charset) == text
        assert nearprint.fingerprint(bytearray(encoded), html=True, charset=charset) == text
    assert (
        nearprint.fingerprint(("<meta charset=latin1>" + page).encode("latin1"), html=True) == text
    )
    visible = nearprint.fingerprint("Home tea")
    marked = "<div>Home</div> <main>tea</main>"
    assert nearprint.fingerprint(marked, html=True, extract="visible") == visible
    assert nearprint.fingerprint(marked, html=True) == nearprint.fingerprint("tea")


def test_the_first_example_of_everybody_changes_a_word(lamp: str, cable: str) -> None:
    assert nearprint.distance(lamp, cable) == nearprint.distance(
        nearprint.fingerprint(lamp), nearprint.fingerprint(cable)
    )
    assert nearprint.similarity(lamp, cable) > 0.83
    assert nearprint.similarity(nearprint.sketch(lamp), cable) == nearprint.similarity(lamp, cable)
    assert nearprint.similarity(lamp, "An entirely different text about bread and butter.") < 0.2


def test_fingerprints_may_be_numbers_of_numpy() -> None:
    assert nearprint.distance(np.uint64(2**64 - 1), 0) == 64


def test_sketches_are_values(lamp: str, cable: str) -> None:
    one, other = nearprint.sketch(lamp), nearprint.sketch(cable)
    assert one == nearprint.Sketch(bytes(one)) == pickle.loads(pickle.dumps(one))
    assert one != other and len({one, nearprint.sketch(lamp), other}) == 2
    assert eval(repr(one), {"Sketch": nearprint.Sketch}) == one
    with pytest.raises(errors.InvalidValue, match="156 bytes, not 3"):
        nearprint.Sketch(b"abc")


def test_an_explanation_has_the_fields_of_the_service(lamp: str, cable: str) -> None:
    why = nearprint.explain(lamp, cable)
    assert list(why) == ["a", "b", "distance", "similarity", "differing_bits"]
    assert why["distance"] == len(why["differing_bits"]) == nearprint.distance(lamp, cable)
    for bit in why["differing_bits"]:
        assert (bit["sum_a"] > 0) != (bit["sum_b"] > 0)
    sums = nearprint.explain(lamp)["sums"]
    assert sum(1 << bit for bit in range(64) if sums[bit] > 0) == nearprint.fingerprint(lamp)


@pytest.mark.parametrize("call", [nearprint.fingerprint, nearprint.sketch, nearprint.explain])
def test_what_has_no_letter_is_an_empty_document(call) -> None:
    for text in ("", " ", "...", b"", b"\n"):
        with pytest.raises(
            nearprint.EmptyDocument, match="document: .*no letter or number"
        ) as caught:
            call(text)
        assert caught.value.code == "empty_document" and caught.value.field == "document"
        assert isinstance(caught.value, (nearprint.NearprintError, ValueError))


def test_an_empty_list_of_features_and_a_vector_of_zeros_are_empty() -> None:
    for given, recipe in (({}, "np2"), ({"a": 0}, "features"), ([0.0, 0.0], "hyperplanes-2")):
        with pytest.raises(nearprint.EmptyDocument):
            nearprint.fingerprint(given, recipe=recipe)


@pytest.mark.parametrize("given", [1, 1.5, None, object(), {"a": "b"}, {1: 2}, ["a"], [[1.0]]])
def test_another_type_is_a_type_error_that_names_the_argument(given: object) -> None:
    with pytest.raises(TypeError, match="^document takes"):
        nearprint.fingerprint(given, recipe="hyperplanes-1")  # type: ignore[arg-type]


def test_a_lone_surrogate_is_a_value_error_that_names_the_argument() -> None:
    with pytest.raises(ValueError, match="document: a lone surrogate at index 4"):
        nearprint.fingerprint("tea \ud83d tea")
    with pytest.raises(ValueError, match=r"documents\[1\]: a lone surrogate at index 0"):
        nearprint.fingerprint_many(["tea", "\udc00"])
    with pytest.raises(ValueError, match="recipe: a lone surrogate"):
        nearprint.fingerprint("tea", recipe="\udc00")


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_does_not_go_together_is_refused_by_the_code_of_the_service() -> None:
    for given, recipe, error in (
        ([1.0, 2.0], "np2", errors.RecipeMismatch),
        ("tea", "hyperplanes-2", errors.RecipeMismatch),
        ({"tea": 1}, "hyperplanes-2", errors.RecipeMismatch),
        ("tea", "features", errors.RecipeMismatch),
        ([1.0, 2.0, 3.0], "hyperplanes-2", errors.DimensionMismatch),
        ([], "hyperplanes-2", errors.DimensionMismatch),
        ([1.0, float("nan")], "hyperplanes-2", errors.InvalidValue),
        ([1.0, 1e300], "hyperplanes-2", errors.InvalidValue),
        ({"tea": float("inf")}, "np2", errors.InvalidValue),
        ("tea", "np3", errors.InvalidValue),
        ("tea", "words-9", errors.InvalidValue),
    ):
        with pytest.raises(error):
            nearprint.fingerprint(given, recipe=recipe)
    with pytest.raises(errors.UnsupportedCharset, match="latin-0"):
        nearprint.fingerprint(b"tea", charset="latin-0")
    with pytest.raises(errors.InvalidValue, match="charset: only bytes have one"):
        nearprint.fingerprint("tea", charset="latin1")
    with pytest.raises(errors.InvalidValue, match="content, visible, main"):
        nearprint.fingerprint("tea", html=True, extract="all")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidValue, match="a: a fingerprint is an integer from 0"):
        nearprint.distance(-(2**63) - 1, 2)


def test_a_panic_is_an_exception_and_the_interpreter_lives(lamp: str) -> None:
    with pytest.raises(errors.Internal, match="asked for by a test"):
        nearprint._native._panic()
    assert nearprint.fingerprint(lamp)


def test_other_threads_run_during_an_analysis(lamp: str) -> None:
    """Of two threads that begin at the same time, neither waits for the end of the other."""
    text = lamp * 300_000
    ticks, is_done = 0, threading.Event()

    def analyse() -> None:
        nearprint.fingerprint(text)
        is_done.set()

    thread = threading.Thread(target=analyse)
    thread.start()
    while not is_done.wait(0.001):
        ticks += 1
    thread.join()
    # Attached to the interpreter, an analysis of 50 MB would leave no tick, or one.
    assert ticks >= 5


def test_fingerprints_alone_import_no_http() -> None:
    script = "import sys, nearprint; nearprint.fingerprint('tea'); print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "nearprint" in loaded
    assert not loaded & {"http.client", "aiohttp", "asyncio", "numpy", "nearprint.client"}


def test_an_unknown_option_is_named() -> None:
    for call in (
        lambda: nearprint.fingerprint("tea", treshold=1),  # type: ignore[call-arg]
        lambda: nearprint.fingerprint_many(["tea"], treshold=1),  # type: ignore[call-arg]
        lambda: nearprint.Index(treshold=1),  # type: ignore[call-arg]
        lambda: nearprint.Index().query("tea", treshold=1),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument 'treshold'"):
            call()
