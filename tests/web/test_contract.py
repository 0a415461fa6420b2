"""One question, asked in every way that there is: the answers are the same to the last bit."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from lakehouse.cli.app import call
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import Answer, AskError, microseconds
from lakehouse.serving.ask.series import series
from lakehouse.serving.literals import text, text_map, texts
from tests.serving.conftest import Lakehouse

pytestmark = pytest.mark.slow
MS = 1_000
FUNCTIONS = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}
# Times that the command line and PromQL can both say: whole milliseconds.
times = st.integers(-2, 4).map(lambda ms: ms * MS)
questions = st.fixed_dictionaries(
    {
        "stream": st.sampled_from(["flat", "pair", "deep", "old", "limited", "sparse"]),
        "measure": st.sampled_from(["temp", "hits", "price", "*"]),
        "agg": st.sampled_from(["sum", "count", "avg", "min", "max"]),
        "span": st.tuples(times, times).map(sorted).filter(lambda span: span[0] < span[1]),
        "where": st.sampled_from([{}, {"device": "a"}, {"device": "b", "zone": "1"}]),
        "by": st.sampled_from([(), ("device",), ("device", "zone")]),
    }
).filter(lambda asked: asked["measure"] != "*" or asked["agg"] == "count")
FIELDS = ("value", "low", "high", "exact", "final", "rows", "rows_low", "rows_high", "key")
slow_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def _parameters(asked: dict[str, Any]) -> dict[str, Any]:
    start, end = asked["span"]
    where = [f"{key}={value}" for key, value in asked["where"].items()]
    return {
        **{name: asked[name] for name in ("stream", "measure", "agg")},
        **{"from": _iso(start), "to": _iso(end), "where": where, "by": list(asked["by"])},
    }


def _iso(time_us: int) -> str:
    from datetime import UTC, datetime, timedelta

    found = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).isoformat()
    assert microseconds(found) == time_us
    return found


def _fields(found: Answer) -> dict[str, Any]:
    return {name: getattr(found, name) for name in FIELDS}


def _asked(lakehouse: Lakehouse, asked: dict[str, Any]) -> list[dict[str, Any]]:
    start, end = asked["span"]
    found = ask(
        lakehouse.reader,
        asked["stream"],
        asked["measure"],
        asked["agg"],
        start,
        end,
        asked["where"],
        asked["by"],
    )
    return [_fields(one) for one in found]


@slow_fixture
@given(questions)
def test_json_arrow_csv_and_sql_say_what_python_says(
    lakehouse: Lakehouse, client: TestClient, asked: dict[str, Any]
) -> None:
    expected, given = _asked(lakehouse, asked), _parameters(asked)

    as_json = client.get("/latest/ask.json", params=given).json()["rows"]
    as_arrow = pa.ipc.open_stream(client.get("/latest/ask.arrow", params=given).content).read_all()
    as_csv = list(csv.DictReader(io.StringIO(client.get("/v/1/ask.csv", params=given).text)))
    keys, by = text_map(asked["where"]), texts(asked["by"])
    start, end = asked["span"]
    as_sql = lakehouse.reader.connection.execute(
        f"SELECT {', '.join(FIELDS)} FROM range_{asked['agg']}({text(asked['stream'])}, {text(asked['measure'])}, "
        f"make_timestamp({start}), make_timestamp({end}), keys := {keys}, by := {by}) "
        "ORDER BY map_values(key) NULLS LAST"
    ).fetchall()

    assert [{name: row[name] for name in FIELDS} for row in as_json] == expected
    arrow = [row | {"key": dict(row["key"])} for row in as_arrow.select(FIELDS).to_pylist()]
    assert arrow == expected
    assert [dict(zip(FIELDS, row, strict=True)) for row in as_sql] == expected
    for row, one in zip(as_csv, expected, strict=True):
        assert json.loads(row["key"]) == one["key"]
        assert [_number(row[name]) for name in FIELDS[:3]] == [one[name] for name in FIELDS[:3]]


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
@given(questions)
def test_the_command_line_says_what_json_says(
    lakehouse: Lakehouse, client: TestClient, capsys: pytest.CaptureFixture[str], asked: dict[str, Any]
) -> None:
    given = _parameters(asked)
    options = [("--agg", given["agg"]), ("--from", given["from"]), ("--to", given["to"])]
    options += [("--where", one) for one in given["where"]] + [("--by", one) for one in given["by"]]
    line = ["--home", str(lakehouse.home.root), "ask", given["stream"], given["measure"], "--json"]

    assert call([*line, *(word for option in options for word in option)]) == 0
    told = json.loads(capsys.readouterr().out)
    found = client.get("/latest/ask.json", params=given).json()["rows"]

    documents = told if given["by"] else [told]
    assert [{name: one[name] for name in FIELDS} for one in documents] == [
        {name: one[name] for name in FIELDS} for one in found
    ]


@slow_fixture
@given(questions, st.integers(1, 40))
def test_a_series_over_http_is_the_series_of_python(
    lakehouse: Lakehouse, client: TestClient, asked: dict[str, Any], points: int
) -> None:
    asked = asked | {"by": ()}
    given = _parameters(asked) | {"points": points}
    start, end = asked["span"]
    expected = series(
        lakehouse.reader, asked["stream"], asked["measure"], asked["agg"], start, end, points, asked["where"]
    )

    rows = client.get("/latest/series.json", params=given).json()["rows"]

    assert [{name: row[name] for name in vars(expected.buckets[0])} for row in rows] == [
        vars(bucket) for bucket in expected.buckets
    ]


@slow_fixture
@given(questions)
def test_promql_says_what_ask_says(lakehouse: Lakehouse, client: TestClient, asked: dict[str, Any]) -> None:
    if asked["agg"] == "avg":
        # An average is answered for single series alone: all keys stay apart.
        asked = asked | {"where": {"device": "b", "zone": "1"}, "by": ("device", "zone")}
    start, end = asked["span"]
    try:
        expected = _asked(lakehouse, asked)
    except AskError:
        return
    metric = asked["stream"] if asked["measure"] == "*" else f"{asked['stream']}:{asked['measure']}"
    labels = ",".join(f'{key}="{value}"' for key, value in asked["where"].items())
    bound = 'bound=~"value|low|high"'
    inner = f"{asked['agg']}_over_time({metric}{{{labels}{',' if labels else ''}{bound}}}[{(end - start) // MS}ms])"
    by = ", ".join(asked["by"])
    query = inner if asked["agg"] == "avg" else f"{FUNCTIONS[asked['agg']]} by ({by}) ({inner})"

    found = client.get("/prometheus/api/v1/query", params={"query": query, "time": end / 1e6})

    assert found.status_code == 200, found.text
    samples = {
        (tuple(one["metric"].get(key, "") for key in asked["by"]), one["metric"]["bound"]): float(
            one["value"][1]
        )
        for one in found.json()["data"]["result"]
    }
    # A range without rows has no sample in Prometheus; an unknown side has none either.
    told = {
        (tuple(one["key"][key] or "" for key in asked["by"]), side): one[side]
        for one in expected
        for side in ("value", "low", "high")
        if (one["rows"] if one["rows_high"] is None else one["rows_high"]) and one[side] is not None
    }
    assert samples == told
