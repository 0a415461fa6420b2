"""What docs/web.md tells a user to run, run as it is there; and each query of the dashboard, as Grafana sends it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from lakehouse.home.layout import Home
from tests.cli.conftest import START_US, published_home
from tests.web.conftest import served
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
    text = RECIPES[place].replace("http://127.0.0.1:8417", telemetry)
    # The extension is here already; fetching it needs a network.
    text = text.replace("INSTALL httpfs; LOAD httpfs", f"LOAD '{HTTPFS}'")

    exec(compile(text, "docs/web.md", "exec"), {})


def test_recipes_are_found() -> None:
    assert len(RECIPES) == 2
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


def test_a_data_source_is_found_well_as_grafana_asks(telemetry: str) -> None:
    """The calls of Grafana's health check and of its list of metrics, after its and Prometheus' documentation."""
    base = f"{telemetry}/prometheus/api/v1"

    healthy = httpx.post(f"{base}/query", data={"query": "1+1", "time": "1767225600.5"})
    names = httpx.get(f"{base}/label/__name__/values", params={"start": "1767225600", "end": "1767229200"})
    devices = httpx.get(f"{base}/label/device/values", params={"match[]": "telemetry:temp"})

    assert healthy.json()["data"]["result"][1] == "2.0"
    assert "telemetry:temp" in names.json()["data"]
    assert devices.json()["data"] == ["sensor-1", "sensor-2"]
