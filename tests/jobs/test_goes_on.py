"""What a run of all DAGs goes on after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs.run_dags import _goes_on
from tests.queries import scanned
from tests.queries.chosen import declare, run_by_hand, stop


def outcomes(job: str = "run_queries", **oks: bool) -> list[dict[str, Any]]:
    return [{"job": job, "stream": name, "ok": ok} for name, ok in oks.items()]


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


def test_a_stopped_join_stands_still_alone_and_so_does_its_repair(tmp_path: Path) -> None:
    settings = scanned.declare(tmp_path, "pairs")
    scanned.run_by_hand(settings, "pairs")
    assert not _goes_on(settings, "queries", outcomes(replies=False))

    scanned.stop(settings, "pairs")

    assert _goes_on(settings, "queries", outcomes(replies=False))
    assert _goes_on(settings, "repair", outcomes("repair_late", replies=False))
    # A check that failed has another reason.
    assert not _goes_on(settings, "repair", outcomes("check_queries", replies=False))
    assert not _goes_on(settings, "publish", outcomes("publish", replies=False))
