"""Runs the labelled quality set through the release binary and writes docs/quality.md.

For each recipe a service of its own is started over an empty directory, with the largest distance.
All documents are inserted and then looked up by their own texts; the hits of each are the pairs that
evaluate.py scores. So what is measured is what a caller gets: recipe, index, verification and JSON.
"""

import datetime
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np

import by_default
import forms
import picture
import real_sets
from served import BINARY, batch
import served

SET = pathlib.Path(os.environ["QUALITY_SET"])
PAGES = pathlib.Path(os.environ["PAGES"])
RECIPES = ["np2", "np2-5", "words-1", "words-2", "words-1-stop", "keywords-22", "keywords-22-w5"]
DISTANCES = range(9)
TRACKS = {"documents": ("docs.jsonl", "pairs.tsv"), "short": ("short.jsonl", "short_pairs.tsv")}
DISTANCE_MAX = 8


def evaluator():
    spec = importlib.util.spec_from_file_location("evaluate", SET / "evaluate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def service(recipe, **settings):
    """A service of a recipe, exact up to the distance of the tables; gives its address. Of None: of the default one."""
    settings = {
        "NEARPRINT_DATA__RECIPE": recipe,
        "NEARPRINT_DATA__DISTANCE_MAX": str(DISTANCE_MAX),
    } | settings
    return served.service(**settings)


def found_pairs(address, documents, **options):
    """Fingerprints, and every pair (i, j, distance, whether it counts) that a look-up of either finds."""
    prints, directed = look_ups(address, documents, **options)
    pairs = {}
    for (at, other), (distance, counts) in directed.items():
        pair = min(at, other), max(at, other)
        pairs[pair] = distance, counts or pairs.get(pair, (0, False))[1]
    return prints, pairs


def look_ups(address, documents, **options):
    """Fingerprints, and what the look-up of each document finds: (it, other) -> distance, whether it counts."""
    inserted = batch(address, "insert", documents)
    prints = [reply.get("fingerprint") for reply in inserted]
    of_print = {}
    for at, value in enumerate(prints):
        of_print.setdefault(value, []).append(at)
    replies = batch(address, "query", documents, limit=1000, **options)
    directed = {}
    for at, reply in enumerate(replies):
        if "error" in reply:
            continue
        assert not reply["truncated"], "more than 1000 hits"
        for hit in reply["hits"]:
            for other in of_print[hit["fingerprint"]]:
                if other != at:
                    directed[at, other] = hit["distance"], hit["confirmed"] is not False
    return prints, directed


def scores(evaluate, track, prints, pairs, distance, distance_max=DISTANCE_MAX):
    """What evaluate.py says of these pairs, with its own search replaced by the service's.

    Its tables by language are at this distance.
    """
    docs_file, pairs_file = TRACKS[track]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        ids = [json.loads(line)["id"] for line in open(SET / "dev" / docs_file, encoding="utf8")]
        for document_id, value in zip(ids, prints):
            file.write(f"{document_id}\t{value or '-'}\n")
        file.flush()
        arguments = type("Arguments", (), {
            "docs": SET / "dev" / docs_file, "pairs": SET / "dev" / pairs_file, "fp": file.name,
        })
        docs, bits, have, listed = evaluate.load(arguments)
    columns = [np.array(column, int) for column in zip(*((i, j, d) for (i, j), d in pairs.items()))]
    evaluate.near_pairs = lambda *_: columns or [np.zeros(0, int)] * 3
    return evaluate.evaluate(docs, bits, have, listed, mk=distance_max, k=distance)


def measure(evaluate):
    """For each recipe and track the curves with verification and without."""
    results = {}
    for recipe in RECIPES:
        for track, (docs_file, _) in TRACKS.items():
            print(f"{recipe}, {track}", file=sys.stderr)
            lines = open(SET / "dev" / docs_file, encoding="utf8")
            documents = [{k: document[k] for k in ("id", "text")} for document in map(json.loads, lines)]
            with service(recipe) as address:
                # The recipes are compared by plain distance.
                prints, pairs = found_pairs(address, documents, distance=DISTANCE_MAX, search="exact")
            every = {pair: distance for pair, (distance, _) in pairs.items()}
            counting = {pair: distance for pair, (distance, counts) in pairs.items() if counts}
            results[recipe, track] = {
                "without": scores(evaluate, track, prints, every, 3),
                "with": scores(evaluate, track, prints, counting, 6),
                "empty": sum(value is None for value in prints),
                "balance": balance(prints),
            }
    return results


def balance(prints):
    """In which share of the documents the rarest and the most frequent bit are set."""
    bits = np.array([int(value, 16) for value in prints if value], np.uint64)
    shares = [float(np.mean(bits >> np.uint64(bit) & np.uint64(1))) for bit in range(64)]
    return min(shares), max(shares)


def extraction():
    """Visible and main text of the pages on this machine: tokens, and the time both take."""
    pages = sorted(str(path) for path in PAGES.rglob("*.html") if path.is_file())
    if not pages:
        return None
    rows, seconds = {}, {}
    for extract in "content", "visible", "main":
        begun = time.monotonic()
        run = subprocess.run(
            [BINARY, "fingerprint", "--html", "--json", "--extract", extract, *pages],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
        )
        seconds[extract] = time.monotonic() - begun
        rows[extract] = {row["file"]: row for row in map(json.loads, run.stdout.splitlines())}
    both = rows["visible"].keys() & rows["main"].keys()
    kept = sorted(rows["main"][page]["tokens"] / max(rows["visible"][page]["tokens"], 1) for page in both)
    return {
        "pages": len(both),
        "megabytes": sum(os.path.getsize(page) for page in both) / 1e6,
        "shorter": sum(rows["main"][p]["tokens"] < rows["visible"][p]["tokens"] for p in both),
        "median_kept": kept[len(kept) // 2] if kept else 1.0,
        "near": {extract: near_pairs([rows[extract][p] for p in both]) for extract in rows},
        "seconds": seconds,
    }


def near_pairs(rows):
    """How many pairs of pages lie within distance 3."""
    bits = np.array([int(row["fingerprint"], 16) for row in rows], np.uint64)
    count = 0
    for at in range(len(bits) - 1):
        count += int(np.sum(np.bitwise_count(bits[at + 1:] ^ bits[at]) <= 3))
    return count


def figure(score):
    return f".{round(score * 10_000):04d}" if score < 0.99995 else "1.0000"


def table(results, track):
    lines = [
        "| recipe | distance | precision | recall | F1 | verified: precision | recall | F1 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for recipe in RECIPES:
        result = results[recipe, track]
        for distance in DISTANCES:
            if distance not in (0, 3, 4, 5, 6, 8):
                continue
            cells = []
            for how in "without", "with":
                point = result[how]["curve"][distance]
                cells += [figure(point[score]) for score in ("precision", "recall", "f1")]
            lines.append(f"| `{recipe}` | {distance} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_language(results):
    lines = ["| language | pairs | distance 3: P, R | distance 6, verified: P, R |", "|---|--:|--:|--:|"]
    three, six = results["without"]["by_lang"], results["with"]["by_lang"]
    for language, row in three.items():
        other = six[language]
        lines.append(
            f"| {language} | {row['tp'] + row['fn']} | {figure(row['precision'])}, {figure(row['recall'])} "
            f"| {figure(other['precision'])}, {figure(other['recall'])} |"
        )
    return "\n".join(lines)


def main():
    evaluate = evaluator()
    results = measure(evaluate)
    pages = extraction()
    tracks = {
        track: [json.loads(line) for line in open(SET / "dev" / file, encoding="utf8")]
        for track, (file, _) in TRACKS.items()
    }
    defaults = by_default.everything(sys.modules[__name__], evaluate, tracks)
    with service("np2") as address:
        filled_forms = forms.sections(address, SET)
    curves = {
        label: [(point["recall"], point["precision"]) for point in results["np2", "documents"][how]["curve"]]
        for label, how in (("fingerprints", "without"), ("verified", "with"))
    }
    pathlib.Path("docs/quality.svg").write_text(picture.draw(curves, by_default.points(defaults), list(DISTANCES)), encoding="utf8")
    version = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    text = pathlib.Path("bench/quality/quality.md").read_text(encoding="utf8")
    documents = results["np2", "documents"]["with"]
    rarest = "\n".join(
        f"| `{recipe}` | {results[recipe, 'documents']['empty']} | {results[recipe, 'short']['empty']} "
        + "".join(
            "| {:.0%} to {:.0%} ".format(*results[recipe, track]["balance"]) for track in TRACKS
        )
        + "|"
        for recipe in RECIPES
    )
    filled = {
        "made": f"{version.stdout.strip()} at {commit.stdout.strip()}, {datetime.date.today()}",
        "documents": f"{documents['docs']:,}",
        "positive": f"{documents['positive_pairs']:,}",
        "negative": f"{documents['negative_pairs']:,}",
        "table_documents": table(results, "documents"),
        "table_languages": by_language(results["np2", "documents"]),
        "table_short": table(results, "short"),
        "table_bits": rarest,
        "pages": extraction_text(pages),
        "table_real_sets": real_sets.table(sys.modules[__name__]),
    } | by_default.sections(defaults) | filled_forms
    for name, value in filled.items():
        text = text.replace("{{" + name + "}}", value)
    page = pathlib.Path("docs/quality.md")
    # The sections that `make figures WHAT=quality-pages` and `make figures WHAT=quality-vectors` write stay.
    _, pages, sections = page.read_text(encoding="utf8").partition("\n## Pages of generators\n")
    page.write_text(text + pages + sections, encoding="utf8")
    print("written: docs/quality.md, docs/quality.svg")


def extraction_text(pages):
    if pages is None:
        return "No page of HTML was found on this machine."
    size = pages["megabytes"]
    speed = {extract: size / seconds for extract, seconds in pages["seconds"].items()}
    return textwrap.fill(
        f"Of {pages['pages']:,} pages of the documentation on this machine ({size:.1f} MB), main text was "
        f"shorter than visible text in {pages['shorter']:,}; of the median page {pages['median_kept']:.0%} "
        f"of the tokens stayed. Pairs of pages within distance 3: {pages['near']['visible']:,} by visible, "
        f"{pages['near']['main']:,} by main text. `nearprint fingerprint --html` read {speed['visible']:.0f} "
        f"MB/s for visible and {speed['main']:.1f} MB/s for main text, on one core, files and all.",
        100,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    main()
