"""A running service, a proxy that misbehaves, and an AsyncClient that is called like a Client."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import os
import random
import re
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from nearprint.client import AsyncClient, Client

START_S = 30


class Service:
    """The real service, on a port of its own that it keeps when it starts again."""

    def __init__(self, folder: Path) -> None:
        binary = os.environ.get("NEARPRINT_TEST_SERVICE")
        if not binary:
            pytest.fail(
                "NEARPRINT_TEST_SERVICE must name the service, such as target/debug/nearprint"
            )
        self._command = [binary, "serve", "--data", str(folder / "data")]
        self._listen = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def port(self) -> int:
        return int(self._listen.rsplit(":", 1)[1])

    @property
    def url(self) -> str:
        return f"http://{self._listen}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, "--listen", self._listen],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("listening on "):
                self._listen = line.split()[-1]
                return
        pytest.fail(f"the service did not start: {self._command}")

    def kill(self) -> None:
        assert self._process is not None
        with self._process as process:
            process.kill()

    def requests(self, route: str) -> int:
        """How many requests of a route the service has answered."""
        with urllib.request.urlopen(f"{self.url}/metrics") as reply:
            text = reply.read().decode()
        pattern = rf'^nearprint_requests_total{{route="{re.escape(route)}".*}} (\d+)$'
        return sum(map(int, re.findall(pattern, text, re.MULTILINE)))


class Seen(NamedTuple):
    """A request that reached the proxy."""

    line: str
    headers: http.client.HTTPMessage
    body: bytes
    peer: tuple[str, int]


Answer = Callable[["Proxy", Seen], "bytes | None"]


class Last(bytes):
    """A reply after which the connection is closed."""


class Proxy:
    """Passes requests on to a service, except those for which another answer was arranged.

    An answer is a function that returns the bytes of the reply, or None to close the connection.
    """

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self._service_port = port
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._lock = threading.Lock()
        self._answers: list[Answer] = []
        self._always: Answer = forward
        self._open: set[socket.socket] = set()
        self.stopped = threading.Event()
        self.seen: list[Seen] = []
        scheme = "http" if context is None else "https"
        self.port = self._listener.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def then(self, *answers: Answer) -> None:
        """Answer the next requests so, and those after them as before."""
        with self._lock:
            self._answers.extend(answers)

    def always(self, answer: Answer) -> None:
        self._always = answer

    def pass_on(self, seen: Seen) -> bytes:
        """The reply of the service to a request."""
        with socket.create_connection(("127.0.0.1", self._service_port)) as sock:
            host = f"127.0.0.1:{self._service_port}"
            fields = [
                f"{name}: {host if name.lower() == 'host' else value}"
                for name, value in seen.headers.items()
            ]
            head = "\r\n".join([seen.line, *fields, "Connection: close", "", ""])
            sock.sendall(head.encode() + seen.body)
            whole = b""
            while piece := sock.recv(1 << 16):
                whole += piece
            return re.sub(rb"(?i)\r\nconnection: close(?=\r\n)", b"", whole, count=1)

    def drop(self) -> None:
        """Close the connections, and wait until that has arrived."""
        for sock in list(self._open):
            sock.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: not self._open)

    def close(self) -> None:
        self.stopped.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock, peer), daemon=True).start()

    def _serve(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        with sock:
            try:
                if self._context is not None:
                    sock = self._context.wrap_socket(sock, server_side=True)
                self._open.add(sock)
                with sock, sock.makefile("rb") as reader:
                    while line := reader.readline():
                        headers = http.client.parse_headers(reader)
                        body = reader.read(int(headers.get("Content-Length", "0")))
                        seen = Seen(line.decode().strip(), headers, body, peer)
                        with self._lock:
                            self.seen.append(seen)
                            answer = self._answers.pop(0) if self._answers else self._always
                        reply = answer(self, seen)
                        if reply is None:
                            return
                        sock.sendall(reply)
                        if isinstance(reply, Last):
                            return
            except OSError:
                return
            finally:
                self._open.discard(sock)


def forward(proxy: Proxy, seen: Seen) -> bytes | None:
    """The reply of the service."""
    return proxy.pass_on(seen)


def close(proxy: Proxy, seen: Seen) -> bytes | None:
    """The connection is closed; the service gets nothing."""
    return None


def lose(proxy: Proxy, seen: Seen) -> bytes | None:
    """The service gets the request; its reply is lost."""
    proxy.pass_on(seen)
    return None


def cut(proxy: Proxy, seen: Seen) -> bytes | None:
    """The service gets the request; its reply breaks off in the middle."""
    reply = proxy.pass_on(seen)
    return Last(reply[: len(reply) * 2 // 3])


def hang(proxy: Proxy, seen: Seen) -> bytes | None:
    """Nothing comes."""
    proxy.stopped.wait()
    return None


def reply(status: int, body: bytes, content_type: str = "text/html", **headers: str) -> Answer:
    fields = {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return lambda proxy, seen: f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


def problem(status: int, code: str, **headers: str) -> Answer:
    body = f'{{"status": {status}, "code": "{code}", "title": "T", "detail": "what is wrong"}}'
    return reply(status, body.encode(), "application/problem+json", **headers)


class Blocking:
    """An AsyncClient that is called like a Client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = AsyncClient(*args, **kwargs)
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made = method(*args, **kwargs)
            return (
                self._each(made) if inspect.isasyncgen(made) else self.loop.run_until_complete(made)
            )

        return call

    def _each(self, made: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.loop.run_until_complete(anext(made))
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run_until_complete(made.aclose())

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        # Connections of aiohttp close a turn of the loop later.
        self.loop.run_until_complete(asyncio.sleep(0))


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until something is so."""
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.005)


def text(number: int, words: int = 40) -> str:
    """A text that is near no other."""
    chance = random.Random(number)
    return " ".join("".join(chance.choices("abdefgiklmnoprstuvwz", k=6)) for _ in range(words))


def near(original: str, client: Client) -> str:
    """The text with one changed word, within the distance: so it is found whichever comes first."""
    words = original.split()
    for place in range(len(words)):
        changed = " ".join([*words[:place], "changed", *words[place + 1 :]])
        if client.compare(original, changed)["found_by"] == "distance":
            return changed
    raise AssertionError("every word matters too much")
