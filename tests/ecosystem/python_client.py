"""A client that openapi-python-client generates has every operation, and its calls work.

What it cannot: an operation takes one kind of bytes. Of the bodies of a single document, that is
text/plain, and a page goes into the field `html`; of those of a batch, it is lines of JSON.
Run by tools/ecosystem-openapi.
"""

import io
import json
import os
import urllib.request
from importlib import import_module
from pathlib import Path

from generated_client import Client
from generated_client.models import CheckAndInsertRequest, Problem
from generated_client.types import File

URL = os.environ["NEARPRINT_URL"]


def modules():
    """The modules of the operations, by their names."""
    folder = Path(import_module("generated_client.api").__file__).parent
    files = [file for file in folder.glob("*/*.py") if file.stem != "__init__"]
    return {
        file.stem: import_module(f"generated_client.api.{file.parent.name}.{file.stem}")
        for file in files
    }


def main():
    description = json.load(urllib.request.urlopen(f"{URL}/openapi.json"))
    operations = [
        one["operationId"] for item in description["paths"].values() for one in item.values()
    ]
    api = modules()
    assert sorted(api) == sorted(operations), set(operations) ^ set(api)

    client = Client(base_url=URL)
    text = "The lamp on the second floor flickers when the lift starts, and nobody knows the wire behind the panel"
    check = api["post_check_and_insert"]
    first = check.sync(client=client, body=CheckAndInsertRequest(text=f"{text}.", id="python"))
    assert first.outcome == "inserted", first
    again = check.sync(client=client, body=File(io.BytesIO(f"{text}!".encode())), limit=1)
    assert again.outcome == "duplicate", again
    assert again.hits[0].documents[0].id == "python", again

    refused = check.sync_detailed(client=client, body=CheckAndInsertRequest(text="... !?"))
    assert refused.status_code == 422, refused
    assert isinstance(refused.parsed, Problem) and refused.parsed.code == "empty_document", refused

    lines = File(io.BytesIO(b'{"text": "a b c d e f g"}\n{"text": "... !?"}\n'))
    for batch in [
        "post_fingerprint_batch",
        "post_query_batch",
        "post_insert_batch",
        "post_check_and_insert_batch",
    ]:
        replies = api[batch].sync(client=client, body=lines)
        lines.payload.seek(0)
        one, two = (json.loads(line) for line in replies.payload.read().splitlines())
        assert len(one["fingerprint"]) == 16, one
        assert two["error"]["code"] == "empty_document", two
    removed = api["post_delete_batch"].sync(
        client=client, body=File(io.BytesIO(b'{"id": "python"}\n'))
    )
    assert json.loads(removed.payload.read())["removed"] == 1, removed
    print(f"the generated client has all {len(operations)} operations")


if __name__ == "__main__":
    main()
