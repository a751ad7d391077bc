"""Peers from Python: `python_peer.py KIND COUNT DATA QUERIES REPETITIONS SECONDS [SETTINGS]`.

DATA is the seed of random fingerprints, or a folder with drawn ones, as data.rs reads them.

KIND is `multihash` (IndexBinaryMultiHash of faiss; settings NHASH,B,NFLIP), `flat` (its
IndexBinaryFlat, which scans) or `usearch` (the graph of USearch over vectors of bits). The Python
side of the harness in src/: the same data as data.rs, the same steps as bench.rs, the same line of
JSON. faiss finds what is *below* a radius, so 4 asks for up to 3.

A look-up of a single vector goes through Python and numpy, which costs some microseconds; what
that is, is measured on an index of one vector and noted as `call_ns`. Batches pay it once.
"""

import json
import statistics
import sys
import time

KIND, COUNT, DATA = sys.argv[1], int(sys.argv[2]), sys.argv[3]
QUERIES, REPETITIONS = map(int, sys.argv[4:6])
SECONDS = float(sys.argv[6])

try:
    import numpy as np

    if KIND == "usearch":
        import usearch.index as usearch
    else:
        import faiss
except ImportError as missing:
    print(json.dumps({"skipped": "not installed", "why": str(missing)}))
    sys.exit(0)

LISTED = not DATA.isdecimal()
SEED = 0 if LISTED else int(DATA)
if LISTED:
    STORED, FRESH = (np.fromfile(f"{DATA}/{name}.bin", "<u8") for name in ("stored", "fresh"))

DISTANCE = 3
RADIUS = DISTANCE + 1
# How many neighbours USearch is asked for: the default of its `search`.
NEAREST = 10
BITS = 64
TOGETHER = 8
DIGESTED = 1000
CHUNK = 1 << 16

MASK = (1 << 64) - 1
GOLDEN = 0x9E37_79B9_7F4A_7C15
FIRST = 0xBF58_476D_1CE4_E5B9
SECOND = 0x94D0_49BB_1331_11EB


def mix(z):
    """SplitMix64's finish, of a number of Python or an array of numpy."""
    if isinstance(z, int):
        z = ((z ^ (z >> 30)) * FIRST) & MASK
        z = ((z ^ (z >> 27)) * SECOND) & MASK
        return z ^ (z >> 31)
    u = np.uint64
    z = (z ^ (z >> u(30))) * u(FIRST)
    z = (z ^ (z >> u(27))) * u(SECOND)
    return z ^ (z >> u(31))


def draw(seed, places):
    """The numbers at some places of the sequence with this seed."""
    return mix(np.uint64(seed) + (places + np.uint64(1)) * np.uint64(GOLDEN))


def stored(places):
    return STORED[places.astype(np.int64)] if LISTED else draw(SEED, places)


def queries(begin, end):
    """The queries of these numbers, and the places they were planted at (all, also the odd ones')."""
    u = np.uint64
    numbers = np.arange(begin, end, dtype=u)
    seed = mix(~SEED & MASK)
    first = draw(seed, numbers * u(8))
    places = first % u(COUNT)
    distances = numbers // u(2) % u(DISTANCE + 1)
    flips = np.zeros_like(numbers)
    n = 0
    while (few := np.bitwise_count(flips) < distances).any():
        n += 1
        bits = u(1) << (draw(seed, numbers * u(8) + u(n)) >> u(58))
        flips = np.where(few, flips | bits, flips)
    others = FRESH[(numbers // u(2) % u(len(FRESH))).astype(np.int64)] if LISTED else first
    return np.where(numbers % u(2) == 1, others, stored(places) ^ flips), places


def digest():
    result = int(stored(np.array([COUNT - 1], dtype=np.uint64))[0])
    for query in queries(0, DIGESTED)[0]:
        result = mix(result ^ int(query))
    return f"{result:016x}"


def vectors(fingerprints):
    """As both want them: eight bytes each."""
    return fingerprints.view(np.uint8).reshape(-1, BITS // 8)


def kibibytes(file, name):
    with open(file, encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def resident():
    return kibibytes("/proc/self/smaps_rollup", "Rss:") * 1024


def peak():
    return kibibytes("/proc/self/status", "VmHWM:") * 1024


class Clock:
    """The time of the process on a core, and the wall clock."""

    def __init__(self):
        self.core, self.wall = time.process_time(), time.perf_counter()

    def seconds(self):
        return time.process_time() - self.core, time.perf_counter() - self.wall


class Graph:
    """USearch with the calls of faiss. It is approximate, and finds the nearest, however far."""

    def __init__(self):
        self.index = usearch.Index(ndim=BITS, metric="hamming", dtype="b1")

    def add(self, vectors):
        begin = len(self.index)
        self.index.add(np.arange(begin, begin + len(vectors)), vectors, threads=1)

    def range_search(self, vectors, radius):
        found = self.index.search(vectors, NEAREST, threads=1)
        near = found.distances < radius
        if len(vectors) > 1:
            near &= np.arange(NEAREST) < found.counts[:, None]
        limits = np.concatenate(([0], np.atleast_2d(near).sum(axis=1).cumsum()))
        return limits, found.distances[near], found.keys[near]


def new_index(count):
    if KIND == "usearch":
        return Graph(), "HNSW, b1, its defaults"
    if KIND == "flat":
        return faiss.IndexBinaryFlat(BITS), "a linear scan"
    nhash, b, nflip = map(int, sys.argv[7].split(",")) if len(sys.argv) > 7 else best(count)
    # The pigeonhole principle: otherwise neighbours are missed, and the comparison is of unlikes.
    assert nhash * (nflip + 1) > DISTANCE and nhash * b <= BITS, "these settings are not exact"
    index = faiss.IndexBinaryMultiHash(BITS, nhash, b)
    index.nflip = nflip
    return index, f"nhash {nhash}, b {b}, nflip {nflip}"


def best(count):
    """The settings that were quickest, in batches, among the exact ones tried at this size: 4,16,0
    and 2,B,1 with B from 16 to 28."""
    if count < 500_000:
        return 4, 16, 0
    return (2, 24, 1) if count < 5_000_000 else (2, 26, 1)


def build(report):
    stored(
        np.arange(min(CHUNK, COUNT), dtype=np.uint64)
    )  # room for drawing, which is not the index's
    clock, before = Clock(), resident()
    index, report["settings"] = new_index(COUNT)
    for begin in range(0, COUNT, CHUNK):
        places = np.arange(begin, min(begin + CHUNK, COUNT), dtype=np.uint64)
        index.add(vectors(stored(places)))
    report["build_seconds"], report["build_wall_seconds"] = clock.seconds()
    del places
    report["bytes"], report["peak_bytes"] = max(resident() - before, 0), max(peak() - before, 0)
    return index


def check(index, report):
    """Every answer, not timed; ends early where that takes too long."""
    clock, asked, planted, found, wrong = Clock(), 0, 0, 0, 0
    while asked < QUERIES and (asked == 0 or clock.seconds()[0] < SECONDS):
        asking, places = queries(asked, asked + TOGETHER)
        for number, (query, place) in enumerate(zip(asking, places), asked):
            _, distances, ids = index.range_search(vectors(np.array([query])), RADIUS)
            if number % 2 == 0:
                planted += 1
                found += int(place) in ids
            near = np.bitwise_count(stored(ids.astype(np.uint64)) ^ query)
            wrong += int(((near > DISTANCE) | (ids >= COUNT) | (near != distances)).sum())
        asked += TOGETHER
    report |= {"queries": asked, "planted": planted, "found": found, "false_hits": wrong}
    return asked


def one_by_one(index, each):
    times = []
    for repetition in range(1, REPETITIONS + 1):
        asking = vectors(queries(repetition * each, (repetition + 1) * each)[0])
        asking = [asking[i : i + 1] for i in range(each)]
        clock = Clock()
        for query in asking:
            index.range_search(query, RADIUS)
        times.append([seconds * 1e9 / each for seconds in clock.seconds()])
    return times


def batch(index, each, report):
    times = []
    for repetition in range(REPETITIONS + 1):
        begin = (REPETITIONS + 1 + repetition) * each
        asking = queries(begin, begin + each)[0]
        clock = Clock()
        limits, _, _ = index.range_search(vectors(asking), RADIUS)
        if repetition > 0:
            times.append([seconds * 1e9 / each for seconds in clock.seconds()])
        else:
            hits = np.diff(limits.astype(np.int64)) > 0
            planted = np.arange(begin, begin + each) % 2 == 0
            report["batch_found"] = int((hits & planted).sum())
            if not LISTED:
                report["batch_stray"] = int((hits & ~planted).sum())
    return times


def main():
    if KIND != "usearch":
        faiss.omp_set_num_threads(1)
    report = {"peer": KIND, "count": COUNT, "digest": digest()}
    # What is loaded at the first use is not the index's.
    tiny, _ = new_index(1)
    tiny.add(vectors(stored(np.arange(1, dtype=np.uint64))))
    report["call_ns"] = statistics.median(core for core, _ in one_by_one(tiny, 8 * TOGETHER))
    index = build(report)
    each = check(index, report)
    for name, times in ("one", one_by_one(index, each)), ("batch", batch(index, each, report)):
        report[f"{name}_ns"] = [core for core, _ in times]
        report[f"{name}_wall_ns"] = [wall for _, wall in times]
    print(json.dumps(report))


main()
