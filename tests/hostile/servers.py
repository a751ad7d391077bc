#!/usr/bin/env python3
"""Servers that are not nearprint, or a nearprint that something is wrong with: one table for the
command line and the clients in Python and JavaScript, each of which must end every call as the
table says.

usage: tests/hostile/servers.py   (until its standard input ends; needs Python 3 alone)

It prints one line of JSON, a list with an object for each server:

- `name`: what the server does; `url`: where it is.
- `call`: `query` (POST /v1/query of one text) or `batch` (the same of two, as a batch).
- `calls`, `pause_s`: how many calls to make with one client, and how long to wait between them.
- `timeout_s`: the timeout of the client. 600 where the call must end by itself.
- `reply_bytes_max`: the longest reply that the client takes.
- `expected`: how each call ends. `answered`: a reply without a duplicate (a reply with one belongs
  to nobody's request). `unreachable` and `overloaded`: the client's own errors, whose messages name
  the address. `refused 404`: an error with this status that names the address.

The command line is a new client for each call, and takes replies of up to 256 MiB.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

AT_ONCE_S = 600
SOON_S = 0.5
REPLY_BYTES_MAX = 100_000

GOOD = (
    b'{"fingerprint":"0000000000000000","short":false,"duplicate":false,"hits":[],'
    b'"hit_count":0,"truncated":false}'
)
BAD = GOOD.replace(b'"duplicate":false', b'"duplicate":true')
READY = b'{"status":"ready"}'
JSON = "application/json"
LINES = "application/x-ndjson"
PAGE = b"<html><h1>It works!</h1></html>"

Script = bytes | Callable[[socket.socket, bytes], None]


def http(
    body: bytes = GOOD, *, status: str = "200 OK", type: str | None = JSON, **fields: str
) -> bytes:
    """A reply; fields that are given replace those of the same name."""
    usual = {"Content-Type": type, "Content-Length": str(len(body))}
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    head = {name: value for name, value in {**usual, **given}.items() if value}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def raw(head: str, body: bytes = b"") -> bytes:
    """A reply with a head of one's own; its lines have bars between them."""
    return head.replace("|", "\r\n").encode() + b"\r\n\r\n" + body


def chunked(*chunks: bytes) -> bytes:
    head = "HTTP/1.1 200 OK|Content-Type: application/json|Transfer-Encoding: chunked"
    return raw(head, b"".join(chunks))


def close(reply: bytes = b"") -> Script:
    """Send this, and close the connection."""

    def run(sock: socket.socket, request: bytes) -> None:
        sock.sendall(reply)
        raise ConnectionError

    return run


def reset(sock: socket.socket, request: bytes) -> None:
    """Close the connection with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionError


def repeat(head: bytes, piece: bytes, pause_s: float = 0.0) -> Script:
    """Send a head, and then the same piece for ever."""

    def run(sock: socket.socket, request: bytes) -> None:
        sock.sendall(head)
        while True:
            sock.sendall(piece)
            time.sleep(pause_s)

    return run


def push(reply: bytes, unasked: bytes) -> Script:
    """Send a reply, and a moment later another that nobody asked for."""

    def run(sock: socket.socket, request: bytes) -> None:
        sock.sendall(reply)
        time.sleep(0.05)
        sock.sendall(unasked)

    return run


def without_cookie(sock: socket.socket, request: bytes) -> None:
    """Set a cookie; a request that brings it back is a duplicate."""
    has_cookie = b"\r\ncookie:" in request.lower()
    sock.sendall(http(BAD if has_cookie else GOOD, Set_Cookie="a=b; Path=/"))


def uncompressed(sock: socket.socket, request: bytes) -> None:
    """Compress the reply if the request offers that."""
    offers = b"gzip" in request.lower()
    sock.sendall(http(gzip.compress(GOOD), Content_Encoding="gzip") if offers else http())


def changed(**fields: Any) -> bytes:
    """A good reply with other fields; those that are None are missing."""
    reply = {**json.loads(GOOD), **fields}
    return http(json.dumps({k: v for k, v in reply.items() if v is not None}).encode())


class Server:
    """A row of the table: it answers the first request with the first script and so on, and those
    after the last script with that one.
    """

    def __init__(self, name: str, expected: str, *scripts: Script, **settings: Any) -> None:
        self._greeting: bytes | None = settings.pop("greeting", None)
        self._scripts = list(scripts)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.row = {
            "name": name,
            "url": f"http://127.0.0.1:{self._listener.getsockname()[1]}",
            "call": "query",
            "calls": 1,
            "pause_s": 0,
            "timeout_s": AT_ONCE_S,
            "reply_bytes_max": REPLY_BYTES_MAX,
            "expected": expected,
            **settings,
        }
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._greeting is not None:
                    sock.sendall(self._greeting)
                while request := request_of(sock):
                    if request.startswith(b"GET /readyz "):
                        # The command line asks before it sends a batch.
                        sock.sendall(http(READY))
                        continue
                    with self._lock:
                        script = (
                            self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                        )
                    if isinstance(script, bytes):
                        sock.sendall(script)
                    else:
                        script(sock, request)
            except OSError:
                return


def request_of(sock: socket.socket) -> bytes:
    """The next request; nothing if the client has closed the connection."""
    request = b""
    while b"\r\n\r\n" not in request:
        piece = sock.recv(1 << 16)
        if not piece:
            return b""
        request += piece
    head, _, body = request.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        piece = sock.recv(1 << 16)
        if not piece:
            return b""
        body += piece
    return head + b"\r\n\r\n" + body


def silent() -> Iterator[Server]:
    """Servers that send nothing, or not enough, for ever: the deadline ends the call."""

    def late(name: str, *scripts: Script, **settings: Any) -> Server:
        return Server(name, "unreachable", *scripts, timeout_s=SOON_S, **settings)

    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    yield late("sends nothing", b"")
    yield late("sends half a status line", b"HTTP/1.1 20")
    yield late("sends half a head", head)
    yield late("sends a head and no body", head + b"Content-Length: 9\r\n\r\n")
    yield late("sends a body that lacks a byte", http(Content_Length=str(len(GOOD) + 1)))
    yield late("sends a chunk and no end", chunked(b'5\r\n{"a":\r\n'))
    yield late("drips a status line", repeat(b"", b"H", 0.05))
    yield late("drips a head", repeat(head + b"X: ", b"x", 0.05))
    yield late("drips a body", repeat(head + b"Content-Length: 9999\r\n\r\n", b" ", 0.05))
    yield late("drips chunks", repeat(chunked(), b"1\r\n \r\n", 0.05))
    yield late("drips trailers", repeat(chunked(b"0\r\n"), b"X: x\r\n", 0.05))
    yield late("says 100 for ever", repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05))


def closing() -> Iterator[Server]:
    """Servers that close the connection too soon, always or once."""

    def lost(name: str, *scripts: Script) -> Server:
        return Server(name, "unreachable", *scripts, timeout_s=SOON_S)

    cut = close(http()[:-9])
    cut_chunk = close(chunked(b"%x\r\n" % len(GOOD), GOOD[:-9]))
    yield lost("closes without a reply", close())
    yield lost("resets the connection", reset)
    yield lost("closes in the status line", close(b"HTTP/1.1 20"))
    yield lost("closes in the head", close(b"HTTP/1.1 200 OK\r\nContent-Type: appl"))
    yield lost("closes in the body", cut)
    yield lost("closes in a chunk", cut_chunk)
    yield lost("closes before the last chunk", close(chunked(b"%x\r\n%b\r\n" % (len(GOOD), GOOD))))
    yield Server("closes without a reply, once", "answered", close(), http())
    yield Server("resets the connection, once", "answered", reset, http())
    yield Server("closes in the body, once", "answered", cut, http())
    yield Server("closes in a chunk, once", "answered", cut_chunk, http())
    yield Server("closes after each reply", "answered", close(http()), calls=3)
    last = close(http(Connection="close"))
    yield Server("says that it closes, and does", "answered", last, calls=3)
    yield Server("says that it closes, and does not", "answered", http(Connection="close"), calls=3)
    old = close(http().replace(b"HTTP/1.1", b"HTTP/1.0"))
    yield Server("replies with HTTP/1.0", "answered", old, calls=2)


def unasked() -> Iterator[Server]:
    """Servers that send more than was asked for: it is no call's reply."""
    settings: dict[str, Any] = {"calls": 3, "pause_s": 0.2}
    busy = http(status="408 Request Timeout", type="text/html", Connection="close")
    cookies = without_cookie
    yield Server("sends two replies at once", "answered", http() + http(BAD), **settings)
    yield Server("sends a reply later", "answered", push(http(), http(BAD)), **settings)
    yield Server("sends 408 later", "answered", push(http(), busy), **settings)
    yield Server("sends bytes later", "answered", push(http(), b"x"), **settings)
    yield Server("sets a cookie", "answered", cookies, calls=2)
    yield Server("compresses if it may", "answered", uncompressed)


def foreign() -> Iterator[Server]:
    """Servers that do not speak HTTP, or break its rules."""

    def wrong(name: str, *scripts: Script, **settings: Any) -> Server:
        return Server(name, "unreachable", *scripts, **settings)

    head = "HTTP/1.1 200 OK|Content-Type: application/json"
    ssh = b"SSH-2.0-OpenSSH_9.7\r\n"
    yield wrong("is a server of SSH", close(), greeting=ssh, timeout_s=SOON_S)
    yield wrong("replies as SSH", close(ssh))
    yield wrong("replies as SMTP", b"220 mail.example ESMTP\r\n", timeout_s=SOON_S)
    yield wrong("replies with an alert of TLS", close(b"\x15\x03\x01\x00\x02\x02\x46"))
    yield wrong("replies as HTTP/2", close(b"\x00\x00\x12\x04" + bytes(23)))
    yield wrong("replies as HTTP/0.9", close(PAGE))
    yield wrong("replies with HTTP/9.9", close(raw("HTTP/9.9 200 OK|Content-Length: 0")))
    yield wrong("has a status without digits", close(raw("HTTP/1.1 good|Content-Length: 0")))
    yield wrong("has a status of four digits", close(raw("HTTP/1.1 2000 OK|Content-Length: 0")))
    yield wrong(
        "has an endless header", repeat(f"{head}|X: ".replace("|", "\r\n").encode(), b"x" * 10_000)
    )
    yield wrong("has endless headers", repeat(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n" * 1_000))
    soon = {"timeout_s": SOON_S}
    yield wrong("has an endless status line", repeat(b"HTTP/1.1 200 ", b"x" * 10_000), **soon)
    yield wrong("has a negative length", raw(f"{head}|Content-Length: -1", GOOD), **soon)
    yield wrong("has a length without digits", raw(f"{head}|Content-Length: x", GOOD), **soon)
    two = f"{head}|Content-Length: {len(GOOD)}|Content-Length: 3"
    yield wrong("has two lengths", close(raw(two, GOOD)), **soon)
    both = f"{head}|Content-Length: 3|Transfer-Encoding: gzip"
    yield wrong("has a coding that is not known", close(raw(both, GOOD)), **soon)
    for size in (b"x", b"-5", b"", b"0x5", b"f" * 17):
        chunk = chunked(size + b"\r\n" + GOOD + b"\r\n0\r\n\r\n")
        yield wrong(f"has a chunk of the size {size.decode()!r}", close(chunk), **soon)
    yield wrong("has an endless chunk size", repeat(chunked(), b"1" * 10_000), **soon)
    yield wrong(
        "has an endless body", repeat(raw(f"{head}|Content-Length: 9999999999"), b" " * 10_000)
    )
    yield wrong("has endless chunks", repeat(chunked(), b"2710\r\n" + b" " * 10_000 + b"\r\n"))
    yield wrong("has a body that nothing ends", repeat(raw(head), b" " * 10_000))
    bomb = gzip.compress(b" " * 10_000_000 + GOOD)
    yield wrong("compresses what was not to be", http(gzip.compress(GOOD), Content_Encoding="gzip"))
    yield wrong("sends a bomb", http(bomb, Content_Encoding="gzip"))
    yield wrong("says that it compresses, and does not", http(Content_Encoding="br"))


def statuses() -> Iterator[Server]:
    """Servers that refuse, forward, or are busy."""
    elsewhere = Server("elsewhere", "", http(BAD)).row["url"]
    for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
        reply = http(b"", status=status, type=None, Location=f"{elsewhere}/v1/query")
        yield Server(f"replies {status}", f"refused {status[:3]}", reply)
    yield Server(
        "replies 302 to itself", "refused 302", http(b"", status="302 F", Location="/v1/query")
    )
    for status in (
        "400 Bad",
        "401 No",
        "403 No",
        "404 No",
        "418 Tea",
        "500 Error",
        "999 What",
    ):
        reply = http(PAGE, status=status, type="text/html")
        yield Server(f"replies {status} with a page", f"refused {status[:3]}", reply)
    for problem in (b"null", b"{}", b'{"status":400,"code":5,"detail":"x"}', b"[" * 100_000):
        reply = http(problem, status="400 Bad", type="application/problem+json")
        yield Server(
            f"replies 400 with {problem[:40].decode()}",
            "refused 400",
            reply,
            reply_bytes_max=1 << 20,
        )
    yield Server("replies 304", "refused 304", close(raw("HTTP/1.1 304 Not Modified")))
    for status in ("204 No Content", "205 Reset Content"):
        yield Server(
            f"replies {status}", "unreachable", close(raw(f"HTTP/1.1 {status}|Content-Length: 0"))
        )
    busy = http(PAGE, status="503 Busy", type="text/html")
    yield Server("is busy, once", "answered", busy, http())
    yield Server("has lost the service, once", "answered", http(PAGE, status="502 Gone"), http())
    lost = http(PAGE, status="504 Late", type="text/html")
    yield Server("has always lost the service", "unreachable", lost, timeout_s=SOON_S)
    always = http(b"", status="429 Slow", Retry_After="0")
    yield Server("is always busy", "overloaded", always, timeout_s=SOON_S)
    for after in ("1000000000", "Wed, 21 Oct 2115 07:28:00 GMT"):
        reply = http(b"", status="429 Slow", Retry_After=after)
        yield Server(f"is busy until {after}", "overloaded", reply)
    for after in ("0", "-5", "soon", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT"):
        reply = http(b"", status="429 Slow", Retry_After=after)
        yield Server(f"is busy until {after[:30]}, once", "answered", reply, http())


def contents() -> Iterator[Server]:
    """Servers that reply 200 with something else."""

    def wrong(name: str, *scripts: Script, **settings: Any) -> Server:
        return Server(name, "unreachable", *scripts, **settings)

    yield wrong("replies with a page", http(PAGE, type="text/html"))
    yield wrong("replies with a page as JSON", http(PAGE))
    yield wrong("replies without a type", http(type=None))
    yield wrong("replies with another type", http(type="text/plain"))
    yield wrong("replies with nothing", http(b""))
    for body in (b"null", b"5", b'"a"', b"[]", b"{}", b"[" * 50_000, GOOD[:-1], GOOD + GOOD):
        yield wrong(f"replies with {body[:40].decode()} ({len(body)} bytes)", http(body))
    yield wrong("replies with NaN", http(GOOD.replace(b'"hit_count":0', b'"hit_count":NaN')))
    yield wrong("replies with broken UTF-8", http(GOOD.replace(b"000", b"\xff\xfe0")))
    latin = http(GOOD.replace(b"000", b"\xe9"), type="application/json; charset=iso-8859-1")
    yield wrong("replies in Latin-1", latin)
    wide = http(GOOD.decode().encode("utf-16"), type="application/json; charset=utf-16")
    yield wrong("replies in UTF-16", wide)
    yield Server("replies with a byte order mark", "answered", http(b"\xef\xbb\xbf" + GOOD))
    yield Server(
        "replies in other letters", "answered", http(type="Application/JSON; charset=UTF-8")
    )
    yield wrong("lacks a field", changed(duplicate=None))
    yield wrong("has text for a truth", changed(duplicate="false"))
    yield wrong("has a list for a text", changed(fingerprint=[]))
    yield Server("has a field of its own", "answered", changed(colour="red"))


def batches() -> Iterator[Server]:
    """Servers that reply to a batch of two documents."""

    def lines(*bodies: bytes) -> bytes:
        return http(b"".join(body + b"\n" for body in bodies), type=LINES)

    def wrong(name: str, *scripts: Script) -> Server:
        return Server(name, "unreachable", *scripts, call="batch")

    error = b'{"error":{"status":503,"code":"stopping","detail":"x","line":1}}'
    cut = close(lines(GOOD, GOOD)[: -len(GOOD)])
    yield Server("replies to a batch", "answered", lines(GOOD, GOOD), call="batch")
    yield Server("lacks a line of a batch, once", "answered", cut, lines(GOOD), call="batch")
    yield Server(
        "is busy for a line, once", "answered", lines(GOOD, error), lines(GOOD), call="batch"
    )
    yield wrong("replies with a line too few", lines(GOOD))
    yield wrong("replies with a line too many", lines(GOOD, GOOD, GOOD))
    yield wrong("replies with an empty line", lines(GOOD, b""))
    yield wrong("replies with a line that is none", lines(GOOD, b"null"))
    yield wrong("has an error that is none", lines(GOOD, b'{"error":{"code":5}}'))
    yield wrong("replies to a batch with an object", http())
    yield wrong("replies to a batch with a page", http(PAGE, type="text/html"))


def servers() -> list[dict[str, Any]]:
    """Start them all; the table."""
    kinds = (silent, closing, unasked, foreign, statuses, contents, batches)
    return [server.row for kind in kinds for server in kind()]


if __name__ == "__main__":
    print(json.dumps(servers()), flush=True)
    sys.stdin.read()
