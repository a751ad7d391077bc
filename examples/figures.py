"""Time and peak memory of the engines on the same fingerprints, as a table: the figures of docs/other-engines.md."""

import array
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
BINARY = Path(sys.argv[1]).resolve()
SIZES = [int(float(size)) for size in os.environ.get("SIZES", "1e5 1e6 1e7").split()]
LIMIT = float(os.environ.get("LIMIT", "600"))
SPARK = ["--master", "local[2]", "--driver-memory", "12g", "--conf", "spark.sql.shuffle.partitions=16"]
QUERY = HERE / "sql/near_pairs.sql"
DUCKDB = f"import duckdb; duckdb.sql(open({str(QUERY)!r}).read()).write_parquet('duckdb.parquet')"
DATAFUSION = f"""
import datafusion
context = datafusion.SessionContext().enable_url_table()
context.sql(open({str(QUERY)!r}).read()).write_parquet('datafusion.parquet')
"""
ENGINES = {
    "nearprint dedup": [BINARY, "dedup", "documents.parquet", "--pairs", "pairs.parquet"],
    "DuckDB": [sys.executable, "-c", DUCKDB],
    "DataFusion": [sys.executable, "-c", DATAFUSION],
    "Spark": [Path(sys.executable).parent / "spark-submit", *SPARK, HERE / "spark/near_pairs.py", "documents.parquet", "out"],
}


def make(count):
    """documents.parquet, in a process of its own: the peak of a child counts that of its parent when it was forked."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)
    dice = random.Random(7)
    numbers = array.array("Q", dice.randbytes(8 * count))
    first = count * 9 // 10
    for at in range(first, count):
        numbers[at] = numbers[dice.randrange(first)] ^ (1 << dice.randrange(64))
    fingerprints = pyarrow.Array.from_buffers(pyarrow.uint64(), count, [None, pyarrow.py_buffer(numbers)])
    sequences = pyarrow.array(range(1, count + 1), pyarrow.uint64())
    columns = {
        "namespace": pyarrow.nulls(count, pyarrow.string()),
        "id": sequences.cast(pyarrow.string()),
        "fingerprint": fingerprints,
        "sequence": sequences,
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), "documents.parquet")
    os._exit(0)


def measure(command):
    """Seconds and peak of memory in MiB; None if it takes too long, or fails."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    begun = time.monotonic()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(["timeout", str(LIMIT), *map(str, command)], env=environment, **quiet)
    _, status, usage = os.wait4(child.pid, 0)
    return (time.monotonic() - begun, usage.ru_maxrss / 1024) if status == 0 else None


print("| fingerprints | " + " | ".join(ENGINES) + " |")
print("|--:|" + "--:|" * len(ENGINES))
for size in SIZES:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make(size)
        cells = []
        for command in ENGINES.values():
            done = measure(command)
            cells.append(f"{done[0]:.1f} s, {done[1]:,.0f} MiB" if done else "-")
        print(f"| {size:,} | " + " | ".join(cells) + " |", flush=True)
        os.chdir(HERE)
