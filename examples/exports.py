"""Exported fingerprints with near-duplicates among them, and what `nearprint dedup` finds: for the tests here."""

import json
import random
import subprocess
from pathlib import Path


def run(binary, *arguments):
    subprocess.run([binary, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make(binary, folder, count, distance=3):
    """Makes documents.parquet of `count` documents in three namespaces, and pairs.jsonl and groups.jsonl."""
    dice = random.Random(4)
    fingerprints = [dice.getrandbits(64) for _ in range(count)]
    for at in range(0, count, 4):
        # Equal to another, or within distance + 1 bits of it, so that some are just too far.
        changed = sum(1 << bit for bit in dice.sample(range(64), dice.randrange(distance + 2)))
        fingerprints[at] = fingerprints[dice.randrange(count)] ^ changed
    lines = (
        json.dumps({"id": f"d{at}", "fingerprint": f"{number:016x}", "namespace": ["", "a", "b"][dice.randrange(3)] or None})
        for at, number in enumerate(fingerprints)
    )
    documents = folder / "documents.parquet"
    (folder / "in.jsonl").write_text("".join(line.replace(', "namespace": null', "") + "\n" for line in lines))
    run(binary, "import", folder / "in.jsonl", "--data", folder / "data", "--restart")
    run(binary, "export", "--all-namespaces", "-o", documents, "--data", folder / "data")
    tables = ["--pairs", folder / "pairs.jsonl", "--groups", folder / "groups.jsonl"]
    run(binary, "dedup", documents, *tables, "--distance", distance, "--min-similarity", 0)


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def pairs(folder):
    """The pairs of `nearprint dedup`, by ids: (one, other, distance), the smaller id first."""
    return {(*sorted((pair["id_a"], pair["id_b"])), pair["distance"]) for pair in read(folder / "pairs.jsonl")}


def groups(folder):
    """The groups of `nearprint dedup`: sets of ids."""
    return {frozenset(group["documents"]) for group in read(folder / "groups.jsonl")}


def same(what, found, expected, least):
    """Ends the program unless both have found the same, and enough of it that it means something."""
    if found != expected or len(found) < least:
        raise SystemExit(
            f"error: {what} finds {len(found)}, nearprint dedup {len(expected)}, {len(found & expected)} of them both"
        )
    print(f"{what} finds the {len(found):,} of nearprint dedup")
