"""The control store as an operator meets it: its URL, whose password nobody is told, its tables and its errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.doctor import examine
from lakehouse.settings import load_settings
from lakehouse.storage.control.database import ControlUnreachable, connect
from lakehouse.storage.control.schema import VERSION, OtherVersion, create_tables, version_of
from lakehouse.storage.control.session import examined
from tests.storage.control.postgres import PASSWORD, Postgres

ROOT = Path(__file__).parents[3]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tidemark.toml"
    path.write_text("")
    return path


@pytest.mark.slow
def test_tables_are_made_once_by_whoever_comes_first(server: Postgres) -> None:
    def made() -> None:
        with connect(server.url) as connection:
            create_tables(connection)

    first = [threading.Thread(target=made) for _ in range(6)]
    for thread in first:
        thread.start()
    for thread in first:
        thread.join()

    with connect(server.url) as connection:
        assert version_of(connection) == VERSION
        assert connection.exec_driver_sql("SELECT count(*) FROM tidemark_schema").scalar() == 1


@pytest.mark.slow
def test_doctor_tells_database_and_version_and_of_one_that_is_another(
    server: Postgres, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_CONTROL", server.url)
    found = {finding.check: finding for finding in examine(config)}["control"]
    assert found.state == "ok"
    where = re.escape(f"postgresql+psycopg://127.0.0.1:{server.port}/postgres")
    assert re.fullmatch(rf"{where}, PostgreSQL 1\d\S* .*, tables of version {VERSION}", found.found)

    with connect(server.url) as connection:
        try:
            for version in (99, VERSION - 1):
                connection.exec_driver_sql(f"UPDATE tidemark_schema SET version = {version}")
                with pytest.raises(
                    OtherVersion, match=rf"version {version}, and this Tidemark reads version {VERSION}: run"
                ):
                    examined(server.url)
        finally:
            connection.exec_driver_sql(f"UPDATE tidemark_schema SET version = {VERSION}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("never-to", "wrong"), "password authentication failed"),
        (("/postgres", "/nowhere"), 'database "nowhere" does not exist'),
        (("/postgres", "/postgres?password=secret-too&sslmode=nonsense"), "invalid sslmode value"),
        (("127.0.0.1", "127.0.0.2"), "127.0.0.2"),
    ],
)
def test_errors_name_the_database_and_no_secret(server: Postgres, change: tuple[str, str], said: str) -> None:
    url = server.url.replace(*change)
    with pytest.raises(ControlUnreachable, match=re.escape(said)) as refused:
        examined(url)

    text = f"{refused.value!r} {refused.value.__cause__}"
    assert "control store postgresql+psycopg://127.0.0." in text
    assert not any(secret in text for secret in (PASSWORD, "to-be-said", "secret-too", "tidemark:"))


def test_a_url_that_is_none_is_refused_without_its_password(config: Path) -> None:
    for url in (
        "sqlite:///a",
        f"postgresql://u:{PASSWORD}@h/d",
        f"u:{PASSWORD}@h",
        f"postgresql+psycopg://u:{PASSWORD}@h",
    ):
        config.write_text(f'control = "{url}"')
        with pytest.raises(ConfigError, match="control: found str; expected a URL such as") as refused:
            load_settings(config)
        assert PASSWORD not in str(refused.value)


def test_settings_show_no_password_and_a_home_without_a_database_loads_no_driver(config: Path) -> None:
    config.write_text(f'control = "postgresql+psycopg://u:{PASSWORD}@h/d"')
    settings = load_settings(config)
    assert PASSWORD not in f"{settings!r} {settings.layout!r} {settings.model_dump_json()}"

    config.write_text("")
    program = (
        "import json, sys; from pathlib import Path; from lakehouse.settings import load_settings\n"
        "from lakehouse.storage.control.lease import lease\n"
        "home = load_settings(Path(sys.argv[1])).layout\n"
        "with lease(home, home.raw('s')): pass\n"
        "print(json.dumps([name for name in sys.modules if name in ('sqlalchemy', 'psycopg', 'deltalake')]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TIDEMARK_CONTROL"}
    words = [sys.executable, "-c", program, str(config)]
    ended = subprocess.run(
        words, capture_output=True, text=True, check=True, env=environment | {"PYTHONPATH": str(ROOT)}
    )
    assert json.loads(ended.stdout) == []
