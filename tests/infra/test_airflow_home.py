from __future__ import annotations

import stat
from pathlib import Path

from infra.airflow_home import DAGS, environment
from lakehouse.settings import Settings


def test_everything_of_airflow_is_below_the_home(tmp_path: Path) -> None:
    variables = environment(Settings(home=tmp_path, config=tmp_path / "tidemark.toml"))

    assert variables["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == f"sqlite:///{tmp_path}/airflow/airflow.db"
    assert variables["AIRFLOW__LOGGING__BASE_LOG_FOLDER"].startswith(str(tmp_path))
    assert variables["TIDEMARK_CONFIG"] == str(tmp_path / "tidemark.toml")
    assert Path(variables["AIRFLOW__CORE__DAGS_FOLDER"]) == DAGS
    assert (DAGS / "ingest.py").is_file()


def test_the_secret_is_the_homes_own_and_its_owners_alone(tmp_path: Path) -> None:
    first, second = (environment(Settings(home=tmp_path / name)) for name in ("a", "b"))
    again = environment(Settings(home=tmp_path / "a"))

    assert first["AIRFLOW__API_AUTH__JWT_SECRET"] == again["AIRFLOW__API_AUTH__JWT_SECRET"]
    assert first["AIRFLOW__API_AUTH__JWT_SECRET"] != second["AIRFLOW__API_AUTH__JWT_SECRET"]
    assert stat.S_IMODE((tmp_path / "a" / "airflow" / "secret").stat().st_mode) == 0o600
