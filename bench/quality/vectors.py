"""How well 64 bits stand for dense vectors: `hyperplanes-D` and `spectral-D` against exact cosines.

The vectors are those of latent semantic analysis (TF-IDF of words, truncated SVD) of the labelled set,
whose texts are read from QUALITY_SET and never stored here. The release binary learns the model from one half
and makes all fingerprints. Writes the section "Vectors" of docs/quality.md, up to its end.
"""

import datetime
import json
import os
import pathlib
import subprocess

import numpy
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

BINARY = "target/release/nearprint"
WORK = pathlib.Path("target/quality/vectors")
PAGE = pathlib.Path("docs/quality.md")
HEADING = "## Vectors\n"
DIMENSIONS = 128
DISTANCES = (0, 1, 2, 3, 4, 6, 8, 10, 12)
COSINES = (0.99, 0.95, 0.9)
NEIGHBOURS = 10


def texts():
    folder = pathlib.Path(os.environ["QUALITY_SET"]) / "dev"
    for name in ("docs.jsonl", "short.jsonl"):
        with open(folder / name, encoding="utf8") as lines:
            yield from (json.loads(line)["text"] for line in lines)


def vectors():
    """The vectors of all texts that have one, in single precision."""
    counts = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern=r"(?u)\w+").fit_transform(texts())
    lsa = TruncatedSVD(DIMENSIONS, random_state=0).fit_transform(counts).astype(numpy.float32)
    return lsa[numpy.linalg.norm(lsa, axis=1) > 1e-6]


def write(path, rows):
    with open(path, "w", encoding="utf8") as out:
        for number, row in enumerate(rows):
            out.write(json.dumps({"id": str(number), "vector": [float(x) for x in row]}) + "\n")


def fingerprints(recipe, *arguments):
    """The bits of each vector, as rows of 64 zeros and ones."""
    command = [BINARY, "fingerprint", "--ndjson", "--recipe", recipe, *arguments, str(WORK / "all.ndjson")]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    bits = numpy.array([int(line.split("\t")[0], 16) for line in lines], dtype=numpy.uint64)
    return (bits[:, None] >> numpy.arange(64, dtype=numpy.uint64) & 1).astype(numpy.float32)


def measure(bits, cosines, neighbours):
    signs = 2 * bits - 1
    distances = numpy.rint((64 - signs @ signs.T) / 2).astype(numpy.int16)
    upper = numpy.triu_indices(len(bits), 1)
    apart, alike = distances[upper], cosines[upper]
    ones = bits.mean(axis=0)
    correlation = numpy.abs(numpy.nan_to_num(numpy.corrcoef(signs.T)))[numpy.triu_indices(64, 1)]
    numpy.fill_diagonal(distances, 99)
    order = numpy.argsort(distances, axis=1, kind="stable")
    found = lambda first: numpy.mean(  # noqa: E731
        [len(numpy.intersect1d(a[:first], b)) / NEIGHBOURS for a, b in zip(order, neighbours)]
    )
    return {
        "ones": (ones.min(), ones.max()),
        "correlation": (correlation.mean(), correlation.max()),
        "first": {first: found(first) for first in (10, 50, 100)},
        "recall": {(c, d): (apart[alike >= c] <= d).mean() for c in COSINES for d in DISTANCES},
        "precision": {d: (alike[apart <= d] >= 0.9).mean() for d in DISTANCES},
    }


def table(results):
    lines = [
        "| recipe | distance | recall of pairs with cosine 0.99 | 0.95 | 0.9 | pairs found with cosine 0.9 or more |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for recipe, result in results.items():
        for distance in DISTANCES:
            cells = [f"{result['recall'][cosine, distance]:.3f}" for cosine in COSINES]
            cells.append(f"{result['precision'][distance]:.3f}")
            lines.append(f"| `{recipe}` | {distance} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bits_table(results):
    lines = [
        "| recipe | ones of a bit | correlation of two bits: mean, largest "
        "| of the 10 nearest by cosine, among the first 10 | 50 | 100 by distance |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for recipe, result in results.items():
        (low, high), (mean, largest) = result["ones"], result["correlation"]
        first = " | ".join(f"{share:.3f}" for share in result["first"].values())
        lines.append(f"| `{recipe}` | {low:.0%} to {high:.0%} | {mean:.3f}, {largest:.2f} | {first} |")
    return "\n".join(lines)


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    rows = vectors()
    write(WORK / "all.ndjson", rows)
    # Every second one in a random order, so that the model is measured on vectors it has not seen too.
    half = numpy.random.default_rng(0).permutation(len(rows))[: len(rows) // 2]
    write(WORK / "half.ndjson", rows[half])
    model = WORK / "spectral.model"
    model.unlink(missing_ok=True)
    subprocess.run(
        [BINARY, "train", "spectral", str(WORK / "half.ndjson"), "--output", str(model)],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    unit = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    others = cosines.copy()
    numpy.fill_diagonal(others, -2)
    neighbours = numpy.argsort(-others, axis=1)[:, :NEIGHBOURS]
    recipes = {
        f"hyperplanes-{DIMENSIONS}": (),
        f"spectral-{DIMENSIONS}": ("--model", str(model)),
    }
    results = {
        recipe: measure(fingerprints(recipe, *arguments), cosines, neighbours)
        for recipe, arguments in recipes.items()
    }
    pairs = ", ".join(f"{int((cosines[numpy.triu_indices(len(rows), 1)] >= c).sum()):,} of {c} or more" for c in COSINES)
    version = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    text = pathlib.Path("bench/quality/vectors.md").read_text(encoding="utf8")
    for name, value in {
        "made": f"{version} at {commit.stdout.strip()}, {datetime.date.today()}",
        "count": f"{len(rows):,}",
        "half": f"{len(half):,}",
        "dimensions": str(DIMENSIONS),
        "pairs": pairs,
        "table": table(results),
        "bits": bits_table(results),
    }.items():
        text = text.replace("{{" + name + "}}", value)
    page = PAGE.read_text(encoding="utf8").split("\n" + HEADING)[0].rstrip("\n")
    PAGE.write_text(page + "\n\n" + text, encoding="utf8")
    print("written: the section Vectors of docs/quality.md")


main()
