"""Replies that no nearprint service gives: one exception, whatever they are."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from harness import Proxy, Service, reply, text
from nearprint import errors
from nearprint.client import Client, messages

Connect = Callable[..., Any]

JSON = "application/json"
LINES = "application/x-ndjson"
PACKED = "application/octet-stream"
DEEP = b"[" * 100_000
STORED = {
    "namespace": None,
    "id": "a",
    "fingerprint": "0" * 16,
    "short": False,
    "verifiable": False,
    "stored_at_ms": 1,
}

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "fingerprint": lambda client: client.fingerprint("a"),
    "query": lambda client: client.query("a"),
    "insert": lambda client: client.insert("a"),
    "check_and_insert": lambda client: client.check_and_insert("a"),
    "compare": lambda client: client.compare("a", "b"),
    "get": lambda client: client.get("a"),
    "delete": lambda client: client.delete("a"),
    "delete_fingerprint": lambda client: client.delete_fingerprint(1),
    "query_many": lambda client: list(client.query_many(["a", "b"])),
    "insert_many": lambda client: list(client.insert_many(["a", "b"])),
    "delete_many": lambda client: list(client.delete_many(["a", "b"])),
    "query_packed": lambda client: client.query_packed([1]),
    "insert_packed": lambda client: client.insert_packed([1]),
    "check_and_insert_packed": lambda client: client.check_and_insert_packed([1]),
    "documents": lambda client: list(client.documents()),
    "documents_of": lambda client: list(client.documents_of(1)),
    "namespaces": lambda client: list(client.namespaces()),
    "originals": lambda client: list(client.originals()),
    "purge": lambda client: client.purge(namespace="a"),
    "find_groups": lambda client: client.find_groups(),
    "groups": lambda client: list(client.groups("1")),
    "group": lambda client: list(client.group("1", 0)),
    "jobs": lambda client: list(client.jobs()),
    "job": lambda client: client.job("1"),
    "wait_for_job": lambda client: client.wait_for_job("1"),
    "cancel_job": lambda client: client.cancel_job("1"),
    "wait_until_ready": lambda client: client.wait_until_ready(),
    "stats": lambda client: client.stats(),
    "count": lambda client: client.count("a"),
    "take_snapshot": lambda client: client.take_snapshot(),
    "snapshots": lambda client: client.snapshots(),
}

BODIES = [b"<html>", b"", b"null", b"5", b"[]", b"{}", b'"a"', DEEP, b"\xfe", b'{"documents": [5]}']


def refused(proxy: Proxy, call: Callable[[], Any]) -> str:
    """The message of the one exception for a foreign reply."""
    with pytest.raises(errors.Unreachable, match=f"^{proxy.url} does not answer as ") as raised:
        call()
    assert str(raised.value).endswith("Is a nearprint service there?")
    return str(raised.value)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_foreign_reply_is_one_exception(proxy: Proxy, connect: Connect, operation: str) -> None:
    client = connect(proxy.url, timeout=600)
    for media_type in ("text/html; charset=utf-8", JSON, LINES, PACKED):
        for body in BODIES:
            proxy.then(reply(200, body, media_type))
            refused(proxy, lambda: OPERATIONS[operation](client))
    assert len(proxy.seen) == len(BODIES) * 4


def test_every_operation_is_there() -> None:
    named = {name for name in vars(Client) if not name.startswith("_")}
    assert named - set(OPERATIONS) == {"close", "fingerprint_many", "check_and_insert_many"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"id": 5}, "has 5 as 'id'"),
        ({"short": None}, "has null as 'short'"),
        ({"stored_at_ms": "now"}, "has \"now\" as 'stored_at_ms'"),
        ({"fingerprint": []}, "has a list as 'fingerprint'"),
    ],
)
def test_a_field_of_another_type_is_named(
    proxy: Proxy, connect: Connect, changed: dict[str, Any], why: str
) -> None:
    client = connect(proxy.url)
    body = json.dumps({**STORED, **changed}).encode()
    proxy.then(
        reply(200, body, JSON), reply(200, b'{"documents": [%s], "next": null}' % body, JSON)
    )
    assert why in refused(proxy, lambda: client.get("a"))
    assert why in refused(proxy, lambda: list(client.documents()))


def test_fields_of_a_newer_service_are_passed_on(proxy: Proxy, connect: Connect) -> None:
    body = json.dumps({**STORED, "colour": "red"}).encode()
    proxy.then(reply(200, body, "Application/JSON ; charset=utf-8"))
    assert connect(proxy.url).get("a")["colour"] == "red"


REMOVED = b'{"removed": 1, "stored": false}\n'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (REMOVED * 3, "3 lines for 2 documents"),
        (REMOVED, "1 lines for 2 documents"),
        (REMOVED + b"\n", "not JSON"),
        (REMOVED + b"null\n", "null, not an object"),
        (REMOVED + b'{"error": null}\n', "null, not an object"),
        (REMOVED + b'{"error": {"code": 5}}\n', "has 5 as 'code'"),
        (REMOVED + DEEP, "too many levels"),
    ],
)
def test_a_foreign_reply_to_a_batch_is_named(
    proxy: Proxy, connect: Connect, body: bytes, why: str
) -> None:
    client = connect(proxy.url, timeout=600)
    proxy.then(reply(200, body, LINES))
    assert why in refused(proxy, lambda: list(client.delete_many(["a", "b"])))
    assert len(proxy.seen) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x00\x0d", "a distance above 12"),
        (b"\x00\xfe", "a distance above 12"),
        (b"\x00", "1 dist"),
    ],
)
def test_distances_that_there_are_not_are_refused(
    proxy: Proxy, connect: Connect, body: bytes, why: str
) -> None:
    client = connect(proxy.url)
    array = numpy.arange(2, dtype=numpy.uint64)
    proxy.then(reply(200, body, PACKED), reply(200, b"\x0c\xff", PACKED))
    assert why in refused(proxy, lambda: client.query_packed(array))
    assert client.query_packed(array).tolist() == [12, 255]


@pytest.mark.parametrize("body", [b"null", b"[]", b'{"code": 5}', DEEP])
def test_a_refusal_of_another_kind_has_its_status(
    proxy: Proxy, connect: Connect, body: bytes
) -> None:
    proxy.always(reply(404, body, "application/problem+json"))
    with pytest.raises(errors.NearprintError, match=f"^{proxy.url} replied 404: ") as raised:
        connect(proxy.url).get("a")
    assert type(raised.value) is errors.NearprintError


def test_groups_that_are_not_found_yet(proxy: Proxy, connect: Connect) -> None:
    job = {"job": "7", "kind": "groups", "state": "running", "begun_at_ms": 1, "ended_at_ms": None}
    proxy.then(reply(200, json.dumps({**job, "next": None}).encode(), JSON))
    with pytest.raises(errors.GroupsNotReady, match=r"job 7 is running; wait_for_job\(\)"):
        list(connect(proxy.url).groups("7"))


class Endless:
    """Sends a reply without an end."""

    def __init__(self, head: bytes, piece: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, args=(head, piece), daemon=True).start()

    def _serve(self, head: bytes, piece: bytes) -> None:
        sock, _ = self._listener.accept()
        with sock:
            try:
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head)
                while True:
                    sock.sendall(piece)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"Content-Length: 1000000000000\r\n\r\n", b" " * 10_000),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + b" " * 10_000 + b"\r\n"),
        (b"\r\n", b" " * 10_000),
    ],
)
def test_a_reply_without_an_end_is_not_taken(connect: Connect, head: bytes, piece: bytes) -> None:
    server = Endless(head, piece)
    with pytest.raises(
        errors.Unreachable, match=f"^{server.url}: .*longer than 100000 bytes, the reply_bytes_max"
    ):
        connect(server.url, reply_bytes_max=100_000).query("a")
    server.close()


def test_a_client_goes_on_after_a_reply_that_is_too_large(
    service: Service, proxy: Proxy, connect: Connect
) -> None:
    client = connect(proxy.url, reply_bytes_max=1_000, connections=1)
    assert len(list(client.query_many([text(1)] * 5))) == 5
    with pytest.raises(errors.Unreachable, match="longer than 1000 bytes"):
        list(client.query_many([text(1)] * 50))
    proxy.then(reply(200, b" " * 2_000, JSON))
    with pytest.raises(errors.Unreachable, match="longer than 1000 bytes"):
        client.query(text(1))
    assert client.query(text(1))["duplicate"] is False


def test_the_types_of_replies_are_those_of_the_description(service: Service) -> None:
    with urllib.request.urlopen(f"{service.url}/openapi.json") as opened:
        schemas = json.load(opened)["components"]["schemas"]

    def parts(name: str) -> Iterator[dict[str, Any]]:
        schema = schemas[name]
        yield schema
        for part in schema.get("allOf", []):
            yield from parts(part["$ref"].rsplit("/", 1)[1]) if "$ref" in part else [part]

    for ours, theirs in {
        messages.FingerprintReply: "FingerprintReply",
        messages.QueryReply: "QueryReply",
        messages.InsertReply: "InsertReply",
        messages.CheckReply: "CheckAndInsertReply",
        messages.CompareReply: "CompareReply",
        messages.DeleteReply: "RemovedReply",
        messages.Hit: "HitReply",
        messages.HitDocument: "HitDocumentReply",
        messages.StoredDocument: "DocumentReply",
        messages.Namespace: "NamespaceReply",
        messages.Job: "JobReply",
        messages.Group: "GroupReply",
        messages.Member: "MemberReply",
        messages.Snapshot: "SnapshotReply",
        messages.PackedInsertReply: "PackedInsertReply",
        messages.GroupsOptions: "GroupsBody",
        messages.PurgeOptions: "PurgeRequest",
        messages.InsertDocument: "InsertRequest",
        messages.QueryDocument: "QueryRequest",
        messages.CheckDocument: "CheckAndInsertRequest",
    }.items():
        required = {name for part in parts(theirs) for name in part.get("required", [])}
        fields = {name for part in parts(theirs) for name in part.get("properties", {})}
        kind: Any = ours
        assert required <= kind.__required_keys__, theirs
        # A page that is bytes is decoded before it is sent.
        assert fields == set(kind.__annotations__) - {"charset"}, theirs
