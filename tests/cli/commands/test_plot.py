from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.withheld import Withheld
from lakehouse.storage.layout import Home
from tests.cli.conftest import START_US, Tidemark
from tests.cli.pages.test_chart_page import charts_of
from tests.serving.conftest import STREAMS


def test_a_chart_is_drawn_as_text_for_a_pipe(tidemark: Tidemark, published_home: Path) -> None:
    ended = tidemark("--home", published_home, "plot", "telemetry", "temp", "--where", "device=sensor-1")

    lines = ended.stdout.splitlines()
    assert lines[0] == "avg(temp) of telemetry, device=sensor-1, per 27s"
    assert max(map(len, lines)) <= 80
    assert "●" in ended.stdout and "\x1b" not in ended.stdout


def test_the_same_as_json_has_every_bucket(called: Tidemark, published_home: Path) -> None:
    words = (
        "plot",
        "telemetry",
        "--from",
        "2026-01-01",
        "--to",
        "2026-01-01T00:30",
        "--points",
        "3",
        "--json",
    )

    found = json.loads(called("--home", published_home, *words).stdout)

    assert (found["agg"], found["measure"], found["grouping"]) == ("count", "*", [])
    assert [bucket["value"] for bucket in found["buckets"]] == [60, 60, 60]
    assert [bucket["from_us"] for bucket in found["buckets"]] == [
        START_US + i * 600_000_000 for i in range(3)
    ]


def test_a_page_can_be_written(called: Tidemark, published_home: Path, tmp_path: Path) -> None:
    words = ("plot", "telemetry", "temp", "--agg", "sum", "--html", "chart.html")

    ended = called("--home", published_home, *words)

    assert (ended.returncode, ended.stdout) == (0, "wrote chart.html\n")
    (chart,) = charts_of((tmp_path / "chart.html").read_text(encoding="utf-8"))
    assert (chart["kind"], len(chart["rows"])) == ("series", 240)


def test_by_a_key_there_is_a_chart_each_under_one_title(called: Tidemark, published_home: Path) -> None:
    lines = called(
        "--home", published_home, "plot", "telemetry", "temp", "--by", "device"
    ).stdout.splitlines()

    assert lines[0] == "avg(temp) of telemetry by device, per 27s"
    assert [line.split("┌─ ")[1] for line in lines if "┌─" in line] == ["sensor-1", "sensor-2"]
    assert max(map(len, lines)) <= 80


def test_by_a_key_json_is_an_array_of_what_where_answers(called: Tidemark, published_home: Path) -> None:
    words = ("--home", published_home, "plot", "telemetry", "temp", "--points", "7", "--json")

    found = json.loads(called(*words, "--by", "device").stdout)

    assert [one["key"] for one in found] == [{"device": "sensor-1"}, {"device": "sensor-2"}]
    for one in found:
        alone = json.loads(called(*words, "--where", f"device={one['key']['device']}").stdout)
        assert one["buckets"] == alone["buckets"]
        assert set(one) == set(alone)
    (first,) = json.loads(called(*words, "--by", "device", "--limit", "1").stdout)
    assert first == found[0]


def test_by_a_key_where_there_are_no_rows_json_is_an_empty_array(
    called: Tidemark, published_home: Path
) -> None:
    words = ("plot", "telemetry", "--by", "device", "--from", "2027-01-01", "--to", "2027-01-02", "--json")

    assert json.loads(called("--home", published_home, *words).stdout) == []


def test_one_page_holds_every_key(called: Tidemark, published_home: Path, tmp_path: Path) -> None:
    ended = called(
        "--home", published_home, "plot", "telemetry", "temp", "--by", "device", "--html", "c.html"
    )

    assert (ended.returncode, ended.stdout) == (0, "wrote c.html\n")
    (chart,) = charts_of((tmp_path / "c.html").read_text(encoding="utf-8"))
    assert {row["key"]["device"] for row in chart["rows"]} == {"sensor-1", "sensor-2"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("rivers",), 2, "rivers"),
        (("telemetry", "temp", "--points", "0"), 2, "greater than or equal to 1"),
        (("telemetry", "temp", "--from", "2026-01-02", "--to", "2026-01-01"), 2, "is not before"),
        (("telemetry", "temp", "--where", "device"), 2, "expected KEY=VALUE"),
        (("telemetry", "temp", "--by", "room"), 2, "room"),
        (("telemetry", "temp", "--by", "device", "--limit", "13"), 1, "a chart shows at most 12 keys"),
        (("telemetry", "--by", "device", "--from", "2027-01-01", "--to", "2027-01-02"), 1, "nothing to draw"),
        (("telemetry", "temp", "--html", "no/such/folder.html"), 1, "no/such/folder.html"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(
    called: Tidemark, published_home: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    ended = called("--home", published_home, "plot", *words)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


def test_of_a_withheld_stream_the_chart_says_so_in_every_form(called: Tidemark, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    publish(home, [STREAMS["pair"].write(tmp_path / "pair")])
    publish(home, [], withheld=[Withheld("pair", "totals.rejected_share is 1")])
    words = ("--home", home.root, "plot", "pair")

    (document,) = [json.loads(called(*words, "--json").stdout)]
    by_key = json.loads(called("--home", home.root, "plot", "pair", "--by", "device", "--json").stdout)
    called(*words, "--html", "chart.html")
    asked = called("--home", home.root, "ask", "pair")

    sentence = document["withheld"]
    assert sentence.startswith("newer data of pair are withheld since ")
    assert sentence.endswith(" because totals.rejected_share is 1; answers are as of batch 3")
    assert {one["withheld"] for one in by_key} == {sentence}
    assert sentence in (tmp_path / "chart.html").read_text(encoding="utf-8")
    for ended in (called(*words), asked):
        assert sentence in " ".join(ended.stdout.split())
