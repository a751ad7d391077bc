"""One deadline for a call, whatever it waits for; and no reply that belongs to no request."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import inspect
import socket
import ssl
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trustme
from harness import Proxy, Seen, Service, hang, reply, text, wait_until
from nearprint import errors
from nearprint.client import AsyncClient, Client

Connect = Callable[..., Any]

QUERY = (
    b'{"fingerprint":"%s","short":false,"duplicate":true,"hits":[],"hit_count":0,"truncated":false}'
)


def verdict(fingerprint: bytes) -> bytes:
    """A reply that finds a duplicate."""
    made = reply(200, QUERY % (fingerprint * 16), "application/json")
    return made(None, None) or b""  # type: ignore[arg-type]


class Pushing:
    """Sends a reply that nobody asked for after each that somebody did, when it is told to."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            self.connections.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            while sock.recv(1 << 16):
                sock.sendall(verdict(b"%d" % len(self.connections)))
        except OSError:
            return

    def push(self) -> None:
        """Send an unasked reply into the last connection, and wait until it has arrived."""
        sock = self.connections[-1]
        sock.sendall(verdict(b"f"))
        # Nothing is unacknowledged.
        wait_until(lambda: not any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))))

    def close(self) -> None:
        self._listener.close()
        for sock in self.connections:
            sock.close()


@pytest.fixture(params=["http", "https"])
def pushing(request: pytest.FixtureRequest) -> Iterator[tuple[Pushing, dict[str, Any]]]:
    """A server that pushes, and the settings of a client for it."""
    context, settings = None, {}
    if request.param == "https":
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        settings["ssl_context"] = trusting
    server = Pushing(context)
    yield server, settings
    server.close()


def test_a_reply_that_nobody_asked_for_is_nobodys_verdict(
    connect: Connect, pushing: tuple[Pushing, dict[str, Any]]
) -> None:
    server, settings = pushing
    client = connect(server.url, **settings)
    for turn in range(1, 4):
        # The connection is used again until something unasked is in it.
        for _ in range(2):
            assert client.query("a")["fingerprint"] == str(turn) * 16
        server.push()


def test_a_reply_that_the_event_loop_has_read_already(
    pushing: tuple[Pushing, dict[str, Any]],
) -> None:
    server, settings = pushing

    async def main() -> None:
        async with AsyncClient(server.url, **settings) as client:
            assert (await client.query("a"))["fingerprint"] == "1" * 16
            server.push()
            for _ in range(5):
                await asyncio.sleep(0)
            assert (await client.query("a"))["fingerprint"] == "2" * 16

    asyncio.run(main())


def test_a_connection_that_the_service_closed_costs_no_attempt(
    proxy: Proxy, connect: Connect
) -> None:
    client = connect(proxy.url)
    client.check_and_insert(text(1))
    proxy.drop()
    # An attempt on the closed connection would make the outcome of a copy uncertain.
    assert client.check_and_insert(text(1))["duplicate"] is True
    assert proxy.seen[0].peer != proxy.seen[1].peer


# Timeouts.


def test_every_method_takes_a_timeout() -> None:
    for kind in (Client, AsyncClient):
        without = {
            name
            for name, method in vars(kind).items()
            if not name.startswith("_") and "timeout" not in inspect.signature(method).parameters
        }
        assert without == {"close"}


CALLS: dict[str, Callable[[Any], Any]] = {
    "query": lambda client: client.query("a", timeout=0.2),
    "compare": lambda client: client.compare("a", "b", timeout=0.2),
    "get": lambda client: client.get("a", timeout=0.2),
    "delete_fingerprint": lambda client: client.delete_fingerprint(1, timeout=0.2),
    "query_many": lambda client: list(client.query_many(["a"], timeout=0.2)),
    "delete_many": lambda client: list(client.delete_many(["a"], timeout=0.2)),
    "insert_packed": lambda client: client.insert_packed([1], timeout=0.2),
    "documents": lambda client: list(client.documents(timeout=0.2)),
    "group": lambda client: list(client.group("1", 0, timeout=0.2)),
    "stats": lambda client: client.stats(timeout=0.2),
    "take_snapshot": lambda client: client.take_snapshot(timeout=0.2),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_its_own_timeout(proxy: Proxy, connect: Connect, name: str) -> None:
    client = connect(proxy.url, timeout=600)
    proxy.then(hang)
    with pytest.raises(errors.Unreachable, match="no reply in time|lost before it replied"):
        CALLS[name](client)


def test_a_longer_timeout_than_that_of_the_client(proxy: Proxy, connect: Connect) -> None:
    def late(proxy: Proxy, seen: Seen) -> bytes | None:
        time.sleep(0.6)
        return proxy.pass_on(seen)

    client = connect(proxy.url, timeout=0.3)
    proxy.always(late)
    assert client.query(text(1), timeout=30)["duplicate"] is False
    with pytest.raises(errors.Unreachable):
        client.query(text(1))


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), 1e9, True, "1"])
def test_a_timeout_that_makes_no_sense_is_refused(connect: Connect, wrong: Any) -> None:
    client = connect("http://127.0.0.1:1")
    with pytest.raises((TypeError, ValueError), match="^timeout must be"):
        client.query("a", timeout=wrong)


def test_waiting_for_a_job_ends_even_if_nothing_replies(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url, timeout=600)
    proxy.always(hang)
    with pytest.raises(TimeoutError, match="job 7 has not ended yet"):
        client.wait_for_job("7", timeout=0.3)


def test_a_copy_is_told_from_a_call_that_was_sent_with_one_whose_time_was_up(
    service: Service, proxy: Proxy
) -> None:
    opened, sent = threading.Event(), threading.Event()

    def first(proxy: Proxy, seen: Seen) -> bytes | None:
        assert opened.wait(30)
        return proxy.pass_on(seen)

    def keep(proxy: Proxy, seen: Seen) -> bytes | None:
        proxy.pass_on(seen)
        sent.set()
        return hang(proxy, seen)

    proxy.then(first, keep)
    with Client(proxy.url, connections=1) as client, ThreadPoolExecutor(3) as threads:
        busy = threads.submit(client.query, text(0))
        wait_until(lambda: len(proxy.seen) == 1)
        queue = client._transport._pool._queue._batches
        short = threads.submit(client.check_and_insert, text(1), timeout=1.0)
        wait_until(lambda: sum(map(len, queue.values())) == 1)
        other = threads.submit(client.check_and_insert, text(2))
        wait_until(lambda: sum(map(len, queue.values())) == 2)
        opened.set()
        assert busy.result()["duplicate"] is False
        assert sent.wait(30)
        with pytest.raises(errors.Unreachable, match="no reply in time"):
            short.result()
        # It was stored by the request of the other call, whose reply never came.
        assert other.result()["duplicate"] is False


# Names and addresses.


def test_a_name_that_nobody_looks_up_has_a_deadline(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    real = socket.getaddrinfo

    def slow(host: Any, *arguments: Any, **settings: Any) -> Any:
        if host == "slow.example" and not settings.get("flags", 0) & socket.AI_NUMERICHOST:
            assert released.wait(30)
            raise socket.gaierror
        return real(host, *arguments, **settings)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    client = connect("http://slow.example", timeout=0.3)
    try:
        with pytest.raises(errors.Unreachable, match=r"slow\.example:80 .*no reply in time"):
            client.query("a")
    finally:
        released.set()


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """An address that takes no connection: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.2", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


def named(monkeypatch: pytest.MonkeyPatch, addresses: list[tuple[str, int]]) -> None:
    """Give the name `many.example` these addresses."""
    real = socket.getaddrinfo

    def found(host: Any, *arguments: Any, **settings: Any) -> Any:
        if host != "many.example":
            return real(host, *arguments, **settings)
        if settings.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_a_silent_address_does_not_hold_up_the_next(
    proxy: Proxy, connect: Connect, monkeypatch: pytest.MonkeyPatch, silent: tuple[str, int]
) -> None:
    named(monkeypatch, [silent, ("127.0.0.1", proxy.port)])
    assert connect(f"http://many.example:{proxy.port}", timeout=20).count("a") == 0


def test_an_address_that_refuses_is_left_for_the_next(
    proxy: Proxy, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, [("127.0.0.9", proxy.port), ("127.0.0.1", proxy.port)])
    assert connect(f"http://many.example:{proxy.port}").count("a") == 0


def test_all_addresses_share_one_deadline(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, silent: tuple[str, int]
) -> None:
    # One after the other, they would take half a minute each.
    named(monkeypatch, [silent] * 100)
    with pytest.raises(errors.Unreachable, match="no reply in time"):
        connect("http://many.example", timeout=0.6).query("a")


def test_the_fault_of_the_last_address_is_told(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, [("127.0.0.9", 1), ("127.0.0.8", 1)])
    with pytest.raises(errors.Unreachable, match="refused|Connect call failed"):
        connect("http://many.example", timeout=600).query("a")
