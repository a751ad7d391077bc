"""What the service finds with its default settings, and what MinHash-LSH finds.

Called by measure.py, which has the service and the evaluator. Every document is sent as a text without
any option, so that whatever the service does by default is measured: distance, search, verification.
"""

import random
import re
import textwrap
import time
import tracemalloc
import zlib

LENGTHS = 12, 25, 40, 60, 100, 200, 400, 1000
CHANGES = 1, 2, 4, 8
# No more than this share of the words of a text is changed: the texts stay near-duplicates.
SHARE_MAX = 0.1
TEXTS = 400
# Words of the pages that grow or shrink, and by which share.
GROWN_LENGTHS = 200, 400, 800
GROWN_SHARES = 0.05, 0.1, 0.2, 0.3
# Hits lie within the distance of any search.
ANY_DISTANCE = 12
PERMUTATIONS = 128
SHINGLE = 5
THRESHOLDS = [0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8]


def labelled(measure, evaluate, documents, track, environment):
    """What the evaluator says of the pairs that count by default, one way: a crawl asks once, with the
    later document. Also how many pairs only one of the two look-ups finds."""
    with measure.service(None, **environment) as address:
        prints, directed = measure.look_ups(address, documents)
    counting = {pair: distance for pair, (distance, counts) in directed.items() if counts}
    # Similar texts are found at any distance, which the evaluator need not know.
    one_way = {(other, at): min(distance, ANY_DISTANCE) for (at, other), distance in counting.items() if at > other}
    scores = measure.scores(evaluate, track, prints, one_way, ANY_DISTANCE, ANY_DISTANCE)
    scores["only_one_way"] = sum((other, at) not in counting for at, other in counting)
    return scores


def as_page(text):
    """A page of a site around a text."""
    menu = "".join(f"<li><a href='/{name}'>{name}</a></li>" for name in ("Start", "News", "About", "Contact"))
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    paragraphs = "".join(f"<p>{part}</p>" for part in escaped.split("\n") if part.strip())
    return (
        f"<!DOCTYPE html><html><head><title>A page</title></head><body><nav><ul>{menu}</ul></nav>"
        f"<main>{paragraphs}</main><footer>All rights reserved. Made with care.</footer></body></html>"
    )


def excerpts(documents, length):
    """Texts of so many words, no two of one page; and a word of the same language for each."""
    dice = random.Random(length)
    groups, words_of = {}, {}
    for document in documents:
        words = document["text"].split()
        words_of.setdefault(document["lang"], []).extend(words[:200])
        if len(words) >= length:
            groups.setdefault(document["group"], (document["lang"], words))
    chosen = dice.sample(sorted(groups), min(TEXTS, len(groups)))
    for group in chosen:
        language, words = groups[group]
        at = dice.randrange(len(words) - length + 1)
        yield words[at : at + length], words_of[language]


def changed_words(measure, documents, environment):
    """By length, and by number of changed words: the share of texts that are found."""
    recalls = {}
    for length in LENGTHS:
        texts = list(excerpts(documents, length))
        with measure.service(None, **environment) as address:
            originals = [{"text": " ".join(words)} for words, _ in texts]
            measure.batch(address, "insert", originals)
            for changes in CHANGES:
                if changes > max(1, SHARE_MAX * length):
                    continue
                dice = random.Random(changes)
                edited = []
                for words, vocabulary in texts:
                    words = list(words)
                    for at in dice.sample(range(length), changes):
                        words[at] = dice.choice(vocabulary)
                    edited.append({"text": " ".join(words)})
                replies = measure.batch(address, "query", edited)
                recalls[length, changes] = sum(reply["duplicate"] for reply in replies) / len(replies)
    return recalls


def grown_pages(measure, documents, environment):
    """Pages of 200 to 800 words of which a share was added or removed at one place: the share found."""
    recalls = {}
    for length in GROWN_LENGTHS:
        texts = list(excerpts(documents, length))
        with measure.service(None, **environment) as address:
            measure.batch(address, "insert", [{"text": " ".join(words)} for words, _ in texts])
            for share in GROWN_SHARES:
                dice, count = random.Random(length), int(share * length)
                removed, added = [], []
                for words, vocabulary in texts:
                    at = dice.randrange(length - count)
                    removed.append({"text": " ".join(words[:at] + words[at + count:])})
                    new = dice.choices(vocabulary, k=count)
                    added.append({"text": " ".join(words[:at] + new + words[at:])})
                for name, edited in ("added", added), ("removed", removed):
                    replies = measure.batch(address, "query", edited)
                    found = sum(reply["duplicate"] for reply in replies)
                    recalls.setdefault((share, name), []).append(found / len(replies))
    return {key: sum(shares) / len(shares) for key, shares in recalls.items()}


def grown_table(recalls):
    rows = ["| share of the page | added | removed |", "|--:|--:|--:|"]
    for share in GROWN_SHARES:
        rows.append(f"| {share:.0%} | {recalls[share, 'added']:.1%} | {recalls[share, 'removed']:.1%} |")
    return "\n".join(rows)


def shingles(text):
    """Runs of five words; of characters, where a script has no spaces."""
    tokens = re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+", text.lower())
    return {" ".join(tokens[at : at + SHINGLE]).encode() for at in range(max(1, len(tokens) - SHINGLE + 1))}


def minhash(measure, evaluate, documents):
    """MinHash-LSH of datasketch at the threshold that is best on this very set."""
    try:
        import datasketch
    except ImportError:
        return None
    def sketch_of(document):
        # The default hash, SHA-1, would take most of the time.
        sketch = datasketch.MinHash(PERMUTATIONS, hashfunc=zlib.crc32)
        sketch.update_batch(shingles(document["text"]))
        return sketch

    def index_of(sketches, threshold):
        index = datasketch.MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
        for at, sketch in enumerate(sketches):
            index.insert(at, sketch)
        return index

    begun = time.process_time()
    sketches = [sketch_of(document) for document in documents]
    best = None
    seconds = time.process_time() - begun
    prints = ["0" * 16] * len(documents)
    for threshold in THRESHOLDS:
        begun = time.process_time()
        index = index_of(sketches, threshold)
        pairs = {}
        for at, sketch in enumerate(sketches):
            for other in index.query(sketch):
                if other > at and sketch.jaccard(sketches[other]) >= threshold:
                    pairs[at, other] = 0
        took = seconds + time.process_time() - begun
        point = measure.scores(evaluate, "documents", prints, pairs, 0, 0)["curve"][0]
        if best is None or point["f1"] > best["f1"]:
            best = point | {"threshold": threshold, "us": took / len(documents) * 1e6}
    # Counting allocations takes time, so they are counted by themselves.
    few = documents[:1000]
    tracemalloc.start()
    held = index_of([sketch_of(document) for document in few], best["threshold"])
    best["bytes"] = tracemalloc.get_traced_memory()[0] / len(few)
    tracemalloc.stop()
    del held
    return best


def everything(measure, evaluate, tracks):
    documents, short = tracks["documents"], tracks["short"]
    plain = [{name: document[name] for name in ("id", "text")} for document in documents]
    small = [{name: document[name] for name in ("id", "text")} for document in short]
    pages = [{"id": document["id"], "html": as_page(document["text"])} for document in plain]
    twelve = {"NEARPRINT_DATA__DISTANCE_MAX": "12", "NEARPRINT_QUERY__DISTANCE": "12", "NEARPRINT_QUERY__MIN_SIMILARITY": "0.8"}
    default = {"NEARPRINT_DATA__DISTANCE_MAX": None}
    exact = default | {"NEARPRINT_QUERY__SEARCH": "exact"}
    return {
        "documents": labelled(measure, evaluate, plain, "documents", default),
        "documents, `search = \"exact\"`": labelled(measure, evaluate, plain, "documents", exact),
        "pages of HTML": labelled(measure, evaluate, pages, "documents", default),
        "short texts": labelled(measure, evaluate, small, "short", default),
        "short texts, distance 12 and similarity 0.80": labelled(measure, evaluate, small, "short", twelve),
        "words": changed_words(measure, documents, default),
        "grown": grown_pages(measure, documents, default),
        "minhash": minhash(measure, evaluate, plain),
    }


def figure(score):
    return "" if score is None else f"{score:.3f}".lstrip("0") if score < 0.9995 else "1"


def row(name, point):
    scores = (figure(point[score]) for score in ("precision", "recall", "f1"))
    return f"| {name} | {point['tp'] + point['fn']:,} | {point['fp']} | " + " | ".join(scores) + " |"


HEAD = "| {} | true pairs | false | precision | recall | F1 |\n|---|--:|--:|--:|--:|--:|"


def points(results):
    """Recall and precision of the service by default and of MinHash-LSH, by what the picture calls them."""
    found = {"by default": results["documents"]["curve"][ANY_DISTANCE], "MinHash-LSH": results["minhash"]}
    return {name: (point["recall"], point["precision"]) for name, point in found.items() if point}


def sections(results):
    """The tables by the names of the template."""
    names = [name for name in results if name not in ("words", "grown", "minhash")]
    default = [HEAD.format("set"), *(row(name, results[name]["curve"][ANY_DISTANCE]) for name in names)]
    documents = results["documents"]
    languages = [HEAD.format("language"), *(row(*item) for item in documents["by_lang"].items())]
    lengths = [HEAD.format("tokens"), *(row(*item) for item in documents["by_length"].items())]
    shares = ["| words that agree | true pairs | recall | mean distance |", "|---|--:|--:|--:|"]
    for name, of in documents["recall_by_edit_ratio"].items():
        shares.append(f"| {name} | {of['pairs']} | {figure(of['recall'])} | {of['mean_distance']:.1f} |")
    return {
        "table_default": "\n".join(default),
        "table_default_languages": "\n".join(languages),
        "table_lengths": "\n".join(lengths),
        "table_shares": "\n".join(shares),
        "table_words": words_table(results["words"]),
        "table_grown": grown_table(results["grown"]),
        "only_one_way": str(sum(results[name]["only_one_way"] for name in names)),
        "minhash": minhash_text(results["minhash"]),
    }


def words_table(recalls):
    rows = [
        "| words of the text | " + " | ".join(f"{changes} changed" for changes in CHANGES) + " |",
        "|--:|" + "--:|" * len(CHANGES),
    ]
    for length in LENGTHS:
        found = (recalls.get((length, changes)) for changes in CHANGES)
        rows.append(f"| {length} | " + " | ".join("" if one is None else f"{one:.0%}" for one in found) + " |")
    return "\n".join(rows)


def minhash_text(best):
    if best is None:
        return "MinHash-LSH was not measured: datasketch is not installed."
    return textwrap.fill(
        f"MinHash-LSH (datasketch, {PERMUTATIONS} permutations, shingles of {SHINGLE} words) at the threshold that is best on "
        f"this very set, {best['threshold']}: precision {figure(best['precision'])}, recall {figure(best['recall'])}, "
        f"F1 {figure(best['f1'])}; {best['bytes'] / 1000:.1f} kB of memory and {best['us']:.0f} us of one core a document.",
        100,
        break_on_hyphens=False,
    )
