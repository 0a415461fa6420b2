"""Both of our policies as registered queries have them: in buckets, batch after batch, with and without spare rows.

A join by equal keys divides its rows into eight buckets, one by a distance does not before Spark tasks run it: a right
row is held in each bucket in which it may have partners. Slack by source has one bucket, as sources of these streams
send rows of several keys. *Eight buckets* shows both as they were before that: a source looked silent in each bucket
while it sent to another.

Streams and conditions as in ``figures.py``, with w = 0.2 s, and ``real.py``. Batches have 500 rows; rows held are those
after each batch. Sets that are absent are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from lakehouse.queries.pairs.query import SPARE_ROWS
from tests.benchmarks import page
from tests.benchmarks.late_join.figures import soccer
from tests.benchmarks.late_join.real import REAL, RECALLS, SETS
from tests.benchmarks.late_join.run import Case, periods, run_in_buckets

BATCH_ROWS, BUCKETS = 500, 8
STREAMS: dict[str, Callable[[], Case]] = {
    "D1": partial(soccer, 0.2, False, "D1", 4),
    "D1, one ball": partial(soccer, 0.2, False, "D1", 1),
    "D2": partial(soccer, 0.2, False, "D2", 4),
    **{name: SETS[name] for name in SETS if name != "lorawan-sensors"},
}
DEFAULT, BY_SOURCE = "needed slack", "per source"
POLICIES: dict[str, type[NeededSlack]] = {DEFAULT: NeededSlack, BY_SOURCE: PerSource}


def figures(quick: bool) -> dict[str, Any]:
    """Return, by set, recall, policy and spare rows: periods met and scored, mean and peak rows held."""
    absent = {name for name in SETS if not (REAL / name.split()[0]).is_dir()}
    names = [name for name in STREAMS if name not in absent]
    rows: list[list[Any]] = []
    for name in ["ooo-umts d-1"] if quick and "ooo-umts d-1" not in absent else [] if quick else names:
        case = STREAMS[name]()
        rows += [[name, recall, *way] for recall in RECALLS for way in _judged(case, recall)]
    if not quick and not absent:
        _write(rows)
    return {
        "registered_skipped": sorted(absent),
        "registered": {
            f"{name}_q{recall:g}_{policy}_{buckets}_spare{spare}": [met, scored, round(mean), peak]
            for name, recall, policy, buckets, spare, scored, met, mean, peak, _ in rows
        },
    }


def _judged(case: Case, recall: float) -> list[list[Any]]:
    of_default = BUCKETS if isinstance(case.condition, Equality) else 1
    ways = [
        (name, n, spare) for name, n in ((DEFAULT, of_default), (BY_SOURCE, 1)) for spare in (0, SPARE_ROWS)
    ]
    ways += [
        (name, BUCKETS, SPARE_ROWS) for name, n in ((DEFAULT, of_default), (BY_SOURCE, 1)) if n != BUCKETS
    ]
    return [[*way, *_told(case, recall, *way)] for way in ways]


def _told(case: Case, recall: float, name: str, buckets: int, spare: int) -> list[Any]:
    made = partial(POLICIES[name], recall, case.period_us, case.step_us, spare=spare)
    found = run_in_buckets(case, [made() for _ in range(buckets)], BATCH_ROWS)
    met, scored = periods(case, found).met(recall)
    return [scored, met, found.mean_held, found.peak_held, found.logged_share]


def _write(rows: list[list[Any]]) -> None:
    heads = ["set", "recall", "policy", "buckets", "spare rows", "periods", "met"]
    page.write(
        "late_join",
        "registered",
        "Policies of registered queries",
        __doc__ or "",
        page.table([*heads, "mean held", "peak held", "logged"], rows),
    )
