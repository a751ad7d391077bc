"""Each operation, with both clients, against a running service."""

from __future__ import annotations

import copy
import datetime
import inspect
import json
import pickle
import ssl
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import numpy
import pandas
import pytest
from harness import Proxy, Service, text
from nearprint import errors
from nearprint.client import AsyncClient, Client

Connect = Callable[..., Any]


def test_both_clients_have_the_same_operations() -> None:
    def operations(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in vars(kind).items()
            if callable(method) and not name.startswith("_")
        }

    assert operations(Client) == operations(AsyncClient)
    assert len(operations(Client)) > 30
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


@pytest.mark.parametrize("of", [Client, AsyncClient])
def test_a_copy_of_a_client_has_its_settings(of: type[Client | AsyncClient]) -> None:
    settings = {"token": "secret", "timeout": 7.5, "connections": 2, "reply_bytes_max": 1 << 20}
    client = of("https://127.0.0.1:1/below", **settings)
    for made in (pickle.loads(pickle.dumps(client)), copy.copy(client), copy.deepcopy(client)):
        assert type(made) is of
        assert made._made.keywords == {**settings, "ca_file": None, "ssl_context": None}
        assert made._address.headers["Authorization"] == "Bearer secret"
        assert repr(made) == repr(client)
    with pytest.raises(TypeError, match="SSLContext"):
        pickle.dumps(of("https://127.0.0.1:1", ssl_context=ssl.create_default_context()))


def test_a_pickled_client_makes_calls_beside_the_first(service: Service) -> None:
    with Client(service.url) as client:
        client.insert(text(1), id="a")
        with pickle.loads(pickle.dumps(client)) as second:
            assert second.get("a")["id"] == "a"
        assert client.get("a")["id"] == "a", "the first is open"


def test_a_near_copy_is_found(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    first = client.check_and_insert(text(1), id="https://a.example/1", metadata={"crawl": 7})
    assert (first["outcome"], first["duplicate"]) == ("inserted", False)

    second = client.check_and_insert(
        text(1) + " end", id="https://b.example/1", include=["metadata"]
    )
    assert (second["outcome"], second["stored"]) == ("duplicate", False)
    assert second["hits"][0]["documents"][0]["id"] == "https://a.example/1"
    assert second["hits"][0]["documents"][0]["metadata"] == {"crawl": 7}

    assert client.query(text(1), id="https://a.example/1")["duplicate"] is False
    assert client.query(text(1))["duplicate"] is True
    assert client.query(html=f"<p>{text(1)}</p>")["duplicate"] is True


def test_documents_are_stored_shown_and_removed(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    assert client.insert(text(1), id="a", namespace="news/fr")["outcome"] == "inserted"
    assert client.insert(fingerprint=-1, id="b")["fingerprint"] == "f" * 16
    assert client.insert(fingerprint=numpy.uint64(7), id=17)["fingerprint"] == f"{7:016x}"
    assert client.get("a", namespace="news/fr")["fingerprint"]
    assert client.get("a") is None
    assert [document["id"] for document in client.documents()] == ["b", "17"]
    assert [document["id"] for document in client.documents(all_namespaces=True, prefix="a")] == [
        "a"
    ]
    assert [document["id"] for document in client.documents_of(-1)] == ["b"]
    assert list(client.namespaces()) == [{"namespace": "news/fr", "documents": 1}]
    assert client.count("news/fr") == 1
    assert client.stats()["documents"] == 3

    assert client.delete("a", namespace="news/fr") is True
    assert client.delete("a", namespace="news/fr") is False
    assert client.delete_fingerprint(-1) == 1
    assert client.delete(17) is True
    assert client.stats()["documents"] == 0


def test_a_list_goes_on_after_its_first_page(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    fingerprints = ({"fingerprint": number, "id": number} for number in range(2_500))
    assert all(reply["stored"] for reply in client.insert_many(fingerprints))
    assert len({document["id"] for document in client.documents()}) == 2_500


def test_every_reading_call_may_ask_for_a_new_answer(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    sequence = client.insert(text(1), id="a", namespace="n")["sequence"]
    new: Any = {"min_sequence": sequence, "fresh": True}
    job = client.purge(prefix="z", namespace="n")["job"]
    begun = len(proxy.seen)
    assert client.query(text(1), namespace="n", **new)["duplicate"]
    assert [reply["duplicate"] for reply in client.query_many([text(1)], namespace="n", **new)]
    client.query_packed(numpy.arange(2, dtype=numpy.uint64), **new)
    document = client.get("a", namespace="n", **new)
    assert document is not None
    assert len(list(client.documents(namespace="n", **new))) == 1
    assert len(list(client.documents_of(document["fingerprint"], namespace="n", **new))) == 1
    assert len(list(client.originals(namespace="n", **new))) <= 1
    assert [each["namespace"] for each in client.namespaces(**new)] == ["n"]
    assert client.count("n", **new) == 1
    assert client.stats(**new)["documents"] == 1
    assert client.job(job, **new)["job"] == job
    assert job in [each["job"] for each in client.jobs(**new)]
    asked = proxy.seen[begun:]
    assert len(asked) == 12
    for seen in asked:
        assert f"min_sequence={sequence}" in seen.line and "fresh=true" in seen.line, seen.line
    with pytest.raises(errors.Overloaded, match="min_sequence is"):
        connect(proxy.url, timeout=2.0).stats(min_sequence=sequence + 1_000)


def test_any_id_is_got_and_deleted(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    for id in ["a/b", "/", "?", "#", "100 %", "%2F", ".", "..", "a/../b", "\u8336", "a?b=c#d"]:
        for namespace in (None, "n"):
            client.insert(fingerprint=1, id=id, namespace=namespace)
            assert client.get(id, namespace=namespace)["id"] == id
            assert client.delete(id, namespace=namespace) is True
            assert client.get(id, namespace=namespace) is None


def test_texts_are_compared_and_explained(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    assert client.compare(text(1), {"text": text(1) + " end"})["duplicate"] is True
    assert client.compare(text(1), text(2), explain=True)["explanation"]["differing_bits"]
    client.insert(text(3), id="compared", namespace="compare")
    stored = {"id": "compared", "namespace": "compare"}
    assert client.compare(text(3), stored)["similarity"] == 1
    made = client.fingerprint(text(1), explain=True)
    assert made["explanation"]["tokens"] == 40
    assert client.fingerprint(features={"lamp": 3, "wire": 1.5})["features"] == 2


def test_jobs_are_begun_watched_and_cancelled(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    client.insert(fingerprint=0xF0, id="a", namespace="n")
    client.insert(fingerprint=0xF1, id="b", namespace="n")
    found = client.wait_for_job(client.find_groups(namespace="n")["job"])
    assert (found["state"], found["groups"]) == ("done", 1)
    assert [group["size"] for group in client.groups(found["job"])] == [2]
    assert [member["id"] for member in client.group(found["job"], 0)] == ["a", "b"]
    assert client.cancel_job(found["job"])["state"] == "done"
    with pytest.raises(errors.GroupsNotFound):
        list(client.groups(found["job"]))

    dry = client.wait_for_job(client.purge(namespace="n", prefix="a", dry_run=True)["job"])
    assert (dry["matched"], dry["removed"]) == (1, 0)
    removed = client.wait_for_job(client.purge(namespace="n")["job"])
    assert removed["removed"] == 2
    assert removed["job"] in [job["job"] for job in client.jobs()]
    assert client.cancel_job(removed["job"])["state"] == "done"


def test_originals_and_snapshots(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    client.insert(fingerprint=1, id="a")
    client.check_and_insert(fingerprint=1, id="b")
    assert [(each["id"], each["duplicates"]) for each in client.originals()] == [("a", 1)]
    assert client.take_snapshot()["documents"] == 1
    assert client.snapshots()[0]["documents"] == 1


def test_arrays_of_fingerprints(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    fingerprints = numpy.random.default_rng(1).integers(0, 2**64, 300_000, dtype=numpy.uint64)
    assert client.insert_packed(fingerprints[:200_000], namespace="n") == 200_000
    distances = client.query_packed(fingerprints, namespace="n", distance=0)
    assert distances.dtype == numpy.uint8
    assert (distances[:200_000] == 0).all()
    assert (distances[200_000:] == 255).all()
    assert (client.query_packed(fingerprints.view(numpy.int64)[:9], namespace="n") == 0).all()
    assert client.check_and_insert_packed(fingerprints[-9:], namespace="n").tolist() == [255] * 9
    assert client.check_and_insert_packed(fingerprints[-9:], namespace="n").tolist() == [0] * 9
    assert client.query_packed([]).tolist() == []
    with pytest.raises(TypeError, match="uint64 or int64"):
        client.query_packed(numpy.zeros(3))


def test_the_code_of_a_refusal_is_a_class(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    for error, arguments in {
        errors.EmptyDocument: {"text": "... !?"},
        errors.DocumentMissing: {},
        errors.DocumentAmbiguous: {"text": "a", "fingerprint": 1},
        errors.DistanceAboveMax: {"fingerprint": 1, "distance": 12},
        errors.RecipeMismatch: {"vector": [0.5, 1.0]},
        errors.UnknownField: {"text": "a", "treshold": 2},
    }.items():
        with pytest.raises(error) as raised:
            client.query(**arguments)
        assert raised.value.status is not None


def test_an_unknown_option_is_named_as_it_was_given(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    for call, takes in {
        lambda: client.query("a", treshold=2): "text, html, features",
        lambda: next(client.query_many([{"txt": "a"}])): "text, html, features",
        lambda: client.query_packed([1], treshold=2): "the query parameters",
        lambda: list(client.documents(treshold=2)): "the query parameters",
    }.items():
        try:
            refused = call()
        except errors.UnknownField as error:
            refused = error
        assert refused.field in ("treshold", "txt")
        start = f"'{refused.field}' is not known: this request takes {takes}"
        assert str(refused).lower().startswith(start)
        assert "column" not in str(refused)
    with pytest.raises(TypeError, match="unexpected keyword argument 'treshold'"):
        connect(service.url, treshold=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'treshold'"):
        client.get("a", treshold=2)


def test_groups_have_a_smallest_size(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    found = client.wait_for_job(client.find_groups(min_size=3)["job"])
    assert (found["min_size"], found["groups"]) == (3, 0)


def test_arguments_are_checked_by_name(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    with pytest.raises(TypeError, match="text must be a str, not int"):
        client.query(5)
    with pytest.raises(TypeError, match="text must be a str, not bytes"):
        client.insert(b"tea")
    with pytest.raises(TypeError, match="html must be a str or bytes, not int"):
        client.insert(html=5)
    with pytest.raises(TypeError, match="charset must be a str, not int"):
        client.insert(html=b"<p>tea", charset=5)
    with pytest.raises(ValueError, match="charset: only html as bytes has one"):
        client.insert("tea", charset="latin1")
    with pytest.raises(ValueError, match=r"text has half of a surrogate pair \(U\+D800\)"):
        client.query("a \ud800")
    with pytest.raises(ValueError, match="metadata has half"):
        client.insert("a", metadata={"title": "\udc00"})
    with pytest.raises(ValueError, match="vector cannot be sent"):
        client.query(vector=[float("nan")])
    with pytest.raises(TypeError, match="metadata cannot be sent: object has no form in JSON"):
        client.insert("a", metadata={"x": object()})
    with pytest.raises(ValueError, match="id must not be empty"):
        client.get("")
    with pytest.raises(TypeError, match="not one str"):
        list(client.query_many("a text"))
    with pytest.raises(ValueError, match="in_flight must be at least 1"):
        list(client.query_many(["a"], in_flight=0))


PAGES = [
    (b"<p>Caf\xe9 au lait", "latin1"),
    (b"<meta charset=cp1251><p>\xf7\xe0\xe9", None),
    (b"<meta charset=cp1251><p>\xf7\xe0\xe9", "no-such-charset"),
    (b"<meta charset=cp1251><p>\xf7\xe0\xe9", "koi8-r"),
    (b"\xef\xbb\xbf<p>Caf\xc3\xa9", "latin1"),
    ("<!DOCTYPE html><p>\u0447\u0430\u0439".encode("utf-16-le"), None),
    ("<p>\u8336 tea".encode(), None),
    (b"<p>\x82\xb1\x82\xea\x82\xcd\x93\xfa\x96\x7b\x8c\xea", "shift_jis"),
]


@pytest.mark.parametrize(("page", "charset"), PAGES)
def test_a_page_as_bytes_is_decoded_as_in_a_body(
    service: Service, connect: Connect, page: bytes, charset: str | None
) -> None:
    kind = f"text/html; charset={charset}" if charset else "text/html"
    request = urllib.request.Request(
        f"{service.url}/v1/fingerprint", data=page, headers={"Content-Type": kind}
    )
    with urllib.request.urlopen(request) as reply:
        expected = json.load(reply)["fingerprint"]
    client = connect(service.url)
    for given in (page, bytearray(page)):
        assert client.fingerprint(html=given, charset=charset)["fingerprint"] == expected
    document = {"html": page, "charset": charset}
    replies = list(client.fingerprint_many([document, {"html": page}], charset=charset))
    assert [reply["fingerprint"] for reply in replies] == [expected, expected]
    assert client.compare(document, {"fingerprint": expected})["distance"] == 0
    stored = client.insert(html=page, charset=charset, id="page")
    assert stored["fingerprint"] == expected


def test_times_and_uuids_are_texts_in_metadata(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    name = uuid.UUID("12345678-1234-5678-1234-567812345678")
    noon = datetime.datetime(2026, 11, 29, 12, 30, tzinfo=datetime.timezone.utc)
    given = {
        "uuid": name,
        "time": noon,
        "day": noon.date(),
        "hour": noon.time(),
        "pandas": pandas.Timestamp(noon),
        "numpy": numpy.datetime64("2026-11-29T12:30:00.5", "ns"),
        "nested": [{"time": noon}],
        "number": numpy.int64(7),
    }
    client.insert("black tea", id="a", metadata=given)
    assert client.get("a")["metadata"] == {
        "uuid": str(name),
        "time": "2026-11-29T12:30:00+00:00",
        "day": "2026-11-29",
        "hour": "12:30:00",
        "pandas": "2026-11-29T12:30:00+00:00",
        "numpy": "2026-11-29T12:30:00.500000000",
        "nested": [{"time": "2026-11-29T12:30:00+00:00"}],
        "number": 7,
    }
    for wrong, kind in (
        (pandas.NaT, "NaTType"),
        (numpy.datetime64("NaT"), "datetime64"),
        (noon - noon, "timedelta"),
        (numpy.timedelta64(5, "s"), "timedelta64"),
        (numpy.array(["2026-11-29"], "M8[ns]"), "ndarray"),
        (b"bytes", "bytes"),
    ):
        with pytest.raises(TypeError, match=f"metadata cannot be sent: {kind} has no form in JSON"):
            client.insert("black tea", metadata={"x": wrong})


def test_a_closed_client_says_so(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    client.query(text(1))
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.query(text(1))


@pytest.mark.parametrize(
    ("url", "settings", "message"),
    [
        ("localhost:7878", {}, "url must be like"),
        ("http://user:secret@host", {}, "give the token as token="),
        ("http://host:65536", {}, "url must have a port from 1 to 65535"),
        ("http://host?x", {}, "url must end with"),
        ("http://host", {"ca_file": "x"}, "need a url of https"),
        ("http://host", {"token": "a\nb"}, "visible ASCII"),
        ("http://host", {"timeout": 0}, "timeout must be above 0"),
        ("http://host", {"timeout": float("inf")}, "at most 604800 seconds, not inf"),
        ("http://host", {"timeout": float("nan")}, "at most 604800 seconds, not nan"),
        ("http://host", {"reply_bytes_max": 0}, "reply_bytes_max must be at least 1"),
        ("http://host", {"connections": 0}, "connections must be at least 1"),
    ],
)
def test_settings_are_checked(
    connect: Connect, url: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        connect(url, **settings)
