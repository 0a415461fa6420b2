"""Waits of the repaired pairs of a join, over event time. Cost: one pass over the pairs' times."""

from typing import Any

import duckdb

_WAITED = {
    "wait_mean_us": "avg(wait_us)",
    "repaired_wait_mean_us": "avg(wait_us) FILTER (found = 'repair')",
    "repaired_wait_p99_us": "quantile_disc(wait_us, 0.99) FILTER (found = 'repair')",
    "repaired_wait_max_us": "max(wait_us) FILTER (found = 'repair')",
}
WAITS = tuple(_WAITED)
_COUNTS = ("pairs", "repaired")


def waits_in_sql() -> str:
    """Return the columns ``WAITS`` as SQL over pairs."""
    return ", ".join(f"{of} AS {name}" for name, of in _WAITED.items())


def waits_over_time(connection: duckdb.DuckDBPyConnection, pairs: str, points: int) -> list[dict[str, Any]]:
    """Return at most so many parts of event time, each with its pairs and how long the repaired ones waited.

    ``pairs``: the text after FROM, with columns event_us, found and wait_us.
    """
    low, high = connection.execute(f"SELECT min(event_us), max(event_us) FROM {pairs}").fetchall()[0]
    if low is None:
        return []
    width = -(-(high - low + 1) // points)
    rows = connection.execute(
        f"SELECT (event_us - {low}) // {width} AS stretch, count(*), "
        f"count(*) FILTER (found = 'repair'), {waits_in_sql()} FROM {pairs} GROUP BY stretch"
    ).fetchall()
    found = {row[0]: row[1:] for row in rows}
    nothing = (0, 0, *[None] * len(WAITS))
    return [
        {"from_us": low + number * width, "to_us": low + (number + 1) * width}
        | dict(zip((*_COUNTS, *WAITS), found.get(number, nothing), strict=True))
        for number in range((high - low) // width + 1)
    ]
