"""What a run of all DAGs goes on after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs.run_dags import _goes_on
from tests.serving.chosen import declare, run_by_hand, stop


def outcomes(**oks: bool) -> list[dict[str, Any]]:
    return [{"job": "run_queries", "stream": name, "ok": ok} for name, ok in oks.items()]


def test_a_stopped_query_stands_still_alone(tmp_path: Path) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)
    stop(settings)

    assert _goes_on(settings, "queries", outcomes(hot=False, new=True))
    assert _goes_on(settings, "queries", outcomes(hot=False))
    # What it calls raises in a repair, too.
    assert _goes_on(settings, "repair", outcomes(hot=False))
    # The other failed for another reason; and a stopped one excuses no other DAG.
    assert not _goes_on(settings, "queries", outcomes(hot=False, new=False))
    assert not _goes_on(settings, "publish", outcomes(hot=False))
    assert _goes_on(settings, "publish", outcomes(hot=True))
