from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from lakehouse.cli.commands import simulate
from lakehouse.simulator.plan import DELAY_KINDS
from lakehouse.simulator.simulate import FORMS
from lakehouse.simulator.truth import read_truth
from tests.cli.conftest import Tidemark


def test_choices_are_those_of_the_simulator() -> None:
    assert [kind.value for kind in simulate.Kind] == list(FORMS)
    assert get_args(simulate.DelayKind) == DELAY_KINDS


def test_files_land_beside_the_configuration_with_the_truth_about_them(
    tidemark: Tidemark, tmp_path: Path
) -> None:
    ended = tidemark("--config", "site/tidemark.toml", "simulate", "--rows", "1000", "--files", "3", "--json")

    told = {truth["stream"]: truth for truth in json.loads(ended.stdout)}
    landing = tmp_path / "site" / "landing"
    assert list(told) == ["telemetry", "flows"]
    for stream, truth in told.items():
        kept = read_truth(landing, stream)
        assert kept is not None
        assert (kept.received, list(kept.files)) == (truth["received"], truth["files"])
        assert sorted(path.name for path in (landing / stream).iterdir()) == truth["files"]


def test_options_reach_the_rows(called: Tidemark, tmp_path: Path) -> None:
    ended = called(
        *(
            "simulate",
            "--stream",
            "flows",
            "--rate",
            "10",
            "--duration",
            "2m",
            "--late-share",
            "0.5",
            "--gzip",
        ),
        *("--delay", "pareto", "--dirt", "0", "--duplicates", "0", "--conflicts", "0", "--bad-clocks", "0"),
        *("--gaps", "0", "--start", "2020-01-01", "--into", "there", "--json"),
    )

    (truth,) = json.loads(ended.stdout)
    assert (truth["received"], truth["accepted"], truth["late"], truth["withheld"]) == (1200, 1200, 600, 0)
    assert 1_577_836_800_000_000 <= truth["min_event_us"] < truth["max_event_us"] < 1_577_836_920_000_000
    assert all(name.endswith(".csv.gz") for name in truth["files"])
    assert (tmp_path / "there" / "flows" / truth["files"][0]).is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--rows", "5", "--rate", "5"], "--rows and --rate: give one of them"),
        (["--dirt", "2"], "dirt: found 2; expected a share from 0 to 1"),
        (["--duration", "soon"], "--duration: found 'soon'"),
        (["--delay", "sometimes"], "'sometimes' is not one of"),
        (["--rows", "1000000000"], "between a device's rows"),
    ],
)
def test_what_cannot_be_simulated_is_refused_and_nothing_is_written(
    called: Tidemark, tmp_path: Path, arguments: list[str], told: str
) -> None:
    ended = called("simulate", *arguments)

    assert ended.returncode == 2
    assert told in ended.stderr
    assert not (tmp_path / "landing").exists()


def test_a_table_tells_what_was_written(called: Tidemark) -> None:
    lines = called("simulate", "--rows", "2000", "--stream", "telemetry").stdout.splitlines()

    assert lines[1].startswith("written to ")
    assert ["telemetry", "8", "2,024"] in [line.split()[:3] for line in lines]
