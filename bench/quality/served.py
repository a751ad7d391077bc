"""A service of the release binary, and batches of documents to it: what the programs of this folder measure."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request

BINARY = "target/release/nearprint"
LINES_A_REQUEST = 200


@contextlib.contextmanager
def service(**settings):
    """A service on a folder of its own; gives its address. A setting that is None keeps its default."""
    with tempfile.TemporaryDirectory() as directory:
        settings = {"NEARPRINT_LOG__LEVEL": "error"} | settings
        environment = os.environ | {name: value for name, value in settings.items() if value is not None}
        process = subprocess.Popen(
            [BINARY, "serve", "--listen", "127.0.0.1:0", "--data", directory],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        try:
            yield "http://" + process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait()


def batch(address, route, documents, **options):
    """The replies to documents, in order."""
    replies = []
    for at in range(0, len(documents), LINES_A_REQUEST):
        part = documents[at:at + LINES_A_REQUEST]
        lines = "".join(json.dumps(document | options) + "\n" for document in part)
        request = urllib.request.Request(
            f"{address}/v1/{route}/batch", lines.encode(), {"Content-Type": "application/x-ndjson"}
        )
        with urllib.request.urlopen(request) as reply:
            replies += [json.loads(line) for line in reply]
        print(f"\r  {route} {len(replies):,} of {len(documents):,}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return replies
