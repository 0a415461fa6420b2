from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from lakehouse.cli.commands.ask import _print
from lakehouse.serving.ask.question import Answer
from lakehouse.serving.publish.publish import publish
from lakehouse.storage.layout import Home
from tests.cli.conftest import ROWS, START_US, Tidemark
from tests.serving.conftest import STREAMS

FIELDS = {"value", "low", "high", "exact", "rows", "nodes_read", "finest_granularity_us", "as_of_version"}


def _truth(aggregate: str, condition: str = "true") -> float:
    with duckdb.connect() as connection:
        return float(
            connection.execute(f"SELECT {aggregate}(temp) FROM ({ROWS}) WHERE {condition}").fetchall()[0][0]
        )


@pytest.mark.parametrize("aggregate", ["sum", "count", "avg", "min", "max"])
def test_whole_nodes_give_the_exact_answer(called: Tidemark, published_home: Path, aggregate: str) -> None:
    ended = called("--home", published_home, "ask", "telemetry", "temp", "--agg", aggregate, "--json")

    answer = json.loads(ended.stdout)
    truth = _truth(aggregate)
    assert answer["exact"] is True
    assert answer["low"] <= truth <= answer["high"]
    assert answer["value"] == pytest.approx(truth)
    assert set(answer) >= FIELDS


def test_a_range_that_cuts_nodes_holds_the_truth_inside_its_interval(
    tidemark: Tidemark, published_home: Path
) -> None:
    words = (
        "ask",
        "telemetry",
        "temp",
        "--agg",
        "sum",
        "--from",
        "2026-01-01T01:05:30",
        "--to",
        "2026-01-01T01:10:07",
    )

    ended = tidemark("--home", published_home, *words, "--timezone", "Europe/Paris", "--json")

    answer = json.loads(ended.stdout)
    low_us, high_us = START_US + 330_000_000, START_US + 607_000_000
    assert (answer["from_us"], answer["to_us"]) == (low_us, high_us)
    truth = _truth("sum", f"event_us >= {low_us} AND event_us < {high_us}")
    assert answer["exact"] is False
    assert answer["low"] <= truth <= answer["high"]


def test_by_a_key_there_is_an_array_with_one_answer_each(called: Tidemark, published_home: Path) -> None:
    ended = called(
        "--home", published_home, "ask", "telemetry", "temp", "--agg", "sum", "--by", "device", "--json"
    )

    answers = json.loads(ended.stdout)
    assert {answer["key"]["device"]: answer["value"] for answer in answers} == {
        "sensor-1": _truth("sum", "device = 'sensor-1'"),
        "sensor-2": _truth("sum", "device = 'sensor-2'"),
    }


def test_the_first_answers_alone_can_be_asked_for(called: Tidemark, published_home: Path) -> None:
    words = ("ask", "telemetry", "--by", "device", "--limit", "1", "--json")

    (answer,) = json.loads(called("--home", published_home, *words).stdout)

    assert (answer["key"], answer["grouping"]) == ({"device": "sensor-1"}, ["device"])


def test_one_key_can_be_asked_for_and_a_stream_alone_is_counted(
    called: Tidemark, published_home: Path
) -> None:
    one = called("--home", published_home, "ask", "telemetry", "--where", "device=sensor-2", "--json")

    answer = json.loads(one.stdout)
    assert (answer["measure"], answer["agg"], answer["value"]) == ("*", "count", 90)


def test_a_key_that_no_row_has_is_said_to_be_unknown_with_those_that_there_are(
    called: Tidemark, published_home: Path
) -> None:
    ended = called("--home", published_home, "ask", "telemetry", "--where", "device=sensor-3", "--json")

    assert json.loads(ended.stdout)["value"] == 0
    assert ended.stderr == "no row of telemetry has device 'sensor-3'; there are: sensor-1, sensor-2\n"


def test_the_table_shows_the_interval_and_how_it_was_found(called: Tidemark, published_home: Path) -> None:
    ended = called("--home", published_home, "ask", "telemetry", "temp", "--agg", "sum", "--by", "device")

    lines = [line.split() for line in ended.stdout.splitlines() if line.strip()]
    assert lines[0] == ["sum(temp)", "of", "telemetry"]
    assert lines[3] == ["sensor-1", "4,005", "[4,005,", "4,005]", "yes", "90", "1", "1d", "1", "device"]
    assert lines[5][1] == "ms;"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("rivers", "temp"), 2, "rivers"),
        (("telemetry", "tmp"), 2, "did you mean 'temp'?"),
        (("telemetry", "temp", "--where", "room=1"), 2, "room"),
        (("telemetry", "temp", "--where", "device"), 2, "expected KEY=VALUE"),
        (("telemetry", "temp", "--from", "noon"), 2, "expected an ISO time"),
        (("telemetry", "temp", "--from", "2026-01-02", "--to", "2026-01-01"), 2, "is not before"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_the_reason(
    called: Tidemark, published_home: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    ended = called("--home", published_home, "ask", *words)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


def test_the_home_may_come_from_the_environment_or_the_configuration(
    tidemark: Tidemark, published_home: Path, tmp_path: Path
) -> None:
    assert tidemark("ask", "telemetry", TIDEMARK_HOME=str(published_home)).returncode == 0

    (tmp_path / "tidemark.toml").write_text(f'home = "{published_home}"\n[what_only_a_run_reads]')
    assert tidemark("ask", "telemetry").returncode == 0


def test_rows_without_a_value_are_counted_beside_the_answer(called: Tidemark, tmp_path: Path) -> None:
    stream = STREAMS["flat"]
    publish(Home(tmp_path / "home"), [stream.write(tmp_path / "flat")])
    missing = sum(row.temp is None for row in stream.rows)

    def asked(*words: str) -> str:
        return called("--home", tmp_path / "home", "ask", "flat", *words).stdout

    assert json.loads(asked("temp", "--json"))["missing"] == missing > 0
    assert f"of {len(stream.rows):,} rows {missing:,} have no value" in asked("temp")
    assert json.loads(asked("--json"))["missing"] == 0 and "have no value" not in asked()


def test_what_no_double_holds_is_shown_with_all_of_its_digits(capsys: pytest.CaptureFixture[str]) -> None:
    value, sides = 2.0**53, (2.0**53 - 1, 2.0**53 + 2)
    answer = Answer(value, *sides, True, "9007199254740993", 2, 1, 1_000_000, 7, {}, [], True, 2, 2)

    _print({"agg": "sum", "measure": "n", "stream": "s"}, [answer], [])

    assert "9007199254740993" in capsys.readouterr().out
