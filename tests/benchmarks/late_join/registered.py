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
from lakehouse.algorithms.late_join.margin import SPARE_ROWS
from tests.benchmarks import page
from tests.benchmarks.late_join.aims import STREAMS as SOCCER
from tests.benchmarks.late_join.aims import WINDOW_S
from tests.benchmarks.late_join.figures import BY_SOURCE, OURS, soccer
from tests.benchmarks.late_join.real import REAL, RECALLS, SETS
from tests.benchmarks.late_join.run import Case, periods, run_in_buckets
from tests.benchmarks.late_join.short_windows import BATCH_ROWS, BUCKETS, POLICIES

STREAMS: dict[str, Callable[[], Case]] = {
    **{stream: partial(soccer, WINDOW_S, False, *of) for stream, of in SOCCER.items()},
    **{name: SETS[name] for name in SETS if name != "lorawan-sensors"},
}
QUICK = ("ooo-umts d-1",)


def figures(quick: bool) -> dict[str, Any]:
    """Return, by set, recall, policy and spare rows: periods met and scored, mean and peak rows held."""
    absent = {name for name in SETS if not (REAL / name.split()[0]).is_dir()}
    rows = [
        [name, recall, *way]
        for name in (QUICK if quick else STREAMS)
        if name not in absent
        for case in [STREAMS[name]()]
        for recall in (RECALLS[:1] if quick else RECALLS)
        for way in _judged(case, recall)
    ]
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
    as_registered = {OURS: BUCKETS if isinstance(case.condition, Equality) else 1, BY_SOURCE: 1}
    ways = [(name, buckets, spare) for name, buckets in as_registered.items() for spare in (0, SPARE_ROWS)]
    before = [(name, BUCKETS, SPARE_ROWS) for name, buckets in as_registered.items() if buckets != BUCKETS]
    return [[*way, *told(case, recall, *way)] for way in (*ways, *before)]


def told(case: Case, recall: float, name: str, buckets: int, spare: int) -> list[Any]:
    """Return periods scored and met, mean and peak rows held, and the share of rows logged."""
    policy = partial(POLICIES[name], recall, case.period_us, case.step_us, spare=spare)
    found = run_in_buckets(case, policy, buckets, BATCH_ROWS)
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
