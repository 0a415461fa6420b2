from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.airflow.secrets import filled, is_given
from lakehouse.config.problems import ConfigError
from lakehouse.settings import load_settings, read_settings

DATABASE = {"host": "db", "port": "5433", "login": "us er", "password": "p@ss/w", "schema": "lake"}


def _filled(key: str, part: str = "password", **connection: str) -> dict[str, str]:
    return {name: value for name, value, _ in filled(key, part, connection)}


@pytest.mark.parametrize(
    ("key", "connection", "variables"),
    [
        ("control", DATABASE, {"TIDEMARK_CONTROL": "postgresql+psycopg://us%20er:p%40ss%2Fw@db:5433/lake"}),
        (
            "control",
            {"host": "db", "login": "u", "schema": "lake", "sslmode": "require", "type": "postgres"},
            {"TIDEMARK_CONTROL": "postgresql+psycopg://u@db/lake?sslmode=require"},
        ),
        (
            "s3",
            {
                "login": "key",
                "password": "secret",
                "region_name": "eu-west-1",
                "endpoint_url": "http://s3:9000",
            },
            {
                **{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"},
                **{"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://s3:9000"},
            },
        ),
        ("abfss", {"login": "account", "password": "key"}, {"AZURE_STORAGE_ACCOUNT_KEY": "key"}),
        (
            "abfss",
            {"login": "app", "password": "secret", "tenant_id": "t"},
            {"AZURE_CLIENT_ID": "app", "AZURE_CLIENT_SECRET": "secret", "AZURE_TENANT_ID": "t"},
        ),
        ("spark", {"host": "spark://one", "port": "7077"}, {"TIDEMARK_SPARK__MASTER": "spark://one:7077"}),
        ("spark", {"host": "one", "port": "7077"}, {"TIDEMARK_SPARK__MASTER": "spark://one:7077"}),
        ("spark", {"host": "local[2]"}, {"TIDEMARK_SPARK__MASTER": "local[2]"}),
        (
            "spark",
            {"host": "k8s://https://api", "port": "6443"},
            {"TIDEMARK_SPARK__MASTER": "k8s://https://api:6443"},
        ),
        (
            "spark",
            {"type": "spark_connect", "host": "one", "port": "15002", "password": "token"},
            {"TIDEMARK_SPARK__MASTER": "sc://one:15002", "TIDEMARK_SPARK__SECRET": "token"},
        ),
        (
            "alerts",
            {"host": "hooks.example/a/b", "port": "8443", "password": "sign"},
            {"TIDEMARK_ALERTS__URL": "https://hooks.example:8443/a/b", "TIDEMARK_ALERTS__SECRET": "sign"},
        ),
        ("alerts", {"host": "x", "schema": "http"}, {"TIDEMARK_ALERTS__URL": "http://x"}),
        ("alerts", {"host": "http://x/y", "port": "1"}, {"TIDEMARK_ALERTS__URL": "http://x:1/y"}),
        ("KAFKA_PASSWORD", {"login": "u", "password": "p"}, {"KAFKA_PASSWORD": "p"}),
    ],
)
def test_a_connection_fills_the_variables_that_its_key_names(
    key: str, connection: dict[str, str], variables: dict[str, str]
) -> None:
    assert _filled(key, **connection) == variables


def test_a_variable_of_ones_own_may_be_a_value_of_the_extra() -> None:
    assert _filled("TOKEN", "sasl.password", **{"sasl.password": "p"}) == {"TOKEN": "p"}
    with pytest.raises(ConfigError, match=r"secrets\.TOKEN: found a Connection without it; expected sasl"):
        _filled("TOKEN", "sasl.password", password="p")


def test_a_role_that_somebody_would_have_to_take_on_is_refused() -> None:
    with pytest.raises(ConfigError, match="found role_arn; expected profile_name"):
        _filled("s3", login="key", password="secret", role_arn="arn:aws:iam::1:role/a")


def test_what_the_environment_has_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)

    assert not is_given("s3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    assert is_given("s3")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            's4 = "conn:lake"',
            "expected control, spark, alerts, lineage, s3, gs, abfss or a variable such as KAFKA",
        ),
        ('s3 = "var:lake"', 'expected "conn:ID" at s3$'),
        ('control = "hunter2"', 'expected "conn:ID" at control$'),
        ('PASSWORD = "hunter2"', 'expected "conn:ID", "conn:ID#NAME" or "var:ID" at PASSWORD$'),
    ],
)
def test_what_is_no_reference_is_refused_and_not_shown(tmp_path: Path, wrong: str, message: str) -> None:
    (tmp_path / "tidemark.toml").write_text(f"[airflow.secrets]\n{wrong}\n")

    with pytest.raises(ConfigError, match=message) as refused:
        read_settings(tmp_path / "tidemark.toml")
    assert "hunter2" not in str(refused.value)


def test_outside_airflow_each_setting_must_be_given_and_what_others_ask_for_late_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = 'alerts = "conn:hook"\nspark = "conn:spark"\ns3 = "conn:lake"\nKAFKA_PASSWORD = "var:broker"\n'
    (tmp_path / "tidemark.toml").write_text(f"[airflow.secrets]\n{own}")

    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path / "tidemark.toml")
    assert [str(problem) for problem in refused.value.problems] == [
        "airflow.secrets.alerts: found 'conn:hook', which only Airflow's tasks can read; "
        "expected TIDEMARK_ALERTS__URL or TIDEMARK_ALERTS__SECRET in the environment",
        "airflow.secrets.spark: found 'conn:spark', which only Airflow's tasks can read; "
        "expected TIDEMARK_SPARK__MASTER or TIDEMARK_SPARK__SECRET in the environment",
    ]
    monkeypatch.setenv("TIDEMARK_ALERTS__SECRET", "sign")
    monkeypatch.setenv("TIDEMARK_SPARK__MASTER", "local[1]")
    assert load_settings(tmp_path / "tidemark.toml").spark.master == "local[1]"
