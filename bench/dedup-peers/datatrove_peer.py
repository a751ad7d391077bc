"""datatrove's MinHash on a file of NDJSON: its four stages, as in its documentation, with its default settings.

usage: datatrove_peer.py DOCUMENTS.jsonl FOLDER

Two tasks read half of the documents each, because one task takes one file.
"""

import sys
from pathlib import Path

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter

TASKS = 2


def main():
    documents, folder = Path(sys.argv[1]), Path(sys.argv[2])
    parts = folder / "parts"
    parts.mkdir(parents=True)
    lines = documents.read_text(encoding="utf8").splitlines(keepends=True)
    for task in range(TASKS):
        part = lines[len(lines) * task // TASKS : len(lines) * (task + 1) // TASKS]
        (parts / f"{task}.jsonl").write_text("".join(part), encoding="utf8")
    reader = JsonlReader(str(parts))
    signatures, buckets, removed = (str(folder / name) for name in ("signatures", "buckets", "removed"))

    def run(tasks, *pipeline):
        logs = str(folder / f"logs-{type(pipeline[-1]).__name__}")
        LocalPipelineExecutor(pipeline=list(pipeline), tasks=tasks, workers=TASKS, logging_dir=logs).run()

    run(TASKS, reader, MinhashDedupSignature(signatures))
    run(14, MinhashDedupBuckets(signatures, buckets))
    run(1, MinhashDedupCluster(buckets, removed, save_cluster_id=True))
    run(TASKS, reader, MinhashDedupFilter(removed), JsonlWriter(str(folder / "out"), compression=None))


if __name__ == "__main__":
    main()
