"""Prometheus' own client, ``promtool``, against the query API: what it prints is what ``ask`` answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lakehouse.serving.ask.ask import ask
from tests.serving.conftest import Lakehouse

DAY_US = 86_400_000_000
_TOOLS = Path(__file__).parents[2] / ".tools"
PROMTOOL = shutil.which("promtool") or shutil.which(_TOOLS / "promtool")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMTOOL is None, reason="no promtool: Debian's package prometheus has it, and .ci/run fetches it"
    ),
]


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROMTOOL), "query", *words], capture_output=True, text=True, check=False, timeout=60
    )


def _found(*words: str) -> Any:
    done = _run(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_sample_of_each_side_is_the_answer(address: str, lakehouse: Lakehouse) -> None:
    query = 'avg_over_time(deep:temp{device="a",bound=~"value|low|high"}[1d])'

    found = _found("instant", "-o", "json", f"--time={DAY_US // 1_000_000}", f"{address}/prometheus", query)

    answers = ask(lakehouse.reader, "deep", "temp", "avg", 0, DAY_US, {"device": "a"}, by=["zone"])
    shown = {(one["metric"].get("zone"), one["metric"]["bound"]): float(one["value"][1]) for one in found}
    assert shown == {
        (one.key["zone"], bound): getattr(one, bound)
        for one in answers
        for bound in ("value", "low", "high")
        if getattr(one, bound) is not None
    }


def test_a_range_has_a_sample_for_each_step(address: str, lakehouse: Lakehouse) -> None:
    query, times = "sum(sum_over_time(deep:hits[1ms]))", ("--start=0.001", "--end=0.003", "--step=1ms")

    (found,) = _found("range", "-o", "json", *times, f"{address}/prometheus", query)

    expected = [
        (end / 1e6, ask(lakehouse.reader, "deep", "hits", "sum", end - 1000, end)[0].value)
        for end in (1000, 2000, 3000)
    ]
    assert [(time, float(value)) for time, value in found["values"]] == expected


def test_series_and_labels_are_listed(address: str) -> None:
    series = _run("series", "--match=deep:temp", f"{address}/prometheus").stdout.splitlines()
    names = _run("labels", f"{address}/prometheus", "__name__").stdout.split()

    assert '{__name__="deep:temp", device="a", zone="1"}' in series
    assert {"deep", "deep:temp", "flat:price"} <= set(names)


def test_what_is_not_answered_is_told_by_name(address: str) -> None:
    done = _run("instant", f"{address}/prometheus", "rate(deep:hits[1m])")

    assert done.returncode == 1
    assert "rate() is not answered here" in done.stderr
