"""What a client does when the service is busy, lost, slow or not there."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import trustme
from harness import (
    Last,
    Proxy,
    Seen,
    Service,
    close,
    cut,
    forward,
    hang,
    lose,
    problem,
    reply,
    text,
)
from nearprint import errors
from nearprint.client.address import Address
from nearprint.client.batching import Call, Exchange, Reply, Request, Waiter, seconds
from nearprint.client.encoding import Line

Connect = Callable[..., Any]


def exchange(timeout: float = 60.0) -> Exchange[Waiter]:
    call: Call[Any] = Call(list, alone=Request("POST", "/v1/query", b"{}"), lines=[Line(b"{}")])
    waiter = Waiter(call, time.monotonic() + timeout)
    made = Exchange(Address("http://host", None, None, None), [waiter], reached=True)
    made.request()
    return made


@pytest.mark.parametrize("status", [429, 503])
def test_it_waits_as_it_is_told(status: int) -> None:
    assert exchange().received(Reply(status, b"{}", "7", True)) == 7.0
    assert exchange().received(Reply(status, b"{}", "Wed, 21 Oct 2015 07:28:00 GMT", True)) < 1.0
    assert 0.0 < exchange().received(Reply(status, b"{}", None, True)) < 1.0


def test_without_advice_it_waits_longer_each_time() -> None:
    patient = exchange(timeout=1e9)
    waits = []
    for _ in range(12):
        waits.append(patient.received(Reply(503, b"", None, True)))
        patient.request()
    assert max(waits[:2]) < min(waits[4:])
    assert max(waits) <= 2.0


def test_retry_after_is_a_number_or_a_date() -> None:
    assert seconds("3") == 3.0
    assert seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert seconds("Wed, 21 Oct 2115 07:28:00 GMT") > 1e9
    for unusable in (None, "", "soon", "9" * 400):
        assert seconds(unusable) is None


@pytest.mark.parametrize("code", [(429, "rate_limited"), (503, "overloaded"), (503, "stopping")])
def test_what_was_refused_for_now_is_sent_again(
    proxy: Proxy, connect: Connect, code: tuple[int, str]
) -> None:
    proxy.then(problem(*code, Retry_After="0"), problem(*code))
    assert connect(proxy.url).insert(text(1))["outcome"] == "inserted"
    assert len(proxy.seen) == 3


def test_overloaded_says_what_was_done(proxy: Proxy, connect: Connect) -> None:
    proxy.always(problem(503, "overloaded", Retry_After="1000"))
    with pytest.raises(errors.Overloaded) as raised:
        connect(proxy.url).insert(text(1))
    assert raised.value.done == 0
    for part in (
        proxy.url,
        "try again in 1000 s",
        "1 attempt ",
        "0 of 1 answered",
        "what is wrong",
    ):
        assert part in str(raised.value)


def test_what_a_follower_refuses_is_not_sent_again(proxy: Proxy, connect: Connect) -> None:
    proxy.always(problem(503, "follower", Retry_After="0"))
    with pytest.raises(errors.Follower):
        connect(proxy.url).insert(text(1))
    assert len(proxy.seen) == 1


def test_what_may_have_been_done_is_sent_again_only_if_it_is_the_same_write(
    proxy: Proxy, connect: Connect
) -> None:
    client = connect(proxy.url)
    unknown = problem(503, "outcome_unknown", Retry_After="0")
    proxy.then(unknown)
    assert client.insert(text(1))["outcome"] == "inserted"
    proxy.then(unknown)
    with pytest.raises(errors.OutcomeUnknown):
        client.insert_packed(numpy.arange(5, dtype=numpy.uint64))
    assert len(proxy.seen) == 3
    proxy.then(unknown)
    assert client.query_packed(numpy.arange(5, dtype=numpy.uint64)).tolist() == [255] * 5


def test_a_long_input_that_ends_early_says_how_far_it_came(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    proxy.then(forward, forward)
    proxy.always(problem(503, "overloaded", Retry_After="1000"))
    replies = client.insert_many(({"fingerprint": n} for n in range(5_000)), in_flight=1)
    taken = []
    with pytest.raises(errors.Overloaded) as raised:
        for each in replies:
            taken.append(each)  # noqa: PERF402 - those before the error count
    assert len(taken) == raised.value.done == 2_000


@pytest.mark.parametrize("fault", [close, lose, cut])
def test_a_write_whose_reply_is_lost_is_one_write(
    service: Service, proxy: Proxy, connect: Connect, fault: Any
) -> None:
    client = connect(proxy.url)
    proxy.then(fault)
    client.insert(text(1))
    assert len(proxy.seen) == 2
    assert client.stats()["documents"] == 1


def test_a_copy_is_told_from_a_repeated_attempt(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    assert client.check_and_insert(text(1))["duplicate"] is False
    copy = client.check_and_insert(text(1))
    assert (copy["outcome"], copy["duplicate"]) == ("already_present", True)
    # The document itself was stored by the attempt whose reply was lost.
    proxy.then(lose)
    assert client.check_and_insert(text(2))["duplicate"] is False
    # The caller's own id means the document itself.
    for _ in range(2):
        assert client.check_and_insert(text(3), id="mine")["duplicate"] is False


def test_a_batch_whose_reply_breaks_off_is_finished(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    proxy.then(cut)
    replies = list(client.check_and_insert_many(text(n) for n in range(300)))
    assert [each["duplicate"] for each in replies] == [False] * 300
    assert client.stats()["documents"] == 300
    # Only what had no reply was sent again.
    assert proxy.seen[1].body.count(b"\n") < 300


def test_lines_refused_for_now_are_sent_again(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    line = b'{"error": {"status": 503, "code": "stopping", "detail": "x", "line": 1}}\n'
    proxy.then(reply(200, line, "application/x-ndjson"))
    replies = list(client.insert_many([text(1), text(2)]))
    assert [each["outcome"] for each in replies] == ["inserted", "inserted"]


def test_a_lost_array_is_not_stored_twice(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    array = numpy.arange(5, dtype=numpy.uint64)
    assert client.insert_packed(array) == 5
    proxy.then(lose)
    with pytest.raises(errors.Unreachable, match="it was not repeated") as raised:
        client.insert_packed(array)
    assert raised.value.done == 0
    assert client.stats()["documents"] == 10
    proxy.then(lose, problem(503, "overloaded"))
    assert client.query_packed(array).tolist() == [0] * 5


def test_an_array_goes_on_a_connection_that_works(own_service: Service, connect: Connect) -> None:
    client = connect(own_service.url)
    array = numpy.arange(5, dtype=numpy.uint64)
    for _ in range(2):
        assert client.insert_packed(array) == 5
        own_service.kill()
        own_service.start()
    assert client.insert_packed(array) == 5
    assert client.stats()["documents"] == 15


def test_a_service_that_is_away_is_reported_at_once(connect: Connect) -> None:
    with pytest.raises(
        errors.Unreachable, match=r"http://127\.0\.0\.1:1 cannot be reached.*refused|Connect"
    ):
        connect("http://127.0.0.1:1", timeout=600).query("a")
    with pytest.raises(errors.Unreachable, match=r"no-host\.invalid:80 cannot be reached"):
        connect("http://no-host.invalid", timeout=600).query("a")


def test_a_service_that_went_away_is_waited_for(own_service: Service, connect: Connect) -> None:
    client = connect(own_service.url)
    client.insert(text(1), id="a")
    own_service.kill()
    starter = threading.Timer(0.5, own_service.start)
    starter.start()
    assert client.get("a")["id"] == "a"
    starter.join()
    own_service.kill()
    with pytest.raises(errors.Unreachable, match="cannot be reached"):
        connect(own_service.url, timeout=600).get("a")


def test_one_that_stays_away_is_given_up(own_service: Service, connect: Connect) -> None:
    client = connect(own_service.url, timeout=1.0)
    client.insert(text(1), id="a")
    own_service.kill()
    with pytest.raises(
        errors.Unreachable, match=f"{own_service.url} cannot be reached.* attempts in"
    ):
        client.get("a")


def test_every_wait_has_a_deadline(proxy: Proxy, connect: Connect) -> None:
    proxy.always(hang)
    with pytest.raises(
        errors.Unreachable, match=f"{proxy.url} cannot be reached: no reply in time"
    ):
        connect(proxy.url, timeout=0.3).query("a")


def test_a_reply_that_drips_has_a_deadline(proxy: Proxy, connect: Connect) -> None:
    listener = Dripping()
    with pytest.raises(errors.Unreachable, match="no reply in time"):
        connect(listener.url, timeout=0.5).query("a")
    listener.close()


class Dripping:
    """Sends a byte of an endless head from time to time."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._stopped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        sock, _ = self._listener.accept()
        with sock:
            sock.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            try:
                while not self._stopped.wait(0.05):
                    sock.sendall(b"x")
            except OSError:
                return

    def close(self) -> None:
        self._stopped.set()
        self._listener.close()


def test_a_refused_token_names_the_address(proxy: Proxy, connect: Connect) -> None:
    proxy.always(problem(401, "token_unknown"))
    with pytest.raises(errors.TokenUnknown, match=f"{proxy.url}: what is wrong"):
        connect(proxy.url, token="secret").query("a")
    assert proxy.seen[0].headers["Authorization"] == "Bearer secret"
    assert len(proxy.seen) == 1


def test_what_is_no_nearprint_is_named(proxy: Proxy, connect: Connect) -> None:
    client = connect(proxy.url)
    proxy.then(reply(200, b"<html>"), reply(404, b"<html>"), reply(301, b"", Location="/x"))
    with pytest.raises(errors.Unreachable, match="does not answer as nearprint does"):
        client.query("a")
    with pytest.raises(
        errors.NearprintError, match=f"{proxy.url} replied 404: <html>.*Is a nearprint"
    ):
        client.query("a")
    with pytest.raises(errors.NearprintError, match=f"{proxy.url} replied 301"):
        client.query("a")
    proxy.then(lambda proxy, seen: Last(b"SSH-2.0-x\r\n"))
    with pytest.raises(errors.Unreachable, match="it does not speak HTTP"):
        client.query("a")
    proxy.then(reply(502, b"<html>"))
    assert client.query("a")["duplicate"] is False


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(service: Service, authority: trustme.CA) -> Iterator[Proxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    running = Proxy(service.port, context)
    yield running
    running.close()


def test_tls_with_an_own_authority(
    secure: Proxy, authority: trustme.CA, tmp_path: Path, connect: Connect
) -> None:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    client = connect(secure.url, ca_file=file)
    assert client.query(text(1))["duplicate"] is False
    big = [text(n, 2_000) for n in range(60)]
    secure.then(lose)
    assert sum(each["stored"] for each in client.insert_many(big)) == 60
    context = ssl.create_default_context(cafile=str(file))
    assert connect(secure.url, ssl_context=context).query(text(1))["hits"] == []


def test_faults_of_tls_are_named(secure: Proxy, service: Service, connect: Connect) -> None:
    with pytest.raises(errors.Unreachable, match=f"{secure.url} .*not trusted.*ca_file"):
        connect(secure.url, timeout=600).query("a")
    plain = service.url.replace("http:", "https:")
    with pytest.raises(errors.Unreachable, match=f"{plain} cannot be reached.*SSL"):
        connect(plain, timeout=600).query("a")


def test_a_service_below_a_path(service: Service, proxy: Proxy, connect: Connect) -> None:
    def below(proxy: Proxy, seen: Seen) -> bytes | None:
        assert " /near%20print/v1/" in seen.line
        return proxy.pass_on(seen._replace(line=seen.line.replace("/near%20print", "")))

    proxy.always(below)
    client = connect(f"{proxy.url}/near print/")
    client.insert(text(1), id="a/b c")
    assert client.get("a/b c")["id"] == "a/b c"
