"""Each call ends as the table of tests/hostile/servers.py says, whatever server there is."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nearprint import errors

TABLE = Path(__file__).resolve().parents[3] / "tests/hostile/servers.py"


def servers() -> list[dict[str, Any]]:
    specification = importlib.util.spec_from_file_location("servers", TABLE)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    table: list[dict[str, Any]] = module.servers()
    return table


# A server counts the requests to it, so each kind of client has its own.
SERVERS = {"Client": servers(), "AsyncClient": servers()}
NAMES = [row["name"] for row in SERVERS["Client"]]


def outcome(client: Any, row: dict[str, Any]) -> str:
    """How a call ends, as the table says it."""
    try:
        if row["call"] == "batch":
            replies = list(client.query_many(["a", "b"], in_flight=1))
            assert len(replies) == 2
        else:
            replies = [client.query("a")]
    except errors.NearprintError as error:
        assert row["url"] in str(error)
        if isinstance(error, (errors.Unreachable, errors.Overloaded)):
            return error.code
        return f"refused {error.status}"
    return "answered with a duplicate" if any(each["duplicate"] for each in replies) else "answered"


@pytest.mark.parametrize("at", range(len(NAMES)), ids=NAMES)
def test_a_call_ends_as_it_should(
    connect: Callable[..., Any], request: pytest.FixtureRequest, at: int
) -> None:
    row = SERVERS[request.node.callspec.params["connect"]][at]
    client = connect(row["url"], timeout=row["timeout_s"], reply_bytes_max=row["reply_bytes_max"])
    for turn in range(row["calls"]):
        if turn:
            time.sleep(row["pause_s"])
        assert outcome(client, row) == row["expected"]
