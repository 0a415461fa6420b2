"""Clients of a service's metrics that ask in bad faith, or stay silent, keep nobody from reading them."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lakehouse.service import metrics_server
from lakehouse.service.metrics_server import MOST_AT_ONCE, start_server
from lakehouse.storage.layout import Home


def asked(port: int, host: str, address: str = "127.0.0.1") -> int:
    connection = http.client.HTTPConnection(address, port, timeout=20)
    connection.putrequest("GET", "/metrics", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(metrics_server._Handler, "timeout", 3)
    yield start_server(Home(tmp_path), "127.0.0.1", 0)


def test_a_page_that_has_a_name_for_the_loopback_reads_nothing(port: int) -> None:
    names = ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}", "evil.example", f"evil.example:{port}", "")
    assert [asked(port, name) for name in names] == [200, 200, 200, 421, 421, 421]


def test_another_address_is_asked_by_any_name(tmp_path: Path) -> None:
    assert asked(start_server(Home(tmp_path), "0.0.0.0", 0), "metrics.example") == 200


def test_the_address_may_be_of_version_six(tmp_path: Path) -> None:
    assert asked(start_server(Home(tmp_path), "::1", 0), "[::1]", "::1") == 200


@pytest.mark.slow
def test_clients_that_say_nothing_are_let_go_and_more_are_turned_away(port: int) -> None:
    with ExitStack() as silent:
        for _ in range(MOST_AT_ONCE):
            silent.enter_context(socket.create_connection(("127.0.0.1", port)))
        answers, end = list[int](), time.monotonic() + 20
        while 200 not in answers and time.monotonic() < end:
            try:
                answers.append(asked(port, "localhost"))
            except (http.client.HTTPException, ConnectionError):
                answers.append(0)
                time.sleep(0.1)
        assert answers[0] == 0 and answers[-1] == 200
