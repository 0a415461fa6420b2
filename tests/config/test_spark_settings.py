from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.config.spark_settings import SparkSettings
from lakehouse.settings import load_settings


def _read(folder: Path, text: str) -> SparkSettings:
    config = folder / "tidemark.toml"
    config.write_text(f"[spark]\n{text}")
    return load_settings(config).spark


def _refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        _read(folder, text)
    return str(refused.value)


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("local", []),
        ("local[*]", []),
        ("local[4]", []),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("sc://one:15002", [("one", 15002)]),
        ("sc://one:15002/;use_ssl=true", [("one", 15002)]),
        ("k8s://https://api.example:6443", [("api.example", 6443)]),
        ("k8s://api.example:6443", [("api.example", 6443)]),
        ("k8s://https://api.example", [("api.example", 443)]),
        ("k8s://http://127.0.0.1", [("127.0.0.1", 80)]),
    ],
)
def test_a_master_is_known_by_its_addresses(
    tmp_path: Path, master: str, addresses: list[tuple[str, int]]
) -> None:
    found = _read(tmp_path, f'master = "{master}"')

    assert found.addresses() == addresses
    assert found.is_local == (not addresses)


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[4]", 4), ("local[*]", os.cpu_count()), ("spark://one:7077", None)],
)
def test_cores_are_known_where_spark_runs_in_the_process(
    tmp_path: Path, master: str, cores: int | None
) -> None:
    assert _read(tmp_path, f'master = "{master}"').local_cores == cores


@pytest.mark.parametrize(
    "master",
    [
        "",
        "local[0]",
        "yarn",
        "spark://host",
        "spark://a:b",
        "spark://u:p@h:1",
        "k8s://",
        "sc://h",
        "sc://h:1/;token=x",
    ],
)
def test_another_master_is_refused_with_those_there_are(tmp_path: Path, master: str) -> None:
    told = _refused(tmp_path, f'master = "{master}"')

    assert "spark.master: found" in told
    assert 'expected "local[*]", "local[4]", "spark://HOST:PORT", "sc://HOST:PORT" or ' in told


def test_options_may_be_quoted_or_not_and_are_texts_as_spark_takes_them(tmp_path: Path) -> None:
    text = (
        '[spark.options]\n"spark.executor.memory" = "4g"\nspark.executor.cores = 2\nspark.ui.enabled = true'
    )

    assert _read(tmp_path, text).options == {
        "spark.executor.memory": "4g",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "true",
    }


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ('"executor.memory" = "4g"', "Spark's own names, such as spark.executor.memory"),
        ('"spark.master" = "x"', "no spark.master here: it is given as spark.master"),
        ('"spark.sql.shuffle.partitions" = 9', "it is given as spark.shuffle_partitions"),
        ('"spark.authenticate.secret" = "open-sesame"', "it is given as TIDEMARK_SPARK__SECRET"),
        ('"spark.sql.session.timeZone" = "CET"', "its tables rest on it"),
        ('"spark.x" = [1]', "found list; expected a string"),
    ],
)
def test_an_option_that_is_no_option_is_refused_without_its_value(
    tmp_path: Path, option: str, expected: str
) -> None:
    told = _refused(tmp_path, f"[spark.options]\n{option}")

    assert expected in told
    assert "open-sesame" not in told


def test_nothing_shows_the_secret_or_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_SPARK__SECRET", "open-sesame")

    found = _read(tmp_path, '[spark.options]\n"spark.hadoop.fs.password" = "open-sesame"')

    assert "open-sesame" not in f"{found} {found!r}"
    assert found.secret is not None and found.secret.get_secret_value() == "open-sesame"
