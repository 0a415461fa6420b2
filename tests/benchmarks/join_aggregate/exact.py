"""Aggregates of whole numbers and decimals beside those of doubles: how many times a double's processor time they take.

Two streams by one key, and three in a chain by view trees: 10,000 rows a batch of 1,000 keys, in windows of ten
batches. A bucket takes batches as a task does, from the columns of rows to the parts of answers. Values are whole
hundredths, or need all digits of their type. Columns take turns, and each ratio is one of medians of some batches once
windows are full.
"""

import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.queries.aggregate.bucket import HeldAggregate
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from tests.benchmarks import page
from tests.queries.declared_streams import aggregate_of, stream_of

SECOND, ROWS, KEYS, WINDOW = 1_000_000, 10_000, 1_000, 10
KINDS: dict[str, tuple[Any, int]] = {
    "double": ("double", 0),
    "int": ("int", 10**4),
    "long int": ("int", 2**62),
    "decimal": ({"type": "decimal", "decimals": 2}, 10**4),
    "long decimal": ({"type": "decimal", "decimals": 2}, 10**34),
}
JOINS = {
    "pair": "a [10 SECONDS], b [10 SECONDS] WHERE a.k = b.k",
    "chain": "a [10 SECONDS], b [10 SECONDS], c [10 SECONDS] WHERE a.k = b.k AND b.n = c.n",
}


def figures(quick: bool) -> dict[str, Any]:
    """Return times a double's time by join, function and column."""
    batches = 3 if quick else 15
    found = {f"{join} {call}": _ratios(join, call, batches) for join in JOINS for call in ("SUM", "MAX")}
    if not quick:
        lines = [[asked, *own.values()] for asked, own in found.items()]
        page.write(
            "join_aggregate",
            "exact",
            "Exact numbers beside doubles",
            __doc__ or "",
            page.table(["asked", "double, ms a batch", *list(KINDS)[1:]], lines),
        )
    return {"exact_times_double": found}


def _ratios(join: str, call: str, batches: int) -> dict[str, float]:
    held = {kind: HeldAggregate(query, shape_of(query)) for kind, query in _queries(join, call).items()}
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for batch in range(WINDOW + 1 + batches):
        for kind, own in held.items():
            rows = _rows(batch, kind, 3 if join == "chain" else 2)
            started = time.process_time()
            own.process(rows, (batch + 1) * SECOND - 1)
            spent[kind].append(time.process_time() - started)
    medians = {kind: float(np.median(own[-batches:])) for kind, own in spent.items()}
    double = medians.pop("double")
    return {"double_ms": round(double * 1000, 2)} | {
        kind: round(own / double, 2) for kind, own in medians.items()
    }


def _queries(join: str, call: str) -> dict[str, AggregateQuery]:
    text = f"SELECT {call}(a.v) AS m FROM {JOINS[join]} EVERY 1 SECOND"
    return {
        kind: aggregate_of(
            "q",
            text,
            {
                name: stream_of(
                    name=name,
                    columns={"k": "int", "n": "int", "v": column},
                    keys=["k"],
                    groupings=[[]],
                    measures=["v"],
                )
                for name in "abc"
            },
        )
        for kind, (column, _) in KINDS.items()
    }


def _rows(batch: int, kind: str, sides: int) -> pa.Table:
    rng, most = np.random.default_rng(batch), KINDS[kind][1]
    side, event = np.arange(ROWS) % sides, batch * SECOND + np.arange(ROWS) * (SECOND // ROWS)
    drawn = rng.integers(-(10**4), 10**4, ROWS)
    whole = [int(number) * most // 10**4 for number in drawn]
    values: pa.Array = pa.array(drawn / 100)
    if kind.endswith("decimal"):
        values = pa.array([Decimal(number).scaleb(-2) for number in whole], pa.decimal128(38, 2))
    elif kind.endswith("int"):
        values = pa.array(whole, pa.int64())
    keys = {f"k_{number}": pa.array(rng.integers(0, KEYS, ROWS)) for number in range(sides - 1)}
    return pa.table(
        {"side": side.astype(np.int8), "event_us": event, "row": np.arange(ROWS), "v_0_0": values} | keys
    )
