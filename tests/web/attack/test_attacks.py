from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from lakehouse.serving.sandbox.together import MOST_MB
from lakehouse.web.app import WebOptions
from lakehouse.web.parameters import Limits
from tests.faults.web import faults_of
from tests.serving.streams import random_rows
from tests.web.attack.attacks import ATTACKS
from tests.web.attack.soak import soaked
from tests.web.attack.target import SEEN, Target, attacked
from tests.web.conftest import published, served

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


@pytest.mark.parametrize("path", ["index.html/x.html", "a" * 300 + ".html"])
def test_what_is_no_name_of_a_report_is_not_there(target: Target, path: str) -> None:
    target.home.report_pages.mkdir(parents=True, exist_ok=True)
    Path(target.home.report_pages, "index.html").write_text("")

    found = target.client.get(f"/reports/{path}", headers=target.headers(target.every))

    assert found.status_code == 404


@pytest.mark.parametrize("value", ['"' + '\\"' * 29_000 + '"', '"' + "\\101" * 14_000 + '"', "; " * 29_000])
def test_a_cookie_costs_no_more_than_its_length(target: Target, value: str) -> None:
    started = time.monotonic()
    cookie = {"Cookie": f"tidemark-80={value}"}
    refused = target.client.get("/status.json", headers=cookie)
    answered = target.client.get("/status.json", headers=target.headers(target.every) | cookie)

    assert (refused.status_code, answered.status_code) == (401, 200)
    assert time.monotonic() - started < 5


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


def test_statements_that_eat_memory_at_once_are_bounded_together_and_questions_answered(
    tmp_path: Path,
) -> None:
    home, most, answered = published(tmp_path, "pair"), 0, list[int]()
    bomb = "SELECT list_sort(list_transform(range(200000000), lambda x: hash(x)))[1]"
    here = psutil.Process()
    before = {child.pid for child in here.children()}
    with served(home, WebOptions(limits=Limits(timeout_s=5.0))) as address, ThreadPoolExecutor(3) as pool:
        post = partial(httpx.post, f"{address}/latest/sql.json", content=bomb, timeout=60)
        running = [pool.submit(post, headers={"Content-Type": "text/plain"}) for _ in range(3)]
        while not all(each.done() for each in running):
            workers = [child for child in here.children() if child.pid not in before]
            most = max(most, sum(map(_resident, workers)))
            if len(answered) < 3:
                answered.append(httpx.get(f"{address}/latest/streams.json", timeout=20).status_code)
            time.sleep(0.01)

    assert {each.result().status_code for each in running} <= {400, 504}
    assert answered == [200] * 3 and 0 < most < (MOST_MB + 512) * 1024**2


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def test_honest_clients_are_answered_beside_hostile_ones_which_leave_nothing_behind(tmp_path: Path) -> None:
    home = published(tmp_path, "pair")

    found = soaked(home.root, "/latest/streams.json", hostile=40, honest=2, seconds=2.0)

    assert faults_of(found, is_timed=False) == [] and found.attempts >= 40
