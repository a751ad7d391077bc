"""Print the near-duplicates in files of JSON lines: python duplicates.py FILE...

Each line is an object with a "text", and with an "id" or without. Needs the Python package:
docs/python.md.
"""

import json
import sys

import nearprint

index = nearprint.Index()
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            document = json.loads(line)
            id = document.get("id", f"{name}:{number}")
            try:
                checked = index.check_and_insert(id, document["text"])
            except nearprint.EmptyDocument:
                continue
            if checked.duplicate:
                hit = checked.hit
                print(f"{id} is a near-duplicate of {hit.id} (similarity {hit.similarity:.2f})")
