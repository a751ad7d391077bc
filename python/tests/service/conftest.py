"""The fixtures of tests that need a running service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Blocking, Proxy, Service
from nearprint.client import Client


@pytest.fixture(scope="session")
def _service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    running.kill()


@pytest.fixture
def service(_service: Service) -> Service:
    """A service without documents; shared, so do not stop it."""
    with Client(_service.url) as client:
        client.wait_for_job(client.purge(all_namespaces=True)["job"])
    return _service


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Service]:
    """A service that the test may stop."""
    running = Service(tmp_path)
    yield running
    running.kill()


@pytest.fixture
def proxy(service: Service) -> Iterator[Proxy]:
    running = Proxy(service.port)
    yield running
    running.close()


@pytest.fixture(params=["Client", "AsyncClient"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of either kind, and closes them after the test."""
    made: list[Any] = []

    def connect(url: str, **settings: Any) -> Any:
        kind = Client if request.param == "Client" else Blocking
        made.append(kind(url, **settings))
        return made[-1]

    yield connect
    for client in made:
        client.close()
        if isinstance(client, Blocking):
            client.loop.close()
