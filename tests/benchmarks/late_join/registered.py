"""Both of our policies as registered queries have them: in buckets, batch after batch, with and without spare rows.

The default divides its rows into eight buckets; a right row within a distance is used in up to nine cells, so it may be
held several times. Slack by source has one bucket, as sources of these streams send rows of several keys. In eight
buckets a source would look silent in each while it sends to another: *eight buckets* shows what that would cost.

Streams and conditions as in ``figures.py``, with w = 0.2 s, and ``real.py``. Batches have 500 rows; rows held are those
after each batch. Sets that are absent are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
WAYS: tuple[tuple[str, type[NeededSlack], int, int], ...] = (
    ("needed slack", NeededSlack, BUCKETS, 0),
    ("needed slack", NeededSlack, BUCKETS, SPARE_ROWS),
    ("per source", PerSource, 1, 0),
    ("per source", PerSource, 1, SPARE_ROWS),
    ("per source, eight buckets", PerSource, BUCKETS, SPARE_ROWS),
)


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
            f"{name}_q{recall:g}_{policy}_spare{spare}": [met, scored, round(mean), peak]
            for name, recall, policy, _, spare, scored, met, mean, peak, _ in rows
        },
    }


def _judged(case: Case, recall: float) -> list[list[Any]]:
    rows = []
    for name, kind, buckets, spare in WAYS:
        policies = [kind(recall, case.period_us, case.step_us, spare=spare) for _ in range(buckets)]
        found = run_in_buckets(case, policies, BATCH_ROWS)
        met, scored = periods(case, found).met(recall)
        rows.append([name, buckets, spare, scored, met, found.mean_held, found.peak_held, found.logged_share])
    return rows


def _write(rows: list[list[Any]]) -> None:
    heads = ["set", "recall", "policy", "buckets", "spare rows", "periods", "met"]
    page.write(
        "late_join",
        "registered",
        "Policies of registered queries",
        __doc__ or "",
        page.table([*heads, "mean held", "peak held", "logged"], rows),
    )
