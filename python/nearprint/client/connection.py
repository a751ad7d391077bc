"""One keep-alive connection of :class:`Client`, on which every wait ends at a deadline."""

from __future__ import annotations

import errno
import http.client
import io
import os
import queue
import select
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Protocol

from nearprint.client.address import Address
from nearprint.client.batching import Lost, Reply, Request, too_large

SEND_BYTES = 1 << 16
"""The deadline is looked at between pieces of this size: TLS restarts its timeout with each."""

READ_BYTES = 1 << 20
"""Replies are read in pieces of at most this size."""

HEAD_START_S = 0.25
"""So long an address is tried before the next is tried beside it (RFC 8305)."""

# Windows has a name of its own.
_UNDER_WAY = {0, errno.EINPROGRESS, getattr(errno, "WSAEWOULDBLOCK", errno.EWOULDBLOCK)}


class Connection:
    """A connection; usable again after each whole reply, by one thread at a time."""

    def __init__(self, address: Address, reply_bytes_max: int) -> None:
        self._address = address
        self._reply_bytes_max = reply_bytes_max
        self._deadline = 0.0
        self._socket: socket.socket | None = None
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in address.headers.items())

    def exchange(self, request: Request, deadline: float) -> Reply:
        """Send a request, and read its reply."""
        self._deadline = deadline
        sent = False
        try:
            if self._socket is not None and has_unasked(self._socket):
                self.close()
            if self._socket is None:
                self._socket = self._connected()
            sent = True
            self._send(self._socket, request)
            return self._receive(self._socket, request.method)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _lost(error, sent) from error
        except BaseException:
            # Whatever comes now belongs to a request that nobody waits for.
            self.close()
            raise

    def close(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def remaining(self) -> float:
        """The seconds until the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _connected(self) -> socket.socket:
        sock = connected(self._address.host, self._address.port, self._deadline)
        if self._address.context is None:
            return sock
        try:
            sock.settimeout(self.remaining())
            return self._address.context.wrap_socket(sock, server_hostname=self._address.host)
        except BaseException:
            sock.close()
            raise

    def _send(self, sock: socket.socket, request: Request) -> None:
        # Head and body in one piece: two are two packets, and http.client sends two.
        body = request.body
        head = f"{request.method} {self._address.path}{request.path} HTTP/1.1\r\n{self._headers}"
        if request.content_type is not None:
            head += f"Content-Type: {request.content_type}\r\n"
        if request.accept is not None:
            head += f"Accept: {request.accept}\r\n"
        if body is not None:
            head += f"Content-Length: {len(body)}\r\n"
        message = f"{head}\r\n".encode("ascii") + (body or b"")
        if len(message) <= SEND_BYTES:
            sock.settimeout(self.remaining())
            sock.sendall(message)
            return
        with memoryview(message) as view:
            for start in range(0, len(message), SEND_BYTES):
                sock.settimeout(self.remaining())
                sock.sendall(view[start : start + SEND_BYTES])

    def _receive(self, sock: socket.socket, method: str) -> Reply:
        response = http.client.HTTPResponse(sock, method=method)
        raw = response.fp.detach()
        response.fp = io.BufferedReader(_Reader(self, sock, raw))
        pieces: list[bytes] = []
        size = 0
        try:
            response.begin()
            if len(set(response.headers.get_all("Content-Length", ()))) > 1:
                raise http.client.HTTPException("the reply has two lengths")
            while piece := response.read(READ_BYTES):
                pieces.append(piece)
                size += len(piece)
                if size > self._reply_bytes_max:
                    raise too_large(self._address, self._reply_bytes_max)
            # What is left of the Content-Length; read() with a size does not miss it.
            whole = not response.length
        except http.client.IncompleteRead as error:
            pieces.append(error.partial)
            whole = False
        except ValueError:  # a chunk of a negative size
            whole = False
        finally:
            response.close()
        body = b"".join(pieces)
        if not response.chunked and response.length is None:
            # A head that breaks off is a head without an end to http.client, and has no body.
            whole = whole and bool(body)
        if response.will_close or not whole:
            self.close()
        headers = response.headers
        return Reply(
            response.status,
            body,
            headers["Retry-After"],
            whole,
            headers["Content-Type"],
            headers["Content-Encoding"],
        )


class _Reader(io.RawIOBase):
    """Reads from a socket until the deadline of the connection, however slowly bytes come."""

    def __init__(self, connection: Connection, sock: socket.socket, raw: Any) -> None:
        self._connection = connection
        self._socket = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._connection.remaining())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _HasNumber(Protocol):
    def fileno(self) -> int: ...


def has_unasked(sock: _HasNumber) -> bool:
    """Whether an idle connection was closed by the service, or has bytes that nobody asked for,
    which would be read as the reply to the next request.
    """
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def connected(host: str, port: int, deadline: float) -> socket.socket:
    """A connection to the first address of a host that takes one.

    Each address has a head start before the next, and is still tried beside it.
    """
    addresses = _resolved(host, port, deadline)
    failure: OSError = TimeoutError()
    next_at = 0.0
    with selectors.DefaultSelector() as selector:
        try:
            while addresses or selector.get_map():
                now = time.monotonic()
                if now >= deadline:
                    raise TimeoutError
                if addresses and (now >= next_at or not selector.get_map()):
                    next_at = now + HEAD_START_S
                    try:
                        selector.register(_begun(*addresses.pop(0)), selectors.EVENT_WRITE)
                    except OSError as error:
                        failure = error
                    continue
                until = min(deadline, next_at) if addresses else deadline
                for key, _ in selector.select(until - now):
                    sock = key.fileobj
                    assert isinstance(sock, socket.socket)
                    selector.unregister(sock)
                    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not number:
                        # A request is one packet, which waits for no other.
                        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        return sock
                    sock.close()
                    failure = OSError(number, os.strerror(number))
                    next_at = now
        finally:
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    raise failure


def _begun(family: int, kind: int, protocol: int, name: str, address: Any) -> socket.socket:
    """A socket that connects to an address."""
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    number = sock.connect_ex(address)
    if number not in _UNDER_WAY:
        sock.close()
        raise OSError(number, os.strerror(number))
    return sock


def _resolved(host: str, port: int, deadline: float) -> list[Any]:
    """The addresses of a host."""
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    answer: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answer.put(list(socket.getaddrinfo(host, port, type=kind)))
        except Exception as error:  # noqa: BLE001 - its caller raises it
            answer.put(error)

    # The system offers no deadline, so a thread waits as long as it likes.
    threading.Thread(target=look_up, name="nearprint-resolver", daemon=True).start()
    try:
        found = answer.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(found, Exception):
        raise found
    return found


def _lost(error: Exception, sent: bool) -> Lost:
    cause: Exception
    if isinstance(error, TimeoutError):
        return Lost(TimeoutError("no reply in time"), sent=sent)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "; name the certificate of its authority as ca_file"
        cause = ssl.SSLError(f"its certificate is not trusted: {error.verify_message}{hint}")
        return Lost(cause, sent=sent, fatal=True)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError) and not sent:
        return Lost(error, sent=sent, fatal=True)
    if isinstance(error, http.client.RemoteDisconnected):
        return Lost(ConnectionResetError("the connection was closed without a reply"), sent=sent)
    if isinstance(error, http.client.HTTPException):
        cause = ConnectionError(f"it does not speak HTTP: {error!r}")
        return Lost(cause, sent=sent, fatal=True)
    return Lost(error, sent=sent)
