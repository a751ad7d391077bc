"""Runs nearprint dedup and its peers on the same documents, and writes the table of docs/benchmarks.md.

usage: compare.py REAL_DOCUMENTS.jsonl

`tools/bench-dedup-peers` installs the peers and starts it; the variables are described there. Each program runs alone, in
a process whose time and whose peak of memory are taken. What it found is read as groups of ids, and the pairs within
groups are compared with the truth.
"""

import collections
import datetime
import json
import os
import pickle
import platform
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

from rapidfuzz.distance import Indel

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- dedup-peers:begin -->", "<!-- dedup-peers:end -->"
WORK = ROOT / "target" / "dedup-peers"
SET = Path(os.environ.get("QUALITY_SET", ROOT / "../shared/quality")) / "dev"
BINARY = Path(os.environ.get("NEARPRINT", ROOT / "target/release/nearprint")).resolve()
LIMIT = float(os.environ.get("LIMIT", "1800"))
SAMPLE = 1_000
# The similarity of a pair: twice the longest common subsequence of words, by the words of both. In between is unclear.
TRUE_FROM, FALSE_BELOW = 0.9, 0.75
WORD = re.compile(r"\w+")


def find(parents, node):
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


def groups_of(labels):
    """Groups of at least two from pairs of a member and a label."""
    groups = collections.defaultdict(list)
    for member, label in labels:
        groups[label].append(member)
    return [group for group in groups.values() if len(group) > 1]


class UnionFind:
    """What text-dedup stores: only its table of parents counts here."""


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        allowed = {"UnionFind": UnionFind, "Counter": collections.Counter}
        return allowed[name]


def of_nearprint(folder, _):
    with open(folder / "groups.jsonl", encoding="utf8") as lines:
        return [json.loads(line)["documents"] for line in lines]


def of_text_dedup(folder, _):
    with open(folder / "out/uf.pkl", "rb") as file:
        parents = Reader(file).load().parent
    return groups_of((node, find(parents, node)) for node in parents)


def of_datatrove(folder, ids):
    labels, before = [], 0
    for part in sorted((folder / "parts").glob("*.jsonl")):
        file = folder / f"removed/{int(part.stem):06d}.clusters"
        content = file.read_bytes() if file.exists() else b""
        labels += [(ids[before + document], cluster) for document, cluster in struct.iter_unpack("<2I", content)]
        with open(part, "rb") as lines:
            before += sum(1 for _ in lines)
    return groups_of(labels)


def nearprint(*options):
    return lambda file, folder: [
        BINARY, "dedup", file, "-o", folder / "out.jsonl", "--groups", folder / "groups.jsonl", *options,
    ]  # fmt: skip


def text_dedup(method):
    python = WORK / "venv-text-dedup/bin/python"
    return lambda file, folder: [
        python, "-m", f"text_dedup.{method}", "--path", "json", "--data_files", file, "--split", "train",
        "--column", "text", "--idx_column", "id", "--cache_dir", folder / "cache", "--output", folder / "out",
        "--num_proc", "2", "--debug",
    ]  # fmt: skip


def datatrove(file, folder):
    return [WORK / "venv-datatrove/bin/python", Path(__file__).with_name("datatrove_peer.py"), file, folder]


# Its name, its command, and how its groups are read.
PEERS = [
    ("nearprint dedup, distance 3", nearprint(), of_nearprint),
    ("nearprint dedup, distance 6", nearprint("--distance", "6"), of_nearprint),
    ("text-dedup, SimHash", text_dedup("simhash"), of_text_dedup),
    ("text-dedup, MinHash", text_dedup("minhash"), of_text_dedup),
    ("datatrove, MinHash", datatrove, of_datatrove),
]


def resident(group):
    """Bytes of memory of all processes of a group. What they share counts for each of them in part."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == group:
                lines = (process / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
        except (OSError, StopIteration):
            continue
    return total


def run(command, folder):
    """Seconds and peak of memory; None if it takes too long, or why it failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "TOKENIZERS_PARALLELISM": "false"}
    begun = time.monotonic()
    with open(folder / "log", "w") as log:
        child = subprocess.Popen(
            list(map(str, command)), cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    peak, done = 0, 0
    while not done and time.monotonic() < begun + LIMIT:
        peak = max(peak, resident(child.pid))
        # Looking takes a few milliseconds of a core, which a long run should not pay often.
        time.sleep(0.002 if time.monotonic() < begun + 1 else 0.5)
        done, status = os.waitpid(child.pid, os.WNOHANG)
    seconds = time.monotonic() - begun
    if not done:
        os.killpg(child.pid, 9)
        child.wait()
        return f"stopped after {LIMIT:.0f} s"
    if status != 0:
        return f"failed: {(folder / 'log').read_text().strip().splitlines()[-1][:80]}"
    return seconds, peak


def pairs_within(groups):
    return {tuple(sorted((one, other))) for group in groups for at, one in enumerate(group) for other in group[:at]}


def sampled(groups, position, dice):
    """Some dropped documents, each with the first one of its group, which is kept."""
    pairs = []
    for group in groups:
        first, *others = sorted(group, key=position.__getitem__)
        pairs += [(first, other) for other in others]
    return dice.sample(pairs, min(SAMPLE, len(pairs)))


def labelled(found):
    """Precision and recall of pairs within groups on the labelled set."""
    true, unclear = set(), set()
    with open(SET / "pairs.tsv", encoding="utf8") as file:
        names = next(file).rstrip("\n").split("\t")
        for line in file:
            pair = dict(zip(names, line.rstrip("\n").split("\t")))
            (true if float(pair["ratio"]) >= TRUE_FROM else unclear).add(tuple(sorted((pair["a"], pair["b"]))))
    scores = {}
    for name, groups in found.items():
        pairs = pairs_within(groups)
        right = len(pairs & true)
        scores[name] = (right / max(1, len(pairs - unclear)), right / len(true))
    return scores


def pooled(found, texts):
    """Precision of a sample of each, and the recall of what is true in all samples."""
    dice = random.Random(11)
    pool, precisions, words = set(), {}, {}
    position = {document: at for at, document in enumerate(texts)}
    for name, groups in found.items():
        true = false = 0
        for pair in sampled(groups, position, dice):
            one, other = (words.setdefault(of, WORD.findall(texts[of].lower())) for of in pair)
            ratio = Indel.normalized_similarity(one, other)
            if ratio >= TRUE_FROM:
                true += 1
                pool.add(pair)
            elif ratio < FALSE_BELOW:
                false += 1
        precisions[name] = true / max(1, true + false)
    scores = {}
    for name, groups in found.items():
        label = {document: number for number, group in enumerate(groups) for document in group}
        right = sum(one in label and label[one] == label.get(other) for one, other in pool)
        scores[name] = (precisions[name], right / max(1, len(pool)))
    return scores


def compare(title, documents, score):
    with open(documents, encoding="utf8") as lines:
        texts = {document["id"]: document["text"] for document in map(json.loads, lines)}
    ids, found, rows = list(texts), {}, {}
    for name, command, groups in PEERS:
        folder = WORK / "run"
        runs = [run(command(documents, folder), folder) for _ in range(3 if "nearprint" in name else 1)]
        failed = next((outcome for outcome in runs if isinstance(outcome, str)), None)
        if failed is None:
            found[name] = groups(folder, ids)
            removed = sum(len(group) - 1 for group in found[name])
            seconds = statistics.median(seconds for seconds, _ in runs)
            peak = max(peak for _, peak in runs) / 2**20
            rows[name] = [f"{seconds:,.1f} s", f"{peak:,.0f} MiB", f"{removed:,}"]
        print(f"{title}: {name}: {failed or rows[name]}", file=sys.stderr, flush=True)
        rows.setdefault(name, [failed])
    scores = score(found, texts)
    yield f"### {title}\n"
    yield "| program | time | memory | dropped | precision | recall |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, cells in rows.items():
        cells = [*cells, *(f"{score:.3f}" for score in scores.get(name, []))]
        yield f"| {name} | " + " | ".join(cells + ["-"] * (5 - len(cells))) + " |"
    yield ""


def main():
    labelled_set = WORK / "labelled.jsonl"
    with open(SET / "docs.jsonl", encoding="utf8") as lines, open(labelled_set, "w", encoding="utf8") as out:
        for document in map(json.loads, lines):
            out.write(json.dumps({"id": document["id"], "text": document["text"]}) + "\n")
    real = Path(sys.argv[1]).resolve()
    count = sum(1 for _ in open(real, "rb"))
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    lines = [
        f"{datetime.date.today()}, {cpu}, {os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        *compare("The labelled set: 3,092 documents", labelled_set, lambda found, _: labelled(found)),
        *compare(f"{count:,} real documents", real, pooled),
    ]
    page = PAGE.read_text(encoding="utf8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n" + END + after, encoding="utf8")


if __name__ == "__main__":
    main()
