"""Recipes of docs/web.md, run as they are there; and each query of the dashboard, as Grafana sends it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from lakehouse.storage.layout import Home
from tests.cli.conftest import START_US, published_home
from tests.web.conftest import TOKEN, bare, served
from tests.web.test_file import HTTPFS

__all__ = ["published_home"]
ROOT = Path(__file__).parents[2]
RECIPES = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "web.md").read_text(encoding="utf-8"), flags=re.DOTALL
)
DASHBOARD = ROOT / "infra" / "grafana" / "answers.json"


@pytest.fixture(scope="module")
def telemetry(published_home: Path) -> Iterator[str]:
    with served(Home(published_home)) as found:
        yield found


@pytest.mark.parametrize("place", range(len(RECIPES)))
def test_a_recipe_runs_as_it_stands_there(telemetry: str, place: int) -> None:
    text = RECIPES[place].replace("http://127.0.0.1:8417", bare(telemetry)).replace("tm_...", TOKEN)
    # The extension is here already; fetching it needs a network.
    assert TOKEN in text
    text = text.replace("INSTALL httpfs; LOAD httpfs", f"LOAD '{HTTPFS}'")

    exec(compile(text, "docs/web.md", "exec"), {})


def test_recipes_are_found() -> None:
    assert len(RECIPES) == 1
    assert duckdb.__version__ in str(HTTPFS)


def _expressions(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("expr"), str):
            yield part["expr"]
        for inner in part.values():
            yield from _expressions(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _expressions(inner)


def test_every_query_of_the_dashboard_is_answered(telemetry: str) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    given = {"start": START_US / 1e6, "end": START_US / 1e6 + 1800, "step": "60"}
    found = []
    for expression in _expressions(dashboard):
        query = (
            expression.replace("$device", "sensor-1")
            .replace("$__interval", "1m")
            .replace("location", "device")
        )
        answer = httpx.post(f"{telemetry}/prometheus/api/v1/query_range", data={"query": query, **given})
        assert answer.status_code == 200, answer.text
        found.append((expression, len(answer.json()["data"]["result"])))

    assert len(found) == 5
    assert [count for expression, count in found if "ALERTS" not in expression] == [1, 1, 1, 2]


# What Grafana 12 sends, written down from its source: the Go package promlib (health check, queries as form) and the
# TypeScript package grafana-prometheus (what its editor asks for). Each call, and what must be in the answer.
BETWEEN = {"start": str(START_US / 1e6), "end": str(START_US / 1e6 + 1800)}
SENT: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("POST", "query", {"query": "1+1", "time": "4", "timeout": "60s"}, "2.0"),
    ("GET", "status/buildinfo", {}, "version"),
    ("GET", "metadata", {"limit": "5000"}, "telemetry:temp"),
    ("GET", "metadata", {"metric": "telemetry:temp"}, "telemetry:temp"),
    ("GET", "label/__name__/values", {**BETWEEN, "limit": "40000"}, "telemetry:temp"),
    ("GET", "label/__name__/values", {**BETWEEN, "match[]": '{__name__=~".*emetry:te.*"}'}, "telemetry:temp"),
    ("GET", "label/device/values", {**BETWEEN, "match[]": '{__name__="telemetry:temp"}'}, "sensor-2"),
    ("POST", "labels", {**BETWEEN, "match[]": '{__name__="telemetry:temp"}', "limit": "40000"}, "device"),
    ("POST", "series", {**BETWEEN, "match[]": 'telemetry:temp{device="sensor-1"}'}, "sensor-1"),
    (
        "POST",
        "query_range",
        {**BETWEEN, "query": "sum_over_time(telemetry:temp[1m])", "step": "60"},
        "matrix",
    ),
    ("POST", "query", {"query": "max_over_time(telemetry:temp[5m])", "time": BETWEEN["end"]}, "vector"),
)


@pytest.mark.parametrize("place", range(len(SENT)))
def test_what_grafana_sends_is_answered(telemetry: str, place: int) -> None:
    method, path, given, expected = SENT[place]
    address = f"{telemetry}/prometheus/api/v1/{path}"

    answer = httpx.post(address, data=given) if method == "POST" else httpx.get(address, params=given)

    assert (answer.status_code, answer.json()["status"]) == (200, "success")
    assert expected in json.dumps(answer.json()["data"])


def test_names_are_searched_and_lists_cut_as_grafanas_editor_asks(telemetry: str) -> None:
    address = f"{telemetry}/prometheus/api/v1/label/__name__/values"

    searched = httpx.get(address, params={"match[]": '{__name__=~".*:te.*"}'}).json()
    cut = httpx.get(address, params={"limit": "1"}).json()
    wrong = httpx.get(address, params={"limit": "-1"})

    assert all(":te" in name for name in searched["data"]) and "telemetry:temp" in searched["data"]
    assert (len(cut["data"]), cut["warnings"]) == (1, ["results truncated due to limit"])
    assert (wrong.status_code, wrong.json()["errorType"]) == (400, "bad_data")
