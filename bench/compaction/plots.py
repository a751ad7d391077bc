"""Draws the plots of docs/compaction.md from the JSON of `nearprint-bench compaction --json`.

Usage: plots.py RESULTS. The lines are those of the benchmark of peers.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))

import picture  # noqa: E402, from the folder above

PLOTS = {
    "write-amplification": ("Entries written for each inserted one", "write_amplification", "{:g}x"),
    "segments": ("Segments that a look-up visits, mean", "segments_mean", "{:g}"),
    "memory": ("Memory at its peak, bytes a fingerprint", "peak_bytes_a_fingerprint", "{:g} B"),
}


def points(rows, how, name):
    return [(row["count"], row[name]) for row in rows if row["how"] == how and row[name]]


def main():
    rows = json.loads(Path(sys.argv[1]).read_text("utf-8"))["results"]
    for file, (title, name, unit) in PLOTS.items():
        kinds = [("simulated", ""), ("measured", "")]
        series = [(how, kind, points(rows, how, name)) for how, kind in kinds]
        path = ROOT / "docs" / f"compaction-{file}.svg"
        series = [line for line in series if line[2]]
        path.write_text(picture.plot(title, series, unit.format), "utf-8")
        print(f"written: {path.relative_to(ROOT)}")


main()
