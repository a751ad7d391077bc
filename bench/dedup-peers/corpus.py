"""Real documents of this machine as NDJSON: one passage of each file of text below some folders.

usage: corpus.py OUT.jsonl COUNT FOLDER...

Files of 300 bytes to 1 MB that are UTF-8, compressed with gzip or not: documentation, manual pages, sources, and the text of
pages of HTML.
Of each, the first 2,000 characters behind its first 1,000, where licences are over, or the whole of a short file. The order
is that of a hash of the path, so that a smaller COUNT takes a sample.
"""

import gzip
import hashlib
import html
import json
import os
import re
import sys

SKIPPED, TAKEN, LEAST = 1_000, 2_000, 200
INVISIBLE = re.compile(r"<(head|script|style|nav)\b.*?</\1>|<[^>]*>", re.DOTALL)


def paths(folders):
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                try:
                    if not os.path.islink(path) and 300 <= os.path.getsize(path) <= 1_000_000:
                        yield path
                except OSError:
                    continue


def passage(path):
    try:
        with open(path, "rb") as file:
            content = file.read()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        if b"\0" in content:
            return None
        text = content.decode("utf8")
    except (OSError, ValueError, EOFError):
        return None
    if path.endswith((".html", ".htm")):
        text = " ".join(html.unescape(INVISIBLE.sub(" ", text)).split())
    if len(text) >= SKIPPED + LEAST:
        text = text[SKIPPED : SKIPPED + TAKEN]
    return text if len(text) >= LEAST else None


def main():
    out, count, folders = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    order = sorted(set(paths(folders)), key=lambda path: hashlib.sha1(os.fsencode(path)).digest())
    taken = 0
    with open(out + ".partial", "w", encoding="utf8") as file:
        for path in order:
            text = passage(path)
            if text is not None:
                file.write(json.dumps({"id": os.fsdecode(os.fsencode(path).decode("utf8", "replace")), "text": text}) + "\n")
                taken += 1
                if taken == count:
                    break
    os.rename(out + ".partial", out)
    print(f"{taken:,} documents")


if __name__ == "__main__":
    main()
