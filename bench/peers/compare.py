"""The driver: runs the peers one after another on one core and writes docs/benchmarks.md.

`tools/bench-peers` builds and starts it; the variables are described there. Every peer is a process
of its own with the same arguments and prints one line of JSON. They are kept in
target/peers/results.json; `compare.py results.json` writes the page from there without measuring.

Only what lies between the markers of the page is generated; the rest is written by people.
"""

import datetime
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import picture

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
LATENCY = ROOT / "docs" / "benchmarks-latency.svg"
MEMORY = ROOT / "docs" / "benchmarks-memory.svg"
RESULTS = ROOT / "target" / "peers" / "results.json"
DRAWN = ROOT / "target" / "peers" / "drawn"
BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"

SHIPPED = ROOT / "target" / "release"
NATIVE = ROOT / "target" / "peers" / "native" / "release"
PYTHON = ROOT / "target" / "peers" / "venv" / "bin" / "python"
FROM_PYTHON = Path(__file__).with_name("python_peer.py")

SEED = 42
LIKES = {"random": "random", "text": "like text"}
# Of the memory that is free at the start, so that the machine lives on.
MEMORY_SHARE = 0.85
# How much quicker a batch has to be for a line of its own.
WORTH = 1.25


def from_python(kind):
    return [str(PYTHON if PYTHON.exists() else sys.executable), str(FROM_PYTHON), kind]


# In the order of the tables. `drawn` ones are in the pictures, `from` a size on they are run.
PEERS = [
    {"name": "nearprint", "run": [SHIPPED / "peer-nearprint"], "drawn": True},
    {"name": "mih-rs", "run": [NATIVE / "peer-mih-rs"], "drawn": True},
    {"name": "mih-rs, 2 blocks", "run": [NATIVE / "peer-mih-rs"], "settings": "2", "from": 5e6},
    {"name": "gaoya", "run": [NATIVE / "peer-gaoya"], "settings": "6,4", "drawn": True},
    {"name": "gaoya, 5 blocks", "run": [NATIVE / "peer-gaoya"], "settings": "5,4"},
    {"name": "faiss MultiHash", "run": from_python("multihash"), "drawn": True},
    {"name": "faiss Flat", "run": from_python("flat"), "drawn": True},
    {"name": "USearch", "run": from_python("usearch"), "drawn": True},
    {"name": "brute force", "run": [NATIVE / "peer-brute-force"], "drawn": True},
]


def sizes(name, default):
    return sorted(int(float(size)) for size in os.environ.get(name, default).split())


def number(name, default):
    return int(float(os.environ.get(name) or default))


# --- Running ---------------------------------------------------------------------------------


def run_all():
    about_it = about()
    settings = {
        "queries": number("QUERIES", 100_000),
        "repetitions": number("REPETITIONS", 5),
        "seconds": number("SECONDS_EACH", 5),
        "limit": number("LIMIT", 900),
        "core": number("CORE", max(os.sched_getaffinity(0))),
        "likes": os.environ.get("LIKE", "random text").split(),
    }
    limits = {"seconds": settings["limit"], "bytes": int(meminfo("MemAvailable") * MEMORY_SHARE)}
    together, alone = sizes("SIZES", "1e5 1e6 1e7"), sizes("ALONE", "")
    rows, over, smaller = [], {}, {}
    for like, count in itertools.product(settings["likes"], sorted({*together, *alone})):
        data = SEED if like == "random" else drawn(count)
        for peer in PEERS:
            if count < peer.get("from", 0) or (count not in together and peer is not PEERS[0]):
                continue
            name = peer["name"]
            print(f"{like:7} {count:>11,}  {name:18}", end=" ", flush=True)
            row = over.get((like, name)) or foreseen(smaller.get((like, name)), count, limits)
            row = row or run(peer, (count, data), settings, limits)
            smaller[like, name] = row
            if "skipped" in row and (like, name) not in over:
                already = "" if row["skipped"] == "not installed" else f" at {count:,} already"
                over[like, name] = {"skipped": row["skipped"] + already}
            rows.append({**row, "name": name, "count": count, "like": like})
            print(row.get("skipped") or f"{median(row, 'one'):12,.0f} ns", flush=True)
    same_data(rows)
    return {"rows": rows, "settings": settings, "about": about_it}


def foreseen(smaller, count, limits):
    """Why a peer is not run, if its time or memory at a smaller size, scaled, is over a limit."""
    if smaller is None or "skipped" in smaller:
        return None
    times = count / smaller["count"]
    if smaller["build_seconds"] * times > limits["seconds"]:
        return {"skipped": f"would take longer than {limits['seconds']:g} s"}
    if smaller["peak_bytes"] * times > limits["bytes"]:
        return {"skipped": f"would take more than {limits['bytes'] / 2**30:.3g} GiB"}
    return None


def drawn(count):
    """A folder with fingerprints like text, and with others of the same kind for the queries."""
    folder = DRAWN / str(count)
    folder.mkdir(parents=True, exist_ok=True)
    for name, more in ("stored", []), ("fresh", ["--fresh", "1m"]):
        command = [SHIPPED / "nearprint-bench", "draw", "--like", "text", "--packed"]
        with (folder / f"{name}.bin").open("wb") as file:
            subprocess.run([*command, "--count", str(count), *more], stdout=file, check=True)
    return folder


def run(peer, what, settings, limits):
    """One peer with some fingerprints; what it printed, or why it was skipped."""
    arguments = [*what, *(settings[name] for name in ("queries", "repetitions", "seconds"))]
    arguments += [peer["settings"]] if "settings" in peer else []
    command = ["taskset", "-c", settings["core"], *peer["run"], *arguments]
    threads = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | threads,
    )
    try:
        if reason := watch(process, limits):
            return {"skipped": reason}
        output = process.communicate()[0]
        return json.loads(output) if process.returncode == 0 else {"skipped": "failed"}
    finally:
        process.kill()
        process.wait()


def watch(process, limits):
    """Waits for the end of a peer; the reason, where it goes over a limit before."""
    begun = time.monotonic()
    # A peer prints one line at its end, so the pipe never fills.
    while process.poll() is None:
        time.sleep(0.2)
        if time.monotonic() - begun > limits["seconds"]:
            return f"longer than {limits['seconds']:g} s"
        if resident(process.pid) > limits["bytes"]:
            return f"more than {limits['bytes'] / 2**30:.3g} GiB"
    return None


def same_data(rows):
    """The peers stored and asked the same, or their figures mean nothing."""
    digests = {}
    for row in rows:
        if "digest" in row:
            first = digests.setdefault((row["like"], row["count"]), row["digest"])
            assert first == row["digest"], f"{row['name']} has other data at {row['count']}"


def resident(process):
    try:
        return kibibytes(f"/proc/{process}/status", "VmRSS")
    except (OSError, StopIteration):
        return 0  # It has just ended.


def kibibytes(file, name):
    with open(file, encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def meminfo(name):
    return kibibytes("/proc/meminfo", name)


# --- The machine and the versions ------------------------------------------------------------


def about():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    pages = re.findall(r"\[(\w+)\]", pages.read_text("ascii")) if pages.exists() else ["none"]
    flags = Path("/proc/cpuinfo").read_text("utf-8")
    vector = [name for name in ("avx2", "avx512f", "avx512_vpopcntdq") if name in flags]
    return {
        "date": datetime.date.today().isoformat(),
        "machine": [
            f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores",
            f"vector instructions: {', '.join(vector) or 'none of avx2, avx512'}",
            f"{meminfo('MemTotal') / 2**30:.0f} GiB of memory, huge pages: {pages[0]}",
            f"{platform.system()} {platform.release()}",
            f"other work in the minute before: a load of {os.getloadavg()[0]:.1f}",
        ],
        "versions": versions(),
    }


def versions():
    lock = (Path(__file__).parent / "Cargo.lock").read_text("utf-8")
    locked = dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', lock))
    commit = told(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    changed = told(["git", "-C", str(ROOT), "status", "--porcelain", "crates", "Cargo.toml"])
    state = f" at {commit}{' and changes' if changed else ''}" if commit else ""
    python = (
        "import faiss, numpy, usearch; print('faiss-cpu', faiss.__version__,"
        " '/ usearch', usearch.__version__, '/ numpy', numpy.__version__)"
    )
    return [
        f"nearprint {locked['nearprint-index']}{state}",
        f"mih-rs {locked['mih-rs']}",
        f"gaoya {locked['gaoya']}",
        told([from_python("flat")[0], "-c", python]) or "faiss-cpu and usearch: not installed",
        f"Python {platform.python_version()}",
        told(["rustc", "--version"]).split(" (")[0],
    ]


def told(command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return result.stdout.strip()


# --- The page --------------------------------------------------------------------------------


def median(row, what):
    times = row.get(f"{what}_ns")
    return statistics.median(times) if times else None


def grouped(value, digits=3):
    """A number with about so many digits, and commas."""
    if value >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def microseconds(row, what):
    time_ns = median(row, what)
    return "-" if time_ns is None else grouped(time_ns / 1000)


def recall(row):
    planted, found = row["planted"], row["found"]
    if "batch_found" in row:
        planted, found = planted + row["queries"] // 2, found + row["batch_found"]
    # Never rounded up: one that was missed shows.
    return "1" if found == planted else f"{int(found / planted * 10_000) / 10_000:.4f}"


def table(rows):
    head = (
        "peer | settings | build, s | one query, us | in a batch, us | queries | recall"
        " | false hits | bytes a fingerprint | peak while building"
    )
    lines = [f"| {head} |", "|---|---|" + "--:|" * 8]
    for row in rows:
        if "skipped" in row:
            lines.append(f"| {row['name']} | {row['skipped']} |" + " |" * 8)
            continue
        cells = [
            row["name"],
            row["settings"],
            grouped(row["build_seconds"], 2),
            microseconds(row, "one"),
            microseconds(row, "batch"),
            f"{row['queries']:,}",
            recall(row),
            f"{row['false_hits'] + row.get('batch_stray', 0):,}",
            grouped(row["bytes"] / row["count"]),
            grouped(row["peak_bytes"] / row["count"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def spread(rows):
    """How far a repetition lay from its median, and the wall clock from the processor's, at most."""
    apart, ahead = 0, 0
    for row in rows:
        for what in ("one", "batch"):
            if times := row.get(f"{what}_ns"):
                middle = statistics.median(times)
                apart = max(apart, *(abs(time_ns - middle) / middle for time_ns in times))
                walls = row[f"{what}_wall_ns"]
                ahead = max(ahead, statistics.median(walls) / middle - 1)
    return f"{apart:.0%}".replace("%", " %"), f"{ahead:.0%}".replace("%", " %")


def command(results):
    """What was typed, as far as it was not the default."""
    names = ("SIZES", "ALONE", "QUERIES", "REPETITIONS", "SECONDS_EACH", "LIMIT", "CORE", "LIKE")
    given = [f'{name}="{os.environ[name]}"' for name in names if os.environ.get(name)]
    return " ".join(["make figures WHAT=peers", *given])


def page(results):
    rows, settings, about_it = results["rows"], results["settings"], results["about"]
    apart, ahead = spread(rows)
    calls = [row["call_ns"] / 1000 for row in rows if "call_ns" in row]
    overhead = f"about {grouped(statistics.median(calls), 2)} us of" if calls else "much of"
    lines = [
        "## Peers",
        "",
        f"Generated by `{results['command']}` on {about_it['date']}.",
        f"{'; '.join(about_it['machine'] + about_it['versions'])}.",
        "",
        "![time of one query against the number of fingerprints](benchmarks-latency.svg)",
        "![memory of a fingerprint against their number](benchmarks-memory.svg)",
        "",
    ]
    for like, count in sorted({(row["like"], row["count"]) for row in rows}):
        lines += [f"### {count:,} fingerprints, {LIKES[like]}", ""]
        own = [row for row in rows if (row["like"], row["count"]) == (like, count)]
        lines += [*table(own), ""]
    lines += [
        "### How it was measured",
        "",
        "- Every peer but USearch finds all stored fingerprints within distance 3. Half of the queries are planted at distance 0, 1, 2 and 3 of a stored one; the other half is drawn as the stored ones are.",
        "- *random*: every bit is a fair coin (SplitMix64). *like text*: drawn from a model of real text, a fifth of it in families of near-copies (`nearprint-bench draw --like text`, bench/model/README.md).",
        f"- All peers run on the same core (`taskset -c {settings['core']}`), one after another, each in a process of its own with one thread. A digest checks that all had the same data and the same queries.",
        f"- Times are processor time: the median of {settings['repetitions']} repetitions, each a mean over its queries. No query is repeated. A pass before them warms up and checks every answer: *recall* is the share of planted neighbours that were found; *false hits* are answers that are not stored, not near, or, in a batch, near a random query. *queries* is the number in a repetition: fewer where they took longer than {settings['seconds']} s.",
        f"- A repetition lay up to {apart} from its median; the wall clock ran up to {ahead} ahead of the processor time.",
        "- Memory is the resident memory of the process after building, less that before (0 where the index fits into memory that the process had already); *peak while building* is its maximum, less that before. Building includes drawing the fingerprints, about 1 ns each.",
        "- nearprint is built as it is shipped, for any x86-64, with overflow checks; the other Rust programs are built for the processor of this machine (`target-cpu=native`). faiss brings its own code for it.",
        "- nearprint answers a single query with all neighbours, and a query of a batch with the distance of the nearest. Its index keeps a posting a document, 20 to 27 bits (sequence, has it an id, has it a sketch), which the peers do not have.",
        "- mih-rs chooses its blocks by itself; 2 blocks, shown from 5 million on, trade memory for time. It has no batches. gaoya finds what is *below* its distance, so it is made with 4; its batch is a parallel loop, here with one thread. faiss has the quickest exact settings of those tried.",
        "- USearch is an index of another kind, a graph (HNSW) over vectors of 64 bits: it is asked for the 10 nearest, with its default settings, and those within the distance count. It may miss some; *recall* says how many.",
        f"- faiss and USearch are called from Python: {overhead} a single query is the call (an index of one vector takes that long). Compare their batches, which pay for the call only once.",
    ]
    return "\n".join(map(wrapped, lines))


def wrapped(line):
    """A line of prose at most 100 columns wide; tables, pictures and headings stay as they are."""
    if line.startswith(("|", "!", "#")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(
        line, 100, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def write_page(results):
    text = PAGE.read_text("utf-8") if PAGE.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    note = "<!-- written by make figures WHAT=peers; changes here are lost -->"
    PAGE.write_text(f"{before}{BEGIN}\n{note}\n{page(results)}\n{END}{after}", "utf-8")


def write_pictures(results):
    pictured = {peer["name"] for peer in PEERS if peer.get("drawn")}
    rows = [row for row in results["rows"] if row["name"] in pictured and "skipped" not in row]
    # One kind of fingerprints in a picture; the tables have the other.
    rows = [row for row in rows if row["like"] == results["settings"]["likes"][0]]
    names = [peer["name"] for peer in PEERS if any(row["name"] == peer["name"] for row in rows)]
    latency, memory = [], []
    for name in names:
        own = [row for row in rows if row["name"] == name]
        latency.append((name, "", [(row["count"], median(row, "one")) for row in own]))
        batches = [(row["count"], median(row, "batch")) for row in own if "batch_ns" in row]
        # Where it makes no difference, one line says it.
        if any(one / batch > WORTH for (_, one), (_, batch) in zip(latency[-1][2], batches)):
            latency.append((name, "in a batch", batches))
        # A small index fits into memory that the process had before.
        grown = [row for row in own if row["bytes"] > 0]
        if grown:
            memory.append(
                (name, "", [(row["count"], row["bytes"] / row["count"]) for row in grown])
            )
    title = "Time of one query at distance 3, on one core"
    LATENCY.write_text(picture.plot(title, latency, picture.nanoseconds), "utf-8")
    MEMORY.write_text(
        picture.plot("Resident memory, bytes a fingerprint", memory, picture.bytes_), "utf-8"
    )


def main():
    if len(sys.argv) > 1:
        results = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    else:
        results = run_all()
        results["command"] = command(results)
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1), "utf-8")
    write_page(results)
    write_pictures(results)
    print(f"written: {', '.join(str(path.relative_to(ROOT)) for path in (PAGE, LATENCY, MEMORY))}")


main()
