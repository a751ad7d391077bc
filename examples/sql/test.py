"""Runs near_pairs.sql with DuckDB and DataFusion on an export, and compares its pairs with `nearprint dedup`."""

import os
import sys
import tempfile
from pathlib import Path

import datafusion
import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import exports

COUNT = 20_000
binary = Path(sys.argv[1]).resolve()
query = (Path(__file__).resolve().parent / "near_pairs.sql").read_text()


def by_datafusion():
    # Files by their names, as in datafusion-cli.
    context = datafusion.SessionContext().enable_url_table()
    return [tuple(row.values()) for row in context.sql(query).to_arrow_table().to_pylist()]


with tempfile.TemporaryDirectory() as folder:
    exports.make(binary, Path(folder), COUNT)
    os.chdir(folder)
    ids = dict(duckdb.sql("select sequence, id from 'documents.parquet'").fetchall())
    for engine, rows in [("DuckDB", duckdb.sql(query).fetchall()), ("DataFusion", by_datafusion())]:
        found = {(*sorted((ids[one], ids[other])), distance) for one, other, distance in rows}
        exports.same(f"pairs: {engine}", found, exports.pairs(Path(folder)), COUNT // 20)
