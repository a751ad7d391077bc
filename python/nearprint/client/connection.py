"""One keep-alive connection of :class:`Client`, on which every wait ends at a deadline."""

from __future__ import annotations

import http.client
import io
import selectors
import socket
import ssl
import time
from typing import Any

from nearprint.client.address import Address
from nearprint.client.batching import Lost, Reply, Request, too_large

SEND_BYTES = 1 << 16
"""The deadline is looked at between pieces of this size: TLS restarts its timeout with each."""

READ_BYTES = 1 << 20
"""Replies are read in pieces of at most this size."""


class Connection:
    """A connection; usable again after each whole reply, by one thread at a time."""

    def __init__(self, address: Address, reply_bytes_max: int) -> None:
        self._address = address
        self._reply_bytes_max = reply_bytes_max
        self._deadline = 0.0
        if address.context is None:
            self._http = http.client.HTTPConnection(address.host, address.port)
        else:
            self._http = http.client.HTTPSConnection(
                address.host, address.port, context=address.context
            )
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in address.headers.items())

    def exchange(self, request: Request, deadline: float, repeatable: bool) -> Reply:
        """Send a request, and read its reply."""
        self._deadline = deadline
        sent = False
        try:
            if not repeatable and self._is_stale():
                self._http.close()
            if self._http.sock is None:
                self._http.timeout = self.remaining()
                self._http.connect()
            sent = True
            self._send(request)
            return self._receive(request.method)
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise _lost(error, sent) from error
        except BaseException:
            # Whatever comes now belongs to a request that nobody waits for.
            self._http.close()
            raise

    def close(self) -> None:
        self._http.close()

    def remaining(self) -> float:
        """The seconds until the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _send(self, request: Request) -> None:
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
        sock = self._http.sock
        if len(message) <= SEND_BYTES:
            sock.settimeout(self.remaining())
            sock.sendall(message)
            return
        with memoryview(message) as view:
            for start in range(0, len(message), SEND_BYTES):
                sock.settimeout(self.remaining())
                sock.sendall(view[start : start + SEND_BYTES])

    def _receive(self, method: str) -> Reply:
        response = http.client.HTTPResponse(self._http.sock, method=method)
        raw = response.fp.detach()
        response.fp = io.BufferedReader(_Reader(self, self._http.sock, raw))
        pieces: list[bytes] = []
        size = 0
        try:
            response.begin()
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
        finally:
            response.close()
        body = b"".join(pieces)
        if not response.chunked and "Content-Length" not in response.headers:
            # A head that breaks off is a head without an end to http.client, and has no body.
            whole = whole and bool(body)
        if response.will_close or not whole:
            self._http.close()
        headers = response.headers
        return Reply(response.status, body, headers["Retry-After"], whole, headers["Content-Type"])

    def _is_stale(self) -> bool:
        """Whether the service has closed the connection, or sends what nobody asked for."""
        if self._http.sock is None:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self._http.sock, selectors.EVENT_READ)
            return bool(selector.select(0))


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
