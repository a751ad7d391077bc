"""Real texts that nobody tuned to, from the machine: what the service finds of them with its default settings.

Truth is the share of words that agree, 2 LCS / (n + m): from .90 on a pair is positive, below .75 negative, pairs
in between are left out. Every document is stored and looked up once, in order, and a pair counts as found if the
later document finds the earlier one. Called by measure.py.
"""

import collections
import pathlib
import re

WORDS = 40, 3000
SHORT_WORDS = 8, 60
TEXTS_MAX = 700
POSITIVE, NEGATIVE = 0.90, 0.75
TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


def tokens(text):
    return TOKEN.findall(text.lower())


def distinct(texts, words):
    """Texts of so many words, each sequence of words once."""
    kept = {}
    for text in texts:
        split = tuple(tokens(text))
        if words[0] <= len(split) <= words[1]:
            kept.setdefault(split, text)
    chosen = list(kept.values())
    step = max(1, len(chosen) // TEXTS_MAX)
    return chosen[::step][:TEXTS_MAX]


def read(paths):
    for path in paths:
        try:
            yield path.read_text(encoding="utf8")
        except (OSError, UnicodeDecodeError):
            continue


def licences():
    return distinct(read(sorted(pathlib.Path("/usr/share/doc").glob("*/copyright"))), WORDS)


def sources_in_two_versions():
    """Rust sources of packages that are on the machine in two versions."""
    versions = collections.defaultdict(list)
    for folder in sorted(pathlib.Path.home().glob(".cargo/registry/src/*/*")):
        name, _, _ = folder.name.rpartition("-")
        versions[name].append(folder)
    both = [folders[-2:] for folders in versions.values() if len(folders) > 1]
    return distinct(read(path for pair in both for folder in pair for path in sorted(folder.rglob("*.rs"))), WORDS)


def package_descriptions():
    """Short texts: what Debian says of each package."""
    try:
        status = pathlib.Path("/var/lib/dpkg/status").read_text(encoding="utf8")
    except OSError:
        return []
    found = re.findall(r"^Description: .*\n((?: .*\n)+)", status, re.M)
    paragraphs = (part for text in found for part in re.split(r"\n \.\n", text))
    return distinct(paragraphs, SHORT_WORDS)


SETS = {
    "copyright files of Debian packages": licences,
    "Rust sources in two versions": sources_in_two_versions,
    "paragraphs of package descriptions": package_descriptions,
}


def pairs_of(texts):
    """The positive and the negative pairs (earlier, later)."""
    from rapidfuzz.distance import Indel

    split = [tokens(text) for text in texts]
    positive, negative = set(), set()
    for later, words in enumerate(split):
        for earlier in range(later):
            ratio = Indel.normalized_similarity(split[earlier], words, score_cutoff=NEGATIVE)
            if ratio >= POSITIVE:
                positive.add((earlier, later))
            elif ratio < NEGATIVE:
                negative.add((earlier, later))
    return positive, negative


def scores(measure, texts):
    positive, negative = pairs_of(texts)
    with measure.service(None) as address:
        _, directed = measure.look_ups(address, [{"id": str(at), "text": text} for at, text in enumerate(texts)])
    counting = {(other, at) for (at, other), (_, counts) in directed.items() if counts and other < at}
    return {"texts": len(texts), "pairs": len(positive), "found": len(counting & positive), "false": len(counting & negative)}


def table(measure):
    rows = ["| set | texts | true pairs | false | recall |", "|---|--:|--:|--:|--:|"]
    for name, texts in SETS.items():
        texts = texts()
        if len(texts) < 2:
            continue
        of = scores(measure, texts)
        recall = of["found"] / of["pairs"] if of["pairs"] else 0
        rows.append(f"| {name} | {of['texts']:,} | {of['pairs']:,} | {of['false']:,} | {recall:.3f} |")
    return "\n".join(rows)
