"""A batch joined at once, without counting: every row of the windows meets every other that it joins.

    rows of the batch and of its windows -> one join of all sides -> results that have a row of the batch

Spark plans it as it would plan the same join written in SQL, and shuffles each side once, by its key.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.queries.multiway.route import joined, results_of, shown_of

if TYPE_CHECKING:
    from lakehouse.queries.multiway.windows import SeenRows


def plain_results(seen: SeenRows) -> DataFrame:
    """Return the results that have a new row."""
    query = seen.query
    found, visited = shown_of(seen.whole(0), query, 0, "is_new"), [0]
    for stop in range(1, len(query.sides)):
        found = joined(found, shown_of(seen.whole(stop), query, stop, "is_new"), query, visited, stop)
        visited.append(stop)
    has_new = reduce(Column.__or__, [F.col(f"is_new_{side}") for side in visited])
    return results_of(found.where(has_new), query, "online")
