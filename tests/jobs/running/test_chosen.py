from __future__ import annotations

from pathlib import Path

import pytest

from jobs.running.chosen import chosen_queries, chosen_streams
from jobs.running.scheduled import configured

CONFIG = "".join(
    f"""
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1m forever"]
source = {{ path = "landing/{name}/*.csv", format = "csv" }}
"""
    for name in ("alpha", "beta", "gamma")
)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tidemark.toml"
    path.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("TIDEMARK_CONFIG", str(path))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    return path


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [("all", ["alpha", "beta", "gamma"]), ("beta", ["beta"]), ("gamma, alpha", ["gamma", "alpha"])],
)
def test_streams_are_all_or_those_named(asked: str, chosen: list[str]) -> None:
    assert chosen_streams({"streams": asked, "config": None}) == chosen


def test_an_undeclared_stream_is_refused_with_those_declared() -> None:
    with pytest.raises(KeyError, match="no stream 'delta'; declared: alpha, beta, gamma"):
        chosen_streams({"streams": "alpha,delta"})


def test_a_dags_own_configuration_wins_over_the_environment(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(config.read_text(encoding="utf-8").replace("gamma", "delta"), encoding="utf-8")

    settings = configured({"config": str(other)})

    assert list(settings.streams) == ["alpha", "beta", "delta"]
    assert settings.home == tmp_path / "home"


def test_queries_of_either_kind_are_chosen_by_their_streams(tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    of_two = "FROM alpha [1 HOUR] a, beta [1 HOUR] b WHERE a.event_us = b.event_us"
    for name, text in (
        ("counted", f"SELECT COUNT(*) {of_two} EVERY 1 HOUR"),
        ("joined", f"SELECT a.event_us AS at {of_two} RECALL 0.9 OVER 1 HOUR"),
    ):
        (tmp_path / "queries" / f"{name}.sql").write_text(text, encoding="utf-8")

    assert chosen_queries({"streams": "all"}) == ["counted", "joined"]
    assert chosen_queries({"streams": "beta,alpha"}) == ["counted", "joined"]
    assert chosen_queries({"streams": "alpha"}) == []
    assert chosen_queries({"streams": "all", "queries": "joined"}) == ["joined"]
    assert chosen_queries({"streams": "alpha", "queries": "joined"}) == []
    with pytest.raises(KeyError, match="no query 'join'"):
        chosen_queries({"queries": "counted, join"})
