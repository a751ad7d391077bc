"""Where a service is, and what every request to it carries."""

from __future__ import annotations

import os
import ssl
from urllib.parse import quote, urlsplit


class Address:
    """A service: its URL, taken apart and checked, its token and its TLS."""

    __slots__ = ("context", "headers", "host", "name", "path", "port")

    def __init__(
        self,
        url: str,
        token: str | None,
        ca_file: str | os.PathLike[str] | None,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"url must be a str, not {type(url).__name__}")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://127.0.0.1:7878, not {url!r}")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url must not have a user or password; give the token as token=")
        if parts.query or parts.fragment:
            raise ValueError(f"url must end with a host, a port or a path, not as {url!r} does")
        secure = parts.scheme == "https"
        if not secure and (ca_file is not None or ssl_context is not None):
            raise ValueError("ca_file and ssl_context need a url of https")
        if ca_file is not None and ssl_context is not None:
            raise ValueError("give ca_file or ssl_context, not both")
        self.host = parts.hostname
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"url must have a port from 1 to 65535: {url!r}") from error
        self.port = port or (443 if secure else 80)
        # A proxy may serve nearprint below a path.
        self.path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.name = f"{parts.scheme}://{host}:{self.port}{self.path}"
        self.context: ssl.SSLContext | None = None
        if secure:
            file = os.fspath(ca_file) if ca_file is not None else None
            try:
                self.context = ssl_context or ssl.create_default_context(cafile=file)
            except OSError as error:  # also what ssl says of a file that is not PEM
                raise ValueError(f"ca_file: {file!r} cannot be used: {error}") from error
        host = host.encode("idna").decode() if not host.isascii() else host
        usual = port is None or port == (443 if secure else 80)
        self.headers = {
            "Host": host if usual else f"{host}:{self.port}",
            "User-Agent": "nearprint-python",
        }
        if token is not None:
            if not isinstance(token, str):
                raise TypeError(f"token must be a str, not {type(token).__name__}")
            if not token.isascii() or not token.isprintable() or not token or " " in token:
                raise ValueError("token must consist of visible ASCII characters")
            self.headers["Authorization"] = f"Bearer {token}"

    def __str__(self) -> str:
        return self.name
