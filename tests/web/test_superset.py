"""A real Superset over the recipe of docs/tools.md: its SQL Lab and a chart, through its REST API.

Superset is no dependency of ours: it stands in a virtual environment of its own, which ``TIDEMARK_SUPERSET`` names, and
which this makes; without it the test is skipped. It takes some minutes.

    pip install apache-superset==6.1.0 flask-caching==2.3.1 cachetools rich duckdb-engine==0.17.0 duckdb==1.5.5
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from lakehouse.storage.layout import Home
from tests.cli.conftest import published_home
from tests.support.servers import free_port
from tests.web.conftest import served, wait_for
from tests.web.test_tools import recipe, secrets_below, superset_parameters

__all__ = ["published_home"]
VENV = os.environ.get("TIDEMARK_SUPERSET")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(VENV is None, reason="TIDEMARK_SUPERSET names no virtual environment with a Superset"),
]
PASSWORD = secrets.token_urlsafe()
CONFIG = """
SECRET_KEY = "{secret}"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
TALISMAN_ENABLED = WTF_CSRF_ENABLED = False
CACHE_CONFIG = DATA_CACHE_CONFIG = {{"CACHE_TYPE": "NullCache"}}
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
"""
_ADMIN = f"--username admin --firstname a --lastname b --email a@localhost --password {PASSWORD}"
SETTING_UP = (["db", "upgrade"], ["fab", "create-admin", *_ADMIN.split()], ["init"])


@pytest.fixture(scope="module")
def superset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a fresh Superset, logged in."""
    folder = tmp_path_factory.mktemp("superset")
    config = CONFIG.format(secret=secrets.token_urlsafe(42), folder=folder)
    (folder / "superset_config.py").write_text(config, encoding="utf-8")
    program = f"{VENV}/bin/superset"
    environment = {
        **os.environ,
        "SUPERSET_CONFIG_PATH": str(folder / "superset_config.py"),
        "SUPERSET_HOME": str(folder),
        "FLASK_APP": "superset",
    }
    for words in SETTING_UP:
        subprocess.run([program, *words], env=environment, check=True, capture_output=True, timeout=300)
    port = free_port()
    running = subprocess.Popen(
        [program, "run", "-p", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_for(lambda: _is_up(client), 120)
            given = {"username": "admin", "password": PASSWORD, "provider": "db"}
            token = _said(client.post("/api/v1/security/login", json=given))["access_token"]
            client.headers["Authorization"] = f"Bearer {token}"
            yield client
    finally:
        running.terminate()
        running.wait(30)


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def _said(response: httpx.Response) -> Any:
    assert response.is_success, response.text
    return response.json()


def test_superset_asks_and_charts_the_views(
    superset: httpx.Client, published_home: Path, tmp_path: Path
) -> None:
    with served(Home(published_home)) as address:
        views = tmp_path / "views.duckdb"
        with duckdb.connect(views, config=secrets_below(tmp_path)) as connection:
            connection.execute(recipe(address))
        parameters = superset_parameters(tmp_path / "extensions")
        added = {
            "database_name": "tidemark",
            "sqlalchemy_uri": f"duckdb:///{views}",
            "extra": json.dumps({"engine_params": parameters}),
        }
        database = _said(superset.post("/api/v1/database/", json=added))["id"]

        counted = "SELECT device, count(*) AS buckets, max(high) AS high FROM temperature"
        statement = f"{counted} GROUP BY ALL ORDER BY device"
        asked = {"database_id": database, "sql": statement, "runAsync": False}
        laboratory = _said(superset.post("/api/v1/sqllab/execute/", json=asked))["data"]
        dataset = {"database": database, "schema": "main", "table_name": "temperature"}
        source = _said(superset.post("/api/v1/dataset/", json=dataset))["id"]
        chart = _said(superset.post("/api/v1/chart/data", json=_chart(source)))["result"][0]
        given: dict[str, str | int] = {
            "stream": "telemetry",
            "measure": "temp",
            "points": 240,
            "by": "device",
            "limit": 12,
        }
        rows = _said(httpx.get(f"{address}/latest/series.json", params=given))["rows"]

    highs: dict[str, float] = {}
    for row in rows:
        highs[row["key"]["device"]] = max(row["high"] or 0.0, highs.get(row["key"]["device"], 0.0))
    assert laboratory == [{"device": one, "buckets": 240, "high": highs[one]} for one in sorted(highs)]
    shown: dict[str, float] = {}
    for point in chart["data"]:
        shown[point["device"]] = max(point["high"], shown.get(point["device"], 0.0))
    assert shown == highs


def _chart(source: int) -> dict[str, Any]:
    """Return what the chart of a time series asks: the highest upper bound by minute and device."""
    highest = {
        "expressionType": "SIMPLE",
        "column": {"column_name": "high"},
        "aggregate": "MAX",
        "label": "high",
    }
    axis = {
        "columnType": "BASE_AXIS",
        "timeGrain": "PT1M",
        "expressionType": "SQL",
        "sqlExpression": "starts_at",
        "label": "starts_at",
    }
    query = {
        "columns": [axis, "device"],
        "metrics": [highest],
        "row_limit": 10_000,
        "filters": [],
        "orderby": [],
    }
    return {"datasource": {"id": source, "type": "table"}, "force": True, "queries": [query]}
