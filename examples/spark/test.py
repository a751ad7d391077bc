"""Runs near_pairs.py on Spark in this process, and compares its pairs and groups with `nearprint dedup`."""

import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import exports

COUNT = 20_000
binary = Path(sys.argv[1]).resolve()
job = Path(__file__).resolve().parent / "near_pairs.py"


def rows(path):
    return pyarrow.parquet.read_table(path).to_pylist()


for distance, more in [(3, []), (2, ["--blocks", "5"])]:
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        exports.make(binary, folder, COUNT, distance)
        submit = [Path(sys.executable).parent / "spark-submit", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=4"]
        arguments = [folder / "documents.parquet", folder / "out", "--distance", distance, *more]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run([*submit, job, *map(str, arguments)], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr[-4_000:])

        # The pairs of different fingerprints as pairs of documents, and those of equal ones, as dedup has them.
        documents = collections.defaultdict(list)
        for row in rows(folder / "documents.parquet"):
            documents[row["namespace"] or "", f"{row['fingerprint']:016x}"].append(row["id"])
        found = {
            (*sorted((one, other)), row["distance"])
            for row in rows(folder / "out/pairs")
            for one in documents[row["namespace"], row["fingerprint_a"]]
            for other in documents[row["namespace"], row["fingerprint_b"]]
        }
        found |= {
            (*sorted((one, other)), 0) for ids in documents.values() for at, one in enumerate(ids) for other in ids[:at]
        }
        exports.same(f"pairs at distance {distance}: Spark", found, exports.pairs(folder), COUNT // 20)

        groups = collections.defaultdict(set)
        for row in rows(folder / "out/groups"):
            groups[row["namespace"], row["group"]].add(row["id"])
        groups = {frozenset(group) for group in groups.values()}
        exports.same(f"groups at distance {distance}: Spark", groups, exports.groups(folder), COUNT // 40)
