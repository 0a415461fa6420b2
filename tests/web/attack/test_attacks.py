from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.web import faults_of
from tests.serving.streams import random_rows
from tests.web.attack.attacks import ATTACKS
from tests.web.attack.soak import soaked
from tests.web.attack.target import SEEN, Target, attacked
from tests.web.conftest import published

pytestmark = pytest.mark.slow
REQUESTS = 300


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with attacked(tmp_path_factory.mktemp("attacked")) as found:
        yield found


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_nothing(target: Target, name: str) -> None:
    found = ATTACKS[name](target, REQUESTS, 1)

    assert (found.tried, found.broken) == (REQUESTS, [])


def test_what_a_token_may_not_see_is_in_no_message_and_no_time(target: Target) -> None:
    def asked(path: str, **params: str) -> str:
        return str(target.client.get(path, params=params, headers=target.headers(target.limited)).text)

    newest = max(row.event_us for row in random_rows(1, 150, 900))
    scalar = json.loads(asked("/prometheus/api/v1/query", query="1"))

    assert scalar["data"]["result"] == [(newest + 1) / 1e6, "1.0"]
    assert f"There are: {SEEN}, {SEEN}:hits" in asked(
        "/prometheus/api/v1/query", query=f"sum_over_time({SEEN}:x[1m])"
    )
    assert f"There are: {SEEN}" in asked("/prometheus/api/v1/query", query="sum_over_time(unpublished[1m])")
    assert f"no stream 'unpublished'. There are: {SEEN}" in asked("/latest/ask.json", stream="unpublished")
    status = json.loads(asked("/status.json"))
    assert [one["what"] for one in status["standing"]] == [f"no file of {SEEN} matches …/*.csv"]
    assert status["published"]["bytes"] is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v/abc/streams.json", 422),
        ("/v/٣/streams.json", 422),
        ("/v/2147483648/tidemark.duckdb", 422),
        ("/quality.json?runs=2147483648", 422),
        ("/latest/ledger.json?stream=greenhouse&before=9" + "0" * 40, 422),
        ("/prometheus/api/v1/query?query=" + "(" * 2_000 + "1" + ")" * 2_000, 400),
        ("/prometheus/api/v1/query?query=1" + "%2b1" * 9_000, 400),
        ("/prometheus/api/v1/series?match[]=a" + "%20or%20a" * 4_000, 400),
    ],
)
def test_what_cannot_be_meant_is_an_error_of_the_client(target: Target, path: str, status: int) -> None:
    assert target.client.get(path, headers=target.headers(target.every)).status_code == status


def test_a_form_has_as_many_fields_as_an_address(target: Target) -> None:
    headers = target.headers(target.every) | {"Content-Type": "application/x-www-form-urlencoded"}

    found = target.client.post("/prometheus/api/v1/query", content="a=1&" * 1_001, headers=headers)

    assert found.status_code == 400 and "500 fields" in found.text


def test_a_query_may_match_many_values(target: Target) -> None:
    devices = "|".join(f"sensor-{number:03}" for number in range(500))
    query = f'sum_over_time({SEEN}:temp{{device=~"{devices}"}}[1m])'

    found = target.client.post(
        "/prometheus/api/v1/query", data={"query": query}, headers=target.headers(target.every)
    )

    assert (found.status_code, found.json()["status"]) == (200, "success")


def test_honest_clients_are_answered_beside_hostile_ones_which_leave_nothing_behind(tmp_path: Path) -> None:
    home = published(tmp_path, "pair")

    found = soaked(home.root, "/latest/streams.json", hostile=40, honest=2, seconds=2.0)

    assert faults_of(found, is_timed=False) == [] and found.attempts >= 40
