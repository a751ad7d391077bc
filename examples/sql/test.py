"""Runs near_pairs.sql on an export, and compares its pairs with those of `nearprint dedup`."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

COUNT = 20_000
binary = Path(sys.argv[1]).resolve()
query = (Path(__file__).parent / "near_pairs.sql").read_text()

dice = random.Random(4)
fingerprints = [dice.getrandbits(64) for _ in range(COUNT)]
for at in range(0, COUNT, 4):
    # Within 4 bits of another, so that some are just too far.
    changed = sum(1 << bit for bit in dice.sample(range(64), dice.randrange(5)))
    fingerprints[at] = fingerprints[dice.randrange(COUNT)] ^ changed

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    Path("in.hex").write_text("".join(f"{number:016x}\t{at + 1}\n" for at, number in enumerate(fingerprints)))

    def run(*arguments):
        subprocess.run([binary, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run("import", "in.hex", "--data", "data")
    run("export", "-o", "documents.parquet", "--data", "data")
    run("dedup", "documents.parquet", "--pairs", "pairs.jsonl")
    ids = dict(duckdb.sql("select sequence, id from 'documents.parquet'").fetchall())
    found = {(ids[one], ids[other], distance) for one, other, distance in duckdb.sql(query).fetchall()}
    with open("pairs.jsonl") as lines:
        pairs = map(json.loads, lines)
        expected = {(pair["id_a"], pair["id_b"], pair["distance"]) for pair in pairs}

if found != expected or len(found) < COUNT // 10:
    sys.exit(f"error: SQL finds {len(found)} pairs, nearprint {len(expected)}, {len(found & expected)} of them both")
print(f"SQL and nearprint find the same {len(found)} pairs")
