"""Cost of a condition over Arrow rows: as queries evaluate it with pyarrow, and by DuckDB on one core.

    python -m tests.benchmarks.conditions [--quick] [--json]

Milliseconds, the best of several turns, for 1,000 rows and more; each name says which condition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from lakehouse.queries.runtime.tasks.arrow_sql import mask_of
from tests.benchmarks.parts import run_parts

CONDITIONS = {
    "equal": "proto = 'tcp'",
    "like": "src LIKE '192.168.1%'",
    "ilike": "NOT src ILIKE '%.7.%'",
    "sum": "bytes > 500000 AND temp * 2 - 1 < 40",
    "decimal": "volts > 500.0005",
    "logic": "proto IN ('tcp', 'udp') AND (bytes BETWEEN 5 AND 90000 OR temp > 30)",
}
ROWS, QUICK_ROWS = (1_000, 100_000, 1_000_000), (1_000,)
TURNS = 5


def figures(quick: bool) -> dict[str, float]:
    """Return the time of each condition both ways."""
    found: dict[str, float] = {}
    for count in QUICK_ROWS if quick else ROWS:
        rows = rows_of(count)
        table = pa.Table.from_batches([rows])
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.register("rows", table)
            for name, text in CONDITIONS.items():
                found[f"{name}_{count}_ms"] = best_ms(partial(mask_of(text), rows))
                found[f"{name}_{count}_duckdb_ms"] = best_ms(partial(by_duckdb, connection, text))
    return found


def by_duckdb(connection: duckdb.DuckDBPyConnection, condition: str) -> pa.Table:
    """Return for each row whether a condition holds."""
    return connection.execute(f"SELECT coalesce({condition}, false) FROM rows").to_arrow_table()


def rows_of(count: int) -> pa.RecordBatch:
    """Return rows of random numbers and of texts that repeat."""
    random = np.random.default_rng(1)
    whole = pa.array(random.integers(0, 10**6, count))
    return pa.record_batch(
        {
            "proto": pa.array(np.array(["tcp", "udp", "icmp"])[random.integers(0, 3, count)]),
            "src": pa.array([f"192.168.{number % 7}.{number % 251}" for number in range(count)]),
            "bytes": whole,
            "temp": pa.array(random.normal(20, 9, count)),
            "volts": whole.cast(pa.decimal128(38, 0)).cast(pa.decimal128(38, 3)),
        }
    )


def best_ms(work: Callable[[], object]) -> float:
    """Return the shortest of several times, after one that is not counted."""
    taken = []
    for _ in range(TURNS + 1):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return round(min(taken[1:]), 3)


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("conditions",))
