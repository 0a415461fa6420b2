"""A small published home made from rows that a test can compute with, and the command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.cli.app import call
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import PublishedMeasure, StreamSnapshot
from lakehouse.storage.layout import Home

MINUTE_US, DAY_US = 60_000_000, 86_400_000_000
START_US = 1_767_225_600_000_000  # 2026-01-01
Tidemark = Callable[..., subprocess.CompletedProcess[str]]

# Two devices, a row each every 20 s for half an hour: 180 rows, temperatures 0 to 179.
ROWS = f"""
    SELECT {START_US} + i * 20000000 + j * 1000000 AS event_us, 'sensor-' || (j + 1) AS device,
        (i + j * 90)::DOUBLE AS temp
    FROM range(90) AS rows(i), range(2) AS devices(j)
"""
_NODES = """
    SELECT {level} AS level, {grouping} AS grouping, {device} AS device, event_us - event_us % {width} AS start_us,
        count(*) AS rows, min(event_us) AS first_us, max(event_us) AS last_us, count(temp) AS temp__n,
        fsum(temp) AS temp__sum, 0.0 AS temp__carry, min(temp) AS temp__min, max(temp) AS temp__max,
        min(event_us) AS temp__first_us, max(event_us) AS temp__last_us
    FROM ({rows}) GROUP BY ALL
"""


def _nodes(path: Path) -> Path:
    path.mkdir()
    parts = [
        _NODES.format(level=level, width=width, grouping=grouping, device=device, rows=ROWS)
        for level, width in ((1, MINUTE_US), (2, DAY_US))
        for grouping, device in ((0, "device"), (1, "NULL::VARCHAR"))
    ]
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{path}/nodes.parquet'")
    return path


@pytest.fixture(scope="session")
def published_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose only stream, telemetry, has been published; nothing may write to it."""
    folder = tmp_path_factory.mktemp("published")
    facts = StreamSnapshot(
        name="telemetry",
        definition="made by hand",
        groupings=(("device",), ()),
        measures=(PublishedMeasure("temp", "double"),),
        levels=(Level(MINUTE_US, 2 * DAY_US), Level(DAY_US, None)),
        horizons=(START_US, -(2**62)),
        newest_us=START_US + 89 * 20_000_000 + 1_000_000,
        confirmed_us=START_US + 89 * 20_000_000 + 1_000_000,
        earliest_us=START_US,
        batch=1,
        latest_us=DAY_US,
        raw_path=str(folder / "home" / "raw" / "telemetry"),
        nodes=_nodes(folder / "nodes"),
        quarantine={"clock": 3},
    )
    publish(Home(folder / "home"), [facts])
    return folder / "home"


@pytest.fixture
def tidemark(tmp_path: Path) -> Tidemark:
    """Run the command in ``tmp_path`` as a user would, without any TIDEMARK variable of the caller's."""
    return command_in(tmp_path)


@dataclass(frozen=True)
class Tour:
    """A home made by the commands of ``make demo``, with fewer rows: its folder, what was promised, what jobs did."""

    folder: Path
    promised: list[str]
    outcomes: list[dict[str, Any]]


@pytest.fixture(scope="session")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    """The home that README's tour makes; nothing may write to it."""
    folder = tmp_path_factory.mktemp("tour")
    tidemark = command_in(folder)
    tidemark("init")
    promised = tidemark("simulate", "--rows", "5000").stdout.splitlines()[-2:]
    ran = tidemark("run", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return Tour(folder, promised, json.loads(ran.stdout))


def command_in(folder: Path) -> Tidemark:
    """Return what runs the command in a folder, in a process of its own."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
        environment = inherited | {"PYTHONPATH": str(Path(__file__).parents[2])} | variables
        return subprocess.run(
            [sys.executable, "-m", "lakehouse.cli", *map(str, arguments)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Tidemark:
    """Run the command in ``tmp_path`` in this process: a third of a second less for each of many cases."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = list(map(str, arguments))
        code = call(words)
        output = capfd.readouterr()
        return subprocess.CompletedProcess(words, code, output.out, output.err)

    return run
