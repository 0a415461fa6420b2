from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from lakehouse.serving.ask.ask import ask
from tests.serving.conftest import Lakehouse

BASE = "/prometheus/api/v1"
MS = 1_000


def _query(client: TestClient, query: str, **more: Any) -> Any:
    return client.get(f"{BASE}/query", params={"query": query, **more})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(-2, 2), st.integers(1, 8), st.integers(0, 2))
def test_samples_of_overlapping_ranges_are_the_answers_of_each_range(
    lakehouse: Lakehouse, client: TestClient, length: int, step: int, start: int, count: int, offset: int
) -> None:
    times = [(start + place * step) * MS for place in range(count)]
    shift = f" offset {offset}ms" if offset else ""
    given = {"start": times[0] / 1e6, "end": times[-1] / 1e6, "step": step / 1e3}
    query = f"sum by (device) (sum_over_time(deep:hits[{length}ms]{shift}))"

    found = client.post(f"{BASE}/query_range", data={"query": query, **given}).json()["data"]["result"]

    samples = {(one["metric"].get("device"), t): float(v) for one in found for t, v in one["values"]}
    expected = {}
    for time_us in times:
        end = time_us - offset * MS
        for one in ask(lakehouse.reader, "deep", "hits", "sum", end - length * MS, end, by=["device"]):
            if (one.rows if one.rows_high is None else one.rows_high) and one.value is not None:
                expected[one.key["device"], time_us / 1e6] = one.value
    assert samples == expected


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("rate(deep:temp[1m])", 422, "rate() is not answered here"),
        ("deep:temp", 422, "avg_over_time(deep:temp[5m])"),
        ("avg(avg_over_time(deep:temp[1m]))", 422, "avg() over series"),
        ("sum(max_over_time(deep:temp[1m]))", 422, "sum of max_over_time"),
        ("sum without (zone) (sum_over_time(deep:temp[1m]))", 422, "without"),
        ("sum(sum_over_time(deep:temp[1m])) / 2", 422, "arithmetic"),
        ("sum_over_time(deep:tmp[1m])", 422, "did you mean 'deep:temp'"),
        ('sum_over_time(deep:temp{colour="red"}[1m])', 422, "it has device, zone, bound"),
        ('sum by (zone) (sum_over_time(deep:temp{device=~"a"}[1m]))', 422, "goes with by (device)"),
        ('sum_over_time(deep:temp{device=~"("}[1m])', 400, "no PromQL"),
        ("sum_over_time(deep:temp[1m:10s])", 422, "subqueries"),
        ("sum_over_time(deep:temp[1m] @ 5)", 422, "@"),
        ("sum(", 400, "no PromQL"),
        ("", 400, "no PromQL"),
        ("(" * 5000, 400, "no PromQL"),
    ],
)
def test_what_is_not_answered_is_refused_by_name(
    client: TestClient, query: str, status: int, said: str
) -> None:
    found = _query(client, query)

    assert (found.status_code, found.json()["status"]) == (status, "error"), found.text
    assert said in found.json()["error"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"start": "1", "end": "0", "step": "1"},
        {"start": "0", "end": "1e9", "step": "1"},
        {"start": "0", "end": "1", "step": "0"},
        {"start": "0", "end": "1", "step": "soon"},
        {"start": "nan", "end": "1", "step": "1"},
        {"start": "0", "end": "1e300", "step": "1"},
    ],
)
def test_a_range_that_is_none_is_bad_data(client: TestClient, given: dict[str, str]) -> None:
    found = client.get(f"{BASE}/query_range", params={"query": "sum(sum_over_time(deep:temp[1m]))", **given})

    assert (found.status_code, found.json()["errorType"]) == (400, "bad_data")


def test_regular_expressions_choose_among_the_series(client: TestClient) -> None:
    query = 'sum by (device) (count_over_time(deep{device=~"a|b",device!="b"}[1d]))'

    found = _query(client, query, time=86_400).json()["data"]["result"]

    assert [one["metric"] for one in found] == [{"device": "a"}]


def test_what_is_not_final_or_not_exact_is_a_warning(client: TestClient) -> None:
    cut = _query(client, "sum(sum_over_time(deep:temp[1ms]))", time=0.001003).json()
    open_ = _query(client, "sum(sum_over_time(flat:temp[1ms]))", time=0.0009).json()
    sure = _query(client, "sum(count_over_time(old[1d]))", time=0).json()

    assert [one.split(":")[0] for one in cut["warnings"]] == ["widest interval"]
    assert [one.split(":")[0] for one in open_["warnings"]] == ["1 of 1 samples are not final"]
    assert "warnings" not in sure


def test_metrics_and_labels_are_listed(client: TestClient) -> None:
    def data(path: str, **given: Any) -> Any:
        return client.get(f"{BASE}/{path}", params=given).json()["data"]

    assert {"deep", "deep:temp", "flat:price"} <= set(data("label/__name__/values"))
    assert data("label/bound/values") == ["high", "low", "value"]
    assert "a" in data("label/device/values")
    assert set(data("labels")) == {"__name__", "bound", "device", "zone"}
    some = data("series", **{"match[]": 'deep:temp{device="a"}'})
    assert some and all(one["device"] == "a" and one["__name__"] == "deep:temp" for one in some)
    assert data("metadata")["deep:temp"][0]["type"] == "gauge"
    assert data("status/buildinfo")["application"] == "Tidemark"
    assert client.get(f"{BASE}/series").status_code == 400


def test_numbers_are_answered_as_grafana_asks_whether_anybody_is_there(client: TestClient) -> None:
    assert _query(client, "1+1", time=4).json()["data"] == {"resultType": "scalar", "result": [4.0, "2.0"]}
    assert _query(client, "-(2 * 3) / 0", time=4).json()["data"]["result"][1] == "NaN"
    many = client.get(f"{BASE}/query_range", params={"query": "1", "start": 0, "end": 2, "step": 1}).json()
    assert many["data"]["result"] == [{"metric": {}, "values": [[0.0, "1.0"], [1.0, "1.0"], [2.0, "1.0"]]}]
