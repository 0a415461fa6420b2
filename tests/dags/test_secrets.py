"""Credentials of Airflow's Connections: tasks have them, no other command has, and nothing keeps them.

Of a standing Airflow, whose database has the Connections: ``tests/infra/test_airflow_standalone.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from dags._secrets import take_secrets
from lakehouse.config.problems import ConfigError
from lakehouse.settings import load_settings
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.stores import store_access
from tests.dags.one_dag import dag_run
from tests.support.stores.s3 import BUCKET, KEY, SECRET, running

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(600)]
CONFIG = f"""
[airflow.secrets]
s3 = "conn:lake"
[streams.alpha]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1m forever"]
[streams.alpha.source]
path = "s3://{BUCKET}/in/*.csv"
format = "csv"
settle = 0
"""


def _files_with(secret: str, home: Path) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file()]
    return [str(path) for path in files if secret.encode() in path.read_bytes()]


def test_a_task_reads_a_store_by_a_connection_that_nothing_keeps(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text(CONFIG)
    with running() as server, patch.dict(os.environ):
        server.client.put_object(Bucket=BUCKET, Key="in/a.csv", Body=b"ts\n1600000000\n1600000001\n")
        del os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        store_access.forget()
        settings = load_settings(tmp_path / "tidemark.toml")
        lacking = dag_run("ingest", settings)
        own = {
            "conn_type": "aws",
            "login": KEY,
            "password": SECRET,
            "extra": {"endpoint_url": server.endpoint},
        }
        os.environ["AIRFLOW_CONN_LAKE"] = json.dumps(own)
        states = dag_run("ingest", settings)

    assert (lacking["choose"], lacking[""]) == ("failed", "failed")
    assert (states["take.alpha"], states[""]) == ("success", "success")
    assert read_extent(settings.layout, "alpha").batch == 1
    assert _files_with(SECRET, tmp_path) == []
    assert _files_with("ingest of alpha", settings.layout.root) or _files_with(
        "take.alpha", settings.layout.root
    )


def test_what_airflow_has_fills_the_environment_once(tmp_path: Path) -> None:
    text = '[airflow.secrets]\nalerts = "conn:hook"\nTOKEN = "var:token"\nOTHER = "conn:hook#other"\n'
    (tmp_path / "tidemark.toml").write_text(text)
    hook = {
        "conn_type": "http",
        "host": "hooks.example/a",
        "password": "sign",
        "extra": {"other": "one more"},
    }
    with patch.dict(os.environ, AIRFLOW_CONN_HOOK=json.dumps(hook), AIRFLOW_VAR_TOKEN="of the lake"):
        take_secrets({"config": str(tmp_path / "tidemark.toml")})
        alerts = load_settings(tmp_path / "tidemark.toml").alerts
        found = os.environ["TOKEN"], os.environ["OTHER"]
        os.environ["AIRFLOW_VAR_TOKEN"] = "another"
        take_secrets({"config": str(tmp_path / "tidemark.toml")})
        again = os.environ["TOKEN"]

    assert (alerts.url, alerts.secret and alerts.secret.get_secret_value()) == (
        "https://hooks.example/a",
        "sign",
    )
    assert found == ("of the lake", "one more")
    assert again == "of the lake"


def test_what_airflow_has_not_is_named_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('[airflow.secrets]\ncontrol = "conn:nowhere"\n')

    with pytest.raises(LookupError, match=r"airflow\.secrets\.control: Airflow does not give conn:nowhere: "):
        take_secrets({"config": str(tmp_path / "tidemark.toml")})
    with pytest.raises(
        ConfigError, match="which only Airflow's tasks can read; expected TIDEMARK_CONTROL in"
    ):
        load_settings(tmp_path / "tidemark.toml")
