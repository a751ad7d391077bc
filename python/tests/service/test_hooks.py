"""Which documents the hooks for Scrapy, datatrove and Spark keep."""

from __future__ import annotations

from typing import Any

from harness import Service, text
from nearprint._hooks import is_kept
from nearprint.client import Client


def test_a_copy_without_an_id_of_its_own_is_dropped(service: Service) -> None:
    with Client(service.url) as client:
        replies = [client.check_and_insert(text(1, 150)) for _ in range(2)]
        assert [reply["outcome"] for reply in replies] == ["inserted", "already_present"]
        assert [is_kept(reply, None, {}) for reply in replies] == [True, False]


def test_a_document_stored_under_its_id_is_kept_again(service: Service) -> None:
    pair = {"a": text(1, 150), "b": text(1, 150) + " more"}
    cases: list[dict[str, Any]] = [{}, {"expires_in": 3600}]
    with Client(service.url) as client:
        for number, options in enumerate(cases):
            for id, content in pair.items():
                client.insert(content, id=id, namespace=f"{number}")
            for id, content in pair.items():
                reply = client.check_and_insert(content, id=id, namespace=f"{number}", **options)
                assert is_kept(reply, id, options), reply


def test_a_duplicate_that_is_stored_on_request_is_dropped_each_time(service: Service) -> None:
    options: dict[str, Any] = {"on_duplicate": "insert"}
    with Client(service.url) as client:
        client.insert(text(1, 150), id="a")
        for _ in range(2):
            reply = client.check_and_insert(text(1, 150) + " more", id="b", **options)
            assert not is_kept(reply, "b", options), reply
