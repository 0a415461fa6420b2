from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.running.outcome import log_figures, recorded, reporting
from lakehouse.settings import Settings
from lakehouse.storage.control.outcomes import last_outcome


def _recorded(settings: Settings) -> dict[str, Any]:
    found = last_outcome(settings.layout, "ingest", "alpha")
    assert found is not None
    return found


def test_a_job_that_ended_well_leaves_its_figures(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)

    figures = recorded("ingest", settings, "alpha", lambda: {"rows": 3})

    outcome = _recorded(settings)
    assert figures == {"rows": 3} == outcome["figures"]
    assert (outcome["ok"], outcome["error"]) == (True, None)


def test_a_job_that_failed_leaves_its_error_and_raises_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)

    def work() -> dict[str, Any]:
        raise OSError("the disk is full\n\nJVM stacktrace:\njava.io.IOException")

    with pytest.raises(OSError, match="the disk is full"):
        recorded("ingest", settings, "alpha", work)

    assert (_recorded(settings)["ok"], _recorded(settings)["error"]) == (False, "OSError: the disk is full")


def test_an_interrupted_job_is_recorded_as_failed(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)

    def work() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded("ingest", settings, "alpha", work)

    assert _recorded(settings)["error"] == "KeyboardInterrupt"


def test_a_listener_hears_outcomes_only_during_its_block(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    settings = Settings(home=tmp_path)

    with reporting(heard.append):
        recorded("ingest", settings, "alpha", dict)
    recorded("ingest", settings, "beta", dict)

    assert [outcome["stream"] for outcome in heard] == ["alpha"]


def test_what_a_job_did_is_logged_figure_by_figure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spark = {"jobs": 2, "tasks": 5, "shuffled_bytes": 0}
    figures = {"files": 3, "quarantined": 0, "from_us": 1_767_225_600_000_000, "spark": spark}

    with caplog.at_level("INFO"), reporting(log_figures):
        recorded("ingest", Settings(home=tmp_path), "alpha", lambda: figures)

    first, *lines = [record.getMessage() for record in caplog.records]
    assert first.startswith("ingest of alpha took 0.")
    assert lines == ["  files: 3", "  from: 2026-01-01T00:00:00+00:00", "  Spark: jobs 2, tasks 5"]
