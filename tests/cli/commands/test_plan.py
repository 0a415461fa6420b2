from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Tidemark


@pytest.mark.slow
def test_the_plan_of_an_empty_home_is_what_is_declared(tidemark: Tidemark) -> None:
    tidemark("init")

    found = json.loads(tidemark("plan", "telemetry", "--json").stdout)
    lines = [line.split() for line in tidemark("plan").stdout.splitlines()]

    assert [level["width_us"] for level in found["levels"]] == [
        10**6,
        60 * 10**6,
        3600 * 10**6,
        86_400 * 10**6,
    ]
    assert ["1m", "2d", "-", "0", "0"] in lines
    assert lines.count(["raw", "forever", "-", "0", "0"]) == 2


def test_an_undeclared_stream_is_refused(called: Tidemark) -> None:
    called("init")

    ended = called("plan", "rivers")

    assert (ended.returncode, ended.stderr) == (
        2,
        "tidemark: no stream 'rivers'; declared: flows, telemetry\n",
    )
